# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Processes that share one work: batches are dealt out to them, and every process holds all results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import torch

from ..extras import requiring

Batch = TypeVar("Batch")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Processes:
    """The processes that torchrun or accelerate started, as one of them sees them.

    Args:
        rank: Number of this process; 0 is the main one, which alone writes and speaks.
        count: Number of processes.
        device: This process's own; None leaves the choice to whoever loads the model.
    """

    rank: int = 0
    count: int = 1
    device: torch.device | None = None

    @property
    def is_main(self) -> bool:
        """Whether this process writes and speaks."""
        return self.rank == 0

    def map(self, compute: Callable[[Batch], Result], batches: list[Batch]) -> Iterable[Result]:
        """What `compute` makes of each batch, in order; each process computes its share, and gets all."""
        if self.count == 1:
            return map(compute, batches)
        from accelerate.utils import gather_object

        shares = gather_object([[compute(batch) for batch in batches[self.rank :: self.count]]])
        return [shares[number % self.count][number // self.count] for number in range(len(batches))]

    def from_main(self, number: int) -> int:
        """The main process's number, in every process."""
        if self.count == 1:
            return number
        from accelerate.utils import broadcast_object_list

        return int(broadcast_object_list([number])[0])

    def leave(self) -> None:
        """Ends the connection between the processes."""
        if self.count > 1:
            torch.distributed.destroy_process_group()


ALONE = Processes()


def join_processes() -> Processes:
    """All processes that torchrun or accelerate started, each of which must call this; else this one alone.

    Raises:
        ImportError: There are several and accelerate is not installed.

    Example:
        >>> translate_file(model, tokenizer, "newstest2014.en", "newstest2014.de", processes=join_processes())
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return ALONE
    with requiring("train", "to translate with several processes"):
        from accelerate import PartialState
    state = PartialState(cpu=not torch.cuda.is_available())
    return Processes(state.process_index, state.num_processes, state.device)
