# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Our own search against the library's loop under the same rule, option by option, and when it is
used at all.
"""

import copy
import gc
import inspect
import pickle
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest
import torch
from naive_search import generated_tokens
from operations import READ, Operations
from search_checks import (
    SHAPES,
    each_search,
    in_own_precision,
    pad,
    random_case,
    random_model,
    random_sentences,
    rescored,
    without_padding,
)
from tiny import make_model
from torch.utils._pytree import tree_leaves, tree_map_only
from transformers import (
    EosTokenCriteria,
    GenerationMixin,
    LogitsProcessor,
    MaxLengthCriteria,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.generation import logits_process
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from vaswani_transformer import VaswaniTransformerForConditionalGeneration
from vaswani_transformer import beam_search_vaswani_transformer as fast_search
from vaswani_transformer import cpu_kernels_vaswani_transformer as linear
from vaswani_transformer import generation_vaswani_transformer as generation
from vaswani_transformer import incremental_decoder_vaswani_transformer as decoder_session
from vaswani_transformer.beam_search_vaswani_transformer import process
from vaswani_transformer.modeling_vaswani_transformer import scaled_dot_product_attention

VOCABULARY = 24


@pytest.fixture
def searches(monkeypatch):
    """[whether the search was our own] of every call so far; `is_allowed` False leaves it to the
    library.
    """

    class Searches(list):
        is_allowed = True

    record = Searches()
    can_search = generation.can_search

    def recorded(*args):
        record.append(record.is_allowed and can_search(*args))
        return record[-1]

    monkeypatch.setattr(generation, "can_search", recorded)
    return record


@pytest.fixture(params=[True, False], ids=["packed", "plain"])
def packing(request, monkeypatch):
    """Weights that are packed for the CPU, where it can, or never."""
    monkeypatch.setattr(
        decoder_session, "can_pack", lambda weight: request.param and linear.can_pack(weight)
    )


@pytest.fixture
def steps(monkeypatch):
    """[(rows, whether gradients are kept)] of every step of our own search."""
    record = []
    step = decoder_session.IncrementalDecoder.step

    def recorded(session, tokens, parents=None):
        record.append((tokens.numel(), torch.is_grad_enabled()))
        return step(session, tokens, parents)

    monkeypatch.setattr(decoder_session.IncrementalDecoder, "step", recorded)
    return record


def both(searches, model, batch, **options):
    """What our own search and the library's give; both were really used."""
    outputs = []
    for searches.is_allowed in (True, False):
        torch.manual_seed(0)
        with in_own_precision(model):
            outputs.append(
                model.generate(**batch, return_dict_in_generate=True, **copy.deepcopy(options))
            )
    searches.is_allowed = True
    assert searches[-2:] == [True, False]
    return outputs


def assert_equal(ours, theirs, atol=1e-10):
    assert ours.sequences.tolist() == theirs.sequences.tolist()
    assert ours.sequences.dtype == theirs.sequences.dtype
    if "beam_indices" in theirs:  # of beam search
        torch.testing.assert_close(
            ours.sequences_scores, theirs.sequences_scores, rtol=0, atol=atol
        )
        assert ours.beam_indices.tolist() == theirs.beam_indices.tolist()
        assert ours.beam_indices.dtype == theirs.beam_indices.dtype


def assert_same(searches, model, batch, beams=(1, 4), atol=1e-10, **options):
    """Greedy and beam search give what the library's give."""
    for num_beams in beams:
        assert_equal(*both(searches, model, batch, num_beams=num_beams, **options), atol)


def only_allowed(batch, prefix):
    return [2] if len(prefix) > 5 + batch else list(range(3 + batch, VOCABULARY))


