# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import math
import multiprocessing
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import datasets
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch._dynamo.utils import counters
from toy_language import (
    SignalIn,
    check_same_weights,
    limits,
    logged,
    make_marian,
    make_pairs,
    naive_sums,
    tokenize,
)
from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainingArguments

from vaswani_transformer import VaswaniTransformerForConditionalGeneration
from vaswani_transformer import generation_vaswani_transformer as generation
from vaswani_transformer.training.arguments import VaswaniTransformerTrainingArguments
from vaswani_transformer.training.data import SortedByLength, in_data_order
from vaswani_transformer.training.trainer import VaswaniTransformerTrainer

SAVING = {"save_strategy": "steps", "save_steps": 2}


# ---- the model ----


@pytest.mark.parametrize(
    ("wrap", "name"),
    [
        (make_marian, "MarianMTModel"),
        (lambda model: torch.compile(make_marian(model)), "MarianMTModel"),
        (lambda model: model.model, "VaswaniTransformerModel"),
    ],
    ids=["Marian", "compiled Marian", "no head"],
)
def test_model_whose_forward_does_not_smooth_is_refused_by_name(make_trainer, wrap, name):
    with pytest.raises(
        TypeError, match=f"`model` .* `label_smoothing_factor` and `return_logits`, got {name}"
    ):
        make_trainer(wrap=wrap)


class OldModel(VaswaniTransformerForConditionalGeneration):
    """A model with the forward of 0.2.0, as its code travels with checkpoints."""

    def forward(self, *args, smoothing=0.0, return_logits=True, **kwargs):
        raise AssertionError


def test_model_with_old_code_is_refused(make_trainer):
    with pytest.raises(TypeError, match="`label_smoothing_factor` .* got the old name `smoothing`"):
        make_trainer(wrap=lambda model: OldModel(model.config))


def test_loss_of_another_function_is_refused(make_trainer):
    with pytest.raises(TypeError, match="`compute_loss_func`"):
        make_trainer(extra={"compute_loss_func": print})


@pytest.mark.heavy
def test_torch_compile_trains_saves_and_resumes_in_two_graphs(trained, tmp_path):
    """Micro-batches of other sizes are no new graphs; the checkpoint is that of a model that is not
    compiled.
    """
    options = {
        **limits(300),
        **SAVING,
        "max_padded_tokens_per_device": 400,
        "max_steps": 8,
        "dtype": "float64",
    }
    plain = trained(output_dir=tmp_path / "plain", **options)
    torch._dynamo.reset()
    counters.clear()
    options |= {"torch_compile": True, "torch_compile_backend": "eager"}
    options["output_dir"] = tmp_path / "compiled"
    trained(**options)
    assert counters["stats"]["unique_graphs"] == 2 and not counters["graph_break"]
    resumed = trained(resume=str(tmp_path / "compiled" / "checkpoint-4"), **options)
    saved = [
        load_file(tmp_path / run / "checkpoint-8" / "model.safetensors")
        for run in ("plain", "compiled")
    ]
    assert saved[0].keys() == saved[1].keys()
    assert logged(resumed, "loss") == pytest.approx(logged(plain, "loss"), rel=1e-6)


# ---- the data ----


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(
    ("wrong_id", "message"),
    [(290, r"`input_ids` .* \[0, 290\), got 290 in \["), (0, "`input_ids` must hold no padding")],
)
def test_id_that_cannot_be_is_refused_before_the_first_update(
    make_trainer, dataset, wrong_id, message, is_stream
):
    rows = dataset.to_list()
    rows[41]["input_ids"][0] = wrong_id
    wrong = datasets.Dataset.from_list(rows)
    stream = wrong.to_iterable_dataset()
    trainer = make_trainer(train_dataset=stream if is_stream else wrong, eval_dataset=wrong)
    for use in (trainer.train, trainer.evaluate, lambda: trainer.predict(wrong)):
        with pytest.raises(ValueError, match=message):
            use()
    assert trainer.state.global_step == 0


@pytest.mark.parametrize(("name", "value"), [("bpe_dropout", 1.0), ("bpe_dropout_side", "left")])
def test_bpe_dropout_that_cannot_be_is_refused(make_trainer, name, value):
    with pytest.raises(ValueError, match=f"`{name}`"):
        make_trainer(**{"bpe_dropout": 0.1, name: value})


