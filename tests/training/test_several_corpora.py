# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Several training corpora with weights, and tokens that are added to the vocabulary."""

import json
from collections import Counter
from pathlib import Path

import pytest
from cli_runs import refused, train_arguments
from transformers import AutoTokenizer

from vaswani_transformer.cli import main
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.training.arguments import VaswaniTransformerTrainingArguments
from vaswani_transformer.training.data import prepare_data

ENGLISH = {"a": ["one dog", "two dogs", "three dogs"], "b": ["a red cat", "<bt> a cat"]}
GERMAN = {"a": ["ein Hund", "zwei Hunde", ""], "b": ["eine rote Katze", "eine Katze"]}


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Two corpora, as text and as pairs; a pair of the first is dropped."""
    monkeypatch.chdir(tmp_path)
    for name in ENGLISH:
        pairs = list(zip(ENGLISH[name], GERMAN[name], strict=True))
        Path(f"{name}.en").write_text("".join(f"{source}\n" for source, _ in pairs))
        Path(f"{name}.de").write_text("".join(f"{target}\n" for _, target in pairs))
        rows = [json.dumps({"source": source, "target": target}) for source, target in pairs]
        Path(f"{name}.jsonl").write_text("".join(f"{row}\n" for row in rows))


def prepared(**values):
    recipe = Recipe(source_language="en", target_language="de", vocab_size=280, **values)
    return prepare_data(recipe, VaswaniTransformerTrainingArguments(use_cpu=True), None, None)


@pytest.mark.parametrize(
    "named",
    [
        {"train_source": ["a.en", "b.en"], "train_target": ["a.de", "b.de"]},
        {"train_pairs": ["a.jsonl", "b.jsonl"]},
    ],
)
@pytest.mark.parametrize("weights", [None, [1, 4], [2, 1]])
def test_an_epoch_has_each_pair_as_often_as_its_corpus_weight_says(named, weights):
    data = prepared(**named, train_weights=weights)
    sentences = data.tokenizer.batch_decode(list(data.train["input_ids"]), skip_special_tokens=True)
    first, second = weights or [1, 1]
    expected = {"one dog": first, "two dogs": first, "a red cat": second, "<bt> a cat": second}
    assert Counter(sentences) == expected
    assert [
        (each.weight, each.report.num_kept, each.report.num_dropped) for each in data.corpora
    ] == [
        (first, 2, 1),
        (second, 2, 0),
    ]
    assert (data.report.num_kept, data.report.dropped["empty_target"]) == (4, 1)


def test_one_corpus_can_be_weighted_too():
    assert len(prepared(train_pairs="b.jsonl", train_weights=3).train) == 6


def test_added_tokens_are_one_token_before_the_tokens_of_the_sentence():
    data = prepared(train_pairs="b.jsonl", added_tokens="<bt>")
    plain, tagged = data.tokenizer(["a cat", "<bt> a cat"])["input_ids"]
    assert tagged == [data.tokenizer.convert_tokens_to_ids("<bt>"), *plain]
    assert tagged in data.train["input_ids"] and len(data.tokenizer) == tagged[0] + 1
    assert prepared(train_pairs="b.jsonl", added_tokens=["<bt>", "<a>"]).tokenizer("<a><bt>")[
        "input_ids"
    ][:-1] == [
        tagged[0] + 1,
        tagged[0],
    ]


@pytest.mark.slow
def test_run_with_weights_reports_them_and_resumes(capsys):
    words = "--train-pairs a.jsonl b.jsonl --train-weights 1 4 --added-tokens <bt>"
    options = words.split()
    changes = {"train_source": None, "train_target": None, "vocab_size": "280"}
    command = train_arguments(*options, **changes)
    assert main(command) == 0
    said = capsys.readouterr().err
    assert "a.jsonl, 1 times an epoch: kept 2 of 3 pairs" in said
    assert json.loads(Path("run/train_results.json").read_text())["train_corpora"] == [
        {"name": "a.jsonl", "weight": 1, "pairs": 2},
        {"name": "b.jsonl", "weight": 4, "pairs": 2},
    ]
    card = Path("run/README.md").read_text()
    assert "| corpus | `b.jsonl`: 2 pairs, 4 times an epoch |" in card
    assert "train_pairs:\n- a.jsonl\n- b.jsonl\n" in card
    assert main([*command, "--max-steps", "6", "--resume"]) == 0
    changed = [*train_arguments(**changes), "--resume", *options[:3], "--train-weights", "1", "3"]
    assert "train_weights [1, 4] instead of [1, 3]" in refused(capsys, changed)
    tokenizer = AutoTokenizer.from_pretrained("run")
    assert tokenizer.convert_tokens_to_ids("<bt>") == len(tokenizer) - 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "--train-pairs a.jsonl c.jsonl",
            "c.jsonl must be an existing file.",
        ),
        (
            "--train-pairs a.jsonl b.jsonl --train-weights 2",
            "`--train-weights`, got lists of 2 and 1.",
        ),
        ("--train-source a.en b.en --train-target a.de", "got lists of 2 and 1 and 2."),
        (
            "--train-pairs a.jsonl --train-weights 0",
            "`--train-weights` must be a whole number of at least 1",
        ),
        ("--dataset builtin --train-weights 1 2", "`--train-weights`, got lists of 2."),
        (
            "--train-pairs a.jsonl b.jsonl --streaming true --tokenizer x",
            "`--streaming` must be off with several corpora",
        ),
    ],
)
def test_corpora_that_do_not_fit_are_refused_before_anything_is_made(options, message, capsys):
    command = train_arguments(*options.split(), train_source=None, train_target=None)
    assert message in refused(capsys, command)
    assert not Path("run").exists()
