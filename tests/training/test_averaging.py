# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import types

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import make_model

from vaswani_transformer import VaswaniTransformerForConditionalGeneration
from vaswani_transformer.training.averaging import (
    SnapshotCallback,
    average_checkpoints,
    average_snapshots,
    list_snapshots,
)


def write_snapshots(folder, models, *, num_kept=10):
    """Lets the callback write one snapshot per model, 5 updates apart, as it is called after every
    update.
    """
    callback = SnapshotCallback(5, num_kept)
    args = types.SimpleNamespace(output_dir=str(folder))
    for step in range(1, 5 * len(models) + 1):
        state = types.SimpleNamespace(global_step=step, is_world_process_zero=True)
        callback.on_step_end(args, state, None, model=models[(step - 1) // 5])


def weights(folder):
    return load_file(folder / "model.safetensors")


@pytest.fixture
def folders(tmp_path, tiny_tokenizer):
    """Folders of three models, named as checkpoints."""
    paths = [tmp_path / f"checkpoint-{step}" for step in (500, 9500, 10000)]
    for seed, path in enumerate(paths):
        make_model(seed).save_pretrained(path)
        tiny_tokenizer.save_pretrained(path)
    return paths


def test_callback_writes_the_tensors_of_save_pretrained(tmp_path, folders):
    write_snapshots(tmp_path, [make_model(0)])
    (snapshot,) = list_snapshots(tmp_path)
    torch.testing.assert_close(load_file(snapshot), weights(folders[0]), rtol=0, atol=0)


def test_callback_names_snapshots_by_step_and_keeps_the_newest(tmp_path):
    write_snapshots(tmp_path, [make_model(0)] * 4, num_kept=2)
    assert [path.stem for path in list_snapshots(tmp_path)] == ["step-00000015", "step-00000020"]


def test_average_equals_the_mean_computed_by_numpy(folders):
    average = average_snapshots(folders)
    name = "model.encoder.layers.0.fc1.weight"
    expected = np.mean([weights(path)[name].numpy().astype(np.float64) for path in folders], axis=0)
    assert np.array_equal(average[name].numpy(), expected.astype(np.float32))


def test_average_of_bfloat16_is_rounded_once(tmp_path):
    values = torch.tensor([1.0, 1.0078125, 1.0078125], dtype=torch.bfloat16)
    for index in range(3):
        save_file({"w": values[index]}, tmp_path / f"{index}.safetensors")
    mean = average_snapshots([*tmp_path.iterdir()])["w"]
    assert mean == values.double().mean().bfloat16()


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"a": 1, "c": 1}, "one of the two lacks b"),
        ({"a": 1}, "one of the two lacks b"),
        ({"a": 2, "b": 1}, "`a` must have one shape"),
    ],
)
def test_average_names_tensors_that_do_not_fit(tmp_path, sizes, message):
    paths = [tmp_path / "1.safetensors", tmp_path / "2.safetensors"]
    for path, each in zip(paths, ({"a": 1, "b": 1}, sizes), strict=True):
        save_file({name: torch.zeros(size) for name, size in each.items()}, path)
    with pytest.raises(ValueError, match=message):
        average_snapshots(paths)


@pytest.mark.parametrize(
    ("file", "key"),
    [("config.json", "num_heads"), ("config.json", "target_language"), ("tokenizer.json", "model")],
)
def test_average_refuses_models_of_different_kinds(tmp_path, folders, file, key):
    path = folders[0] / file
    path.write_text(json.dumps({**json.loads(path.read_text()), key: "other"}))
    says = f"{folders[0]} and {folders[2]} with different `{key}` in their {file}"
    with pytest.raises(ValueError, match=says):
        average_checkpoints(folders, tmp_path / "mean")