OPTIONS = {
    "the paper's": {},
    "two beams, both returned": {"beams": [2], "num_return_sequences": 2},
    "seven beams, three returned": {"beams": [7], "num_return_sequences": 3},
    "no length penalty": {"length_penalty": 0.0},
    "short output": {"length_penalty": -2.0},
    "length^1": {"length_penalty": 1.0, "length_penalty_offset": 0},
    "early stopping": {"early_stopping": True},
    "early stopping, long output": {"early_stopping": True, "length_penalty": 4.0},
    "early stopping never": {"beams": [4], "early_stopping": "never", "num_return_sequences": 2},
    "max_new_tokens": {"max_new_tokens": 3},
    "one new token": {"max_new_tokens": 1},
    "max_length": {"max_length": 5},
    "min_new_tokens": {"min_new_tokens": 4},
    "min_length": {"min_length": 5},
    "ends outside the vocabulary": {"eos_token_id": [2, 99], "min_new_tokens": 3},
    "suppressed tokens outside the vocabulary": {"suppress_tokens": [-1, 99, 4]},
    "long output": {"suppress_tokens": [2], "max_new_tokens": 30},
    "begin_suppress_tokens": {"begin_suppress_tokens": [3, 2]},
    "bad words": {"bad_words_ids": [[5], [6, 7]]},
    "no repeated bigrams": {"no_repeat_ngram_size": 2},
    "no bigrams of the source": {"encoder_no_repeat_ngram_size": 2},
    "repetition penalty": {"repetition_penalty": 1.7},
    "forced first token": {"forced_bos_token_id": 5},
    "forced end": {"forced_eos_token_id": 2, "max_new_tokens": 4},
    "sequence_bias": {"sequence_bias": [[[5], 2.0]]},
    "ends ever more likely": {"exponential_decay_length_penalty": (4, 1.5)},
    "ends ever more likely, early stopping": {
        "exponential_decay_length_penalty": (4, 1.5),
        "early_stopping": True,
    },
    "renormalized": {"renormalize_logits": True, "suppress_tokens": [3]},
    "two ends": {"eos_token_id": [2, 5]},
    "three ends more likely than all else": {
        "eos_token_id": [2, 5, 6],
        "sequence_bias": [
            [[token], -20.0] for token in range(VOCABULARY) if token not in (2, 5, 6)
        ],
        "length_penalty": 8.0,  # the best still comes late
    },
    "constrained": {"prefix_allowed_tokens_fn": only_allowed},
    "with a criterion of the library": {
        "stopping_criteria": StoppingCriteriaList([MaxLengthCriteria(30)])
    },
}
# Every option meets some of the shapes, every shape many options.
each_option = pytest.mark.parametrize(
    ("seed", "options"), [*enumerate(OPTIONS.values())], ids=OPTIONS
)


@pytest.mark.slow
@pytest.mark.parametrize("num_cases", [1, pytest.param(5, marks=pytest.mark.heavy)])
@each_option
def test_search_equals_the_librarys_in_float64(searches, seed, options, num_cases):
    for each in range(seed, seed + num_cases):
        assert_same(searches, *random_case(each), **options)


class Recorded(Operations):
    """What a CUDA graph is: the operations of one step on the memory that it found, to be done
    again without Python.

    Reading a result on the host is refused, as it is while a graph is captured.
    """

    def __init__(self, step, device):
        super().__init__()
        self.is_done = True  # recording has done the first step; a GPU would not have
        with self:
            step()
        assert READ not in self.names(), "a step waits for the device"

    def __call__(self):
        now = {}  # what stands at present for the tensors that were made while recording
        for function, args, kwargs, result in [] if self.is_done else self.calls:
            args, kwargs = tree_map_only(
                torch.Tensor, lambda each: now.get(id(each), each), (args, kwargs)
            )
            pairs = zip(tree_leaves(result), tree_leaves(function(*args, **kwargs)), strict=True)
            now.update((id(before), after) for before, after in pairs)
        self.is_done = False


@pytest.fixture
def as_on_a_device(monkeypatch):
    """Steps of fixed shapes, recorded and replayed as CUDA graphs are; where there are processors,
    only the former.
    """
    monkeypatch.setattr(decoder_session, "is_static", lambda device: True)
    monkeypatch.setattr(fast_search, "can_capture", lambda device: True)
    monkeypatch.setattr(fast_search, "capture", Recorded)


@pytest.mark.parametrize(
    ("seed", "options"),
    [
        pytest.param(seed, options, marks=pytest.mark.heavy if seed % 2 else ())
        for seed, options in enumerate(OPTIONS.values())
    ],
    ids=OPTIONS,
)
def test_search_with_the_steps_of_a_device_equals_the_librarys_in_float64(
    searches, seed, options, as_on_a_device
):
    assert_same(searches, *random_case(seed, 3), **options)


