# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Continues a model in another language pair with a tokenizer that was extended for it.

    python scripts/examples/extend_tokenizer.py --tokenizer runs/en-de --text train.fr \
        --output-dir runs/tokenizer-fr
    python scripts/examples/new_language_pair.py --model runs/en-de --tokenizer runs/tokenizer-fr \
        --train-source train.en --train-target train.fr --source-language en --target-language fr \
        --output-dir runs/en-fr

Then pipeline("translation_en_to_fr", model="runs/en-fr") translates.
"""

import argparse
from pathlib import Path

import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

# the package registers the model, too
from vaswani_transformer.data import load_corpus, tokenize_corpus


@torch.no_grad()
def fit_vocabulary(model, old_tokenizer, tokenizer):
    """Gives the model the tokenizer's new entries, each as the mean of the entries that spelt it
    before.
    """
    first_new = len(old_tokenizer)
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    embedding = model.get_input_embeddings().weight
    for token, token_id in tokenizer.get_vocab().items():
        if token_id >= first_new:
            pieces = old_tokenizer.backend_tokenizer.model.tokenize(token)
            embedding[token_id] = embedding[[piece.id for piece in pieces]].mean(dim=0)


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", required=True, help="folder or Hub id of the model to start from"
    )
    parser.add_argument(
        "--tokenizer", required=True, help="folder of its tokenizer with more entries"
    )
    for name in ("train-source", "train-target"):
        parser.add_argument(f"--{name}", required=True, help="text file, one sentence a line")
    for name in ("source-language", "target-language"):
        parser.add_argument(f"--{name}", required=True, help="language code, such as fr")
    parser.add_argument("--output-dir", required=True)
    parser.add_argument("--max-steps", type=int, default=5000)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    args = parser.parse_args(arguments)
    if any(Path(args.output_dir).glob("*")):
        parser.error(f"--output-dir must be a new or empty folder, got {args.output_dir}")

    tokenizer = AutoTokenizer.from_pretrained(args.tokenizer)
    model = AutoModelForSeq2SeqLM.from_pretrained(args.model)
    old_tokenizer = AutoTokenizer.from_pretrained(args.model)
    if not old_tokenizer.get_vocab().items() < tokenizer.get_vocab().items():
        parser.error(
            "--tokenizer must have every entry of the model's own tokenizer under its id, and new "
            "ones"
        )
    fit_vocabulary(model, old_tokenizer, tokenizer)
    vars(model.generation_config).pop("longest_training_source", None)  # of the earlier training
    model.config.source_language, model.config.target_language = (
        args.source_language,
        args.target_language,
    )

    pairs = load_corpus(source_file=args.train_source, target_file=args.train_target)
    trainer = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            output_dir=args.output_dir,
            max_steps=args.max_steps,
            learning_rate=args.learning_rate,
            label_smoothing_factor=0.1,
            per_device_train_batch_size=32,
            save_total_limit=1,
            report_to="none",
        ),
        train_dataset=tokenize_corpus(pairs, tokenizer),
        processing_class=tokenizer,
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
    )
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
