# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Table 1 and section 4: orders of growth beside what naive layers multiply and connect."""

import itertools
import math

import pytest
from tables import (
    CONTIGUOUS_PATH_LENGTH,
    CONVOLUTIONAL,
    RECURRENT,
    RESTRICTED_SELF_ATTENTION,
    SELF_ATTENTION,
    SEPARABLE_COMPLEXITY,
    TABLE_1,
    Sizes,
)

PRINTED = {
    "self-attention": ("O(n^2 d)", "O(1)", "O(1)"),
    "recurrent": ("O(n d^2)", "O(n)", "O(n)"),
    "convolutional": ("O(k n d^2)", "O(1)", "O(log_k n)"),
    "self-attention, restricted": ("O(r n d)", "O(1)", "O(n/r)"),
}
SMALL = [
    Sizes(n=n, d=d, k=k, r=r)
    for n, d, k, r in itertools.product((5, 8, 13), (2, 3, 6), (2, 3), (3, 5))
]


@pytest.mark.parametrize("layer", TABLE_1, ids=lambda layer: layer.name)
def test_formulas_are_those_of_the_paper(layer):
    orders = (layer.complexity, layer.sequential_operations, layer.maximum_path_length)
    assert tuple(order.formula for order in orders) == PRINTED[layer.name]


# ---- complexity: multiplications of layers written out in loops ----


class Multiplier:
    """Multiplies vectors and counts."""

    def __init__(self):
        self.count = 0

    def dot(self, first, second):
        self.count += len(first)
        return sum(x * y for x, y in zip(first, second, strict=True))

    def scale(self, vector, factor):
        self.count += len(vector)
        return [factor * x for x in vector]

    def times(self, matrix, vector):
        return [self.dot(row, vector) for row in matrix]


def states(sizes):
    return [[1.0 + t + i for i in range(sizes.d)] for t in range(sizes.n)]


def matrix(sizes):
    return [[0.1] * sizes.d for _ in range(sizes.d)]


def attend(sizes, neighbours):
    """Attention of each position over its neighbours' states: scores, then the sum of weighted
    states.
    """
    multiplier, x = Multiplier(), states(sizes)
    for t in range(sizes.n):
        keys = [x[s] for s in neighbours(t)]
        scores = [multiplier.dot(x[t], key) for key in keys]
        weighted = [multiplier.scale(key, score) for key, score in zip(keys, scores, strict=True)]
        assert len(list(map(sum, zip(*weighted, strict=True)))) == sizes.d
    return multiplier.count


def recur(sizes):
    """h_t = W x_t + U h_(t - 1)."""
    multiplier, hidden = Multiplier(), [0.0] * sizes.d
    for x in states(sizes):
        new, old = multiplier.times(matrix(sizes), x), multiplier.times(matrix(sizes), hidden)
        hidden = [math.tanh(a + b) for a, b in zip(new, old, strict=True)]
    return multiplier.count


def convolve(sizes):
    """Each position is the sum of k matrices times the k positions up to it, zeros before the
    first.
    """
    multiplier = Multiplier()
    padded = [[0.0] * sizes.d] * (sizes.k - 1) + states(sizes)
    for t in range(sizes.n):
        for i in range(sizes.k):
            multiplier.times(matrix(sizes), padded[t + i])
    return multiplier.count


def convolve_separably(sizes):
    """Each channel by its own kernel of k numbers, then one matrix for each position."""
    multiplier = Multiplier()
    padded = [[0.0] * sizes.d] * (sizes.k - 1) + states(sizes)
    for t in range(sizes.n):
        window = padded[t : t + sizes.k]
        channels = [multiplier.dot([0.5] * sizes.k, [x[i] for x in window]) for i in range(sizes.d)]
        multiplier.times(matrix(sizes), channels)
    return multiplier.count


