# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains a LoRA adapter on your own sentence pairs, then merges it into a copy of the model. Needs
`pip install peft`.

    python scripts/examples/fine_tune_lora.py --model runs/my-model \
        --train-source train.en --train-target train.de --output-dir runs/lora

`pipeline("translation", model=...)` and `AutoModelForSeq2SeqLM.from_pretrained` read
runs/lora/adapter and runs/lora/merged like any model. The adapter needs the base model in the
folder where it was; the merged model stands alone. To share the adapter, push the base model first
and pass its Hub id as `--model`, because adapter_config.json names it.
"""

import argparse
import copy
from pathlib import Path

from huggingface_hub import ModelCard
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

# the package registers the model, too
from vaswani_transformer.data import load_corpus, tokenize_corpus


def untied(model):
    """A copy of the model in which the output projection no longer is the embedding."""
    config = copy.deepcopy(model.config)
    config.tie_word_embeddings = False
    other, weights = type(model)(config), model.state_dict()
    other.load_state_dict({name: weights[name] for name in other.state_dict()})
    other.generation_config = model.generation_config
    return other


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", required=True, help="folder or Hub id of the model to start from"
    )
    for name in ("train-source", "train-target"):
        parser.add_argument(f"--{name}", required=True, help="text file, one sentence a line")
    parser.add_argument("--output-dir", required=True)
    parser.add_argument("--max-steps", type=int, default=1000)
    parser.add_argument(
        "--learning-rate", type=float, default=1e-3, help="adapters bear more than whole models"
    )
    parser.add_argument(
        "--adapt-head", action="store_true", help="adapt the output projection, too"
    )
    args = parser.parse_args(arguments)
    if any(Path(args.output_dir).glob("*")):
        parser.error(f"--output-dir must be a new or empty folder, got {args.output_dir}")
    if Path(args.model).is_dir():
        # the adapter remembers it, whatever folder it is used from
        args.model = str(Path(args.model).resolve())
    adapter, merged = Path(args.output_dir) / "adapter", Path(args.output_dir) / "merged"

    tokenizer = AutoTokenizer.from_pretrained(args.model)
    layers = ["q_proj", "v_proj", "fc1", "fc2"] + ["lm_head"] * args.adapt_head
    lora = LoraConfig(task_type="SEQ_2_SEQ_LM", r=16, lora_alpha=32, target_modules=layers)
    model = get_peft_model(AutoModelForSeq2SeqLM.from_pretrained(args.model), lora)
    pairs = load_corpus(source_file=args.train_source, target_file=args.train_target)
    trainer = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            output_dir=args.output_dir,
            max_steps=args.max_steps,
            learning_rate=args.learning_rate,
            label_smoothing_factor=0.1,
            per_device_train_batch_size=32,
            save_strategy="no",
            report_to="none",
        ),
        train_dataset=tokenize_corpus(pairs, tokenizer),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
    )
    trainer.train()
    # the head's own weights are in the model already
    model.save_pretrained(adapter, save_embedding_layers=False)
    if Path(args.model).is_dir():  # the base model of a card is an id on the Hub
        card = ModelCard.load(adapter / "README.md")
        card.data.pop("base_model")
        card.data.tags = [tag for tag in card.data.tags if not tag.startswith("base_model:")]
        card.save(adapter / "README.md")

    base = AutoModelForSeq2SeqLM.from_pretrained(args.model)
    if args.adapt_head:
        # into tied weights, the head's adapter would be merged for the embedding, too
        base = untied(base)
    PeftModel.from_pretrained(base, adapter).merge_and_unload().save_pretrained(merged)
    for folder in (adapter, merged):
        tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main()
