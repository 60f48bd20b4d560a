# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import dataclasses
from types import SimpleNamespace

import benchmark_training as benchmark
import pytest
from torch.autograd import DeviceType


def event(name, cpu=0, device=0, device_type=DeviceType.CPU, count=1, is_user_annotation=False):
    return SimpleNamespace(
        key=name,
        count=count,
        device_type=device_type,
        is_user_annotation=is_user_annotation,
        self_cpu_time_total=cpu,
        self_device_time_total=device,
    )


def test_each_millisecond_of_a_gpu_counts_once():
    gpu = DeviceType.CUDA
    events = [
        event("aten::mm", cpu=100, device=7000),  # the time of its kernel, once more
        event("nvjet_tst_128x256_64x4_2x1_v_bz_TNT", device=7000, device_type=gpu, count=3),
        event("Optimizer.step#AdamW.step", device=9000, device_type=gpu, is_user_annotation=True),
        event("Memcpy HtoD (Pinned -> Device)", device=500, device_type=gpu),
    ]
    operations = benchmark.operations_of(SimpleNamespace(key_averages=lambda: events), "cuda")
    assert [(row["calls"], row["ms"]) for row in operations] == [(3, 7), (1, 0.5)]
    assert benchmark.time_by_kind(operations) == {"matrix products": 7, "copies": 0.5}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("matrix products", "nvjet_hsh_192x192_64x4_1x2_h_bz_coopA_NTN"),
        ("matrix products", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"),
        (
            "attention",
            "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass>)",
        ),
        (
            "elementwise and reduce",
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add>",
        ),
        (
            "optimizer",
            "void at::native::(anonymous "
            "namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>",
        ),
        (
            "dropout",
            "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<c10::BFloat16, "
            "float>",
        ),
        ("copies", "Memcpy HtoD (Pinned -> Device)"),
        ("compiled", "triton_poi_fused_addmm_relu_0"),
        ("everything else", "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>"),
    ],
)
def test_kernels_have_the_kind_of_their_work(kind, name):
    assert benchmark.kind_of(name) == kind


@pytest.mark.slow
@pytest.mark.parametrize("contestant", benchmark.CONTESTANTS)
def test_each_contestant_trains_and_is_measured(contestant, monkeypatch):
    monkeypatch.setitem(
        benchmark.SIZES, "tiny", {**benchmark.SIZES["tiny"], "d_model": 16, "d_ff": 32}
    )
    task = benchmark.Task(contestant, "tiny", "cpu", 128, 1, 1, False, False, True)
    figures = benchmark.measure(task)
    assert figures["tokens_per_second"] > 0 and figures["activation_mib"] > 0
    assert (
        figures["milliseconds"] > 0
        and benchmark.time_by_kind(figures["operations"])["matrix products"] > 0
    )


@pytest.mark.slow
def test_contestants_get_the_same_batches(tmp_path):
    task = benchmark.Task("ours", "tiny", "cpu", 512, 1, 1, False, False, False)
    data, tokenizer = benchmark.synthetic_pairs(task.size, task.tokens), benchmark.make_tokenizer()
    options = {
        "output_dir": str(tmp_path),
        "seed": 0,
        "use_cpu": True,
        "report_to": "none",
        "max_steps": 1,
    }
    ours = benchmark.our_trainer(task, data, tokenizer, dict(options)).get_train_dataloader()
    theirs = benchmark.marian_trainer(
        dataclasses.replace(task, contestant="marian"), data, tokenizer, dict(options)
    ).get_train_dataloader()
    for first, second in zip(ours, theirs, strict=True):
        assert first["labels"].tolist() == second["labels"].tolist()
