# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import math
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch._dynamo.utils import counters
from toy_language import SignalIn, make_marian, make_pairs, naive_sums, tokenize
from transformers import DataCollatorForSeq2Seq, EarlyStoppingCallback, Seq2SeqTrainingArguments

from vaswani_transformer import generation_vaswani_transformer as generation
from vaswani_transformer.training.arguments import VaswaniTransformerTrainingArguments
from vaswani_transformer.training.loading import SortedByLength, in_data_order
from vaswani_transformer.training.trainer import VaswaniTransformerTrainer


def weights(trainer):
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def differing(first, second):
    return [name for name in first if not torch.equal(first[name], second[name])]


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
    with pytest.raises(TypeError, match=rf"`model` must .* `smoothing` and `return_logits`, got {name}\. Train it"):
        make_trainer(wrap=wrap)


def test_loss_of_another_function_is_refused(tmp_path):
    args = VaswaniTransformerTrainingArguments(output_dir=str(tmp_path), use_cpu=True)
    with pytest.raises(TypeError, match="`compute_loss_func` must be None"):
        VaswaniTransformerTrainer(None, args, compute_loss_func=print)


def test_model_made_by_a_function_is_refused_by_name(tokenizer, dataset, tmp_path):
    args = VaswaniTransformerTrainingArguments(output_dir=str(tmp_path), use_cpu=True)
    with pytest.raises(TypeError, match="got MarianMTModel"):
        VaswaniTransformerTrainer(None, args, train_dataset=dataset, model_init=make_marian)


@pytest.mark.heavy
def test_compiled_model_of_ours_trains_as_the_model_does(make_trainer):
    def train(wrap):
        trainer = make_trainer(wrap=wrap, dtype="float64", max_steps=2, remove_unused_columns=False)
        trainer.train()
        return [entry["nll"] for entry in trainer.state.log_history if "nll" in entry]

    compiled = train(lambda model: torch.compile(model, backend="eager"))
    assert compiled == pytest.approx(train(None), rel=1e-6)


@pytest.mark.heavy
def test_torch_compile_trains_saves_and_resumes_in_two_graphs(make_trainer, tmp_path):
    """Micro-batches of other sizes are no new graphs; the checkpoint is that of a model that is not compiled."""
    sizes = dict.fromkeys(("max_source_tokens_per_batch", "max_target_tokens_per_batch"), 300)
    options = {**sizes, "max_padded_tokens_per_device": 400, "max_steps": 8, "dtype": "float64"}
    options |= {"save_strategy": "steps", "save_steps": 4}
    plain = make_trainer(output_dir=tmp_path / "plain", **options)
    plain.train()
    torch._dynamo.reset()
    counters.clear()
    options |= {"torch_compile": True, "torch_compile_backend": "eager"}
    make_trainer(output_dir=tmp_path / "compiled", **options).train()
    assert counters["stats"]["unique_graphs"] == 2 and not counters["graph_break"]
    resumed = make_trainer(output_dir=tmp_path / "compiled", **options)
    resumed.train(resume_from_checkpoint=str(tmp_path / "compiled/checkpoint-4"))
    saved = [load_file(tmp_path / run / "checkpoint-8/model.safetensors") for run in ("plain", "compiled")]
    assert saved[0].keys() == saved[1].keys()
    losses = [[x["loss"] for x in each.state.log_history if "loss" in x] for each in (plain, resumed)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)


# ---- the data ----


def test_id_outside_the_vocabulary_is_refused_before_it_is_dealt_out(make_trainer, dataset):
    rows = dataset.to_list()
    rows[41]["input_ids"][0] = 290
    wrong = datasets.Dataset.from_list(rows)
    refused = pytest.raises(ValueError, match=r"`input_ids` .* \[0, 290\), got 290 in \[")
    with refused:
        make_trainer(train_dataset=wrong).get_train_dataloader()
    for use in (lambda trainer: trainer.evaluate(), lambda trainer: trainer.predict(wrong)):
        with refused:
            use(make_trainer(eval_dataset=wrong))


