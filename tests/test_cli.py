# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny import make_model
from transformers import AutoTokenizer

from vaswani_transformer import cli
from vaswani_transformer.cli import main
from vaswani_transformer.training.recipes import RECIPES, Recipe, get_recipe

SENTENCES = {
    "en": ["A dog runs in the park.", "Two women read a book.", "A dog reads.", "Two dogs run."],
    "de": ["Ein Hund rennt im Park.", "Zwei Frauen lesen ein Buch.", "Ein Hund liest.", "Zwei Hunde rennen."],
}
COMMANDS = ["train-tokenizer", "train", "evaluate", "translate", "average", "recipes"]
REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """A folder, as the working directory, with two small aligned text files train.en and train.de."""
    monkeypatch.chdir(tmp_path)
    for language, sentences in SENTENCES.items():
        (tmp_path / f"train.{language}").write_text("\n".join(sentences * 10) + "\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def model_folder(tmp_path, tiny_model, tiny_tokenizer):
    """A saved untrained model whose translations are short."""
    folder = tmp_path / "model"
    tiny_model.generation_config.max_new_tokens_over_source = 2
    tiny_model.save_pretrained(folder)
    tiny_tokenizer.save_pretrained(folder)
    return folder


TINY = {
    "--train-source": "train.en",
    "--train-target": "train.de",
    "--source-language": "en",
    "--target-language": "de",
    "--vocab-size": "270",
    "--d-model": "16",
    "--d-ff": "32",
    "--num-heads": "2",
    "--num-encoder-layers": "1",
    "--num-decoder-layers": "1",
    "--max-source-tokens-per-batch": "300",
    "--max-target-tokens-per-batch": "300",
    "--max-steps": "4",
    "--warmup-steps": "2",
    "--snapshot-steps": "2",
    "--save-steps": "2",
    "--logging-steps": "2",
    "--num-averaged-snapshots": "2",
}


def train_arguments(*flags, output_dir="run", **changes):
    """Arguments of a run of 4 updates; a change of value None drops the option."""
    options = {**TINY, **{f"--{name.replace('_', '-')}": value for name, value in changes.items()}}
    pairs = [part for name, value in options.items() if value is not None for part in (name, value)]
    return ["train", "--output-dir", output_dir, "--use-cpu", *pairs, *flags]


def refused(capsys, arguments):
    """Text of the one error line of a command that must fail with exit code 2."""
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return next(line for line in error.splitlines() if line.startswith("error: "))


# ---- help ----


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_describes_every_option(command, capsys):
    with pytest.raises(SystemExit) as exit_info:
        main([command, "--help"])
    assert exit_info.value.code == 0
    parser = cli._build_parser()._subparsers._group_actions[0].choices[command]
    assert all(action.help for action in parser._actions)
    assert "usage: vaswani-transformer" in capsys.readouterr().out


def test_help_shows_units_and_defaults(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main(["translate", "--help"])
    assert "padded source tokens translated at once; more is faster and takes more memory (default: 4096)" in (
        capsys.readouterr().out
    )
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert "updates of the linear warm-up (default: 4000)" in capsys.readouterr().out


def test_train_has_an_option_for_every_field_of_a_recipe():
    options = cli._build_parser()._subparsers._group_actions[0].choices["train"]._option_string_actions
    assert {f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(Recipe)} <= set(options)


def test_building_the_parser_needs_no_extra():
    blocked = ["datasets", "accelerate", "evaluate", "sacrebleu"]
    program = (
        f"import sys\nfor name in {blocked!r}: sys.modules[name] = None\n"
        "from vaswani_transformer.cli import main\nsys.exit(main(['recipes']))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, cwd=REPOSITORY)


def test_missing_extra_is_named_with_the_command_that_installs_it(model_folder, corpus):
    program = (
        "import sys\nsys.modules['sacrebleu'] = None\nfrom vaswani_transformer.cli import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    arguments = ["evaluate", "--model", str(model_folder), "--source", "train.en", "--reference", "train.de"]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert done.returncode == 2
    assert "error: `sacrebleu`" in done.stderr
    assert "pip install 'vaswani-transformer[eval]'" in done.stderr


# ---- values of a recipe ----


def parsed(*arguments):
    return cli._chosen_recipe(cli._build_parser().parse_args(["train", "--output-dir", "run", *arguments]))


def test_given_values_replace_those_of_the_recipe():
    recipe = parsed("--recipe", "quickstart", "--max-steps", "7", "--dropout", "0.25", "--attention-bias", "true")
    assert (recipe.max_steps, recipe.dropout, recipe.attention_bias) == (7, 0.25, True)
    assert recipe.warmup_steps == RECIPES["quickstart"].warmup_steps


def test_none_unsets_an_optional_value():
    assert parsed("--recipe", "multi30k-tiny", "--learning-rate", "none").learning_rate is None


@pytest.mark.parametrize("arguments", [("--max-steps", "none"), ("--d-model", "1.5"), ("--attention-bias", "maybe")])
def test_values_of_another_type_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as exit_info:
        parsed(*arguments)
    assert exit_info.value.code == 2
    assert f"argument {arguments[0]}: invalid" in capsys.readouterr().err


def test_recipes_lists_all_and_prints_one(capsys):
    assert main(["recipes"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in RECIPES)
    assert main(["recipes", "quickstart"]) == 0
    vocab_size = RECIPES["quickstart"].vocab_size
    assert any(line.split() == ["vocab_size", str(vocab_size)] for line in capsys.readouterr().out.splitlines())


# ---- the commands ----


def test_train_tokenizer_saves_what_autotokenizer_loads(corpus, capsys):
    assert main(["train-tokenizer", "train.en", "train.de", "--output-dir", "tokenizer", "--vocab-size", "280"]) == 0
    tokenizer = AutoTokenizer.from_pretrained("tokenizer")
    assert len(tokenizer) == 280
    assert tokenizer.decode(tokenizer("Ein Hund")["input_ids"], skip_special_tokens=True) == "Ein Hund"


@pytest.mark.slow
def test_train_evaluate_translate_and_average_work_one_after_the_other(corpus, capsys):
    arguments = train_arguments(test_source="train.en", test_target="train.de", max_new_tokens_over_source="2")
    assert main(arguments) == 0
    assert json.loads(Path("run/train_results.json").read_text())["train_steps"] == 4

    assert main(["evaluate", "--model", "run", "--device", "cpu", "--translations", "out.de"]) == 0
    assert "tok:13a" in capsys.readouterr().out
    results = json.loads(Path("run/test_results.json").read_text())
    assert results["test_num_sentences"] == len(Path("out.de").read_text().splitlines()) == 40
    assert {"test_sacrebleu", "test_sacrebleu_signature", "test_chrf", "test_chrf_signature"} <= set(results)

    assert main(["translate", "--model", "run", "--device", "cpu", "--input", "train.en", "--output", "again.de"]) == 0
    assert Path("again.de").read_bytes() == Path("out.de").read_bytes()

    assert main(["average", "run", "--output-dir", "averaged", "--last", "2"]) == 0
    assert main(["evaluate", "--model", "averaged", "--source", "train.en", "--reference", "train.de"]) == 0


def test_evaluate_takes_the_test_set_of_the_run_for_one_of_its_checkpoints(tmp_path):
    get_recipe("quickstart").save(tmp_path)
    (tmp_path / "checkpoint-5").mkdir()
    args = cli._build_parser().parse_args(["evaluate", "--model", str(tmp_path / "checkpoint-5")])
    corpus = cli._chosen_corpus(args)
    assert (corpus["dataset"], corpus["split"]) == ("builtin", "test")


def test_translate_reads_stdin_and_writes_stdout(model_folder, monkeypatch, capfdbinary):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"A dog.\n\n \n")))
    assert main(["translate", "--model", str(model_folder), "--device", "cpu"]) == 0
    lines = capfdbinary.readouterr().out.split(b"\n")
    assert len(lines) == 4
    assert lines[1:] == [b"", b"", b""]


def test_translate_leaves_quietly_when_its_reader_is_gone(model_folder, corpus):
    command = [sys.executable, "-m", "vaswani_transformer.cli", "translate", "--model", str(model_folder)]
    with subprocess.Popen(
        [*command, "--device", "cpu", "--input", "train.en"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    ) as process:
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
    assert process.returncode == 141


@pytest.mark.slow
def test_interrupted_training_exits_130_and_resumes(corpus):
    command = [sys.executable, str(REPOSITORY / "scripts" / "train.py")]
    arguments = train_arguments(max_steps="100000", save_steps="100000", logging_steps="1")[1:]
    with subprocess.Popen(
        [*command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    ) as process:
        deadline = time.monotonic() + 90
        while not list(Path("run").glob("snapshots/*")) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 130
    assert "Traceback" not in error
    checkpoint = next(Path("run").glob("checkpoint-*"))
    steps = int(checkpoint.name.removeprefix("checkpoint-"))
    assert main(["train", "--output-dir", "run", "--resume", "--use-cpu", "--max-steps", str(steps + 2)]) == 0
    assert json.loads(Path("run/train_results.json").read_text())["train_steps"] == steps + 2


# ---- bad input: one clear line, exit code 2, nothing lost ----


def test_train_refuses_a_missing_file(corpus, capsys):
    error = refused(capsys, train_arguments(train_source="nowhere.en"))
    assert "nowhere.en" in error
    assert not Path("run").exists()


def test_train_refuses_an_empty_file(corpus, capsys):
    Path("train.de").write_bytes(b"")
    assert "train.de" in refused(capsys, train_arguments())


def test_train_refuses_files_of_different_line_counts_and_names_both(corpus, capsys):
    Path("train.de").write_text("one\ntwo\n")
    error = refused(capsys, train_arguments())
    assert "40 lines in train.en" in error
    assert "2 lines in train.de" in error


def test_train_refuses_bytes_that_are_not_utf8_and_names_file_line_and_offset(corpus, capsys):
    Path("train.de").write_bytes(b"gut\nb\xe4d\n" * 20)
    error = refused(capsys, train_arguments())
    assert "train.de" in error
    assert "line 2" in error
    assert "offset 5" in error


@pytest.mark.parametrize("command", ["train", "train-tokenizer"])
def test_vocabulary_below_the_byte_alphabet_is_refused(command, corpus, capsys):
    arguments = {
        "train": train_arguments(vocab_size="258"),
        "train-tokenizer": ["train-tokenizer", "train.en", "--output-dir", "run", "--vocab-size", "258"],
    }
    assert "`vocab_size` must be at least 259" in refused(capsys, arguments[command])
    assert not Path("run").exists()


def test_train_refuses_an_odd_width_with_sinusoids(corpus, capsys):
    assert "`d_model` must be even" in refused(capsys, train_arguments(d_model="15", d_k="4", d_v="4"))


def test_train_refuses_a_width_that_the_heads_do_not_divide(corpus, capsys):
    assert "`d_model` must be divisible by `num_heads`" in refused(capsys, train_arguments(num_heads="3"))


def test_train_refuses_an_unknown_recipe_and_prints_the_known(capsys):
    error = refused(capsys, ["train", "--output-dir", "run", "--recipe", "nonsense"])
    assert all(name in error for name in ("quickstart", "multi30k-tiny", "paper-base-en-de", "'nonsense'"))


def test_train_refuses_an_unknown_preset_and_prints_the_known(corpus, capsys):
    error = refused(capsys, train_arguments(preset="huge"))
    assert all(name in error for name in ("base", "big", "'huge'"))


def test_train_never_overwrites_another_run_without_being_told(corpus, capsys):
    Path("run").mkdir()
    Path("run/config.json").write_text("precious")
    assert "`output_dir` must not hold another run, got run" in refused(capsys, train_arguments())
    assert Path("run/config.json").read_text() == "precious"


def test_train_with_overwrite_keeps_the_old_run_when_the_data_are_wrong(corpus, capsys):
    Path("run").mkdir()
    Path("run/config.json").write_text("precious")
    refused(capsys, train_arguments("--overwrite", train_source="nowhere.en"))
    assert Path("run/config.json").read_text() == "precious"


def test_train_tokenizer_never_overwrites_without_being_told(corpus, capsys):
    arguments = ["train-tokenizer", "train.en", "--output-dir", "tokenizer", "--vocab-size", "270"]
    Path("tokenizer").mkdir()
    Path("tokenizer/tokenizer.json").write_text("precious")
    assert "`output_dir` must be new or empty" in refused(capsys, arguments)
    assert Path("tokenizer/tokenizer.json").read_text() == "precious"
    assert main([*arguments, "--overwrite"]) == 0


@pytest.mark.parametrize("flags", [[], ["--overwrite"]])
def test_train_tokenizer_refuses_a_file_as_its_folder(flags, corpus, capsys):
    arguments = ["train-tokenizer", "train.en", "--output-dir", "train.de", "--vocab-size", "270", *flags]
    assert "`output_dir` must be a folder, got the file train.de" in refused(capsys, arguments)
    assert Path("train.de").is_file()


def test_train_refuses_a_dataset_of_broken_files(corpus, capsys):
    Path("data").mkdir()
    Path("data/train.json").write_text('{"source": "A dog", "tar')
    arguments = train_arguments(train_source=None, train_target=None, dataset="data")
    error = refused(capsys, arguments)
    assert "`dataset` must hold data that can be read, got an error in data: JSON parse error" in error
    assert not Path("run").exists()


@pytest.mark.parametrize("command", ["evaluate", "translate"])
def test_incomplete_checkpoint_folder_is_refused_by_name(command, model_folder, corpus, capsys):
    (model_folder / "model.safetensors").unlink()
    data = {"evaluate": ["--source", "train.en", "--reference", "train.de"], "translate": ["--input", "train.en"]}
    error = refused(capsys, [command, "--model", str(model_folder), *data[command]])
    assert f"{model_folder} without model.safetensors" in error


def test_average_refuses_an_incomplete_folder(model_folder, tmp_path, capsys):
    (model_folder / "model.safetensors").unlink()
    output_dir = tmp_path / "averaged"
    assert "model.safetensors" in refused(
        capsys, ["average", str(model_folder), str(model_folder), "--output-dir", str(output_dir)]
    )
    assert not output_dir.exists()


def test_average_refuses_a_file_as_its_folder(model_folder, corpus, capsys):
    error = refused(capsys, ["average", str(model_folder), str(model_folder), "--output-dir", "train.en"])
    assert "`output_dir` must be a folder, got the file train.en" in error


def test_token_ids_outside_the_vocabulary_are_refused(model_folder, corpus, capsys):
    assert main(["train-tokenizer", "train.en", "train.de", "--output-dir", "larger", "--vocab-size", "310"]) == 0
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (model_folder / name).write_bytes(Path("larger", name).read_bytes())
    error = refused(capsys, ["translate", "--model", str(model_folder), "--device", "cpu", "--input", "train.en"])
    assert "must lie in [0, 300), got" in error


def test_learned_positions_exceeded_are_refused_and_the_old_output_stays(tmp_path, tiny_tokenizer, capsys):
    make_model(position_encoding="learned", max_position_embeddings=8).save_pretrained(tmp_path / "model")
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "in").write_text("A dog. " * 20 + "\n")
    (tmp_path / "out").write_text("old")
    files = ["--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")]
    error = refused(capsys, ["translate", "--model", str(tmp_path / "model"), "--device", "cpu", *files])
    assert "`max_position_embeddings` = 8" in error
    assert (tmp_path / "out").read_text() == "old"


def test_translate_refuses_a_missing_input_before_it_loads_the_model(tmp_path, capsys):
    assert "`input` must be a file" in refused(capsys, ["translate", "--model", "nowhere", "--input", "missing.txt"])


@pytest.mark.parametrize("arguments", [["--source", "train.en"], []])
def test_evaluate_without_a_whole_test_set_is_refused(arguments, model_folder, corpus, capsys):
    error = refused(capsys, ["evaluate", "--model", str(model_folder), *arguments])
    assert "must be given" in error


@pytest.mark.parametrize("data", [{"train_source": "train.en", "train_target": "train.de"}, {"dataset": "builtin"}])
def test_evaluate_refuses_a_split_that_the_recipe_does_not_know(data, model_folder, capsys):
    Recipe(source_language="en", target_language="de", **data).save(model_folder)
    error = refused(capsys, ["evaluate", "--model", str(model_folder), "--device", "cpu", "--split", "foo"])
    assert "foo" in error
    assert "attribute" not in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["--source", "train.en", "--reference", "train.de", "--dataset", "builtin"],
        ["--pairs", "pairs.csv", "--dataset", "builtin"],
        ["--source", "train.en", "--reference", "train.de", "--pairs", "pairs.csv"],
    ],
)
def test_evaluate_refuses_two_test_sets_before_it_loads_the_model(arguments, capsys):
    error = refused(capsys, ["evaluate", "--model", "nowhere", *arguments])
    assert "must get exactly one of `source_file` with `target_file`, `pairs_file` or `dataset`" in error


