# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import re

import pytest
from huggingface_hub import ModelCard
from tiny import make_config, make_model

from vaswani_transformer.training.card import keep_card, write_card
from vaswani_transformer.training.recipes import Recipe, get_recipe

RESULTS = {
    "train_pairs": 49_000,
    "train_dropped_pairs": {"empty": 0, "source_too_long": 12},
    "train_steps": 70,
    "num_parameters": 12_345,
    "num_averaged_snapshots": 4,
    "best_checkpoint": None,
    "train_source_tokens": 20_000,
    "train_target_tokens": 30_000,
    "train_tokens_per_second": 25.0,
    "train_device_seconds": 4000.0,
    "train_num_devices": 2,
    "train_device": "Calculator, float32",
    "train_matrix_flops_per_second": 3e9,
}


@pytest.fixture
def folder(tmp_path):
    """An empty run's folder of a name that shows."""
    (tmp_path / "my-run").mkdir()
    return tmp_path / "my-run"


def written(folder, recipe=None, **results):
    """Text of the card of a run."""
    path = write_card(folder, recipe or get_recipe("quickstart"), make_config(), {**RESULTS, **results})
    return path.read_text(encoding="utf-8")


def rows(text):
    """Cells of all tables of a card by their first one."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1:] for cells in lines}


def test_front_matter_is_what_the_hub_reads(folder):
    written(folder)
    data = ModelCard.load(folder / "README.md").data
    assert (data.language, data.library_name, data.pipeline_tag) == (["en", "de"], "transformers", "translation")
    assert (data.license, data.tags[0]) == (None, "vaswani_transformer")


def test_front_matter_names_no_language_where_none_is_known(folder):
    written(folder, Recipe())
    assert ModelCard.load(folder / "README.md").data.language is None


def test_card_tells_recipe_changes_data_updates_and_hardware(folder):
    found = rows(written(folder, get_recipe("quickstart", max_steps=70, dropout=0.2, max_new_tokens_over_source=2)))
    assert found["recipe"] == ["`quickstart`"]
    assert found["changed values"] == ["`dropout` 0.2, `max_steps` 70, `max_new_tokens_over_source` 2"]
    assert found["data"] == ["`builtin`"]
    assert found["training pairs"] == ["49,000; dropped: 12 source_too_long"]
    assert found["updates"] == ["70", "100,000", "300,000"]
    assert found["weights"] == ["the mean of the last 4 snapshots"]
    assert found["hardware"] == ["2 x Calculator, float32"]


def test_card_names_files_without_their_folders(folder):
    recipe = Recipe(train_source="/home/me/train.en", train_target="/home/me/train.de")
    text = written(folder, recipe)
    assert rows(text)["data"] == ["`train.en`, `train.de`"]
    assert "/home/me" not in text


@pytest.mark.parametrize(
    ("results", "weights"),
    [
        ({"num_averaged_snapshots": 0}, "those of the last update"),
        ({"best_checkpoint": "/runs/a/checkpoint-50"}, "those of the best checkpoint, `checkpoint-50`"),
    ],
)
def test_card_tells_which_weights_these_are(folder, results, weights):
    assert rows(written(folder, **results))["weights"] == [weights]


def test_card_tells_the_cost_beside_the_papers(folder):
    found = rows(written(folder))
    assert found["tokens, both sides"][0] == "50,000"
    assert found["hours"] == ["0.556", "12", "84"]  # 50,000 tokens / 25 a second
    assert found["device hours"][0] == "1.11"
    assert found["matrix rate of a device, TFLOP/s"] == ["0.003", "9.5", "9.5"]
    assert found["FLOPs, device seconds x matrix rate"] == ["1.20e13", "3.28e18", "2.30e19"]


def test_card_without_counts_has_no_cost(folder):
    uncounted = {name: value for name, value in RESULTS.items() if not name.startswith("train_m")}
    path = write_card(folder, get_recipe("quickstart"), make_config(), uncounted)
    assert "Table 2" not in path.read_text(encoding="utf-8")


def test_use_on_the_card_runs_in_five_lines(folder, tiny_tokenizer, monkeypatch, capsys):
    make_model().save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    (code,) = re.findall(r"```python\n(.*?)```", written(folder), flags=re.DOTALL)
    monkeypatch.chdir(folder.parent)
    exec(code.replace("path/to/", ""), {})
    assert capsys.readouterr().out.endswith("\n")
    assert len(code.strip().splitlines()) == 5


def test_own_card_is_written_again_and_another_is_kept(folder):
    written(folder)
    assert "| updates | 71 |" in written(folder, train_steps=71)
    (folder / "README.md").write_text("# Mine\n", encoding="utf-8")
    assert write_card(folder, get_recipe("quickstart"), make_config(), RESULTS) is None
    assert (folder / "README.md").read_text(encoding="utf-8") == "# Mine\n"


# ---- pushing ----


def test_push_keeps_the_card_and_adds_what_is_given(folder):
    text = written(folder)
    assert keep_card(folder)
    assert (folder / "README.md").read_text(encoding="utf-8") == text
    assert keep_card(folder, license="mit", tags=["mine", "vaswani_transformer"])
    card = ModelCard.load(folder / "README.md")
    assert (card.data.license, card.data.tags[-1], card.data.tags.count("vaswani_transformer")) == ("mit", "mine", 1)
    assert card.text.strip() == text.split("---\n", 2)[2].strip()


def test_folder_without_a_card_keeps_none(folder):
    assert not keep_card(folder)


def test_trainer_keeps_the_runs_card_when_it_pushes(make_trainer, tmp_path):
    trainer = make_trainer()
    text = written(tmp_path / "run")
    trainer.create_model_card(model_name="run")
    assert (tmp_path / "run" / "README.md").read_text(encoding="utf-8") == text


def test_trainer_writes_the_librarys_draft_and_renews_it(make_trainer, tmp_path):
    trainer = make_trainer()
    trainer.create_model_card(model_name="first", license="mit")
    trainer.create_model_card(model_name="second")
    text = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    assert "# second" in text and "# first" not in text
