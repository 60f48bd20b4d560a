# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Two batches at a time, each in a thread of its own."""

import os
import signal
import threading

import pytest
import torch
from tiny import SENTENCES, make_model
from torch.utils.flop_counter import FlopCounterMode
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList, TextStreamer, pipeline

from vaswani_transformer import VaswaniTransformerForConditionalGeneration as Model
from vaswani_transformer import generation_vaswani_transformer as generation
from vaswani_transformer.evaluation.translate import translate, translate_n_best
from vaswani_transformer.fast_search_vaswani_transformer import two_at_a_time

OPTIONS = {"max_tokens_per_batch": 20, "max_new_tokens_over_source": 3}
TEXTS = [" ".join(SENTENCES[number % 4].split()[: 1 + number % 5]) for number in range(30)]
TEXTS[7] = ""


@pytest.fixture(autouse=True)
def threads(monkeypatch):
    """Function that sets torch's number of threads, which is restored; batches of any size are searched by two."""
    monkeypatch.setattr(generation, "_FEWEST_TEXTS", 1)
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def searches(monkeypatch):
    """Threads of torch and of Python in each call of `generate`; the first two of several threads meet in it."""
    calls, generate, meeting = [], Model.generate, threading.Barrier(2, timeout=20)

    def recorded(self, *args, **kwargs):
        is_alone = threading.current_thread() is threading.main_thread()
        calls.append((torch.get_num_threads(), not is_alone))
        if not is_alone and len(calls) <= 2:
            meeting.wait()
        return generate(self, *args, **kwargs)

    monkeypatch.setattr(Model, "generate", recorded)
    return calls


def results(model, tokenizer):
    """Of everything that searches side by side."""
    translator = pipeline("translation", model=model, tokenizer=tokenizer)
    return {
        "translate": list(translate(model, tokenizer, TEXTS, **OPTIONS)),
        "n-best": list(translate_n_best(model, tokenizer, TEXTS, 3, **OPTIONS)),
        "pipeline": translator(TEXTS, batch_size=4, max_new_tokens=5, num_return_sequences=2),
    }


def test_two_batches_at_a_time_change_no_result_and_no_order(tiny_model, tiny_tokenizer, threads):
    threads(1)
    expected = results(tiny_model, tiny_tokenizer)
    threads(2)
    assert results(tiny_model, tiny_tokenizer) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (2, [(1, True)] * 6),
        (5, [(2, True)] * 6),
        (2, [(1, True), (1, True), (2, False)]),  # the last of an odd number has all threads
        (1, [(1, False)] * 4),
        (2, [(2, False)]),
    ],
)
def test_two_threads_search_at_once_and_share_those_of_torch(
    given, expected, tiny_model, tiny_tokenizer, threads, searches
):
    threads(given)
    texts = ["A dog."] * len(expected)
    list(translate(tiny_model, tiny_tokenizer, texts, max_tokens_per_batch=1, max_new_tokens=2))
    assert searches == expected


def test_the_pipeline_searches_two_batches_at_a_time(tiny_model, tiny_tokenizer, threads, searches):
    threads(2)
    pipeline("translation", model=tiny_model, tokenizer=tiny_tokenizer)(["A dog."] * 4, batch_size=2, max_new_tokens=2)
    assert searches == [(1, True)] * 2


@pytest.mark.parametrize(("per_batch", "is_shared"), [(15, False), (16, True)])
def test_batches_of_few_texts_are_searched_one_at_a_time(
    per_batch, is_shared, tiny_model, tiny_tokenizer, threads, searches, monkeypatch
):
    monkeypatch.setattr(generation, "_FEWEST_TEXTS", 16)
    threads(2)
    budget = per_batch * len(tiny_tokenizer("A dog.")["input_ids"])
    options = {"max_tokens_per_batch": budget, "max_new_tokens": 2}
    list(translate(tiny_model, tiny_tokenizer, ["A dog."] * 2 * per_batch, **options))
    assert searches == [(1, True) if is_shared else (2, False)] * 2


@pytest.mark.parametrize(
    "options",
    [
        {"do_sample": True},
        {"streamer": TextStreamer(None)},
        {"logits_processor": LogitsProcessorList()},
        {"prefix_allowed_tokens_fn": lambda batch, ids: [3]},
        {"generation_config": GenerationConfig()},
        {"stopping_criteria": StoppingCriteriaList()},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_sees_the_order_of_batches_gets_one_at_a_time(options, tiny_model):
    assert tiny_model._can_search_side_by_side({"num_beams": 4, "length_penalty": 0.6, "max_new_tokens": None})
    assert not tiny_model._can_search_side_by_side(options)


def test_models_that_sample_by_default_search_one_batch_at_a_time(tiny_model):
    tiny_model.generation_config.do_sample = True
    assert not tiny_model._can_search_side_by_side({})
    assert tiny_model._can_search_side_by_side({"do_sample": False})


def test_disturbed_models_search_one_batch_at_a_time(tiny_model, monkeypatch):
    """The other threads would not see what holds for the caller's, and hooks would see two batches mixed."""
    for context in (torch.autocast("cpu"), FlopCounterMode(display=False)):
        with context:
            assert not tiny_model._can_search_side_by_side({})
    for model in (make_model().double(), make_model().to("meta"), make_model().train()):
        assert not model._can_search_side_by_side({})
    hook = tiny_model.model.encoder.register_forward_hook(lambda *args: None)
    assert not tiny_model._can_search_side_by_side({})
    hook.remove()
    assert tiny_model._can_search_side_by_side({})
    monkeypatch.setattr(tiny_model, "generate", lambda **options: None)
    assert not tiny_model._can_search_side_by_side({})


# ---- the end ----


def threads_of_a_new_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize("end", ["all", "error", "closed"])
def test_torchs_threads_are_restored(end, threads):
    threads(2)
    found = two_at_a_time(lambda batch: 1 // batch, [1, 1, 0 if end == "error" else 1, 1])
    if end == "closed":
        next(found)
        found.close()
    elif end == "error":
        with pytest.raises(ZeroDivisionError):
            list(found)
    else:
        assert list(found) == [1] * 4
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (2, 2)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_or_ctrl_c_ends_the_other_search_at_its_next_step(error, tiny_model, tiny_batch, threads):
    threads(2)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs lack
    del tiny_batch["labels"]
    started, is_searching, ends = [], threading.Event(), []

    def compute(batch):
        started.append(batch)
        if batch == 4:
            is_searching.wait(20)
            if error is ValueError:
                raise error("told once")
            os.kill(os.getpid(), signal.SIGINT)  # reaches the main thread
        if batch < 5:
            return batch
        try:
            for _ in range(1000):
                is_searching.set()
                tiny_model.generate(**tiny_batch, min_new_tokens=200, max_new_tokens=200)
        except BaseException as end:
            ends.append(type(end))
            raise
        return batch

    with pytest.raises(error):
        list(two_at_a_time(compute, list(range(40))))
    assert (ends[0], len(started) < 9) == (KeyboardInterrupt, True)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPool")]
    assert tiny_model.generate(**tiny_batch, max_new_tokens=3).shape[0] == 2
