# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""How all pictures of the package look; matplotlib is the extra [viz]."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..extras import requiring

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Of Okabe and Ito, who chose them for colour-blind readers; the styles tell the curves apart in grey, too.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
LINE_STYLES = ("-", "--", "-.", ":")
_PIXELS_PER_INCH = 120
_FONT = {"font.size": 12, "axes.titlesize": 12, "axes.labelsize": 12, "legend.fontsize": 11, "axes.grid": True}
_STYLE = {**_FONT, "grid.color": "#dddddd", "axes.spines.top": False, "axes.spines.right": False}


@contextlib.contextmanager
def new_figure(width: float = 10, height: float = 5.4) -> Iterator[Figure]:
    """An empty figure to draw into; what is drawn inside the `with` block has the package's style.

    It is made without pyplot: drawn by Agg, whatever the machine's screen, and freed like any other object.

    Args:
        width: In inches, of 120 pixels.
        height: In inches.

    Raises:
        ImportError: If matplotlib is missing.
    """
    check_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):  # type: ignore[arg-type]  # its keys are 300 literals
        yield Figure(figsize=(width, height), dpi=_PIXELS_PER_INCH, layout="constrained")


def check_matplotlib() -> None:
    """Raises ImportError if matplotlib is missing: before the work whose results are to be drawn."""
    with requiring("viz", "to draw"):
        import matplotlib.figure  # noqa: F401
