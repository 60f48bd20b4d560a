# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The README's commands and code blocks run; its paper map points to what exists."""

import importlib
import re
import shlex
import shutil
import socket
from pathlib import Path

import pytest
from readme import README, ROOT, blocks, commands, commands_with_outputs, first_line_of
from tiny import SENTENCES, make_model

from vaswani_transformer import cli

TINY = "--d-model 16 --d-ff 32 --num-heads 2 --num-encoder-layers 1 --num-decoder-layers 1 --snapshot-steps 1"


@pytest.fixture
def workplace(tmp_path, monkeypatch, tiny_tokenizer):
    """A folder with the files the README speaks of: six aligned texts and a model in runs/my-model."""
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.en").write_text("\n".join(SENTENCES[::2] * 10) + "\n", encoding="utf-8")
        (tmp_path / f"{split}.de").write_text("\n".join(SENTENCES[1::2] * 10) + "\n", encoding="utf-8")
    (tmp_path / "text.en").write_text("A dog.\n\nA book.\n", encoding="utf-8")
    make_model(scale=2.5).save_pretrained(tmp_path / "runs" / "my-model")
    tiny_tokenizer.save_pretrained(tmp_path / "runs" / "my-model")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_readme_is_under_200_lines():
    assert len(README.splitlines()) < 200


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_command_is_understood(words):
    cli._build_parser().parse_args(words)


def test_readme_names_commands_of_every_kind():
    assert {words[0] for words in commands()} | {"recipes"} == set(cli._COMMANDS)


@pytest.mark.slow
def test_training_on_two_text_files_works_as_printed(workplace):
    train, evaluate = next(
        block.replace("\\\n", " ").splitlines() for block in blocks("bash") if "--train-source train.en" in block
    )
    shutil.rmtree("runs")
    small = train.replace("--vocab-size 8000", "--vocab-size 280").replace("--max-steps 20000", "--max-steps 3")
    assert cli.main(shlex.split(f"{small} {TINY} --use-cpu")[1:]) == 0
    assert cli.main([*shlex.split(evaluate)[1:], "--max-new-tokens-over-source", "1"]) == 0
    assert Path("runs/my-model/test_results.json").is_file()


@pytest.mark.parametrize(
    "words",
    [
        words
        for words in commands()
        if words[0] in ("translate", "score", "align", "table1", "table3", "plot")
        and not {"--measure", "--output-dir"} & {*words}  # these take long; their own tests run them small
    ],
    ids=" ".join,
)
def test_command_works_as_printed(words, workplace, capsys):
    assert cli.main(words) == 0
    assert capsys.readouterr().out or Path(words[words.index("--output") + 1]).read_text(encoding="utf-8")


def test_translating_a_file_keeps_its_lines(workplace):
    command = next(words for words in commands() if words[0] == "translate")
    assert cli.main(command) == 0
    lines = Path("text.de").read_text(encoding="utf-8").split("\n")
    assert len(lines) == 4
    assert lines[1] == lines[3] == ""


@pytest.mark.slow
def test_commands_print_lines_as_shown_for_any_model(workplace):
    """The sizes and translations shown are the quickstart's; tests/test_quickstart.py compares them with its model."""
    assert len(commands_with_outputs()) == 5
    for command, shown in commands_with_outputs():
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        free = command.replace("runs/my-model  #", f"runs/my-model --port {port}  #")
        pattern = re.escape(shown).replace("7860", port)
        pattern = pattern.replace(re.escape("Der Mann liest ein Buch."), ".*")
        assert re.fullmatch(re.sub(r"\d+\\\.\d", r"\\d+\\.\\d", pattern), first_line_of(free, workplace)), command


@pytest.mark.slow
def test_python_blocks_run(workplace):
    namespace = {}
    for block in blocks("python"):
        small = block.replace("max_steps=20_000", "max_steps=1, use_cpu=True").replace("8000", "280")
        exec(small.replace("len(tokenizer)", "len(tokenizer), d_model=16, d_ff=32, num_heads=2"), namespace)
    assert namespace["trainer"].state.global_step == 1


PAPER_MAP = re.findall(r"^\| [3-6][^|]*\|[^|]*\|[^|]*\|[^|]*\|$", README, re.MULTILINE)


def test_paper_map_has_every_section_equation_table_and_figure():
    told = " ".join(row.split("|")[1] for row in PAPER_MAP)
    sections = "3.1 3.2 3.2.3 3.3 3.4 3.5 4 5.1 5.2 5.3 5.4 6.1 6.2".split()
    assert [section for section in sections if not re.search(rf"(?<![\d.]){re.escape(section)}[,:]", told)] == []
    parts = [f"equation {number}" for number in (1, 2, 3)] + [f"Table {number}" for number in (1, 2, 3)]
    parts += ["Figure 1", "Figure 2", "Figures 3 to 5"]
    assert [part for part in parts if part not in told] == []


@pytest.mark.parametrize("row", PAPER_MAP, ids=lambda row: row.split("|")[1].strip())
def test_paper_map_points_to_what_exists(row):
    _, symbols, files, tests = (re.findall(r"`([^`]+)`", cell) for cell in row.strip("|").split("|"))
    for test in tests:
        text = (ROOT / test).read_text(encoding="utf-8")
        assert any(re.search(rf"\b{symbol.split('.')[-1]}\b", text) for symbol in symbols), (
            f"{test} tests another thing"
        )
    modules = []
    for file in files:
        path = ROOT / "vaswani_transformer" / file
        assert path.exists(), file
        names = [path] if path.is_file() else sorted(path.glob("*.py"))
        relative = [p.relative_to(ROOT).with_suffix("").parts for p in names]
        modules += [importlib.import_module(".".join(parts).removesuffix(".__init__")) for parts in relative]
    for symbol in symbols:
        head, *rest = symbol.split(".")
        holder = next((getattr(module, head) for module in modules if hasattr(module, head)), None)
        assert holder is not None, symbol
        source = "".join(Path(module.__file__).read_text(encoding="utf-8") for module in modules)
        assert all(hasattr(holder, name) or f"self.{name} =" in source for name in rest)
