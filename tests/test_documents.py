# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Texts of several sentences and lines: split, translated sentence by sentence, and put together as they were."""

import random
import re
import time

import pytest
import torch
from transformers import TextStreamer, pipeline

from vaswani_transformer import pipeline_vaswani_transformer as code
from vaswani_transformer.pipeline_vaswani_transformer import MAX_TEXT_BYTES, split_text, word_scores


@pytest.fixture(autouse=True)
def plain_rule(monkeypatch):
    """The rule that travels with a model, whether `sentencex` is installed or not."""
    monkeypatch.setattr(code, "_segmenter", lambda: None)


@pytest.fixture
def copying(checkpoint, monkeypatch):
    """A pipeline that gives back what it is given, and the texts that its model saw."""
    pipe, seen = pipeline("translation", model=str(checkpoint)), []

    def generate(input_ids, num_return_sequences=1, **_):
        seen.extend(pipe.tokenizer.batch_decode(input_ids, skip_special_tokens=True))
        return input_ids.repeat_interleave(num_return_sequences, dim=0)

    monkeypatch.setattr(pipe.model, "generate", generate)
    return pipe, seen


@pytest.fixture
def saying(checkpoint, monkeypatch):
    """Makes a pipeline whose model says what a function of the text does, and the list of texts that it saw."""

    def make(say):
        pipe, seen = pipeline("translation", model=str(checkpoint)), []

        def generate(input_ids, num_return_sequences=1, **_):
            texts = pipe.tokenizer.batch_decode(input_ids, skip_special_tokens=True)
            seen.extend(texts)
            said = [say(text) for text in texts for _ in range(num_return_sequences)]
            return torch.nn.functional.pad(
                pipe.tokenizer(said, padding=True, return_tensors="pt").input_ids, (1, 0), value=1
            )

        monkeypatch.setattr(pipe.model, "generate", generate)
        return pipe, seen

    return make


def without_figures(text):
    """A translation that loses all but letters and full stops, and turns words around, so that all are translated."""
    return " ".join(word.swapcase() for word in re.sub(r"[^a-zA-Z. ]", "", text).split())


# ---- splitting ----


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", [""]),
        (" \n ", [" \n "]),
        ("A dog runs.", ["", "A dog runs.", ""]),
        (
            "One. Two!  Three?\tFour\u2026 Five",
            ["", "One.", " ", "Two!", "  ", "Three?", "\t", "Four\u2026", " ", "Five", ""],
        ),
        ("a\nb\r\n\n c ", ["", "a", "\n", "b", "\r\n\n ", "c", " "]),
        (
            "- one\n* two\n\t1. Three.\n(a) four",
            ["- ", "one", "\n* ", "two", "\n\t1. ", "Three.", "\n(a) ", "four", ""],
        ),
        (
            'He said: "Go." Then (he) left.) "So?" Yes',
            ["", 'He said: "Go."', " ", "Then (he) left.)", " ", '"So?"', " ", "Yes", ""],
        ),
        (
            "Dr. Smith and J. Doe, e.g. No. 5, paid $3.50. Then 3.5 more.",
            ["", "Dr. Smith and J. Doe, e.g. No. 5, paid $3.50.", " ", "Then 3.5 more.", ""],
        ),
        ("Am 3. Mai, z. B. um 5 Uhr. \u00c4pfel!", ["", "Am 3. Mai, z. B. um 5 Uhr.", " ", "\u00c4pfel!", ""]),
        ("Wait... what? no. yes", ["", "Wait... what? no. yes", ""]),
        ("It fell to \u22125 \u2264 xy. So?", ["", "It fell to \u22125 \u2264 xy.", " ", "So?", ""]),
        ("Go \u2192 there \u2705", ["", "Go", " \u2192 ", "there", " \u2705"]),
        ("See https://a.bc/D.E?f=Go. Then go", ["", "See https://a.bc/D.E?f=Go.", " ", "Then go", ""]),
    ],
)
def test_text_is_split_at_lines_and_behind_sentences(text, parts):
    assert split_text(text) == parts


SENTENCES = [
    "A dog runs.",
    "Two men read!",
    "Why?",
    "he said no",
    "Mr. X left.",
    "\u00c4pfel \u4f4e.",
    '"Yes."',
    "3.5 is more",
]
BETWEEN = [" ", "  ", "\n", "\n\n", "\r\n", "\t", " \n - ", "\n1. ", "\n\u2022 ", "\u2028", "\n   \n"]


