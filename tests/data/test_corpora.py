# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Corpora from every kind of origin, and the errors of bad ones."""

import json

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vaswani_transformer.data import load_corpus, read_lines, stream_corpus

PAIRS = [("A dog.", "Ein Hund."), ('He said "no", twice.', "Er sagte »nein«."), ("", "leer")]
LANGUAGES = {"source_language": "en", "target_language": "de"}


@pytest.fixture
def load(tmp_path):
    """`load_corpus` that returns a list of pairs and keeps its cache in a temporary folder."""

    def load_pairs(**options):
        corpus = load_corpus(**options, cache_dir=tmp_path / "cache")
        assert corpus.column_names == ["source", "target"]
        return list(zip(corpus["source"][:], corpus["target"][:], strict=True))

    return load_pairs


@pytest.fixture
def write(tmp_path):
    """Writes bytes or text to a file and returns its path."""

    def write_file(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


@pytest.fixture
def aligned(write):
    """Two aligned text files as arguments of `load_corpus`."""
    source, target = ("".join(f"{line}\n" for line in side) for side in zip(*PAIRS, strict=True))
    return {"source_file": write("train.en", source), "target_file": write("train.de", target)}


def test_swapped_files_are_noticed_also_by_codes_with_capitals(load, write):
    files = {"source_file": write("t.deu_Latn", "x\n"), "target_file": write("t.eng_Latn", "y\n")}
    with pytest.raises(ValueError, match="got the suffix of deu_Latn. Exchange the two files"):
        load(**files, source_language="eng_Latn", target_language="deu_Latn")
    assert load(**files, source_language="deu_Latn", target_language="eng_Latn") == [("x", "y")]


# ---- text files ----


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\n", ["a\r"]),
        (b"\r", [""]),
        (b"a\nb\rc", ["a", "b\rc"]),
        (b"a\rb\x0bc\x0cd\x1ee\n", ["a\rb\x0bc\x0cd\x1ee"]),
        ("a\u2028b\u2029c\u0085d\u00a0e\n".encode(), ["a\u2028b\u2029c\u0085d\u00a0e"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"\n\na\n\n", ["", "", "a", ""]),
        (b" a \n", [" a "]),
    ],
)
def test_lines_end_in_line_feeds_only(write, content, lines):
    assert list(read_lines(write("text", content))) == lines


def test_text_files_are_paired_line_by_line(load, aligned):
    assert load(**aligned) == PAIRS


@pytest.mark.parametrize(("name", "place"), [("target_file", "absent"), ("source_file", "")])
def test_missing_file_or_a_folder_in_its_place_is_refused(load, aligned, tmp_path, name, place):
    with pytest.raises(FileNotFoundError, match=f"{place} must be an existing file"):
        load(**{**aligned, name: tmp_path / place})


def test_empty_file_is_refused(load, aligned, write):
    with pytest.raises(ValueError, match="empty.de must hold text"):
        load(**{**aligned, "target_file": write("empty.de", "")})


@pytest.mark.parametrize(("num_lines", "counts"), [(2, "got 2 and 3"), (5, "got 5 and 3")])
def test_different_line_counts_are_refused_with_both_counts(
    load, aligned, write, num_lines, counts
):
    with pytest.raises(ValueError, match=f"other.de must have as many lines as .*, {counts}"):
        load(**{**aligned, "target_file": write("other.de", "x\n" * num_lines)})


# ---- cache ----


def test_corpus_is_mapped_from_disk(aligned, tmp_path):
    corpus = load_corpus(**aligned, cache_dir=tmp_path / "cache")
    assert [
        file["filename"].startswith(str(tmp_path / "cache")) for file in corpus.cache_files
    ] == [True]


def test_second_start_reads_no_text(load, aligned, monkeypatch):
    load(**aligned)
    monkeypatch.setattr(
        "vaswani_transformer.data.corpora.read_lines", lambda path: pytest.fail("read again")
    )
    assert load(**aligned) == PAIRS


def test_changed_file_is_read_again(load, aligned):
    load(**aligned)
    aligned["target_file"].write_text("eins\nzwei\ndrei\n")
    assert [target for _, target in load(**aligned)] == ["eins", "zwei", "drei"]


# ---- files of pairs ----


