# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What README and the pages of docs show: code blocks, commands, and what some print."""

import itertools
import re
import shlex
import signal

from processes import ROOT, Fork

from vaswani_transformer import cli

README = (ROOT / "README.md").read_text(encoding="utf-8")
USING = "docs/using.md"
# Every command and block of these pages is run.
PAGES = ("README.md", USING, "docs/training.md", "docs/tour.md", "docs/your-own-corpus.md")
PROGRAMS = (
    "vaswani-transformer ",
    "torchrun ",
    "accelerate ",
    "python ",
    "bash ",
    "pip ",
    "hf ",
    "echo ",
)


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(language, page="README.md"):
    return re.findall(rf"```{language}\n(.*?)```", text_of(page), flags=re.DOTALL)


def inline_code(page):
    """What stands between single backquotes outside of the blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL))


def commands(page="README.md"):
    """Every shell command of a page, of its blocks and its text, in order and without comments."""
    lines = [
        re.sub(r"\s+# .*", "", line)
        for block in blocks("bash", page)
        for line in re.sub(r"\\\n\s*", "", block).splitlines()
        if not line.startswith("# ")
    ]
    return lines + [code for code in inline_code(page) if code.startswith(PROGRAMS)]


def words_for_main(command):
    """What `cli.main` is given by a command of the package or of scripts/train.py; None for any
    other.
    """
    words = shlex.split(command)
    if words[0] == "vaswani-transformer":
        return words[1:]
    if "vaswani_transformer.cli" in words:
        return words[words.index("vaswani_transformer.cli") + 1 :]
    if "scripts/train.py" in words:
        return ["train", *words[words.index("scripts/train.py") + 1 :]]
    return None


def commands_with_outputs():
    """The lines of blocks of the page on using that are followed by what they print, and that."""
    return [
        (line, following.removeprefix("# "))
        for block in blocks("bash", USING)
        for line, following in itertools.pairwise(block.splitlines())
        if following.startswith("# ")
    ]


def first_line(command, folder, capsys):
    """What a shell command prints first, by a call; a server is ended then."""
    words = shlex.split(command, comments=True)
    if words[1] == "scripts/space/app.py":
        process = Fork([ROOT / words[1], *words[2:]], folder)
        line = process.first_line()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        return line
    if words[0] == "vaswani-transformer":
        assert cli.main(words[1:]) == 0
    else:
        assert words[:2] == ["python", "-c"]
        exec(words[2], {})
    return capsys.readouterr().out.splitlines()[0]
