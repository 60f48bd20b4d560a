# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Files of a run that a disk or a copy has changed: passed over for older ones, or named, never
used silently.
"""

import random
import shutil

import pytest
from faults import log_of, read_results
from toy_language import limits, make_pairs, tiny_recipe

from vaswani_transformer.files import RECIPE_FILE
from vaswani_transformer.training import train as run
from vaswani_transformer.training.checkpoints import find_checkpoint
from vaswani_transformer.training.train import check_output_dir, train


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return tiny_recipe(
        tmp_path_factory.mktemp("text"),
        {"train": make_pairs(60)},
        **limits(120),
        num_averaged_snapshots=2,
        max_steps=9,
        warmup_steps=4,
        snapshot_steps=3,
        save_steps=3,
        save_total_limit=2,
    )


@pytest.fixture(scope="module")
def finished(recipe, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "finished"
    train(recipe, folder, use_cpu=True)
    return folder


@pytest.fixture
def folder(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def flip(file, bit):
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)


def zero(file):
    file.write_bytes(bytes(file.stat().st_size))


def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def delete(file):
    file.unlink()


def replace_by_folder(file):
    file.unlink()
    file.mkdir()


@pytest.mark.slow
def test_every_flipped_bit_of_a_checkpoint_makes_the_older_one_be_taken(folder):
    newest = folder / "checkpoint-9"
    older = folder / "checkpoint-6"
    for file in files_of(newest):
        size = 8 * file.stat().st_size
        generator = random.Random(file.name)
        anywhere = {generator.randrange(size) for _ in range(5)}
        for bit in {0, size // 2, size - 1} | anywhere:
            flip(file, bit)
            assert find_checkpoint(folder) == older, f"{file}, bit {bit}"
            flip(file, bit)
    assert find_checkpoint(folder) == newest


@pytest.mark.parametrize("damage", [zero, cut, delete, replace_by_folder])
def test_damaged_files_of_a_checkpoint_make_the_older_one_be_taken(folder, damage):
    newest = folder / "checkpoint-9"
    older = folder / "checkpoint-6"
    kept = shutil.copytree(newest, folder / "kept")
    for file in files_of(newest):
        damage(file)
        # without its manifest a checkpoint is one of the library's trainer, whose files are as they
        # should be here
        is_whole = file.name == "manifest.json" and damage is delete
        assert find_checkpoint(folder) == (newest if is_whole else older), file
        shutil.rmtree(newest)
        shutil.copytree(kept, newest)


def test_last_checkpoint_that_lacked_only_its_place_gets_it(folder, finished, recipe):
    (folder / "train_results.json").unlink()
    (folder / "_unfinished").mkdir()
    (folder / "checkpoint-9").rename(folder / "_unfinished" / "checkpoint-9")
    train(recipe, folder, resume=True, use_cpu=True)
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        path.name for path in finished.iterdir()
    )


def test_end_that_is_killed_while_the_model_is_written_leaves_the_old_one_and_is_made_again(
    folder, finished, recipe, monkeypatch
):
    def die(output_dir, num_averaged, staged):
        (staged / "config.json").write_bytes(b"")
        raise KeyboardInterrupt

    def same(name):
        return (folder / name).read_bytes() == (finished / name).read_bytes()

    (folder / "train_results.json").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(run, "write_average", die)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, folder, resume=True, use_cpu=True)
    assert same("model.safetensors") and same("config.json")
    (folder / "model.safetensors").unlink()
    train(recipe, folder, resume=True, use_cpu=True)
    assert same("model.safetensors") and same("config.json")


@pytest.mark.slow
def test_flipped_bits_of_a_recipe_are_refused_or_change_nothing(folder, recipe):
    refusals = []
    bits = range(0, 8 * (folder / RECIPE_FILE).stat().st_size, 71)
    for bit in bits:
        flip(folder / RECIPE_FILE, bit)
        try:
            check_output_dir(folder, recipe, overwrite=False, resume=True)
        except ValueError as error:
            refusals.append(str(error))
        flip(folder / RECIPE_FILE, bit)
    assert all(
        RECIPE_FILE in each or "must be the one of the run to resume" in each for each in refusals
    )
    assert len(refusals) > len(bits) / 2


@pytest.mark.slow
@pytest.mark.parametrize("damage", [cut, delete])
def test_log_and_results_that_are_lost_are_made_again(folder, finished, recipe, damage):
    damage(folder / "trainer_state.json")
    delete(folder / "train_results.json")
    train(recipe, folder, resume=True, use_cpu=True)
    assert read_results(folder) == read_results(finished)
    assert log_of(folder) == log_of(finished) and "train_loss" in log_of(folder)[-1]


def test_damaged_results_are_named(folder, recipe):
    cut(folder / "train_results.json")
    with pytest.raises(
        ValueError, match=r"train_results\.json` must be a JSON file, got a broken one"
    ):
        train(recipe, folder, resume=True, use_cpu=True)
