# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import dataclasses
import json
import re
import shlex
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from tiny import make_config

from vaswani_transformer import cli
from vaswani_transformer.hub import card as cards
from vaswani_transformer.hub.card import add_metadata, make_card, refresh_card, write_card
from vaswani_transformer.inference.evaluate import describe_corpus
from vaswani_transformer.recipe import Recipe, get_recipe

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
    "train_runtime": 2000.0,
    "train_flops_counted": 1.5e12,
    "train_flops_paper": 1.2e13,
    "train_model_flops_utilization": 0.125,
}
TEST_RESULTS = {
    "test_num_sentences": 1000,
    "test_sacrebleu": 41.02345678901234,
    "test_sacrebleu_signature": "nrefs:1|case:mixed|tok:13a",
    "test_chrf": 63.5,
    "test_chrf_signature": "nrefs:1|nc:6",
    "test_paper_bleu": 1e-09,
    "test_paper_bleu_signature": "nrefs:1|tok:moses-de|compounds:split|smooth:none",
    "test_tokenized_bleu": 40,
    "test_tokenized_bleu_signature": "nrefs:1|case:lc|tok:none",
    "test_num_beams": 4,
    "test_length_penalty": 0.6,
    "test_length_penalty_offset": 5,
    "test_max_new_tokens_over_source": 50,
    "test_baselines": {"copy": 1.0},
}
METRICS = ["sacrebleu", "chrf", "paper_bleu", "tokenized_bleu"]


@pytest.fixture
def folder(tmp_path):
    """An empty run's folder of a name that shows."""
    (tmp_path / "my-run").mkdir()
    return tmp_path / "my-run"


def finish(folder, recipe=None, **results):
    """Leaves in a folder what a card needs of a run."""
    (recipe or get_recipe("quickstart")).save(folder)
    make_config().save_pretrained(folder)
    (folder / "train_results.json").write_text(json.dumps({**RESULTS, **results}), encoding="utf-8")


BUILTIN_TEST = {"dataset": "builtin", "split": "test"}


def evaluate(folder, file="test_results.json", *, corpus=BUILTIN_TEST, without=(), **results):
    """Leaves in a folder what an evaluation writes, without the values of some metrics."""
    tested = {"test_corpus": corpus, "test_data": describe_corpus(corpus)}
    tested |= {**TEST_RESULTS, **results}
    kept = {name: value for name, value in tested.items() if not name.startswith(without)}
    (folder / file).write_text(json.dumps(kept), encoding="utf-8")


def files(source, target):
    return {"source_file": source, "target_file": target}


def written(folder, recipe=None, **results):
    """Text of the card of a run."""
    finish(folder, recipe, **results)
    return write_card(folder).read_text(encoding="utf-8")


