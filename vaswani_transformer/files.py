# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Names of a run's files, and functions to read, write, check and lock files and folders."""

from __future__ import annotations

import contextlib
import errno
import gzip
import json
import os
import shutil
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from filelock import FileLock, Timeout

CONFIG_FILE = "config.json"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
WEIGHTS_FILE = "model.safetensors"
WEIGHTS_INDEX = "model.safetensors.index.json"
EXPORT_FILE = "model.bin"  # weights of an export for CTranslate2
CODE_FILES = "*_vaswani_transformer.py"
CARD_FILE = "README.md"
CURVES_FILE = "training_curves.png"
RECIPE_FILE = "recipe.json"
TRAIN_RESULTS_FILE = "train_results.json"
TEST_RESULTS_FILE = "test_results.json"
TEST_RESULTS_PATTERN = "test_results*.json"  # one file for each test set
STATE_FILE = "trainer_state.json"
SNAPSHOT_FOLDER = "snapshots"
STAGING_FOLDER = "_unfinished"
# The files with the next two names occur only in the folders of checkpoints.
MANIFEST_FILE = "manifest.json"
PROGRESS_FILES = "progress_*.json"  # one file for each process

STANDARD_STREAM = "-"  # stdin as an input, stdout as an output
_BYTE_ORDER_MARK = "\ufeff".encode()
_GZIP_MARK = b"\x1f\x8b"  # no UTF-8 text begins with these bytes


class RunFile(NamedTuple):
    """A row of `RUN_FILES`: files of a run, and which commands handle them.

    Attributes:
        name: Name or pattern of the files in the folder of a run.
        overwritten: Whether `--overwrite` deletes the files. Without `--overwrite`, no run starts
            in a folder that has such files.
        on_hub: Whether `push` uploads the files.
        copied: Whether `average` copies the files from the last of its input models to the averaged
            model.
    """

    name: str
    overwritten: bool = False
    on_hub: bool = False
    copied: bool = False


RUN_FILES = (
    RunFile(CONFIG_FILE, overwritten=True, on_hub=True, copied=True),
    RunFile("generation_config.json", overwritten=True, on_hub=True, copied=True),
    *(RunFile(name, on_hub=True, copied=True) for name in TOKENIZER_FILES),
    RunFile(CODE_FILES, on_hub=True, copied=True),
    RunFile("model*.safetensors", overwritten=True, on_hub=True),
    RunFile(WEIGHTS_INDEX, overwritten=True, on_hub=True),
    RunFile("adapter_*", on_hub=True),
    RunFile(CARD_FILE, on_hub=True),
    RunFile(CURVES_FILE, overwritten=True, on_hub=True),
    RunFile(RECIPE_FILE, overwritten=True, on_hub=True, copied=True),
    RunFile(TRAIN_RESULTS_FILE, overwritten=True, on_hub=True),
    RunFile(TEST_RESULTS_PATTERN, overwritten=True, on_hub=True),
    RunFile(f"after-*-updates-{TEST_RESULTS_PATTERN}", overwritten=True),
    RunFile(STATE_FILE, overwritten=True),
    RunFile("checkpoint-[0-9]*", overwritten=True),
    RunFile(SNAPSHOT_FOLDER, overwritten=True),
    RunFile(STAGING_FOLDER, overwritten=True),
)

CARD_MARKER = (
    "<!-- written by `vaswani-transformer train` and anew by `evaluate`; without this line it is "
    "kept as it is -->"
)


def run_files(folder: Path) -> list[Path]:
    """Return the files and folders that `--overwrite` deletes, or [] if there is no run."""
    paths: list[Path] = []
    for file in RUN_FILES:
        if file.overwritten:
            paths.extend(sorted(folder.glob(file.name)))
    return paths


def clear_run(folder: Path) -> None:
    """Delete the run in a folder and its generated card, and keep all other files."""
    for path in run_files(folder):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    if is_own_card(folder / CARD_FILE):
        (folder / CARD_FILE).unlink()


def is_own_card(path: Path) -> bool:
    """Return True if a file is a generated card that still has its marker."""
    return path.is_file() and CARD_MARKER in path.read_text(encoding="utf-8", errors="replace")


