# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import json
import math
import os
import shutil
import signal
import sys
from dataclasses import replace
from types import SimpleNamespace

import processes
import pytest
import sacrebleu
import torch
from faults import wait_until
from safetensors.torch import load_file
from toy_language import limits, make_pairs, naive_sums, tiny_recipe, tokenize
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from transformers import __version__ as transformers_version

pytest.importorskip("evaluate", reason="needs the extra [eval]")

from vaswani_transformer.analysis.cost import training_flops
from vaswani_transformer.data import load_corpus
from vaswani_transformer.files import RUN_FILES
from vaswani_transformer.inference import metrics
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.training.averaging import list_snapshots
from vaswani_transformer.training.train import _validation_figures, describe_plan, train

RESUME = {"resume": True}
NO_VALIDATION = {"validation_source": None, "validation_target": None}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """Recipe of a tiny model on two text files a split."""
    return tiny_recipe(
        tmp_path_factory.mktemp("text"),
        {"train": make_pairs(80), "validation": make_pairs(6, seed=1)},
        source_language="en",
        target_language="de",
        length_penalty=0.7,
        length_penalty_offset=2,
        **limits(200),
        num_averaged_snapshots=3,
        max_steps=12,
        warmup_steps=10,
        logging_steps=3,
        snapshot_steps=2,
        eval_steps=6,
        save_steps=6,
    )


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8"))


def weights(folder):
    return load_file(folder / "model.safetensors")


def check_same_model(first, second):
    torch.testing.assert_close(weights(first), weights(second), rtol=0, atol=0)


def command(recipe, output_dir):
    """Words of the command that trains a recipe, which is saved beside the run."""
    recipe.save(output_dir.parent)
    file = output_dir.parent / "recipe.json"
    return f"train --use-cpu --output-dir {output_dir} --recipe {file}".split()


@pytest.fixture(scope="module")
def finished(recipe, tmp_path_factory):
    """Folder and results of one finished run."""
    folder = tmp_path_factory.mktemp("runs") / "finished"
    return folder, train(recipe, folder, use_cpu=True)


@pytest.fixture
def folder(finished, tmp_path):
    """A copy of its folder."""
    return shutil.copytree(finished[0], tmp_path / "copy")


@pytest.fixture
def train_changed(recipe, tmp_path):
    """Function that trains the recipe with other fields and returns the results."""

    def train_changed(folder=tmp_path / "run", options=None, **fields):
        return train(replace(recipe, **fields), folder, use_cpu=True, **(options or {}))

    return train_changed


def test_every_file_of_a_run_has_a_row_in_the_table(finished):
    unknown = {
        path.name
        for path in finished[0].iterdir()
        if not any(path.match(row.name) for row in RUN_FILES)
    }
    assert unknown == set()


def test_final_generation_config_decodes_as_the_recipe_says_without_frozen_lengths(finished):
    config = read_json(finished[0] / "generation_config.json")
    names = (
        "num_beams",
        "length_penalty",
        "length_penalty_offset",
        "max_new_tokens_over_source",
        "max_length",
    )
    assert [config.get(name) for name in names] == [4, 0.7, 2, 50, None]


def test_recipe_and_results_lie_beside_the_model_and_no_pickle(finished, recipe):
    assert Recipe.load(finished[0]) == recipe
    assert read_json(finished[0] / "train_results.json") == finished[1]
    assert not [
        path.name for path in finished[0].iterdir() if path.suffix in (".bin", ".pt", ".pkl")
    ]


def test_results_report_training_validation_and_averaging(finished):
    results = finished[1]
    last = {f"last_eval_{name}" for name in ("loss", "nll", "perplexity", "sacrebleu", "chrf")}
    assert results.keys() >= {"train_loss", "train_runtime", *last}
    # no validation decides
    assert not [name for name in results if name.startswith(("eval_", "best_eval_"))]
    assert (results["train_steps"], results["train_pairs"], results["num_averaged_snapshots"]) == (
        12,
        80,
        3,
    )
    assert results["train_versions"]["transformers"] == transformers_version