def document(seed):
    draw = random.Random(seed)
    parts = [draw.choice(["", " ", "\n", "- "])]
    for _ in range(draw.randint(1, 8)):
        parts += [draw.choice(SENTENCES), draw.choice(BETWEEN)]
    return "".join([*parts[:-1], draw.choice(["", "\n", " "])])


def test_parts_of_1000_documents_make_them_up_again():
    for seed in range(1000):
        text = document(seed)
        parts = split_text(text)
        assert "".join(parts) == text and len(parts) % 2 == 1
        assert all(sentence == sentence.strip() != "" for sentence in parts[1::2])
        assert not any("\n" in sentence for sentence in parts[1::2])


@pytest.mark.parametrize(
    "text",
    [
        "a" + " " * 10**5 + "b",
        ". " * 50_000,
        "." + '"' * 10**5,
        "Hello there. " * 8000,
        "1. " * 30_000,
        ".\n" * 30_000,
    ],
)
def test_splitting_takes_time_by_length_alone(text):
    start = time.process_time()
    assert "".join(split_text(text)) == text
    assert time.process_time() - start < 5  # seconds; the square of the length would take hours


def test_installed_splitter_is_used_with_the_models_language(monkeypatch):
    asked = []
    monkeypatch.setattr(
        code, "_segmenter", lambda: lambda language, text: asked.append(language) or [text[:3], text[3:]]
    )
    assert split_text("ab cd", "fr") == ["", "ab", " ", "cd", ""]
    assert asked == ["fr"]


def test_sentencex_makes_up_the_line_again_also_where_it_would_panic(monkeypatch):
    sentencex = pytest.importorskip("sentencex", reason="the extra `documents` is not installed")
    monkeypatch.setattr(code, "_segmenter", lambda: sentencex.segment)
    odd = ["Plan A\xa0. A dog runs.", "A\u202f. B", "A\u3000. B", "A \ud83d runs. B", "a\t\x85b"]
    for line in [line for seed in range(200) for line in document(seed).splitlines()] + odd:
        assert "".join(code._sentences(line, "en")) == line


# ---- the pipeline ----


def test_structure_of_1000_documents_stays_where_the_translator_copies(copying):
    pipe, seen = copying
    texts = [document(seed) for seed in range(1000)]
    assert [each["translation_text"] for each in pipe(texts)] == texts
    assert not any("\n" in text for text in seen) and len(seen) > 3000
    assert pipe(texts[0]) == [{"translation_text": texts[0]}]


def test_each_sentence_is_translated_as_it_is_alone(translate):
    first, second = (translate(text)[0]["translation_text"] for text in ("A dog runs.", "Two women read."))
    assert translate("A dog runs.\n\n - Two women read. \n")[0]["translation_text"] == f"{first}\n\n - {second} \n"
    whole = translate.model.generate(**translate.tokenizer("A dog runs. Two women read.", return_tensors="pt"))
    expected = translate.tokenizer.decode(whole[0], skip_special_tokens=True)
    assert translate("A dog runs. Two women read.", split_sentences=False) == [{"translation_text": expected}]


def test_splitting_can_be_off_from_the_start(checkpoint, translate):
    text = "A dog runs. Two women read."
    other = pipeline("translation", model=str(checkpoint), split_sentences=False)
    assert other(text) == translate(text, split_sentences=False) != translate(text)
    assert other(text, split_sentences=True) == translate(text)


def test_documents_of_every_kind_of_input_keep_their_order(copying):
    pipe, _ = copying
    texts = ["A. B.", "", "c", " \n", "D!\nE?", "f"]
    expected = ["A. B.", "", "c", "", "D!\nE?", "f"]
    alone = [[{"translation_text": text}] for text in expected]
    assert [pipe(text) for text in texts] == alone
    assert pipe(tuple(texts)) == pipe(texts) == [each[0] for each in alone]
    assert list(pipe(text for text in texts)) == list(pipe((text for text in texts), batch_size=2)) == alone


def test_several_translations_of_a_document_are_those_of_its_sentences(copying):
    pipe, _ = copying
    assert pipe(["A. B.", "c"], num_return_sequences=3, num_beams=3) == [
        [{"translation_text": "A. B."}] * 3,
        [{"translation_text": "c"}] * 3,
    ]