@pytest.mark.parametrize("option", ["--translations", "--results"])
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere/out", "must be in a folder that exists, got nowhere/out"),
        (".", "must be a file, got the folder ."),
        ("train.de", "must be a file of its own, got train.de"),
    ],
)
def test_evaluate_refuses_an_output_before_it_loads_the_model(option, path, message, corpus, capsys):
    data = ["--source", "train.en", "--reference", "train.de"]
    error = refused(capsys, ["evaluate", "--model", "nowhere", *data, option, path])
    assert f"`{option.removeprefix('--')}` {message}" in error


def test_evaluate_refuses_one_file_for_both_outputs(corpus, capsys):
    data = ["--source", "train.en", "--reference", "train.de"]
    error = refused(capsys, ["evaluate", "--model", "nowhere", *data, "--translations", "out", "--results", "./out"])
    assert "`results` must be a file of its own, got ./out" in error


def test_evaluate_writes_the_results_even_if_the_translations_cannot_be(model_folder, corpus, monkeypatch, capsys):
    def fail(lines, path):
        raise OSError("disk full")

    monkeypatch.setattr("vaswani_transformer.evaluation.report.write_lines", fail)
    data = ["--source", "train.en", "--reference", "train.de", "--device", "cpu"]
    error = refused(capsys, ["evaluate", "--model", str(model_folder), *data, "--translations", "out"])
    assert error == "error: disk full"
    assert (model_folder / "test_results.json").is_file()


def test_an_error_of_several_lines_is_shown_in_one(capsys, monkeypatch):
    def fail(args):
        raise ValueError("first line\n    second line")

    monkeypatch.setitem(cli._COMMANDS, "recipes", (cli._describe_recipes, fail, "Fail"))
    assert refused(capsys, ["recipes"]) == "error: first line second line"


def test_missing_datasets_is_named_with_the_command_that_installs_it(corpus):
    program = "import sys\nsys.modules['datasets'] = None\nfrom vaswani_transformer.cli import main\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}sys.exit(main(sys.argv[1:]))", *train_arguments()],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert done.returncode == 2
    assert "pip install 'vaswani-transformer[train]'" in done.stderr


def test_tracebacks_are_shown_when_asked_for(capsys, monkeypatch):
    monkeypatch.setattr(cli, "get_verbosity", lambda: 10)
    assert main(["recipes", "nonsense"]) == 2
    assert "Traceback" in capsys.readouterr().err