@pytest.mark.parametrize("is_stream", [False, True])
def test_rows_that_a_map_has_padded_are_refused_before_the_first_update(make_trainer, tokenizer, pairs, is_stream):
    sources, targets = zip(*pairs, strict=True)
    columns = tokenizer(list(sources), text_target=list(targets), padding="max_length", max_length=70)
    padded = datasets.Dataset.from_dict({**columns})
    refused = pytest.raises(ValueError, match="`input_ids` must hold no padding, got the id 0. Tokenize without")
    trainer = make_trainer(train_dataset=padded.to_iterable_dataset() if is_stream else padded)
    with refused:
        trainer.train()
    assert trainer.state.global_step == 0
    with refused:
        make_trainer(eval_dataset=padded).evaluate()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"bpe_dropout": 1.0}, r"`bpe_dropout` must be in \[0, 1\), .* got 1.0"),
        ({"bpe_dropout": 0.1, "bpe_dropout_side": "left"}, "`bpe_dropout_side` must be one of both, .* got 'left'"),
    ],
)
def test_bpe_dropout_that_cannot_be_is_refused(make_trainer, wrong, message):
    with pytest.raises(ValueError, match=message):
        make_trainer(**wrong)


# ---- loss and schedule ----


def test_first_logged_losses_are_means_per_token_of_the_effective_batch(make_trainer, dataset):
    everything = {"max_source_tokens_per_batch": 10000, "max_target_tokens_per_batch": 10000}
    trainer = make_trainer(max_steps=1, **everything)
    loss, nll, tokens = naive_sums(trainer.model, dataset, smoothing=0.1)
    trainer.train()
    log = trainer.state.log_history[0]
    assert [log["loss"], log["nll"]] == pytest.approx([loss / tokens, nll / tokens], rel=1e-5)


def test_logged_nll_is_the_mean_of_several_updates(make_trainer):
    each, together = make_trainer(max_steps=4, logging_steps=1), make_trainer(max_steps=4, logging_steps=4)
    each.train()
    together.train()
    mean = np.mean([entry["nll"] for entry in each.state.log_history if "nll" in entry])
    assert together.state.log_history[0]["nll"] == pytest.approx(mean, rel=1e-5)


def test_nll_equals_the_loss_without_smoothing(make_trainer):
    trainer = make_trainer(max_steps=1, label_smoothing_factor=0.0)
    trainer.train()
    log = trainer.state.log_history[0]
    assert log["nll"] == pytest.approx(log["loss"], rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [2, 3])
def test_accumulation_does_not_change_the_training(make_trainer, steps):
    options = {"max_steps": 5, "dtype": "float64"}
    whole, split = make_trainer(**options), make_trainer(**options, gradient_accumulation_steps=steps)
    whole.train()
    split.train()
    for name, tensor in weights(whole).items():
        torch.testing.assert_close(split.model.state_dict()[name], tensor, rtol=0, atol=1e-9)


def test_padded_budget_on_a_cpu_is_4096_tokens_or_the_longest_pair(make_trainer, dataset):
    row = {"input_ids": [7] * 3000, "labels": [7] * 2000}
    long = datasets.Dataset.from_list([row, row])
    limits = {"max_source_tokens_per_batch": 6000, "max_target_tokens_per_batch": 6000}
    budgets = [make_trainer(train_dataset=each, **limits).args for each in (dataset, long)]
    assert [(each.max_padded_tokens_per_device, each.gradient_accumulation_steps) for each in budgets] == [
        (4096, 1),
        (5000, 2),
    ]