def test_limit_of_bytes_is_that_of_a_sentence(copying):
    pipe, _ = copying
    text = "A dog runs.\n" * (MAX_TEXT_BYTES // 6)
    assert pipe(text) == [{"translation_text": text}]
    with pytest.raises(ValueError, match="at most 65536 bytes"):
        pipe("A dog.\n" + "a" * (MAX_TEXT_BYTES + 1))


def test_what_is_no_text_is_refused_as_before(translate):
    for wrong, kind in ((["A. B.", 3], "int"), (None, "NoneType"), (42, "int"), ({"text": "A dog."}, "dict")):
        with pytest.raises(TypeError, match=rf"Every input must be a text \(str\), got {kind}\."):
            translate(wrong)
    with pytest.raises(TypeError, match=r"`target_prefix` must be one text \(str\), got list"):
        translate("A.", target_prefix=["Ein"])


# ---- what stays as it is ----


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See https://a.bc/d?e=f&g=1#h for more.", "sEE https://a.bc/d?e=f&g=1#h FOR MORE."),
        ("Write to jo.doe+x@mail.a-b.org, please", "wRITE TO jo.doe+x@mail.a-b.org, PLEASE"),
        ("Dear {name}, you have %d new %(kind)s.", "dEAR {name}, YOU HAVE %d NEW %(kind)s."),
        ("A <b>red</b> dog<br/>", "a <b>RED</b> DOG<br/>"),
        ("It costs 1,299.50 on 2026-11-05 at 12:30.", "iT COSTS 1299.50 ON 2026-11-05 AT 12:30."),
        ("Ask 192.168.100.1 or HTTPS://A.BC/D1 now", "aSK 192.168.100.1 OR HTTPS://A.BC/D1 NOW"),
        ("Is it ${count} or {{x}}?", "iS IT ${count} OR {{x}}?"),
        ("There are 13 of them.", "tHERE ARE 13 OF THEM."),
    ],
)
def test_sentence_is_translated_around_what_its_translation_lost(saying, text, expected):
    pipe, _ = saying(without_figures)
    assert pipe(text) == [{"translation_text": expected}]
    assert pipe([text, "so."])[0] == {"translation_text": expected}
    assert pipe(text, split_sentences=False) == [{"translation_text": without_figures(text)}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("I saw 2 dogs on 12 May.", "Ich sah zwei Hunde am zwölften Mai."),  # words instead of small numbers
        ("He has 3 dogs and 20 cats.", "Er hat drei Hunde und 20 Katzen."),
        ("It cost 1,299.50 euros.", "Es kostete 1.299,50 Euro."),  # separators of the other language
        ("10,000 came and 1,234,567 went.", "10 000 sont venus, 1\u202f234\u00a0567 sont partis."),
        ("It took from 1990-2000.", "Es dauerte von 1990\u20132000."),
        ("At 3 p.m. it was open, at 10:30 p.m. shut.", "Um 15 Uhr war es auf, um 22:30 Uhr zu."),  # other clocks
        ("It closed at 12:30 a.m.", "Es schloss um 00:30 Uhr."),
        ("It cost 1,299.50 euros.", "Cela co\u00fbtait 1 299,50 euros."),
        ("On May 12 100 people came.", "Am 12. Mai kamen 100 Menschen."),
        ("2,500,000 people live there.", "Dort leben 2,5 Millionen Menschen."),  # words for zeros
        ("12,000 people live there.", "Dort leben 12 Tausend Menschen."),
        ("It costs 1 million dollars.", "Es kostet 1.000.000 Dollar."),
        ("It cost $1,500 and 25.000 more.", "Es kostete 1500 $ und 25000 mehr."),
        ("In 1000 years: 1234,56", "In 1.000 Jahren: 1,234.56"),
        ("See www.a.bc: {x} of 100%.", "Siehe: www.a.bc {x} von 100%."),  # in their places
    ],
)
def test_translation_that_lost_nothing_is_the_models(saying, text, said):
    pipe, seen = saying({text: said}.get)
    assert pipe(text) == [{"translation_text": said}]
    assert seen == [text]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Um 13:00 kamen 78 von 42 dort an.", "Um 12:30 kamen 78 von 42 dort an."),
        ("Um 12.30 kamen 42 von 788 dort an.", "Um 12.30 kamen 42 von 78 dort an."),  # one is missing, one too much
        ("Um 12.30 kamen 42 von 7800 dort an.", "Um 12.30 kamen 42 von 78 dort an."),
        ("Um 12.30 kamen 42 von 12345 dort an.", "Um 12.30 kamen 42 von 78 dort an."),
        ("Um 12:30 kamen 42 von x78 dort an.", "Um 12:30 kamen 42 von x78 dort an."),
        (
            "Um 00:30 kamen 42 von 78 dort an.",
            "Um 12:30 kamen 42 von 78 dort an.",
        ),  # twelve more, but no clock is told
    ],
)
def test_wrong_numbers_are_replaced_by_those_of_the_sentence(saying, said, expected):
    text = "At 12:30 there came 42 of 78."
    pipe, seen = saying({text: said}.get)
    assert pipe(text) == [{"translation_text": expected}]
    assert seen == [text]


