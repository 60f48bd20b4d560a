# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What of a folder is published, and what is refused before anything is sent; tests/test_hub.py has
the rest.
"""

import json
from types import SimpleNamespace

import pytest
from huggingface_hub import CommitOperationDelete, HfApi
from processes import HUB_FILES

from vaswani_transformer.hub.push import published_files, push_model
from vaswani_transformer.training.trainer import VaswaniTransformerTrainer

CODE = {path.name: path.read_bytes() for path in HUB_FILES}
PUBLISHED = CODE.keys() | {
    "README.md",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}


class Hub:
    """What `push_model` asks of the Hub: a public repo of "me", which bare names lead to, with
    files of its own.
    """

    def __init__(self, **_):
        self.deleted = []

    def create_repo(self, repo_id, **_):
        return SimpleNamespace(repo_id=f"me/{repo_id.rpartition('/')[2]}")

    def model_info(self, repo_id):
        assert repo_id.startswith("me/")
        return SimpleNamespace(private=False)

    def list_repo_files(self, repo_id, revision=None):
        return [
            "model-old.safetensors",
            "models/small.safetensors",
            "adapter_de/notes.md",
            "onnx/model.onnx",
        ]

    def create_commit(self, repo_id, operations, **_):
        self.deleted += [
            each.path_in_repo for each in operations if isinstance(each, CommitOperationDelete)
        ]


def test_model_for_a_private_repo_is_not_pushed_to_a_public_one(folder, monkeypatch):
    monkeypatch.setattr("vaswani_transformer.hub.push.HfApi", Hub)
    monkeypatch.setattr("huggingface_hub.ModelCard.validate", lambda *_: None)  # which asks the Hub
    with pytest.raises(
        ValueError, match="`private` must not be set for a public repo, got me/secret"
    ):
        push_model(folder, "secret", private=True)


def test_model_of_another_architecture_is_not_pushed(folder):
    (folder / "config.json").write_text('{"model_type": "marian"}')
    with pytest.raises(ValueError, match="got .* of type 'marian'. .* `hf upload me/model "):
        push_model(folder, "me/model")


def test_push_deletes_files_of_an_earlier_model_but_none_in_folders_of_the_users(
    folder, monkeypatch
):
    hub = Hub()
    monkeypatch.setattr("vaswani_transformer.hub.push.HfApi", lambda **_: hub)
    monkeypatch.setattr("huggingface_hub.ModelCard.validate", lambda *_: None)  # which asks the Hub
    push_model(folder, "me/model")
    assert hub.deleted == ["model-old.safetensors"]


@pytest.mark.parametrize(("given", "found"), [(None, "mit"), ("cc-by-4.0", "cc-by-4.0")])
def test_license_of_the_option_wins_and_stays_in_the_card(folder, monkeypatch, given, found):
    validated = []
    monkeypatch.setattr("vaswani_transformer.hub.push.HfApi", Hub)
    monkeypatch.setattr(
        "huggingface_hub.ModelCard.validate", lambda card: validated.append(card.data.license)
    )
    push_model(folder, "me/model", license=given)
    assert validated == [found]
    assert (folder / "README.md").read_text() == f"---\nlicense: {found}\n---\n# A model\n"


def test_license_that_the_hub_refuses_does_not_stay_in_the_card(folder, monkeypatch):
    def refuse(_):
        raise ValueError('"license" must be one of [...]')

    monkeypatch.setattr("huggingface_hub.ModelCard.validate", refuse)
    before = (folder / "README.md").read_text()
    with pytest.raises(ValueError, match="must be one of"):
        push_model(folder, "me/model", license="nonsense")
    assert (folder / "README.md").read_text() == before


@pytest.fixture
def folder(folder):
    """A saved model with a card."""
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# A model\n")
    return folder


def names(folder):
    return {path.name for path in published_files(folder)}


def test_published_code_is_the_packages_and_none_of_an_earlier_version(folder):
    (folder / "linear_vaswani_transformer_0_1_0.py").write_text("")
    (folder / "earlier_vaswani_transformer.py").write_text("")
    published = {path.name: path.read_bytes() for path in published_files(folder)}
    assert {name: code for name, code in published.items() if name.endswith(".py")} == CODE


def test_never_published_is_the_state_of_a_training(folder):
    """Nor what test_hub.py has in its runs."""
    before = names(folder)
    state = "optimizer.pt notes.txt pytorch_model.bin after-2-updates-test_results.json"
    for name in state.split():
        (folder / name).write_bytes(b"")
    (folder / "_unfinished").mkdir()
    (folder / "_unfinished" / "model.safetensors").write_bytes(b"")
    assert names(folder) == before


def test_published_are_shards_with_their_index(folder, tiny_model):
    (folder / "model.safetensors").unlink()
    tiny_model.save_pretrained(folder, max_shard_size="10KB")
    shards = {path.name for path in folder.glob("model-*.safetensors")}
    assert len(shards) > 1
    assert names(folder) == PUBLISHED - {"model.safetensors"} | shards | {
        "model.safetensors.index.json"
    }


@pytest.mark.parametrize(
    "name", ["README.md", "tokenizer.json", "model.safetensors", "loss_vaswani_transformer.py"]
)
def test_incomplete_folder_is_refused_by_what_it_lacks(name, folder):
    (folder / name).unlink()
    (folder / "pytorch_model.bin").write_bytes(b"pickled weights are none")
    with pytest.raises(FileNotFoundError, match=name.replace("model.", r"model\*\.")):
        push_model(folder, "me/model") if not name.endswith(".py") else published_files(folder)


@pytest.mark.parametrize(
    "place",
    [
        "stranger/repo--modeling_vaswani_transformer.X",
        "../modeling_vaswani_transformer.X",
        "/etc/passwd.X",
        "os.system",
    ],
)
@pytest.mark.parametrize("key", ["auto_map", "custom_pipelines"])
def test_config_that_names_code_of_another_place_is_not_pushed(key, place, folder):
    config = json.loads((folder / "config.json").read_text())
    config[key] |= {"AutoModel": place} if key == "auto_map" else {"translation": {"impl": place}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(FileNotFoundError):
        published_files(folder)


@pytest.mark.parametrize(
    "name", ["README.md", "test_results-x.json", "loss_vaswani_transformer.py"]
)
def test_link_out_of_the_folder_is_not_pushed(name, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("vaswani_transformer.hub.push.HfApi", None)  # no repo is made
    (tmp_path / "secret").write_text("mine")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "secret")
    with pytest.raises(
        ValueError, match=f"must hold its files itself, got a link from .*{name} to {tmp_path}/sec"
    ):
        push_model(folder, "me/model")


@pytest.mark.parametrize(
    ("name", "base"),
    [
        *(
            ("adapter_config.json", base)
            for base in ("/home/me/runs/first", "runs/first", "../first", "", None)
        ),
        ("README.md", "/home/me/runs/first"),
        ("README.md", ["me/first", "runs/first"]),
    ],
)
def test_base_model_in_a_folder_is_not_pushed(name, base, folder, tmp_path, monkeypatch):
    (tmp_path / "runs" / "first").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    content = json.dumps({"base_model_name_or_path": base})
    if name == "README.md":
        content = f"---\nbase_model: {json.dumps(base)}\n---\n"
    (folder / name).write_text(content)
    got = base[1] if isinstance(base, list) else base
    with pytest.raises(
        ValueError, match=f"{name}` must name a base model on the Hub, got {got!r}. Push"
    ):
        published_files(folder)


def test_card_with_broken_metadata_is_named(folder):
    (folder / "README.md").write_text("---\nlicense: [a\n---\n")
    with pytest.raises(ValueError, match=r"README.md` must begin with metadata in YAML, got: "):
        published_files(folder)


@pytest.mark.parametrize("base", ["me/first", ["me/first", "you/second"]])
def test_base_model_on_the_hub_is_pushed(base, folder):
    (folder / "README.md").write_text(f"---\nbase_model: {json.dumps(base)}\n---\n")
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "me/first"}))
    assert names(folder) == PUBLISHED | {"adapter_config.json"}


def test_process_without_a_repo_pushes_nothing_at_a_save(make_trainer, tmp_path, monkeypatch):
    trainer = make_trainer()
    # the repo is made in the main process
    monkeypatch.setattr(trainer, "is_world_process_zero", lambda: False)
    trainer._push_from_checkpoint(str(tmp_path))
    assert trainer.hub_model_id is None


def test_a_hub_that_fails_stops_no_training(make_trainer, tmp_path, monkeypatch, caplog):
    def init(trainer, **kwargs):
        trainer.hub_model_id, trainer.push_in_progress = "author/model", None

    def fail(*arguments, **kwargs):
        raise ConnectionError("the Hub is down")

    monkeypatch.setattr(VaswaniTransformerTrainer, "init_hf_repo", init)
    monkeypatch.setattr(HfApi, "list_repo_files", fail)
    trainer = make_trainer(max_steps=6, save_strategy="steps", save_steps=2, push_to_hub=True)
    trainer.train()
    assert {path.name for path in (tmp_path / "run").glob("checkpoint-*")} == {
        f"checkpoint-{n}" for n in (2, 4, 6)
    }
    assert "A push in the background failed" in caplog.text and "the Hub is down" in caplog.text
    with pytest.raises(ConnectionError, match="the Hub is down"):
        trainer.push_to_hub()