def test_steps_that_cannot_be_captured_are_launched_one_by_one(monkeypatch, caplog):
    monkeypatch.setattr(fast_search._OF_THREAD, "captured", {}, raising=False)
    step = mock.Mock()
    graphs = [mock.MagicMock() for _ in range(4)]
    graphs[1].capture_end.side_effect = torch.OutOfMemoryError("no memory is left")
    for name in ("device", "stream", "Stream", "current_stream", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, mock.MagicMock())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", mock.Mock(side_effect=graphs))
    torch.cuda.empty_cache.side_effect = [None, RuntimeError("captures_underway"), None]
    found = [fast_search.capture(step, torch.device("cuda", 0)) for _ in graphs]
    assert found == [graphs[0].replay, step, step, graphs[3].replay]
    pools = [graph.capture_begin.call_args.args[0] for graph in graphs if graph is not graphs[2]]
    assert pools == [None, graphs[0].pool(), None]  # a failed one's memory is not used again
    assert (step.call_count, torch.cuda.empty_cache.call_count) == (3, 3)
    assert "no memory is left" in caplog.text


@pytest.fixture
def on_accelerator(accel, monkeypatch):
    """Moves a model and a batch; the class of the accelerator's weights is its own, which nothing
    else may be.
    """
    if accel.type != "cuda":
        monkeypatch.setattr(fast_search, "is_plain", lambda model: True)
    return lambda model, batch: (
        model.to(accel),
        {name: each.to(accel) for name, each in batch.items()},
    )


@pytest.mark.heavy  # the steps themselves are tested above, on the CPU
@each_option
@each_search
def test_search_on_an_accelerator_equals_the_librarys_on_the_host(
    searches, num_beams, seed, options, on_accelerator
):
    options = {"num_beams": num_beams, **options}
    options["num_beams"] = options.pop("beams", [num_beams])[0]
    model, batch = random_case(seed)
    theirs = both(searches, model, batch, **options)[1]
    model, batch = on_accelerator(model, batch)
    ours = model.generate(**batch, return_dict_in_generate=True, **copy.deepcopy(options))
    assert searches[-1] and ours.sequences.device == model.device
    for name in set(ours) & {"sequences", "sequences_scores", "beam_indices"}:
        ours[name] = ours[name].cpu()
    assert_equal(ours, theirs)


@each_search
def test_search_on_an_accelerator_keeps_no_gradients(searches, steps, on_accelerator, num_beams):
    model, batch = on_accelerator(*random_case(0, 1))
    with torch.inference_mode():  # in which `translate` calls
        model.generate(**batch, num_beams=num_beams, max_new_tokens=4)
    assert searches == [True] and {has_gradients for _, has_gradients in steps} == {False}


@each_search
def test_search_on_an_accelerator_knows_a_callers_ends_on_the_cpu(
    searches, on_accelerator, num_beams
):
    model, batch = on_accelerator(*random_case(0, 2))
    options = {**batch, "num_beams": num_beams, "max_new_tokens": 4}
    expected = model.generate(**options).cpu()
    for ends, is_known in ([2], True), ([2, 5], False):
        criteria = StoppingCriteriaList([EosTokenCriteria(ends)])
        found = model.generate(**options, stopping_criteria=criteria).cpu()
        assert searches[-1] is is_known
        if is_known:
            assert torch.equal(found, expected)


@each_search
def test_search_goes_on_after_a_call_that_asked_for_attention(searches, num_beams):
    model, batch = random_case(0)
    before = model.generate(**batch, num_beams=num_beams)
    assert model(**batch, labels=batch["input_ids"], output_attentions=True).cross_attentions
    assert torch.equal(model.generate(**batch, num_beams=num_beams), before)
    assert searches == [True, True]
    before += 1  # no tensor of inference mode


@pytest.mark.slow
def test_search_on_an_accelerator_looks_no_further_than_eight_steps_behind_the_last_end(
    searches, as_on_a_device, monkeypatch
):
    steps = []
    make_room = decoder_session.IncrementalDecoder.make_room
    monkeypatch.setattr(
        decoder_session.IncrementalDecoder,
        "make_room",
        lambda session: steps.append(0) or make_room(session),
    )
    for seed in 4, 9:  # all sentences end before the limit
        steps.clear()
        model, batch = random_case(seed)
        longest = model.generate(**batch, num_beams=1, max_new_tokens=40).shape[1]
        assert longest - 1 <= len(steps) < longest + 8


