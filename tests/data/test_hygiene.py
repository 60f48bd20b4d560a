# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Duplicates, copies and held-out text, against a second computation with sets of strings."""

import gzip
import json
import random
import unicodedata
from pathlib import Path

import datasets
import pytest
from cli_runs import refused, train_arguments

from vaswani_transformer.cli import main
from vaswani_transformer.data.hygiene import check_training_text, clean_files, normalize_text

TRAIN = [
    ("A dog runs.", "Ein Hund rennt."),
    ("A dog runs.", "Ein Hund rennt."),  # an exact duplicate
    ("a dog runs", "Ein Hund rennt!"),  # a duplicate
    ("A dog runs.", "Ein Hund läuft."),
    ("Café No. 7", "café no 7"),  # a copy
    ("", ""),
    ("", ""),
    ("Two men.", " "),
    ("?!", "..."),  # no letters: compared as it is
    ("...", "?!"),
    ("A CAT sleeps", "Eine Katze ruht."),  # held out, with another translation
    ("A woman reads.", "Eine Frau liest."),  # held out
    ("I read.", "Ich lese."),
]
TEST = [("A cat sleeps.", "Eine Katze schläft."), ("A woman reads", "Eine Frau liest"), ("", "")]
TRAIN_REPORT = {
    "num_pairs": 13,
    "blank": 3,
    "copies": 1,
    "exact_duplicates": 1,
    "duplicates": 2,
    "held_out": 2,
    "overlaps": [{"name": "test.en, test.de", "num_pairs": 3, "pairs": 1, "sources": 2}],
}


def write(name, pairs, folder=Path()):
    """Writes pairs as NAME.en and NAME.de and returns both paths."""
    paths = folder / f"{name}.en", folder / f"{name}.de"
    for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


def read(folder):
    """The pairs in a folder's train.en and train.de."""
    sides = [
        (folder / f"train.{side}").read_text(encoding="utf-8").split("\n")[:-1]
        for side in ("en", "de")
    ]
    return list(zip(*sides, strict=True))


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """A working directory with a training and a test text."""
    monkeypatch.chdir(tmp_path)
    write("train", TRAIN)
    write("test", TEST)


# ---- what is equal ----


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  The 2nd DOG, and O'Neill! ", "the2nddogandoneill"),
        ("Straße – „GROSS“", "strassegross"),
        ("Příliš žluťoučký, kůň…", "přílišžluťoučkýkůň"),
        ("Καλημέρα, κόσμε;", "καλημέρακόσμε"),
        ("كِتَابٌ جَمِيلٌ؟", "كِتَابٌجَمِيلٌ"),
        ("नमस्ते, दुनिया।", "नमस्तेदुनिया"),
        ("你好，世界。", "你好世界"),
        (" ?! ", "?!"),
        ("…", "…"),
        ("Vie\u0323\u0302t Nam", "việtnam"),  # decomposed letters
        ("\u1112\u1161\u11ab", "한"),
        ("\u3000 ", ""),
    ],
)
def test_normalized_text_is_letters_digits_and_marks_in_any_script(text, expected):
    assert normalize_text(text) == expected


def test_marks_and_digits_make_a_difference():
    assert normalize_text("कि") != normalize_text("की") != normalize_text("क")
    assert len({normalize_text(text) for text in ("At 7", "At 8", "At")}) == 3


# ---- counts ----


def naive_form(text):
    kept = [each for each in text.casefold() if unicodedata.category(each)[0] in "LMN"]
    return "".join(kept) or text.strip()


def naive_report(train, test):
    """The report, and the pairs that are kept, by sets of strings."""
    counts = dict.fromkeys(("blank", "copies", "exact_duplicates", "duplicates", "held_out"), 0)
    exact, pairs, kept = set(), set(), []
    test_forms = [tuple(map(naive_form, pair)) for pair in test]
    test_sources = {source for source, _ in test_forms}
    for pair in train:
        source, target = form = tuple(map(naive_form, pair))
        if not source or not target:
            counts["blank"] += 1
            continue
        counts["copies"] += source == target
        counts["exact_duplicates"] += pair in exact
        counts["duplicates"] += form in pairs
        counts["held_out"] += source in test_sources
        if source != target and form not in pairs and source not in test_sources:
            kept.append(pair)
        exact.add(pair)
        pairs.add(form)
    overlap = {
        "name": "test.en, test.de",
        "num_pairs": len(test),
        "pairs": sum(form in pairs for form in test_forms),
        "sources": sum(form[0] in {source for source, _ in pairs} for form in test_forms),
    }
    return {"num_pairs": len(train), **counts, "overlaps": [overlap]}, kept


def random_pairs(seed, size):
    """Pairs of few words in several scripts, so that all that counts occurs."""
    draw = random.Random(seed)
    words = [
        "Hund",
        "hund",
        "ß",
        "Ünal",
        "你好",
        "।",
        "की",
        "कि",
        "7",
        "?!",
        "–",
        "",
        " ",
        "\u00ad",
    ]
    side = lambda: "".join(draw.choices(words, k=draw.choice((0, 1, 1, 2, 2, 3))))  # noqa: E731
    return [(side(), side()) for _ in range(size)]