def test_arguments_of_two_trainers_keep_nothing_of_the_first(make_trainer, tokenizer, dataset, tmp_path):
    limits = {"max_source_tokens_per_batch": 6000, "max_target_tokens_per_batch": 6000, "warmup_steps": 0.5}
    args = VaswaniTransformerTrainingArguments(str(tmp_path), **limits, max_steps=2, use_cpu=True, report_to="none")
    before = args.to_dict()
    row = {"input_ids": [7] * 3000, "labels": [7] * 2000}
    trainers = [
        VaswaniTransformerTrainer(make_trainer().model, args, train_dataset=each, processing_class=tokenizer)
        for each in (datasets.Dataset.from_list([row, row]), dataset)
    ]
    trainers[1].train()
    budgets = [
        (each.max_padded_tokens_per_device, each.gradient_accumulation_steps) for each in (t.args for t in trainers)
    ]
    assert budgets == [(5000, 2), (4096, 1)]
    assert args.to_dict() == before


def test_padded_budget_bounds_every_micro_batch(make_trainer):
    trainer = make_trainer(max_padded_tokens_per_device=130)
    for batch in trainer.get_train_dataloader():
        assert batch["input_ids"].numel() + batch["labels"].numel() <= 130


def test_every_pair_is_seen_once_an_epoch(make_trainer, dataset):
    trainer = make_trainer()
    real = sum(batch["labels"].ne(-100).sum().item() for batch in trainer.get_train_dataloader())
    assert real == sum(dataset["target_length"])


def test_learning_rate_is_the_papers_by_default(make_trainer):
    trainer = make_trainer(max_steps=12, warmup_steps=5)
    trainer.train()
    logged = [entry["learning_rate"] for entry in trainer.state.log_history if "learning_rate" in entry]
    paper = [16**-0.5 * min(step**-0.5, step * 5**-1.5) for step in range(1, 13)]
    assert logged == pytest.approx(paper)


def test_learning_rate_given_is_the_peak(make_trainer):
    trainer = make_trainer(max_steps=3, warmup_steps=3, learning_rate=0.03)
    trainer.train()
    assert trainer.state.log_history[2]["learning_rate"] == pytest.approx(0.03)


def test_training_stops_with_the_step_when_the_loss_is_no_number(make_trainer):
    trainer = make_trainer(max_steps=5)
    with torch.no_grad():
        trainer.model.lm_head.weight.fill_(math.nan)
    with pytest.raises(ValueError, match=r"`loss` must stay a finite number, got nan after 0 updates"):
        trainer.train()


def test_diverged_weights_are_not_saved(make_trainer, tmp_path):
    trainer = make_trainer(max_steps=5, logging_steps=100, save_strategy="steps", save_steps=2)
    with torch.no_grad():
        trainer.model.lm_head.weight.fill_(math.nan)
    with pytest.raises(ValueError, match="must stay a finite number"):
        trainer.train()
    assert not list((tmp_path / "run").glob("checkpoint-*"))


@pytest.mark.slow
@pytest.mark.parametrize("bf16", [False, True])
def test_twenty_pairs_are_learned_by_heart(make_trainer, tokenizer, bf16):
    small = tokenize(tokenizer, make_pairs(20, seed=3))
    trainer = make_trainer(
        train_dataset=small,
        eval_dataset=small,
        bf16=bf16,
        max_steps=250,
        learning_rate=0.02,
        warmup_steps=40,
        label_smoothing_factor=0.0,
        logging_steps=25,
        max_source_tokens_per_batch=2000,
        max_target_tokens_per_batch=2000,
    )
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < 0.05
    assert {tensor.dtype for tensor in trainer.model.parameters()} == {torch.float32}
    assert trainer.evaluate(num_beams=1)["eval_sacrebleu"] > 99


