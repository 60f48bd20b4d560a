# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The life of a checkpoint on the Hub: pushed, pulled by others by both routes, pushed again,
pulled again.

The client is the real one, in processes of their own (hub_clients.py); the Hub is hub_server.py.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest
from hub_clients import CALLS, TEXTS
from hub_server import HubServer
from huggingface_hub import ModelCard
from processes import HUB_FILES, ROOT, script_environment
from tiny import make_model
from transformers import AutoModelForSeq2SeqLM, pipeline

from vaswani_transformer.files import write_json
from vaswani_transformer.hub.card import write_card
from vaswani_transformer.recipe import get_recipe

pytestmark = pytest.mark.slow

CODE = {path.name for path in HUB_FILES}
MODEL = CODE | {
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}
RUN = MODEL | {"README.md", "recipe.json", "train_results.json", "training_curves.png"}
PRIVATE = (
    "checkpoint-2/optimizer.pt",
    "snapshots/step-00000002.safetensors",
    "trainer_state.json",
    "training_args.bin",
    "other.png",
)
RESULTS = {"train_steps": 2, "train_pairs": 4, "train_dropped_pairs": {}, "num_parameters": 12_345}
OWN_CARD = "---\ntags:\n- mine\n---\n\n# A card of my own\n"
REPOS = [("author/model", None), ("author/model", "v1"), ("author/model", "dev")]
OTHER_REPOS = [("author/plain", None), ("author/ours", None)]


HOME = "/home/somebody/client"  # in paths, which are not pushed


def make_run(folder, tokenizer, seed, **data):
    """A finished run's folder, with what must stay at home."""
    model = make_model(seed=seed, scale=2.5, source_language="en", target_language="de")
    model.generation_config.max_new_tokens_over_source = 3
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    get_recipe("quickstart", **data).save(folder)
    best = f"{HOME}/runs/checkpoint-2"
    write_json(
        folder / "train_results.json",
        {**RESULTS, "num_averaged_snapshots": 0, "best_checkpoint": best},
    )
    (folder / "training_curves.png").write_bytes(b"curves")
    write_card(folder)
    for name in PRIVATE:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"private")


@pytest.fixture(scope="module")
def hub():
    with HubServer() as server:
        yield server


@pytest.fixture(scope="module")
def runs(hub, tmp_path_factory, tiny_tokenizer):
    """Folders of four runs, of one about to start, of one of 0.1.0 in this version's form, and of
    what scripts/model_to_try.sh makes of a run on the built-in corpus.
    """
    runs = tmp_path_factory.mktemp("runs")
    for seed, name in enumerate(("main", "v1", "dev")):
        make_run(
            runs / name,
            tiny_tokenizer,
            seed,
            train_source=f"{HOME}/train.en",
            train_target=f"{HOME}/train.de",
        )
    own = {"source_file": f"{HOME}/own.en", "target_file": f"{HOME}/own.de"}
    write_json(
        runs / "v1" / "test_results-own.json",
        {"test_corpus": own, "test_data": ", ".join(own.values())},
    )
    (runs / "ours").mkdir()
    (runs / "ours" / "README.md").write_text(OWN_CARD)
    with tarfile.open(Path(__file__).parent / "checkpoints" / "0.1.0.tar.xz") as archive:
        archive.extractall(runs / "archive", filter="data")
    (runs / "archive" / "run").rename(runs / "old")
    code = {path.name: path.read_bytes() for path in (runs / "old").glob("*.py")}
    assert set(code) - CODE  # which this version has no more
    hub.add_repo("author/old", code)
    AutoModelForSeq2SeqLM.from_pretrained(runs / "old").save_pretrained(runs / "old")
    make_run(runs / "small", tiny_tokenizer, 3)
    script = ROOT / "scripts" / "model_to_try.sh"
    done = subprocess.run(
        ["bash", str(script), "small", "author/small", "to_try"],
        cwd=runs,
        env=script_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return runs


def run_client(hub, home, role, *arguments, **environment):
    """What a role of hub_clients.py has to tell; nobody is asked anything meanwhile."""
    own = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0", **environment}
    done = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).with_name("hub_clients.py")),
            role,
            json.dumps(arguments),
        ],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "HF_TOKEN": "stranger", **own},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "[y/N]" not in done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def pushed(hub, runs, tmp_path_factory):
    """What the author was told; the Hub holds the repos from then on."""
    home = tmp_path_factory.mktemp("with_package")
    return run_client(hub, home, "with_package", str(runs), REPOS + OTHER_REPOS)


