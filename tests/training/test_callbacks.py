# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import logging
import re

import pytest
from transformers import PrinterCallback, ProgressCallback, TrainerCallback

from vaswani_transformer.training.callbacks import LogLines


def test_the_log_is_a_line_a_minute_and_one_for_each_validation(
    trained, dataset, capsys, monkeypatch
):
    now = iter(range(0, 10**6, 25))  # seconds, at each look at the clock
    monkeypatch.setattr("time.perf_counter", lambda: float(next(now)))
    monkeypatch.setattr("vaswani_transformer.training.callbacks._SECONDS_BETWEEN_LINES", 200)
    options = {"eval_dataset": dataset.select(range(4)), "eval_strategy": "steps", "eval_steps": 3}
    trainer = trained(max_steps=6, logging_steps=1, generation_num_beams=1, **options)
    output, error = capsys.readouterr()
    assert output == ""
    steps = [
        int(step)
        for step in re.findall(r"^update (\d) of 6  perplexity", error, flags=re.MULTILINE)
    ]
    assert steps[0] == 1 and steps[-1] == 6 and len(steps) < 6
    history = [entry for entry in trainer.state.log_history if "eval_sacrebleu" in entry]
    validations = re.findall(r"^validation after (\d) updates: (.*)$", error, flags=re.MULTILINE)
    for (step, line), entry in zip(validations, history, strict=True):
        shown = {name: float(value) for name, value in re.findall(r"(\S+) (\S+)", line)}
        assert int(step) == entry["step"]
        assert shown.keys() >= {"sacrebleu", "chrf", "perplexity"}
        expected = {name: entry[f"eval_{name}"] for name in shown}
        assert shown == pytest.approx(expected, rel=1e-3)


def test_a_terminal_has_one_line_that_is_rewritten(trained, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    trained(max_steps=3, logging_steps=1)
    lines = capsys.readouterr().err.split("\r")[1:]
    assert [line.split("  ")[0] for line in lines] == [
        "update 1 of 3",
        "update 2 of 3",
        "update 3 of 3",
    ]
    assert [line.endswith("\n") for line in lines] == [False, False, True]
    assert "tokens per second" in lines[0] and "0:00:00 left" in lines[2]


def test_validations_show_two_sentences_with_their_translations(
    trained, dataset, tokenizer, caplog
):
    rows = dataset.select(range(4))
    with caplog.at_level(logging.INFO, logger="vaswani_transformer"):
        trainer = trained(
            max_steps=3,
            generation_num_beams=1,
            eval_dataset=rows,
            eval_strategy="steps",
            eval_steps=3,
        )
    shown = [record.getMessage() for record in caplog.records if "  -> " in record.getMessage()]
    predictions = trainer.predict(rows).predictions
    predictions[predictions == -100] = tokenizer.pad_token_id
    translations = tokenizer.batch_decode(predictions, skip_special_tokens=True)
    sources = tokenizer.batch_decode(list(rows["input_ids"]), skip_special_tokens=True)
    expected = f"\n  {sources[0]}\n  -> {translations[0]}\n  {sources[1]}\n  -> {translations[1]}"
    assert shown == [expected]


def test_bars_and_reports_of_the_user_are_kept(make_trainer):
    class Mine(PrinterCallback):
        pass

    def kinds(**options):
        return [type(each) for each in make_trainer(**options).callback_handler.callbacks]

    assert ProgressCallback in kinds(disable_tqdm=False) and LogLines not in kinds(
        disable_tqdm=False
    )
    assert Mine in kinds(extra={"callbacks": [Mine()]})


def test_other_processes_say_nothing(trained, capsys):
    class Second(TrainerCallback):
        def on_train_begin(self, args, state, control, **kwargs):
            state.is_world_process_zero = False

    trained(max_steps=2, extra={"callbacks": [Second()]})
    assert capsys.readouterr().err == ""
