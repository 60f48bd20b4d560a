# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Draws the training curves of a run and writes its model card with them; needs the extra viz.

python scripts/model_card.py runs/my-model
python scripts/model_card.py runs/my-model --output model_cards/my-model.md --compare "learning rate 0.001=runs/slow"
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaswani_transformer.evaluation.files import check_outputs, open_output
from vaswani_transformer.training.averaging import list_checkpoints
from vaswani_transformer.training.card import make_card, write_card
from vaswani_transformer.training.folder import CARD_FILE, CURVES_FILE, STATE_FILE, is_own_card

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Of Okabe and Ito, who chose them for colour-blind readers; the styles tell the curves apart in grey, too.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_STYLES = ("-", "--", "-.", ":")
_PIXELS_PER_INCH, _SIZE = 120, (10, 5.4)
_FONT = {"font.size": 12, "axes.titlesize": 12, "axes.labelsize": 12, "legend.fontsize": 11, "axes.grid": True}
_STYLE = {**_FONT, "grid.color": "#dddddd", "axes.spines.top": False, "axes.spines.right": False}

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
    return max(states, key=lambda state: state["global_step"])["log_history"]


def _read_state(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        return {name: state[name] for name in ("global_step", "log_history")}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"`{path}` must be the state of a trainer, got another file ({error!r}).") from error


def curve(log: Log, figure: str) -> tuple[list[int], list[float]]:
    """Updates at which a log tells a figure, and its values."""
    points = {entry["step"]: entry[figure] for entry in log if figure in entry}
    return list(points), list(points.values())


def draw_curves(log: Log, others: dict[str, Log] | None = None, *, label: str = "this run") -> Figure:
    """Curves of a run: validation perplexity beside training loss and learning rate.

    Args:
        log: The run's log.
        others: Logs of runs to compare with, by the label of their validation curve.
        label: Of this run's, where there are others.

    Raises:
        ImportError: If matplotlib is missing.
        ValueError: If a log has nothing to draw.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure  # without pyplot: drawn by Agg, whatever the machine's screen
    except ImportError as error:
        raise ImportError(
            "`matplotlib` must be installed to draw curves, got none. Run: pip install 'vaswani-transformer[viz]'"
        ) from error
    logs = {label: log, **(others or {})}
    for name, entries in logs.items():
        if not curve(entries, "eval_perplexity")[0]:
            raise ValueError(f"`{name}` must have validations in its log, got none. Train with validation data.")
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=_SIZE, dpi=_PIXELS_PER_INCH, layout="constrained")
        axes = figure.subplot_mosaic(
            [["validation", "training"], ["validation", "rate"]], width_ratios=(3, 2), height_ratios=(3, 2)
        )
        _draw_validation(axes["validation"], logs)
        _draw_training(axes["training"], axes["rate"], log)
    return figure


def _draw_validation(axes: Axes, logs: dict[str, Log]) -> None:
    """Validation perplexity of all runs on a logarithmic axis."""
    from matplotlib.ticker import LogLocator, NullLocator

    for index, (name, log) in enumerate(logs.items()):
        style = {"color": _COLORS[index % len(_COLORS)], "linestyle": _STYLES[index % len(_STYLES)]}
        few = {"marker": "o", "markersize": 4} if len(curve(log, "eval_perplexity")[0]) < 15 else {}
        axes.plot(*curve(log, "eval_perplexity"), label=name, linewidth=1.8, zorder=3 - index / 100, **style, **few)
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low > 8 else range(1, 10)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set(xlabel="updates", ylabel="perplexity per target token", title="Validation, logarithmic scale")
    if len(logs) > 1:
        axes.legend()


def _draw_training(axes: Axes, rate: Axes, log: Log) -> None:
    """Negative log-likelihood over the learning rate, on the same updates."""
    axes.plot(*curve(log, "nll"), color=_COLORS[0], linewidth=1.2)
    axes.set(ylabel="nll, nats per token", title="Training")
    axes.tick_params(labelbottom=False)
    rate.sharex(axes)
    rate.plot(*curve(log, "learning_rate"), color=_COLORS[0], linewidth=1.2)
    rate.xaxis.set_major_formatter("{x:,.0f}")
    rate.set(xlabel="updates", ylabel="learning rate", ylim=(0, None))
    rate.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)


def write_card_with_curves(
    run: str | Path, *, output: str | Path | None = None, name: str | None = None, compare: Sequence[str] = ()
) -> list[Path]:
    """Writes a run's curves and the card that shows them, and returns the paths of card and picture.

    Args:
        run: Folder of the run.
        output: The card, with the picture beside it under the same stem; None is README.md and training_curves.png
            in the run's folder.
        name: Name of the model; None is the folder's.
        compare: Other runs, each as "LABEL=FOLDER".

    Raises:
        FileNotFoundError: If a run has no log, or the run to describe is not finished.
        ValueError: If a file is not what its name says, or the card is another's.
        ImportError: If matplotlib is missing.
    """
    card = Path(run) / CARD_FILE if output is None else Path(output)
    picture = card.with_name(CURVES_FILE) if output is None else card.with_suffix(".png")
    make_card(run)  # raises before anything is written
    check_outputs({"output": card, "picture": picture})
    if card.exists() and not is_own_card(card):
        raise ValueError(f"`output` must be new or a card of a run, got {card} of other origin. Pass another file.")
    label = name or Path(run).resolve().name
    figure = draw_curves(read_log(run), _read_others(compare, label), label=label)
    with open_output(picture) as stream:
        figure.savefig(stream, format="png")
    write_card(run, output=card, name=name, picture=picture.name)
    return [card, picture]


def _read_others(compare: Sequence[str], label: str) -> dict[str, Log]:
    """Logs of the runs to compare with, by labels that differ from each other and from the own one."""
    others: dict[str, Log] = {}
    for text in compare:
        other, separator, folder = text.partition("=")
        if not (other and separator and folder) or other in (label, *others):
            raise ValueError(f"`compare` must be LABEL=FOLDER with a label of its own, got {text!r}. Name the curve.")
        others[other] = read_log(folder)
    return others


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the script and returns its exit code, 2 for wrong input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN", help="folder of a finished run")
    parser.add_argument("--output", metavar="FILE.md", help="the card (default: README.md in the run's folder)")
    parser.add_argument("--name", help="name of the model (default: the folder's)")
    parser.add_argument(
        "--compare",
        nargs="+",
        default=[],
        metavar="LABEL=RUN",
        help="other runs whose validations are drawn, too, as far as they went",
    )
    args = parser.parse_args(argv)
    if args.name is not None and args.output is None:
        parser.error("--name needs --output: the card in a run's folder bears the folder's name")
    try:
        paths = write_card_with_curves(args.run, output=args.output, name=args.name, compare=args.compare)
    except (ImportError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("written:", *paths)
    return 0


if __name__ == "__main__":
    sys.exit(main())
