# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The code that goes with a model: no file too many, and a card whose hashes are those of the files."""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tiny import make_config

from vaswani_transformer.training.card import write_card
from vaswani_transformer.training.publish import _addition, published_files
from vaswani_transformer.training.recipes import get_recipe
from vaswani_transformer.training.travelling_code import code_files
from vaswani_transformer.version import code_version

PACKAGE = Path(__file__).resolve().parents[2] / "vaswani_transformer"
OWN = {path.name for path in PACKAGE.glob("*_vaswani_transformer.py")}
RESULTS = {"train_steps": 2, "train_pairs": 4, "train_dropped_pairs": {}, "num_parameters": 12_345}


@pytest.fixture
def run(tiny_model, tiny_tokenizer, tmp_path):
    """The folder of a finished run with its card."""
    folder = tmp_path / "my-run"
    tiny_model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    get_recipe("quickstart").save(folder)
    results = {**RESULTS, "num_averaged_snapshots": 0, "best_checkpoint": None}
    (folder / "train_results.json").write_text(json.dumps(results))
    assert write_card(folder) == folder / "README.md"
    return folder


def listed(card):
    """Name, size and hash of each file in a card's section on the code."""
    section = card.split("\n## Code\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\S+)` \| ([\d,]+) \| `([0-9a-f]{64})` \|$", section, re.MULTILINE)
    return {name: (int(size.replace(",", "")), digest) for name, size, digest in rows}


def hashed(files):
    """The same, from files, with the program that the card names."""
    files = sorted(files)
    output = subprocess.run(["sha256sum", *files], check=True, capture_output=True, text=True).stdout.splitlines()
    return {file.name: (len(file.read_bytes()), line.split()[0]) for file, line in zip(files, output, strict=True)}


def pushed(folder):
    """The card as it goes to the Hub, and the code that goes with it."""
    files = published_files(folder)
    card = _addition(folder / "README.md", "me/model").path_or_fileobj
    text = card.decode() if isinstance(card, bytes) else Path(card).read_text()
    return text, [path for path in files if path.name in OWN or path.suffix == ".py"]


def test_code_is_every_file_that_the_package_means_to_travel_and_no_other(run):
    assert {path.name for path in code_files(run)} == OWN


def test_code_in_a_model_is_the_packages_byte_for_byte(run):
    assert hashed(code_files(run)) == hashed(PACKAGE.glob("*_vaswani_transformer.py"))


def test_card_lists_the_code_with_the_hashes_that_sha256sum_gives(run):
    card = (run / "README.md").read_text()
    assert listed(card) == hashed(code_files(run))
    assert f"they are those of vaswani-transformer {code_version()}." in card


def test_pushed_card_lists_the_code_that_is_pushed_with_it(run):
    file = run / "loss_vaswani_transformer.py"
    file.write_text(file.read_text() + "# changed after the card was written\n")
    (run / "unused_vaswani_transformer.py").write_text("")
    card, code = pushed(run)
    assert {path.name for path in code} == OWN
    assert listed(card) == hashed(code) != listed((run / "README.md").read_text())
    assert "but for `loss_vaswani_transformer.py` they are those of vaswani-transformer" in card
    assert len(re.findall("^## Code$", card, re.MULTILINE)) == 1


def test_pushed_card_of_an_earlier_version_receives_the_list(run):
    card = run / "README.md"
    card.write_text(card.read_text().split("\n## Code\n")[0])
    text, code = pushed(run)
    assert listed(text) == hashed(code)
    assert text.startswith(card.read_text().replace("path/to/my-run", "me/model").rstrip())


def test_pushed_card_keeps_what_follows_the_list(run):
    card = run / "README.md"
    card.write_text(card.read_text() + "\n## Thanks\n\nTo all.\n")
    text, code = pushed(run)
    assert text.endswith("\n\n## Thanks\n\nTo all.\n")
    assert listed(text) == hashed(code)