def test_evaluation_beside_half_precision_searches_in_the_precision_of_the_weights(
    make_trainer, tokenizer, monkeypatch
):
    searches, can_search = [], generation.can_search
    monkeypatch.setattr(generation, "can_search", lambda *args: searches.append(can_search(*args)) or searches[-1])
    trainer = make_trainer(eval_dataset=tokenize(tokenizer, make_pairs(5, seed=3)), bf16=True, max_steps=2)
    trainer.train()
    trainer.evaluate()
    assert set(searches) == {True}
    with torch.no_grad():
        states = trainer.model.model(torch.tensor([[5, 2]]), decoder_input_ids=torch.tensor([[1]])).last_hidden_state
        output = trainer.model(torch.tensor([[5, 2]]), decoder_input_ids=torch.tensor([[1]]))
    assert not torch.equal(trainer.model.lm_head(states), output.logits)  # training goes on in bf16


# ---- resuming ----


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"gradient_accumulation_steps": 2}], ids=["whole", "accumulated"])
def test_resumed_training_equals_the_uninterrupted_one_bit_for_bit(make_trainer, tmp_path, options):
    common = {"dropout": 0.1, "save_strategy": "steps", "save_steps": 10, **options}
    whole = make_trainer(max_steps=20, output_dir=tmp_path / "whole", **common)
    whole.train()
    make_trainer(max_steps=10, output_dir=tmp_path / "parts", **common).train()
    resumed = make_trainer(max_steps=20, output_dir=tmp_path / "parts", **common)
    resumed.train(resume_from_checkpoint=True)
    assert differing(weights(whole), weights(resumed)) == []


def test_resume_test_crosses_an_epoch_before_and_after_the_stop(make_trainer):
    updates = make_trainer().train_batches.num_effective_batches
    assert updates < 10
    assert 10 % updates != 0


def test_resumed_training_logs_the_same_nll(make_trainer, tmp_path):
    common = {"save_strategy": "steps", "save_steps": 3, "logging_steps": 3}
    whole = make_trainer(max_steps=6, output_dir=tmp_path / "whole", **common)
    whole.train()
    make_trainer(max_steps=3, output_dir=tmp_path / "parts", **common).train()
    resumed = make_trainer(max_steps=6, output_dir=tmp_path / "parts", **common)
    resumed.train(resume_from_checkpoint=True)
    logs = [[entry["nll"] for entry in trainer.state.log_history if "nll" in entry] for trainer in (whole, resumed)]
    assert logs[0] == logs[1]


# ---- evaluation ----


def test_evaluation_figures_are_means_per_token_over_the_whole_set(make_trainer, dataset):
    trainer = make_trainer(eval_dataset=dataset, per_device_eval_batch_size=7, predict_with_generate=False)
    loss, nll, tokens = naive_sums(trainer.model, dataset, smoothing=0.1)
    metrics = trainer.evaluate()
    found = [metrics["eval_loss"], metrics["eval_nll"], metrics["eval_perplexity"]]
    assert found == pytest.approx([loss / tokens, nll / tokens, math.exp(nll / tokens)], rel=1e-5)


def test_evaluation_scores_translations_by_default(make_trainer, untranslated, monkeypatch):
    dataset, bleu = untranslated
    trainer = make_trainer(eval_dataset=dataset)
    monkeypatch.setattr(trainer.model, "generate", lambda input_ids, **options: input_ids)
    assert trainer.evaluate()["eval_sacrebleu"] == pytest.approx(bleu)


def test_evaluation_leaves_the_generation_config_alone(make_trainer, dataset):
    trainer = make_trainer(eval_dataset=dataset.select(range(5)))
    before = trainer.model.generation_config.to_dict()
    trainer.evaluate(num_beams=2)
    assert trainer.model.generation_config.to_dict() == before


def test_predictions_equal_plain_generate_in_the_data_sets_order(make_trainer, tokenizer, dataset):
    small = dataset.select(range(12))
    trainer = make_trainer(per_device_eval_batch_size=5)
    predictions = trainer.predict(small, num_beams=2).predictions
    found = tokenizer.batch_decode(predictions, skip_special_tokens=True)
    trainer.model.eval()
    for row, text in zip(small, found, strict=True):
        ids = trainer.model.generate(torch.tensor([row["input_ids"]]), num_beams=2)
        assert tokenizer.decode(ids[0], skip_special_tokens=True) == text


