"""Linear layers: oneDNN's products against those of torch in float64, and when they are used at
all.
"""

import pytest
import torch
from tiny import make_model
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from vaswani_transformer import cpu_kernels_vaswani_transformer as subject
from vaswani_transformer.cpu_kernels_vaswani_transformer import Linear, linear, onednn_is_faster
from vaswani_transformer.loss_vaswani_transformer import fused_translation_loss, translation_loss

ROWS, WIDTH, OUT = 96, 160, 192  # enough products to leave MKL


@pytest.fixture
def on_onednn(monkeypatch):
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch holds no oneDNN")
    monkeypatch.setattr(subject, "onednn_is_faster", lambda: True)


@pytest.fixture
def products(monkeypatch, on_onednn):
    """Shapes of what oneDNN multiplied."""
    shapes, multiply = [], subject.multiply
    monkeypatch.setattr(
        subject, "multiply", lambda *args: shapes.append(args[0].shape) or multiply(*args)
    )
    return shapes


def tensors(*shapes):
    torch.manual_seed(0)
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("sizes", [(WIDTH, OUT), (OUT, WIDTH)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_linear_gives_the_product_and_its_gradients(products, sizes, has_bias):
    width, out = sizes
    x, weight, bias, slope = tensors(
        (4, ROWS // 4, width), (out, width), (out,), (4, ROWS // 4, out)
    )
    inputs = (x, weight, bias) if has_bias else (x, weight)
    result = linear(*inputs)
    gradients = torch.autograd.grad(result, inputs, slope)
    inputs64 = [each.detach().double().requires_grad_() for each in inputs]
    result64 = nn.functional.linear(*inputs64)
    expected = [result64, *torch.autograd.grad(result64, inputs64, slope.double())]
    assert len(products) == 3
    for ours, theirs in zip((result, *gradients), expected, strict=True):
        torch.testing.assert_close(ours, theirs.float(), rtol=1e-5, atol=1e-4)
        assert ours.is_contiguous()


def test_linear_takes_strided_tensors(products):
    x, weight = tensors((WIDTH, ROWS), (WIDTH, OUT))
    torch.testing.assert_close(linear(x.T, weight.T), x.T @ weight, rtol=1e-5, atol=1e-4)
    assert products


@pytest.mark.parametrize("rows", [0, 4])
def test_linear_stays_with_torch_for_few_products(products, rows):
    x, weight = tensors((rows, WIDTH), (OUT, WIDTH))
    assert linear(x, weight).shape == (rows, OUT)
    assert not products


def test_linear_has_second_gradients(products):
    x, weight = tensors((ROWS, WIDTH), (OUT, WIDTH))
    seconds = []
    for product in (linear(x, weight), x @ weight.T):
        (first,) = torch.autograd.grad(product.pow(3).sum(), x, create_graph=True)
        seconds += torch.autograd.grad(first.pow(2).mean(), weight)
    second, expected = seconds
    torch.testing.assert_close(second, expected, rtol=1e-4, atol=1e-4 * expected.abs().max().item())
    assert products


def test_linear_works_under_functional_transforms(products):
    x, weight = tensors((ROWS, WIDTH), (OUT, WIDTH))
    expected = torch.func.grad(lambda each: (x @ each.T).pow(2).sum())(weight)
    gradient_of = torch.func.grad(lambda each, rows: linear(rows, each).pow(2).sum())
    torch.testing.assert_close(gradient_of(weight, x), expected, rtol=1e-4, atol=1e-2)
    of_each = torch.func.vmap(gradient_of, in_dims=(None, 0))(weight, torch.stack([x, 2 * x]))
    torch.testing.assert_close(of_each, torch.stack([expected, 4 * expected]), rtol=1e-4, atol=4e-2)


def test_a_bias_learns_alone(products):
    x, weight, bias = tensors((ROWS, WIDTH), (OUT, WIDTH), (OUT,))
    (gradient,) = torch.autograd.grad(linear(x.detach(), weight.detach(), bias).sum(), bias)
    torch.testing.assert_close(gradient, torch.full_like(bias, ROWS))
    assert products


def test_linear_takes_one_row_without_a_batch(products, monkeypatch):
    monkeypatch.setattr(subject, "_FEWEST_PRODUCTS", 1)
    x, weight = tensors((WIDTH,), (OUT, WIDTH))
    torch.testing.assert_close(linear(x, weight), weight @ x, rtol=1e-5, atol=1e-4)
    assert products


def test_linear_leaves_wrong_and_sparse_shapes_to_torch(products):
    x, weight, bias = tensors((ROWS, WIDTH), (OUT, WIDTH), (1,))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        linear(x, weight[:, 1:])
    linear(x, weight, bias)  # torch repeats it
    linear(x, weight.detach().to_sparse())
    assert not products


class Subclass(torch.Tensor):
    """As quantised and sharded weights are."""


def without_onednn():
    return torch.backends.mkldnn.flags(enabled=False)


@pytest.mark.parametrize(
    "context",
    [
        without_onednn,
        lambda: torch.autocast("cpu", torch.bfloat16),
        lambda: FlopCounterMode(display=False),
    ],
)
def test_linear_stays_with_torch_when_something_else_decides(products, context):
    x, weight = tensors((ROWS, WIDTH), (OUT, WIDTH))
    with context():
        linear(x, weight)
    assert not products
    linear(x, weight)
    assert products


@pytest.mark.parametrize(
    "change",
    [
        torch.Tensor.double,
        torch.Tensor.bfloat16,
        lambda each: each.to("meta"),
        lambda each: each.as_subclass(Subclass),
    ],
)
def test_linear_stays_with_torch_for_other_tensors(products, change):
    x, weight = tensors((ROWS, WIDTH), (OUT, WIDTH))
    linear(change(x), change(weight))
    assert not products


def test_linear_compiles_and_exports_without_the_operator(products):
    layer = Linear(WIDTH, OUT)
    program = torch.export.export(layer, (torch.randn(ROWS, WIDTH),))
    assert not products
    assert all("mkldnn" not in str(node.target) for node in program.graph.nodes)


@pytest.mark.parametrize(
    ("processor", "capability", "expected"),
    [
        ("vendor_id\t: AuthenticAMD", "AVX512", True),
        ("vendor_id\t: GenuineIntel", "AVX512", False),
        ("AMD64 Family 26 Model 2 Stepping 1, AuthenticAMD", "AVX512", True),
        ("vendor_id\t: AuthenticAMD", "AVX2", False),
        ("", "AVX512", False),
    ],
)
def test_onednn_is_for_avx512_of_other_makers_than_intel(
    monkeypatch, processor, capability, expected
) -> None:
    monkeypatch.setattr(subject, "_processor", lambda: processor)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(subject, "_onednn_is_right", lambda: True)
    assert onednn_is_faster.__wrapped__() is expected


@pytest.mark.parametrize(
    ("capability", "width", "is_right", "expected"),
    [
        ("AVX512", 128, True, True),
        ("AVX2", 512, True, True),
        ("AVX2", 256, True, False),
        ("DEFAULT", 512, True, False),
        ("AVX2", 512, False, False),
    ],
)
def test_weights_are_packed_with_avx512_and_large_ones_with_avx2(
    monkeypatch, capability, width, is_right, expected
):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(subject, "_onednn_is_right", lambda: is_right)
    assert subject.can_pack(torch.empty(width, width)) is expected


def missing(*args):
    raise AttributeError("'_OpNamespace' 'mkldnn' object has no attribute '_linear_pointwise'")


def wrong_when_packed(rows, weight, bias, *activation):
    return torch.zeros(2, 4) if activation else rows @ weight.T + bias


@pytest.mark.parametrize(
    "broken", [missing, lambda rows, weight, bias, *relu: rows @ weight.T, wrong_when_packed]
)
def test_onednn_is_left_when_its_operator_is_gone_or_wrong(monkeypatch, caplog, broken):
    monkeypatch.setattr(subject, "multiply", broken)
    assert not subject._onednn_is_right.__wrapped__()
    assert "oneDNN" in caplog.text


def test_operator_of_this_torch_is_right(on_onednn):
    assert subject._onednn_is_right.__wrapped__()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_fused_loss_is_the_same_on_onednn(products, monkeypatch, smoothing):
    monkeypatch.setattr("vaswani_transformer.loss_vaswani_transformer.multiply", subject.multiply)
    monkeypatch.setattr(
        "vaswani_transformer.loss_vaswani_transformer._CHUNK_LOGITS_OF_ONEDNN", 90 * 1000
    )
    states, weight = tensors((2, ROWS, WIDTH), (1000, WIDTH))
    labels = torch.randint(1000, (2, ROWS))
    labels[0, 50:] = -100
    loss, nll = fused_translation_loss(states, weight, labels, smoothing)
    gradients = torch.autograd.grad(loss, (states, weight))
    expected, expected_nll = translation_loss(states @ weight.T, labels, smoothing)
    expected_gradients = torch.autograd.grad(expected, (states, weight))
    assert products.count((90, WIDTH)) == 1  # of 146 real tokens
    torch.testing.assert_close((loss, nll), (expected, expected_nll), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradients, expected_gradients, rtol=1e-4, atol=1e-6)


def test_model_is_the_same_on_onednn(products):
    model = make_model(vocab_size=500, d_model=64, d_ff=256)
    batch = {"input_ids": torch.randint(3, 500, (8, 40)), "labels": torch.randint(3, 500, (8, 40))}
    got = model(**batch).loss
    assert products
    with torch.backends.mkldnn.flags(enabled=False):
        expected = model(**batch).loss
    gradients = [torch.autograd.grad(loss, list(model.parameters())) for loss in (got, expected)]
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_every_projection_of_the_model_is_a_linear_layer_of_torch():
    names = "_proj", "fc1", "fc2", "lm_head"
    projections = [module for name, module in make_model().named_modules() if name.endswith(names)]
    assert len(projections) == 2 * (4 + 2) + 2 * (8 + 2) + 1
    assert all(type(each) is Linear and isinstance(each, nn.Linear) for each in projections)
