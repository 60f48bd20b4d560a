# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The library's trackers (TensorBoard and others): whether they can be used, before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence

from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK


def tracker_names(report_to: str | Sequence[str]) -> list[str]:
    """The trackers of `report_to`, which may be a single name, too; "none" is none, as in the library."""
    return [name for name in ([report_to] if isinstance(report_to, str) else report_to) if name != "none"]


def check_trackers(report_to: str | Sequence[str]) -> None:
    """Refuses trackers that are not known or not installed.

    Args:
        report_to: As for `tracker_names`.

    Raises:
        ValueError: If the library does not know a name; the message lists those it knows.
        ImportError: If a tracker's package is missing.
    """
    for name in tracker_names(report_to):
        if name not in INTEGRATION_TO_CALLBACK:
            known = ", ".join(sorted(INTEGRATION_TO_CALLBACK))
            raise ValueError(f"`report_to` must be one of {known}, got {name!r}. Pass a known name.")
        try:
            INTEGRATION_TO_CALLBACK[name]()
        except (ImportError, RuntimeError) as error:
            raise ImportError(
                f"`report_to` must name a tracker that is installed, got {name} without its package ({error}). "
                f"Run: pip install {name}"
            ) from error