# ---- loss and schedule ----


@pytest.mark.parametrize("smoothing", [0.1, 0.0])
def test_first_logged_losses_are_means_per_token_of_the_effective_batch(
    make_trainer, dataset, smoothing
):
    trainer = make_trainer(max_steps=1, label_smoothing_factor=smoothing, **limits(10_000))
    loss, nll, tokens = naive_sums(trainer.model, dataset, smoothing)
    trainer.train()
    found = logged(trainer, "loss") + logged(trainer, "nll")
    assert found == pytest.approx([loss / tokens, nll / tokens], rel=1e-5)


def test_logged_nll_is_the_mean_of_several_updates(trained):
    each, together = (logged(trained(max_steps=4, logging_steps=steps), "nll") for steps in (1, 4))
    assert together == [pytest.approx(np.mean(each), rel=1e-5)]


def test_padded_budget_on_a_cpu_is_4096_tokens_or_the_longest_pair_whoever_had_the_arguments_before(
    make_trainer, tokenizer, dataset, tmp_path
):
    args = VaswaniTransformerTrainingArguments(
        str(tmp_path), **limits(6000), warmup_steps=0.5, max_steps=2, use_cpu=True, report_to="none"
    )
    before = args.to_dict()
    budgets = []
    long = datasets.Dataset.from_list([{"input_ids": [7] * 3000, "labels": [7] * 2000}] * 2)
    for rows in (long, dataset):
        trainer = VaswaniTransformerTrainer(
            make_trainer().model, args, train_dataset=rows, processing_class=tokenizer
        )
        budgets.append(
            (trainer.args.max_padded_tokens_per_device, trainer.args.gradient_accumulation_steps)
        )
    trainer.train()
    assert budgets == [(5000, 2), (4096, 1)]
    assert args.to_dict() == before


@pytest.mark.slow
@pytest.mark.parametrize("bf16", [False, pytest.param(True, marks=pytest.mark.heavy)])
def test_ten_pairs_are_learned_by_heart(trained, tokenizer, bf16):
    small = tokenize(tokenizer, make_pairs(10, seed=3))
    trainer = trained(
        train_dataset=small,
        eval_dataset=small,
        bf16=bf16,
        max_steps=120,
        learning_rate=0.02,
        warmup_steps=20,
        label_smoothing_factor=0.0,
        logging_steps=25,
        **limits(2000),
    )
    assert logged(trainer, "loss")[-1] < 0.05
    assert {tensor.dtype for tensor in trainer.model.parameters()} == {torch.float32}
    assert trainer.evaluate(num_beams=1)["eval_sacrebleu"] > 99


def test_evaluation_beside_half_precision_searches_in_the_precision_of_the_weights(
    trained, dataset, monkeypatch
):
    searches = []
    can_search = generation.can_search
    monkeypatch.setattr(
        generation, "can_search", lambda *args: searches.append(can_search(*args)) or searches[-1]
    )
    trainer = trained(eval_dataset=dataset.select(range(5)), bf16=True, max_steps=2)
    trainer.evaluate()
    assert set(searches) == {True}
    inputs = {"input_ids": torch.tensor([[5, 2]]), "decoder_input_ids": torch.tensor([[1]])}
    with torch.no_grad():
        states = trainer.model.model(**inputs).last_hidden_state
        output = trainer.model(**inputs)
    assert not torch.equal(trainer.model.lm_head(states), output.logits)  # training goes on in bf16


# ---- evaluation ----


def test_evaluation_figures_are_means_per_token_over_the_whole_set(make_trainer, dataset):
    trainer = make_trainer(
        eval_dataset=dataset, per_device_eval_batch_size=7, predict_with_generate=False
    )
    loss, nll, tokens = naive_sums(trainer.model, dataset, smoothing=0.1)
    metrics = trainer.evaluate()
    found = [metrics["eval_loss"], metrics["eval_nll"], metrics["eval_perplexity"]]
    assert found == pytest.approx([loss / tokens, nll / tokens, math.exp(nll / tokens)], rel=1e-5)


