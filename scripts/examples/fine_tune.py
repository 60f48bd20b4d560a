# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a saved model on sentence pairs of your own, with transformers' own trainer and
collator.

    python scripts/examples/fine_tune.py --model runs/my-model \
        --train-source train.en --train-target train.de \
        --validation-source valid.en --validation-target valid.de --output-dir runs/fine-tuned
"""

import argparse
from pathlib import Path

import numpy as np
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

# the package registers the model, too
from vaswani_transformer.data import load_corpus, tokenize_corpus
from vaswani_transformer.inference.metrics import score_translations


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", required=True, help="folder or Hub id of the model to start from"
    )
    for name in ("train-source", "train-target", "validation-source", "validation-target"):
        parser.add_argument(f"--{name}", required=True, help="text file, one sentence a line")
    parser.add_argument("--output-dir", required=True)
    parser.add_argument("--max-steps", type=int, default=1000)
    parser.add_argument(
        "--learning-rate", type=float, default=1e-4, help="a tenth of training's peak or less"
    )
    parser.add_argument(
        "--freeze",
        nargs="*",
        default=[],
        help="leave what begins so: model.encoder model.shared ...",
    )
    args = parser.parse_args(arguments)
    if any(Path(args.output_dir).glob("*")):
        parser.error(f"--output-dir must be a new or empty folder, got {args.output_dir}")

    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForSeq2SeqLM.from_pretrained(args.model)
    for prefix in args.freeze:
        frozen = [weight for name, weight in model.named_parameters() if name.startswith(prefix)]
        if not frozen:
            parser.error(
                f"--freeze {prefix}: no weight of the model begins so (lm_head is model.shared)"
            )
        for weight in frozen:
            weight.requires_grad = False
    vars(model.generation_config).pop("longest_training_source", None)  # of the earlier training

    def load(source, target):
        return tokenize_corpus(load_corpus(source_file=source, target_file=target), tokenizer)

    def bleu(predictions):
        hypotheses, references = (
            tokenizer.batch_decode(
                np.where(ids < 0, tokenizer.pad_token_id, ids), skip_special_tokens=True
            )
            for ids in (predictions.predictions, predictions.label_ids)
        )
        scores = score_translations(hypotheses, references, model.config.target_language)
        return {"sacrebleu": scores["sacrebleu"]}

    trainer = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            output_dir=args.output_dir,
            max_steps=args.max_steps,
            learning_rate=args.learning_rate,
            lr_scheduler_type="linear",
            label_smoothing_factor=0.1,  # as in the paper; 0 is the plain cross-entropy
            per_device_train_batch_size=32,
            predict_with_generate=True,
            logging_steps=50,
            save_total_limit=1,
            report_to="none",
        ),
        train_dataset=load(args.train_source, args.train_target),
        eval_dataset=load(args.validation_source, args.validation_target),
        processing_class=tokenizer,
        # the smoother needs the model's decoder inputs
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        compute_metrics=bleu,
    )
    trainer.train()
    trainer.save_model()
    print(trainer.evaluate())
    trainer.create_model_card(
        language=list(getattr(model.config, "language_pair", None) or ()),
        tasks="translation",
        tags=["vaswani_transformer"],
        dataset=Path(args.train_source).name,
        dataset_tags=[],
    )
    # transformers names only a base model that came from the Hub
    card = Path(args.output_dir, "README.md")
    base = Path(args.model).name  # others have no use for your folders
    text = card.read_text(encoding="utf-8").replace(
        "trained from scratch", f"fine-tuned from {base}"
    )
    card.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