def test_users_compute_metrics_gets_references_in_order_and_no_ignored_ids(make_trainer, tokenizer, pairs, dataset):
    seen = {}

    def compute_metrics(prediction):
        seen["ignored"] = (prediction.predictions == -100).sum()
        labels = np.where(prediction.label_ids == -100, tokenizer.pad_token_id, prediction.label_ids)
        seen["references"] = tokenizer.batch_decode(labels, skip_special_tokens=True)
        return {}

    trainer = make_trainer(eval_dataset=dataset, extra={"compute_metrics": compute_metrics})
    trainer.evaluate(num_beams=1)
    assert seen == {"ignored": 0, "references": [target for _, target in pairs]}


def test_several_evaluation_sets_are_evaluated_by_name(make_trainer, dataset):
    sets = {"first": dataset.select(range(4)), "rest": dataset.select(range(4, 9))}
    metrics = make_trainer(eval_dataset=sets).evaluate(num_beams=1)
    assert {"eval_first_perplexity", "eval_rest_sacrebleu"} <= metrics.keys()


def test_prediction_without_labels_works(make_trainer, dataset):
    output = make_trainer().predict(dataset.select(range(3)).select_columns(["input_ids"]), num_beams=1)
    assert len(output.predictions) == 3


def test_best_model_by_bleu_is_loaded_and_early_stopping_stops(make_trainer, dataset, tmp_path):
    scores = iter([3.0, 5.0, 4.0, 4.5])
    trainer = make_trainer(
        eval_dataset=dataset.select(range(2)),
        max_steps=50,
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="steps",
        save_steps=2,
        load_best_model_at_end=True,
        metric_for_best_model="sacrebleu",
        generation_num_beams=1,
        extra={
            "compute_metrics": lambda prediction: {"sacrebleu": next(scores)},
            "callbacks": [EarlyStoppingCallback(2)],
        },
    )
    trainer.train()
    best, last = (load_file(tmp_path / "run" / f"checkpoint-{step}" / "model.safetensors") for step in (4, 8))
    assert (trainer.state.global_step, Path(trainer.state.best_model_checkpoint).name) == (8, "checkpoint-4")
    assert differing(best, weights(trainer)) == []
    assert differing(best, last)


def test_trainer_names_a_missing_tokeniser_before_the_first_update(make_trainer, dataset, monkeypatch):
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)

    def japanese(model):
        model.config.target_language = "ja"
        return model

    with pytest.raises(ImportError, match=r"'sacrebleu\[ja\]'"):
        make_trainer(eval_dataset=dataset.select(range(2)), wrap=japanese)
    assert make_trainer(wrap=japanese).model.config.target_language == "ja"


def test_newest_checkpoint_stays_when_one_is_kept_and_another_was_better(make_trainer, dataset, tmp_path):
    scores = iter([3.0, 5.0, 4.0])
    options = {"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 2}
    trainer = make_trainer(
        eval_dataset=dataset.select(range(2)),
        max_steps=6,
        save_total_limit=1,
        metric_for_best_model="sacrebleu",
        generation_num_beams=1,
        extra={"compute_metrics": lambda prediction: {"sacrebleu": next(scores)}},
        **options,
    )
    trainer.train()
    assert (tmp_path / "run" / "checkpoint-6").is_dir() and trainer.args.save_total_limit == 1


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
        eval_dataset=dataset.select(range(2)), max_steps=2, eval_strategy="steps", eval_steps=1, generation_num_beams=1
    )
    expected = trainer.model.generation_config.to_diff_dict()
    assert (expected["num_beams"], expected["length_penalty"]) == (4, 0.6)
    trainer.train()
    trainer.save_model(tmp_path / "saved")
    saved = type(trainer.model).from_pretrained(tmp_path / "saved")
    assert saved.generation_config.to_diff_dict() == expected
    assert saved.config.use_cache is True