def test_predictions_equal_plain_generate_in_the_data_sets_order(make_trainer, tokenizer, dataset):
    small = dataset.select(range(12))
    trainer = make_trainer(per_device_eval_batch_size=5)
    predictions = trainer.predict(small, num_beams=2).predictions
    # 0 is padding
    found = tokenizer.batch_decode(predictions.clip(min=0), skip_special_tokens=True)
    trainer.model.eval()
    for row, text in zip(small, found, strict=True):
        ids = trainer.model.generate(torch.tensor([row["input_ids"]]), num_beams=2)
        assert tokenizer.decode(ids[0], skip_special_tokens=True) == text


def test_metrics_get_references_and_losses_of_their_sentences(make_trainer, dataset):
    found = []
    few = dataset.select(range(7))
    trainer = make_trainer(
        extra={"compute_metrics": lambda seen: found.append(seen) or {}},
        include_for_metrics=["loss"],
        per_device_eval_batch_size=1,
        predict_with_generate=False,
    )
    trainer.evaluate(few)
    assert [row[row != -100].tolist() for row in found[0].label_ids] == few["labels"][:]
    alone = [trainer.evaluate(few.select([row]))["eval_loss"] for row in range(7)]
    assert list(found[0].losses) == pytest.approx(alone, rel=1e-5) and len(set(alone)) > 2


def test_prediction_without_labels_works(make_trainer, dataset):
    output = make_trainer().predict(
        dataset.select(range(3)).select_columns(["input_ids"]), num_beams=1
    )
    assert len(output.predictions) == 3


def test_trainer_names_a_missing_tokeniser_before_the_first_update(
    make_trainer, dataset, monkeypatch
):
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)

    def japanese(model):
        model.config.target_language = "ja"
        return model

    make_trainer(wrap=japanese)  # which scores nothing
    with pytest.raises(ImportError, match=r"'sacrebleu\[ja\]'"):
        make_trainer(eval_dataset=dataset, wrap=japanese)


def test_newest_checkpoint_stays_when_one_is_kept_and_another_was_better(
    trained, dataset, tmp_path
):
    trainer = trained(
        max_steps=6,
        save_total_limit=1,
        **SAVING,
        eval_dataset=dataset,
        eval_strategy="steps",
        eval_steps=2,
        metric_for_best_model="loss",
        greater_is_better=True,
        predict_with_generate=False,
    )
    left = {path.name for path in (tmp_path / "run").glob("checkpoint-*")}
    assert left == {"checkpoint-2", "checkpoint-6"} and trainer.args.save_total_limit == 1


def test_models_that_model_init_makes_search_as_the_paper_does(make_trainer, dataset, tokenizer):
    given = make_trainer(max_steps=1)
    trainer = type(given)(
        args=given.args,
        train_dataset=dataset,
        processing_class=tokenizer,
        model_init=lambda: type(given.model)(given.model.config),
    )
    first = trainer.model
    trainer.train()
    assert trainer.model is not first
    assert [model.generation_config.num_beams for model in (first, trainer.model)] == [4, 4]


def test_checkpoint_keeps_the_papers_decoding_after_evaluation(make_trainer, dataset, tmp_path):
    trainer = make_trainer(
        max_steps=2,
        generation_num_beams=1,
        eval_dataset=dataset.select(range(2)),
        eval_strategy="steps",
        eval_steps=1,
    )
    expected = trainer.model.generation_config.to_diff_dict()
    assert (expected["num_beams"], expected["length_penalty"]) == (4, 0.6)
    trainer.train()
    trainer.save_model(tmp_path / "saved")
    saved = type(trainer.model).from_pretrained(tmp_path / "saved")
    assert saved.generation_config.to_diff_dict() == expected
    assert saved.config.use_cache is True


def test_sorted_view_fills_up_and_puts_rows_back_in_order(dataset):
    view = SortedByLength(dataset, multiple=16)
    rows = [view[index] for index in range(64)]
    assert [row["labels"] for row in rows[60:]] == [[-100]] * 4
    lengths = np.array([row["target_length"] for row in rows])
    assert in_data_order(view, lengths).tolist() == dataset["target_length"]


# ---- training sets, and what an update is made of ----


def test_spare_parts_of_an_update_suit_any_collator(trained, tokenizer):
    long = tokenize(tokenizer, [("red " * 40, "rot " * 40)] * 4 + make_pairs(20))
    options = {"train_dataset": long, "gradient_accumulation_steps": 4, "max_steps": 8}
    ours = trained(**options)
    assert any([] in update for update in zip(*[iter(ours.train_batches)] * 4, strict=True))
    check_same_weights(
        ours, trained(**options, extra={"data_collator": DataCollatorForSeq2Seq(tokenizer)})
    )


