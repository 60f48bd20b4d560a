# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains a model's byte-pair encoding on, with text in a new language; see new_language_pair.py for
what follows.

    python scripts/examples/extend_tokenizer.py --tokenizer runs/en-de --text train.fr \
        --output-dir runs/tokenizer-fr

The old vocabulary can write every language, if need be byte by byte. New entries shorten the words
of the new language. Old ids keep their meaning, the old pieces of a text are only joined further,
and decoding gives back every text unchanged. (`tokenizer.add_tokens` does not do this: it cuts
words out of longer ones, and loses their accents in decoding.)
"""

import argparse
import json
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoTokenizer

# the package registers the tokenizer with AutoTokenizer, too
from vaswani_transformer.data import read_lines

# of Unicode's private use: it stands for id 0, the next one for id 1, ...
FIRST_CHARACTER = 0xF0000


def learn_merges(tokenizer, sentences, num_merges):
    """Pairs of tokens to join: byte-pair encoding whose "characters" are the pieces that the
    tokenizer now makes.
    """

    def spell(sentence):
        encoding = tokenizer(sentence, add_special_tokens=False, verbose=False)
        words = {}
        for word, token_id in zip(encoding.word_ids(), encoding["input_ids"], strict=True):
            words[word] = words.get(word, "") + chr(FIRST_CHARACTER + token_id)
        return " ".join(words.values())

    alphabet = [chr(FIRST_CHARACTER + token_id) for token_id in range(len(tokenizer))]
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    vocab_size = len(alphabet) + num_merges
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False
    )
    learner.train_from_iterator(map(spell, sentences), trainer)
    for pair in json.loads(learner.to_str())["model"]["merges"]:
        pieces = ([ord(character) - FIRST_CHARACTER for character in part] for part in pair)
        yield tuple("".join(tokenizer.convert_ids_to_tokens(part)) for part in pieces)


def extend(tokenizer, sentences, num_entries):
    """Appends up to `num_entries` entries and their merges to the tokenizer, behind all that it
    has.
    """
    state = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    # Added tokens are part of this vocabulary, because a tokenizer that lacks them in its model
    # would give them other ids when it is loaded.
    vocab = tokenizer.get_vocab()
    merges = dict.fromkeys(map(tuple, state["merges"]))  # a dictionary keeps the order
    for left, right in learn_merges(tokenizer, sentences, num_entries):
        merges.setdefault((left, right))
        # one text may be joined from several parts
        vocab.setdefault(left + right, len(vocab))
    tokenizer.backend_tokenizer.model = models.BPE(vocab=vocab, merges=list(merges))


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tokenizer",
        required=True,
        help="folder or Hub id of the model whose tokenizer is extended",
    )
    parser.add_argument(
        "--text", required=True, help="text file in the new language, one sentence a line"
    )
    parser.add_argument(
        "--num-entries", type=int, default=4000, help="entries that the vocabulary gains"
    )
    parser.add_argument("--output-dir", required=True)
    args = parser.parse_args(arguments)
    if any(Path(args.output_dir).glob("*")):
        parser.error(f"--output-dir must be a new or empty folder, got {args.output_dir}")

    tokenizer = AutoTokenizer.from_pretrained(args.tokenizer)
    num_old = len(tokenizer)
    extend(tokenizer, read_lines(args.text), args.num_entries)
    if len(tokenizer) == num_old:
        parser.error("--text and --num-entries must give the vocabulary new entries, got none")
    tokenizer.save_pretrained(args.output_dir)
    print(f"{len(tokenizer)} entries, saved in {args.output_dir}")


if __name__ == "__main__":
    main()
