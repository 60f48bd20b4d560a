# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from tiny import make_model
from toy_language import make_marian

pytest.importorskip("sacrebleu", reason="needs the extra [eval]")

import sacrebleu

from vaswani_transformer.data.builtin import read_builtin
from vaswani_transformer.inference import DECODING, METRICS
from vaswani_transformer.inference import evaluate as report
from vaswani_transformer.inference.evaluate import (
    EvaluationSet,
    evaluate_model,
    evaluate_to_files,
    format_report,
    load_evaluation_set,
)
from vaswani_transformer.inference.metrics import score_translations

REFERENCES = ["Ein Hund rennt im Park .", "Zwei Frauen lesen ein Buch .", "Das Buch ist sehr alt ."]
HYPOTHESES = ["Ein Hund rennt im Park .", "Zwei Frauen lesen das Buch .", "Das Buch ist alt ."]


@pytest.fixture
def evaluation_set():
    return EvaluationSet(
        name="three sentences",
        sources=["A dog runs in the park .", "Two women read a book .", ""],
        references=REFERENCES,
    )


def test_evaluate_model_scores_its_translations(tiny_model, tiny_tokenizer, evaluation_set):
    results, translations = evaluate_model(
        tiny_model, tiny_tokenizer, evaluation_set, num_beams=2, max_new_tokens_over_source=3
    )
    assert len(translations) == 3
    assert translations[2] == ""
    scores = score_translations(translations, REFERENCES)
    assert {name: results[f"test_{name}"] for name in scores} == scores
    assert (results["test_num_beams"], results["test_max_new_tokens_over_source"]) == (2, 3)
    assert (results["test_length_penalty"], results["test_length_penalty_offset"]) == (0.6, 5)


def test_evaluate_model_tells_what_limits_the_output_where_the_source_does_not(
    tiny_model, tiny_tokenizer, evaluation_set
):
    tiny_model.generation_config.update(max_new_tokens_over_source=None, max_new_tokens=4)
    results, _ = evaluate_model(tiny_model, tiny_tokenizer, evaluation_set)
    assert (results["test_max_new_tokens_over_source"], results["test_max_new_tokens"]) == (None, 4)


def test_evaluate_model_scores_models_of_the_library(tiny_tokenizer, evaluation_set):
    results, translations = evaluate_model(
        make_marian(), tiny_tokenizer, evaluation_set, num_beams=2, max_new_tokens=4
    )
    assert len(translations) == 3
    assert (results["test_num_beams"], results["test_max_new_tokens"]) == (2, 4)


def test_evaluate_model_scores_in_the_language_of_the_model(tiny_tokenizer, evaluation_set):
    model = make_model(source_language="en", target_language="de")
    results, _ = evaluate_model(model, tiny_tokenizer, evaluation_set, max_new_tokens_over_source=2)
    assert (
        "|tok:moses-de|punct:unicode-replaced|compounds:split|"
        in results["test_paper_bleu_signature"]
    )


def test_evaluate_model_names_a_missing_tokeniser_before_it_translates(
    tiny_tokenizer, evaluation_set, monkeypatch
):
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    monkeypatch.delattr(report, "translate")
    with pytest.raises(ImportError, match=r"pip install 'sacrebleu\[ja\]'"):
        evaluate_model(make_model(target_language="ja"), tiny_tokenizer, evaluation_set)


def test_evaluate_model_scores_with_all_references(tiny_model, tiny_tokenizer, monkeypatch):
    """By sacreBLEU itself, with the missing references filled up by the first, which changes no
    count.
    """
    references = [
        ["Ein Hund rennt im Wald .", REFERENCES[0]],
        ["Zwei Frauen lesen ein Buch ."],
        REFERENCES[2:],
    ]
    monkeypatch.setattr(report, "translate", lambda *args, **options: HYPOTHESES)
    results, _ = evaluate_model(
        tiny_model, tiny_tokenizer, EvaluationSet("three", ["a", "b", "c"], references)
    )
    streams = [[group[0] for group in references], [group[-1] for group in references]]
    for name, metric in (("sacrebleu", sacrebleu.corpus_bleu), ("chrf", sacrebleu.corpus_chrf)):
        assert results[f"test_{name}"] == pytest.approx(metric(HYPOTHESES, streams).score)
        assert results[f"test_{name}"] > metric(HYPOTHESES, streams[:1]).score
        assert results[f"test_{name}_signature"].startswith("nrefs:var|")


