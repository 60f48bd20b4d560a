# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Draws the sinusoidal positions of section 3.5, or the learning rate of section 5.3; needs the
extra viz.
"""

import argparse

import matplotlib.pyplot as plt
import torch

from vaswani_transformer.modeling_vaswani_transformer import sinusoids
from vaswani_transformer.training.schedule import (
    paper_peak_learning_rate,
    warmup_inverse_sqrt_factor,
)


def draw_positions(d_model=128, length=100):
    """The table of sinusoids, beside the dot product of the middle position's encoding with all
    others.

    It depends on the distance alone: the sum over i of cos(distance / 10000^(2i / d_model)).
    """
    encodings, middle = sinusoids(torch.arange(length), d_model).double(), length // 2
    figure, (table, products) = plt.subplots(
        1, 2, figsize=(13, 5.4), width_ratios=(5, 4), layout="constrained"
    )
    image = table.imshow(
        encodings, vmin=-1, vmax=1, cmap="RdBu_r", aspect="auto", interpolation="none"
    )
    table.set(
        xlabel="feature",
        ylabel="position",
        title="Sinusoids: sine in even features, cosine in odd ones",
    )
    figure.colorbar(image, ax=table, ticks=(-1, 0, 1))
    products.plot(range(-middle, length - middle), encodings @ encodings[middle])
    products.set(
        xlabel="distance",
        ylabel="dot product",
        title=f"Dot product with the encoding of position {middle}",
    )
    return figure


def draw_schedules(d_models=(512,), warmup_steps=(4000,), max_steps=100_000):
    """Learning rate of each update, a curve for each width with each warm-up."""
    figure, axes = plt.subplots(figsize=(10, 5.4), layout="constrained")
    for d_model in d_models:
        for warmup, style in zip(warmup_steps, ("-", "--", "-.", ":"), strict=False):
            peak = paper_peak_learning_rate(d_model, warmup)
            steps = sorted(
                {
                    *range(1, max_steps + 1, max(1, max_steps // 1000)),
                    min(warmup, max_steps),
                    max_steps,
                }
            )
            rates = [peak * warmup_inverse_sqrt_factor(step, warmup) for step in steps]
            label = f"d_model {d_model:,}, warm-up {warmup:,}: peak {peak:.2e}".replace("e-0", "e-")
            axes.plot(steps, rates, style, label=label)
    axes.set(
        xlabel="updates",
        ylabel="learning rate",
        title="Learning rate of section 5.3",
        ylim=(0, None),
    )
    axes.legend()
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    figures = parser.add_subparsers(dest="figure", required=True)
    positions = figures.add_parser("positions")
    positions.add_argument("--d-model", type=int, default=128, help="width of the model, even")
    positions.add_argument("--length", type=int, default=100)
    rate = figures.add_parser("learning-rate")
    rate.add_argument("--d-model", type=int, nargs="+", default=[512])
    rate.add_argument("--warmup-steps", type=int, nargs="+", default=[4000], help="one to four")
    rate.add_argument("--max-steps", type=int, default=100_000, help="last update that is drawn")
    for each in (positions, rate):
        each.add_argument("--output", required=True, help="the picture, .png or .svg")
    args = parser.parse_args()
    if args.figure == "positions":
        figure = draw_positions(args.d_model, args.length)
    else:
        figure = draw_schedules(args.d_model, args.warmup_steps, args.max_steps)
    figure.savefig(args.output)
    print(f"written to {args.output}")


if __name__ == "__main__":
    main()
