# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What the choices of section 6.1 are worth: BLEU over averaged snapshots, beams, or alpha of the length penalty.

Paper: section 6.1, which chose beam and alpha on the development set.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel

from ..analysis.drawing import COLORS, LINE_STYLES, new_figure
from ..analysis.text_table import align_columns, wrap
from ..evaluation.loading import load_for_inference
from ..evaluation.report import describe_search, evaluate_model, length_ratio, load_evaluation_set
from ..evaluation.translate import decoding_overrides
from ..search_vaswani_transformer import GNMT_OFFSET
from .averaging import average_snapshots, list_snapshots

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Choice:
    """A choice of section 6.1.

    Args:
        values: Tried without others being asked for; of averaged snapshots as many as there are.
        of_paper: What the paper chose, with what for.
        label: What the axis of a picture says.
    """

    values: tuple[float, ...]
    of_paper: dict[float, str]
    label: str


CHOICES: dict[str, Choice] = {
    "num_averaged_snapshots": Choice(
        (1, 2, 3, 5, 7, 10, 15, 20), {5: " for base", 20: " for big"}, "averaged snapshots, the newest"
    ),
    "num_beams": Choice((1, 2, 3, 4, 6, 8, 12, 16), {4: ""}, "beams"),
    "length_penalty": Choice((0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5), {0.6: ""}, "alpha of the length penalty"),
}
_METRICS = {"test_sacrebleu": "sacreBLEU", "test_paper_bleu": "paper BLEU"}


def sweep(
    choice: str,
    model: str | Path,
    corpus: Mapping[str, Any],
    *,
    values: Sequence[float] | None = None,
    device: str | torch.device | None = None,
    **options: Any,
) -> Iterator[dict[str, Any]]:
    """Results of a model on one test set for each value of one choice.

    Args:
        choice: A key of `CHOICES`.
        model: Folder of a run; it needs its snapshots where their number is the choice.
        corpus: Arguments of `load_evaluation_set`, usually of the validation set.
        values: Of the choice, tried in ascending order; None is those of `CHOICES`.
        device: Where the model runs; None means a GPU if there is one.
        **options: Of `evaluate_model`: the other choices of the search, batch size and progress.

    Returns:
        For each value the results of `evaluate_model`, with the value under the choice's name.

    Raises:
        ValueError: There is no such choice, a value is out of its range, or the choice is among the options, too.
        FileNotFoundError: The model, its snapshots or a file of the corpus do not exist.
    """
    if choice not in CHOICES:
        raise ValueError(f"`choice` must be one of {', '.join(CHOICES)}, got {choice!r}. Pass one of them.")
    if options.get(choice) is not None:
        raise ValueError(f"`{choice}` must be left out while it is varied, got {options[choice]}. Pass `values` only.")
    snapshots = list_snapshots(model)
    values = _checked_values(choice, values, len(snapshots), model)
    loaded, tokenizer = load_for_inference(model, device=device)
    languages = {name: getattr(loaded.config, name) for name in ("source_language", "target_language")}
    test_set = load_evaluation_set(**{**languages, **corpus})
    test_set = dataclasses.replace(test_set, training_pairs=None)

    def measure(value: float) -> dict[str, Any]:
        varied: dict[str, Any] = {choice: value}
        if choice == "num_averaged_snapshots":
            _load_average(loaded, snapshots[-int(value) :])
            varied = {}
        results, _ = evaluate_model(loaded, tokenizer, test_set, **options, **varied)
        return {choice: value, **results}

    return map(measure, values)


def _load_average(model: PreTrainedModel, snapshots: Sequence[Path]) -> None:
    """Gives a model the mean of some snapshots, which hold a tied tensor once."""
    weights = average_snapshots(snapshots)
    if weights.keys() != dict(model.named_parameters()).keys():
        raise ValueError(f"`model` must have the tensors of its snapshots, got others in {snapshots[-1]}. Train anew.")
    model.load_state_dict(weights, strict=False)


