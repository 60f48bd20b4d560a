# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from vaswani_transformer.inference.loading import check_model_path, load_for_inference


@pytest.fixture
def folder(tiny_model, tiny_tokenizer, tmp_path):
    """A complete saved model."""
    tiny_model.save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_load_for_inference_gives_the_saved_model_in_eval_mode(folder, tiny_model, tiny_tokenizer):
    model, tokenizer = load_for_inference(folder, device="cpu")
    assert not model.training
    assert tokenizer("A dog")["input_ids"] == tiny_tokenizer("A dog")["input_ids"]
    expected = tiny_model.state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in model.state_dict().items())


def test_load_for_inference_takes_shards(folder, tiny_model):
    (folder / "model.safetensors").unlink()
    tiny_model.save_pretrained(folder, max_shard_size="10KB")
    assert (folder / "model.safetensors.index.json").is_file()
    load_for_inference(folder, device="cpu")


def test_load_for_inference_refuses_pickled_weights(folder):
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(OSError, match="no file named model.safetensors"):
        load_for_inference(folder)


def test_load_for_inference_says_of_an_adapter_that_it_must_be_merged(folder):
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"got a PEFT adapter .*merge_and_unload"):
        load_for_inference(folder)


def test_load_for_inference_says_what_a_folder_without_a_model_is(tmp_path):
    with pytest.raises(ValueError, match="without config.json. .* checkpoint-"):
        load_for_inference(tmp_path, languages=(None, None))
    (tmp_path / "model.bin").touch()
    with pytest.raises(ValueError, match="an export for CTranslate2. .* the `engine` ctranslate2"):
        load_for_inference(tmp_path, languages=(None, None))


def test_load_for_inference_names_missing_and_unexpected_tensors(folder):
    weights = load_file(folder / "model.safetensors")
    weights["extra"] = weights.pop("model.encoder.layers.1.fc1.weight")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        ValueError, match=r"(?s)missing.*model\.encoder\.layers\.1\.fc1\.weight.*unexpected.*extra"
    ):
        load_for_inference(folder)


def test_load_for_inference_refuses_weights_of_another_width(folder):
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"d_ff": config["d_ff"] + 8}))
    with pytest.raises(
        ValueError, match=r"`model` must have tensors of the shapes that its config"
    ):
        load_for_inference(folder)


def test_load_for_inference_refuses_a_tokenizer_with_an_id_beyond_the_vocabulary(folder):
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    entries = tokenizer["model"]["vocab"]
    entries[max(entries, key=entries.get)] = 4_000_000_000
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(
        ValueError, match="at most the 300 entries of the model's vocabulary, got 4000000001"
    ):
        load_for_inference(folder)


@pytest.mark.parametrize("name", ["nowhere", "./runs/nowhere", "runs/nowhere", "/nowhere/at/all"])
def test_load_for_inference_refuses_a_folder_that_does_not_exist(name, tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()  # a folder missing beside others is not looked for on the Hub
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=f"`model` .* got {name}"):
        load_for_inference(name)


@pytest.mark.parametrize("name", [".", "owner/model-1.0"])
def test_check_model_path_takes_any_folder_and_what_looks_like_an_id_on_the_hub(
    name, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    check_model_path(name)


def test_a_device_that_is_not_there_is_told_before_the_model_is_read(folder, monkeypatch):
    monkeypatch.setattr(
        "transformers.PreTrainedModel.from_pretrained", lambda *args, **kwargs: 1 / 0
    )
    for device in ("cuda:99", "nonsense"):
        with pytest.raises(
            ValueError, match=f"`device` must be a device of this machine, got {device}"
        ):
            load_for_inference(folder, device=device)