def test_average_refuses_pickled_weights_by_name(tmp_path):
    torch.save({"a": torch.zeros(1)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors"):
        average_snapshots([tmp_path])


def test_average_refuses_a_truncated_file_by_name(folders):
    os.truncate(folders[1] / "model.safetensors", 50)
    with pytest.raises(
        ValueError, match=r"9500/model.safetensors` must be a whole safetensors file"
    ):
        average_snapshots(folders)


def test_average_copies_nothing_that_a_link_leads_to(tmp_path, folders):
    (tmp_path / "secret").write_text("{}")
    (folders[2] / "recipe.json").symlink_to(tmp_path / "secret")
    with pytest.raises(
        ValueError, match="must hold its files itself, got a link from .*recipe.json"
    ):
        average_checkpoints(folders, tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


def test_average_checkpoints_writes_a_loadable_model(tmp_path, folders):
    (tmp_path / "export-mean.part" / "of a killed process").mkdir(parents=True)
    average_checkpoints(folders, tmp_path / "mean")
    mean = VaswaniTransformerForConditionalGeneration.from_pretrained(tmp_path / "mean")
    assert torch.equal(mean.lm_head.weight, average_snapshots(folders)["model.shared.weight"])


@pytest.fixture
def run(tmp_path):
    """Folder of a run with three snapshots, and the output weights of each."""
    models = [make_model(seed) for seed in range(3)]
    models[2].save_pretrained(tmp_path / "run")
    write_snapshots(tmp_path / "run", models)
    return tmp_path / "run", torch.stack([model.lm_head.weight.double() for model in models])


@pytest.mark.parametrize("number", [2, None])
def test_average_checkpoints_takes_as_many_snapshots_of_a_run_as_its_recipe(
    run, tmp_path, caplog, number
):
    folder, expected = run
    first = 1 if number else 0
    if number:
        recipe = json.dumps({"num_averaged_snapshots": number})
        (folder / "recipe.json").write_text(recipe, encoding="utf-8")
    with caplog.at_level("INFO", logger="vaswani_transformer"):
        average_checkpoints(folder, tmp_path / "mean")
    mean = weights(tmp_path / "mean")["model.shared.weight"]
    assert torch.equal(mean, expected[first:].mean(0).float())
    names = [path.name for path in list_snapshots(folder)]
    assert all((name in caplog.text) == (name in names[first:]) for name in names)


def test_average_checkpoints_takes_one_snapshot(run, tmp_path):
    folder, expected = run
    average_checkpoints(list_snapshots(folder)[-1:], tmp_path / "one")
    assert torch.equal(weights(tmp_path / "one")["model.shared.weight"], expected[2].float())


def test_average_checkpoints_refuses_a_folder_in_use_and_a_missing_one(tmp_path, folders):
    before = weights(folders[0])
    with pytest.raises(ValueError, match="`output_dir` must be a new or empty folder"):
        average_checkpoints(folders, folders[0])
    with pytest.raises(FileNotFoundError, match=r"`inputs` must be .*nowhere without a config"):
        average_checkpoints([tmp_path / "nowhere"], tmp_path / "mean")
    torch.testing.assert_close(weights(folders[0]), before, rtol=0, atol=0)


MEASURE = """
import resource, sys
from pathlib import Path
import torch
from vaswani_transformer.training.averaging import list_snapshots, write_average
(folder,) = map(Path, sys.argv[1:])
torch.zeros(1).double()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert write_average(folder, 5, folder) == 5
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.heavy
def test_averaging_takes_the_memory_of_at_most_two_models(tmp_path):
    (tmp_path / "snapshots").mkdir()
    for step in range(5):
        tensors = {f"layer{index}": torch.full((1024, 1024), float(step)) for index in range(31)}
        tensors["shared"] = torch.full((37000, 512), float(step))
        save_file(tensors, tmp_path / "snapshots" / f"step-{step:08d}.safetensors")
    command = [sys.executable, "-c", MEASURE, str(tmp_path)]
    peak = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert peak < 2 * list_snapshots(tmp_path)[0].stat().st_size
    assert load_file(tmp_path / "model.safetensors")["shared"].unique().tolist() == [2.0]