# ---- the rest ----


def test_training_set_without_length_columns_gives_the_same_batches(make_trainer, dataset):
    bare = make_trainer(train_dataset=dataset.select_columns(["input_ids", "labels"]))
    assert list(bare.train_batches) == list(make_trainer().train_batches)


def test_snapshots_are_written_every_n_steps(make_trainer, tmp_path):
    make_trainer(max_steps=7, snapshot_steps=2, num_averaged_snapshots=2).train()
    names = sorted(path.name for path in (tmp_path / "run" / "snapshots").iterdir())
    assert names == ["step-00000004.safetensors", "step-00000006.safetensors"]


def test_snapshots_of_an_earlier_training_in_the_folder_are_no_newest_ones(make_trainer, tmp_path):
    options = {"snapshot_steps": 2, "num_averaged_snapshots": 2}
    make_trainer(max_steps=12, **options).train()
    make_trainer(max_steps=6, seed=7, **options).train()
    make_trainer(max_steps=6, seed=7, output_dir=tmp_path / "alone", **options).train()
    found, expected = (sorted((tmp_path / run / "snapshots").iterdir()) for run in ("run", "alone"))
    assert [path.name for path in found] == [path.name for path in expected]
    assert [path.read_bytes() for path in found] == [path.read_bytes() for path in expected]


def test_spare_parts_of_an_update_suit_any_collator(make_trainer, tokenizer):
    long = tokenize(tokenizer, [("red " * 40, "rot " * 40)] * 4 + make_pairs(20))
    options = {"train_dataset": long, "gradient_accumulation_steps": 4, "max_steps": 8}
    trainers = [
        make_trainer(**options, extra={} if collator is None else {"data_collator": collator})
        for collator in (None, DataCollatorForSeq2Seq(tokenizer))
    ]
    assert any([] in update for update in zip(*[iter(trainers[0].train_batches)] * 4, strict=True))
    for trainer in trainers:
        trainer.train()
    assert differing(*map(weights, trainers)) == []


def test_rows_need_no_end_of_their_own(make_trainer, dataset):
    class Rows(torch.utils.data.Dataset):
        rows = dict(enumerate(dataset.select_columns(["input_ids", "labels"])))

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, index):
            return self.rows[index]

    trainers = [make_trainer(train_dataset=rows) for rows in (Rows(), dataset)]
    for trainer in trainers:
        trainer.train()
    assert differing(*map(weights, trainers)) == []


def test_losses_given_to_metrics_are_those_of_their_sentences(make_trainer, dataset):
    found, few = [], dataset.select(range(7))
    options = {"include_for_metrics": ["loss"], "per_device_eval_batch_size": 1, "predict_with_generate": False}
    trainer = make_trainer(
        eval_dataset=few, extra={"compute_metrics": lambda seen: found.extend(seen.losses) or {}}, **options
    )
    trainer.evaluate()
    alone = [trainer.evaluate(few.select([row]))["eval_loss"] for row in range(7)]
    assert found[:7] == pytest.approx(alone, rel=1e-5) and len(set(alone)) > 2


def test_another_training_set_is_planned_again(make_trainer, dataset):
    trainer, whole = (make_trainer(train_dataset=rows) for rows in (dataset.select(range(9)), dataset))
    trainer.train_dataset = dataset
    trainer.train()
    whole.train()
    assert differing(*map(weights, (trainer, whole))) == []


def test_hyperparameter_search_says_what_to_do(make_trainer):
    with pytest.raises(NotImplementedError, match="Make a trainer for each trial"):
        make_trainer().hyperparameter_search(lambda trial: {}, lambda metrics: metrics["eval_nll"], n_trials=1)


