# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Sub-commands that print the paper's tables beside our figures: table1, table3, cost."""

from __future__ import annotations

import argparse
from typing import Any

from .parsing import add_device, first_given
from .plot import check_output_picture
from .training import describe_recipe_fields, given_fields, is_main_process

# Defaults of what table1 measures; None on the command line, where they are refused without --measure.
_MEASURED: dict[str, Any] = {"lengths": [64, 128, 256, 512, 1024, 2048], "repeats": 5, "batch_size": 1}


def _describe_table1(parser: argparse.ArgumentParser) -> None:
    sizes = parser.add_argument_group("sizes")
    for name, default, text in (
        ("n", 1024, "positions of the sequence that the table's numbers are for"),
        ("d", 512, "width of a position"),
        ("k", 3, "width of a convolution's kernel"),
        ("r", 64, "positions that restricted self-attention looks at"),
    ):
        sizes.add_argument(f"--{name}", type=int, default=default, metavar="N", help=text)
    measuring = parser.add_argument_group("measuring, which takes a minute or two")
    measuring.add_argument("--measure", action="store_true", help="time real layers of width d over --lengths, too")
    measuring.add_argument(
        "--output", metavar="FILE", help="picture of it, .png or .svg (measures; needs the extra viz)"
    )
    _add_measured(measuring, "--lengths", "positions of the sequences", nargs="+")
    _add_measured(measuring, "--repeats", "timings of each, of which the median counts")
    _add_measured(measuring, "--batch-size", "sequences at once")
    measuring.add_argument("--backward", action="store_true", help="with the gradients, as in training")
    add_device(measuring)


def _add_measured(group: argparse._ArgumentGroup, option: str, text: str, nargs: str | None = None) -> None:
    default = _MEASURED[option.removeprefix("--").replace("-", "_")]
    shown = " ".join(map(str, default)) if nargs else default
    group.add_argument(option, type=int, nargs=nargs, metavar="N", help=f"{text} (default: {shown})")


def _run_table1(args: argparse.Namespace) -> None:
    from ..analysis.complexity import Sizes, format_table_1

    table = format_table_1(Sizes(n=args.n, d=args.d, k=args.k, r=args.r))
    if args.measure or args.output is not None:
        _measure_table1(args, table)
        return
    if name := first_given(args, (*_MEASURED, "device", "backward")):
        raise ValueError(f"`{name}` must come with --measure or --output, got neither. Add --measure.")
    print(table)


def _measure_table1(args: argparse.Namespace, table: str) -> None:
    """Prints the table, then measures, prints and draws."""
    from ..analysis.layer_costs import measure_layers
    from ..analysis.layer_costs_report import draw_layer_costs, format_layer_costs
    from ..files import save_figure

    if args.output is not None:
        check_output_picture(args.output)
    print(table, flush=True)
    given = {name: getattr(args, name) for name in _MEASURED if getattr(args, name) is not None}
    options = {**_MEASURED, **given, "device": args.device, "backward": args.backward}
    costs = measure_layers(options.pop("lengths"), d=args.d, k=args.k, **options)
    print(f"\n{format_layer_costs(costs)}")
    if args.output is not None:
        save_figure(draw_layer_costs(costs), args.output)
        print(f"written: {args.output}")


_BASE = "multi30k-table3"  # the recipe whose rows are trained


def _describe_table3(parser: argparse.ArgumentParser) -> None:
    training = parser.add_argument_group(
        "training", "With --output-dir the rows are trained and measured; without, models are compared in size alone."
    )
    training.add_argument(
        "--output-dir",
        metavar="DIR",
        help="folder of one run a row; what is finished there is kept, what was begun goes on",
    )
    training.add_argument("--recipe", metavar="NAME", help=f"row base, to which others are scaled (default: {_BASE})")
    training.add_argument("--rows", nargs="+", metavar="ROW", help="rows to train, for example A1 C4 (default: all)")
    training.add_argument(
        "--seeds", nargs="+", type=int, metavar="N", help="seeds of each of these rows (default: the recipe's)"
    )
    training.add_argument("--bf16", action="store_true", help="compute in bfloat16")
    training.add_argument("--use-cpu", action="store_true", help="train on the CPU although there is a GPU")
    describe_recipe_fields(parser, _BASE)


def _run_table3(args: argparse.Namespace) -> None:
    if args.output_dir is None:
        _print_sizes(args)
        return
    from ..training.recipes import get_recipe
    from ..training.variations import train_variations
    from ..training.variations_report import format_variations

    recipe = get_recipe(args.recipe or _BASE, **given_fields(args))
    options = {name: getattr(args, name) for name in ("rows", "seeds", "bf16", "use_cpu")}
    print(format_variations(train_variations(recipe, args.output_dir, **options)))


