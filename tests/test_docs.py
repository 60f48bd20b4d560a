# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The tour prints what it shows, the examples of CONTRIBUTING work as written, and every link leads
somewhere.
"""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import transformers
from readme import ROOT, blocks, text_of
from tiny import write_sentences
from toy_language import limits, make_pairs, tiny_recipe
from transformers import Seq2SeqTrainer, Trainer, pipeline

from vaswani_transformer.training.resuming import ResumableTrainer
from vaswani_transformer.training.train import train
from vaswani_transformer.training.trainer import VaswaniTransformerTrainer

# ---- the tour ----

TOUR = re.findall(
    r"```python\n(.*?)```\n```text\n(.*?)```", text_of("docs/tour.md"), flags=re.DOTALL
)
SECTIONS = re.findall(r"^## ([\d.]+) ", text_of("docs/tour.md"), flags=re.MULTILINE)


def test_tour_shows_what_every_block_prints_in_the_papers_order():
    assert len(TOUR) == len(blocks("python", "docs/tour.md"))
    assert " ".join(SECTIONS) == "3.1 3.2.1 3.2.2 3.2.3 3.3 3.4 3.5 4 5.1 5.2 5.3 5.4 6.1 6.2 6.3"


@pytest.mark.slow
def test_tour_prints_what_it_shows(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(
        sys, "path", [folder for folder in sys.path if not folder.endswith("scripts/paper")]
    )
    namespace = {}
    for code, shown in TOUR:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        assert printed.getvalue() == shown, code


def code_in_tour():
    """Each file of code that the tour links, with the symbols that stand before it since the link
    before.
    """
    parts = re.split(r"\[[\w/]+\.py\]\(\.\./([\w/]+\.py)\)", text_of("docs/tour.md"))
    for before, file in zip(parts[::2], parts[1::2], strict=False):
        symbols = re.findall(
            r"`([A-Za-z_][\w.]*)`", before.rpartition("\n\n")[2].rpartition("Code:")[2]
        )
        # else a second link in one sentence
        if symbols := [symbol for symbol in symbols if not symbol.endswith("_")]:
            yield file, symbols


@pytest.mark.parametrize(("file", "symbols"), code_in_tour(), ids=str)
def test_tour_names_code_where_it_is(file, symbols):
    text = (ROOT / file).read_text(encoding="utf-8")
    for symbol in symbols:
        name = symbol.split(".")[-1]
        assert re.search(
            rf"\b(def|class) {name}\b|^{name}\b.* = |self\.{name} =", text, re.MULTILINE
        ), symbol


# ---- the paths of CONTRIBUTING ----


def path_in(title):
    """(function, beginning of its file) of each step in a section's table."""
    rows = re.findall(r"^\| `([\w.]+)` \| `([\w/.]+)…?` \|", section(title), flags=re.MULTILINE)
    assert len(rows) == section(title).count("\n| ") - 1 > 5  # less the header
    return rows


def functions_passed(call):
    """(function, file) of each function of the package that a call passes, in the order of their
    first calls.
    """
    package = ROOT / "vaswani_transformer"
    library = Path(transformers.__file__).parent
    codes = {}

    def note(frame, event, _):
        if event == "call":
            codes[frame.f_code] = None

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    passed = []
    for code in codes:
        path = Path(code.co_filename)
        for root, folder in ((package, package), (library.parent, library)):
            if folder in path.parents:
                passed.append((code.co_qualname, str(path.relative_to(root))))
    return passed


def check_path(title, call):
    """Raises AssertionError unless a call passes the steps of a section's table in their order."""
    remaining = iter(functions_passed(call))
    for function, file in path_in(title):
        assert any(name == function and path.startswith(file) for name, path in remaining), function


def test_path_of_a_sentence_is_what_runs(checkpoint):
    translate = pipeline("translation", model=str(checkpoint), device="cpu")
    check_path("The path of a sentence", lambda: translate(["A dog runs."]))


def test_path_of_a_batch_and_of_a_resume_is_what_runs(tiny_tokenizer, tmp_path):
    tiny_tokenizer.save_pretrained(tmp_path / "tokenizer")
    options = {"tokenizer": str(tmp_path / "tokenizer"), "save_steps": 1, "max_steps": 1}
    recipe = tiny_recipe(tmp_path, {"train": make_pairs(60)}, **options, **limits(100))
    check_path("The path of a batch", lambda: train(recipe, tmp_path / "run", use_cpu=True))
    longer = replace(recipe, max_steps=2)
    check_path(
        "The path of a resume", lambda: train(longer, tmp_path / "run", use_cpu=True, resume=True)
    )


def test_contributing_names_every_method_that_the_trainers_override():
    own = vars(ResumableTrainer) | vars(VaswaniTransformerTrainer)
    overridden = [name for name in vars(Seq2SeqTrainer) | vars(Trainer) if name in own]
    named = set(re.findall(r"\w+", text_of(CONTRIBUTING)))
    assert [name for name in overridden if name not in named and name[:2] != "__"] == []


# ---- the examples of CONTRIBUTING ----

