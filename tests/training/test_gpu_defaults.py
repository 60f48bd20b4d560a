# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Newcomers' GPUs: a bound that fits their memory, advice if it runs out, emulated bf16."""

import re
from types import SimpleNamespace

import pytest
import torch
from tiny import SMALLEST, make_config
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from toy_language import check_same_weights, limits

from vaswani_transformer import VaswaniTransformerConfig, VaswaniTransformerForConditionalGeneration
from vaswani_transformer.modeling_vaswani_transformer import sinusoids
from vaswani_transformer.recipe import Recipe
from vaswani_transformer.training import data as loading
from vaswani_transformer.training.data import padded_tokens_that_fit
from vaswani_transformer.training.train import training_arguments
from vaswani_transformer.training.trainer import VaswaniTransformerTrainer

GIB = 2**30


def cuda_arguments(**values):
    own = {
        "device": torch.device("cuda"),
        "bf16": False,
        "fp16": False,
        "data_seed": None,
        "max_padded_tokens_per_device": None,
        "world_size": 1,
        "gradient_accumulation_steps": 1,
        "seed": 0,
    }
    return SimpleNamespace(**{**own, **limits(120), **values})


@pytest.fixture
def planned_bound(dataset, monkeypatch):
    """Function that plans batches as on GPUs with so much free memory, one a process; returns the
    bound.
    """

    def plan(*free, config=None, **values):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free[0], 0))
        monkeypatch.setattr(loading, "gather_object", lambda own: [*own, *free[1:]])
        args = cuda_arguments(**values)
        loading.plan_batches(args, dataset, make_config() if config is None else config)
        return args.max_padded_tokens_per_device

    return plan


@pytest.fixture
def longest_pair(dataset):
    """Its number of tokens, of both sides."""
    return max(map(sum, zip(dataset["source_length"], dataset["target_length"], strict=True)))


# ---- the bound ----


def bytes_kept(model, num_rows):
    """Bytes of all tensors that a training step keeps for its backward pass, each storage once."""
    ids, kept = torch.full((num_rows, 25), 7), {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor  # which is alive until all are counted
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(
            input_ids=ids,
            labels=ids,
            label_smoothing_factor=0.1,
            use_cache=False,
            return_logits=False,
        )
    return sum(each.untyped_storage().nbytes() for each in kept.values())


@pytest.mark.parametrize("is_half", [False, True])
@pytest.mark.parametrize(
    ("sizes", "most"),
    [
        ({}, 1.3),
        ({"num_encoder_layers": 3, "num_decoder_layers": 3}, 1.3),
        ({"d_model": 128, "d_ff": 512, "num_heads": 4}, 1.3),
        ({"d_ff": 64}, 1.3),
        ({"d_k": 48, "d_v": 48, "num_heads": 3}, 1.3),
        ({"activation_dropout": 0.1}, 1.3),
        ({"num_encoder_layers": 3}, 2),
        ({"num_decoder_layers": 3}, 2),
    ],
    ids=str,
)
def test_bound_counts_what_a_training_step_keeps_for_a_token(sizes, most, is_half):
    config = VaswaniTransformerConfig(
        vocab_size=300, dropout=0.1, **{**SMALLEST, "d_model": 64, "d_ff": 256, **sizes}
    )
    model = VaswaniTransformerForConditionalGeneration(config).train()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_half):
        num_bytes = bytes_kept(model, 8) - bytes_kept(model, 4)  # without weights and their copies
    kept = num_bytes / (4 * 2 * 25)  # of a token, as many of both sides
    fixed = 18 * model.num_parameters() + GIB
    few, many = (
        padded_tokens_that_fit(config, int((fixed + share * 2**16 * kept) / 0.75), is_half)
        for share in (1, most)
    )
    assert few < 2**16 <= many


@pytest.mark.parametrize(
    ("preset", "gib", "is_half", "tokens"),
    [
        ("base", 15, False, 2**15),
        ("base", 15, True, 2**16),
        ("big", 15, True, 2**14),
        ("big", 80, True, 2**17),
    ],
)
def test_bound_of_known_gpus(preset, gib, is_half, tokens):
    config = VaswaniTransformerConfig.from_preset(preset, vocab_size=37_000)
    assert padded_tokens_that_fit(config, gib * GIB, is_half) == tokens


def test_bound_on_gpus_is_that_of_the_one_with_the_least_memory(planned_bound):
    assert (
        planned_bound(40 * GIB, 2 * GIB)
        == planned_bound(2 * GIB, 40 * GIB)
        == planned_bound(2 * GIB)
    )
    assert planned_bound(2 * GIB) < planned_bound(40 * GIB)


def test_bound_on_a_full_gpu_is_the_longest_pair(planned_bound, longest_pair):
    assert planned_bound(0) == longest_pair


