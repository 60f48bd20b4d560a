# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The command `train` on disks that are full or cannot be written: it says why, and ends the same
once it can.
"""

import re
import shutil
import subprocess

import pytest
from faults import check_same_end, run, train_command

pytestmark = pytest.mark.heavy

AMPLE = 30_000  # KiB


def refusal(status, errors):
    """The one error line of a command that failed on wrong input."""
    assert status == 2 and "Traceback" not in errors, errors[-3000:]
    return next(line for line in errors.splitlines() if line.startswith("error: "))


def check_cause(status, errors):
    """Fails unless a command failed and said that the disk is full, in the words of the library
    that wrote.
    """
    assert status != 0
    words = "No space left|Not enough disk space|os error 28|file write failed|unexpected pos"
    assert re.search(words, errors), errors[-3000:]


def test_command_on_disks_of_any_size_says_why_it_failed_and_ends_the_same_with_room(
    small_disk, workplace, undisturbed
):
    command = train_command("disk/run")
    for kib in (8, 24, 44, 56, 60, 64, 80, 120, 300, 500, 700, 900, 1100, 1300, 1500, 1700, 1900):
        disk = small_disk(kib)
        (workplace / "cache").symlink_to(disk)
        status, errors = run(command, workplace)
        check_cause(status, errors)
        if "`HF_DATASETS_CACHE` must be a folder" in errors:
            assert f"got an error in {workplace}/cache, where" in refusal(status, errors)
        else:
            assert not list(disk.rglob("*.part")) and not (disk / "run" / "_unfinished").exists()
        small_disk(AMPLE, "-o", "remount")
        status, errors = run(command, workplace)
        assert status == 0, errors[-3000:]
        check_same_end(disk / "run", undisturbed)
        subprocess.run(["umount", str(disk)], check=True)
        (workplace / "cache").unlink()


def test_end_of_a_run_on_a_full_disk_says_why_it_failed_and_is_the_same_with_room(
    small_disk, workplace, undisturbed
):
    statuses = set()
    assert run(train_command(), workplace)[0] == 0
    for path in (workplace / "run").iterdir():
        if path.is_file() and not path.name.startswith(("recipe", "tokenizer")):
            path.unlink()
    for kib in (0, 40, 200, 320, 400, 440, 640):
        disk = small_disk(AMPLE)
        shutil.copytree(workplace / "run", disk / "run")
        used = subprocess.run(
            ["du", "-sk", disk], capture_output=True, text=True, check=True
        ).stdout.split()[0]
        small_disk(int(used) + kib, "-o", "remount")
        status, errors = run(train_command("disk/run"), workplace)
        if status:  # a card or picture that does not fit is a warning
            check_cause(status, errors)
        statuses.add(status)
        small_disk(AMPLE, "-o", "remount")
        assert run(train_command("disk/run"), workplace)[0] == 0
        check_same_end(disk / "run", undisturbed)
        subprocess.run(["umount", str(disk)], check=True)
    assert 0 in statuses and len(statuses) > 1


def test_folder_on_a_read_only_disk_is_refused_before_anything_is_trained(small_disk, workplace):
    disk = small_disk(AMPLE)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    error = refusal(*run(train_command("disk/run"), workplace))
    assert "Read-only file system" in error and "disk/run" in error
    assert "updates in" not in (workplace / "errors.txt").read_text()
