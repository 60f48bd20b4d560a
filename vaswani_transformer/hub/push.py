# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Push a model folder to the Hub in one commit.

Only files that `files.RUN_FILES` marks as `on_hub` are uploaded.
"""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from huggingface_hub import CommitInfo, CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import HfHubHTTPError
from transformers.dynamic_module_utils import get_relative_import_files

from ..configuration_vaswani_transformer import VaswaniTransformerConfig
from ..files import (
    CARD_FILE,
    CODE_FILES,
    CONFIG_FILE,
    RECIPE_FILE,
    RUN_FILES,
    TEST_RESULTS_PATTERN,
    TOKENIZER_FILES,
    TRAIN_RESULTS_FILE,
    check_no_link_out,
    json_text,
    read_json,
    read_json_if_any,
    write_text,
)
from ..inference.loading import is_hub_id
from ..recipe import as_list
from .card import add_metadata, load_card, refresh_card, without_folders

_PUBLISHED = tuple(file.name for file in RUN_FILES if file.on_hub)
_DELETED = (*_PUBLISHED, ".eval_results/vaswani_transformer.yaml")  # 0.2.0 pushed the YAML file


def push_model(
    model: str | Path,
    repo_id: str,
    *,
    license: str | None = None,
    private: bool | None = None,
    revision: str | None = None,
    tag: str | None = None,
    token: str | None = None,
) -> CommitInfo:
    """Upload a model with its code, card, recipe and results to the Hub in one commit.

    Checkpoints, snapshots and the training state are never uploaded. Local paths in uploaded files
    are shortened to their last part. The same commit deletes files that an earlier model left in
    the repo, if this model has no file of the same name.

    Args:
        model: Folder of a model.
        repo_id: USER/NAME or ORGANIZATION/NAME. The repo is created if missing.
        license: The Hub's name for the license of the model. It is also written into the folder's
            card. None means the license in this card.
        private: True makes a new repo private and refuses an existing public repo. None means that
            a new repo gets the default of the organization, and is public if there is no default.
        revision: Branch to commit to, created if missing. None means main.
        tag: Tag to create for this commit. The repo must not have it.
        token: Hub token with write access. None means the token from `hf auth login` or `HF_TOKEN`.

    Raises:
        FileNotFoundError: If the folder lacks a file of the model, its code or its card.
        ValueError: If the folder does not hold a model of this package, a file is a link to a file
            outside the folder, the card has no license or has invalid metadata, `private` is True
            and the repo is public, or the repo already has the tag.
        OSError: If the Hub cannot be reached or refuses the push.

    Example:
        >>> push_model("runs/quickstart", "me/quickstart-en-de", license="cc-by-2.0", tag="v1")
    """
    folder = Path(model)
    needed = [CONFIG_FILE, *TOKENIZER_FILES, "model*.safetensors", CARD_FILE]
    missing = [name for name in needed if not any(folder.glob(name))]
    if missing:
        raise FileNotFoundError(
            f"`model` must be the folder of a whole model with its card, got {folder} without "
            f"{missing[0]}. Let the training finish. `average` and other trainers write no "
            f"{CARD_FILE}: write it yourself (https://huggingface.co/docs/hub/model-cards), or "
            "call trainer.create_model_card()."
        )
    kind = read_json(folder / CONFIG_FILE).get("model_type")
    if kind != VaswaniTransformerConfig.model_type:
        raise ValueError(
            f"`model` must be a model of this package, got {folder} with one of type {kind!r}. "
            f"Upload a Marian export with `hf upload {repo_id} {folder}`."
        )
    published_files(folder)  # check all files before a repo is created
    card = load_card(folder / CARD_FILE)
    add_metadata(card, {"license": license})
    if not card.data.get("license"):
        raise ValueError(
            f"`license` must be given, got none, and {folder / CARD_FILE} names none. Pass the "
            "license under which you publish it, such as cc-by-4.0 or apache-2.0 "
            "(https://huggingface.co/docs/hub/repositories-licenses)."
        )
    card.validate()
    api = HfApi(token=token)
    # `create_repo` returns the full id, with the owner.
    repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
    if private and not api.model_info(repo_id).private:
        raise ValueError(
            f"`private` must not be set for a public repo, got {repo_id}. Make it private in its "
            "settings first, or push to another repo."
        )
    if tag and tag in [ref.name for ref in api.list_repo_refs(repo_id).tags]:
        raise ValueError(
            f"`tag` must be new, got {tag!r}, which {repo_id} has. Choose another tag."
        )
    if license:
        write_text(folder / CARD_FILE, str(card))
    commit = upload(api, folder, repo_id, None, revision, tag)
    if tag is not None:
        try:
            api.create_tag(repo_id, tag=tag, revision=commit.oid)
        except HfHubHTTPError as error:
            raise OSError(
                f"The model was pushed to {repo_id} as {commit.oid}, but the tag {tag!r} was not "
                f"created ({error})."
            ) from error
    return commit


def published_files(folder: Path) -> list[Path]:
    """List the files that a push of a folder would upload.

    Raises:
        FileNotFoundError: If the config names code that the folder lacks.
        ValueError: If a file is a link to a file outside the folder, or names a base model that is
            not on the Hub.
    """
    patterns = [pattern for pattern in _PUBLISHED if pattern != CODE_FILES]
    files = sorted(_code(folder).union(*map(folder.glob, patterns)))
    for path in files:
        check_no_link_out(path, folder)
        _check_base_model(path)
    return files


def _check_base_model(path: Path) -> None:
    """Raise ValueError if a card or an adapter names a base model that is not on the Hub."""
    bases: Any = []
    if path.name == "adapter_config.json":
        bases = [read_json(path).get("base_model_name_or_path")]
    elif path.name == CARD_FILE:
        bases = load_card(path).data.get("base_model")
    for base in as_list(bases):
        if not is_hub_id(str(base)):
            raise ValueError(
                f"`{path}` must name a base model on the Hub, got {base!r}. Push that model first "
                "and load it by its id, or merge the adapter into it. In a card, you can also "
                "delete the line."
            )


def upload(
    api: HfApi,
    folder: Path,
    repo_id: str,
    message: str | None,
    revision: str | None,
    tag: str | None = None,
) -> CommitInfo:
    """Commit the files of `published_files`, and delete outdated ones from the repo.

    A file of the repo is outdated if a push could have uploaded it and the folder lacks it. Before
    the commit, a generated card is rewritten, so that its example loads the model from this repo
    and revision. The card names the tag as the revision if there is a tag, else the branch.
    """
    refresh_card(folder, repo_id, tag or revision)
    added = [addition(path) for path in published_files(folder)]
    if revision is not None:
        api.create_branch(repo_id, branch=revision, exist_ok=True)
    names = {each.path_in_repo for each in added}
    outdated = [
        CommitOperationDelete(name)
        for name in api.list_repo_files(repo_id, revision=revision)
        if name not in names
        and any(
            fnmatch(name, pattern) and name.count("/") == pattern.count("/") for pattern in _DELETED
        )
    ]
    return api.create_commit(
        repo_id,
        added + outdated,
        commit_message=message or "Upload translation model",
        revision=revision,
    )


def _code(folder: Path) -> set[Path]:
    """Return the code files listed in a folder's config, and the files that they import."""
    config = read_json_if_any(folder / CONFIG_FILE)
    references = [
        *(config.get("auto_map") or {}).values(),
        *(pipeline["impl"] for pipeline in (config.get("custom_pipelines") or {}).values()),
    ]
    files = {folder / f"{reference.split('.')[0]}.py" for reference in references}
    return files.union(*(map(Path, get_relative_import_files(path)) for path in files))


def addition(path: Path) -> CommitOperationAdd:
    """Return the commit operation that adds a file.

    In recipes and results, local paths are shortened to their last part.
    """
    content: Path | bytes = path
    if any(
        fnmatch(path.name, name) for name in (RECIPE_FILE, TRAIN_RESULTS_FILE, TEST_RESULTS_PATTERN)
    ):
        content = json_text(without_folders(read_json(path))).encode()
    return CommitOperationAdd(path_in_repo=path.name, path_or_fileobj=content)
