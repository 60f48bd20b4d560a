# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The cards in model_cards: read by the Hub's client, at one with themselves, with real commands
and pictures.
"""

import re
import shlex

import pytest
from huggingface_hub import ModelCard
from readme import ROOT, words_for_main
from tables import VARIATIONS

from vaswani_transformer import cli
from vaswani_transformer.recipe import RECIPES

CARDS = sorted((ROOT / "model_cards").glob("*.md"))

each_card = pytest.mark.parametrize("path", CARDS, ids=[path.stem for path in CARDS])


def table(text, heading):
    """Rows of the first table under a heading, as lists of cells."""
    section = text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return [
        line.strip("| ").split(" | ")
        for line in section.splitlines()
        if re.match(r"\| [^ :-]", line)
    ]


def test_there_are_cards():
    assert "multi30k-en-de-tiny" in [path.stem for path in CARDS]


@each_card
def test_scores_for_the_hub_are_those_of_the_table(path):
    text = path.read_text(encoding="utf-8")
    (_, _, *metrics, _), *rows = table(text, "Scores")
    results = ModelCard.load(path).data.eval_results
    names = [name for _ in rows for name in metrics]
    values = [cell for row in rows for cell in row[2:-1]]
    assert [(result.metric_name, f"{result.metric_value:.2f}") for result in results] == list(
        zip(names, values, strict=True)
    )
    assert all(result.dataset_name and result.metric_args for result in results)
    assert results[0].dataset_split in ("test", None)  # None: it was read from files


@each_card
def test_commands_are_commands_of_the_package(path):
    (code,) = re.findall(r"```bash\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    commands = [shlex.split(line) for line in code.replace("\\\n", " ").splitlines()]
    assert commands[0][:2] == ["vaswani-transformer", "train"]
    for words in commands:
        assert callable(cli.build_parser().parse_args(words[1:]).run)


@each_card
def test_training_names_recipe_hardware_and_a_version_without_changes(path):
    rows = {name: value for name, value, *_ in table(path.read_text(encoding="utf-8"), "Training")}
    assert rows["recipe"].strip("`") in RECIPES
    assert re.match(r"\d+ x \w", rows["hardware"])
    assert re.match(r"vaswani-transformer \d", rows["code"]) and "with changes" not in rows["code"]


# ---- the paper's tables and figures ----

# made in a loop
DATA_OPTIONS = ("--train-source", "--train-target", "--validation-source", "--validation-target")
PAPER = ROOT / "model_cards" / "paper" / "README.md"


@pytest.mark.parametrize(
    ("page", "programs"),
    [
        (PAPER, {"vaswani-transformer", "python", "torchrun"}),
        (PAPER.with_name("parsing-genia.md"), {"python", "torchrun"}),
    ],
    ids=["README", "parsing-genia"],
)
def test_commands_of_the_papers_pages_are_commands_of_the_package_and_its_scripts(page, programs):
    blocks = re.findall(r"```bash\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    assert {shlex.split(line)[0] for line in lines} == programs
    for line in lines:
        words = shlex.split(line)
        if script := next((word for word in words if word.startswith("scripts/paper")), None):
            source = (ROOT / script).read_text(encoding="utf-8")
            options = {word for word in words[words.index(script) :] if word.startswith("--")}
            unknown = {option for option in options if f'"{option}"' not in source}
            assert unknown <= set(DATA_OPTIONS)
        else:
            assert callable(cli.build_parser().parse_args(words_for_main(line)).run)


def test_pictures_of_the_cards_and_of_the_papers_pages_exist():
    for page in (*CARDS, PAPER, PAPER.with_name("parsing-genia.md")):
        pictures = re.findall(
            r"(?:!\[.*?\]\(|<img src=\")(.*?)[)\"]", page.read_text(encoding="utf-8")
        )
        assert pictures
        assert all(
            (page.parent / picture).read_bytes().startswith(b"\x89PNG") for picture in pictures
        )


def test_table_3_of_the_papers_page_has_every_row():
    block = PAPER.read_text(encoding="utf-8").split("## Table 3")[1].split("\n```\n")[2]
    assert [line.split()[0] for line in block.splitlines()[1:21]] == [
        row.name for row in VARIATIONS
    ]