def test_results_report_layout_and_cost(train_changed, tmp_path):
    results = train_changed(max_steps=2, snapshot_steps=1, max_padded_tokens_per_device=130)
    assert (results["train_processes"], results["train_max_padded_tokens_per_device"]) == (1, 130)
    assert results["train_accumulation_steps"] > 1
    assert 0 < results["train_padding_fraction"] < 0.5
    paper = results["train_device_seconds"] * results["train_matrix_flops_per_second"]
    assert results["train_flops_paper"] == pytest.approx(paper)
    config = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "run").config
    counted = training_flops(config, results["train_source_tokens"], results["train_target_tokens"])
    assert results["train_flops_counted"] == counted
    assert results["train_model_flops_utilization"] == pytest.approx(counted / paper)
    assert (results["train_num_devices"], results["train_device"][:3]) == (1, "CPU")


def test_saved_model_knows_the_longest_training_source_and_truncates_nothing_to_it(
    finished, recipe
):
    tokenizer = AutoTokenizer.from_pretrained(finished[0])
    lengths = [
        len(tokenizer(row["source"])["input_ids"])
        for row in load_corpus(**recipe.data_arguments("train"))
    ]
    model = AutoModelForSeq2SeqLM.from_pretrained(finished[0])
    assert model.generation_config.longest_training_source == max(lengths)
    assert len(tokenizer("word " * 5000, truncation=True)["input_ids"]) > 5000


@pytest.mark.parametrize(
    "fields", [{"train_source": "/nowhere.en"}, {"vocab_size": 100}, {"d_model": 15}]
)
def test_overwriting_loses_nothing_when_the_new_run_cannot_start(folder, train_changed, fields):
    before = sorted(folder.rglob("*"))
    with pytest.raises((ValueError, FileNotFoundError)):
        train_changed(folder, {"overwrite": True}, **fields)
    assert sorted(folder.rglob("*")) == before


def test_overwriting_replaces_the_run(folder, train_changed):
    train_changed(folder, {"overwrite": True}, max_steps=2, snapshot_steps=1)
    assert [path.name for path in folder.glob("checkpoint-*")] == ["checkpoint-2"]


@pytest.mark.slow
def test_resumed_run_ends_with_the_weights_of_the_uninterrupted_one(
    finished, train_changed, tmp_path
):
    run = tmp_path / "run"
    train_changed(max_steps=6)
    (run / "test_results.json").write_text("of the first half's model", encoding="utf-8")
    results = train_changed(options=RESUME)
    assert [path.name for path in run.glob("*test_results.json")] == [
        "after-6-updates-test_results.json"
    ]
    for name in (
        "train_source_tokens",
        "train_target_tokens",
        "train_flops_counted",
        "average_eval_nll",
    ):
        assert results[name] == finished[1][name]
    # of both legs, on one device
    assert results["train_runtime"] == results["train_device_seconds"]
    for folder in (run, finished[0]):
        log = read_json(folder / "trainer_state.json")["log_history"]
        assert [entry["step"] for entry in log if "eval_perplexity" in entry] == [6, 12]
        assert [entry["step"] for entry in log if "nll" in entry] == [1, 3, 6, 9, 12]
    check_same_model(run, finished[0])


def test_resuming_a_finished_run_keeps_its_training_figures_though_no_card_can_be_made(
    finished, folder, train_changed, caplog
):
    (folder / "test_results_notes.json").write_text("no results", encoding="utf-8")
    with caplog.at_level("WARNING", logger="vaswani_transformer.hub.card"):
        results = train_changed(folder, RESUME)
    assert (
        "No card was written: `" in caplog.text
        and "test_results_notes.json` must be a JSON file" in caplog.text
    )
    assert results == finished[1] == read_json(folder / "train_results.json")
    assert read_json(folder / "trainer_state.json") == read_json(finished[0] / "trainer_state.json")
    settings = read_json(folder / "tokenizer_config.json")
    assert settings.keys().isdisjoint(("is_local", "local_files_only"))


