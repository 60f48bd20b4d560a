# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Distills a translation model of any architecture into a small model of this package.

python scripts/examples/distill.py --teacher facebook/nllb-200-distilled-600M \
    --teacher-languages eng_Latn deu_Latn --source mono.en --test-source test.en \
    --test-target test.de --output-dir runs/student

A model without language codes, such as Marian, takes no --teacher-languages. The translations are
written beside the student, in a file that is named after the teacher and the source (here
runs/student.mono-by-nllb-200-distilled-600M.de). If the script stops, the same command continues.
If you change the text of the source, delete that file.
"""

import argparse
from pathlib import Path

from vaswani_transformer.inference.evaluate import evaluate_model, load_evaluation_set
from vaswani_transformer.inference.loading import load_for_inference
from vaswani_transformer.inference.translate import translate_file
from vaswani_transformer.recipe import get_recipe
from vaswani_transformer.training.train import train


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--teacher", required=True, help="folder or Hub id of the large model")
    parser.add_argument("--teacher-languages", nargs=2, default=(None, None), help="its own codes")
    parser.add_argument("--source", required=True, help="text file to translate, a sentence a line")
    for name in ("test-source", "test-target"):
        parser.add_argument(f"--{name}", required=True, help="text file, one sentence a line")
    parser.add_argument("--output-dir", required=True, help="folder of the small model")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--max-steps", type=int, default=10_000)
    args = parser.parse_args(arguments)

    test_set = load_evaluation_set(source_file=args.test_source, target_file=args.test_target)
    teacher, tokenizer = load_for_inference(args.teacher, languages=args.teacher_languages)
    origin = f"{Path(args.source).stem}-by-{Path(args.teacher).name}"
    distilled = Path(f"{args.output_dir}.{origin}{Path(args.test_target).suffix}")
    if not distilled.exists():
        distilled.parent.mkdir(parents=True, exist_ok=True)
        translate_file(teacher, tokenizer, args.source, distilled, resume=True, progress=True)
    teacher_results, _ = evaluate_model(teacher, tokenizer, test_set)

    recipe = get_recipe(
        "small",
        train_source=args.source,
        train_target=str(distilled),
        vocab_size=args.vocab_size,
        max_steps=args.max_steps,
    )
    train(recipe, args.output_dir, resume=True)
    student_results, _ = evaluate_model(*load_for_inference(args.output_dir), test_set)
    print(f"teacher: {teacher_results['test_sacrebleu']:.1f} sacreBLEU")
    print(f"student: {student_results['test_sacrebleu']:.1f} sacreBLEU")


if __name__ == "__main__":
    main()