def _checked_values(
    choice: str, values: Sequence[float] | None, num_snapshots: int, model: str | Path
) -> tuple[float, ...]:
    """The values to try, each of them possible, in ascending order."""
    chosen = CHOICES[choice].values if values is None else tuple(sorted(set(values)))
    if choice != "length_penalty":
        chosen = _whole(choice, chosen)
    if choice != "num_averaged_snapshots":
        for value in chosen:
            varied: dict[str, Any] = {choice: value}
            decoding_overrides(**varied)
        return chosen
    if num_snapshots == 0:
        raise FileNotFoundError(f"`model` must hold snapshots, got {model} without. Pass the folder of a run.")
    if values is None:
        return tuple(count for count in chosen if count <= num_snapshots)
    if wrong := [count for count in chosen if not 1 <= count <= num_snapshots]:
        raise ValueError(
            f"`values` must lie in [1, {num_snapshots}], the snapshots in {model}, got {wrong[0]}. Keep more of them "
            "in a training by a larger `num_averaged_snapshots`."
        )
    return chosen


def _whole(choice: str, values: Sequence[float]) -> tuple[int, ...]:
    if wrong := [value for value in values if not (math.isfinite(value) and value == int(value))]:
        raise ValueError(f"`values` must be whole numbers for {choice}, got {wrong[0]}. Pass others.")
    return tuple(map(int, values))


def format_sweep(choice: str, results: Sequence[Mapping[str, Any]]) -> str:
    """Scores over a choice as text, with what they are of."""
    header = (choice, *_METRICS.values(), "chrF", "length ratio", "seconds")
    rows = [
        (
            f"{result[choice]:g}",
            *(f"{result[metric]:.2f}" for metric in (*_METRICS, "test_chrf")),
            f"{length_ratio(result):.3f}",
            f"{result['test_runtime']:.1f}",
        )
        for result in results
    ]
    first = results[0]
    paper = " and ".join(f"{value:g}{purpose}" for value, purpose in _papers_choices(choice, first).items())
    varied = {"num_beams": {"test_num_beams": "N"}, "length_penalty": {"test_length_penalty": "alpha"}}
    notes = (
        f"{first['test_data']}, {first['test_num_sentences']:,} sentences; "
        f"{describe_search({**first, **varied.get(choice, {})})}."
        f"{f' The paper chose {paper}.' if paper else ''}"
    )
    return f"{align_columns([header, *rows])}\n\n{wrap(notes)}"


def _papers_choices(choice: str, result: Mapping[str, Any]) -> dict[float, str]:
    """What the paper chose, with what for; nothing where another length penalty than the paper's is varied."""
    is_other = choice == "length_penalty" and result["test_length_penalty_offset"] != GNMT_OFFSET
    return {} if is_other else CHOICES[choice].of_paper


def draw_sweep(choice: str, results: Sequence[Mapping[str, Any]]) -> Figure:
    """BLEU over a choice, with the paper's marked.

    Args:
        choice: A key of `CHOICES`.
        results: Of `sweep`.

    Raises:
        ImportError: If matplotlib is missing.
    """
    values = [result[choice] for result in results]
    with new_figure(8, 4.5) as figure:
        axes = figure.subplots()
        for index, (metric, name) in enumerate(_METRICS.items()):
            style: dict[str, Any] = {"color": COLORS[index], "linestyle": LINE_STYLES[index], "marker": "o"}
            axes.plot(values, [result[metric] for result in results], label=name, **style)
        shown = [value for value in _papers_choices(choice, results[0]) if min(values) <= value <= max(values)]
        for index, value in enumerate(shown):
            axes.axvline(value, color="#888888", linestyle=":", label="" if index else "the paper's choice")
        axes.set_xticks(values)
        axes.set(xlabel=CHOICES[choice].label, ylabel="BLEU", title=results[0]["test_data"])
        axes.legend()
    return figure