def test_arguments_may_be_left_out_and_are_no_others(make_trainer, tokenizer, dataset, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = make_trainer().model
    assert (
        VaswaniTransformerTrainer(model, train_dataset=dataset, processing_class=tokenizer).args.warmup_steps == 4000
    )
    with pytest.raises(TypeError, match="`args` must be VaswaniTransformerTrainingArguments, got Seq2SeqTrainingArg"):
        VaswaniTransformerTrainer(model, Seq2SeqTrainingArguments("run", use_cpu=True))


@pytest.mark.slow
def test_sigterm_saves_a_checkpoint_from_which_the_same_run_goes_on(make_trainer, tmp_path):
    whole = make_trainer(dropout=0.1, max_steps=9, output_dir=tmp_path / "whole")
    whole.train()
    callbacks = {"callbacks": [SignalIn(5, signal.SIGTERM)]}
    with pytest.raises(KeyboardInterrupt):
        make_trainer(dropout=0.1, max_steps=9, extra=callbacks).train()
    resumed = make_trainer(dropout=0.1, max_steps=9)
    resumed.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-5"))
    assert differing(weights(whole), weights(resumed)) == []


def test_second_stop_signal_stops_at_once(make_trainer, tmp_path):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a script starts with &
    callbacks = {"callbacks": [SignalIn(5), SignalIn(5)]}
    with pytest.raises(KeyboardInterrupt):
        make_trainer(max_steps=9, extra=callbacks).train()
    assert not (tmp_path / "run" / "checkpoint-5").exists()


def test_stop_signal_handlers_are_restored(make_trainer):
    before = signal.getsignal(signal.SIGINT)
    make_trainer(max_steps=1).train()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("signal_name", ["INT", "TERM"])
def test_data_workers_of_an_evaluation_leave_signals_to_the_main_process(make_trainer, dataset, signal_name):
    options = {"dataloader_num_workers": 2, "per_device_eval_batch_size": 1}
    batches = iter(make_trainer(eval_dataset=dataset, **options).get_eval_dataloader())
    next(batches), next(batches)  # one of each worker
    for worker in multiprocessing.active_children():
        subprocess.run(["kill", f"-{signal_name}", str(worker.pid)], check=True)  # not by the main process
    assert 2 + sum(1 for _ in batches) == len(dataset)


@pytest.mark.slow
def test_run_with_data_workers_ends_after_an_error(tmp_path):
    """Python ends workers by a signal that they ignore, and waits for them."""
    script = """
from pathlib import Path
from toy_language import build_trainer, make_pairs, make_tokenizer, tokenize
from transformers import TrainerCallback

class Failing(TrainerCallback):
    def on_step_end(self, *args, **kwargs):
        raise RuntimeError("the callback fails")

tokenizer = make_tokenizer()
options = {"max_steps": 4, "dataloader_num_workers": 2, "extra": {"callbacks": [Failing()]}}
build_trainer(tokenizer, tokenize(tokenizer, make_pairs(60)), Path("run"), **options).train()
"""
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("RuntimeError: the callback fails")


def test_sorted_view_puts_rows_back_in_order(dataset):
    view = SortedByLength(dataset, multiple=16)
    rows = np.array([view[index]["target_length"] for index in range(len(view))])
    assert len(view) == 64
    assert in_data_order(view, rows).tolist() == dataset["target_length"]


def test_sorted_view_fills_with_rows_that_count_nowhere(dataset):
    view = SortedByLength(dataset, multiple=16)
    assert [view[index]["labels"] for index in range(60, 64)] == [[-100]] * 4


def test_training_mends_a_model_loaded_with_missing_weights(make_trainer):
    trainer = make_trainer(max_steps=1)
    trainer.model._loading_info = {"missing_keys": ["lm_head.weight"]}
    trainer.train()
    trainer.model.check_loaded_weights()


def test_training_without_validation_needs_no_metrics(make_trainer, dataset, monkeypatch):
    monkeypatch.setitem(sys.modules, "vaswani_transformer.evaluation.metrics", None)
    make_trainer(max_steps=1).train()
    with pytest.raises(ImportError, match="metrics"):
        make_trainer(max_steps=1, eval_dataset=dataset)