@pytest.mark.parametrize(
    ("text", "said", "expected"),
    [
        (
            "It costs $1,500.",
            "Es kostet 1.400 $.",
            "Es kostet 1500 $.",
        ),  # no separators that mean a fraction elsewhere
        ("It weighs 1234.567 kg.", "Es wiegt 5 kg.", "Es wiegt 1234.567 kg."),
        ("There are 3 dogs.", "Es gibt 4 Hunde.", "Es gibt 3 Hunde."),
    ],
)
def test_number_that_takes_the_place_of_a_wrong_one(saying, text, said, expected):
    pipe, seen = saying({text: said}.get)
    assert pipe(text) == [{"translation_text": expected}]
    assert seen == [text]


def test_number_is_not_replaced_by_a_lost_address(saying):
    pipe, _ = saying({"See www.a.bc now.": "5 jetzt siehe.", "See": "Siehe", "now.": "jetzt."}.get)
    assert pipe("See www.a.bc now.") == [{"translation_text": "Siehe www.a.bc jetzt."}]


def test_of_two_wrong_numbers_none_is_guessed_at(saying):
    said = {"Room 101 has 40 lamps.": "14 Lampen hat Zimmer 11.", "Room": "Zimmer", "has": "hat", "lamps.": "Lampen."}
    pipe, _ = saying(said.get)
    assert pipe("Room 101 has 40 lamps.") == [{"translation_text": "Zimmer 101 hat 40 Lampen."}]


def test_a_dash_is_no_point(saying):
    pipe, _ = saying({"It takes 3-4 hours.": "Es dauert 3,4 Stunden."}.get)
    assert pipe("It takes 3-4 hours.") == [{"translation_text": "Es dauert 3-4 Stunden."}]


def test_sentence_is_translated_around_a_number_that_became_part_of_a_word(saying):
    said = {"I saw 12345 of them.": "Ich sah12344 davon.", "I saw": "Ich sah", "of them.": "von ihnen."}
    pipe, _ = saying(said.get)
    assert pipe("I saw 12345 of them.") == [{"translation_text": "Ich sah 12345 von ihnen."}]


def test_capitals_are_translated_as_small_letters_and_come_back_as_capitals(saying):
    pipe, seen = saying(lambda text: f"{text} now.")
    assert pipe("STOP THAT DOG") == [{"translation_text": "STOP THAT DOG NOW."}]
    assert pipe("NATO") == [{"translation_text": "NATO now."}]
    assert seen == ["Stop that dog", "NATO"]
    pipe, seen = saying(without_figures)
    assert pipe("CALL 12345 NOW") == [{"translation_text": "CALL 12345 NOW"}]
    assert set(seen) == {"Call 12345 now", "Call", "Now"}


def test_symbols_and_broken_characters_stay_and_are_not_translated(saying):
    pipe, seen = saying(str.upper)
    assert pipe("\U0001f600 hi \U0001f469\u200d\U0001f52c there \ufffd\x07") == [
        {"translation_text": "\U0001f600 HI \U0001f469\u200d\U0001f52c THERE \ufffd\x07"}
    ]
    assert pipe("hi \ud83d there") == [{"translation_text": "HI \ud83d THERE"}]
    assert set(seen) == {"hi", "there"}


def test_text_without_letters_stays_as_it_is(saying):
    pipe, seen = saying(str.lower)
    texts = ["12:30", "...", "\U0001f600", "?!\n--\n42"]
    assert [each["translation_text"] for each in pipe(texts)] == texts
    assert set(seen) <= {""}


def test_every_translation_is_completed_and_its_words_have_no_scores_then(saying):
    pipe, _ = saying(without_figures)
    found = pipe(["Go to 12345.", "Go."], num_return_sequences=2, return_scores=True)
    assert [each["translation_text"] for each in found[0]] == ["gO TO 12345."] * 2
    assert [(each["score"], each["words"]) for each in found[0]] == [(None, [])] * 2
    assert all(each["words"] for each in found[1])


