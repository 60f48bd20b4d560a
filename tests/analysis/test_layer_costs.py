# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Time and memory of real layers. Memory is the same in every run and is tested; times are tested to exist."""

import math
import re

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from vaswani_transformer.analysis import layer_costs
from vaswani_transformer.analysis.complexity import Order, Sizes
from vaswani_transformer.analysis.layer_costs import CONTESTANTS, LayerCosts, fit_exponent, measure_layers
from vaswani_transformer.analysis.layer_costs_report import draw_layer_costs, format_layer_costs, spread_ticks

EAGER, SDPA, LSTM, CONVOLUTION = (contestant.name for contestant in CONTESTANTS)
LENGTHS = (128, 256, 512)


@pytest.fixture(scope="module")
def costs():
    """Narrow layers, so that what grows with n^2 outweighs the rest."""
    return measure_layers(LENGTHS, d=8, repeats=1, device="cpu")


def made_costs(**changes):
    """Invented figures that grow as n^0.5, n, n^2 and n^3."""
    lengths = (10, 20, 30, 40, 50)
    values = {each.name: tuple(n**p for n in lengths) for each, p in zip(CONTESTANTS, (0.5, 1, 2, 3), strict=True)}
    timings = {name: tuple((value / 2, value, 2 * value) for value in column) for name, column in values.items()}
    usual = {"lengths": lengths, "sizes": Sizes(d=8), "batch_size": 1, "repeats": 3, "backward": False}
    return LayerCosts(**{**usual, "device": "CPU, 1 thread", "timings": timings, "num_bytes": values, **changes})


# ---- measuring ----


def test_every_layer_has_a_time_and_memory_at_each_length(costs):
    for figures in (costs.seconds, costs.num_bytes):
        assert set(figures) == {EAGER, SDPA, LSTM, CONVOLUTION}
        assert all(len(values) == len(LENGTHS) and min(values) > 0 for values in figures.values())


def test_memory_of_eager_attention_grows_as_n_squared(costs):
    assert costs.exponent(costs.num_bytes[EAGER]) == pytest.approx(2, abs=0.03)


@pytest.mark.parametrize("index", range(len(LENGTHS)))
def test_eager_attention_holds_scores_and_weights_of_all_heads(costs, index):
    weights = 4 * 8 * LENGTHS[index] ** 2
    assert 2 * weights <= costs.num_bytes[EAGER][index] <= 2.3 * weights


@pytest.mark.parametrize("name", [SDPA, LSTM, CONVOLUTION])
def test_memory_of_the_others_grows_no_faster_than_n(costs, name):
    assert costs.exponent(costs.num_bytes[name]) <= 1.05


def test_memory_is_the_same_when_measured_again(costs):
    assert measure_layers(LENGTHS, d=8, repeats=1, device="cpu").num_bytes == costs.num_bytes


def test_gradients_take_memory_of_every_layer(costs):
    backward = measure_layers(LENGTHS, d=8, repeats=1, device="cpu", backward=True)
    assert all(backward.num_bytes[name][-1] > costs.num_bytes[name][-1] for name in costs.num_bytes)


def test_a_batch_takes_memory_of_each_of_its_sequences(costs):
    batch = measure_layers(LENGTHS, d=8, repeats=1, device="cpu", batch_size=3)
    assert batch.num_bytes[EAGER][-1] == pytest.approx(3 * costs.num_bytes[EAGER][-1], rel=0.01)


def test_lengths_are_sorted_and_measured_once_each():
    assert measure_layers([16, 8, 16], d=8, repeats=1, device="cpu").lengths == (8, 16)


def test_measuring_leaves_random_state_and_gradient_mode_alone():
    before = torch.random.get_rng_state()
    measure_layers([8, 16], d=8, repeats=1, device="cpu")
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.is_grad_enabled()


@pytest.mark.filterwarnings("error:Using padding")
def test_even_kernels_are_measured_without_a_warning():
    assert min(measure_layers([8, 16], d=8, k=2, repeats=1, device="cpu").num_bytes[CONVOLUTION]) > 0


def test_timings_are_of_rounds_that_take_turns(monkeypatch):
    """Three rounds over two calls take, by the clock, 1 to 6 seconds."""
    clock = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    monkeypatch.setattr(layer_costs, "_num_calls", lambda run, device: 2)
    monkeypatch.setattr(layer_costs, "_time", lambda run, num_calls, device: next(clock))
    timings = layer_costs._measure_timings({(8, "a"): print, (8, "b"): print}, 3, torch.device("cpu"))
    assert timings == {(8, "a"): (1 / 2, 3 / 2, 5 / 2), (8, "b"): (2 / 2, 4 / 2, 6 / 2)}


def test_times_are_medians_of_the_timings():
    timings = {EAGER: ((5.0, 1.0, 2.0), (9.0, 3.0, 4.0))}
    assert made_costs(lengths=(10, 20), timings=timings).seconds == {EAGER: (2.0, 4.0)}