@pytest.mark.parametrize("where", ["accelerator", "cpu"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_search_in_half_precision_scores_in_fp32(searches, request, monkeypatch, dtype, where):
    model = random_model(0, dtype)
    sentences = random_sentences(0, 6)
    exact_model = copy.deepcopy(model).double()
    batch = pad(sentences)
    if where == "accelerator":
        model, batch = request.getfixturevalue("on_accelerator")(model, batch)
    elif not linear.is_fast_half(dtype):
        pytest.skip(f"this CPU does not multiply in {dtype}")
    monkeypatch.setattr(decoder_session, "_FEWEST_TO_USE_PACKED", 0)  # packed weights, too
    found = model.generate(**batch, num_beams=4, max_new_tokens=5, return_dict_in_generate=True)
    assert searches == [True] and found.sequences_scores.dtype == torch.float32
    for sentence, row, score in zip(
        sentences, found.sequences.cpu(), found.sequences_scores.tolist(), strict=True
    ):
        expected = rescored(exact_model, sentence, without_padding(generated_tokens(row)), 0.6)
        assert score == pytest.approx(expected, rel=0.03)


@each_search
def test_some_sentences_of_these_tests_end_by_themselves_and_some_at_their_limits(num_beams):
    outputs = [
        random_model(seed).generate(**pad(random_sentences(seed)), num_beams=num_beams)
        for seed in range(10)
    ]
    ends = [2 in row for output in outputs for row in output.tolist()]
    assert 0.05 * len(ends) < sum(ends) < len(ends)


# ---- processors ----


class NoWordTwice(LogitsProcessor):
    """A processor that the package does not know and that counts on the place of each row in the
    batch.
    """

    def __init__(self, num_rows):
        self.num_rows = num_rows

    def __call__(self, input_ids, scores):
        assert len(scores) == self.num_rows
        scores = scores.clone()
        scores[torch.arange(len(scores)), input_ids[:, -1]] = -torch.inf
        scores[1::2, 5] = -torch.inf
        return scores


def test_search_with_a_processor_of_the_callers_equals_the_librarys(searches):
    for seed in range(3):
        model, batch = random_case(seed)
        for num_beams in (1, 4):
            processors = [NoWordTwice(len(batch["input_ids"]) * num_beams)]
            assert_same(searches, model, batch, beams=[num_beams], logits_processor=processors)


class LikesSevens(LogitsProcessor):
    """A processor of the user's own that lifts scores above 0."""

    def __call__(self, input_ids, scores):
        return scores.index_add(
            1, torch.tensor([7, 2]), scores.new_tensor([[1.5, 0.5]]).expand(len(scores), -1)
        )


RAISING = {
    "ends ever more likely": {"exponential_decay_length_penalty": (4, 1.5)},
    "more likely ends": {"sequence_bias": [[[2], 3.0]]},
    "more likely word": {"sequence_bias": [[[7], 1.5]]},
    "a processor of the user's own": {"logits_processor": [LikesSevens()]},
}


@pytest.mark.parametrize(
    "search", [{"early_stopping": "never", "length_penalty": 1.0}, {"length_penalty": 0.0}], ids=str
)
@pytest.mark.parametrize("options", RAISING.values(), ids=RAISING)
def test_search_stops_as_transformers_does_when_scores_may_rise(
    searches, monkeypatch, options, search
):
    options = {**options, **search, "num_beams": 4, "max_new_tokens": 20}
    for seed in range(2):
        model, batch = random_case(seed)
        found = [
            model.generate(**batch, length_penalty_offset=0, **copy.deepcopy(options))
            for searches.is_allowed in (True, False)  # our search, and their loop under our rule
        ]
        assert searches[-2:] == [True, False]
        with monkeypatch.context() as patch:
            for name in ("_beam_search", "_update_finished_beams", "_check_early_stop_heuristic"):
                own = inspect.getattr_static(GenerationMixin, name)
                patch.setattr(VaswaniTransformerForConditionalGeneration, name, own)
            expected = list(map(generated_tokens, model.generate(**batch, **options)))
        for sequences in found:
            assert list(map(generated_tokens, sequences)) == expected


@pytest.mark.parametrize("length", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "processor",
    [
        logits_process.MinLengthLogitsProcessor(3, [2, 9]),
        logits_process.MinNewTokensLengthLogitsProcessor(1, 2, 2),
        # two are no tokens of the vocabulary
        logits_process.SuppressTokensLogitsProcessor([4, 0, 11, 40, -1]),
        logits_process.SuppressTokensAtBeginLogitsProcessor([1, 5], 2),
        logits_process.ForcedBOSTokenLogitsProcessor(6),
        logits_process.NoRepeatNGramLogitsProcessor(1),
    ],
    ids=lambda processor: type(processor).__name__,
)
def test_processors_of_single_tokens_do_what_they_do_in_transformers(processor, length):
    scores = torch.randn(6, 12)
    prefixes = torch.randint(12, (6, length))
    assert torch.equal(
        process(processor, prefixes, scores.clone()), processor(prefixes, scores.clone())
    )


def test_processors_see_padding_behind_the_ends_of_many_sentences(searches):
    for seed in range(2):
        assert_same(searches, *random_case(seed, 12), repetition_penalty=1.7)


class KeepsWhatItSees(LogitsProcessor):
    """A processor with a memory, which answers in another precision."""

    def __init__(self):
        self.seen = []

    def __call__(self, input_ids, scores):
        assert (input_ids >= 0).all()
        self.seen.append((input_ids, scores))
        return scores.double()


@each_search
def test_a_processor_may_keep_what_it_sees(searches, num_beams):
    model, batch = random_case(0, 3, torch.float32)
    kept = []
    for searches.is_allowed in (True, False):
        processor = KeepsWhatItSees()
        model.generate(**batch, num_beams=num_beams, logits_processor=[processor])
        kept.append(processor.seen)
    assert searches == [True, False]
    # the library may take a step more
    for (own_ids, own), (ids, scores) in zip(*kept, strict=False):
        rows = slice(1 if num_beams > 1 else None)
        assert torch.equal(own_ids[rows], ids[rows])
        torch.testing.assert_close(own[0], scores[0], rtol=1e-5, atol=1e-5)
        own += 1  # no tensor of inference mode


# ---- inputs ----


def test_search_behind_a_prefix_equals_the_librarys(searches):
    for seed, options in (0, {}), (3, {"min_new_tokens": 5, "sequence_bias": [[[2], 4.0]]}):
        model, batch = random_case(seed)
        prefixes = torch.tensor([[1, 5 + row, 7] for row in range(len(batch["input_ids"]))])
        assert_same(searches, model, batch, decoder_input_ids=prefixes, **options)


def test_search_from_encoded_sources_and_from_embeddings_equals_the_librarys(searches):
    model, batch = random_case(0, 3)
    with torch.no_grad():
        encoded = model.get_encoder()(**batch)
        embedded = model.get_input_embeddings()(batch.pop("input_ids"))
    assert_same(searches, model, batch, encoder_outputs=encoded)
    assert_same(searches, model, batch, inputs_embeds=embedded)


def test_search_without_a_mask_equals_the_librarys(searches):
    for seed in range(2):  # in some of which sentences leave the batch early
        model = random_model(seed)
        model.generation_config.pad_token_id = None  # or the library would make a mask
        assert_same(searches, model, {"input_ids": torch.randint(3, VOCABULARY, (6, 6))})


def test_search_over_a_mask_with_holes_equals_the_librarys(searches):
    model, batch = random_case(2, 4)
    batch["attention_mask"][:, 1] = 0
    batch["attention_mask"][:, 0] = 1
    assert_same(searches, model, batch)


def test_search_over_a_source_that_is_all_padding_equals_the_librarys(searches):
    model, batch = random_case(2, 4)
    batch["attention_mask"][1] = 0
    model.set_attn_implementation("eager")  # sdpa of torch gives zeros where all is masked
    assert_same(searches, model, batch)


def learned_positions(number):
    model = make_model(
        scale=2.5,
        vocab_size=VOCABULARY,
        position_encoding="learned",
        max_position_embeddings=number,
    )
    return model.double(), pad(random_sentences(0, 3))


def test_learned_positions_may_end_behind_the_sentences(searches):
    only_ends = [0, 1, *range(3, VOCABULARY)]
    assert_same(searches, *learned_positions(16), max_new_tokens=40, suppress_tokens=only_ends)


def test_learned_positions_may_end_between_two_looks_at_a_device(searches, as_on_a_device):
    # all end with the 10th
    assert_same(
        searches,
        *learned_positions(11),
        beams=[1],
        max_new_tokens=40,
        min_new_tokens=9,
        sequence_bias=[[[2], 99.0]],
    )


def test_learned_positions_are_used_to_the_last(searches):
    assert_same(searches, *learned_positions(20), max_new_tokens=20, suppress_tokens=[2])


@pytest.mark.parametrize("is_ours", [True, False])
@each_search
def test_search_beyond_learned_positions_is_refused(searches, num_beams, is_ours):
    model, batch = learned_positions(16)
    searches.is_allowed = is_ours
    with pytest.raises(ValueError, match="`max_position_embeddings`"):
        model.generate(**batch, max_new_tokens=40, suppress_tokens=[2], num_beams=num_beams)
    assert searches == [is_ours]


@pytest.mark.usefixtures("packing")
def test_search_with_weights_of_any_size_equals_the_librarys(searches, monkeypatch):
    """As if all were so large that only one copy of them is kept."""
    monkeypatch.setattr(decoder_session, "_FEWEST_TO_USE_PACKED", 0)
    for seed in range(2):
        model, batch = random_case(seed, dtype=torch.float32)
        assert_same(searches, model, batch, atol=1e-5, max_new_tokens=5)


def test_sentences_whose_result_is_known_leave_the_batch(searches, steps):
    sentences = [[5, 2], [6, 2], [7, 2], [5, 6, 7, 8, 9, 5, 6, 7, 8, 9, 5, 6, 2]]
    assert_same(searches, random_model(0), pad(sentences), beams=[4], suppress_tokens=[2])
    rows = [num_rows for num_rows, _ in steps]
    assert rows[0] == 16 and rows[-1] == 4
    assert rows == sorted(rows, reverse=True)


# ---- when the library has to search ----


def with_hook(model, layer):
    layer.fc1.register_forward_hook(lambda module, args, output: output * 0.5)


def with_hook_before(model, layer):
    model.register_forward_pre_hook(lambda module, args: None)


def with_patched_forward(model, layer):
    layer.fc2.forward = lambda states: states[..., :16] * 0.1


def with_patched_preparation(model, layer):
    # as PEFT's prefix tuning does
    model.prepare_inputs_for_generation = model.prepare_inputs_for_generation


def with_parametrization(model, layer):
    torch.nn.utils.parametrizations.weight_norm(layer.fc1)


def of_a_subclass(model, layer):
    class Own(VaswaniTransformerForConditionalGeneration):
        def forward(self, *args, **kwargs):
            output = super().forward(*args, **kwargs)
            output.logits = -output.logits
            return output

    model.__class__ = Own


def with_dropout_in_one_place(model, layer):
    layer.dropout.train()


def with_an_odd_bias(model, layer):
    layer.encoder_attn.v_proj = torch.nn.Linear(16, 16).eval()


def with_a_wrapped_layer(model, layer):
    layer.fc1 = torch.nn.Sequential(layer.fc1).eval()


def with_wrapped_queries(model, layer):
    layer.self_attn.q_proj = torch.nn.Sequential(layer.self_attn.q_proj).eval()


def with_a_plain_tensor_as_weight(model, layer):
    layer.fc1.weight = 2 * layer.fc1._parameters.pop("weight").detach()


def with_another_kind_of_parameter(model, layer):
    class Own(torch.nn.Parameter):
        pass

    layer.fc1.weight = Own(layer.fc1.weight.detach())


def with_another_norm(model, layer):
    layer.final_layer_norm = torch.nn.RMSNorm(16).eval()


def with_another_scale(model, layer):
    layer.self_attn.scaling = 1.0


def with_bounded_embeddings(model, layer):
    model.model.decoder.embed_tokens.max_norm = 0.1


def with_another_attention(model, layer):
    ALL_ATTENTION_FUNCTIONS.register("flat", scaled_dot_product_attention)
    model.set_attn_implementation("flat")


def with_lora(model, layer):
    peft = pytest.importorskip("peft", reason="peft is not installed")
    peft.get_peft_model(model, peft.LoraConfig(target_modules=["q_proj", "lm_head"]))


def in_half_precision(model, layer):
    model.half()


@pytest.mark.parametrize(
    "change",
    [
        with_hook,
        with_hook_before,
        with_patched_forward,
        with_patched_preparation,
        with_parametrization,
        of_a_subclass,
        with_dropout_in_one_place,
        with_an_odd_bias,
        with_a_wrapped_layer,
        with_wrapped_queries,
        with_a_plain_tensor_as_weight,
        with_another_kind_of_parameter,
        with_another_norm,
        with_another_scale,
        with_bounded_embeddings,
        with_another_attention,
        with_lora,
        in_half_precision,
    ],
)
@each_search
def test_an_adapted_model_is_left_to_the_library(searches, change, num_beams):
    model, batch = random_case(0, 3, torch.float32)
    batch["max_new_tokens"] = 1
    model.generate(**batch, num_beams=num_beams)
    change(model, model.model.decoder.layers[0])
    model.generate(**batch, num_beams=num_beams)
    assert searches == [True, False]


class Never(StoppingCriteria):
    def __call__(self, input_ids, scores, **kwargs):
        return torch.zeros(len(input_ids), dtype=torch.bool)


@pytest.mark.parametrize(
    "options",
    [
        {"output_scores": True},
        {"output_logits": True},
        {"output_attentions": True},
        {"output_hidden_states": True},
        {"use_cache": False},
        {"cache_implementation": "static"},
        {"do_sample": True},
        {"do_sample": True, "num_beams": 1},
        {"stopping_criteria": StoppingCriteriaList([Never()])},
        {"stopping_criteria": StoppingCriteriaList([MaxLengthCriteria(3)])},
        {"decoder_attention_mask": torch.ones(3, 1)},
    ],
    ids=lambda options: " ".join(options),
)
def test_what_the_search_does_not_offer_is_left_to_the_library(searches, options):
    batch = pad(random_sentences(0, 3))
    random_model(0).generate(**batch, return_dict_in_generate=True, **options)
    assert searches == [False]


def test_an_option_that_the_library_refuses_is_refused():
    with pytest.raises(ValueError, match="low_memory"):
        random_model(0).generate(**pad(random_sentences(0, 3)), low_memory=True)


@pytest.mark.parametrize(
    "context",
    [
        Operations,
        lambda: torch.autocast("cpu", torch.bfloat16),
        lambda: torch.nn.modules.module.register_module_forward_hook(
            lambda module, args, output: None
        ),
        lambda: mock.patch.dict(
            ALL_ATTENTION_FUNCTIONS._local_mapping, sdpa=scaled_dot_product_attention
        ),
    ],
    ids=[
        "watched operations",
        "autocast",
        "hooks of all modules",
        "another attention under the library's name",
    ],
)
def test_what_holds_for_all_operations_leaves_the_search_to_the_library(searches, context):
    with context():
        random_model(0, torch.float32).generate(**pad(random_sentences(0, 3)))
    assert searches == [False]


def test_gradients_leave_the_search_to_the_library(searches):
    model = random_model(0)
    # without torch.no_grad
    inspect.unwrap(type(model).generate)(model, **pad(random_sentences(0, 3)))
    assert searches == [False]


def test_adapted_encoders_do_not_slow_the_search(searches):
    model = random_model(0)
    model.model.encoder.layers[0].fc1.register_forward_hook(
        lambda module, args, output: output * 0.5
    )
    assert_same(searches, model, pad(random_sentences(0, 3)))


@torch.no_grad()
def test_switching_onednn_off_switches_packed_weights_off():
    model = random_model(0, torch.float32)
    first = decoder_session.DecoderProjections.of(model)
    with torch.backends.mkldnn.flags(enabled=False):
        second = decoder_session.DecoderProjections.of(model)
    assert first is not second
    assert second.head._packed is None


# ---- weights that change between searches ----


def by_an_optimizer(model, layer, **options):
    model(**pad(random_sentences(0, 3)), labels=torch.full((3, 4), 5)).loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.3, **options).step()


def by_a_fused_optimizer(model, layer):
    by_an_optimizer(model, layer, fused=True)


def by_data(model, layer):
    """As `merge_and_unload` of peft writes."""
    layer.self_attn.q_proj.weight.data.mul_(3.0)  # of which the search holds a copy


def by_one_number_and_eval(model, layer):
    layer.self_attn.q_proj.weight.data[7, 0] += 9.0  # none of the 64 that are read again
    model.train().eval()


def by_other_data(model, layer):
    """The memory of the first is free when that of the third is asked for."""
    weight = layer.fc1.weight
    weight.data = weight.data * 2.0
    weight.data = weight.data * 2.0


def by_half_precision_and_back(model, layer):
    model.half().float()


def by_loading(model, layer):
    model.load_state_dict(random_model(9 * len(SHAPES), model.dtype).state_dict())


def by_another_parameter(model, layer):
    layer.encoder_attn.q_proj.weight = torch.nn.Parameter(
        -layer.encoder_attn.q_proj.weight.detach()
    )


def by_another_type(model, layer):
    model.double()


ROUNDINGS = [by_half_precision_and_back, by_another_type]


@pytest.mark.usefixtures("packing")
@pytest.mark.parametrize(
    "change",
    [
        by_an_optimizer,
        by_a_fused_optimizer,
        by_data,
        by_one_number_and_eval,
        by_other_data,
        by_loading,
        by_another_parameter,
        *ROUNDINGS,
    ],
)
def test_search_knows_the_newest_weights(searches, change):
    model, batch = random_case(0, 3, torch.float32)
    before = model.generate(**batch, return_dict_in_generate=True).sequences_scores
    change(model, model.model.decoder.layers[0])
    ours, theirs = both(searches, model, batch)
    assert_equal(ours, theirs, atol=1e-4)
    assert change in ROUNDINGS or not torch.allclose(before, ours.sequences_scores, atol=1e-3)


@torch.no_grad()
def test_weights_are_copied_once_while_they_stay_the_same_and_64_numbers_of_each_are_read_again():
    model = random_model(0, torch.float32)
    kept = decoder_session.DecoderProjections.of(model)
    with Operations() as operations:
        assert decoder_session.DecoderProjections.of(model) is kept
    [samples] = [args[0] for function, args, *_ in operations.calls if "cat" in str(function)]
    assert max(map(torch.numel, samples)) <= 64
    assert not any(word in name for name in operations.names() for word in ("copy", "clone", "mm"))


def test_weights_of_inference_mode_are_copied_for_every_search(searches):
    """Nothing counts how often they were written to."""
    with torch.inference_mode():
        model = random_model(0)
        model.generate(**pad(random_sentences(0, 3)))
        model.model.decoder.layers[0].fc1.weight.mul_(3.0)
    assert_same(searches, model, pad(random_sentences(0, 3)))


def test_a_model_that_has_searched_can_be_copied_pickled_saved_and_forgotten(tmp_path):
    model, batch = random_case(0, 3, torch.float32)
    expected = model.generate(**batch).tolist()
    assert copy.deepcopy(model).generate(**batch).tolist() == expected
    assert pickle.loads(pickle.dumps(model)).generate(**batch).tolist() == expected
    model.save_pretrained(tmp_path)
    kept = len(decoder_session.DecoderProjections._kept)
    del model
    gc.collect()
    assert len(decoder_session.DecoderProjections._kept) < kept


def test_threads_search_with_one_model():
    model = random_model(0, torch.float32)
    batches = [pad(random_sentences(seed)) for seed in range(6)]
    expected = [model.generate(**batch).tolist() for batch in batches]
    decoder_session.DecoderProjections._kept.clear()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda batch: model.generate(**batch).tolist(), batches)) == expected