def test_resuming_refuses_fewer_updates_than_were_made(finished, recipe, train_changed):
    with pytest.raises(ValueError, match="`max_steps` must be at least 12"):
        train_changed(finished[0], RESUME, max_steps=3)
    assert Recipe.load(finished[0]) == recipe


def test_resuming_with_max_steps_6_after_6_updates_ends_with_the_model_of_these(
    folder, train_changed
):
    shutil.rmtree(folder / "checkpoint-12")
    for name in ("model.safetensors", "train_results.json"):
        (folder / name).unlink()
    results = train_changed(folder, RESUME, max_steps=6)
    assert (results["train_steps"], results["num_averaged_snapshots"]) == (6, 3)
    snapshots = [load_file(path)["model.shared.weight"] for path in list_snapshots(folder)]
    assert len(snapshots) == 3
    mean = torch.stack(snapshots).double().mean(0).float()
    assert torch.equal(weights(folder)["model.shared.weight"], mean)


def test_resuming_takes_the_tokenizer_that_was_trained_with(finished, folder, train_changed):
    content = read_json(folder / "tokenizer.json")
    vocabulary = content["model"]["vocab"]
    vocabulary["a"], vocabulary["e"] = vocabulary["e"], vocabulary["a"]
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    (folder / "train_results.json").unlink()
    shutil.rmtree(folder / "checkpoint-12")
    train_changed(folder, RESUME)
    for name in ("model.safetensors", "tokenizer.json"):
        assert (folder / name).read_bytes() == (finished[0] / name).read_bytes()


def test_resuming_passes_over_a_truncated_checkpoint_and_ends_with_the_same_model(
    finished, folder, train_changed, caplog
):
    (folder / "train_results.json").unlink()
    os.truncate(folder / "checkpoint-12" / "optimizer.pt", 1000)
    train_changed(folder, RESUME)
    assert "checkpoint-12` must be a complete checkpoint, got a broken optimizer.pt" in caplog.text
    check_same_model(folder, finished[0])


@pytest.mark.slow
def test_figures_of_another_update_are_not_taken_for_those_of_a_finished_run(
    finished, folder, train_changed
):
    results = {**finished[1], "train_end": [6, None], "train_loss": -1.0}
    (folder / "train_results.json").write_text(json.dumps(results), encoding="utf-8")
    again = train_changed(folder, RESUME)
    assert again["train_steps"] == 12
    assert again["train_loss"] != -1.0


def naive_validation(folder, recipe):
    """Figures of a folder's model on the validation set as `average_eval_*`, one sentence at a
    time.
    """
    model, tokenizer = (
        auto.from_pretrained(folder) for auto in (AutoModelForSeq2SeqLM, AutoTokenizer)
    )
    corpus = load_corpus(**recipe.data_arguments("validation"))
    rows = tokenize(tokenizer, list(zip(corpus["source"], corpus["target"], strict=True)))
    _, nll, num_tokens = naive_sums(model, rows, smoothing=0.0)
    found = [model.generate(torch.tensor([ids]), num_beams=1)[0] for ids in rows["input_ids"]]
    texts = tokenizer.batch_decode(found, skip_special_tokens=True)
    figures = {"nll": nll / num_tokens, "perplexity": math.exp(nll / num_tokens)}
    figures["sacrebleu"] = sacrebleu.corpus_bleu(texts, [corpus["target"][:]]).score
    return {f"average_eval_{name}": value for name, value in figures.items()}


def test_averaged_model_is_measured_on_the_validation_set_with_the_validations_search(
    finished, recipe
):
    expected = naive_validation(finished[0], recipe)
    assert {name: finished[1][name] for name in expected} == pytest.approx(expected, rel=1e-4)
    assert finished[1]["average_eval_nll"] != finished[1]["last_eval_nll"]


def test_measuring_the_average_leaves_no_trace_in_the_log(finished):
    assert "average" not in (finished[0] / "trainer_state.json").read_text(encoding="utf-8")


