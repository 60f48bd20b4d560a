# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The command `train` on disks that are full or cannot be written: one line says why and where to go on from."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from faults import check_same_end, finish, outcome, run, start, train_command, wait_until, write_corpus

pytestmark = pytest.mark.heavy

AMPLE = 30_000  # KiB


def refusal(status, errors):
    """The one error line of a command that failed on wrong input."""
    assert status == 2 and "Traceback" not in errors, errors[-3000:]
    return next(line for line in errors.splitlines() if line.startswith("error: "))


def check_advice(error, run_folder, disk):
    """Fails unless an error says how much room there is, and truly whether and where a whole checkpoint is."""
    assert re.search(r"where [\d.]+ MiB are free now", error)
    steps = [int(path.name.split("-")[1]) for path in disk.glob("run/checkpoint-*")]
    advice = f"resume: {run_folder}/checkpoint-{max(steps)} is the last whole checkpoint" if steps else "start again: "
    assert advice in error


def stage(error):
    """What could not be written, as the error says."""
    if "`HF_DATASETS_CACHE` must be a folder" in error:
        return "cache"
    return re.search(r"`--output-dir` must take (?:the |an? )?([a-z ]+?)(?: of update| and|,)", error).group(1)


def test_command_on_disks_of_any_size_says_what_does_not_fit_and_ends_the_same_with_room(
    small_disk, workplace, undisturbed
):
    command, found = train_command("disk/run"), {}
    for kib in (8, 24, 44, 56, 60, 64, 80, 120, 300, 500, 700, 900, 1100, 1300, 1500, 1700, 1900):
        disk = small_disk(kib)
        (workplace / "cache").symlink_to(disk)
        error = refusal(*run(command, workplace))
        if stage(error) == "cache":
            assert f"got an error in {workplace}/cache, where" in error
        else:
            check_advice(error, "disk/run", disk)
            assert not list(disk.rglob("*.part")) and not (disk / "run" / "_unfinished").exists()
        found.setdefault(stage(error), []).append(kib)
        small_disk(AMPLE, "-o", "remount")
        status, errors = run(command, workplace)
        assert status == 0, errors[-3000:]
        check_same_end(disk / "run", undisturbed)
        subprocess.run(["umount", str(disk)], check=True)
        (workplace / "cache").unlink()
    print("\n".join(f"  {name}: on disks of {sizes} KiB" for name, sizes in found.items()))
    assert found.keys() >= {"cache", "tokenizer", "snapshot", "checkpoint"}


@pytest.mark.parametrize(
    ("num_averaged", "sizes", "expected"),
    [
        ("3", (0, 40, 200, 320, 400, 440, 640), {"tokenizer", "final model", "nothing"}),
        ("0", (160, *range(296, 376, 4), 440), {"final model", "card or picture", "nothing"}),
    ],
)
def test_end_of_a_run_on_a_full_disk_says_what_does_not_fit_and_is_the_same_with_room(
    small_disk, workplace, num_averaged, sizes, expected
):
    options, found = {"num_averaged_snapshots": num_averaged}, {}
    assert run(train_command(**options), workplace)[0] == 0
    whole = outcome(workplace / "run")
    for name in os.listdir(workplace / "run"):
        if not name.startswith(("checkpoint-", "snapshots", "recipe", "tokenizer")):
            (workplace / "run" / name).unlink()
    for kib in sizes:
        disk = small_disk(AMPLE)
        shutil.copytree(workplace / "run", disk / "run")
        used = subprocess.run(["du", "-sk", disk], capture_output=True, text=True, check=True).stdout.split()[0]
        small_disk(int(used) + kib, "-o", "remount")
        status, errors = run(train_command("disk/run", **options), workplace)
        if status == 0:  # a card or picture that does not fit is a warning
            warned = "No card was written" in errors or "No curves were drawn" in errors
            found.setdefault("card or picture" if warned else "nothing", []).append(kib)
        else:
            error = refusal(status, errors)
            found.setdefault(stage(error), []).append(kib)
            assert "disk/run/checkpoint-60 is the last whole checkpoint" in error
        small_disk(AMPLE, "-o", "remount")
        assert run(train_command("disk/run", **options), workplace)[0] == 0
        check_same_end(disk / "run", whole)
        subprocess.run(["umount", str(disk)], check=True)
    print("\n".join(f"  {name}: with {sizes} KiB free" for name, sizes in found.items()))
    assert found.keys() >= expected


def test_folder_on_a_read_only_disk_is_refused_before_anything_is_trained(small_disk, workplace):
    disk = small_disk(AMPLE)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    error = refusal(*run(train_command("disk/run"), workplace))
    assert "Read-only file system" in error and "disk/run" in error
    assert "updates in" not in (workplace / "errors.txt").read_text()


def test_disk_that_becomes_read_only_ends_the_run_with_its_last_checkpoint(small_disk, workplace, undisturbed):
    disk = small_disk(AMPLE)
    process = start(train_command("disk/run"), workplace)
    assert wait_until(lambda: (disk / "run" / "checkpoint-20").exists(), process)
    while subprocess.run(["mount", "-o", "remount,ro", str(disk)], capture_output=True).returncode != 0:
        assert process.poll() is None  # busy while a file is open to be written
    error = refusal(*finish(process, workplace))
    assert "Read-only file system" in error
    assert re.search(r"disk/run/checkpoint-[2-5]0 is the last whole checkpoint", error)
    again = refusal(*run(train_command("disk/run"), workplace))  # before it trains
    assert "is the last whole checkpoint" in again
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert run(train_command("disk/run"), workplace)[0] == 0
    check_same_end(disk / "run", undisturbed)


def as_another_user(command):
    """The command for a user whom permission bits stop, as they do not stop root."""
    if os.geteuid() != 0:
        return command
    if shutil.which("setpriv") is None:
        pytest.skip("root needs setpriv to become another user")
    return ["setpriv", "--reuid=65534", "--clear-groups", *command]


@pytest.fixture
def open_workplace():
    """As `workplace`, where another user may write; the folders of pytest are closed to others."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    write_corpus(folder)
    yield folder
    shutil.rmtree(folder)


def test_folder_without_permission_to_write_is_named_before_and_in_a_run(open_workplace, undisturbed):
    home = {"HOME": str(open_workplace), "HF_HOME": str(open_workplace / "hub")}
    probe = as_another_user([sys.executable, "-c", "import vaswani_transformer"])
    if run(probe, open_workplace, **home)[0] != 0:
        pytest.skip("another user cannot start this Python")
    command, run_folder = as_another_user(train_command()), open_workplace / "run"
    run_folder.mkdir(mode=0o555)
    error = refusal(*run(command, open_workplace, **home))
    assert (
        "Permission denied" in error and "`--output-dir` must take tokenizer and recipe, got an error in run" in error
    )
    run_folder.rmdir()
    assert run(as_another_user(train_command(max_steps="20")), open_workplace, **home)[0] == 0
    (run_folder / "snapshots").chmod(0o555)
    error = refusal(*run(command, open_workplace, **home))
    assert "Permission denied" in error and "run/checkpoint-20 is the last whole checkpoint" in error
    (run_folder / "snapshots").chmod(0o755)
    status, errors = run(command, open_workplace, **home)
    assert status == 0, errors[-3000:]
    check_same_end(run_folder, undisturbed)