CONTRIBUTING = "docs/CONTRIBUTING.md"
STEP = re.compile(
    r"(?:[Ii]n\s`(?P<changed>[\w/.]+)`:\s+```diff|[Aa]s\s`(?P<new>[\w/.-]+)`:\s+```(?:python|yaml)|```(?P<run>python|bash))\n"
    r"(?P<code>.*?)```",
    re.DOTALL,
)


def section(title):
    """Text under a heading of CONTRIBUTING."""
    return text_of(CONTRIBUTING).split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def follow(title, folder):
    """Does the edits of a section in a copy of the package, and returns its other blocks as
    (language, code).
    """
    to_run = []
    for step in STEP.finditer(section(title)):
        if step["new"]:
            (folder / step["new"]).write_text(step["code"], encoding="utf-8")
        elif step["changed"]:
            for hunk in step["code"].split("@@\n"):
                change(folder / step["changed"], hunk.splitlines())
        else:
            to_run.append([step["run"], step["code"].replace("\\\n", " ")])
    return to_run


def change(path, hunk):
    """Applies the lines of a diff, whose old ones must be in a file once."""
    old, new = (
        "".join(f"{line[1:]}\n" for line in hunk if line[0] in signs) for signs in (" -", " +")
    )
    text = path.read_text(encoding="utf-8")
    assert text.count(f"\n{old}") == 1, f"{path} must have these lines once:\n{old}"
    path.write_text(text.replace(f"\n{old}", f"\n{new}"), encoding="utf-8")


PROGRAM = """
import contextlib, gc, io, json, shlex, sys
gc.disable()
from vaswani_transformer.cli import main

printed = []
for language, code in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        if language == "python":
            exec(code, {})
        else:
            assert all(main(shlex.split(line)[1:]) == 0 for line in code.splitlines())
    printed.append(out.getvalue())
print(json.dumps(printed))
"""


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """What the blocks of all three examples print in turn, in a copy of the package."""
    place = tmp_path_factory.mktemp("contributing")
    shutil.copytree(ROOT / "vaswani_transformer", place / "vaswani_transformer")
    write_sentences(place, "train", "test")
    steps = [
        step
        for title in ("Add a recipe", "Add a metric", "Add an export")
        for step in follow(title, place)
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(steps),
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return dict(
        zip(("recipe", "metric", "export", "numpy"), json.loads(done.stdout), strict=True)
    ), place


@pytest.mark.slow
def test_recipe_metric_and_export_added_as_written_work(followed):
    printed, place = followed
    run = place / "runs" / "my-corpus"
    assert "Trained my-corpus-small: 2 updates" in printed["recipe"]
    assert json.loads((run / "recipe.json").read_text())["vocab_size"] == 300
    assert re.search(r"^chrF\+\+ +\d+\.\d\d +nrefs:1.*nw:2", printed["metric"], re.MULTILINE)
    assert "test_chrf_plus_plus" in json.loads((run / "test_results.json").read_text())
    assert "chrF++" in (run / "README.md").read_text(encoding="utf-8")
    assert printed["export"].startswith("written: runs/my-corpus-numpy\n")
    assert re.fullmatch(r"\(\d+, 64\)\n", printed["numpy"])
    assert (place / "runs" / "my-corpus-numpy" / "weights.npz").is_file()


def test_contributing_names_every_marker_and_every_layer():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    markers = re.findall(r'^    "(\w+): ', project.split("markers = [", 1)[1], re.MULTILINE)
    packages = [path.parent.name for path in (ROOT / "vaswani_transformer").glob("*/__init__.py")]
    text = text_of(CONTRIBUTING)
    assert markers and [name for name in markers if f"| `{name}` |" not in text] == []
    assert [name for name in packages if f"`{name}/`" not in text] == []


def test_contributing_names_every_way_to_run_the_tests():
    script = (ROOT / "scripts" / "test.sh").read_text(encoding="utf-8")
    options = set(re.findall(r"^#   bash scripts/test\.sh (--\w+)", script, re.MULTILINE))
    assert options == set(re.findall(r"`bash scripts/test\.sh (--\w+)`", text_of(CONTRIBUTING)))


# ---- links ----

LINKED = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/*.md", "model_cards/**/*.md", "scripts/**/*.md")
    for path in ROOT.glob(pattern)
)


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text_of(page), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"src=\"([^\"]+)\"", text_of(page))
    for link in links:
        if re.match(r"https?://", link):
            continue
        file, _, anchor = link.partition("#")
        target = (ROOT / page).parent / file if file else ROOT / page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.resolve().relative_to(ROOT)), link


def test_every_page_of_docs_is_named_in_the_readme():
    assert [
        page
        for page in LINKED
        if page.startswith("docs/") and f"{page})" not in text_of("README.md")
    ] == []


# ---- the release ----


def test_citation_is_of_the_newest_release_of_the_changelog():
    version, date = re.search(
        r"^## (\d[\w.]*) - (\S+)$", text_of("CHANGELOG.md"), re.MULTILINE
    ).groups()
    assert f"\nversion: {version}\ndate-released: {date}\n" in text_of("CITATION.cff")