def results_of(hypotheses, references, language=None):
    """Results of translations, found with section 6.1's search."""
    search = dict(zip(DECODING, (4, 0.6, 5, 50), strict=True))
    known = {"data": "x", "num_sentences": len(hypotheses), **search}
    known |= score_translations(hypotheses, references, language, tokenized=True)
    return {f"test_{name}": value for name, value in known.items()}


@pytest.mark.parametrize(
    ("language", "metrics"), [("de", list(METRICS)), ("zh_CN", ["sacrebleu", "chrf"])]
)
def test_report_has_a_line_of_each_metric_that_was_measured(language, metrics):
    results = results_of(HYPOTHESES, REFERENCES, language)
    *lines, end = format_report(results).splitlines()[4 : 5 + len(metrics)]
    for metric, line in zip(metrics, lines, strict=True):
        score, signature = results[f"test_{metric}"], results[f"test_{metric}_signature"]
        assert line.startswith(METRICS[metric])
        assert line.endswith(f"{score:6.2f}  {signature}")
    assert end == ""


def test_report_tells_the_length_ratio_and_the_brevity_penalty():
    report = format_report(results_of(["Ein Haus"], ["Ein Haus am See ."]))
    assert (
        "length ratio 0.400 (translations to references, in tokens of sacreBLEU), brevity penalty "
        "0.223" in report
    )


def test_builtin_test_set_has_all_references():
    sentences = dict(read_builtin("test"))
    builtin = load_evaluation_set(dataset="builtin")
    assert (builtin.sources, builtin.references) == (list(sentences), list(sentences.values()))


def test_several_references_are_those_of_each_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = {"en": "one\ntwo\n", "a": "eins\nzwei\n", "b": "1\n2\n", "short": "1\n"}
    for name, lines in texts.items():
        (tmp_path / name).write_text(lines, encoding="utf-8")
    found = load_evaluation_set(source_file="en", target_file=["a", "b"])
    assert found.references == [("eins", "1"), ("zwei", "2")]
    assert found.corpus == {"source_file": "en", "target_file": ["a", "b"]}
    assert found.name == "en, a, b"
    one, alone = (
        load_evaluation_set(source_file="en", target_file=files) for files in (["a"], "a")
    )
    assert one == alone
    assert (one.references, one.corpus["target_file"]) == ([("eins",), ("zwei",)], "a")
    for files, message in ((["a", "short"], "as many lines"), ([], "en must be given with")):
        with pytest.raises(ValueError, match=message):
            load_evaluation_set(source_file="en", target_file=files)


def make_files(folder, name):
    """A test set of one sentence."""
    folder.mkdir(exist_ok=True)
    files = {"source_file": folder / f"{name}.en", "target_file": folder / f"{name}.de"}
    for file in files.values():
        file.write_text("A dog.\n", encoding="utf-8")
    return files


def test_results_that_could_not_be_written_are_refused_before_anything_is_translated(
    folder, tmp_path, monkeypatch
):
    (folder / "test_results.json").mkdir()
    monkeypatch.delattr(report, "evaluate_model")
    with pytest.raises(ValueError, match="`results`"):
        evaluate_to_files(folder, make_files(tmp_path, "first"))


def test_results_of_another_test_set_are_not_replaced_by_default(folder, tmp_path):
    def evaluate(files, **options):
        return evaluate_to_files(folder, files, num_beams=1, max_new_tokens=2, **options)

    first, second = (make_files(tmp_path, name) for name in ("first", "second"))
    for _ in range(2):
        evaluate(first)
    before = (folder / "test_results.json").read_text(encoding="utf-8")
    for _ in range(2):
        results, file = evaluate(second)
        assert file == folder / "test_results_second.en-second.de.json"
        assert json.loads(file.read_text(encoding="utf-8")) == results
    assert (folder / "test_results.json").read_text(encoding="utf-8") == before
    same_name = make_files(tmp_path / "elsewhere", "second")
    with pytest.raises(ValueError, match=r"`name` must be given: .*second.de.json"):
        evaluate(same_name)
    assert evaluate({**same_name, "name": "third"})[1] == folder / "test_results_third.json"
    (folder / "test_results.json").unlink()
    assert evaluate(second)[1] == file


def test_translations_may_not_replace_the_results(folder, tmp_path):
    files = make_files(tmp_path, "first")
    with pytest.raises(ValueError, match="must"):
        evaluate_to_files(
            folder, files, translations_file=folder / "test_results.json", num_beams=1
        )
    assert not (folder / "test_results.json").exists()