@pytest.mark.parametrize(
    ("train", "test"),
    [(TRAIN, TEST), (random_pairs(1, 3000), random_pairs(2, 200))],
    ids=["by hand", "random"],
)
def test_cleaned_files_and_report_are_those_of_plain_sets(train, test):
    expected, kept = naive_report(train, test)
    if train is TRAIN:
        assert expected == TRAIN_REPORT
    else:
        counts = [each for each in expected.values() if isinstance(each, int)]
        assert min(counts) > 10
    report = clean_files(*write("train", train), "out", [write("test", test)])
    assert report == {**expected, "num_kept": len(kept)}
    assert json.loads(Path("out/report.json").read_text()) == report
    assert read(Path("out")) == kept


def test_several_held_out_sets_and_compressed_files():
    Path("train.en.gz").write_bytes(gzip.compress(Path("train.en").read_bytes()))
    Path("other").mkdir()
    sets = [write("test", TEST[:1]), write("test", TEST[1:], Path("other"))]
    report = clean_files("train.en.gz", "train.de", "out", sets)
    assert [each["sources"] for each in report["overlaps"]] == [1, 1]
    assert read(Path("out")) == naive_report(TRAIN, TEST)[1]


# ---- before a training ----


@pytest.fixture
def logged(monkeypatch):
    """The lines that are logged, with their levels."""
    lines = []
    for level in ("info", "warning"):
        monkeypatch.setattr(
            f"vaswani_transformer.data.hygiene.logger.{level}",
            lambda line, level=level: lines.append((level, line)),
        )
    return lines


def dataset(pairs):
    rows = [{"source": source, "target": target} for source, target in pairs]
    return datasets.Dataset.from_list(rows)


def test_training_text_in_two_corpora_is_reported_in_two_lines(logged):
    large = datasets.Value("large_string")  # the type of text in many Parquet files
    features = datasets.Features({"source": large, "target": large})
    texts = [dataset(TRAIN[:5]), dataset(TRAIN[5:]).cast(features)]
    assert check_training_text(texts, {"test.en, test.de": dataset(TEST)}) == TRAIN_REPORT
    (level, repeated), (warning, held_out) = logged
    assert (level, warning) == ("info", "warning")
    assert repeated.splitlines()[1:] == [
        "    A dog runs. | Ein Hund rennt.",
        "    a dog runs | Ein Hund rennt!",
        "    Café No. 7 | café no 7",
    ]
    assert "13 training pairs 2 repeat an earlier one (1 exactly), and 1 copy" in repeated
    assert "test.en, test.de: 1 of 3 pairs, 2 sources" in held_out
    assert held_out.splitlines()[1:] == [
        f"    {source} | {target}" for source, target in TRAIN[10:12]
    ]


def test_clean_training_text_is_not_mentioned(logged):
    check_training_text([dataset(TRAIN[8:10])], {"test": dataset(TEST)})
    assert logged == []


@pytest.mark.slow
def test_training_reports_its_text_in_log_results_and_card(capsys):
    test = {"test_source": "test.en", "test_target": "test.de"}
    assert main(train_arguments(**test)) == 0
    log = capsys.readouterr().err
    assert log.count("13 training pairs 2 repeat") == log.count("which inflates scores") == 1
    report = json.loads(Path("run/train_results.json").read_text())["train_text"]
    overlap = {**TRAIN_REPORT["overlaps"][0], "name": "test.en, test.de (test)"}
    assert report == {**TRAIN_REPORT, "overlaps": [overlap]}
    card = Path("run/README.md").read_text()
    assert (
        "| repeated pairs | 2 of 13 (1 exactly) |\n| targets that copy their source | 1 |" in card
    )
    assert (
        "| `test.en, test.de (test)` in the training text | 2 of 3 sources, 1 of them with" in card
    )
    missing = {"test_source": "gone.en", "test_target": "gone.de"}
    assert main(train_arguments(**missing, output_dir="other")) == 0
    assert "The test text is not compared with the training text" in capsys.readouterr().err


# ---- the command ----


def clean(*options, source="train.en", target="train.de", output_dir="out"):
    return ["clean", "--source", source, "--target", target, "--output-dir", output_dir, *options]


def test_command_says_how_many_pairs_are_left(capsys):
    assert main(clean("--against", "test.en", "test.de")) == 0
    assert capsys.readouterr().out == "5 of 13 pairs saved in out\n"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": "short.de"}, "short.de must have as many lines as train.en, got 1 and 13"),
        ({"source": "gone.en"}, "error: gone.en must be an existing file."),
        ({"target": "folder/train.en"}, "`--target` must have another name than `--source`"),
        ({"output_dir": "."}, "`--output-dir` must be a new or empty folder"),
    ],
)
def test_command_refuses_what_it_cannot_clean(changes, message, capsys):
    Path("short.de").write_text("Ein Hund.\n")
    before = Path("train.en").read_bytes()
    assert message in refused(capsys, clean(**changes))
    assert Path("train.en").read_bytes() == before
    assert not Path("out").exists() and not list(Path().glob("*.part"))
