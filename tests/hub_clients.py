# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What the people of test_hub.py do with the real client of the Hub, each in a process of their
own.

python hub_clients.py ROLE '["ARGUMENT", ...]'; the last line of the output is JSON. Only
`with_package` imports the package: to the others it is as good as not installed.
"""

import contextlib
import gc
import importlib.util
import io
import json
import os
import re
import runpy
import shutil
import sys
from pathlib import Path

TEXTS = ["A dog runs.", "", "Two women read a book."]


CALLS = [  # texts and options of the pipeline
    ["A dog runs to {name}.\n\n - TWO WOMEN READ 12 BOOKS. \U0001f600 Why?", {}],
    ["A dog runs. A dog.", {"split_sentences": False}],
    ["A dog runs.", {"target_prefix": "Ein"}],
    ["A dog runs.\nA book.", {"return_scores": True}],
]
TRUST = {"trust_remote_code": True}


def read(repos, **options):
    """Translations by each of several (id, revision)."""
    from transformers import pipeline

    return [
        pipeline("translation", model=repo, revision=rev, **options)(TEXTS) for repo, rev in repos
    ]


def describe_classes(repo, **options):
    """What each Auto class makes of a repo: where the class comes from, and its name."""
    from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer

    loaders = (AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer)
    found = [type(loader.from_pretrained(repo, **options)) for loader in loaders]
    return [[kind.__module__.split(".")[0], kind.__name__] for kind in found]


def command(line):
    """Exit code, output and error line of a console command."""
    from vaswani_transformer.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(line.split())
    error = next((line for line in err.getvalue().splitlines() if line.startswith("error: ")), "")
    return {"code": code, "out": out.getvalue(), "error": error}


def printed_by_card(repo, number):
    """What a block of Python of a repo's card prints."""
    from huggingface_hub import ModelCard

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(re.findall(r"```python\n(.*?)```", ModelCard.load(repo).text, re.DOTALL)[number], {})
    return printed.getvalue()


# ---- roles with the package ----


def with_package(runs, repos):
    """The author pushes the runs of a folder; then a stranger reads repos."""
    done = author(Path(runs))
    os.environ["HF_TOKEN"] = "stranger"
    done["read"] = reader(repos, Path(runs, "download"))
    os.environ["HTTP_PROXY"] = "http://127.0.0.1:9"  # nobody listens there
    from huggingface_hub import close_session

    close_session()
    done["unreachable"] = command("push --model main --repo-id author/unreachable")
    return done


def author(runs):
    """Pushes the runs in a folder in every way there is, after and before pushes that must fail."""

    def push(run, words):
        return command(f"push --model {runs / run} --repo-id author/{words}")

    del os.environ["HF_TOKEN"]
    done = {"no token": push("main", "no-token --license mit")}  # which stays in the card
    os.environ["HF_TOKEN"] = "author"
    done["unknown license"] = push("main", "unknown-license --license nonsense")
    done["v1"] = push("v1", "model --tag v1 --license mit")
    done["main"] = push("main", "model --license mit")
    done["dev"] = push("dev", "model --revision dev --license mit")
    done["old tag"] = push("dev", "model --tag v1")
    done["unlucky tag"] = push("main", "tagless --tag unlucky")
    done["private"] = push("main", "secret --private --tag v2")
    done["old"] = push("old", "old --license mit")
    push_by_trainers(runs)
    push_what_is_made_here(runs)
    return done


def push_by_trainers(runs):
    """Trains a little under both trainers: ours pushes at every save and at the end, the library's
    at the end.

    Ours pushes an adapter of a model on the Hub, too.
    """
    from transformers import (
        AutoModelForSeq2SeqLM,
        AutoTokenizer,
        DataCollatorForSeq2Seq,
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
    )

    from vaswani_transformer import VaswaniTransformerTrainer, VaswaniTransformerTrainingArguments

    model = AutoModelForSeq2SeqLM.from_pretrained(runs / "main")
    tokenizer = AutoTokenizer.from_pretrained(runs / "main")
    row = {
        name: ids
        for name, ids in tokenizer("A dog.", text_target="Ein Hund.").items()
        if name != "attention_mask"
    }
    data = {"train_dataset": [row] * 4, "processing_class": tokenizer}
    options = {
        "use_cpu": True,
        "report_to": "none",
        "disable_tqdm": True,
        "max_steps": 2,
        "save_steps": 1,
    }

    where = {"output_dir": runs / "plain", "hub_model_id": "author/plain"}
    collator = DataCollatorForSeq2Seq(tokenizer, model=model)
    trainer = Seq2SeqTrainer(
        model, Seq2SeqTrainingArguments(**where, **options), data_collator=collator, **data
    )
    trainer.train()
    trainer.push_to_hub()

    where = {
        "output_dir": runs / "ours",
        "hub_model_id": "author/ours",
        "push_to_hub": True,
        "snapshot_steps": 1,
    }
    trainer = VaswaniTransformerTrainer(
        model, VaswaniTransformerTrainingArguments(**where, **options), **data
    )
    trainer.train()
    trainer.push_to_hub(license="mit")
    trainer.push_to_hub(revision="next", blocking=False).result()

    if importlib.util.find_spec("peft"):
        from peft import LoraConfig, get_peft_model

        lora = LoraConfig(task_type="SEQ_2_SEQ_LM", target_modules=["q_proj"])
        model = get_peft_model(AutoModelForSeq2SeqLM.from_pretrained("author/model"), lora)
        where = {
            "output_dir": runs / "adapter",
            "hub_model_id": "author/adapter",
            "snapshot_steps": 1,
        }
        trainer = VaswaniTransformerTrainer(
            model, VaswaniTransformerTrainingArguments(**where, **options), **data
        )
        trainer.train()
        trainer.push_to_hub()


