# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import json

import pytest
import torch
from safetensors.torch import save_file

from vaswani_transformer.training import checkpoints
from vaswani_transformer.training.checkpoints import (
    best_checkpoint,
    clear_staging,
    find_checkpoint,
    list_checkpoints,
    publish_checkpoint,
    rotate_checkpoints,
)


def write_checkpoint(folder, step):
    """A checkpoint as the library writes it, without a manifest."""
    checkpoint = folder / f"checkpoint-{step}"
    checkpoint.mkdir(parents=True)
    save_file({"weight": torch.zeros(9)}, checkpoint / "model.safetensors")
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        torch.save({"state": torch.zeros(9)}, checkpoint / name)
    (checkpoint / "trainer_state.json").write_text(
        json.dumps({"global_step": step}), encoding="utf-8"
    )
    return checkpoint


def publish(folder, step):
    """A checkpoint as it is written now."""
    staged = write_checkpoint(folder / "_unfinished", step)
    (staged / "shards").mkdir()
    (staged / "shards" / "0.distcp").write_bytes(b"shard")
    publish_checkpoint(staged, folder)
    return folder / f"checkpoint-{step}"


def test_find_checkpoint_takes_the_newest_by_number(tmp_path):
    for step in (5, 100, 20):
        write_checkpoint(tmp_path, step)
    assert find_checkpoint(tmp_path) == tmp_path / "checkpoint-100"


def test_find_checkpoint_passes_over_one_that_the_library_did_not_finish(tmp_path, caplog):
    write_checkpoint(tmp_path, 5)
    (write_checkpoint(tmp_path, 10) / "trainer_state.json").unlink()
    assert find_checkpoint(tmp_path) == tmp_path / "checkpoint-5"
    assert "checkpoint-10` must be a complete checkpoint, got no trainer_state.json" in caplog.text


def test_find_checkpoint_names_a_broken_file_of_the_only_one(tmp_path, caplog):
    (publish(tmp_path, 10) / "shards" / "0.distcp").write_bytes(b"shart")
    with pytest.raises(
        FileNotFoundError, match="without an undamaged one. Start again in another folder"
    ):
        find_checkpoint(tmp_path)
    assert (
        "checkpoint-10` must be a complete checkpoint, got a broken shards/0.distcp" in caplog.text
    )


@pytest.mark.parametrize("content", ["[1, 2]", "5", "{}", "[" * 10**5, "nonsense"])
def test_find_checkpoint_passes_over_one_whose_manifest_is_none(tmp_path, content):
    publish(tmp_path, 5)
    (publish(tmp_path, 10) / "manifest.json").write_text(content, encoding="utf-8")
    assert find_checkpoint(tmp_path) == tmp_path / "checkpoint-5"


def test_files_that_were_added_to_a_checkpoint_do_no_harm(tmp_path):
    checkpoint = publish(tmp_path, 10)
    (checkpoint / "test_results.json").write_text("{}", encoding="utf-8")
    assert find_checkpoint(tmp_path) == checkpoint


@pytest.mark.parametrize("moment", [1, 2])
def test_checkpoint_is_found_though_the_move_to_its_place_was_cut_short(
    tmp_path, monkeypatch, moment
):
    publish(tmp_path, 10)
    real, calls = checkpoints.os.replace, []

    def die(*paths):
        calls.append(paths)
        if len(calls) == moment:
            raise KeyboardInterrupt
        real(*paths)

    staged = write_checkpoint(tmp_path / "_unfinished", 10)
    monkeypatch.setattr(
        checkpoints, "write_json", lambda path, value: path.write_text(json.dumps(value))
    )
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.os, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            publish_checkpoint(staged, tmp_path)
    clear_staging(tmp_path)
    assert find_checkpoint(tmp_path) == tmp_path / "checkpoint-10"


@pytest.mark.parametrize(
    ("limit", "best", "left"),
    [
        (None, None, [1, 2, 3, 9]),
        (1, None, [3]),
        (2, None, [3, 9]),
        (1, 1, [1, 3]),
        (3, 1, [1, 3, 9]),
    ],
)
def test_rotation_never_deletes_the_newest_that_is_whole_nor_the_best(tmp_path, limit, best, left):
    for step in (1, 2, 9):
        (tmp_path / f"checkpoint-{step}").mkdir()
    newest = publish(tmp_path, 3)
    rotate_checkpoints(newest, limit, best and tmp_path / f"checkpoint-{best}")
    assert [path.name for path in list_checkpoints(tmp_path)] == [
        f"checkpoint-{step}" for step in left
    ]


def test_best_checkpoint_is_found_where_the_run_is_now(tmp_path):
    newest, best = tmp_path / "checkpoint-4", tmp_path / "checkpoint-2"
    newest.mkdir()
    state = newest / "trainer_state.json"
    state.write_text('{"best_model_checkpoint": "/old/place/checkpoint-2"}')
    assert best_checkpoint(newest) is None
    best.mkdir()
    assert best_checkpoint(newest) == str(best)
    state.write_text('{"best_model_checkpoint": null}')
    assert best_checkpoint(newest) is None
