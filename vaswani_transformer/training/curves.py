# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The training curves of a run as a picture; matplotlib is the extra [viz]."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers.utils import logging

from ..files import CURVES_FILE, STATE_FILE, read_json, writing_beside

logger = logging.get_logger(__name__)

_FIGURES = {
    "eval_perplexity": "validation perplexity",
    "eval_sacrebleu": "validation sacreBLEU",
    "nll": "training nll, nats per token",
    "learning_rate": "learning rate",
}


def read_log(run: str | Path) -> list[dict[str, Any]]:
    """Reads the log of a finished run from its folder."""
    log: list[dict[str, Any]] = read_json(Path(run) / STATE_FILE)["log_history"]
    return log


def curve(log: list[dict[str, Any]], figure: str) -> tuple[list[int], list[float]]:
    """Returns the updates at which a log has a figure, and its values."""
    points = {entry["step"]: entry[figure] for entry in log if figure in entry}
    return list(points), list(points.values())


def draw_run(folder: str | Path) -> Path | None:
    """Draws the curves of a finished run into its folder and returns the picture's path.

    Returns:
        None without matplotlib or validations, or where the picture cannot be written, which is a warning.
    """
    path = Path(folder) / CURVES_FILE
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import LogFormatter, LogLocator

        curves = {label: curve(read_log(folder), name) for name, label in _FIGURES.items()}
        curves = {label: points for label, points in curves.items() if points[0]}
        if _FIGURES["eval_perplexity"] not in curves:
            return None
        figure = Figure(figsize=(4 * len(curves), 3.6), dpi=120, layout="constrained")
        for axes, (label, points) in zip(figure.subplots(1, len(curves)), curves.items(), strict=True):
            axes.plot(*points)
            axes.set(title=label, xlabel="updates")
            axes.grid(color="#dddddd")
            if label == _FIGURES["eval_perplexity"]:
                axes.set_yscale("log")
                axes.yaxis.set_major_locator(LogLocator(subs=range(1, 10)))
                axes.yaxis.set_major_formatter(LogFormatter(minor_thresholds=(2, 1)))
        with writing_beside(path) as beside:
            figure.savefig(beside, format="png")
    except ImportError:
        return None
    except (KeyError, OSError, ValueError) as error:
        logger.warning(f"No curves were drawn: {error}")
        return None
    return path
