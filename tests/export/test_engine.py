# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The engine ctranslate2: the commands' outputs are those of torch, and what it cannot do is
refused by name.
"""

import json
import tempfile
from pathlib import Path

import pytest
import torch
from cli_runs import check_resumed, refused
from transformers import pipeline

from vaswani_transformer.cli import main
from vaswani_transformer.inference.loading import load_for_inference
from vaswani_transformer.inference.translate import translate

ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra export is not installed")

from vaswani_transformer.export import Translator  # noqa: E402
from vaswani_transformer.inference.translator import CTranslate2Engine, load_engine  # noqa: E402

LINES = [
    "A dog runs in the park.",
    "",
    "Two women read a book. A dog runs!",
    "  Zwei",
    "TWO DOGS RUN IN THE PARK.",
    "- A book.",
    "See https://example.org/x for a dog.",
    "Собака бежит в парке.",
    "两个女人在看书。一只狗在跑。",
]


@pytest.fixture
def folder(save_model, tmp_path, monkeypatch):
    """A saved model; the current folder has a file `in` of sentences in several scripts."""
    monkeypatch.chdir(tmp_path)
    Path("in").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return str(save_model()[1])


def run(folder, *options):
    command = f"translate --model {folder} --device cpu --input in --overwrite"
    assert main([*command.split(), *options]) == 0


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--document",
        "--num-beams 1 --max-tokens-per-batch 9",
        "--length-penalty 1.5 --length-penalty-offset 2 --max-new-tokens-over-source 3",
        "--tag <bt>",
    ],
)
def test_lines_are_those_of_torch(folder, options):
    for engine in ("torch", "ctranslate2"):
        run(folder, *options.split(), "--output", engine, "--engine", engine)
    assert Path("ctranslate2").read_bytes() == Path("torch").read_bytes()


def test_n_best_lists_are_those_of_torch_and_name_the_engine(folder):
    for engine in ("torch", "ctranslate2"):
        run(folder, "--n-best", "4", "--output", engine, "--engine", engine)
    files = (Path(engine).read_text(encoding="utf-8") for engine in ("torch", "ctranslate2"))
    for lines in zip(*(file.splitlines() for file in files), strict=True):
        ours, theirs = map(json.loads, lines)
        assert theirs.pop("engine") == "ctranslate2"
        assert ours["source"] == theirs["source"]
        for one, other in zip(ours["translations"], theirs["translations"], strict=True):
            assert (one["text"], one["length"]) == (other["text"], other["length"])
            assert one["score"] == pytest.approx(other["score"], abs=1e-4)
            assert one["log_prob"] == pytest.approx(other["log_prob"], abs=1e-4)


def test_results_have_the_scores_of_torch_and_name_the_engine(folder, capsys):
    Path("ref").write_text(
        "\n".join(["Ein Hund rennt im Park."] * len(LINES)) + "\n", encoding="utf-8"
    )
    results = []
    for engine in ("torch", "ctranslate2"):
        command = f"evaluate --model {folder} --device cpu --source in --reference ref"
        assert main(f"{command} --translations {engine}.txt --engine {engine}".split()) == 0
        results.append(json.loads((Path(folder) / "test_results.json").read_text()))
    assert "search     ctranslate2, 4 beams" in capsys.readouterr().out
    ours, theirs = results
    assert theirs.pop("test_engine") == "ctranslate2"
    for each in results:
        each.pop("test_runtime")
    assert ours == theirs
    assert Path("torch.txt").read_bytes() == Path("ctranslate2.txt").read_bytes()


def test_int8_and_other_formats_are_named_in_results(folder):
    model, tokenizer = load_engine(folder, "ctranslate2", int8=True)
    assert model.compute_type.startswith("int8")
    assert len(list(translate(model, tokenizer, LINES))) == len(LINES)
    run(folder, "--n-best", "1", "--output", "out", "--engine", "ctranslate2", "--int8")
    assert json.loads(Path("out").read_text(encoding="utf-8").splitlines()[0])[
        "precision"
    ].startswith("int8")


def test_an_interrupted_file_is_resumed(folder, monkeypatch):
    command = (
        f"translate --model {folder} --engine ctranslate2 --device cpu --input in --output out"
    )
    check_resumed(command.split(), CTranslate2Engine, monkeypatch)


# ---- conversion ----


def test_new_weights_are_never_answered_by_old_ones(folder):
    before = Translator(folder)(LINES)
    model, _ = load_for_inference(folder)
    with torch.no_grad():
        model.model.decoder.layers[-1].fc2.weight.neg_()
    model.save_pretrained(folder)
    after = Translator(folder)(LINES)
    assert after == pipeline("translation", folder)(LINES)
    assert after != before


def test_conversion_leaves_nothing_behind(folder, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    before = sorted(tmp_path.rglob("*"))
    Translator(folder)
    assert sorted(tmp_path.rglob("*")) == before
    monkeypatch.setattr(
        "vaswani_transformer.inference.translator.load_tokenizer", lambda folder: 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        Translator(folder)
    assert sorted(tmp_path.rglob("*")) == before


# ---- refusals ----


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--sample", "CTranslate2 takes no option `--sample`, `--temperature`, `--top-k`"),
        ("--bf16", "`--device` must be a GPU for `--bf16`, got cpu"),
        (
            "--n-best 5",
            "`--n-best` must be at least 1 and at most `--num-beams`, which is 4, got 5",
        ),
        ("--num-beams 0", "`--num-beams` must be at least 1"),
    ],
)
def test_what_it_cannot_do_is_refused_before_the_output_is_begun(folder, capsys, options, says):
    command = (
        f"translate --model {folder} --engine ctranslate2 --device cpu --input in --output out"
    )
    assert says in refused(capsys, f"{command} {options}".split())
    assert not list(Path().glob("out*"))


@pytest.mark.parametrize(
    "option", ["logits_processor", "do_sample", "prefix_allowed_tokens_fn", "generation_config"]
)
def test_options_that_it_does_not_know_are_refused_by_name(folder, option):
    model, tokenizer = load_engine(folder, "ctranslate2")
    with pytest.raises(TypeError, match=f"CTranslate2 takes no option `{option}`"):
        next(translate(model, tokenizer, LINES, **{option: [1]}))


def test_an_unknown_engine_and_device_are_refused(folder):
    with pytest.raises(ValueError, match="`engine` must be torch or ctranslate2, got 'onnx'"):
        load_engine(folder, "onnx")
    with pytest.raises(ValueError, match="mps"):
        load_engine(folder, "ctranslate2", device="mps")
