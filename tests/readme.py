# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What the README shows: its code blocks, its commands, and what some of them print."""

import itertools
import os
import re
import shlex
import signal
import sys
from pathlib import Path

from cli_runs import interruptible

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands():
    """Every command of the package or of train.py in the README's blocks and inline code, as lists of words."""
    prose = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
    lines = "\n".join(blocks("bash")).replace("\\\n", " ").splitlines() + re.findall(r"`([^`\n]+)`", prose)
    found = []
    for line in lines:
        if not line.startswith(("vaswani-transformer ", "torchrun ", "accelerate ")):
            continue
        words = shlex.split(line, comments=True)
        if "scripts/train.py" in words:
            found.append(["train", *words[words.index("scripts/train.py") + 1 :]])
        elif "vaswani_transformer.cli" in words:
            found.append(words[words.index("vaswani_transformer.cli") + 1 :])
        elif words[0] == "vaswani-transformer" and "[NAME]" not in words:
            found.append(words[1:])
    return found


def commands_with_outputs():
    """The lines of blocks that are followed by what they print, and that."""
    return [
        (line, following.removeprefix("# "))
        for block in blocks("bash")
        for line, following in itertools.pairwise(block.splitlines())
        if following.startswith("# ")
    ]


def first_line_of(command, folder):
    """What a shell command of the README prints first in a folder with its model; a server is ended then.

    Args:
        command: A line of a block.
        folder: It holds `runs/my-model`; the repository's scripts are linked there.
    """
    if not (folder / "scripts").exists():
        (folder / "scripts").symlink_to(ROOT / "scripts")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    words = ["bash", "-c", f"exec {command}" if command.startswith("vaswani") else command]
    with interruptible(words, cwd=folder, env={**os.environ, "PATH": path}) as process:
        line = process.stdout.readline()
        if " demo " in command:
            process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait() == 0
    return line.rstrip("\n")
