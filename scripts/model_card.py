# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Writes the card of a run with its training curves, anywhere and beside those of other runs; needs the extra viz.

python scripts/model_card.py runs/my-model
python scripts/model_card.py runs/my-model --output model_cards/my-model.md --compare "learning rate 0.001=runs/slow"
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from vaswani_transformer.evaluation.outputs import check_outputs, save_figure
from vaswani_transformer.files import CARD_FILE, CURVES_FILE
from vaswani_transformer.training.card import make_card, write_card
from vaswani_transformer.training.curves import Log, draw_curves, read_log
from vaswani_transformer.training.folder import is_own_card


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
    save_figure(figure, picture)
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
