# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""scripts/examples: each runs in a few steps on a tiny model and leaves behind what it says."""

import importlib.util
import json
import math
from pathlib import Path

import pytest
import torch
from tiny import SENTENCES
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

pytest.importorskip("datasets", reason="needs the extra [train]")
pytest.importorskip("accelerate", reason="needs the extra [train]")

pytestmark = pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`")
EXAMPLES = Path(__file__).resolve().parents[1] / "scripts" / "examples"
FRENCH = ["Un été, deux femmes lisent un livre.", "Le garçon a été surpris par l'orage d'août.", "Où est la forêt ?"]
ENGLISH = ["One summer, two women read a book.", "The boy was surprised by the storm.", "Where is the forest?"]
each_route = pytest.mark.parametrize("route", ["adapter", "merged"])


def run_example(name, **options):
    """Calls the example's `main` with `--option value ...` of the keywords; True is a flag, a list several values."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    words = []
    for option, value in options.items():
        values = value if isinstance(value, list) else [] if value is True else [value]
        words += [f"--{option.replace('_', '-')}", *map(str, values)]
    module.main(words)


def mean_loss(folder, sources, targets):
    """Nats per target token of a saved model, sentence by sentence."""
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    losses, counts = [], []
    for source, target in zip(sources, targets, strict=True):
        batch = tokenizer([source], text_target=[target], return_tensors="pt")
        counts.append(batch["labels"].shape[1])
        losses.append(model(**batch).loss.item() * counts[-1])
    return sum(losses) / sum(counts)


def translations(folder, task="translation"):
    return [result["translation_text"] for result in pipeline(task, model=str(folder))(SENTENCES[::2])]


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
        "fr": {"train_source": write("en-fr.en", ENGLISH), "train_target": write("en-fr.fr", FRENCH)},
    }


# ---- fine_tune.py ----


@pytest.fixture(scope="module")
def tuned(checkpoint, texts, tmp_path_factory):
    pytest.importorskip("sacrebleu", reason="needs the extra [eval]")
    folder = tmp_path_factory.mktemp("tuned")
    sides = {"validation_source": texts["de"]["train_source"], "validation_target": texts["de"]["train_target"]}
    options = {"max_steps": 15, "learning_rate": 0.01, "freeze": ["model.encoder", "model.shared"]}
    run_example("fine_tune", model=checkpoint, output_dir=folder, **texts["de"], **sides, **options)
    return folder


def test_fine_tuning_lowers_the_loss(checkpoint, tuned):
    assert mean_loss(tuned, SENTENCES[::2], SENTENCES[1::2]) < 0.7 * mean_loss(
        checkpoint, SENTENCES[::2], SENTENCES[1::2]
    )


def test_frozen_weights_stay_bit_equal_and_all_others_move(checkpoint, tuned):
    before, after = (dict(AutoModelForSeq2SeqLM.from_pretrained(f).named_parameters()) for f in (checkpoint, tuned))
    unmoved = {name for name in before if torch.equal(before[name], after[name])}
    assert unmoved == {name for name in before if name.startswith(("model.encoder", "model.shared"))}


def test_fine_tuned_model_decodes_as_the_one_it_came_from(checkpoint, tuned):
    before, after = (json.loads((folder / "generation_config.json").read_text()) for folder in (checkpoint, tuned))
    assert after == before


def test_card_of_a_fine_tuned_model_names_where_it_came_from(checkpoint, texts, tuned):
    card = (tuned / "README.md").read_text(encoding="utf-8")
    text = Path(texts["de"]["train_source"]).name
    assert f"This model was fine-tuned from {checkpoint.name} on the {text} dataset." in card
    assert "generator\n" not in card


def test_fine_tuned_model_translates_in_the_pipeline(tuned):
    assert len(translations(tuned, "translation_en_to_de")) == 2


def test_freezing_what_the_model_does_not_have_is_refused(checkpoint, texts, tmp_path, capsys):
    pytest.importorskip("sacrebleu", reason="needs the extra [eval]")
    sides = {"validation_source": texts["de"]["train_source"], "validation_target": texts["de"]["train_target"]}
    with pytest.raises(SystemExit):
        run_example(
            "fine_tune", model=checkpoint, output_dir=tmp_path, **texts["de"], **sides, freeze=["model.encodr"]
        )
    assert "no weight of the model begins so" in capsys.readouterr().err


# ---- fine_tune_lora.py ----


@pytest.fixture(scope="module", params=[False, True], ids=["layers", "layers and head"])
def lora(request, checkpoint, texts, tmp_path_factory):
    pytest.importorskip("peft", reason="peft is not installed: pip install peft")
    folder = tmp_path_factory.mktemp("lora")
    flags = {"adapt_head": True} if request.param else {}
    run_example(
        "fine_tune_lora", model=checkpoint, output_dir=folder, **texts["de"], max_steps=15, learning_rate=0.02, **flags
    )
    return folder


@pytest.mark.slow
@each_route
def test_lora_lowers_the_loss(checkpoint, lora, route):
    tuned = mean_loss(lora / route, SENTENCES[::2], SENTENCES[1::2])
    assert tuned < 0.7 * mean_loss(checkpoint, SENTENCES[::2], SENTENCES[1::2])


def test_merged_lora_scores_as_the_adapter_does(lora):
    adapter, merged = (mean_loss(lora / route, SENTENCES[::2], SENTENCES[1::2]) for route in ("adapter", "merged"))
    assert math.isclose(adapter, merged, rel_tol=1e-5)


def test_merged_lora_translates_as_the_adapter_does(checkpoint, lora):
    assert translations(lora / "adapter") == translations(lora / "merged") != translations(checkpoint)


def test_lora_adapter_holds_no_weights_of_the_model(lora):
    from safetensors.torch import load_file

    assert all("lora_" in name for name in load_file(lora / "adapter" / "adapter_model.safetensors"))


def test_card_of_an_adapter_names_no_folder(checkpoint, lora):
    card = (lora / "adapter" / "README.md").read_text(encoding="utf-8")
    assert str(checkpoint) not in card and "base_model" not in card


# ---- extend_tokenizer.py and new_language_pair.py ----


@pytest.fixture(scope="module")
def french_tokenizer(checkpoint, texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    text = texts["fr"]["train_target"]
    run_example("extend_tokenizer", tokenizer=checkpoint, text=text, num_entries=20, output_dir=folder)
    return AutoTokenizer.from_pretrained(folder)


def test_extended_tokenizer_keeps_every_old_id(tiny_tokenizer, french_tokenizer):
    old, new = tiny_tokenizer.get_vocab(), french_tokenizer.get_vocab()
    assert {token: new[token] for token in old} == old
    assert sorted(set(new.values()) - set(old.values())) == list(range(len(old), len(old) + 20))


def test_extended_tokenizer_writes_the_new_language_shorter(tiny_tokenizer, french_tokenizer):
    old, new = (
        [len(ids) for ids in tokenizer(FRENCH)["input_ids"]] for tokenizer in (tiny_tokenizer, french_tokenizer)
    )
    assert sum(new) < 0.8 * sum(old)


@pytest.mark.parametrize("text", [*FRENCH, *SENTENCES, "étés</s>  d'été\t\U0001f600 A\u0300 ﬀ\n", "unforeseen lestés"])
def test_extended_tokenizer_only_joins_old_pieces_and_loses_nothing(tiny_tokenizer, french_tokenizer, text):
    ids = french_tokenizer(text)["input_ids"]
    assert french_tokenizer.decode(ids, skip_special_tokens=True) == text.strip()
    new_tokens = french_tokenizer.convert_ids_to_tokens(ids)[:-1]
    assert [piece for token in new_tokens for piece in split(tiny_tokenizer, token)] == tiny_tokenizer.tokenize(text)


def split(tokenizer, token):
    """The tokenizer's pieces of a token that it may not have: its merges, one after the other, over the letters."""
    pieces = list(token)
    for left, right in json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]:
        place = 0
        while place < len(pieces):
            if pieces[place : place + 2] == [left, right]:
                pieces[place : place + 2] = [left + right]
            place += 1
    return pieces


@pytest.fixture(scope="module")
def run_french(checkpoint, texts, french_tokenizer, tmp_path_factory):
    """Function that runs the example and returns the model's folder."""

    def run(**options):
        folder = tmp_path_factory.mktemp("french")
        fixed = {"model": checkpoint, "tokenizer": french_tokenizer.name_or_path, **texts["fr"]}
        languages = {"source_language": "en", "target_language": "fr"}
        run_example("new_language_pair", output_dir=folder, **fixed, **languages, **options)
        return folder

    return run


@pytest.fixture(scope="module")
def untrained_french(run_french):
    return run_french(max_steps=1, learning_rate=0)


@pytest.fixture(scope="module")
def french(run_french):
    return run_french(max_steps=15, learning_rate=0.01)


def test_new_entries_begin_as_the_mean_of_the_pieces_that_spelt_them(
    checkpoint, untrained_french, tiny_tokenizer, french_tokenizer
):
    old, new = (AutoModelForSeq2SeqLM.from_pretrained(f).model.shared.weight for f in (checkpoint, untrained_french))
    for token_id in range(300, 320):
        pieces = split(tiny_tokenizer, french_tokenizer.convert_ids_to_tokens(token_id))
        expected = sum(old[tiny_tokenizer.convert_tokens_to_ids(piece)] for piece in pieces) / len(pieces)
        torch.testing.assert_close(new[token_id], expected)
    assert torch.equal(new[:300], old)


def test_new_pair_lowers_the_loss(untrained_french, french):
    assert mean_loss(french, ENGLISH, FRENCH) < 0.7 * mean_loss(untrained_french, ENGLISH, FRENCH)


def test_new_pair_is_a_task_of_its_own(french):
    assert len(translations(french, "translation_en_to_fr")) == 2
    with pytest.raises(ValueError, match="must be en and fr, which the model translates"):
        pipeline("translation_en_to_de", model=str(french))


def test_unextended_tokenizer_is_refused(checkpoint, texts, tmp_path, capsys):
    options = {"model": checkpoint, "tokenizer": checkpoint, "source_language": "en", "target_language": "fr"}
    with pytest.raises(SystemExit):
        run_example("new_language_pair", output_dir=tmp_path, **texts["fr"], **options)
    assert "every entry of the model's own tokenizer under its id, and new ones" in capsys.readouterr().err


def test_output_folder_that_is_the_models_own_is_refused(checkpoint, texts, french_tokenizer, capsys):
    options = {"tokenizer": french_tokenizer.name_or_path, "source_language": "en", "target_language": "fr"}
    with pytest.raises(SystemExit):
        run_example("new_language_pair", model=checkpoint, output_dir=checkpoint, **texts["fr"], **options)
    assert "--output-dir must differ from --model" in capsys.readouterr().err


def test_files_of_unequal_length_are_refused(checkpoint, texts, french_tokenizer, tmp_path):
    (tmp_path / "short.fr").write_text("Un chien.\n")
    data = {**texts["fr"], "train_target": tmp_path / "short.fr"}
    options = {"model": checkpoint, "tokenizer": french_tokenizer.name_or_path, "output_dir": tmp_path}
    with pytest.raises(ValueError, match="must have as many lines as .*, got 1 and 60"):
        run_example("new_language_pair", source_language="en", target_language="fr", **data, **options)


def test_text_that_gives_no_new_entries_is_refused(checkpoint, tmp_path, capsys):
    (tmp_path / "empty.fr").write_text("\n")
    with pytest.raises(SystemExit):
        run_example("extend_tokenizer", tokenizer=checkpoint, text=tmp_path / "empty.fr", output_dir=tmp_path / "out")
    assert "must give the vocabulary new entries, got none" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
