# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains one model for several target languages: a tag in front of the source names the language.

S="python scripts/examples/several_targets.py"
$S tag --source train.en --targets train.de train.fr --output-dir tagged
vaswani-transformer train --train-source tagged/train.en --train-target tagged/targets.txt \
    --added-tokens "<2de>" "<2fr>" --output-dir runs/several
$S translate --model runs/several --language fr --input text.en --output text.fr

The model learns from "<2fr> A dog runs." (Johnson et al. 2017). A text that begins with an added
token is not split into sentences, so `translate` leaves the texts alone: the tokenizer puts the tag
in front of each sentence that the pipeline finds. A file such as `sed "s/^/<2fr> /" test.en` has
its tags and needs no script: `vaswani-transformer evaluate` and `translate` read it.
"""

import argparse
from pathlib import Path

from tokenizers.processors import TemplateProcessing
from transformers import pipeline

from vaswani_transformer.data import read_lines
from vaswani_transformer.files import check_outputs, write_lines


def tag(source, targets, output_dir):
    """Write the source once for each target, tagged by the suffix of its file, and all targets."""
    output_dir.mkdir(parents=True, exist_ok=True)
    tagged, joined = output_dir / source.name.removesuffix(".gz"), output_dir / "targets.txt"
    check_outputs({"tagged": tagged, "joined": joined}, [source, *targets])
    sentences, translations = [], []
    for target in targets:
        language = target.name.removesuffix(".gz").rpartition(".")[2]
        for sentence, translation in zip(read_lines(source), read_lines(target), strict=True):
            sentences.append(f"<2{language}> {sentence}")
            translations.append(translation)
    write_lines(sentences, tagged)
    write_lines(translations, joined)


def set_target(tokenizer, language):
    """Make a tokenizer begin each text with the tag of a language.

    Raises:
        ValueError: The tokenizer has no such tag.
    """
    token, end = f"<2{language}>", tokenizer.eos_token
    if token not in tokenizer.get_added_vocab():
        raise ValueError(
            f"`language` must be one that the model was trained with, got {language}. Its tokens "
            f"are {', '.join(tokenizer.get_added_vocab())}."
        )
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{token} $A {end}",
        special_tokens=[(each, tokenizer.convert_tokens_to_ids(each)) for each in (token, end)],
    )


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    tasks = parser.add_subparsers(dest="task", required=True)
    tagging = tasks.add_parser("tag", help="write one training text for all targets")
    tagging.add_argument("--source", type=Path, required=True, help="one sentence a line")
    tagging.add_argument("--targets", type=Path, nargs="+", required=True, help="train.de ...")
    tagging.add_argument("--output-dir", type=Path, required=True)
    translating = tasks.add_parser("translate", help="translate lines of one or more sentences")
    translating.add_argument("--model", required=True, help="folder or Hub id of the model")
    translating.add_argument("--language", required=True, help="target language, such as fr")
    translating.add_argument("--input", required=True, help="text file")
    translating.add_argument("--output", type=Path, required=True)
    args = parser.parse_args(arguments)

    if args.task == "tag":
        tag(args.source, args.targets, args.output_dir)
        return
    translate = pipeline("translation", model=args.model)
    set_target(translate.tokenizer, args.language)
    results = translate(list(read_lines(args.input)))
    write_lines((result["translation_text"] for result in results), args.output)


if __name__ == "__main__":
    main()
