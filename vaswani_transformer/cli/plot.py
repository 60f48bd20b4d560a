# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The sub-command that draws the paper's figures: plot."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .parsing import Command, add_commands, add_device, add_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def _describe_plot(parser: argparse.ArgumentParser) -> None:
    add_commands(parser, "FIGURE", FIGURES)


def _describe_output(parser: argparse.ArgumentParser) -> None:
    """The option that all figures have."""
    parser.add_argument("--output", required=True, metavar="FILE", help="the picture; its name ends in .png or .svg")


def _draw_into(path: str, draw: Callable[[], Figure]) -> None:
    """Draws a figure into a file that is known to be writable before anything is computed."""
    from ..files import save_figure

    check_output_picture(path)
    save_figure(draw(), path)
    print(f"written to {path}")


def check_output_picture(path: str) -> None:
    """Refuses what `--output` names if no picture can be written there, or none can be drawn: before any work.

    Raises:
        FileNotFoundError: Its folder does not exist.
        ImportError: matplotlib is missing.
        ValueError: It is no PNG or SVG file, or cannot be written.
    """
    from ..analysis.drawing import check_matplotlib
    from ..files import check_picture

    check_picture("output", path)
    check_matplotlib()


# ---- attention ----


def _describe_attention(parser: argparse.ArgumentParser) -> None:
    from ..analysis.attention_drawing import KINDS

    add_model(parser)
    parser.add_argument("--source", required=True, metavar="TEXT", help="sentence that the model reads")
    parser.add_argument("--target", metavar="TEXT", help="its translation (default: the model's own, then printed)")
    parser.add_argument(
        "--kind",
        nargs="+",
        choices=KINDS,
        metavar="KIND",
        help="encoder: self-attention; decoder: masked self-attention; cross: decoder over encoder (default: all)",
    )
    parser.add_argument("--layers", type=int, nargs="+", metavar="N", help="layers, from 0 (default: all)")
    parser.add_argument("--heads", type=int, nargs="+", metavar="N", help="heads, from 0 (default: all)")
    add_device(parser)
    _describe_output(parser)


def _run_attention(args: argparse.Namespace) -> None:
    _draw_into(args.output, lambda: _draw_attention(args))


def _draw_attention(args: argparse.Namespace) -> Figure:
    from ..analysis.attention_drawing import KINDS, check_choice, check_sentence, draw_attention
    from ..analysis.attention_maps import attention_maps, check_not_blank
    from ..evaluation.loading import load_for_inference

    target = args.target
    check_not_blank("source", args.source)
    if target is not None:
        check_not_blank("target", target)
    model, tokenizer = load_for_inference(args.model, device=args.device)
    choice = args.kind or KINDS, args.layers, args.heads
    check_choice(model.config, *choice)
    check_sentence("source", args.source, tokenizer)
    if target is None:
        target = _own_translation(model, tokenizer, args.source)
        print(target)
    else:
        check_sentence("target", target, tokenizer)
    kinds, layers, heads = choice
    maps = attention_maps(model, tokenizer, args.source, target)
    return draw_attention(maps, kinds=kinds, layers=layers, heads=heads)


def _own_translation(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, source: str) -> str:
    """What the model's default search finds, if it can be drawn."""
    from ..analysis.attention_drawing import MAX_TOKENS, count_tokens
    from ..evaluation.translate import translate

    (target,) = translate(model, tokenizer, [source])
    if not target.strip():
        raise ValueError(
            f"`target` must be given for this source, which the model translates into {target!r}. Pass a sentence."
        )
    if (num_tokens := count_tokens(target, tokenizer)) > MAX_TOKENS:
        raise ValueError(
            f"`target` must be given for this source, got none, and the model's own translation has {num_tokens} "
            f"tokens with </s>, more than the {MAX_TOKENS} that can be drawn. Pass a shorter translation."
        )
    return target


# ---- positions and learning rate ----


def _describe_positions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--d-model", type=int, default=128, metavar="N", help="width of the model, even")
    parser.add_argument("--length", type=int, default=100, metavar="N", help="positions, from 0")
    _describe_output(parser)


def _run_positions(args: argparse.Namespace) -> None:
    from ..analysis.positions import draw_positions

    _draw_into(args.output, lambda: draw_positions(args.d_model, args.length))


def _describe_learning_rate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--d-model", type=int, nargs="+", default=[512], metavar="N", help="widths of the model")
    parser.add_argument(
        "--warmup-steps", type=int, nargs="+", default=[4000], metavar="N", help="updates of the linear warm-up"
    )
    parser.add_argument("--max-steps", type=int, default=100_000, metavar="N", help="last update that is drawn")
    _describe_output(parser)


def _run_learning_rate(args: argparse.Namespace) -> None:
    from ..training.schedule_drawing import draw_schedules

    _draw_into(args.output, lambda: draw_schedules(args.d_model, args.warmup_steps, args.max_steps))


FIGURES: dict[str, Command] = {
    "attention": (_describe_attention, _run_attention, "What the heads of a model attend to in a pair of sentences"),
    "positions": (_describe_positions, _run_positions, "The sinusoidal positions of section 3.5"),
    "learning-rate": (_describe_learning_rate, _run_learning_rate, "The learning rate of section 5.3"),
}

COMMANDS = {"plot": (_describe_plot, None, "Draw a figure: attention, positions or learning rate, as PNG or SVG")}