def nearest(sizes, t):
    """The r positions around one, shifted at the ends of the sequence."""
    first = min(max(t - sizes.r // 2, 0), max(sizes.n - sizes.r, 0))
    return range(first, min(first + sizes.r, sizes.n))


@pytest.mark.parametrize(
    ("order", "count", "factor"),
    [
        (SELF_ATTENTION.complexity, lambda sizes: attend(sizes, lambda t: range(sizes.n)), 2),
        (
            RESTRICTED_SELF_ATTENTION.complexity,
            lambda sizes: attend(sizes, lambda t: nearest(sizes, t)),
            2,
        ),
        (RECURRENT.complexity, recur, 2),
        (CONVOLUTIONAL.complexity, convolve, 1),
        (SEPARABLE_COMPLEXITY, convolve_separably, 1),
    ],
    ids=["self-attention", "restricted", "recurrent", "convolutional", "separable"],
)
def test_complexity_is_the_naive_count_but_for_one_constant_factor(order, count, factor):
    assert all(count(sizes) == factor * order(sizes) for sizes in SMALL)


# ---- sequential operations and paths: graphs of which position of which layer reads which ----
# A node is (layer, position); layer 0 is the input.


def attention_graph(n, num_layers, reach=math.inf):
    """Attention over positions at most `reach` away."""
    return {
        (layer + 1, t): [(layer, s) for s in range(n) if abs(s - t) <= reach]
        for layer in range(num_layers)
        for t in range(n)
    }


def recurrent_graph(n, num_layers):
    """A position reads the layer below and its predecessor."""
    return {
        (layer + 1, t): [(layer, t), *([(layer + 1, t - 1)] if t else [])]
        for layer in range(num_layers)
        for t in range(n)
    }


def convolution_graph(n, num_layers, k, dilation):
    """A position reads k positions up to it, `dilation(layer)` apart."""
    return {
        (layer + 1, t): [
            (layer, t - i * dilation(layer)) for i in range(k) if t - i * dilation(layer) >= 0
        ]
        for layer in range(num_layers)
        for t in range(n)
    }


def steps_to_inputs(graph, output):
    """Fewest steps from an output to each input it depends on, by breadth-first search."""
    steps, frontier = {output: 0}, [output]
    while frontier:
        found = [(node, below) for node in frontier for below in graph.get(node, ())]
        frontier = []
        for node, below in found:
            if below not in steps:
                steps[below] = steps[node] + 1
                frontier.append(below)
    return {position: count for (layer, position), count in steps.items() if layer == 0}


def longest_path(n, make_graph, is_causal):
    """Steps between the farthest positions, through as few layers as join all of them (or each to
    all before it).
    """
    for num_layers in itertools.count(1):
        graph = make_graph(n, num_layers)
        paths = [steps_to_inputs(graph, (num_layers, t)) for t in range(n)]
        if all(len(path) == (t + 1 if is_causal else n) for t, path in enumerate(paths)):
            return max(max(path.values()) for path in paths)
    return None


def longest_chain(graph):
    """Nodes of a layer that wait for each other, the inputs not counted."""
    depths = {}
    for node, sources in graph.items():  # in an order in which sources come first
        depths[node] = 1 + max(depths.get(source, 0) for source in sources)
    return max(depths.values())


@pytest.mark.parametrize("n", [1, 2, 7, 12])
@pytest.mark.parametrize(
    ("layer", "graph"),
    [
        (SELF_ATTENTION, lambda n: attention_graph(n, 1)),
        (RECURRENT, lambda n: recurrent_graph(n, 1)),
        (CONVOLUTIONAL, lambda n: convolution_graph(n, 1, 3, lambda layer: 1)),
        (RESTRICTED_SELF_ATTENTION, lambda n: attention_graph(n, 1, reach=2)),
    ],
    ids=list(PRINTED),
)
def test_sequential_operations_are_the_longest_chain_of_a_layer(layer, graph, n):
    assert layer.sequential_operations(Sizes(n=n)) == longest_chain(graph(n))


@pytest.mark.parametrize("n", [1, 2, 7, 12])
def test_self_attention_joins_all_positions_in_one_step_and_recurrence_in_n(n):
    attention = longest_path(n, attention_graph, is_causal=False)
    recurrence = longest_path(n, recurrent_graph, is_causal=True)
    assert SELF_ATTENTION.maximum_path_length(Sizes(n=n)) == attention == 1
    assert RECURRENT.maximum_path_length(Sizes(n=n)) == recurrence


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 10, 16, 17, 27, 28])
def test_dilated_convolutions_join_all_positions_in_log_k_n_layers(n, k):
    path = longest_path(
        n, lambda n, layers: convolution_graph(n, layers, k, lambda layer: k**layer), is_causal=True
    )
    assert CONVOLUTIONAL.maximum_path_length(Sizes(n=n, k=k)) == path


@pytest.mark.slow
@pytest.mark.parametrize("k", [3, 4, 6])
@pytest.mark.parametrize("n", [12, 24, 48])
def test_contiguous_convolutions_take_of_the_order_of_n_over_k_layers(n, k):
    """(n - 1) / (k - 1) of them, rounded up, since a layer's window overlaps with the next one's in
    one position.
    """
    path = longest_path(
        n, lambda n, layers: convolution_graph(n, layers, k, lambda layer: 1), is_causal=True
    )
    assert path == math.ceil((n - 1) / (k - 1))
    assert 1 <= path / CONTIGUOUS_PATH_LENGTH(Sizes(n=n, k=k)) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("r", [3, 5, 7])
@pytest.mark.parametrize("n", [12, 24, 36])
def test_restricted_self_attention_takes_of_the_order_of_n_over_r_layers(n, r):
    """A neighbourhood of r around a position reaches (r - 1) / 2 to each side: about twice."""
    path = longest_path(
        n, lambda n, layers: attention_graph(n, layers, reach=r // 2), is_causal=False
    )
    assert 1 <= path / RESTRICTED_SELF_ATTENTION.maximum_path_length(Sizes(n=n, r=r)) <= 3


@pytest.mark.parametrize(
    ("order", "name"),
    [
        (CONVOLUTIONAL.maximum_path_length, "k"),
        (CONTIGUOUS_PATH_LENGTH, "k"),
        (RESTRICTED_SELF_ATTENTION.maximum_path_length, "r"),
    ],
    ids=["dilated", "contiguous", "restricted"],
)
def test_layers_that_look_at_one_position_never_join_two(order, name):
    assert order(Sizes(**{"n": 2, name: 1})) == math.inf
    assert order(Sizes(**{"n": 1, name: 1})) == 1


# ---- what section 4 says ----


@pytest.mark.parametrize(("n", "d"), [(70, 512), (511, 512), (512, 512), (513, 512)])
def test_self_attention_is_cheaper_than_recurrence_exactly_where_n_is_below_d(n, d):
    sizes = Sizes(n=n, d=d)
    assert (SELF_ATTENTION.complexity(sizes) < RECURRENT.complexity(sizes)) == (n < d)


@pytest.mark.parametrize("r", [16, 64, 1024, 5000])
def test_restricting_attention_saves_operations_until_it_sees_everything(r):
    sizes = Sizes(n=1024, r=r)
    restricted, full = RESTRICTED_SELF_ATTENTION.complexity(sizes), SELF_ATTENTION.complexity(sizes)
    assert restricted == full * min(r / 1024, 1)


# ---- the printed table ----
