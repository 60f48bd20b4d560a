# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The commands and code blocks of the README and of docs run; the README's paper map points to what
exists.
"""

import ast
import importlib
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from processes import find_port, script_environment
from readme import (
    PAGES,
    README,
    ROOT,
    blocks,
    commands,
    commands_with_outputs,
    first_line,
    inline_code,
    words_for_main,
)
from tiny import write_sentences

from vaswani_transformer import cli

SIZES = "--d-model 16 --d-ff 32 --num-heads 2 --num-encoder-layers 1 --num-decoder-layers 1"
TEXTS = "--train-source train.en --train-target train.de"
TINY = f"{SIZES} --snapshot-steps 1 --max-new-tokens-over-source 2 --use-cpu"

# What is replaced in every command, to take seconds.
SMALLER = {
    "--vocab-size 8000": "--vocab-size 280",
    "--recipe small --minutes 30": "--vocab-size 280 --max-steps 3",
    "--recipe small --minutes 2": "--vocab-size 280 --max-steps 3",
    "--recipe small": "--vocab-size 280 --max-steps 3",
    "--nproc-per-node 8": "--standalone --nproc-per-node 2",
    "measure_speed.py --recipe paper-base-en-de": "measure_speed.py --recipe quickstart",
}

# Commands that are run here, by their beginnings, with the words that are added to make them small.
RUN_HERE = {
    "vaswani-transformer train --output-dir runs/own": f"{TINY} --save-steps 1 --overwrite",
    "vaswani-transformer train --output-dir runs/my-model": f"{TINY} --save-steps 1 --overwrite",
    "vaswani-transformer train --output-dir runs/back": f"{TINY} --overwrite",
    "vaswani-transformer train --output-dir runs/more": TINY,
    "vaswani-transformer train --output-dir runs/student": TINY,
    "vaswani-transformer train --output-dir runs/taught": TINY,
    "vaswani-transformer train-tokenizer": "--overwrite",
    "vaswani-transformer clean": "",
    "vaswani-transformer recipes": "",
    "vaswani-transformer average": "",
    "vaswani-transformer evaluate --model runs/own": "",
    "vaswani-transformer evaluate --model runs/my-model": "",
    "vaswani-transformer translate": "--overwrite",
    "vaswani-transformer score": "",
    "python scripts/paper/sweep.py": "--values 1 2 --num-beams 1",
    "python scripts/paper/measure_layers.py": "--d 8 --lengths 4 8 16 --repeats 1",
    "python scripts/paper/tables.py": "",
    "python scripts/paper/train_table3.py": "--rows base --max-steps 2 --use-cpu "
    "--set vocab_size=280 d_ff=32",
    "python scripts/paper/measure_speed.py": "--updates 1 --use-cpu",
    "python scripts/paper/figures.py": "",
    "python scripts/paper/draw_attention.py": "",
    "torchrun --nproc-per-node 8 scripts/train.py": f"{TEXTS} --vocab-size 280 --max-steps 2 {TINY}",  # noqa: E501
    "python scripts/examples": "--max-steps 2",
}

# Commands that another test runs: its name, with a word that must stand in it or in a function that
# it leads to.
RUN_ELSEWHERE = {
    "vaswani-transformer recipes small": (
        "training/test_recipes.py::test_printed_recipe_is_the_start_of_ones_own",
        'recipe_text("small")',
    ),
    "vaswani-transformer train --recipe mine.yaml": (
        "cli/test_cli_training.py::test_run_by_a_file_of_ones_own_is_repeated_by_its_recipe",
        '"mine.yaml"',
    ),
    "bash scripts/quickstart.sh": (
        "test_quickstart.py::test_quickstart_trains_scores_and_translates",
        "quickstart.sh",
    ),
    "bash scripts/export_onnx.sh": (
        "export/test_browser.py::test_browser_translates_as_python_does",
        "export_onnx.sh",
    ),
    "python scripts/paper/parsing.py": (
        "paper/test_section_6_3_parsing.py::test_commands_prepare_train_parse_and_score",
        "parsing.main",
    ),
    "python scripts/gpu_report.py": (
        "test_gpu_report.py::test_report_has_every_section_on_a_cpu",
        "gpu_report",
    ),
    "vaswani-transformer train --help": (
        "cli/test_cli.py::test_help_of_every_command_describes_every_option",
        '"--help"',
    ),
    "torchrun --nproc-per-node 8 -m vaswani_transformer.cli translate": (
        "cli/test_cli_translate.py::test_two_processes_write_what_one_writes",
        '"translate"',
    ),
    "vaswani-transformer push": (
        "test_hub.py::test_push_uploads_the_published_files_in_one_commit",
        "pushed",
    ),
    "vaswani-transformer train --recipe paper-base-en-de": (
        "training/test_wmt14_dry_run.py::test_dry_run_is_the_recipe_but_for_its_size",
        '"paper-base-en-de"',
    ),
    "vaswani-transformer evaluate --model runs/base": (
        "training/test_wmt14_dry_run.py::test_dry_run_is_the_recipe_but_for_its_size",
        '"evaluate"',
    ),
    "vaswani-transformer translate --model facebook/": (
        "inference/test_teachers.py::test_translations_are_those_of_the_models_own_generate",
        "main(command)",
    ),
    "python scripts/examples/distill.py": (
        "test_examples.py::test_distilled_student_learns_the_teachers_translations",
        '"distill"',
    ),
    **dict.fromkeys(
        (re.sub(r"\s+# .*", "", line) for line, _ in commands_with_outputs()),
        (
            "test_readme.py::test_commands_print_lines_as_shown_for_any_model",
            "commands_with_outputs",
        ),
    ),
}

# Commands that are not run, and why.
NOT_RUN = {
    "bash scripts/test.sh": "it runs these tests; .ci/run is nothing but this command",
    "pip install": "it needs the network; that its extras exist is tested below",
    "hf auth login": "it asks a person; the tests of push pass a token in HF_TOKEN",
    "hf upload": "it needs an account of the Hub; the tests of push upload such files",
    "hf jobs uv run": "it needs an account with machines of the Hub",
}

# Trainings that are run here for the options that stand in the text of the pages.
TRAININGS = (
    "runs/new --recipe tatoeba-small --warmup-steps 800 --dropout 0.3 "
    "--max-padded-tokens-per-device 8000 --train-source train.en --train-target train.de "
    "--validation-source valid.en --validation-target valid.de --load-best-model-at-end true "
    "--early-stopping-patience 10 --eval-steps 1 --save-steps 1 --dataloader-num-workers 2",
    "runs/new --train-pairs train.jsonl --num-proc 1 --max-tokens-per-sentence 99 "
    "--max-length-ratio 9 --validation-split none",
    "runs/new --train-source train.en --train-target train.de --streaming true --tokenizer tok "
    "--resume",
    "runs/my-model --resume --bpe-dropout 0.1 --bpe-dropout-side source --max-steps 4",
    "runs/new --recipe medium --bf16 --train-source train.en --train-target train.de",
    "runs/new --train-pairs train.jsonl domain.jsonl --train-weights 1 4 --bpe-dropout 0.1 "
    "--bpe-dropout-side source",
    "runs/new --train-source train.en domain.en --train-target train.de domain.de "
    "--bpe-dropout-side target",
)
OPTIONS_RUN_ELSEWHERE = {
    "--recipe runs/mine/recipe.json": (
        "cli/test_cli_training.py::test_run_by_a_file_of_ones_own_is_repeated_by_its_recipe",
        '"run/recipe.json"',
    ),
    "--license": (
        "training/test_publish.py::test_license_of_the_option_wins_and_stays_in_the_card",
        "license=given",
    ),
    "--minutes 30": (
        "training/test_first_minutes.py::test_minutes_become_updates_that_a_resume_keeps",
        "--minutes",
    ),
    "--name": (
        "cli/test_cli_evaluation.py::test_another_name_keeps_the_results_of_another_search",
        '"--name"',
    ),
    "--package git+https://ADDRESS@REVISION": (
        "cli/test_cli_hub.py::test_train_uv_pushes_what_was_trained",
        '"--package"',
    ),
    "--resume --max-steps 1216": (
        "training/test_train.py::test_resuming_with_max_steps_6_after_6_updates_ends_with_the_model"
        "_of_these",
        "max_steps=6",
    ),
    "--report-to tensorboard": (
        "training/test_arguments.py::test_report_to_takes_what_the_library_takes",
        "report_to",
    ),
    "--dataset wmt/wmt14 --dataset-config de-en": (
        "training/test_wmt14_dry_run.py::test_recipe_asks_the_library_for_wmt14_on_the_hub",
        '"wmt/wmt14"',
    ),
    "--dataset FOLDER": (
        "training/test_wmt14_dry_run.py"
        "::test_big_recipe_reads_tokenises_and_trains_on_the_french_configuration",
        "dataset=wmt14",
    ),
    "--source-language en --target-language de": (
        "training/test_first_minutes.py::test_files_of_the_other_sides_language_are_refused",
        "source_language",
    ),
    "--dataset builtin --source-language en --target-language de": (
        "test_quickstart.py::test_quickstart_trains_scores_and_translates",
        "quickstart.sh",
    ),
}

ALL_COMMANDS = list(dict.fromkeys(command for page in PAGES for command in commands(page)))
ALL_OPTIONS = {code for page in PAGES for code in inline_code(page) if code.startswith("--")}


def beginning_of(command):
    """The longest beginning in the tables that a command has, or None."""
    known = [*RUN_HERE, *RUN_ELSEWHERE, *NOT_RUN]
    return max((start for start in known if command.startswith(start)), key=len, default=None)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_tokenizer):
    """A folder with what the pages speak of: six aligned texts, pairs, a tokenizer and the README's
    own training.
    """
    folder = tmp_path_factory.mktemp("pages")
    write_sentences(folder, *"train valid test domain mono distilled news taught".split())
    (folder / "domain.jsonl").write_text(
        '{"en": "A cat.", "de": "Eine Katze."}\n', encoding="utf-8"
    )
    (folder / "train.jsonl").write_text(
        '{"en": "A dog.", "de": "Ein Hund."}\n' * 10, encoding="utf-8"
    )
    (folder / "text.en").write_text("A dog.\n\nA book.\n", encoding="utf-8")
    tiny_tokenizer.save_pretrained(folder / "tok")
    (command,) = (
        each for each in commands() if each.startswith("vaswani-transformer train --output-dir")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert cli.main(words_for_main(small(command))) == 0
    for name in ("my-model", "back"):
        shutil.copytree(folder / "runs" / "own", folder / "runs" / name)
    return folder


@pytest.fixture
def workplace(trained, tmp_path, monkeypatch):
    """A copy of that folder, as the working directory."""
    shutil.copytree(trained, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


def small(command):
    """A command with the sizes of a test."""
    added = RUN_HERE[beginning_of(command)]
    for text, smaller in SMALLER.items():
        command = command.replace(text, smaller)
    return f"{command} {added}".strip()


def files_in(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


# ---- commands ----


def test_every_command_of_the_pages_is_in_the_tables_and_the_tables_have_no_other():
    assert [command for command in ALL_COMMANDS if beginning_of(command) is None] == []
    used = {beginning_of(command) for command in ALL_COMMANDS}
    assert {*RUN_HERE, *RUN_ELSEWHERE, *NOT_RUN} - used == set()


def test_readme_and_docs_name_commands_of_every_kind():
    named = {words[0] for command in ALL_COMMANDS if (words := words_for_main(command))}
    assert named == set(cli.build_parser()._subparsers._group_actions[0].choices)


def marks(command):
    """`slow` for what takes more than a second where nothing else runs."""
    if "--nproc-per-node 8 " in command:
        return pytest.mark.heavy
    if command.startswith("torchrun"):
        return pytest.mark.slow, pytest.mark.multi_process
    is_fast = command.startswith("vaswani-transformer") and " train " not in command
    return () if is_fast else pytest.mark.slow


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, id=command, marks=marks(command))
        for command in ALL_COMMANDS
        if beginning_of(command) in RUN_HERE
    ],
)
def test_command_runs(command, workplace, capsys, monkeypatch, tmp_path):
    before = files_in(workplace)
    if command.startswith("vaswani-transformer"):
        assert cli.main(words_for_main(small(command))) == 0
        printed = capsys.readouterr().out
    elif command.startswith("python scripts/"):
        monkeypatch.setattr("sys.argv", shlex.split(small(command))[1:])
        runpy.run_path(str(ROOT / sys.argv[0]), run_name="__main__")
        printed = capsys.readouterr().out
    else:
        (workplace / "scripts").symlink_to(ROOT / "scripts")
        environment = script_environment()
        printed = subprocess.check_output(["bash", "-c", small(command)], env=environment)
    assert printed or files_in(workplace) != before


def source_of(test):
    """Source of a test and of every function of its file that it leads to."""
    file, name = test.split("::")
    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
    nodes = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    functions = {node.name: ast.get_source_segment(text, node) for node in nodes}
    reached = [name]
    for each in reached:
        named = {other for other in functions if re.search(rf"\b{other}\b", functions[each])}
        reached += sorted(named - set(reached))
    return "".join(functions[each] for each in reached)


@pytest.mark.parametrize(("test", "word"), {**RUN_ELSEWHERE, **OPTIONS_RUN_ELSEWHERE}.values())
def test_command_that_is_run_elsewhere_stands_in_that_test(test, word):
    assert word in source_of(test)


def test_ci_runs_the_test_command_of_the_readme():
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[
        -1
    ] == "exec bash scripts/test.sh"


def test_extras_that_are_named_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = re.findall(r"\.\[(.*?)\]", " ".join(ALL_COMMANDS))
    assert {name for group in extras for name in group.split(",")} <= set(
        project["optional-dependencies"]
    )
    assert extras


# ---- options of `train` ----


def test_every_option_of_the_pages_is_run_here_or_elsewhere():
    commands_run = [small(command) for command in ALL_COMMANDS if beginning_of(command) in RUN_HERE]
    unknown = {
        option
        for option in ALL_OPTIONS
        if not any(option in line for line in (*TRAININGS, *commands_run))
    }
    assert unknown == set(OPTIONS_RUN_ELSEWHERE)


@pytest.mark.slow
@pytest.mark.parametrize("options", TRAININGS)
def test_training_with_options_of_the_pages_runs(options, workplace, capsys):
    new = (
        ""
        if "--resume " in options
        else f"--source-language en --target-language de --vocab-size 280 {TINY}"
    )
    command = f"train --output-dir {options} {new} --use-cpu"
    assert (
        cli.main([*command.split(), *([] if "--resume " in options else ["--max-steps", "3"])]) == 0
    )
    assert "updates" in capsys.readouterr().out


# ---- code, and what commands print ----


@pytest.mark.slow
def test_commands_print_lines_as_shown_for_any_model(workplace, capsys):
    """The sizes and translations shown are the quickstart's; tests/test_quickstart.py compares them
    with its model.
    """
    assert len(commands_with_outputs()) == 4
    for command, shown in commands_with_outputs():
        port = str(find_port())
        free = command.replace("runs/my-model  #", f"runs/my-model --port {port}  #")
        pattern = re.escape(shown).replace("7860", port)
        pattern = pattern.replace(re.escape("Der Mann liest ein Buch."), ".*")
        assert re.fullmatch(
            re.sub(r"\d+\\\.\d", r"\\d+\\.\\d", pattern),
            first_line(free, workplace, capsys),
        ), command


# What is replaced in the blocks of Python, to take a second.
SMALLER_CODE = {
    "max_steps=20_000": "max_steps=1, snapshot_steps=1, use_cpu=True",
    "max_steps=12_000": "max_steps=1, vocab_size=280, d_model=16, d_ff=32",
    "vocab_size=8000": "vocab_size=280",
    "vocab_size=len(tokenizer)": "vocab_size=len(tokenizer), d_model=16, d_ff=32, num_heads=2",
}


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/using.md", "docs/training.md"])
def test_python_blocks_run(page, workplace, capsys):
    namespace = {}
    for block in blocks("python", page):
        for text, smaller in SMALLER_CODE.items():
            block = block.replace(text, smaller)
        exec(block, namespace)
        assert "print(" not in block or capsys.readouterr().out
    assert namespace


# ---- the paper map ----


PAPER_MAP = re.findall(r"^\| [3-6][^|]*\|[^|]*\|[^|]*\|[^|]*\|$", README, re.MULTILINE)


def test_paper_map_has_every_section_equation_table_and_figure():
    told = " ".join(row.split("|")[1] for row in PAPER_MAP)
    sections = "3.1 3.2 3.2.3 3.3 3.4 3.5 4 5.1 5.2 5.3 5.4 6.1 6.2".split()
    assert [
        section
        for section in sections
        if not re.search(rf"(?<![\d.]){re.escape(section)}[,:]", told)
    ] == []
    parts = [f"equation {number}" for number in (1, 2, 3)] + [
        f"Table {number}" for number in (1, 2, 3)
    ]
    parts += ["Figure 1", "Figure 2", "Figures 3 to 5"]
    assert [part for part in parts if part not in told] == []


@pytest.mark.parametrize("row", PAPER_MAP, ids=lambda row: row.split("|")[1].strip())
def test_paper_map_points_to_what_exists(row):
    _, symbols, files, tests = (
        re.findall(r"`([^`]+)`", cell) for cell in row.strip("|").split("|")
    )
    for test in tests:
        text = (ROOT / test).read_text(encoding="utf-8")
        assert any(re.search(rf"\b{symbol.split('.')[-1]}\b", text) for symbol in symbols), (
            f"{test} tests another thing"
        )
    modules = []
    for file in files:
        if file.startswith("scripts/"):
            modules.append(importlib.import_module(Path(file).stem))
            assert Path(modules[-1].__file__) == ROOT / file
            continue
        path = ROOT / "vaswani_transformer" / file
        assert path.exists(), file
        names = [path] if path.is_file() else sorted(path.glob("*.py"))
        relative = [p.relative_to(ROOT).with_suffix("").parts for p in names]
        modules += [
            importlib.import_module(".".join(parts).removesuffix(".__init__")) for parts in relative
        ]
    for symbol in symbols:
        head, *rest = symbol.split(".")
        holder = next((vars(module)[head] for module in modules if head in vars(module)), None)
        assert holder is not None, symbol
        source = "".join(Path(module.__file__).read_text(encoding="utf-8") for module in modules)
        assert all(hasattr(holder, name) or f"self.{name} =" in source for name in rest)