def jsonl(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


ROWS = [{"source": source, "target": target} for source, target in PAIRS]
NAMED = [{"de": target, "id": 1, "en": source} for source, target in PAIRS]
TRANSLATIONS = [{"id": "x", "translation": row} for row in NAMED]


@pytest.mark.parametrize(
    ("rows", "languages"),
    [(ROWS, {}), (ROWS, LANGUAGES), (NAMED, LANGUAGES), (TRANSLATIONS, LANGUAGES)],
)
@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.json"])
def test_json_lines_are_read_in_every_schema(load, write, rows, languages, name):
    assert load(pairs_file=write(name, jsonl(rows)), **languages) == PAIRS


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_json_list_is_read(load, write, indent, mark):
    content = json.dumps(
        [*TRANSLATIONS, {"translation": {"de": "", "en": "犬", "fr": None}}], indent=indent
    )
    assert load(pairs_file=write("pairs.json", mark + content), **LANGUAGES) == [*PAIRS, ("犬", "")]


def test_csv_is_read(load, write):
    datasets.Dataset.from_list(NAMED).to_csv(path := write("pairs.csv", ""))
    assert load(pairs_file=path, **LANGUAGES) == PAIRS


@pytest.mark.parametrize(
    ("content", "pair"),
    [(",source,target\n0,a,b\n", ("a", "b")), ('source,target\n"a\nb",c\n', ("a\nb", "c"))],
    ids=["column_without_a_name", "line_feed_in_a_field"],
)
def test_csv_is_read_with(load, write, content, pair):
    assert load(pairs_file=write("pairs.csv", content)) == [pair]


def test_columns_of_the_named_languages_go_before_source_and_target(load, write):
    table = write("pairs.csv", "source,target,en,de\nopensub,web,hello,hallo\n")
    assert load(pairs_file=table, **LANGUAGES) == [("hello", "hallo")]
    assert load(pairs_file=table) == [("opensub", "web")]


def test_tsv_is_read_with_quotation_marks_as_text(load, write):
    content = "source\ttarget\n\n" + "".join(
        f"{source}\t{target}\n" for source, target in [*PAIRS, ('"open', "x")]
    )
    assert load(pairs_file=write("pairs.tsv", content)) == [*PAIRS, ('"open', "x")]


def test_a_parquet_files_name_is_no_pattern(load, tmp_path):
    for name, text in (("train1", "other"), ("train[1]", "own"), ("x*", "starred"), ("xy", "y")):
        table = pa.table({"source": [text], "target": [text]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    for name, text in (("train[1]", "own"), ("x*", "starred")):
        assert load(pairs_file=tmp_path / f"{name}.parquet") == [(text, text)]
        (row,) = stream_corpus(pairs_file=tmp_path / f"{name}.parquet")
        assert row == {"source": text, "target": text}


@pytest.mark.parametrize(
    ("rows", "languages"), [(ROWS, {}), (NAMED, LANGUAGES), (TRANSLATIONS, LANGUAGES)]
)
def test_parquet_is_read_in_every_schema(load, tmp_path, rows, languages):
    datasets.Dataset.from_list(rows).to_parquet(path := tmp_path / "pairs.parquet")
    assert load(pairs_file=path, **languages) == PAIRS


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "p.txt",
            "x",
            "must end in .jsonl, .json, .csv, .tsv or .parquet, got .*p.txt",
        ),
        ("p.jsonl", "\n\n", "p.jsonl` must hold at least one pair, got none"),
        ("p.csv", "source,target\n", "p.csv` must hold at least one pair, got none"),
        (
            "p.jsonl",
            '{"source": "a", "target": "b"}\n{"source"\n',
            "p.jsonl` must hold pairs that can be read",
        ),
        (
            "p.jsonl",
            '{"source": "a", "target": "b\\ud800"}\n',
            r"row of 'target', got 'b\\ud800' in line 1",
        ),
        ("p.json", "[" * 5000, "p.json` must hold pairs that can be read"),
        ("p.jsonl", "3\n", "The columns must be .*. The first row of .*p.jsonl has: none"),
        (
            "p.jsonl",
            b'{"source": "a", "target": "\xff"}\n',
            "p.jsonl` must be UTF-8 text, got byte 0xff in line 1",
        ),
        (
            "p.json",
            b'[{"source": "a", "target": "\xff"}]\n',
            "p.json` must hold pairs .* 'utf-8' .* can't decode",
        ),
        ("p.csv", "source,target\na,b,c\n", "got an error in line 2: 3 columns instead of 2"),
        ("p.csv", 'source,target\n"a,b\n', "must be a table, got an error in line 2"),
        ("p.tsv", "source\ttarget\n\na\n", "got an error in line 3: 1 columns instead of 2"),
        ("p.parquet", "no parquet", "p.parquet` must hold pairs that can be read"),
        (
            "p.jsonl",
            '{"en": "a", "de": "b"}\n',
            "The columns must be .*, got None and None. .*p.jsonl has: en, de",
        ),
    ],
)
def test_bad_file_of_pairs_is_refused(load, write, name, content, message):
    with pytest.raises(ValueError, match=message):
        load(pairs_file=write(name, content))


def test_damaged_parquet_file_is_refused_by_name(load, tmp_path):
    pq.write_table(pa.table({"source": ["a dog"], "target": ["ein Hund"]}), tmp_path / "p.parquet")
    content = (tmp_path / "p.parquet").read_bytes()
    (tmp_path / "p.parquet").write_bytes(content.replace(b"ein Hund", b"ein\xff\xff\xff\xff\xff"))
    with pytest.raises(
        ValueError, match=r"p\.parquet` must hold pairs that can be read, got an error: .*UTF8"
    ):
        load(pairs_file=tmp_path / "p.parquet")


