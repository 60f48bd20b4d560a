# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""scripts/examples: each runs in a few steps on a tiny model and leaves behind what it says."""

import copy
import importlib.util
import json
import math
import re
from pathlib import Path

import pytest
import torch
from processes import ROOT
from safetensors.torch import load_file
from tiny import SENTENCES
from toy_language import naive_sums, tokenize
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from vaswani_transformer import cli
from vaswani_transformer.data import read_lines
from vaswani_transformer.export import export_marian
from vaswani_transformer.inference.translate import translate

pytest.importorskip("datasets", reason="needs the extra [train]")
pytest.importorskip("accelerate", reason="needs the extra [train]")

pytestmark = pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`")
EXAMPLES = ROOT / "scripts" / "examples"
FRENCH = [
    "Un été, deux femmes lisent un livre.",
    "Le garçon a été surpris par l'orage d'août.",
    "Où est la forêt ?",
]
ENGLISH = [
    "One summer, two women read a book.",
    "The boy was surprised by the storm.",
    "Where is the forest?",
]


def load_example(name):
    """The example as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_example(name, *tasks, **options):
    """Calls the example's `main` with a task and `--option value ...` of the keywords; True is a
    flag, a list several values.
    """
    words = list(tasks)
    for option, value in options.items():
        values = value if isinstance(value, list) else [] if value is True else [value]
        words += [f"--{option.replace('_', '-')}", *map(str, values)]
    load_example(name).main(words)


def mean_loss(folder, sources, targets):
    """Nats per target token of a saved model, sentence by sentence."""
    model, tokenizer = (
        auto.from_pretrained(folder) for auto in (AutoModelForSeq2SeqLM, AutoTokenizer)
    )
    rows = tokenize(tokenizer, list(zip(sources, targets, strict=True)))
    loss, _, tokens = naive_sums(model, rows, smoothing=0.0)
    return loss / tokens


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Options that name aligned text files, English-German or English-French."""
    folder = tmp_path_factory.mktemp("texts")

    def write(name, sentences):
        (folder / name).write_text("\n".join(sentences * 20) + "\n", encoding="utf-8")
        return folder / name

    english, german = write("en-de.en", SENTENCES[::2]), write("en-de.de", SENTENCES[1::2])
    return {
        "de": {"train_source": english, "train_target": german},
        "fr": {
            "train_source": write("en-fr.en", ENGLISH),
            "train_target": write("en-fr.fr", FRENCH),
        },
    }


# ---- fine_tune.py ----


@pytest.fixture(scope="module")
def tuning(checkpoint, texts):
    """Options of fine_tune.py."""
    pytest.importorskip("sacrebleu", reason="needs the extra [eval]")
    sides = texts["de"] | {
        name.replace("train", "validation"): path for name, path in texts["de"].items()
    }
    return {"model": checkpoint, "max_steps": 15, "learning_rate": 0.01, **sides}


@pytest.fixture(scope="module")
def tuned(tuning, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuned")
    run_example("fine_tune", output_dir=folder, freeze=["model.encoder", "model.shared"], **tuning)
    return folder


def test_fine_tuning_lowers_the_loss(checkpoint, tuned):
    before, after = (
        mean_loss(folder, SENTENCES[::2], SENTENCES[1::2]) for folder in (checkpoint, tuned)
    )
    assert after < 0.7 * before


def test_frozen_weights_stay_bit_equal_and_all_others_move(checkpoint, tuned):
    before, after = (
        dict(AutoModelForSeq2SeqLM.from_pretrained(f).named_parameters())
        for f in (checkpoint, tuned)
    )
    unmoved = {name for name in before if torch.equal(before[name], after[name])}
    assert unmoved == {
        name for name in before if name.startswith(("model.encoder", "model.shared"))
    }


def test_fine_tuned_model_decodes_as_the_one_it_came_from_which_its_card_names(
    checkpoint, tuning, tuned
):
    before, after = (
        json.loads((folder / "generation_config.json").read_text())
        for folder in (checkpoint, tuned)
    )
    assert after == before
    card = (tuned / "README.md").read_text(encoding="utf-8")
    text = Path(tuning["train_source"]).name
    assert f"This model was fine-tuned from {checkpoint.name} on the {text} dataset." in card
    assert "generator\n" not in card


# ---- fine_tune_lora.py ----


@pytest.fixture(scope="module", params=[False, True], ids=["layers", "layers and head"])
def lora(request, checkpoint, texts, tmp_path_factory):
    pytest.importorskip("peft", reason="peft is not installed: pip install peft")
    folder = tmp_path_factory.mktemp("lora")
    flags = {"adapt_head": True} if request.param else {}
    run_example(
        "fine_tune_lora",
        model=checkpoint,
        output_dir=folder,
        **texts["de"],
        max_steps=15,
        learning_rate=0.02,
        **flags,
    )
    return folder


@pytest.mark.slow
def test_lora_lowers_the_loss_and_the_merged_model_is_the_adapters(checkpoint, lora):
    folders = (checkpoint, lora / "adapter", lora / "merged")
    before, adapter, merged = (
        mean_loss(folder, SENTENCES[::2], SENTENCES[1::2]) for folder in folders
    )
    assert adapter < 0.7 * before
    assert math.isclose(adapter, merged, rel_tol=1e-5)


def test_lora_adapter_holds_no_weights_of_the_model_and_its_card_names_no_folder(checkpoint, lora):
    assert all(
        "lora_" in name for name in load_file(lora / "adapter" / "adapter_model.safetensors")
    )
    card = (lora / "adapter" / "README.md").read_text(encoding="utf-8")
    assert str(checkpoint) not in card and "base_model" not in card


# ---- extend_tokenizer.py and new_language_pair.py ----


@pytest.fixture(scope="module")
def french_tokenizer(checkpoint, texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    text = texts["fr"]["train_target"]
    run_example(
        "extend_tokenizer", tokenizer=checkpoint, text=text, num_entries=20, output_dir=folder
    )
    return AutoTokenizer.from_pretrained(folder)


def test_extended_tokenizer_keeps_every_old_id(tiny_tokenizer, french_tokenizer):
    old, new = tiny_tokenizer.get_vocab(), french_tokenizer.get_vocab()
    assert {token: new[token] for token in old} == old
    assert sorted(set(new.values()) - set(old.values())) == list(range(len(old), len(old) + 20))


def test_extended_tokenizer_keeps_the_ids_of_added_tokens(tiny_tokenizer, texts, tmp_path):
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.add_tokens(["<2fr>", "<term>"])
    load_example("extend_tokenizer").extend(tokenizer, read_lines(texts["fr"]["train_target"]), 20)
    tokenizer.save_pretrained(tmp_path)
    vocab = AutoTokenizer.from_pretrained(tmp_path).get_vocab()
    size = len(tiny_tokenizer)
    assert (vocab["<2fr>"], vocab["<term>"]) == (size, size + 1)
    assert sorted(vocab.values()) == list(range(size + 22))


def test_extended_tokenizer_writes_the_new_language_shorter(tiny_tokenizer, french_tokenizer):
    old, new = (
        [len(ids) for ids in tokenizer(FRENCH)["input_ids"]]
        for tokenizer in (tiny_tokenizer, french_tokenizer)
    )
    assert sum(new) < 0.8 * sum(old)


@pytest.mark.parametrize(
    "text", [*FRENCH, *SENTENCES, "étés</s>  d'été\t\U0001f600 A\u0300 ﬀ\n", "unforeseen lestés"]
)
def test_extended_tokenizer_only_joins_old_pieces_and_loses_nothing(
    tiny_tokenizer, french_tokenizer, text
):
    ids = french_tokenizer(text)["input_ids"]
    assert french_tokenizer.decode(ids, skip_special_tokens=True) == text.strip()
    new_tokens = french_tokenizer.convert_ids_to_tokens(ids)[:-1]
    assert [
        piece for token in new_tokens for piece in split(tiny_tokenizer, token)
    ] == tiny_tokenizer.tokenize(text)


def split(tokenizer, token):
    """The tokenizer's pieces of a token that it may not have: its merges, one after the other, over
    the letters.
    """
    pieces = list(token)
    for left, right in json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]:
        place = 0
        while place < len(pieces):
            if pieces[place : place + 2] == [left, right]:
                pieces[place : place + 2] = [left + right]
            place += 1
    return pieces


def train_french(checkpoint, french_tokenizer, texts, folder, **options):
    """Runs the example and returns the model's folder."""
    fixed = {"model": checkpoint, "tokenizer": french_tokenizer.name_or_path, "output_dir": folder}
    languages = {"source_language": "en", "target_language": "fr"}
    run_example("new_language_pair", **{**fixed, **languages, **texts["fr"], **options})
    return folder


@pytest.fixture(scope="module")
def untrained_french(checkpoint, french_tokenizer, texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("untrained")
    return train_french(checkpoint, french_tokenizer, texts, folder, max_steps=1, learning_rate=0)


@pytest.fixture(scope="module")
def french(checkpoint, french_tokenizer, texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("french")
    return train_french(
        checkpoint, french_tokenizer, texts, folder, max_steps=15, learning_rate=0.01
    )


def test_new_entries_begin_as_the_mean_of_the_pieces_that_spelt_them(
    checkpoint, untrained_french, tiny_tokenizer, french_tokenizer
):
    old, new = (
        AutoModelForSeq2SeqLM.from_pretrained(f).model.shared.weight
        for f in (checkpoint, untrained_french)
    )
    for token_id in range(300, 320):
        pieces = split(tiny_tokenizer, french_tokenizer.convert_ids_to_tokens(token_id))
        expected = sum(old[tiny_tokenizer.convert_tokens_to_ids(piece)] for piece in pieces) / len(
            pieces
        )
        torch.testing.assert_close(new[token_id], expected)
    assert torch.equal(new[:300], old)


def test_new_pair_lowers_the_loss(untrained_french, french):
    assert mean_loss(french, ENGLISH, FRENCH) < 0.7 * mean_loss(untrained_french, ENGLISH, FRENCH)


def test_new_pair_is_a_task_of_its_own(french):
    assert len(pipeline("translation_en_to_fr", model=str(french))(ENGLISH)) == 3
    with pytest.raises(ValueError, match="must be en and fr, which the model translates"):
        pipeline("translation_en_to_de", model=str(french))


# ---- distill.py ----


def test_distilled_student_learns_the_teachers_translations(checkpoint, texts, tmp_path, capsys):
    export_marian(checkpoint, tmp_path / "teacher")
    teacher = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "teacher")
    teacher.generation_config.max_length = 8
    teacher.generation_config.save_pretrained(tmp_path / "teacher")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "teacher")
    source, target = texts["de"].values()
    run_example(
        "distill",
        teacher=tmp_path / "teacher",
        source=source,
        test_source=source,
        test_target=target,
        output_dir=tmp_path / "student",
        vocab_size=280,
        max_steps=2,
    )
    lines = (
        (tmp_path / f"student.{source.stem}-by-teacher.de").read_text(encoding="utf-8").split("\n")
    )
    assert lines[:-1] == list(translate(teacher, tokenizer, SENTENCES[::2])) * 20
    printed = capsys.readouterr().out
    assert re.search(r"teacher: \d+\.\d sacreBLEU\nstudent: \d+\.\d sacreBLEU\n", printed)
    recipe = json.loads((tmp_path / "student" / "recipe.json").read_text(encoding="utf-8"))
    assert (recipe["d_model"], recipe["target_language"]) == (128, "de")


# ---- glossary.py ----


def train_tiny(folder, source, target, *added_tokens):
    """Trains two updates of a tiny model by the command."""
    sizes = "--vocab-size 280 --d-model 16 --d-ff 32 --num-heads 2 --num-encoder-layers 1"
    words = f"train {sizes} --num-decoder-layers 1 --max-steps 2 --snapshot-steps 1 --use-cpu"
    files = ["--train-source", source, "--train-target", target, "--output-dir", folder]
    more = ["--validation-split", "none", "--max-new-tokens-over-source", 2]
    command = [*words.split(), *files, *more, "--added-tokens", *added_tokens]
    assert cli.main([*map(str, command)]) == 0


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (None, "Hot dogs? A hot dog <term> Hotdog </term>. Dog <term> Hund </term>!"),
        ("Zwei Hunde, ein Hotdog.", "Hot dogs? A hot dog <term> Hotdog </term>. Dog!"),
    ],
    ids=["all terms", "terms of the target"],
)
def test_glossary_writes_the_target_term_behind_the_longest_source_term(target, expected):
    terms = {"dog": "Hund", "hot dog": "Hotdog"}
    glossary = load_example("glossary")
    assert glossary.annotate("Hot dogs? A hot dog. Dog!", terms, target) == expected


def test_glossary_counts_inflected_forms_apart():
    sources = [
        "A <term> Straße </term> b <term> Hund </term> <term> Hund </term>",
        "A <term> Haus </term>",
        "none",
    ]
    counts = load_example("glossary").count_terms(sources, ["Straßen, Hund", "Hase", "Haus"])
    assert counts == {"sentences": 2, "terms": 3, "exact": 1, "inflected": 1}


def test_glossary_pairs_the_words_that_stand_together_most_often():
    sources = ["Two boys play.", "A boy plays.", "boys sing", "girls play"] * 10
    targets = ["Zwei Jungen spielen.", "Ein Junge spielt.", "Jungen singen", "Kinder spielen"] * 10
    sources += ["catt"] * 10 + ["chat"] * 10  # a French word and an English one
    targets += ["chat"] * 10 + ["bavarder"] * 10
    found = load_example("glossary").find_terms(sources, targets, 7)
    assert {("catt", "chat"), ("chat", "bavarder")} <= set(found)
    assert {("boys", "Jungen"), ("plays", "spielt"), ("play", "spielen")} <= set(found)
    assert len(found) == 7


def test_glossary_finds_terms_that_end_in_a_sign():
    annotated = load_example("glossary").annotate("C++ or C?", {"c++": "C++"}, "C++, C?")
    assert annotated == "C++ <term> C++ </term> or C?"


def test_glossary_says_what_a_task_needs(capsys):
    with pytest.raises(SystemExit):
        run_example("glossary", "find", source="a.en", target="a.de")
    assert "find needs --output" in capsys.readouterr().err


@pytest.mark.slow
def test_glossary_trains_and_translates_annotated_text(texts, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    source, target = texts["de"]["train_source"], texts["de"]["train_target"]
    run_example("glossary", "find", source=source, target=target, number=3, output="terms.tsv")
    files = {"terms": "terms.tsv", "source": source}
    run_example("glossary", "annotate", **files, target=target, share=0.5, output="train.en")
    run_example("glossary", "annotate", **files, output="test.en")
    train_tiny("run", "train.en", target, "<term>", "</term>")
    command = "translate --model run --input test.en --output test.de"
    assert cli.main(command.split()) == 0
    capsys.readouterr()
    run_example("glossary", "count", source="test.en", translations="test.de")
    assert "sentences: 40, terms: 40, exact: " in capsys.readouterr().out
    assert 0 < Path("train.en").read_text(encoding="utf-8").count("</term>") < 40


# ---- several_targets.py ----


@pytest.fixture
def tagged(tmp_path):
    """Folder with the text that `tag` writes for two targets."""
    lines = {
        "en": "A dog.\nA book.\n",
        "de": "Ein Hund.\nEin Buch.\n",
        "fr": "Un chien.\nUn livre.\n",
    }
    for name, text in lines.items():
        (tmp_path / f"a.{name}").write_text(text, encoding="utf-8")
    targets = [tmp_path / "a.de", tmp_path / "a.fr"]
    folder = tmp_path / "tagged"
    run_example(
        "several_targets", "tag", source=tmp_path / "a.en", targets=targets, output_dir=folder
    )
    return folder


def test_tagged_text_has_the_source_once_for_each_target(tagged):
    sources = "<2de> A dog.\n<2de> A book.\n<2fr> A dog.\n<2fr> A book.\n"
    assert (tagged / "a.en").read_text(encoding="utf-8") == sources
    targets = "Ein Hund.\nEin Buch.\nUn chien.\nUn livre.\n"
    assert (tagged / "targets.txt").read_text(encoding="utf-8") == targets


def test_tagging_does_not_replace_its_source(tagged, tmp_path):
    files = {"source": tmp_path / "a.en", "targets": [tmp_path / "a.de"], "output_dir": tmp_path}
    with pytest.raises(ValueError, match="`tagged` must be a file of its own"):
        run_example("several_targets", "tag", **files)
    assert (tmp_path / "a.en").read_text(encoding="utf-8") == "A dog.\nA book.\n"


@pytest.mark.slow
def test_each_sentence_of_a_line_gets_the_tag(tagged, tmp_path, monkeypatch):
    train_tiny(tmp_path / "run", tagged / "a.en", tagged / "targets.txt", "<2de>", "<2fr>")
    translate = pipeline("translation", model=str(tmp_path / "run"))
    rows, generate = [], translate.model.generate

    def seen(input_ids, attention_mask, **options):
        rows.extend(
            ids[mask > 0].tolist() for ids, mask in zip(input_ids, attention_mask, strict=True)
        )
        return generate(input_ids=input_ids, attention_mask=attention_mask, **options)

    monkeypatch.setattr(translate.model, "generate", seen)
    load_example("several_targets").set_target(translate.tokenizer, "fr")
    translate("A dog.\n\nA book. A BOY!")
    tagged_by_hand = ["<2fr> A dog.", "<2fr> A book.", "<2fr> A boy!"]
    expected = AutoTokenizer.from_pretrained(tmp_path / "run")(tagged_by_hand)["input_ids"]
    assert sorted(rows) == sorted(expected)

    (tmp_path / "in").write_text("A dog. A book.\n\n", encoding="utf-8")
    options = {"model": tmp_path / "run", "input": tmp_path / "in", "output": tmp_path / "out"}
    run_example("several_targets", "translate", language="de", **options)
    assert len((tmp_path / "out").read_text(encoding="utf-8").split("\n")) == 3
    with pytest.raises(ValueError, match="`language` must be one .* got cs"):
        run_example("several_targets", "translate", language="cs", **options)


# ---- refusals ----


@pytest.mark.parametrize("fault", ["tokenizer", "--output-dir"])
def test_unextended_tokenizer_and_the_models_own_folder_are_refused(
    fault, checkpoint, french_tokenizer, texts, tmp_path, capsys
):
    options = {"tokenizer": {"tokenizer": checkpoint}, "--output-dir": {"output_dir": checkpoint}}[
        fault
    ]
    with pytest.raises(SystemExit):
        train_french(checkpoint, french_tokenizer, texts, tmp_path, **options)
    assert fault in capsys.readouterr().err.splitlines()[-1]


def test_fine_tuning_leaves_the_folder_of_another_model_alone(tuning, tmp_path, capsys):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SystemExit):
        run_example("fine_tune", output_dir=tmp_path, **tuning)
    assert "--output-dir must be a new or empty folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_freezing_what_the_model_does_not_have_is_refused(tuning, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run_example("fine_tune", output_dir=tmp_path, freeze=["model.encodr"], **tuning)
    assert "no weight of the model begins so" in capsys.readouterr().err


def test_text_that_gives_no_new_entries_is_refused(checkpoint, tmp_path, capsys):
    (tmp_path / "empty.fr").write_text("\n")
    with pytest.raises(SystemExit):
        run_example(
            "extend_tokenizer",
            tokenizer=checkpoint,
            text=tmp_path / "empty.fr",
            output_dir=tmp_path / "out",
        )
    assert "got none" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
