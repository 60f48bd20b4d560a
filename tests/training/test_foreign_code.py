# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints with code in them: each exploit is shown to work, then that no route of ours lets it."""

import contextlib
import json
import os
import pickle
import shutil

import pytest
import torch
from torch.distributed.checkpoint import FileSystemReader
from toy_language import build_trainer, make_pairs

from vaswani_transformer import cli
from vaswani_transformer.training.averaging import average_checkpoints, average_snapshots
from vaswani_transformer.training.checkpoints import best_checkpoint, check_checkpoint
from vaswani_transformer.training.foreign_code import check_harmless


class Payload:
    """Makes a folder when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def torch_file(path, payload):
    torch.save({"state": payload}, path)


def torch_file_of_protocol_4(path, payload):
    torch.save({"state": payload}, path, pickle_protocol=4)


def plain_pickle(path, payload):
    path.write_bytes(pickle.dumps(payload))


def load_without_limits(path):
    torch.load(path, weights_only=False)


def load_as_torch_distributed(path):
    FileSystemReader(path.parent).read_metadata()


# Name in a checkpoint, how it is written, how it would be loaded, and what the refusal must name.
EXPLOITS = [
    *((f"{name}.pt", torch_file, load_without_limits, "posix.mkdir") for name in ("optimizer", "scheduler", "scaler")),
    *((f"{name}.bin", torch_file, load_without_limits, "posix.mkdir") for name in ("optimizer", "pytorch_model_fsdp")),
    *((f"rng_state{rank}.pth", torch_file, load_without_limits, "posix.mkdir") for rank in ("", "_1")),
    ("optimizer.pt", torch_file_of_protocol_4, load_without_limits, "content that torch.save does not write"),
    ("scheduler.pt", plain_pickle, load_without_limits, "content that torch.save does not write"),
    ("pytorch_model.bin", torch_file, load_without_limits, "pickled weights"),
    ("pytorch_model-00001-of-00002.bin", torch_file, load_without_limits, "pickled weights"),
    ("adapter_model.bin", torch_file, load_without_limits, "pickled weights"),
    ("other/adapter_model.bin", torch_file, load_without_limits, "pickled weights"),
    ("optimizer_0/.metadata", plain_pickle, load_as_torch_distributed, "a pickle that may be loaded without limits"),
    ("global_step3/mp_rank_00_model_states.pt", torch_file, load_without_limits, "a pickle that may be loaded"),
    ("random_states_0.pkl", plain_pickle, load_without_limits, "a pickle that may be loaded without limits"),
]


@pytest.fixture(scope="module")
def made(tokenizer, dataset, tmp_path_factory):
    """Folder of a run with checkpoints 2 and 4, of which 2 is the best."""
    folder = tmp_path_factory.mktemp("made")
    trainer = build_run(tokenizer, dataset, folder)
    trainer.train()
    assert trainer.state.best_model_checkpoint == str(folder / "checkpoint-2")
    return folder


def build_run(tokenizer, dataset, folder, **options):
    common = {"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 2}
    common |= {"predict_with_generate": False, "metric_for_best_model": "loss", "greater_is_better": True}
    return build_trainer(
        tokenizer, dataset, folder, eval_dataset=dataset.select(range(4)), **{**common, "max_steps": 4, **options}
    )


@pytest.fixture
def run(made, tmp_path):
    """A copy of that run whose checkpoints bear no manifest, as anybody can write one."""
    folder = shutil.copytree(made, tmp_path / "run")
    for manifest in folder.glob("checkpoint-*/manifest.json"):
        manifest.unlink()
    return folder


def plant(checkpoint, marker, name="optimizer.pt", write=torch_file):
    path = checkpoint / name
    path.parent.mkdir(exist_ok=True)
    write(path, Payload(marker))
    return path


@pytest.mark.parametrize(
    ("name", "write", "load", "fault"), EXPLOITS, ids=lambda value: getattr(value, "__name__", value)
)
def test_code_in_a_file_would_run_and_is_refused_by_name(name, write, load, fault, run, tmp_path):
    checkpoint, marker = run / "checkpoint-4", tmp_path / "marker"
    check_harmless(checkpoint)
    path = plant(checkpoint, marker, name, write)
    with contextlib.suppress(Exception):  # what the payload leaves is no state, which is noticed too late
        load(path)
    assert marker.exists()
    marker.rmdir()
    place = path if not path.parent.name.startswith("global_step") else path.parent
    with pytest.raises(ValueError, match=f"`resume_from_checkpoint` must hold .*, got {place} with {fault}"):
        check_harmless(checkpoint)
    assert not marker.exists()


# ---- every route ----


@pytest.mark.parametrize("resume", [True, "checkpoint-4"])
def test_trainer_refuses_to_resume_before_it_loads_anything(resume, run, tokenizer, dataset, tmp_path):
    path = plant(run / "checkpoint-4", tmp_path / "marker")
    trainer = build_run(tokenizer, dataset, run, max_steps=6)
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    with pytest.raises(ValueError, match=f"got {path} with posix.mkdir"):
        trainer.train(resume_from_checkpoint=resume if resume is True else str(run / resume))
    assert all(tensor.equal(before[name]) for name, tensor in trainer.model.state_dict().items())
    assert not (tmp_path / "marker").exists()


def test_trainer_refuses_a_best_checkpoint_before_it_trains(run, tokenizer, dataset, tmp_path):
    path = plant(run / "checkpoint-2", tmp_path / "marker", "pytorch_model.bin")
    trainer = build_run(tokenizer, dataset, run, max_steps=6, load_best_model_at_end=True)
    with pytest.raises(ValueError, match=f"got {path} with pickled weights"):
        trainer.train(resume_from_checkpoint=True)
    assert not (tmp_path / "marker").exists()


def test_pickle_that_nothing_loads_is_left_alone(run, tokenizer, dataset, tmp_path):
    plant(run / "checkpoint-4", tmp_path / "marker", "training_args.bin")
    build_run(tokenizer, dataset, run, max_steps=6).train(resume_from_checkpoint=True)
    average_checkpoints(run, tmp_path / "averaged")
    assert not (tmp_path / "marker").exists()


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The command that has trained a model for two updates, and its folder."""
    folder = tmp_path_factory.mktemp("command")
    for side in (0, 1):
        lines = [pair[side] for pair in make_pairs(40)]
        (folder / f"train.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sizes = {"vocab-size": 280, "d-model": 16, "d-ff": 32, "num-heads": 2, "num-encoder-layers": 1}
    sizes |= {"num-decoder-layers": 1, "max-source-tokens-per-batch": 200, "max-target-tokens-per-batch": 200}
    sizes |= {"train-source": folder / "train.0", "train-target": folder / "train.1", "save-steps": 2}
    arguments = ["train", "--use-cpu", *(text for name, value in sizes.items() for text in (f"--{name}", str(value)))]
    assert cli.main([*arguments, "--output-dir", str(folder / "run"), "--max-steps", "2"]) == 0
    return arguments, folder / "run"


@pytest.mark.parametrize("switch", ["--resume", "--resume-or-start"])
@pytest.mark.parametrize("max_steps", [2, 4], ids=["finished", "unfinished"])
def test_command_refuses_to_resume(switch, max_steps, command, tmp_path, capsys):
    arguments, made = command
    folder = shutil.copytree(made, tmp_path / "run")
    (folder / "checkpoint-2" / "manifest.json").unlink()
    path = plant(folder / "checkpoint-2", tmp_path / "marker")
    capsys.readouterr()
    assert cli.main([*arguments, "--output-dir", str(folder), "--max-steps", str(max_steps), switch]) == 2
    assert f"got {path} with posix.mkdir" in capsys.readouterr().err
    assert not (tmp_path / "marker").exists()


# ---- paths in a checkpoint's files ----


def name_best(checkpoint, best):
    state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    (checkpoint / "trainer_state.json").write_text(
        json.dumps({**state, "best_model_checkpoint": str(best)}), encoding="utf-8"
    )


def test_best_checkpoint_of_a_copied_run_is_the_copys(made, run):
    assert best_checkpoint(run / "checkpoint-4") == str(run / "checkpoint-2")
    name_best(run / "checkpoint-4", "/gone/elsewhere/checkpoint-2")
    assert best_checkpoint(run / "checkpoint-4") == str(run / "checkpoint-2")


def test_resumed_copy_of_a_run_ends_with_its_own_best_weights(run, tokenizer, dataset):
    weights = run / "checkpoint-2" / "model.safetensors"
    shutil.copy(run / "checkpoint-4" / "model.safetensors", weights)  # the original's checkpoint-2 is another
    trainer = build_run(tokenizer, dataset, run, load_best_model_at_end=True)
    trainer.train(resume_from_checkpoint=True)
    assert trainer.state.best_model_checkpoint == str(run / "checkpoint-2")
    trainer.save_model()
    assert (run / "model.safetensors").read_bytes() == weights.read_bytes()


@pytest.mark.parametrize("name", ["elsewhere", "checkpoint-9", ".", ".."])
def test_best_checkpoint_outside_the_run_is_refused(name, run, tmp_path, tokenizer, dataset):
    outside = tmp_path / "other" / "run" / name
    outside.mkdir(parents=True, exist_ok=True)
    name_best(run / "checkpoint-4", f"{tmp_path}/other/run/{name}")
    with pytest.raises(ValueError, match=f"`best_model_checkpoint` must lie in .*{run}, got {tmp_path}/other"):
        build_run(tokenizer, dataset, run).train(resume_from_checkpoint=True)


def test_best_checkpoint_that_was_deleted_is_none(run):
    name_best(run / "checkpoint-4", run / "checkpoint-1")
    assert best_checkpoint(run / "checkpoint-4") is None


def shard(folder, name):
    """Gives a folder an index of weights in one shard, which lies where the name says."""
    index = {"metadata": {}, "weight_map": {"weight": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


@pytest.mark.parametrize("name", ["../other.safetensors", "/tmp/other.safetensors", "pytorch_model.bin", 3])
def test_shard_outside_its_folder_is_refused(name, run):
    (run / "checkpoint-4" / "model.safetensors").rename(run / "other.safetensors")
    shard(run / "checkpoint-4", name)
    for load in (check_harmless, lambda folder: average_snapshots([folder])):
        with pytest.raises(ValueError, match=f"must name safetensors files of its own folder, got {name!r}"):
            load(run / "checkpoint-4")


def test_manifest_tells_nothing_of_files_outside_its_checkpoint(made, tmp_path):
    folder = shutil.copytree(made / "checkpoint-4", tmp_path / "checkpoint-4")
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    shutil.copy(folder / "scheduler.pt", tmp_path / "outside")
    manifest["../outside"] = manifest["scheduler.pt"]
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(ValueError, match=r"with a broken \.\./outside"):
        check_checkpoint(folder)
