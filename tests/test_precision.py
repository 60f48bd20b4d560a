# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Low precision: softmax, LayerNorm statistics and loss are computed in fp32, with autocast and
without it.
"""

import pytest
import torch
from operations import Operations
from tiny import make_model

from vaswani_transformer.modeling_vaswani_transformer import scaled_dot_product_attention

SENSITIVE = ("._softmax", "log_softmax", "aten.exp_", "aten.log.", "layer_norm", "nll_loss")
each_dtype = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
each_loss = pytest.mark.parametrize("return_logits", [True, False], ids=["logits", "fused"])


@pytest.fixture
def batch(batch):
    return {**batch, "label_smoothing_factor": 0.1, "use_cache": False}


@each_dtype
@each_loss
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_softmax_norms_and_loss_see_only_fp32_under_autocast(
    batch, dtype, return_logits, attention
):
    model = make_model(attn_implementation=attention).train()
    with Operations() as operations:
        with torch.autocast("cpu", dtype=dtype):
            loss = model(**batch, return_logits=return_logits).loss
        loss.backward()
    used = {"layer_norm"} | ({"._softmax"} if attention == "eager" else set())
    used |= {"log_softmax", "nll_loss"} if return_logits else {"aten.exp_", "aten.log."}
    seen = set()
    for function, args, *_ in operations.calls:
        dtypes = {arg.dtype for arg in args if torch.is_tensor(arg) and arg.is_floating_point()}
        seen |= {(name, dtype) for name in SENSITIVE if name in str(function) for dtype in dtypes}
    assert seen == {(name, torch.float32) for name in used}
    assert loss.dtype == torch.float32


@each_dtype
def test_eager_softmax_of_a_model_in_low_precision_sums_in_fp32(dtype):
    model = make_model().to(dtype)
    attention = model.model.encoder.layers[0].self_attn
    q, k = torch.zeros(1, 1, 1, 8, dtype=dtype), torch.zeros(1, 1, 5000, 8, dtype=dtype)
    _, weights = scaled_dot_product_attention(attention, q, k, k, None, 1.0)
    assert weights.unique().tolist() == [torch.tensor(1 / 5000).to(dtype).item()]


@each_dtype
@each_loss
def test_loss_of_a_model_in_low_precision_is_fp32(batch, dtype, return_logits):
    output = make_model().to(dtype)(**batch, return_logits=return_logits)
    assert output.loss.dtype == output.nll.dtype == torch.float32
