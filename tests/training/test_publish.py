# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What of a folder is published, and which folders and names are refused before anything is sent."""

import json

import pytest
import torch
from huggingface_hub import ModelCard

from vaswani_transformer.training.publish import published_files, push_model

PUBLISHED = {
    "README.md",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}


@pytest.fixture
def folder(tiny_model, tiny_tokenizer, tmp_path):
    """A saved model with a card."""
    tiny_model.save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    (tmp_path / "README.md").write_text("# A model\n")
    return tmp_path


def names(folder):
    return {path.name for path in published_files(folder)}


def test_published_are_the_model_its_code_and_its_card(folder):
    assert names(folder) == PUBLISHED | {path.name for path in folder.glob("*_vaswani_transformer.py")}


def test_published_are_recipe_and_all_results_of_a_run(folder):
    results = {"recipe.json", "train_results.json", "test_results.json", "test_results-newstest2014.json"}
    for name in results:
        (folder / name).write_text("{}")
    assert results <= names(folder)


def test_published_are_the_pictures_that_the_card_shows(folder):
    (folder / "README.md").write_text('![Curves](curves.png)\n<img src="heads.SVG">\n')
    for name in ("curves.png", "heads.SVG", "unused.png"):
        (folder / name).write_bytes(b"")
    assert {"curves.png", "heads.SVG"} == {name for name in names(folder) if name.lower().endswith(("png", "svg"))}


def test_folder_without_a_card_is_refused_with_the_head_of_one(folder):
    (folder / "README.md").unlink()
    with pytest.raises(FileNotFoundError, match="must have a model card") as refused:
        published_files(folder)
    assert ModelCard(str(refused.value).partition("headed by\n")[2]).data.pipeline_tag == "translation"


def test_never_published_is_the_state_of_a_training(folder):
    before = names(folder)
    for name in ("training_args.bin", "optimizer.pt", "trainer_state.json", "notes.txt", "after-2-test_results.json"):
        (folder / name).write_bytes(b"")
    for name in ("checkpoint-2", "snapshots"):
        (folder / name).mkdir()
        (folder / name / "model.safetensors").write_bytes(b"")
    assert names(folder) == before


def test_published_are_shards_with_their_index(folder, tiny_model):
    (folder / "model.safetensors").unlink()
    tiny_model.save_pretrained(folder, max_shard_size="10KB")
    shards = {path.name for path in folder.glob("model-*.safetensors")}
    assert len(shards) > 1
    assert shards | {"model.safetensors.index.json"} <= names(folder)


def test_shards_beside_whole_weights_are_left_out(folder):
    for name in ("model-00001-of-00002.safetensors", "model.safetensors.index.json"):
        (folder / name).write_text("{}")
    assert not {"model-00001-of-00002.safetensors", "model.safetensors.index.json"} & names(folder)


def test_folder_without_a_card_is_refused(folder):
    (folder / "README.md").unlink()
    with pytest.raises(FileNotFoundError, match=r"must have a model card, got .* without README.md. Write one"):
        published_files(folder)


def test_run_without_a_card_is_refused_with_the_call_that_makes_it(folder):
    (folder / "README.md").unlink()
    for name in ("recipe.json", "train_results.json"):
        (folder / name).write_text("{}")
    with pytest.raises(FileNotFoundError, match=rf"card\.write_card\('{folder}'\)"):
        published_files(folder)


@pytest.mark.parametrize("module", ["configuration", "modeling", "pipeline", "search"])
def test_folder_without_a_file_of_code_is_refused_by_its_name(module, folder):
    (folder / f"{module}_vaswani_transformer.py").unlink()
    with pytest.raises(FileNotFoundError, match=f"without {module}_vaswani_transformer.py. Load the model and save"):
        published_files(folder)


@pytest.mark.parametrize(("key", "missing"), [("auto_map", "AutoConfig"), ("custom_pipelines", "a translation pipe")])
def test_config_that_does_not_name_the_code_is_refused(key, missing, folder):
    config = json.loads((folder / "config.json").read_text())
    del config[key]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=f"must have a config.json that names its code, got .* without {missing}"):
        published_files(folder)


def test_folder_without_tokenizer_is_refused(folder):
    (folder / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match="without tokenizer.json"):
        published_files(folder)


def test_pickled_weights_are_refused_by_name(folder):
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="in safetensors, got pickled weights pytorch_model.bin"):
        published_files(folder)


def test_another_architecture_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "bart"}))
    with pytest.raises(ValueError, match="`model_type` must be vaswani_transformer, got 'bart'"):
        published_files(folder)


@pytest.mark.parametrize("repo_id", ["model", "me/my/model", "me/my--model", "me/.model", "me/model.git", "me/mo del"])
def test_names_that_the_hub_refuses_are_refused(repo_id, folder):
    with pytest.raises(ValueError, match="`repo_id` must be USER/NAME, got"):
        push_model(folder, repo_id)


@pytest.mark.parametrize("name", ["revision", "tag"])
@pytest.mark.parametrize("ref", ["", "a b", "v1..v2", "-v1", "v1~", "v1.", "v1.lock", "v1/", "a//b", "é"])
def test_branches_and_tags_that_git_refuses_are_refused(name, ref, folder):
    with pytest.raises(ValueError, match=f"`{name}` must be a name as git takes it"):
        push_model(folder, "me/model", **{name: ref})