def test_rows_need_no_end_of_their_own(trained, dataset):
    class Rows(dict):  # of which only a row at a time can be had
        __iter__ = None

    rows = Rows(enumerate(dataset.select_columns(["input_ids", "labels"])))
    check_same_weights(trained(train_dataset=rows), trained())


def test_another_training_set_is_planned_again(make_trainer, trained, dataset):
    trainer = make_trainer(train_dataset=dataset.select(range(9)))
    trainer.train_dataset = dataset
    trainer.train()
    check_same_weights(trainer, trained())


def test_snapshots_of_an_earlier_training_in_the_folder_are_no_newest_ones(trained, tmp_path):
    options = {"snapshot_steps": 2, "num_averaged_snapshots": 2}
    trained(max_steps=12, **options)
    trained(max_steps=6, seed=7, **options)
    trained(max_steps=6, seed=7, output_dir=tmp_path / "alone", **options)
    found, expected = (
        {path.name: path.read_bytes() for path in (tmp_path / run / "snapshots").iterdir()}
        for run in ("run", "alone")
    )
    assert found == expected and len(found) == 2


def test_training_mends_a_model_loaded_with_missing_weights(make_trainer):
    trainer = make_trainer(max_steps=1)
    trainer.model._loading_info = {"missing_keys": ["lm_head.weight"]}
    trainer.train()
    trainer.model.check_loaded_weights()


# ---- the rest ----


def test_hyperparameter_search_says_what_to_do(make_trainer):
    with pytest.raises(NotImplementedError, match="Make a trainer for each trial"):
        make_trainer().hyperparameter_search()


def test_arguments_may_be_left_out_and_are_no_others(make_trainer, dataset, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = make_trainer().model
    assert (
        VaswaniTransformerTrainer(
            model, train_dataset=dataset, data_collator=print
        ).args.warmup_steps
        == 4000
    )
    with pytest.raises(TypeError, match="`args` must be VaswaniTransformerTrainingArguments"):
        VaswaniTransformerTrainer(model, Seq2SeqTrainingArguments("run", use_cpu=True))


def test_second_stop_signal_stops_at_once(make_trainer, tmp_path):
    # ignored in what a script starts with &
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        make_trainer(max_steps=9, extra={"callbacks": [SignalIn(5), SignalIn(5)]}).train()
    assert not (tmp_path / "run" / "checkpoint-5").exists()


def test_stop_signal_handlers_are_restored(trained):
    before = signal.getsignal(signal.SIGINT)
    trained(max_steps=1)
    assert signal.getsignal(signal.SIGINT) is before
    with ThreadPoolExecutor() as threads:  # where Python sets no handlers
        threads.submit(trained, max_steps=1).result()


@pytest.mark.parametrize("which", ["train", "eval"])
def test_data_workers_leave_signals_to_the_main_process(make_trainer, dataset, which):
    trainer = make_trainer(
        eval_dataset=dataset, dataloader_num_workers=2, per_device_eval_batch_size=1
    )
    loader = getattr(trainer, f"get_{which}_dataloader")()
    batches = iter(loader)
    next(batches), next(batches)  # one of each worker
    for worker in multiprocessing.active_children():
        for name in ("INT", "TERM"):  # not by the main process
            subprocess.run(["kill", f"-{name}", str(worker.pid)], check=True)
    assert 2 + sum(1 for _ in batches) == len(loader)


@pytest.mark.heavy  # Python waits for seconds
def test_run_with_data_workers_ends_after_an_error(tmp_path):
    """Python ends workers by a signal that they ignore, and waits for them."""
    script = """
from toy_language import build_trainer, make_pairs, make_tokenizer, tokenize
from transformers import TrainerCallback

class Failing(TrainerCallback):
    def on_step_end(self, *args, **kwargs):
        raise RuntimeError("the callback fails")

tokenizer = make_tokenizer()
options = {"max_steps": 4, "dataloader_num_workers": 2, "extra": {"callbacks": [Failing()]}}
build_trainer(tokenizer, tokenize(tokenizer, make_pairs(60)), "run", **options).train()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("RuntimeError: the callback fails")
