# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import errno
import os
from unittest import mock

import pytest

from vaswani_transformer.files import CARD_MARKER, clear_run, locking, run_files, write_json
from vaswani_transformer.recipe import get_recipe
from vaswani_transformer.training import train as run
from vaswani_transformer.training.train import _set_aside_scores, check_output_dir

RECIPE = get_recipe("quickstart")


@pytest.mark.parametrize(
    "name", ["recipe.json", "config.json", "model.safetensors", "snapshots", "checkpoint-5"]
)
def test_output_dir_is_refused_when_it_holds_another_run(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match="`output_dir` must not hold another run"):
        check_output_dir(tmp_path, RECIPE, overwrite=False, resume=False)


def test_output_dir_may_hold_foreign_files(tmp_path):
    (tmp_path / "notes.txt").touch()
    check_output_dir(tmp_path, RECIPE, overwrite=False, resume=False)


@pytest.mark.parametrize(
    ("other", "overwrite", "message"),
    [
        (RECIPE, True, "`overwrite` must not be set with `resume`"),
        (get_recipe("quickstart", d_model=64), False, "d_model 128 instead of 64"),
    ],
)
def test_resume_refuses_another_recipe_and_overwriting(tmp_path, other, overwrite, message):
    RECIPE.save(tmp_path)
    with pytest.raises(ValueError, match=message):
        check_output_dir(tmp_path, other, overwrite=overwrite, resume=True)


def test_a_restart_by_torchrun_does_not_overwrite_what_the_run_has_made(tmp_path, monkeypatch):
    RECIPE.save(tmp_path)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    check_output_dir(tmp_path, RECIPE, overwrite=True, resume=False)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    with pytest.raises(ValueError, match="nor when torchrun restarts a run"):
        check_output_dir(tmp_path, RECIPE, overwrite=True, resume=False)


def test_run_that_is_a_link_as_a_whole_may_be_resumed(tmp_path):
    (tmp_path / "run" / "snapshots").mkdir(parents=True)
    RECIPE.save(tmp_path / "run")
    (tmp_path / "run" / "snapshots" / "newest").symlink_to(tmp_path / "run" / "recipe.json")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    check_output_dir(tmp_path / "link", RECIPE, overwrite=False, resume=True)


def test_folder_takes_one_training_at_a_time(tmp_path):
    with locking(tmp_path / "run"):
        with (
            pytest.raises(
                ValueError, match="`output_dir` must be written by one process at a time"
            ),
            locking(tmp_path / "run"),
        ):
            pass
        (tmp_path / "run" / "recipe.json").touch()
    with locking(tmp_path / "run"):
        pass


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.ENOSYS])
def test_folder_without_locks_gets_no_marker_that_outlives_a_killed_process(
    tmp_path, monkeypatch, error
):
    def refuse(*_):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr("fcntl.flock", refuse)
    with locking(tmp_path / "run"):
        assert [path.name for path in (tmp_path / "run").iterdir()] in ([], [".lock"])
        with locking(tmp_path / "run"):
            pass


def test_folder_that_nothing_was_written_to_is_not_left(tmp_path):
    with pytest.raises(ZeroDivisionError), locking(tmp_path / "run"):
        raise ZeroDivisionError
    assert not (tmp_path / "run").exists()


def test_file_written_beside_its_place_follows_no_link(tmp_path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "recipe.json.part").symlink_to(tmp_path / "precious")
    RECIPE.save(tmp_path)
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "recipe.json").is_symlink()


def test_resume_of_a_model_without_its_recipe_says_what_to_do(tmp_path):
    (tmp_path / "config.json").touch()
    with pytest.raises(
        FileNotFoundError, match="`output_dir` must hold the run to resume, .* to start a run"
    ):
        check_output_dir(tmp_path, RECIPE, overwrite=False, resume=True)


def test_clear_run_leaves_foreign_files_and_no_run(tmp_path):
    RECIPE.save(tmp_path)
    (tmp_path / "checkpoint-5").mkdir()
    (tmp_path / "_unfinished").mkdir()
    for name in (
        "test_results.json",
        "test_results_2.json",
        "trainer_state.json",
        "training_curves.png",
        "notes.txt",
    ):
        (tmp_path / name).touch()
    clear_run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert run_files(tmp_path) == []


@pytest.mark.parametrize(
    ("steps", "names"),
    [
        (50, ["test_results.json", "test_results_2.json", "training_curves.png"]),
        (70, ["after-50-updates-test_results.json", "after-50-updates-test_results_2.json"]),
    ],
)
def test_scores_are_set_aside_when_the_run_went_on(tmp_path, steps, names):
    write_json(tmp_path / "train_results.json", {"train_steps": 50})
    for name in ("test_results.json", "test_results_2.json", "training_curves.png"):
        (tmp_path / name).touch()
    _set_aside_scores(tmp_path, steps)
    (tmp_path / "train_results.json").unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == names


@pytest.mark.parametrize(
    ("text", "stays"), [("# Mine", True), (f"# Model\n\n{CARD_MARKER}\n", False)]
)
def test_clear_run_deletes_only_the_card_it_wrote(tmp_path, text, stays):
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    clear_run(tmp_path)
    assert (tmp_path / "README.md").exists() == stays


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), False),
        (("notes.txt",), False),
        (("recipe.json",), False),
        (("recipe.json", "checkpoint-5"), True),
        (("recipe.json", "model.safetensors"), True),
        (("recipe.json", "train_results.json"), False),
    ],
)
def test_resume_starts_where_no_checkpoint_or_model_is(tmp_path, names, expected, monkeypatch):
    for name in names:
        (tmp_path / name).mkdir() if name == "checkpoint-5" else (tmp_path / name).write_text("{}")
    if "recipe.json" in names:
        RECIPE.save(tmp_path)
    monkeypatch.setattr(run, "checkpoint_to_resume", mock.Mock(side_effect=InterruptedError))
    monkeypatch.setattr(run, "prepare_data", mock.Mock(side_effect=InterruptedError))
    with pytest.raises(InterruptedError):
        run.train(RECIPE, tmp_path, resume=True, use_cpu=True)
    assert run.checkpoint_to_resume.called == expected