def test_card_of_other_origin_is_pushed_as_it_is(run):
    text = "---\ntags:\n- mine\n---\n\n## Code\n\nMine.\n"
    (run / "README.md").write_text(text)
    assert pushed(run)[0] == text


@pytest.mark.parametrize(
    "place",
    [
        "stranger/repo--modeling_vaswani_transformer.X",
        "../modeling_vaswani_transformer.X",
        "/etc/passwd.X",
        "os.system",
    ],
)
@pytest.mark.parametrize("key", ["auto_map", "custom_pipelines"])
def test_config_that_names_code_of_another_place_is_not_pushed(key, place, run):
    config = json.loads((run / "config.json").read_text())
    config[key] |= {"AutoModel": place} if key == "auto_map" else {"translation": {"impl": place}}
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=re.escape(f"names code of its own folder, got {place!r}")):
        published_files(run)


# ---- links and pictures out of the folder ----


@pytest.mark.parametrize("name", ["secret.png", "test_results-x.json", "loss_vaswani_transformer.py"])
def test_link_out_of_the_folder_is_not_pushed(name, run, tmp_path):
    (tmp_path / "secret").write_text("mine")
    (run / "README.md").write_text("![](secret.png)\n")
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(tmp_path / "secret")
    with pytest.raises(ValueError, match=f"must hold its files itself, got a link from .*{name} to {tmp_path}/sec"):
        published_files(run)


def test_link_within_the_folder_and_links_of_the_hubs_cache_are_pushed(run, tmp_path):
    expected = {path.name for path in published_files(run)}
    (run / "weights").mkdir()
    (run / "model.safetensors").rename(run / "weights" / "1.safetensors")
    (run / "model.safetensors").symlink_to("weights/1.safetensors")
    assert {path.name for path in published_files(run)} == expected
    snapshot, blobs = tmp_path / "cache" / "snapshots" / "0a1b", tmp_path / "cache" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for path in published_files(run):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        shutil.copy(path, blobs / digest)
        (snapshot / path.name).symlink_to(f"../../blobs/{digest}")
    assert {path.name for path in published_files(snapshot)} == expected


def test_picture_that_a_card_names_outside_the_folder_is_not_pushed(run, tmp_path):
    for path in (tmp_path / "secret.png", run / "pictures" / "inner.png"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    (run / "README.md").write_text(f"![](../secret.png) ![]({tmp_path}/secret.png) ![](pictures/inner.png)\n")
    assert [path for path in published_files(run) if path.suffix == ".png"] == []


# ---- what a stranger wrote into a run's files ----

EVIL = ["<img src=x onerror=alert(1)>", "`code`", "a\n## Scores"]


@pytest.mark.parametrize("text", EVIL)
@pytest.mark.parametrize("place", ["recipe", "languages", "results", "scores", "reasons"])
def test_markup_in_a_runs_files_gets_into_no_card(place, text, run):
    results = json.loads((run / "train_results.json").read_text())
    if place == "recipe":
        get_recipe("quickstart", tokenizer=text).save(run)
    elif place == "languages":
        make_config(source_language=text, target_language="de").save_pretrained(run)
    elif place == "scores":
        scores = {"test_data": text, "test_corpus": {"source_file": text}, "test_num_sentences": 1}
        metrics = ("sacrebleu", "chrf", "paper_bleu", "tokenized_bleu")
        scores |= {f"test_{name}": 1.0 for name in metrics} | {f"test_{name}_signature": text for name in metrics}
        names = ("num_beams", "length_penalty", "length_penalty_offset", "max_new_tokens_over_source")
        (run / "test_results.json").write_text(json.dumps(scores | {f"test_{name}": 1 for name in names}))
    else:
        changed = (
            {"train_device": text, "train_num_devices": 1}
            if place == "results"
            else {"train_dropped_pairs": {text: 1}}
        )
        (run / "train_results.json").write_text(json.dumps(results | changed))
    with pytest.raises(ValueError, match="`folder` must hold names and values of one line without < and `"):
        write_card(run)