def test_training_without_validation_set_has_no_validations_and_needs_no_metrics(
    train_changed, monkeypatch
):
    # as without the extra [eval]
    monkeypatch.setitem(sys.modules, "vaswani_transformer.inference.metrics", None)
    results = train_changed(max_steps=2, **NO_VALIDATION)
    assert (results["train_steps"], results["num_averaged_snapshots"]) == (2, 1)
    assert not [name for name in results if "eval" in name]


@pytest.mark.slow
@pytest.mark.multi_process
def test_two_processes_measure_the_average_that_they_leave(recipe, tmp_path):
    status, printed, errors = processes.run(command(recipe, tmp_path / "run"), tmp_path, 2)
    assert status == 0, errors[-3000:]
    results = read_json(tmp_path / "run" / "train_results.json")
    expected = naive_validation(tmp_path / "run", recipe)
    assert {name: results[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    assert (results["train_num_devices"], results["num_averaged_snapshots"]) == (2, 3)
    assert printed.count("average") == 1


def test_figures_of_the_last_validation_are_of_it_alone():
    first = {"step": 4, "eval_runtime": 1.0, "eval_nll": 2.5, "eval_tokenized_bleu": 0.3}
    second = {"step": 8, "eval_runtime": 1.5, "eval_nll": 2.0}
    state = SimpleNamespace(log_history=[first, second, {"step": 8, "loss": 1}], best_global_step=4)
    assert _validation_figures(SimpleNamespace(state=state)) == {
        "last_eval_runtime": 1.5,
        "last_eval_nll": 2.0,
        "best_eval_runtime": 1.0,
        "best_eval_nll": 2.5,
        "best_eval_tokenized_bleu": 0.3,
    }


@pytest.mark.slow
def test_best_checkpoint_by_a_metric_of_the_callers_becomes_the_final_model(
    train_changed, tmp_path
):
    seen = []

    def compute_metrics(found):
        seen.append(found.label_ids)
        return {"own": float(-len(seen))}  # the first is the best

    results = train_changed(
        options={"compute_metrics": compute_metrics},
        load_best_model_at_end=True,
        metric_for_best_model="own",
    )
    assert results["best_checkpoint"].endswith("checkpoint-6")
    assert (results["best_eval_own"], results["last_eval_own"]) == (-1.0, -2.0)
    assert len(seen) == 2 and (seen[0] == seen[1]).all()
    check_same_model(tmp_path / "run", tmp_path / "run" / "checkpoint-6")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "is_own", "best", "metric"),
    [(None, False, 12, 77.0), ("de", False, 6, 0.2), (None, True, 6, 0.2)],
)
def test_chrf_decides_when_no_language_tells_bleus_tokeniser_of_a_metric_of_ours(
    train_changed, tmp_path, monkeypatch, language, is_own, best, metric
):
    """BLEU of the wrong tokens is 0.0 at every validation, or falls by chance, while chrF rises."""
    scores = iter([{"sacrebleu": 0.2, "chrf": 21.8}, {"sacrebleu": 0.0, "chrf": 77.0}, {}])
    monkeypatch.setattr(metrics, "make_compute_metrics", lambda *args: lambda found: next(scores))
    own = {"compute_metrics": lambda found: next(scores)} if is_own else {}
    results = train_changed(
        options=own,
        target_language=language,
        load_best_model_at_end=True,
        early_stopping_patience=9,
    )
    assert results["best_checkpoint"].endswith(f"checkpoint-{best}")
    assert read_json(tmp_path / "run" / "trainer_state.json")["best_metric"] == metric


def test_a_training_that_stopped_early_is_finished(train_changed, tmp_path):
    fields = {"max_steps": 50, "early_stopping_patience": 1, "learning_rate": 1e-9, "eval_steps": 1}
    steps = train_changed(**fields)["train_steps"]
    assert steps < 50
    for checkpoint in (tmp_path / "run").glob("checkpoint-*"):
        shutil.rmtree(checkpoint)
    assert train_changed(options={"resume": True}, **fields)["train_steps"] == steps
    fields["early_stopping_patience"] = 2
    with pytest.raises(FileNotFoundError, match="in another folder, or use --overwrite, which del"):
        train_changed(options={"resume": True}, **fields)