@pytest.fixture(scope="module")
def read(pushed):
    """What a reader with the package finds in the repos."""
    return pushed["read"]


@pytest.fixture(scope="module")
def remote_home(tmp_path_factory):
    return tmp_path_factory.mktemp("remote_reader")


@pytest.fixture(scope="module")
def remotely_read(hub, pushed, runs, remote_home):
    """What a reader without the package finds in the repos, a folder and a copy of their own."""
    models = [*REPOS, *OTHER_REPOS, (str(runs / "main"), None)]
    old_sources = (runs / "archive" / "train.en").read_text(encoding="utf-8").splitlines()
    return run_client(hub, remote_home, "remote_reader", models, old_sources)


@pytest.fixture(scope="module")
def offline(hub, remotely_read, remote_home):
    """What the reader without the package still finds when offline."""
    num_requests = len(hub.requests)
    found = run_client(hub, remote_home, "offline_reader", REPOS, HF_HUB_OFFLINE="1")
    assert len(hub.requests) == num_requests
    return found


@pytest.fixture(scope="module")
def expected(pushed, runs):
    """Translations by the author's own folders, in the order of the repos."""
    found = [
        pipeline("translation", model=str(runs / name))(TEXTS)
        for name in ("main", "v1", "dev", "plain", "ours")
    ]
    assert len({json.dumps(translations) for translations in found[:3]}) == 3
    return found


# ---- push ----


def test_push_uploads_the_published_files_in_one_commit(hub, pushed):
    repo = hub.repos["author/model"]
    assert set(repo.files()) == RUN | {".gitattributes"}
    assert repo.messages == ["initial commit", *["Upload translation model"] * 3]


def test_push_prints_where_the_model_is(hub, pushed):
    assert pushed["main"]["out"] == f"pushed to {hub.url}/author/model\n"
    assert pushed["dev"]["out"] == f"pushed to {hub.url}/author/model/tree/dev\n"


def test_pushed_files_are_those_of_the_folder_but_for_paths(hub, pushed, runs):
    files = hub.repos["author/model"].files()
    for name in RUN - {"README.md"}:
        content = (runs / "main" / name).read_bytes()
        for folder in (f"{HOME}/runs/", f"{HOME}/"):
            content = content.replace(folder.encode(), b"")
        assert files[name] == content, name
    assert b'model="author/model"' in files["README.md"]


def test_pushed_card_names_its_license_and_pins_the_tag_or_the_branch(hub, pushed):
    for name, revision in (("model", "main"), ("model", "dev"), ("secret", "v2")):
        card = ModelCard(hub.repos[f"author/{name}"].files(revision)["README.md"].decode())
        assert card.data.license == "mit"
        assert card.text.count(f'revision="{revision}"') == 2


def test_pushed_results_name_a_test_set_without_its_folder(hub, pushed):
    files = hub.repos["author/model"].files("v1")  # `main` has none of them
    results = json.loads(files["test_results-own.json"])
    assert results["test_corpus"] == {"source_file": "own.en", "target_file": "own.de"}
    assert results["test_data"] == "own.en, own.de"


def test_private_push_makes_a_private_repo(hub, pushed):
    assert [hub.repos[name].private for name in ("author/secret", "author/model")] == [True, False]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("no token", "401"),
        ("unknown license", "must be one of [...]"),
        ("old tag", "`--tag` must be new, got 'v1', which author/model has"),
        ("unreachable", "refused"),
    ],
)
def test_push_that_cannot_be_is_refused_in_one_line(case, message, pushed):
    assert pushed[case]["code"] == 2
    assert message in pushed[case]["error"]


