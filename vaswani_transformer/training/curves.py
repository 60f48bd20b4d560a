# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The training curves of a run as a picture, from the log in its folder; matplotlib is the extra [viz]."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers.utils import logging

from ..analysis.drawing import COLORS, LINE_STYLES, new_figure
from ..evaluation.outputs import save_figure
from ..files import CURVES_FILE, STATE_FILE, read_json
from .checkpoints import list_checkpoints

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

logger = logging.get_logger(__name__)

_BLEU = "eval_sacrebleu"

Log = list[dict[str, Any]]


def read_log(run: str | Path) -> Log:
    """The log of a run, from its folder or from its newest checkpoint, whichever has more updates.

    Raises:
        FileNotFoundError: If neither holds a trainer_state.json.
        ValueError: If that file is broken.
    """
    run = Path(run)
    places = (run, *list_checkpoints(run)[-1:])
    states = [_read_state(place / STATE_FILE) for place in places if (place / STATE_FILE).is_file()]
    if not states:
        raise FileNotFoundError(
            f"`run` must hold {STATE_FILE}, itself or in a checkpoint, got {run}. Pass the folder of a run."
        )
    log: Log = max(states, key=lambda state: state["global_step"])["log_history"]
    return log


def _read_state(path: Path) -> dict[str, Any]:
    state: dict[str, Any] = read_json(path)
    if missing := [name for name in ("global_step", "log_history") if name not in state]:
        raise ValueError(
            f"`{path}` must be the state of a trainer, got a file without {', '.join(missing)}. Pass another run."
        )
    return state


def curve(log: Log, figure: str) -> tuple[list[int], list[float]]:
    """Updates at which a log tells a figure, and its values."""
    points = {entry["step"]: entry[figure] for entry in log if figure in entry}
    return list(points), list(points.values())


def draw_curves(log: Log, others: dict[str, Log] | None = None, *, label: str = "this run") -> Figure:
    """Curves of a run: validation perplexity and, where there are translations, BLEU, beside training loss and rate.

    Args:
        log: The run's log.
        others: Logs of runs to compare with, by the label of their validation curve.
        label: Of this run's, where there are others.

    Raises:
        ImportError: If matplotlib is missing.
        ValueError: If a log has nothing to draw.
    """
    logs = {label: log, **(others or {})}
    for name, entries in logs.items():
        if not curve(entries, "eval_perplexity")[0]:
            raise ValueError(f"`{name}` must have validations in its log, got none. Train with validation data.")
    with new_figure() as figure:
        below = "bleu" if curve(log, _BLEU)[0] else "validation"
        axes = figure.subplot_mosaic(
            [["validation", "training"], [below, "rate"]], width_ratios=(3, 2), height_ratios=(3, 2)
        )
        _draw_validation(axes["validation"], logs)
        if below == "bleu":
            _draw_bleu(axes["bleu"], axes["validation"], logs)
        _draw_training(axes["training"], axes["rate"], log)
    return figure


def _draw_validation(axes: Axes, logs: dict[str, Log]) -> None:
    """Validation perplexity of all runs on a logarithmic axis."""
    from matplotlib.ticker import LogLocator, NullLocator

    for index, (name, log) in enumerate(logs.items()):
        axes.plot(*curve(log, "eval_perplexity"), label=name, **_line(index, log))
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low > 8 else range(1, 10)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set(xlabel="updates", ylabel="perplexity per target token", title="Validation, logarithmic scale")
    if len(logs) > 1:
        axes.legend()


def _line(index: int, log: Log) -> dict[str, Any]:
    """How the validations of one of several runs are drawn."""
    few = {"marker": "o", "markersize": 4} if len(curve(log, "eval_perplexity")[0]) < 15 else {}
    style = {"color": COLORS[index % len(COLORS)], "linestyle": LINE_STYLES[index % len(LINE_STYLES)]}
    return {"linewidth": 1.8, "zorder": 3 - index / 100, **style, **few}


def _draw_bleu(axes: Axes, above: Axes, logs: dict[str, Log]) -> None:
    """BLEU of each run's validations, in the colours and on the updates of their perplexity."""
    axes.sharex(above)
    above.tick_params(labelbottom=False)
    above.set(xlabel="")
    for index, log in enumerate(logs.values()):
        axes.plot(*curve(log, _BLEU), **_line(index, log))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set(xlabel="updates", ylabel="sacreBLEU")


def _draw_training(axes: Axes, rate: Axes, log: Log) -> None:
    """Negative log-likelihood over the learning rate, on the same updates."""
    axes.plot(*curve(log, "nll"), color=COLORS[0], linewidth=1.2)
    axes.set(ylabel="nll, nats per token", title="Training")
    axes.tick_params(labelbottom=False)
    rate.sharex(axes)
    rate.plot(*curve(log, "learning_rate"), color=COLORS[0], linewidth=1.2)
    rate.xaxis.set_major_formatter("{x:,.0f}")
    rate.locator_params(axis="x", nbins=4)
    rate.set(xlabel="updates", ylabel="learning rate", ylim=(0, None))
    rate.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)


def draw_run(folder: str | Path) -> Path | None:
    """Draws a run's curves into its folder after its work is done, and returns the picture's path.

    Returns:
        None, and nothing drawn, without matplotlib or without validations in the log.
    """
    path = Path(folder) / CURVES_FILE
    try:
        log = read_log(folder)
        if not curve(log, "eval_perplexity")[0]:
            return None
        save_figure(draw_curves(log), path)
    except ImportError:  # matplotlib is an extra
        return None
    except (OSError, ValueError) as error:
        logger.warning(f"No curves were drawn: {error}")
        return None
    return path