def push_what_is_made_here(runs):
    """Trains and fine-tunes from files named by their paths, exports the models, and pushes all
    that comes of it.
    """
    from huggingface_hub import HfApi
    from tiny import SMALLEST, write_sentences

    os.chdir(runs)
    write_sentences(runs, "text")
    texts = {"source": runs / "text.en", "target": runs / "text.de"}
    corpora = [
        f"--{split}-{side}={path}"
        for split in ("train", "validation", "test")
        for side, path in texts.items()
    ]
    Path("data", "tokens").mkdir(parents=True)
    for path in (runs / "main").glob("tokenizer*"):
        shutil.copy(path, Path("data", "tokens"))
    steps = {
        "max_steps": 2,
        "eval_steps": 2,
        "save_steps": 2,
        "snapshot_steps": 1,
        "generation_num_beams": 0,
    }
    options = [
        f"--{name.replace('_', '-')}={value}"
        for name, value in {**SMALLEST, **steps, "tokenizer": "data/tokens"}.items()
    ]
    train = f"train --output-dir {runs}/trained --source-language=en --target-language=de"
    data = f"--source {texts['source']} --reference {texts['target']}"
    fine_tune("main", runs / "tuned", texts)
    made = [
        command(" ".join([train, *corpora, *options])),
        command(f"evaluate --model {runs}/trained {data}"),
        command("push --model trained --repo-id author/trained --license mit"),
        command("push --model tuned --repo-id author/tuned --license mit"),
        command(f"export --to marian --model author/trained --output-dir {runs}/trained-marian"),
        command(
            f"export --to ctranslate2 --model {runs}/tuned --output-dir {runs}/tuned-ctranslate2"
        ),
    ]
    assert not [each for each in made if each["code"]], made
    exports = "trained-marian tuned-ctranslate2 to_try/small to_try/small-marian"
    for folder in exports.split():
        repo = f"author/{Path(folder).name}"
        HfApi().create_repo(repo)
        HfApi().upload_folder(folder_path=runs / folder, repo_id=repo)


def fine_tune(model, folder, texts):
    """Runs the example for a few steps."""
    example = runpy.run_path(
        str(Path(__file__).parents[1] / "scripts" / "examples" / "fine_tune.py")
    )
    files = [
        f"--{split}-{side}={path}"
        for split in ("train", "validation")
        for side, path in texts.items()
    ]
    example["main"]([f"--model={model}", f"--output-dir={folder}", "--max-steps=2", *files])


def reader(repos, folder):
    """Uses repos with the package installed, runs a card's code, and pushes a downloaded repo to
    another.
    """
    import huggingface_hub

    import vaswani_transformer  # noqa: F401  (registers the model)

    done = {"translations": read(repos), "classes": describe_classes(repos[0][0])}
    done["printed by the card of model"] = printed_by_card(repos[0][0], 1)
    huggingface_hub.snapshot_download(repos[0][0], local_dir=folder)
    done["download"] = command(f"push --model {folder} --repo-id stranger/download")
    return done


# ---- roles without the package ----


def remote_reader(repos, old_sources):
    """Uses repos by their own code, pushes one again from what it loaded, and uses that."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

    done = {"translations": read(repos, **TRUST), "classes": describe_classes(repos[0][0], **TRUST)}
    translate = pipeline("translation_en_to_de", model=repos[0][0], **TRUST)
    done["by language pair"] = translate(TEXTS)
    for name in ("model", "small", "small-marian"):
        done[f"printed by the card of {name}"] = printed_by_card(f"author/{name}", 0)
    done["0.1.0"] = pipeline("translation", model="author/old", **TRUST)(old_sources)
    done["with options"] = [translate(text, **options) for text, options in CALLS]
    AutoModelForSeq2SeqLM.from_pretrained(repos[0][0], **TRUST).push_to_hub("stranger/copy")
    AutoTokenizer.from_pretrained(repos[0][0], **TRUST).push_to_hub("stranger/copy")
    done["copy"] = read([("stranger/copy", None)], **TRUST)
    return done


def offline_reader(repos):
    """Uses repos from the cache by their own code, then with the package; one that is not there
    with its command.
    """
    done = {"remote": read(repos, **TRUST)}
    del sys.modules["vaswani_transformer"]
    import vaswani_transformer  # noqa: F401  (registers the model)

    done["installed"] = read(repos)
    done["never loaded"] = command(f"translate --model author/never-loaded --input {__file__}")
    return done


if __name__ == "__main__":
    gc.disable()  # a quarter of the time of the imports
    role = globals()[sys.argv[1]]
    if role != with_package:
        sys.modules["vaswani_transformer"] = None
    print(json.dumps(role(*json.loads(sys.argv[2]))))