def _print_sizes(args: argparse.Namespace) -> None:
    """Prints the table of models in size; only the vocabulary is a value of it."""
    from ..analysis.table_3 import format_table_3, table_3

    fields = given_fields(args)
    vocab_size = fields.pop("vocab_size", 37000)
    if name := next(iter(fields), first_given(args, ("recipe", "rows", "seeds", "bf16", "use_cpu"))):
        raise ValueError(f"`{name}` must come with --output-dir, got no folder to train in. Add --output-dir.")
    print(format_table_3(table_3(vocab_size)))


def _describe_cost(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recipe", required=True, metavar="NAME", help="what is trained; see the command recipes")
    known = parser.add_argument_group("a speed that is known")
    known.add_argument(
        "--tokens-per-second",
        type=float,
        metavar="X",
        help="real source and target tokens over all devices: train_tokens_per_second of a run's train_results.json",
    )
    known.add_argument("--num-devices", type=int, metavar="N", help="devices that reach it together (default: 1)")
    known.add_argument(
        "--matrix-tflops",
        type=float,
        metavar="X",
        help="matrix rate of one device in TFLOP/s, for FLOPs as in the paper's Table 2: "
        "train_matrix_flops_per_second / 1e12 (default: unknown)",
    )
    measured = parser.add_argument_group("or the speed of this machine")
    measured.add_argument(
        "--measure",
        action="store_true",
        help="train the recipe's model for a few updates on made-up pairs, under torchrun on all its devices; reads "
        "no data and leaves no file",
    )
    measured.add_argument("--updates", type=int, metavar="N", help="updates that are timed (default: 10)")
    measured.add_argument(
        "--max-padded-tokens-per-device",
        type=int,
        metavar="N",
        help="padded tokens one device holds at a time, to fit its memory, as for train (default: the recipe's)",
    )
    measured.add_argument("--bf16", action="store_true", help="compute in bfloat16")
    measured.add_argument("--use-cpu", action="store_true", help="measure the CPU although there is a GPU")


def _run_cost(args: argparse.Namespace) -> None:
    _check_one_speed(args)
    from ..analysis.cost import check_positive, format_cost
    from ..training.cost import estimate_recipe_cost
    from ..training.recipes import get_recipe

    check_positive("matrix_tflops", args.matrix_tflops)
    budget = {} if args.max_padded_tokens_per_device is None else given_fields(args)
    recipe = get_recipe(args.recipe, **budget)
    if args.measure:
        _print_measured_cost(args, recipe)
        return
    cost = estimate_recipe_cost(
        recipe,
        tokens_per_second=args.tokens_per_second,
        num_devices=1 if args.num_devices is None else args.num_devices,
        flops_per_second=None if args.matrix_tflops is None else args.matrix_tflops * 1e12,
    )
    print(format_cost(cost))


def _check_one_speed(args: argparse.Namespace) -> None:
    """Raises ValueError unless the speed is either known or to be measured, without options of the other way."""
    if not args.measure and args.tokens_per_second is None:
        raise ValueError(
            "`tokens_per_second` must be given, got none. Pass the speed of a run, or --measure to find out that of "
            "this machine."
        )
    known = ("tokens_per_second", "num_devices", "matrix_tflops")
    measured = ("updates", "max_padded_tokens_per_device", "bf16", "use_cpu")
    way = "with --measure, which finds it out" if args.measure else "without --measure, which it belongs to"
    if name := first_given(args, known if args.measure else measured):
        raise ValueError(f"`{name}` must be left out {way}, got {getattr(args, name)}. Drop one of the two.")


def _print_measured_cost(args: argparse.Namespace, recipe: Any) -> None:
    from ..analysis.cost import format_cost
    from ..training.speed import describe_speed, measure_speed

    updates = {} if args.updates is None else {"num_updates": args.updates}
    speed = measure_speed(recipe, **updates, bf16=args.bf16, use_cpu=args.use_cpu)
    if is_main_process():
        print(format_cost(speed.cost(recipe)), describe_speed(recipe, speed), sep="\n")


COMMANDS = {
    "table1": (_describe_table1, _run_table1, "Print the paper's Table 1 with its numbers, and measure its layers"),
    "table3": (
        _describe_table3,
        _run_table3,
        "Print the paper's Table 3 with our parameter counts, or train its rows",
    ),
    "cost": (_describe_cost, _run_cost, "Estimate what a recipe costs, beside the paper's Table 2"),
}