def test_bound_that_is_given_and_that_of_unknown_models_stay(planned_bound):
    assert planned_bound(40 * GIB, max_padded_tokens_per_device=130) == 130
    assert planned_bound(40 * GIB, config=SimpleNamespace(model_type="marian")) is None
    stream = cuda_arguments()
    loading.plan_stream(stream)
    assert stream.max_padded_tokens_per_device is None


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_bound_in_half_precision_is_larger(planned_bound, precision):
    bounds = [
        (planned_bound(gib * GIB), planned_bound(gib * GIB, **{precision: True}))
        for gib in range(2, 9)
    ]
    assert all(full <= half for full, half in bounds) and any(full < half for full, half in bounds)


def test_bound_is_the_same_though_a_little_less_memory_is_free_at_a_resume(planned_bound):
    assert planned_bound(10 * GIB) == planned_bound(10 * GIB - 2**26)


# ---- processes that load batches ----


@pytest.mark.skipif(
    torch.version.cuda is not None and not torch.cuda.is_available(),
    reason="torch is built for a GPU, and there is none",
)
@pytest.mark.parametrize(
    ("cores", "processes", "given", "expected"),
    [
        (16, 1, None, 4),
        (16, 8, None, 2),
        (2, 4, None, 0),
        (16, 1, 0, 0),
        (2, 8, 7, 7),
    ],
)
def test_data_workers_of_gpus_share_the_cores(
    monkeypatch, tmp_path, cores, processes, given, expected
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(cores)))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    args = training_arguments(Recipe(dataloader_num_workers=given), tmp_path)
    assert args.dataloader_num_workers == expected
    args = training_arguments(Recipe(dataloader_num_workers=given), tmp_path, use_cpu=True)
    assert args.dataloader_num_workers == (given or 0)


# ---- out of memory ----

RUN = {"max_steps": 5, "save_strategy": "steps", "save_steps": 2, "dtype": "float64"}


@pytest.fixture
def make_short_of_memory(make_trainer):
    """Function that makes a trainer whose device runs out of memory at micro-batches of more padded
    tokens.
    """

    def make(memory, **options):
        trainer = make_trainer(**{**RUN, **options})
        compute_loss = trainer.compute_loss

        def limited(model, inputs, **kwargs):
            if (
                trainer.state.global_step == 3
                and inputs["input_ids"].numel() + inputs["labels"].numel() > memory
            ):
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            return compute_loss(model, inputs, **kwargs)

        trainer.compute_loss = limited
        return trainer

    return make


def test_out_of_memory_names_a_bound_with_which_the_run_goes_on(
    make_short_of_memory, trained, tmp_path
):
    undisturbed = trained(output_dir=tmp_path / "undisturbed", **RUN)
    with pytest.raises(ValueError, match=r"`max_padded_tokens_per_device` .* and resume") as caught:
        make_short_of_memory(200).train()
    assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)
    got, bound = map(int, re.search(r"got (\d+) .* Pass (\d+)", str(caught.value)).groups())
    assert bound == got // 2
    resumed = make_short_of_memory(200, max_padded_tokens_per_device=bound)
    resumed.train(resume_from_checkpoint=True)
    assert resumed.args.gradient_accumulation_steps > 1
    check_same_weights(undisturbed, resumed, atol=1e-9)


def test_out_of_memory_on_a_stream_names_a_bound(make_short_of_memory, dataset):
    with pytest.raises(ValueError, match=r"Pass \d+, .* With a stream .* start again"):
        make_short_of_memory(1, train_dataset=dataset.to_iterable_dataset()).train()


# ---- precision ----


def test_positions_of_mps_are_computed_in_float64_on_the_host():
    made = []

    class Record(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            output = function(*args, **(kwargs or {}))
            if torch.is_tensor(output):
                made.append((output.device.type, output.dtype))
            return output

    with FakeTensorMode():
        position_ids = torch.empty(4, dtype=torch.long, device="mps")
        with Record():
            table = sinusoids(position_ids, 8)
    assert (table.device.type, table.dtype) == ("mps", torch.float32)
    assert ("cpu", torch.float64) in made and ("mps", torch.float64) not in made


# ---- several GPUs, and ever new shapes ----


def test_one_of_several_gpus_trains_without_a_launcher(make_trainer, tokenizer, dataset, caplog):
    args = make_trainer().args
    args._n_gpu = 2
    trainer = VaswaniTransformerTrainer(
        make_trainer().model, args, train_dataset=dataset, processing_class=tokenizer
    )
    assert "1 of 2 GPUs trains. For all: torchrun --nproc-per-node 2 ..." in caplog.text
    trainer.train()
    assert trainer.args.n_gpu == 1 and trainer.model_wrapped is trainer.model