def test_tag_that_fails_after_the_commit_is_told_apart(hub, pushed):
    (commit,) = hub.repos["author/tagless"].branches.values()
    assert (
        f"The model was pushed to author/tagless as {commit}, but the tag"
        in pushed["unlucky tag"]["error"]
    )


def test_refused_pushes_leave_nothing_behind(hub, pushed):
    refused = ("no-token", "unknown-license", "unreachable")
    assert not {f"author/{name}" for name in refused} & set(hub.repos)
    assert len(hub.repos["author/model"].commits) == 4
    assert set(hub.repos["author/model"].branches) == {"main", "dev"}


# ---- push by other means ----


def test_our_trainer_pushes_the_model_alone_at_a_save_at_the_end_and_to_a_branch(hub, pushed):
    repo = hub.repos["author/ours"]
    assert max(map(len, repo.commits.values())) == len(MODEL) + 2
    assert set(repo.files()) == MODEL | {"README.md", ".gitattributes"}
    assert repo.messages[1].startswith("Training in progress, step ")
    assert repo.messages[-1] == "End of training"  # the branch has the same files
    assert set(repo.branches) == {"main", "next"}
    card = ModelCard(repo.files()["README.md"].decode())  # its own, and what it is told
    assert (card.data.tags, card.data.license) == (["mine"], "mit")
    assert "# A card of my own" in card.text


def test_our_trainer_pushes_an_adapter_that_names_its_base_model_on_the_hub(hub, pushed):
    pytest.importorskip("peft", reason="peft is not installed")
    files = hub.repos["author/adapter"].files()
    assert {"adapter_config.json", "adapter_model.safetensors", "README.md"} <= set(files)
    assert not [
        name for name in files if name.startswith(("snapshots", "checkpoint", "training_args"))
    ]
    assert json.loads(files["adapter_config.json"])["base_model_name_or_path"] == "author/model"
    assert ModelCard(files["README.md"].decode()).data.base_model == "author/model"


def test_export_of_a_model_on_the_hub_names_it_and_keeps_its_license(hub, pushed):
    data = ModelCard(hub.repos["author/trained-marian"].files()["README.md"].decode()).data
    assert (data.base_model, data.license) == ("author/trained", "mit")


def test_nothing_that_is_pushed_names_a_folder_of_its_author(hub, pushed, runs):
    places = {
        str(runs),
        HOME,
        str(Path.home()),
        str(Path.cwd()),
        tempfile.gettempdir(),
        "data/tokens",
    }
    found = {
        (repo.name, name)
        for repo in hub.repos.values()
        for tree in repo.commits.values()
        for name, content in tree.items()
        if any(place.encode() in content for place in places)
    }
    made = "adapter model ours trained trained-marian tuned-ctranslate2".split()
    assert set(hub.repos) >= {f"author/{name}" for name in made}
    # The library's own trainer uploads its pickled arguments, whatever the model is.
    assert found <= {("author/plain", "training_args.bin")}


def test_trainers_push_every_file_of_the_model_after_training(hub, pushed, runs):
    assert set(hub.repos["author/plain"].files()) >= MODEL
    for name in ("ours", "plain"):
        weights = hub.repos[f"author/{name}"].files()["model.safetensors"]
        assert weights == (runs / name / "model.safetensors").read_bytes()
        assert weights != (runs / "main" / "model.safetensors").read_bytes()


# ---- pull ----


def test_reader_with_the_package_gets_the_authors_translations(read, expected):
    assert read["translations"] == expected


def test_reader_without_the_package_gets_the_authors_translations(remotely_read, expected, runs):
    assert remotely_read["translations"] == [*expected, expected[0]]
    assert remotely_read["by language pair"] == expected[0]
    assert remotely_read["copy"] == [expected[0]]
    translate = pipeline("translation", model=str(runs / "main"))
    assert remotely_read["with options"] == [translate(text, **options) for text, options in CALLS]


