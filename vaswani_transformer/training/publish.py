# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""From a model's folder to a repo on the Hub: everything that others need, in one commit, and nothing else."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from huggingface_hub import (
    CommitInfo,
    CommitOperationAdd,
    CommitOperationDelete,
    HfApi,
    ModelCard,
    constants,
    get_token,
)
from huggingface_hub.errors import (  # type: ignore[attr-defined]  # HTTPError is there, but not declared to be
    HfHubHTTPError,
    HFValidationError,
    HTTPError,  # the HTTP client's own, whichever client this version of the library uses
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # imported there to be used
from transformers.utils import CONFIG_NAME, GENERATION_CONFIG_NAME, SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
from yaml import YAMLError

from ..evaluation.checkpoint import check_checkpoint_folder
from ..files import (
    CARD_FILE,
    CODE_FILES,
    RECIPE_FILE,
    TEST_RESULTS_PATTERN,
    TRAIN_RESULTS_FILE,
    check_no_link_out,
    read_json,
)
from ..version import __version__
from .folder import is_own_card
from .travelling_code import code_files, with_code_section

# Apart from the card's pictures, what a published model consists of; names of these kinds that the folder lacks are
# deleted from the repo, so that a repo never mixes the files of two models.
_PUBLISHED = (
    CARD_FILE,
    CONFIG_NAME,
    GENERATION_CONFIG_NAME,
    "tokenizer.json",
    "tokenizer_config.json",
    SAFE_WEIGHTS_NAME,
    SAFE_WEIGHTS_INDEX_NAME,
    "model-*.safetensors",
    CODE_FILES,
    RECIPE_FILE,
    TRAIN_RESULTS_FILE,
    TEST_RESULTS_PATTERN,
)
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp")
_REF = re.compile(r"[A-Za-z0-9_](?:[\w./-]*[\w-])?", re.ASCII)
_DEFAULT_BRANCH = constants.DEFAULT_REVISION


def push_model(
    model: str | Path,
    repo_id: str,
    *,
    private: bool | None = None,
    revision: str | None = None,
    tag: str | None = None,
    commit_message: str | None = None,
    token: str | None = None,
) -> CommitInfo:
    """Uploads the model of a folder to the Hub in one commit, ready to be used by its id with or without this package.

    What goes: weights, configuration, generation config, tokenizer, code, card with its pictures, recipe and results.
    What never goes: checkpoints, snapshots, the state of a training. Everything is checked before anything is sent.
    In an existing repo, files of those kinds that the folder does not have are deleted; others stay.

    Args:
        model: Folder of a model.
        repo_id: USER/NAME or ORGANISATION/NAME; the repo is made if there is none.
        private: Whether only you may see a new repo; None is the organisation's default, else public.
        revision: Branch that receives the commit, made if there is none; None is main.
        tag: Name for this commit, new in the repo.
        commit_message: First line of the commit's message.
        token: Token of the Hub with the right to write; None is that of `hf auth login` or `HF_TOKEN`.

    Raises:
        FileNotFoundError: The folder lacks a file; the message says how to come by it.
        ValueError: The folder holds no model of this package or pickled weights, or a name or the card is not valid.
        PermissionError: There is no token, or it does not give the right to write.
        ConnectionError: The Hub cannot be reached.

    Example:
        >>> push_model("runs/quickstart", "me/quickstart-en-de", tag="v1")
    """
    files = published_files(model)
    _check_names(repo_id, {"revision": revision, "tag": tag})
    api = HfApi(token=_token(token), library_name="vaswani_transformer", library_version=__version__)
    with _clear_errors(repo_id):
        _check_card(Path(model) / CARD_FILE)
        _check_repo(api, repo_id, private, tag)
        api.create_repo(repo_id, private=private, exist_ok=True)
        if revision not in (None, _DEFAULT_BRANCH):
            api.create_branch(repo_id, branch=revision, exist_ok=True)
        outdated = _outdated(api.list_repo_files(repo_id, revision=revision), files)
        commit = api.create_commit(
            repo_id,
            [_addition(path, repo_id) for path in files] + [CommitOperationDelete(name) for name in outdated],
            commit_message=commit_message or "Upload translation model",
            revision=revision,
        )
    if tag is not None:
        _tag(api, repo_id, tag, commit)
    return commit


def published_files(model: str | Path) -> list[Path]:
    """The files of a folder that make a published model.

    Args:
        model: Folder of a model.

    Raises:
        FileNotFoundError: A file is missing, of the code or the card, too.
        ValueError: It is no model of this package, its weights are pickled, its config names code of another place,
            or a file is a link out of the folder.
    """
    folder = Path(model)
    if not folder.is_dir():
        raise FileNotFoundError(f"`model` must be the folder of a model, got {model}, which is none. Check the path.")
    check_checkpoint_folder(folder)
    code = code_files(folder)
    if not (folder / CARD_FILE).is_file():
        raise FileNotFoundError(
            f"`model` must have a model card, got {folder} without {CARD_FILE}. {_advice_on_cards(folder)}"
        )
    left_out = ("model-*.safetensors", SAFE_WEIGHTS_INDEX_NAME) if (folder / SAFE_WEIGHTS_NAME).is_file() else ()
    patterns = [pattern for pattern in _PUBLISHED if pattern not in (CODE_FILES, *left_out)]
    files = code.union(*map(folder.glob, patterns))
    card = (folder / CARD_FILE).read_text(encoding="utf-8")
    files |= {path for path in folder.iterdir() if path.suffix.lower() in _PICTURES and path.name in card}
    published = sorted(path for path in files if path.is_file())
    for path in published:
        check_no_link_out(path, folder)
    return published


def _advice_on_cards(folder: Path) -> str:
    if (folder / RECIPE_FILE).is_file() and (folder / TRAIN_RESULTS_FILE).is_file():
        return f"This run's can be made in Python: vaswani_transformer.training.card.write_card({str(folder)!r})"
    config = read_json(folder / CONFIG_NAME)
    languages = [config[side] for side in ("source_language", "target_language") if config.get(side)]
    head = [
        "---",
        f"language: {json.dumps(languages)}",
        "library_name: transformers",
        "pipeline_tag: translation",
        "---",
    ]
    return "\n".join(["Write one that says what the model translates, learnt from and scores, headed by", *head])


def _check_names(repo_id: str, refs: dict[str, str | None]) -> None:
    """Raises ValueError on a name that the Hub would refuse, some only after the upload."""
    try:
        validate_repo_id(repo_id)
        reason = "" if repo_id.count("/") == 1 else "no user"
    except HFValidationError as error:
        reason = str(error).split(": '")[0]
    if reason:
        raise ValueError(f"`repo_id` must be USER/NAME, got {repo_id!r} ({reason}). Name a repo of yours.")
    for name, ref in refs.items():
        is_valid = ref is None or (_REF.fullmatch(ref) and not re.search(r"\.\.|//|/\.|\./|\.lock(/|$)", ref))
        if not is_valid:
            raise ValueError(
                f"`{name}` must be a name as git takes it, of letters, digits, dots, slashes, dashes and underscores, "
                f"got {ref!r}. Pass another name."
            )


def _token(token: str | None) -> str:
    token = token or get_token()
    if token is None:
        raise PermissionError(
            "`HF_TOKEN` must hold a token of the Hub with the right to write, or `hf auth login` must have stored "
            "one, got neither. Nothing was sent."
        )
    return token


def _check_card(path: Path) -> None:
    """Raises ValueError on a card whose front matter the library or the Hub refuses."""
    try:
        ModelCard.load(path).validate()
    except (ValueError, YAMLError) as error:
        raise ValueError(
            f"`{path}` must have valid metadata at its head, got {_messages(str(error))}. Nothing was sent."
        ) from error


def _messages(answer: str) -> str:
    """What an answer of the Hub's check says, or else the text itself on one line."""
    try:
        return "; ".join(error["message"] for error in json.loads(answer)["errors"])
    except (KeyError, TypeError, ValueError):
        return " ".join(answer.split())


def _check_repo(api: HfApi, repo_id: str, private: bool | None, tag: str | None) -> None:
    """Raises ValueError where an existing repo would be more public than asked for, or has the tag."""
    try:
        is_private = api.model_info(repo_id).private
    except RepositoryNotFoundError:
        return
    if private and not is_private:
        raise ValueError(
            f"`private` must not be set for a public repo, got {repo_id}. Nothing was sent; make it private in its "
            "settings first, or push to another."
        )
    if tag is not None and tag in [ref.name for ref in api.list_repo_refs(repo_id).tags]:
        raise ValueError(f"`tag` must be new, got {tag!r}, which {repo_id} has. Nothing was sent; name another.")


def _tag(api: HfApi, repo_id: str, tag: str, commit: CommitInfo) -> None:
    """Names a commit that is made already, and says so where that fails."""
    try:
        api.create_tag(repo_id, tag=tag, revision=commit.oid)
    except (HfHubHTTPError, HTTPError) as error:
        raise OSError(
            f"The model was pushed to {repo_id} as {commit.oid}, but the tag {tag!r} was not made "
            f"({' '.join(str(error).split())}). In Python: HfApi().create_tag({repo_id!r}, tag=..., revision=...)"
        ) from error


def _outdated(names: list[str], files: list[Path]) -> list[str]:
    """Files of a repo that belong to an earlier model: of the published kinds, but not published now."""
    kept = {path.name for path in files}
    return [name for name in names if name not in kept and any(fnmatch(name, pattern) for pattern in _PUBLISHED)]


def _addition(path: Path, repo_id: str) -> CommitOperationAdd:
    """A file as part of a commit; a card that this package wrote names the repo and the code that goes with it."""
    content: Path | bytes = path
    if path.name == CARD_FILE and is_own_card(path):
        card = with_code_section(path.read_text(encoding="utf-8"), code_files(path.parent))
        content = re.sub(r'"path/to/[^"]+"', f'"{repo_id}"', card).encode()
    return CommitOperationAdd(path_in_repo=path.name, path_or_fileobj=content)


@contextlib.contextmanager
def _clear_errors(repo_id: str) -> Iterator[None]:
    """Turns errors of the Hub's client into ones that say what to do."""
    try:
        yield
    except OfflineModeIsEnabled as error:
        raise ConnectionError("`HF_HUB_OFFLINE` must be unset to push, got it set. Nothing was sent.") from error
    except HfHubHTTPError as error:
        status, reason = error.response.status_code, error.server_message or " ".join(str(error).split())
        if status in (401, 403):
            raise PermissionError(
                f"`repo_id` must be one your token may write to, got {repo_id} ({status}: {reason}). Check the name, "
                "and the token's rights on https://huggingface.co/settings/tokens."
            ) from error
        advice = "Push again later." if status == 429 or status >= 500 else "Nothing was committed."
        raise OSError(f"The Hub refused the push to {repo_id} ({status}: {reason}). {advice}") from error
    except HTTPError as error:
        raise ConnectionError(
            f"The Hub must be reachable at {constants.ENDPOINT}, got an error ({error}). Check the network and "
            "`HF_ENDPOINT`, and push again: a push is one commit, made as a whole or not at all."
        ) from error