def test_all_timings_are_kept():
    timings = measure_layers([8, 16], d=8, repeats=3, device="cpu").timings
    assert {len(times) for column in timings.values() for times in column} == {3}


@pytest.mark.parametrize("seconds_of_a_call", [1e-6, 1e-3, 0.015, 0.5])
def test_a_timing_has_calls_for_twenty_milliseconds(monkeypatch, seconds_of_a_call):
    monkeypatch.setattr(layer_costs, "_time", lambda run, num_calls, device: num_calls * seconds_of_a_call)
    num_calls = layer_costs._num_calls(lambda: None, torch.device("cpu"))
    assert 0.02 <= num_calls * seconds_of_a_call <= max(0.2, seconds_of_a_call)


@pytest.mark.parametrize("contestant", CONTESTANTS, ids=lambda contestant: contestant.name)
def test_multiplications_are_those_that_torch_counts(contestant, monkeypatch):
    """Two operations for a multiplication and its addition; fused kernels, which it does not know, are off."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    sizes = Sizes(n=12, d=16, k=3)
    shape = (16, 12) if contestant.channels_first else (12, 16)
    layer = contestant.build(sizes)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        layer(torch.randn(1, *shape))
    assert counter.get_total_flops() == 2 * contestant.multiplications(sizes)


@pytest.mark.parametrize("contestant", CONTESTANTS, ids=lambda contestant: contestant.name)
@pytest.mark.parametrize("k", [1, 3, 4])
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
def test_layers_keep_the_shape(contestant, k):
    shape = (2, 16, 12) if contestant.channels_first else (2, 12, 16)
    output = contestant.build(Sizes(d=16, k=k))(torch.randn(shape))
    assert (output[0] if isinstance(output, tuple) else output).shape == shape


# ---- what is refused ----


@pytest.mark.parametrize("lengths", [[], [64], [64, 64]])
def test_fewer_than_two_lengths_are_refused(lengths):
    with pytest.raises(ValueError, match="`lengths` must be at least two different numbers"):
        measure_layers(lengths)


@pytest.mark.parametrize("options", [{"d": 12}, {"d": 0}, {"k": 0}, {"repeats": 0}, {"batch_size": 0}])
def test_impossible_option_is_refused_by_its_name(options):
    with pytest.raises(ValueError, match=f"`{next(iter(options))}` must be"):
        measure_layers([8, 16], **options)


@pytest.mark.parametrize("device", ["meta", "nonsense", "cuda:99"])
def test_device_without_a_measure_of_memory_is_refused(device):
    with pytest.raises(ValueError, match="`device` must be"):
        measure_layers([8, 16], d=8, device=device)


@pytest.mark.parametrize(
    ("name", "options"),
    [("lengths", {"lengths": [8, 10**7]}), ("d", {"d": 8 * 10**6}), ("k", {"k": 10**11})],
)
def test_what_does_not_fit_is_refused_before_it_is_made(name, options, monkeypatch):
    monkeypatch.setattr(layer_costs, "available_memory", lambda device: 64 * 2**30)
    with pytest.raises(ValueError, match=rf"`{name}` must leave .* within the 64.0 GiB"):
        measure_layers(**{"lengths": [8, 16], "d": 8, "device": "cpu", **options})


# ---- exponents ----


def test_exponent_is_that_of_least_squares():
    """By the normal equations, written out."""
    lengths, values = (10, 20, 50, 80), (3.0, 5.0, 19.0, 20.0)
    x, y = [math.log(n) for n in lengths], [math.log(value) for value in values]
    top = 4 * sum(a * b for a, b in zip(x, y, strict=True)) - sum(x) * sum(y)
    assert fit_exponent(lengths, values) == pytest.approx(top / (4 * sum(a * a for a in x) - sum(x) ** 2))


@pytest.mark.parametrize(("lengths", "fitted"), [((8, 16), (8, 16)), ((8, 16, 32), (16, 32)), (range(6), (3, 4, 5))])
def test_exponents_are_fitted_over_the_upper_half(lengths, fitted):
    assert made_costs(lengths=tuple(lengths)).fitted_lengths == fitted


def test_lower_half_does_not_count():
    assert made_costs().exponent([9, 9, 30**2, 40**2, 50**2]) == pytest.approx(2)


def test_exponent_of_a_formula_is_that_of_its_values():
    assert made_costs().exponent_of(Order("n^2 d", lambda sizes: sizes.n**2 * sizes.d)) == pytest.approx(2)


def test_range_of_an_exponent_is_that_of_median_fastest_and_slowest():
    """From n = 10 to 20 the fastest grow twofold, the medians fourfold, the slowest eightfold."""
    costs = made_costs(lengths=(10, 20), timings={EAGER: ((4.0, 1.0, 2.0), (8.0, 2.0, 32.0))})
    assert costs.exponent(costs.seconds[EAGER]) == pytest.approx(2)
    assert costs.exponent_range(EAGER) == (pytest.approx(1), pytest.approx(3))


def test_range_of_an_exponent_holds_it_though_fastest_and_slowest_do_not():
    costs = made_costs(lengths=(10, 20), timings={EAGER: ((1.0, 4.0, 9.0), (1.0, 8.0, 9.0))})
    assert costs.exponent_range(EAGER) == (pytest.approx(0), pytest.approx(1))


# ---- the report ----


def cells(line):
    """Words of a row behind its first cell."""
    return line.split("  ", 1)[1].split()


def rows_called(name, text):
    """Lines of a report that begin with a name."""
    return [line for line in text.splitlines() if line.startswith(name)]


def test_report_prints_times_and_memory_with_measured_exponents_and_those_of_table_1():
    lines = format_layer_costs(made_costs()).splitlines()
    time, memory = lines[3:8], lines[16:21]
    assert cells(time[1]) == [f"{1e3 * math.sqrt(20):,.0f}", "20,000", "400,000", "8,000,000"]
    assert cells(memory[4])[2:] == [f"{50**2 / 2**20:#.3g}", f"{50**3 / 2**20:#.3g}"]
    measured = [cells(line) for line in lines if line.startswith("exponent")]
    assert measured == [["0.50", "1.00", "2.00", "3.00"]] * 2
    assert ["of Table 1", *cells(lines[11])] == ["of Table 1", "2.00", "2.00", "1.00", "1.00"]


def test_report_says_what_was_run_and_what_was_not():
    text = format_layer_costs(made_costs(backward=True))
    assert "forward and backward, d = 8, k = 3, batch 1, fp32, CPU, 1 thread, median of 3" in text
    assert '"self-attention, restricted" is not part of the package' in text


def test_report_prints_the_range_of_each_exponent_of_time():
    spread = {EAGER: tuple((n**0.4, n**0.5, n**0.75) for n in made_costs().lengths)}
    (row,) = rows_called("its range", format_layer_costs(made_costs(timings={**made_costs().timings, **spread})))
    assert re.findall(r"[\d.]+ to [\d.]+", row) == ["0.40 to 0.75", "1.00 to 1.00", "2.00 to 2.00", "3.00 to 3.00"]


def test_report_has_no_range_of_a_single_repeat():
    text = format_layer_costs(made_costs(repeats=1))
    assert not rows_called("its range", text) and "a single timing does not tell" in text.replace("\n", " ")


@pytest.mark.parametrize(("lengths", "warns"), [((10, 20, 30), True), ((10, 20, 30, 40, 50), False)])
def test_report_says_where_two_lengths_alone_are_fitted(lengths, warns):
    timings = {name: column[: len(lengths)] for name, column in made_costs().timings.items()}
    num_bytes = {name: column[: len(lengths)] for name, column in made_costs().num_bytes.items()}
    text = format_layer_costs(made_costs(lengths=lengths, timings=timings, num_bytes=num_bytes))
    assert ("two lengths, through which any n^p passes" in text.replace("\n", " ")) == warns


def test_report_claims_no_copies_of_weights_that_a_layer_may_do_without():
    """As the convolution does at d = 64."""
    text = format_layer_costs(made_costs()).replace("\n", " ")
    assert "the LSTM and the convolution may hold copies of their own weights" in text and "where they do" in text


def test_picture_shows_the_figures_on_logarithmic_axes():
    pytest.importorskip("matplotlib", reason="needs the extra [viz]")
    costs = made_costs()
    time, memory = draw_layer_costs(costs).axes
    for axes, unit in ((time, 1e-3), (memory, 2**20)):
        curves = {line.get_label(): line.get_xydata().tolist() for line in axes.get_lines()}
        expected = [[n, value / unit] for n, value in zip(costs.lengths, costs.num_bytes[LSTM], strict=True)]
        assert curves[LSTM] == [pytest.approx(point) for point in expected]
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_grey_slopes_grow_as_n_and_n_squared_over_the_fitted_lengths():
    pytest.importorskip("matplotlib", reason="needs the extra [viz]")
    slopes = draw_layer_costs(made_costs()).axes[0].get_lines()[:2]
    assert [fit_exponent(*line.get_xydata().T.tolist()) for line in slopes] == [pytest.approx(1), pytest.approx(2)]
    assert all(tuple(line.get_xdata()) == (30, 50) for line in slopes)


@pytest.mark.parametrize(
    ("lengths", "ticks"),
    [((64, 128, 256), [256, 128, 64]), ((8, 16, 17, 64), [64, 17, 8]), (tuple(range(1, 101)), None)],
)
def test_ticks_leave_room_for_their_labels(lengths, ticks):
    found = spread_ticks(lengths)
    assert ticks is None or found == ticks
    assert found[0] == lengths[-1] and len(found) <= 9
