# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Draws the curves of a run, beside those of others, into its folder, where the card shows them;
needs the extra viz.

python scripts/paper/training_curves.py runs/my-model [runs/other ...]
"""

import argparse
import json
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, LogLocator

from vaswani_transformer.files import CURVES_FILE, STATE_FILE
from vaswani_transformer.hub.card import refresh_card

FIGURES = {
    "eval_perplexity": "validation perplexity",
    "eval_sacrebleu": "validation sacreBLEU",
    "eval_f1": "validation F1",
    "nll": "training nll, nats per token",
    "learning_rate": "learning rate",
}


def draw(runs):
    """A panel for each figure that the first run's log has, with a curve of each run."""
    logs = [
        json.loads((run / STATE_FILE).read_text(encoding="utf-8"))["log_history"] for run in runs
    ]
    names = [name for name in FIGURES if any(name in entry for entry in logs[0])]
    figure = Figure(figsize=(4 * len(names), 3.6), dpi=120, layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for run, log in zip(runs, logs, strict=True):
            points = {entry["step"]: entry[name] for entry in log if name in entry}
            axes.plot(list(points), list(points.values()), label=run.name)
        axes.set(title=FIGURES[name], xlabel="updates")
        axes.grid(color="#dddddd")
        if name == "eval_perplexity":
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=range(1, 10)))
            axes.yaxis.set_major_formatter(LogFormatter(minor_thresholds=(2, 1)))
    if len(logs) > 1:
        figure.axes[0].legend()
    return figure


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="folder of a finished run"
    )
    runs = [run.resolve() for run in parser.parse_args(argv).runs]
    draw(runs).savefig(runs[0] / CURVES_FILE)
    refresh_card(runs[0])


if __name__ == "__main__":
    main()
