# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Files of a run that a disk or a copy has changed: passed over for older ones, or named, never used silently."""

import json
import random
import shutil
from pathlib import Path

import pytest
from faults import without_times
from toy_language import make_pairs, tiny_recipe

from vaswani_transformer.files import RECIPE_FILE
from vaswani_transformer.training.checkpoints import checkpoint_step, find_checkpoint
from vaswani_transformer.training.run import check_output_dir, train
from vaswani_transformer.training.trainer import VaswaniTransformerTrainer

BITS_A_FILE = 12


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    limits = {"max_source_tokens_per_batch": 120, "max_target_tokens_per_batch": 120, "num_averaged_snapshots": 2}
    steps = {"max_steps": 9, "warmup_steps": 4, "snapshot_steps": 3, "save_steps": 3, "save_total_limit": 2}
    return tiny_recipe(tmp_path_factory.mktemp("text"), {"train": make_pairs(60)}, **limits, **steps)


@pytest.fixture(scope="module")
def finished(recipe, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "finished"
    train(recipe, folder, use_cpu=True)
    return folder


@pytest.fixture
def folder(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def relative_files(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def flip(file, bit):
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)


def bits_of(file, seed):
    """Bits at both ends and in the middle of a file, and some anywhere."""
    size, generator = 8 * file.stat().st_size, random.Random(seed)
    return {0, size // 2, size - 1} | {generator.randrange(size) for _ in range(BITS_A_FILE - 3)}


def refusal(function, *args, **options):
    """Text of the ValueError that a call raises, or nothing."""
    try:
        function(*args, **options)
    except ValueError as error:
        return str(error)
    return ""


def zero(file):
    file.write_bytes(bytes(file.stat().st_size))


def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def empty(file):
    file.write_bytes(b"")


def delete(file):
    file.unlink()


def replace_by_folder(file):
    file.unlink()
    file.mkdir()


DAMAGES = [zero, cut, empty, delete, replace_by_folder]


@pytest.mark.slow
def test_every_flipped_bit_of_a_checkpoint_makes_the_older_one_be_taken(folder):
    newest, counted = folder / "checkpoint-9", 0
    for name in relative_files(newest):
        content = (newest / name).read_bytes()
        for bit in bits_of(newest / name, seed=str(name)):
            flip(newest / name, bit)
            assert find_checkpoint(folder) == folder / "checkpoint-6", f"{name}, bit {bit}"
            (newest / name).write_bytes(content)
            counted += 1
    assert checkpoint_step(find_checkpoint(folder)) == 9
    assert counted > 10 * len(relative_files(newest))


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_of_a_checkpoint_make_the_older_one_be_taken(folder, damage):
    newest = folder / "checkpoint-9"
    for name in relative_files(newest):
        kept = shutil.copytree(newest, folder / "kept")
        damage(newest / name)
        # without its manifest a checkpoint is one of the library's trainer, whose files are as they should be here
        expected = 9 if name.name == "manifest.json" and damage is delete else 6
        assert checkpoint_step(find_checkpoint(folder)) == expected, name
        shutil.rmtree(newest)
        kept.rename(newest)


def test_last_checkpoint_that_lacked_only_its_place_gets_it(folder, finished, recipe):
    (folder / "train_results.json").unlink()
    (folder / "_unfinished").mkdir()
    (folder / "checkpoint-9").rename(folder / "_unfinished" / "checkpoint-9")
    train(recipe, folder, resume=True, use_cpu=True)
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in finished.iterdir())


def test_end_that_is_killed_while_the_model_is_written_is_made_again(folder, finished, recipe, monkeypatch):
    def cut_short(trainer, output_dir=None):
        place = Path(output_dir or trainer.args.output_dir)
        place.mkdir(parents=True, exist_ok=True)
        (place / "config.json").write_bytes(b"")
        raise KeyboardInterrupt

    (folder / "train_results.json").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(VaswaniTransformerTrainer, "save_model", cut_short)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, folder, resume=True, use_cpu=True)
    train(recipe, folder, resume=True, use_cpu=True)
    for name in ("config.json", "model.safetensors"):
        assert (folder / name).read_bytes() == (finished / name).read_bytes()


def test_repeated_run_that_is_killed_leaves_the_averaged_weights(folder, finished, recipe, monkeypatch):
    def die(*args):
        raise KeyboardInterrupt

    (folder / "train_results.json").unlink()
    monkeypatch.setattr("vaswani_transformer.training.run.write_average", die)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, folder, resume=True, use_cpu=True)
    assert (folder / "model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_flipped_bits_of_a_recipe_are_refused_or_change_nothing(finished, recipe, tmp_path):
    file = shutil.copytree(finished, tmp_path / "run", ignore=shutil.ignore_patterns("check*", "snap*")) / RECIPE_FILE
    content, refused = file.read_bytes(), 0
    for bit in range(0, 8 * len(content), 37):
        flip(file, bit)
        if message := refusal(check_output_dir, file.parent, recipe, overwrite=False, resume=True):
            assert RECIPE_FILE in message or "must be the one of the run to resume" in message
            refused += 1
        file.write_bytes(content)
    assert refused > 0.5 * 8 * len(content) / 37


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_log_and_results_that_are_lost_are_made_again(folder, finished, recipe, damage):
    damage(folder / "trainer_state.json")
    delete(folder / "train_results.json")
    if damage is replace_by_folder:
        (folder / "trainer_state.json").rmdir()
    results = train(recipe, folder, resume=True, use_cpu=True)
    read = [json.loads((path / "train_results.json").read_text(encoding="utf-8")) for path in (finished, folder)]
    assert without_times(read[0]) == without_times(read[1]) == without_times(results)
    logs = [json.loads((path / "trainer_state.json").read_text())["log_history"] for path in (finished, folder)]
    assert [without_times(line) for line in logs[0]] == [without_times(line) for line in logs[1]]
    assert "train_loss" in logs[1][-1]


@pytest.mark.parametrize("damage", [zero, cut, empty])
def test_damaged_results_are_named(folder, recipe, damage):
    damage(folder / "train_results.json")
    with pytest.raises(ValueError, match=r"train_results\.json` must be a JSON file, got a broken one"):
        train(recipe, folder, resume=True, use_cpu=True)