def read_json(path: Path, kind: type = dict) -> Any:
    """Read a JSON file.

    Args:
        path: The file.
        kind: The type of its content: dict for a JSON object, or list.

    Raises:
        ValueError: The file is broken or holds another type.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (RecursionError, ValueError) as error:
        raise ValueError(
            f"`{path}` must be a JSON file, got a broken one ({error}). Copy it again."
        ) from error
    if not isinstance(content, kind):
        raise ValueError(
            f"`{path}` must hold a JSON {kind.__name__}, got {type(content).__name__}. Copy it "
            "again."
        )
    return content


def read_json_if_any(path: Path) -> Any:
    """Read a JSON object as `read_json` does, or return {} if there is no file."""
    return read_json(path) if path.is_file() else {}


@contextlib.contextmanager
def writing_beside(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` after the block.

    If the block fails, the temporary file is deleted. If `path` or the temporary file is already a
    link, the link itself is replaced and not its target, because a link in a downloaded folder may
    lead anywhere.
    """
    beside = path.with_name(path.name + ".part")
    beside.unlink(missing_ok=True)
    try:
        yield beside
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


@contextlib.contextmanager
def writing_folder(output_dir: str | Path) -> Iterator[Path]:
    """Yield an empty folder that becomes `output_dir` after the block.

    During the block, the folder is next to `output_dir` under the name export-NAME.part. If the
    block fails, the folder is deleted. If the process was killed in an earlier block, the folder of
    that block is deleted first.

    Raises:
        ValueError: `output_dir` is a file or holds files.
    """
    path = Path(output_dir).resolve()
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise ValueError(
            f"`output_dir` must be a new or empty folder, got {output_dir}. Pass another name, or "
            "delete it first."
        )
    beside = path.with_name(f"export-{path.name}.part")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        yield beside
        with contextlib.suppress(FileNotFoundError):
            # Remove the empty folder, because some systems cannot rename to an existing folder.
            path.rmdir()
        beside.rename(path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def write_text(path: Path, text: str) -> Path:
    """Write a UTF-8 file through a temporary one, and return its path."""
    with writing_beside(path) as beside:
        beside.write_text(text, encoding="utf-8")
    return path


def write_json(path: Path, value: Any) -> Path:
    """Write an indented JSON file through a temporary one, and return its path."""
    return write_text(path, json_text(value))


def json_text(value: Any) -> str:
    """Return a value as the text of an indented JSON file."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


@contextlib.contextmanager
def locking(folder: Path) -> Iterator[None]:
    """Create a folder and lock it for this process.

    After the block, the lock is released, and the folder is deleted if it is empty.

    Raises:
        ValueError: Another process has locked the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # A soft lock is a file, which a killed process would leave behind.
    lock = FileLock(folder / ".lock", fallback_to_soft=False)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise ValueError(
            f"`output_dir` must be written by one process at a time, got {folder}, and another one "
            "is writing it now. Wait for its end, stop it, or pass another folder."
        ) from error
    except OSError as error:
        # Some network file systems have no locks.
        if error.errno not in (errno.ENOLCK, errno.ENOSYS):
            raise
    try:
        yield
    finally:
        # `unlink` fails on Windows, because the file is open. `rmdir` fails if the folder has
        # files.
        with contextlib.suppress(OSError):
            os.unlink(lock.lock_file)
            folder.rmdir()
        lock.release()


def check_no_link_out(path: Path, folder: Path) -> None:
    """Refuse a link that leads out of a model's folder.

    In a downloaded folder, a link may lead to any file, and that file must not be published or
    copied. Links from `snapshots/<commit>` to `blobs` are allowed, because the Hub's client makes
    them.

    Raises:
        ValueError: The path is such a link.
    """
    target = path.resolve()
    blobs = folder.resolve().parent.parent / "blobs"
    if not (target.is_relative_to(folder.resolve()) or target.parent == blobs):
        raise ValueError(
            f"`model` must hold its files itself, got a link from {path} to {target}. Replace the "
            "link by a copy if the file is meant to be public."
        )


# ---- lines and other files that a user names ----


def text_suffix(path: str | Path) -> str:
    """Return the suffix of a file's name in lower case. A final .gz is ignored."""
    return Path(str(path).lower().removesuffix(".gz")).suffix


@contextlib.contextmanager
def open_text(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file to read its bytes; a gzip file is decompressed.

    Raises:
        ValueError: The gzip file is broken.
    """
    with open(path, "rb") as file:
        if not file.peek().startswith(_GZIP_MARK):
            yield file
            return
        try:
            yield cast("BinaryIO", gzip.GzipFile(fileobj=file))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(
                f"`{path}` must be a whole gzip file, got a broken one ({error}). Copy it again."
            ) from error


def decode_lines(
    stream: BinaryIO, name: str, max_bytes: int, *, offset: int = 0, line: int = 1
) -> Iterator[str]:
    r"""Yield the lines of a binary stream of UTF-8 text, without line ends.

    Lines end in `\n` or `\r\n`; no other character ends a line. A byte order mark at the start is
    dropped.

    Args:
        stream: The stream. It is read once, from its current position, one line at a time.
        name: Name of the stream in error messages.
        max_bytes: Largest number of bytes in a line, without its end.
        offset: Byte offset of the current position in the file.
        line: Number of the line at the current position, from 1.

    Raises:
        ValueError: A line is too long or is not UTF-8. The message names stream, line and byte
            offset.
    """
    # 3 bytes for a byte order mark, 2 for the line end, and 1 to detect a line that is too long
    read_line = partial(stream.readline, max_bytes + 6)
    for number, raw in enumerate(iter(read_line, b""), start=line):
        content = raw.removesuffix(b"\n").removesuffix(b"\r")
        begin = 0
        if number == 1 and content.startswith(_BYTE_ORDER_MARK):
            begin = len(_BYTE_ORDER_MARK)
        if len(content) - begin > max_bytes:
            raise ValueError(
                f"`{name}` must have at most {max_bytes} bytes in a line, got more in line "
                f"{number} at byte offset {offset}. Split it into sentences, one a line, or remove "
                "it."
            )
        try:
            text = content[begin:].decode("utf-8")
        except UnicodeDecodeError as error:
            position = begin + error.start
            raise ValueError(
                f"`{name}` must be UTF-8 text, got byte 0x{raw[position]:02x} in line {number} at "
                f"byte offset {offset + position}. Convert it to UTF-8, for example with iconv, or "
                "remove the line."
            ) from error
        yield text
        offset += len(raw)


def is_stream(file: str | Path) -> bool:
    """Return True if a file is stdin, stdout, a device or a pipe."""
    path = Path(file)
    is_special = path.exists() and not (path.is_file() or path.is_dir())
    return is_special or str(file) == STANDARD_STREAM


def check_outputs(
    outputs: Mapping[str, str | Path | None], inputs: Iterable[str | Path | None] = ()
) -> None:
    """Refuse outputs that cannot be written, or would replace another file of the command.

    Args:
        outputs: Files to write. The keys are the names of the outputs in error messages, and the
            values are paths. None means no file, and "-" means stdout.
        inputs: Files that the command reads. None means no file, and "-" means stdin.

    Raises:
        ValueError: An output is a folder, an output is in a folder that cannot be written to, or an
            output or its temporary file is also an input or another output.
    """
    others = set()
    for file in inputs:
        if file is not None and str(file) != STANDARD_STREAM:
            others.add(Path(file).resolve())

    for name, file in outputs.items():
        if file is None or is_stream(file):
            continue
        path = Path(file).resolve()
        if path.is_dir() or not os.access(path.parent, os.W_OK):
            raise ValueError(
                f"`{name}` must be a file in a folder that can be written to, got {file}. Create "
                "the folder first, or pass another file."
            )
        own = {path, path.with_name(path.name + ".part")}
        taken = own & others
        if taken:
            raise ValueError(
                f"`{name}` must be a file of its own, got {file}: {taken.pop()} is also an input "
                "or another output. Pass another file."
            )
        others |= own


def write_lines(lines: Iterable[str], output_file: str | Path) -> int:
    """Write one line for each string, and return the number of lines.

    A line feed inside a string becomes a space.

    Args:
        lines: Strings to write.
        output_file: A path, or "-" for stdout. If the output is stdout, a device or a pipe, the
            lines are written to it directly. Any other file appears only when it is complete.
    """
    num_lines = 0
    with contextlib.ExitStack() as stack:
        if str(output_file) == STANDARD_STREAM:
            stream: BinaryIO = sys.stdout.buffer
        elif is_stream(output_file):
            stream = stack.enter_context(open(output_file, "wb"))
        else:
            path = stack.enter_context(writing_beside(Path(output_file).resolve()))
            stream = stack.enter_context(open(path, "wb"))
        for line in lines:
            stream.write(line_bytes(line))
            num_lines += 1
    return num_lines


def line_bytes(line: str) -> bytes:
    """Encode a string as one line of a file. A line feed inside the string becomes a space."""
    return line.replace("\n", " ").encode("utf-8") + b"\n"