def rows(text):
    """Cells of all tables of a card by their first one."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1:] for cells in lines}


def test_front_matter_is_what_the_hub_reads(folder):
    written(folder)
    data = ModelCard.load(folder / "README.md").data
    assert (data.language, data.library_name, data.pipeline_tag) == (
        ["en", "de"],
        "transformers",
        "translation",
    )
    assert (data.tags[0], data.eval_results) == ("vaswani_transformer", None)


def test_front_matter_names_languages_without_region_and_script_which_the_hub_refuses(folder):
    written(folder, Recipe(source_language="pt-BR", target_language="zho_Hans"))
    assert ModelCard.load(folder / "README.md").data.language == ["pt", "zho"]


def test_front_matter_names_no_language_where_none_is_known(folder):
    written(folder, Recipe())
    assert ModelCard.load(folder / "README.md").data.language is None


def test_card_tells_recipe_changes_data_updates_hardware_and_code(folder):
    recipe = get_recipe("quickstart", max_steps=70, dropout=0.2, max_new_tokens_over_source=2)
    found = rows(written(folder, recipe, train_code="0.1.0 (6ff7b8d0c1e2)"))
    assert found["recipe"] == ["`quickstart`"]
    assert found["data"] == ["`builtin`"]
    assert found["training pairs"] == ["49,000; dropped: 12 source_too_long"]
    assert found["updates"] == ["70", "100,000", "300,000"]
    assert found["weights"] == ["the mean of the last 4 snapshots"]
    assert found["hardware"] == ["2 x Calculator, float32"]
    assert found["code"] == ["vaswani-transformer 0.1.0 (6ff7b8d0c1e2)"]


@pytest.mark.parametrize("used", [True, False])
def test_card_licenses_and_attributes_the_builtin_corpus_where_it_was_used(folder, used):
    files = {} if used else {"train_source": "a.en", "train_target": "a.de"}
    text = written(folder, get_recipe("quickstart", **files))
    found = rows(text)
    assert ModelCard(text).data.license == ("cc-by-2.0" if used else None)
    assert ("The license of the model is `cc-by-2.0`." in text) == used
    assert ("attribution of the data" in found) == used
    if used:
        (text,) = found["attribution of the data"]
        for needed in (
            "tatoeba.org",
            "www.manythings.org/anki",
            "licenses/by/2.0/fr/",
            "licenses/by/2.0/)",
        ):
            assert needed in text


LAST = {"last_eval_perplexity": 12.3456, "last_eval_nll": 2.5133, "last_eval_runtime": 3.0}
FIGURES = "perplexity 12.346, nll 2.513; of the weights at that update"
AVERAGE = {"average_eval_perplexity": 12.3456, "average_eval_sacrebleu": 30.0}


@pytest.mark.parametrize(
    ("averaged", "best", "figures", "row", "text"),
    [
        (0, None, {}, "weights", "those of the last update"),
        (0, "/a/checkpoint-50", {}, "weights", "those of the best checkpoint, `checkpoint-50`"),
        (0, None, LAST, "last validation", FIGURES),
        (0, "/a/b", LAST, "last validation", f"{FIGURES}, not the best checkpoint's"),
        (4, None, LAST, "last validation", f"{FIGURES}, before averaging"),
        (
            4,
            None,
            AVERAGE,
            "validation of the average",
            "perplexity 12.346, sacrebleu 30.000 (greedy)",
        ),
    ],
)
def test_card_tells_whose_the_weights_and_the_figures_are(
    folder, averaged, best, figures, row, text
):
    card = written(folder, num_averaged_snapshots=averaged, best_checkpoint=best, **figures)
    assert rows(card)[row] == [text]


def limits(text):
    return text.partition("## Limits")[2].partition("\n## ")[0]


def test_card_tells_its_limits_from_the_data_of_the_training(folder):
    text = limits(written(folder, get_recipe("quickstart", max_tokens_per_sentence=1200)))
    assert "49,000 pairs" in text
    assert "more than 1,200 tokens" in text


def test_card_tells_no_longest_sentence_where_there_was_no_limit(folder):
    assert "tokens" not in limits(
        written(folder, get_recipe("quickstart", max_tokens_per_sentence=None))
    )


def test_card_tells_the_cost_beside_the_papers(folder):
    found = rows(written(folder))
    assert found["source tokens"] == ["20,000", "2,500,000,000", "7,500,000,000"]
    assert found["hours"] == ["0.556", "12", "84"]
    assert (found["devices"], found["device hours"]) == (["2", "8", "8"], ["1.11", "96", "672"])
    assert found["model FLOPs utilization"] == ["12.5%", "28.8%", "41.9%"]
    assert found["FLOPs, counted"] == ["1.50e12", "9.46e17", "9.64e18"]
    assert found["FLOPs, device seconds x the device's rate"] == ["1.20e13", "3.3e18", "2.3e19"]


def test_card_without_counts_has_no_cost(folder):
    assert "Table 2" not in written(folder, train_flops_counted=None)


def test_card_names_the_versions_that_trained_and_the_paper(folder):
    assert "Framework versions" not in written(folder)
    text = written(folder, train_versions={"transformers": "5.23.0", "torch": "2.13.0"})
    assert "- transformers 5.23.0\n- torch 2.13.0\n" in text
    assert "@inproceedings{vaswani2017attention,\n" in text


def test_card_shows_the_picture_in_the_folder(folder):
    assert "![" not in written(folder)
    (folder / "training_curves.png").touch()
    assert "![Training curves](training_curves.png)" in str(make_card(folder))


def test_own_card_is_written_again_and_another_is_kept(folder):
    written(folder)
    assert "| updates | 71 |" in written(folder, train_steps=71)
    (folder / "README.md").write_text("# Mine\n", encoding="utf-8")
    assert write_card(folder) is None
    assert (folder / "README.md").read_text(encoding="utf-8") == "# Mine\n"


@pytest.mark.parametrize("name", ["recipe.json", "config.json", "train_results.json"])
def test_unfinished_run_is_refused_by_what_it_lacks(folder, name):
    finish(folder)
    (folder / name).unlink()
    with pytest.raises(OSError, match=name):
        make_card(folder)


# ---- scores ----


def test_model_index_holds_every_figure_exactly_with_signature_and_search(folder):
    finish(folder)
    evaluate(folder)
    found = make_card(folder).data.eval_results
    assert [result.metric_type for result in found] == METRICS
    for result in found:
        metric = result.metric_type
        assert (result.task_type, result.dataset_type, result.dataset_split) == (
            "translation",
            "builtin",
            "test",
        )
        assert result.metric_value == TEST_RESULTS[f"test_{metric}"]
        assert result.metric_args == {
            "signature": TEST_RESULTS[f"test_{metric}_signature"],
            "num_beams": 4,
            "length_penalty": 0.6,
            "length_penalty_offset": 5,
            "max_new_tokens_over_source": 50,
        }


def test_card_has_only_the_metrics_that_were_measured_and_a_dash_for_one_of_an_older_version(
    folder,
):
    finish(folder)
    evaluate(folder, without=("test_paper_bleu", "test_tokenized_bleu"))
    text = str(make_card(folder))
    assert rows(text)["test set"] == ["sentences", "sacreBLEU", "chrF", "search"]
    assert rows(text)["`builtin, split test`"][1:3] == ["41.02", "63.50"]
    assert [each.metric_type for each in ModelCard(text).data.eval_results] == METRICS[:2]
    evaluate(folder, "test_results_old.json", corpus=files("a.en", "a.de"))
    text = str(make_card(folder))
    assert rows(text)["`builtin, split test`"][1:5] == ["41.02", "63.50", "-", "-"]
    assert rows(text)["`a.en, a.de`"][1:5] == ["41.02", "63.50", "0.00", "40.00"]


def test_results_of_two_test_sets_are_told_apart(folder):
    finish(folder, get_recipe("quickstart", test_split="2016"))
    evaluate(folder, corpus={"dataset": "builtin", "split": "2016"})
    news = files("/data/news/test.en", "/data/news/test.de")
    evaluate(folder, "test_results_news.json", corpus=news, test_sacrebleu=7.25)
    text = str(make_card(folder))
    found = [
        result for result in ModelCard(text).data.eval_results if result.metric_type == "sacrebleu"
    ]
    assert [
        (result.dataset_name, result.dataset_split, result.metric_value) for result in found
    ] == [
        ("builtin, split 2016", "2016", TEST_RESULTS["test_sacrebleu"]),
        ("test.en, test.de", None, 7.25),
    ]
    table = rows(text)
    assert table["`builtin, split 2016`"][:3] == ["1,000", "41.02", "63.50"]
    assert table["`test.en, test.de`"][:3] == ["1,000", "7.25", "63.50"]


@pytest.mark.parametrize(
    ("data", "datasets"),
    [
        ({"dataset": "wmt/wmt14", "dataset_config": "de-en"}, ["wmt/wmt14"]),
        ({"dataset": "builtin"}, None),
        ({"dataset": "/data/wmt14"}, None),
        ({"dataset": "../wmt14"}, None),
        ({"dataset": "wmt/wmt14", "train_source": "train.en", "train_target": "train.de"}, None),
    ],
)
def test_hub_links_the_model_to_training_data_that_it_holds(folder, data, datasets):
    assert ModelCard(written(folder, Recipe(**data))).data.datasets == datasets


@pytest.mark.parametrize(
    ("search", "text"),
    [
        (
            {"test_length_penalty_offset": 5.0},
            "4 beams, length penalty ((5 + length) / 6)^0.6, at most 50 tokens over the source",
        ),
        (
            {"test_num_beams": 1, "test_length_penalty": 1.0, "test_length_penalty_offset": 0.0},
            "1 beam, length penalty length^1.0, at most 50 tokens over the source",
        ),
        (
            {
                "test_max_new_tokens_over_source": None,
                "test_max_new_tokens": 200,
                "test_length_penalty_offset": None,
            },
            "4 beams, length penalty length^0.6, at most 200 tokens",
        ),
    ],
)
def test_scores_tell_their_search_and_signatures(folder, search, text):
    finish(folder)
    evaluate(folder, **search)
    card = str(make_card(folder))
    assert rows(card)["`builtin, split test`"][-1] == text
    assert "- chrF: `nrefs:1|nc:6`\n" in card
    assert "- paper BLEU (tokenized): `nrefs:1|tok:moses-de|compounds:split|smooth:none`\n" in card


def test_card_that_cannot_be_read_is_a_warning_after_work_that_is_done(folder, caplog):
    text = written(folder)
    path = folder / "README.md"
    path.write_text(
        text.replace("pipeline_tag: translation", "pipeline_tag: translation\nlicense: [mit")
    )
    broken = path.read_text(encoding="utf-8")
    with caplog.at_level("WARNING", logger="vaswani_transformer"):
        assert refresh_card(folder) is None
    assert path.read_text(encoding="utf-8") == broken
    assert "No card was written" in caplog.text


def test_card_that_is_no_text_is_anothers(folder):
    finish(folder)
    (folder / "README.md").write_bytes(b"\xff\xfe not UTF-8")
    assert refresh_card(folder) is None


# ---- repeating a run ----


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(
            name="mine",
            description="A model of $HOME's, 'quoted': ñ",
            train_source="/a b/x.en",
            train_target="x.de",
        ),
        Recipe(
            name="custom", dataset="wmt/wmt14-1.5", dataset_config="de-en", attention_bias=False
        ),
        Recipe(name="custom", dataset="builtin", tokenizer="me/tokenizer", source_language="no"),
        get_recipe(
            "quickstart", max_tokens_per_sentence=None, length_penalty=-1e-5, adam_epsilon=1e-30
        ),
    ],
    ids=lambda recipe: recipe.name,
)
def test_recipe_on_the_card_is_the_recipe_without_folders(folder, recipe):
    (text,) = re.findall("```yaml\n(.*?)```", written(folder, recipe), flags=re.DOTALL)
    path = folder.parent / "recipe.yaml"
    path.write_text(text if "name:" in text else f"name: {recipe.name}\n{text}", encoding="utf-8")
    files = {name: getattr(recipe, name) for name in ("train_source", "train_target")}
    cut = {name: file and Path(file).name for name, file in files.items()}
    assert get_recipe(path) == dataclasses.replace(recipe, **cut)


@pytest.mark.parametrize("device", ["Calculator, bfloat16", "Calculator, float32"])
def test_commands_on_the_card_are_commands(folder, device):
    (code,) = re.findall("```bash\n(.*?)```", written(folder, train_device=device), flags=re.DOTALL)
    train, evaluate = (
        cli.build_parser().parse_args(shlex.split(line)[1:]) for line in code.splitlines()
    )
    assert (train.recipe, train.output_dir, train.bf16) == (
        "recipe.yaml",
        "my-run",
        "bfloat16" in device,
    )
    assert evaluate.model == "my-run"


def test_card_holds_no_path_of_this_machine(folder):
    recipe = Recipe(
        dataset="/home/me/corpus", validation_pairs="/home/me/v.csv", tokenizer="/home/me/tokenizer"
    )
    finish(folder, recipe, best_checkpoint=f"{folder}/checkpoint-5")
    evaluate(folder, corpus=files("/home/me/test.source", "/home/me/test.target"))
    evaluate(folder, "test_results_2.json", corpus={"dataset": "/home/me/corpus", "split": "test"})
    text = str(make_card(folder))
    assert rows(text)["data"] == ["`corpus`"]
    assert "/home" not in text
    assert str(folder.parent) not in text


# ---- pushing ----


def test_push_keeps_the_card_and_adds_what_is_given(make_trainer, tmp_path):
    trainer = make_trainer()
    (tmp_path / "run").mkdir(exist_ok=True)
    text = written(tmp_path / "run")
    trainer.create_model_card(model_name="run")
    assert (tmp_path / "run" / "README.md").read_text(encoding="utf-8") == text
    trainer.create_model_card(license="mit", tags=["mine", "vaswani_transformer"])
    card = ModelCard.load(tmp_path / "run" / "README.md")
    assert (card.data.license, card.data.tags[-1], card.data.tags.count("vaswani_transformer")) == (
        "mit",
        "mine",
        1,
    )
    assert card.text.strip() == text.split("---\n", 2)[2].strip()


@pytest.mark.parametrize("earlier", [None, "cc-by-2.0"])
def test_card_written_again_keeps_what_a_push_added(folder, earlier):
    finish(folder, None if earlier else Recipe())
    evaluate(folder)
    card = ModelCard.load(write_card(folder))
    assert card.data.license == earlier
    add_metadata(card, {"license": "mit", "tags": "mine"})
    card.save(folder / "README.md")
    (folder / "test_results.json").unlink()
    data = ModelCard.load(write_card(folder)).data
    assert (data.license, data.tags, data.eval_results) == (
        "mit",
        ["vaswani_transformer", "attention-is-all-you-need", "mine"],
        None,
    )


def test_trainer_writes_the_librarys_draft_and_renews_it(make_trainer, tmp_path):
    trainer = make_trainer()
    trainer.model.config.source_language, trainer.model.config.target_language = "en", "de"
    trainer.create_model_card(model_name="first", license="mit")
    trainer.create_model_card(model_name="second")
    card = ModelCard.load(tmp_path / "run" / "README.md")
    assert "# second" in card.text and "# first" not in card.text
    assert (card.data.pipeline_tag, card.data.language) == ("translation", ["en", "de"])


def test_data_set_that_is_a_folder_here_is_no_id_of_the_hub(tmp_path, monkeypatch):
    (tmp_path / "wmt" / "own").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    kept = {"test_corpus": {"dataset": "wmt/wmt14", "split": "test"}, "test_data": "mine"}
    values = {"dataset": "wmt/own", "tokenizer": "wmt/own"}
    assert cards.without_folders({**values, **kept}) == {**dict.fromkeys(values, "own"), **kept}


def test_results_without_the_name_of_their_test_set_lose_their_folders():
    corpus = files("/home/me/a.en", "/home/me/a.de")
    assert cards.without_folders({"test_corpus": corpus}) == {"test_corpus": files("a.en", "a.de")}
