# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Drawn attention maps hold the weights and tokens of the pair, within bounds, with nothing cut off."""

import io

import numpy as np
import pytest

from vaswani_transformer.analysis.attention import AttentionMaps, draw_attention

pytest.importorskip("matplotlib", reason="needs the extra [viz]")

SOURCE, TARGET = ["A", "dog", "runs", "</s>"], ["Ein", "Hund", "</s>"]


def make_maps(source=SOURCE, target=TARGET, num_encoder_layers=3, num_decoder_layers=2, num_heads=2):
    random = np.random.default_rng(0)
    s, t = len(source), len(target)
    return AttentionMaps(
        random.random((num_encoder_layers, num_heads, s, s)),
        random.random((num_decoder_layers, num_heads, t, t)),
        random.random((num_decoder_layers, num_heads, t, s)),
        source,
        ["<s>", *target[:-1]],
        target,
    )


def drawn_maps(figure):
    """Axes of the maps by their place in the order of drawing: kind by kind, layer by layer, head by head."""
    return [axes for axes in figure.axes if axes.get_title()]


def texts(labels):
    return [label.get_text() for label in labels]


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_every_map_of_a_kind_is_drawn_in_the_order_of_layers_and_heads(kind):
    maps = make_maps()
    weights = getattr(maps, kind)
    got = [axes.images[0].get_array() for axes in drawn_maps(draw_attention(maps, kinds=[kind]))]
    np.testing.assert_array_equal(got, weights.reshape(-1, *weights.shape[2:]))


def test_chosen_layers_and_heads_are_drawn_and_titled():
    maps = make_maps()
    axes = drawn_maps(draw_attention(maps, kinds=["encoder"], layers=[2, 0], heads=[1]))
    assert [each.get_title() for each in axes] == ["layer 0, head 1", "layer 2, head 1"]
    np.testing.assert_array_equal(axes[1].images[0].get_array(), maps.encoder[2, 1])


def test_all_maps_share_one_scale_of_colours():
    axes = drawn_maps(draw_attention(make_maps()))
    assert {(each.images[0].get_clim(), each.images[0].get_cmap().name) for each in axes} == {((0, 1), "Blues")}


@pytest.mark.parametrize(
    ("kind", "rows", "columns"),
    [
        ("encoder", SOURCE, SOURCE),
        ("decoder", ["<s>", *TARGET[:-1]], ["<s>", *TARGET[:-1]]),
        ("cross", TARGET, SOURCE),
    ],
)
def test_tokens_stand_at_rows_and_columns(kind, rows, columns):
    (axes,) = drawn_maps(draw_attention(make_maps(), kinds=[kind], layers=[0], heads=[0]))
    assert (texts(axes.get_yticklabels()), texts(axes.get_xticklabels())) == (rows, columns)


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("encoder", {"Encoder self-attention", "source token", "source token attended to"}),
        ("decoder", {"Decoder self-attention, masked", "target token fed", "target token attended to"}),
        ("cross", {"Encoder-decoder attention", "target token predicted", "source token attended to"}),
    ],
)
def test_axes_say_which_token_of_a_step_is_meant(kind, labels):
    assert set(texts(draw_attention(make_maps(), kinds=[kind]).texts)) == labels


def test_tokens_are_written_once_for_each_row_and_column_of_maps():
    axes = drawn_maps(draw_attention(make_maps(), kinds=["cross"]))
    assert [bool(texts(each.get_yticklabels())) for each in axes] == [True, False, True, False]
    assert [bool(texts(each.get_xticklabels())) for each in axes] == [False, False, True, True]


CHOICES = [{}, {"layers": [0]}, {"heads": [1]}, {"layers": [1], "heads": [0]}, {"kinds": ["cross"]}]
PAIRS = [(SOURCE, TARGET), (["a", "</s>"], ["b", "</s>"]), (["W" * 40] * 30, TARGET), (SOURCE, ["x"] * 60)]


def boxes(figure):
    """Extents of all texts and maps, in pixels, and the picture's own."""
    figure.draw_without_rendering()
    ticks = [label for axes in figure.axes for label in (*axes.get_xticklabels(), *axes.get_yticklabels())]
    found = [*figure.texts, *ticks, *(axes.title for axes in figure.axes), *(axes.yaxis.label for axes in figure.axes)]
    shown = [text for text in found if text.get_text()]
    extents = [text.get_window_extent() for text in shown] + [axes.get_window_extent() for axes in figure.axes]
    return extents, figure.bbox


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pair", "choice"), [(PAIRS[0], choice) for choice in CHOICES] + [(pair, {}) for pair in PAIRS[1:]]
)
def test_nothing_is_cut_off(pair, choice):
    extents, whole = boxes(draw_attention(make_maps(*pair), **choice))
    assert all(whole.x0 <= box.x0 and box.x1 <= whole.x1 for box in extents)
    assert all(whole.y0 <= box.y0 and box.y1 <= whole.y1 for box in extents)


@pytest.mark.slow
@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("pair", PAIRS[:2], ids=["usual", "short"])
def test_no_two_texts_or_maps_overlap(pair, choice):
    extents, _ = boxes(draw_attention(make_maps(*pair), **choice))
    meeting = [
        (one, other)
        for place, one in enumerate(extents)
        for other in extents[:place]
        if min(one.x1, other.x1) - max(one.x0, other.x0) > 2 and min(one.y1, other.y1) - max(one.y0, other.y0) > 2
    ]
    assert meeting == []


def test_long_token_is_shortened():
    (axes,) = drawn_maps(draw_attention(make_maps(["x" * 50, "</s>"]), kinds=["cross"], layers=[0], heads=[0]))
    assert texts(axes.get_xticklabels()) == [f"{'x' * 17}…", "</s>"]


def test_dollars_are_no_formula():
    figure = draw_attention(make_maps(["$5^", "and_{", "$", "</s>"]), kinds=["cross"], layers=[0])
    figure.savefig(io.BytesIO(), format="svg")
    assert texts(drawn_maps(figure)[0].get_xticklabels())[0] == "$5^"


# --------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (
            {"layers": [2], "kinds": ["cross"]},
            r"`layers` must lie in \[0, 2\), the layers of the model's decoder, got 2",
        ),
        ({"layers": [3], "kinds": ["encoder"]}, r"`layers` must lie in \[0, 3\), .* encoder, got 3"),
        ({"layers": [2]}, r"`layers` must lie in \[0, 2\), .* decoder, got 2"),
        ({"layers": []}, "`layers` .* got none"),
        ({"heads": [-1]}, r"`heads` must lie in \[0, 2\), .* got -1"),
    ],
)
def test_layers_and_heads_that_do_not_exist_are_refused_with_the_range(choice, message):
    with pytest.raises(ValueError, match=message):
        draw_attention(make_maps(), **choice)


def test_long_sentence_is_drawn():
    figure = draw_attention(make_maps(["x"] * 150), kinds=["encoder"], layers=[0], heads=[0])
    assert len(drawn_maps(figure)[0].get_xticklabels()) == 150


def test_picture_that_would_be_too_large_is_refused_with_its_size():
    maps = make_maps(["x"] * 90, ["y"] * 90, num_encoder_layers=6, num_decoder_layers=6, num_heads=8)
    with pytest.raises(ValueError, match=r"a picture of 60 x 60 inches, got maps that take \d+ x \d+\."):
        draw_attention(maps)