# ---- bad scores ----


class HidesNaN(LogitsProcessor):
    def __call__(self, input_ids, scores):
        return scores.nan_to_num()


@pytest.mark.parametrize("is_ours", [True, False])
@each_search
@pytest.mark.parametrize("processors", [[], [HidesNaN()]], ids=["seen", "hidden by a processor"])
def test_scores_that_are_no_numbers_are_refused(searches, is_ours, num_beams, processors):
    model = random_model(0, torch.float32)
    torch.nn.init.constant_(model.lm_head.weight[9], torch.nan)
    searches.is_allowed = is_ours
    with pytest.raises(ValueError, match="must be numbers, got NaN"):
        model.generate(
            **pad(random_sentences(0, 3)), num_beams=num_beams, logits_processor=processors
        )
    assert searches == [is_ours]


# ---- the best of a row ----


@pytest.mark.parametrize("num_tokens", [5, 200, 4321, 10_000])
@pytest.mark.parametrize("k", [2, 8, 20])
def test_top_k_is_that_of_torch(num_tokens, k, monkeypatch):
    monkeypatch.setattr(fast_search, "_FEW_SCORES", 0)
    torch.manual_seed(0)
    scores = torch.randn(7, num_tokens)
    scores[1, 3:] = -torch.inf
    scores[2] = scores[2].sort(descending=True).values
    scores[3] = scores[3].sort().values
    best, places = fast_search.top_k(scores, k)
    torch.testing.assert_close(best, scores.topk(min(k, num_tokens)).values, rtol=0, atol=0)
    torch.testing.assert_close(scores.gather(1, places), best, rtol=0, atol=0)
    assert all(len(set(row)) == len(row) for row in places.tolist())


@pytest.mark.parametrize("few", [0, 2**20])
def test_top_k_shows_scores_that_are_no_numbers(monkeypatch, few):
    monkeypatch.setattr(fast_search, "_FEW_SCORES", few)
    scores = torch.randn(3, 5000)
    scores[1, 4321] = torch.nan
    assert fast_search.top_k(scores, 4)[0].isnan().any(dim=1).tolist() == [False, True, False]


def test_parts_of_the_rows_give_what_all_rows_give(searches, monkeypatch):
    monkeypatch.setattr(decoder_session, "_LARGEST_PRODUCT", 5 * VOCABULARY)
    for options in ({}, {"min_new_tokens": 3}, {"repetition_penalty": 1.2}):
        assert_same(searches, *random_case(3, 6), **options)