@pytest.fixture
def no_mecab(monkeypatch):
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)


def test_train_needs_no_tokeniser_when_it_scores_no_translations(train_changed, tmp_path, no_mecab):
    japanese = {"target_language": "ja", "max_steps": 2}
    for folder, fields in (("losses", {"generation_num_beams": 0}), ("bare", NO_VALIDATION)):
        assert train_changed(tmp_path / folder, **japanese, **fields)["train_steps"] == 2
    own = train_changed(options={"compute_metrics": lambda found: {"own": 1.0}}, **japanese)
    assert own["average_eval_own"] == 1.0


BEST = {"load_best_model_at_end": True}


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"target_language": "ja"}, ImportError, r"`target_language` ja must .*'sacrebleu\[ja\]'"),
        (
            {**BEST, "target_language": "th", "metric_for_best_model": "paper_bleu"},
            ValueError,
            "one of sacrebleu, chrf, loss, nll, perplexity, got 'paper_bleu'",
        ),
        (
            {"early_stopping_patience": 3, "metric_for_best_model": "foo"},
            ValueError,
            "sacrebleu, chrf, paper_bleu, loss, nll, perplexity, got 'foo'",
        ),
        (
            {**BEST, "metric_for_best_model": "chrf", "generation_num_beams": 0},
            ValueError,
            "one of loss, nll, perplexity, got 'chrf'. .*`generation_num_beams`",
        ),
        ({**BEST, **NO_VALIDATION}, ValueError, "`validation_source` and `validation_target`"),
        (
            {"early_stopping_patience": 3, **NO_VALIDATION},
            ValueError,
            "`validation_source` and `validation_target`",
        ),
        (
            {"train_source": None, "train_target": None},
            ValueError,
            "`train_source` and `train_target`",
        ),
        ({"streaming": True}, ValueError, r"`tokenizer` must be given with `streaming`"),
        ({"tokenizer": "/not/a/tokenizer"}, OSError, "/not/a/tokenizer"),
    ],
)
def test_train_refuses_what_does_not_go_together_and_writes_nothing(
    train_changed, tmp_path, no_mecab, fields, error, message
):
    with pytest.raises(error, match=message):
        train_changed(**fields)
    assert not (tmp_path / "run").exists()


def test_given_tokenizer_is_used(finished, train_changed, tmp_path):
    train_changed(max_steps=1, tokenizer=str(finished[0]))
    first, second = (
        (path / "tokenizer.json").read_bytes() for path in (finished[0], tmp_path / "run")
    )
    assert first == second


def test_train_refuses_a_tokenizer_with_other_special_ids(folder, train_changed):
    config = read_json(folder / "tokenizer_config.json")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({**config, "pad_token": "</s>"}), encoding="utf-8"
    )
    with pytest.raises(
        ValueError, match="`tokenizer` must have pad, bos and eos ids 0, 1 and 2, got 2, 1 and 2"
    ):
        train_changed(tokenizer=str(folder))


@pytest.mark.parametrize(("steps", "warns"), [(4, False), (5, True)])
def test_training_that_makes_no_snapshot_to_average_says_so(make_trainer, caplog, steps, warns):
    describe_plan(
        make_trainer(max_steps=4, warmup_steps=1, snapshot_steps=steps, num_averaged_snapshots=2)
    )
    assert ("Pass --snapshot-steps 1" in caplog.text) == warns


@pytest.mark.slow
def test_ctrl_c_saves_a_checkpoint_to_resume_and_exits_130(recipe, tmp_path):
    long = replace(recipe, max_steps=100_000, eval_steps=100_000, save_steps=100_000)
    process = processes.Fork(command(long, tmp_path / "run"), tmp_path)
    assert wait_until(lambda: list_snapshots(tmp_path / "run"), process, pause=0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130, process.errors()
    assert "Traceback" not in process.errors()
    assert list((tmp_path / "run").glob("checkpoint-*/manifest.json"))