@pytest.mark.parametrize("trust", [{}, {"trust_remote_code": True}, {"trust_remote_code": False}])
def test_installed_package_works_whatever_is_said_of_remote_code(checkpoint, trust):
    translate = pipeline("translation", model=str(checkpoint), **trust)
    assert type(translate.model).__module__ == "vaswani_transformer.modeling_vaswani_transformer"


def test_auto_classes_take_the_packages_classes_where_it_is_installed(read, remotely_read):
    names = [
        f"VaswaniTransformer{name}"
        for name in ("Config", "Model", "ForConditionalGeneration", "Tokenizer")
    ]
    assert read["classes"] == [["vaswani_transformer", name] for name in names]
    found = [["transformers_modules", name] for name in names[:3]]
    assert remotely_read["classes"] == [*found, ["transformers", "TokenizersBackend"]]


def test_code_in_the_pushed_card_translates_with_and_without_the_package(read, remotely_read):
    assert read["printed by the card of model"].strip()
    assert read["printed by the card of model"] == remotely_read["printed by the card of model"]


# ---- push again, pull again ----


def test_copy_pushed_by_a_reader_without_the_package_has_every_file_of_the_model(
    hub, remotely_read
):
    copy, original = hub.repos["stranger/copy"].files(), hub.repos["author/model"].files()
    assert set(copy) == MODEL | {"README.md", ".gitattributes"}
    assert {name: copy[name] for name in CODE} == {name: original[name] for name in CODE}


def test_downloaded_repo_can_be_pushed_as_it_is(hub, read):
    assert read["download"]["code"] == 0
    copy, original = (hub.repos[name].files() for name in ("stranger/download", "author/model"))
    assert b'model="stranger/download"' in copy.pop("README.md")
    assert original.pop("README.md") and copy == original


# ---- a model to try ----

TO_TRY = ("small", "small-marian")


def test_model_to_try_is_the_model_and_its_export_without_the_training(hub, pushed):
    export = {name for name in MODEL if not name.endswith(".py")} | {"README.md"}
    for name, files in zip(TO_TRY, (RUN, export), strict=True):
        assert set(hub.repos[f"author/{name}"].files()) == files | {".gitattributes"}


def test_cards_of_the_model_to_try_have_license_and_attribution_and_their_code_translates(
    hub, remotely_read, runs
):
    cards = [
        ModelCard(hub.repos[f"author/{name}"].files()["README.md"].decode()) for name in TO_TRY
    ]
    assert [card.data.license for card in cards] == ["cc-by-2.0"] * 2
    assert all("contributors of [tatoeba.org]" in card.text for card in cards)
    assert (cards[1].data.base_model, cards[1].text.split()[:2]) == (
        "author/small",
        ["#", "small-marian"],
    )
    (expected,) = pipeline("translation", model=str(runs / "small"))("The man reads a book.")
    printed, by_export = (remotely_read[f"printed by the card of {name}"] for name in TO_TRY)
    assert printed == f"{expected['translation_text']}\n"
    assert by_export.startswith("['")


# ---- without network, files or cache ----


@pytest.mark.heavy
def test_cached_repo_works_offline(offline, expected):
    assert offline["remote"] == offline["installed"] == expected[:3]
    assert offline["never loaded"]["code"] == 2
    assert "Check your internet connection" in offline["never loaded"]["error"]


# ---- a model of an earlier release ----


def test_model_of_0_1_0_that_is_saved_and_pushed_again_is_one_of_this_version(
    hub, pushed, remotely_read, runs
):
    assert pushed["old"]["code"] == 0, pushed["old"]["error"]
    assert {name for name in hub.repos["author/old"].files() if name.endswith(".py")} == CODE
    targets = (runs / "archive" / "train.de").read_text(encoding="utf-8").splitlines()
    assert [found["translation_text"] for found in remotely_read["0.1.0"]] == targets