@pytest.mark.parametrize(
    "text", ["a" * 5000, "\u4e2d" * 5000, "\x00\xff\x80" * 300, "%s {} <> @ http:// 1", "<" * 3000]
)
def test_odd_text_is_answered_soon(saying, text):
    pipe, _ = saying(lambda text: "no")
    start = time.process_time()
    assert isinstance(pipe(text)[0]["translation_text"], str)
    assert time.process_time() - start < 5


# ---- streaming ----


def test_streamer_gets_the_words_of_every_sentence_as_they_are_found(translate):
    class Parts(TextStreamer):
        def on_finalized_text(self, text, stream_end=False):
            parts.append(text)

    parts = []
    streamer = Parts(translate.tokenizer, skip_special_tokens=True)
    first, second = translate(["A dog runs.", "Two women read."], num_beams=1)
    found = translate("A dog runs.\nTwo women read.", num_beams=1, streamer=streamer)
    assert found == [{"translation_text": f"{first['translation_text']}\n{second['translation_text']}"}]
    assert "".join(parts) == first["translation_text"] + second["translation_text"]
    assert len([part for part in parts if part]) > 3


# ---- prefixes ----


@pytest.mark.parametrize("num_beams", [1, 4])
def test_prefix_begins_the_translation_of_the_exact_search(translate, num_beams):
    text, tokenizer, model = "A dog runs. Two women read.", translate.tokenizer, translate.model
    for prefix in ("Ein H", "Zwei Frauen ", "\u00c4", ""):
        ids = tokenizer(prefix.rstrip())["input_ids"][:-1]
        start = {"decoder_input_ids": torch.tensor([[1, *ids]])}
        found = model.generate(**tokenizer(text, return_tensors="pt"), **start, num_beams=num_beams)
        expected = tokenizer.decode(found[0], skip_special_tokens=True)
        assert expected.startswith(prefix.rstrip())
        assert translate(text, target_prefix=prefix, num_beams=num_beams) == [{"translation_text": expected}]
    several = translate(["A dog runs.", "Two women read.", ""], target_prefix="Ein", num_beams=num_beams)
    assert [each["translation_text"][:3] for each in several] == ["Ein", "Ein", ""]


# ---- confidence ----


def test_scores_are_means_of_the_log_probabilities_that_the_search_found(translate):
    texts, options = ["A dog runs.", "Two women read a book."], {"num_return_sequences": 2, "length_penalty": 0.0}
    found = translate([*texts, ""], return_scores=True, **options)
    assert found.pop() == [{"translation_text": "", "score": None, "words": []}] * 2
    for text, translations in zip(texts, found, strict=True):
        inputs = translate.tokenizer(text, return_tensors="pt")
        own = translate.model.generate(**inputs, **options, return_dict_in_generate=True)
        counts = (own.beam_indices >= 0).sum(dim=1)
        assert [each["score"] for each in translations] == pytest.approx(
            (own.sequences_scores / counts).tolist(), abs=1e-4
        )
        for each in translations:
            assert "".join(word["word"] for word in each["words"]) == each["translation_text"].replace(" ", "")


def test_words_have_the_means_of_their_own_tokens(translate):
    tokenizer = translate.tokenizer
    ids = tokenizer("A dogs runs")["input_ids"]
    log_probs = [-float(place) for place in range(len(ids))]
    found = word_scores(tokenizer, [*ids, 0, 0], [*log_probs, -99.0, -99.0])
    assert [word["word"] for word in found] == ["A", "dogs", "runs"]
    starts = [
        place for place, token in enumerate(tokenizer.convert_ids_to_tokens(ids)) if place == 0 or token[0] == "\u0120"
    ]
    ends = [*starts[1:], len(ids) - 1]
    expected = [sum(log_probs[a:b]) / (b - a) for a, b in zip(starts, ends, strict=True)]
    assert [word["score"] for word in found] == pytest.approx(expected)


def test_document_has_the_words_and_the_mean_score_of_its_sentences(translate):
    (document,) = translate("A dog runs.\nTwo women read.", return_scores=True)
    first, second = document["sentences"]
    assert document["words"] == first["words"] + second["words"]
    assert document["score"] == pytest.approx((first["score"] + second["score"]) / 2)


def test_sentences_of_a_document_keep_their_scores(translate):
    (document,) = translate("A dog runs.\nTwo women read.", return_scores=True)
    alone = translate(["A dog runs.", "Two women read."], return_scores=True)
    assert [each["translation_text"] for each in document["sentences"]] == [each["translation_text"] for each in alone]
    assert [each["score"] for each in document["sentences"]] == pytest.approx(
        [each["score"] for each in alone], abs=1e-5
    )
