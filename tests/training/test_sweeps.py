# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Scores over section 6.1's choices: each point is what `evaluate` gives with that value."""

import pytest
import torch
from safetensors.torch import save_file
from tiny import SENTENCES, make_model

from vaswani_transformer.evaluation.report import evaluate_model, load_evaluation_set
from vaswani_transformer.training.sweeps import CHOICES, draw_sweep, format_sweep, sweep

LIMIT = {"max_new_tokens_over_source": 3}


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny_tokenizer):
    """Folder of a model with three snapshots of other weights, and the files of a test set."""
    folder = tmp_path_factory.mktemp("run")
    make_model(scale=2.5).save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    (folder / "snapshots").mkdir()
    for step in (2, 4, 10):
        weights = dict(make_model(seed=step, scale=2.5).named_parameters())  # a tied tensor once, as in a snapshot
        save_file(weights, folder / "snapshots" / f"step-{step:08d}.safetensors")
    for number, language in enumerate(("en", "de")):
        (folder / f"test.{language}").write_text("\n".join(SENTENCES[number::2]) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def corpus(run):
    return {"source_file": str(run / "test.en"), "target_file": str(run / "test.de")}


def scores(results):
    return {name: value for name, value in results.items() if name.startswith("test_") and name != "test_runtime"}


def evaluated(model, tokenizer, corpus, **options):
    return scores(evaluate_model(model, tokenizer, load_evaluation_set(**corpus), **LIMIT, **options)[0])


def test_averages_are_of_the_newest_snapshots(run, corpus, tiny_tokenizer):
    found = list(sweep("num_averaged_snapshots", run, corpus, values=[1, 3], **LIMIT))
    for point, seeds in zip(found, [(10,), (2, 4, 10)], strict=True):
        states = [make_model(seed=seed, scale=2.5).state_dict() for seed in seeds]
        model = make_model()
        with torch.no_grad():
            model.load_state_dict({name: sum(state[name] for state in states) / len(states) for name in states[0]})
        assert scores(point) == evaluated(model, tiny_tokenizer, corpus)


@pytest.mark.parametrize(("choice", "values"), [("num_beams", [1, 3]), ("length_penalty", [0.0, 2.0])])
def test_search_is_that_of_generate_with_the_value(choice, values, run, corpus, tiny_tokenizer):
    found = list(sweep(choice, run, corpus, values=values, **LIMIT))
    assert [point[choice] for point in found] == values
    assert [scores(point) for point in found] == [
        evaluated(make_model(scale=2.5), tiny_tokenizer, corpus, **{choice: value}) for value in values
    ]


def test_without_values_as_many_snapshots_are_averaged_as_there_are(run, corpus):
    found = sweep("num_averaged_snapshots", run, corpus, num_beams=1, **LIMIT)
    assert [point["num_averaged_snapshots"] for point in found] == [1, 2, 3]


def test_values_are_tried_once_in_ascending_order(run, corpus):
    found = sweep("num_beams", run, corpus, values=[3, 1, 3.0], **LIMIT)
    assert [point["num_beams"] for point in found] == [1, 3]


@pytest.mark.parametrize("choice", CHOICES)
def test_values_tried_hold_the_papers(choice):
    assert set(CHOICES[choice].of_paper) <= set(CHOICES[choice].values)


@pytest.mark.parametrize(
    ("choice", "options", "message"),
    [
        ("dropout", {}, "`choice` must be one of num_averaged_snapshots, num_beams, length_penalty"),
        ("num_beams", {"num_beams": 4}, "`num_beams` must be left out while it is varied, got 4"),
        ("num_beams", {"values": [0]}, "`num_beams` must be a whole number of at least 1, got 0"),
        ("num_beams", {"values": [2.5]}, "`values` must be whole numbers for num_beams, got 2.5"),
        ("num_beams", {"values": [float("nan")]}, "`values` must be whole numbers for num_beams, got nan"),
        (
            "num_averaged_snapshots",
            {"values": [float("inf")]},
            "`values` must be whole numbers for num_averaged_snapshots, got inf",
        ),
        ("length_penalty", {"values": [float("nan")]}, "`length_penalty`"),
        ("num_averaged_snapshots", {"values": [4]}, r"`values` must lie in \[1, 3\], the snapshots in .*, got 4"),
    ],
)
def test_value_that_cannot_be_is_refused_before_the_model_is_loaded(
    choice, options, message, run, corpus, monkeypatch
):
    monkeypatch.setattr("vaswani_transformer.training.sweeps.load_for_inference", None)
    with pytest.raises(ValueError, match=message):
        sweep(choice, run, corpus, **options)


def test_run_without_snapshots_is_refused(tmp_path, corpus):
    with pytest.raises(FileNotFoundError, match="`model` must hold snapshots"):
        sweep("num_averaged_snapshots", tmp_path, corpus)


def test_snapshots_of_another_model_are_refused(run, corpus, tmp_path, tiny_tokenizer):
    make_model(position_encoding="learned").save_pretrained(tmp_path)
    tiny_tokenizer.save_pretrained(tmp_path)
    (tmp_path / "snapshots").symlink_to(run / "snapshots")
    with pytest.raises(ValueError, match="`model` must have the tensors of its snapshots"):
        list(sweep("num_averaged_snapshots", tmp_path, corpus))


# ---- table and picture ----


def result(choice, value, bleu):
    figures = {"sacrebleu": bleu, "paper_bleu": bleu + 1, "chrf": bleu + 20, "runtime": 2.0}
    figures |= {"hypothesis_length": 98, "reference_length": 100, "data": "valid", "num_sentences": 1014}
    figures |= {"num_beams": 4, "length_penalty": 0.6, "length_penalty_offset": 5, "max_new_tokens_over_source": 50}
    return {choice: value, **{f"test_{name}": figure for name, figure in figures.items()}}


@pytest.fixture
def points():
    return [result("length_penalty", value, bleu) for value, bleu in ((0.0, 30.0), (0.6, 31.25), (1.0, 30.5))]


def test_table_holds_every_point_and_the_papers_choice(points):
    lines = format_sweep("length_penalty", points).splitlines()
    assert [line.split() for line in lines[1:4]] == [
        ["0", "30.00", "31.00", "50.00", "0.980", "2.0"],
        ["0.6", "31.25", "32.25", "51.25", "0.980", "2.0"],
        ["1", "30.50", "31.50", "50.50", "0.980", "2.0"],
    ]
    assert "The paper chose 0.6." in " ".join(lines[-2:])


def test_papers_numbers_of_snapshots_are_told_with_their_models():
    assert "chose 5 for base and 20 for big." in format_sweep(
        "num_averaged_snapshots", [result("num_averaged_snapshots", 1, 30.0)]
    )


def test_papers_alpha_is_no_choice_of_another_penalty(points):
    other = [{**point, "test_length_penalty_offset": 0} for point in points]
    assert "chose" not in format_sweep("length_penalty", other)
    pytest.importorskip("matplotlib", reason="needs the extra [viz]")
    assert "the paper's choice" not in [line.get_label() for line in draw_sweep("length_penalty", other).axes[0].lines]


def test_picture_holds_every_point_and_the_papers_choice(points):
    pytest.importorskip("matplotlib", reason="needs the extra [viz]")
    axes = draw_sweep("length_penalty", points).axes[0]
    drawn = {line.get_label(): [tuple(map(float, point)) for point in line.get_xydata()] for line in axes.get_lines()}
    assert drawn["sacreBLEU"] == [(0.0, 30.0), (0.6, 31.25), (1.0, 30.5)]
    assert drawn["paper BLEU"] == [(0.0, 31.0), (0.6, 32.25), (1.0, 31.5)]
    assert {x for x, _ in drawn["the paper's choice"]} == {0.6}