def test_unknown_language_is_refused_with_the_languages_found(load, write):
    with pytest.raises(ValueError, match="got 'en' and 'fr'. .* has: de, id, en"):
        load(
            pairs_file=write("p.jsonl", jsonl(TRANSLATIONS)),
            source_language="en",
            target_language="fr",
        )


# ---- datasets ----


@pytest.fixture
def saved(tmp_path):
    """Folder of a dataset with the Translation feature, written by `save_to_disk`."""
    features = datasets.Features({"translation": datasets.Translation(languages=["de", "en"])})
    rows = {"translation": [{"en": source, "de": target} for source, target in PAIRS]}
    corpus = datasets.Dataset.from_dict(rows, features=features)
    datasets.DatasetDict(train=corpus, test=corpus.select([0])).save_to_disk(tmp_path / "saved")
    return tmp_path / "saved"


def test_dataset_saved_to_disk_is_read_in_both_directions(load, saved):
    assert load(dataset=saved, split="train", **LANGUAGES) == PAIRS
    assert load(dataset=saved, source_language="de", target_language="en")[0] == PAIRS[0][::-1]


def test_folder_of_data_files_is_read_as_a_dataset(load, tmp_path):
    (tmp_path / "data").mkdir()
    datasets.Dataset.from_list(TRANSLATIONS).to_parquet(
        tmp_path / "data" / "test-00000-of-00001.parquet"
    )
    assert load(dataset=tmp_path / "data", split="test", **LANGUAGES) == PAIRS


def test_unknown_split_is_refused(load, saved):
    with pytest.raises(
        FileNotFoundError, match="The split must be one of train, test in .*saved, got dev"
    ):
        load(dataset=saved, split="dev", **LANGUAGES)


@pytest.mark.parametrize("name", ["train.json", "train.parquet"])
def test_dataset_of_broken_files_is_refused(load, tmp_path, name):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / name).write_text('{"source": "a')
    with pytest.raises(ValueError, match=r"data` must hold pairs that can be read"):
        load(dataset=tmp_path / "data")


@pytest.mark.parametrize("pattern", ["state.json", "*.arrow"])
def test_truncated_dataset_saved_to_disk_is_refused(load, tmp_path, pattern):
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "saved")
    path = next((tmp_path / "saved").glob(pattern))
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(ValueError, match=r"saved` must hold pairs that can be read"):
        load(dataset=tmp_path / "saved")


@pytest.mark.parametrize("target", [["x", None], [1, 2]])
def test_dataset_without_text_in_every_row_is_refused(load, tmp_path, target):
    datasets.Dataset.from_dict({"source": ["a", "b"], "target": target}).save_to_disk(
        tmp_path / "saved"
    )
    with pytest.raises(ValueError, match="must hold text in every row of 'target'"):
        load(dataset=tmp_path / "saved")


# ---- origins ----


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "must be two text files, .*, got none"),
        ({"dataset": "builtin", "pairs_file": "x.csv"}, "got x.csv and builtin"),
        ({"source_file": "x", "target_file": "x"}, "must be two files, got x twice"),
        ({"source_file": "x.en"}, "x.en must be given with the other side"),
        (
            {"target_file": "x.de", "dataset": "builtin"},
            "x.de must be given with the other side",
        ),
    ],
)
def test_corpus_needs_exactly_one_origin(load, options, message):
    with pytest.raises(ValueError, match=message):
        load(**options)


def test_giant_line_is_refused_by_its_place(load, write):
    files = {
        "source_file": write("train.en", "a\n" + "a" * (2**20 + 1)),
        "target_file": write("train.de", "b\nb\n"),
    }
    with pytest.raises(ValueError, match="train.en.*1048576 bytes.* line 2 "):
        load(**files)


def test_saved_dataset_without_splits_has_one_alone(load, tmp_path):
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "saved")
    assert load(dataset=tmp_path / "saved", split="train") == PAIRS
    with pytest.raises(FileNotFoundError, match="The split must be one of train in"):
        load(dataset=tmp_path / "saved", split="validation")


def test_one_language_for_both_sides_is_refused(load, write):
    with pytest.raises(ValueError, match="got 'en' and 'en'"):
        load(
            pairs_file=write("p.tsv", "en\tde\na\tb\n"), source_language="en", target_language="en"
        )


def test_column_of_text_named_translation_is_no_column_of_pairs(load, tmp_path):
    rows = [{**row, "translation": "c"} for row in ROWS]
    datasets.Dataset.from_list(rows).to_parquet(tmp_path / "p.parquet")
    assert load(pairs_file=tmp_path / "p.parquet") == PAIRS


@pytest.mark.parametrize("load", [load_corpus, stream_corpus])
def test_a_configuration_of_what_has_none_is_refused(load):
    with pytest.raises(ValueError, match="`dataset_config` must be left out for builtin"):
        load(
            dataset="builtin",
            dataset_config="de-en",
            split="test",
            source_language="en",
            target_language="de",
        )
