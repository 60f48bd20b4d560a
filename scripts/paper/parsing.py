# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Section 6.3, constituency parsing: words are translated into the brackets of their tree.

    python scripts/paper/parsing.py prepare --train TREES --dev TREES --tags --output-dir data
    python scripts/paper/parsing.py train --data data --output-dir runs/parser
    python scripts/paper/parsing.py parse --model runs/parser < words.txt > trees.txt
    python scripts/paper/parsing.py score --gold test.trees --guess trees.txt

For the paper's parsers, add `--recipe paper-parsing-wsj` or `--recipe paper-parsing-semi` to the
first two commands.

Trees are Penn-style: a file of them, or a folder with .mrg files. A tree is `(label, children)`, a
leaf `(tag, word)`, and the root is TOP. Linearized, as by Vinyals et al. 2015, every word is XX:
`(S (NP XX )NP (VP XX )VP )S`. With `--tags`, as in the authors' code, its tag stands for XX. Small
models learn little without tags.
"""

import argparse
import dataclasses
import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken

from vaswani_transformer import VaswaniTransformerTokenizer
from vaswani_transformer.data.vocabulary import train_tokenizer
from vaswani_transformer.inference.loading import load_for_inference
from vaswani_transformer.recipe import Recipe, get_recipe
from vaswani_transformer.training.train import train

Tree = tuple[str, Any]  # children, or the word of a leaf
LEAF = "XX"
_ROOTS = {"", "TOP", "ROOT", "S1"}
_TOKEN = re.compile(r"\(\s*([^\s()]*)|(\))|([^\s()]+)")
_PUNCTUATION = {",", ":", "``", "''", "."}  # tags whose leaves EVALB leaves out, by COLLINS.prm
_ESCAPED = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}

RECIPES = {
    path.stem: get_recipe(path)
    for path in Path(__file__).with_name("recipes").glob("*parsing*.yaml")
}

# ---- trees ----


def read_trees(path: str | Path) -> Iterator[Tree]:
    """Trees of a file or of a folder's .mrg files, without traces, function tags and empty nodes,
    below a TOP.
    """
    path = Path(path)
    for file in sorted(path.rglob("*.mrg")) if path.is_dir() else [path]:
        stack: list[Tree] = [("", [])]
        for match in _TOKEN.finditer(file.read_text(encoding="utf-8")):
            label, closes, word = match.groups()
            if label is not None:
                stack.append((label, []))
            elif closes and len(stack) > 1:
                label, children = stack.pop()
                node = (
                    label,
                    children[0] if children and isinstance(children[0], str) else children,
                )
                if len(stack) > 1:
                    stack[-1][1].append(node)
                elif tree := cleaned(node):
                    yield tree if tree[0] == "TOP" else ("TOP", [tree])
            elif word and len(stack) > 1:
                stack[-1][1].append(word)
            else:
                raise ValueError(
                    f"`{file}` must hold trees in brackets, got {match[0]!r} outside of one."
                )
        if len(stack) > 1:
            raise ValueError(
                f"`{file}` must hold whole trees, got an end within {stack[1][0] or 'a tree'!r}."
            )


def cleaned(tree: Tree) -> Tree | None:
    """The tree without traces and empty nodes, its labels without functions and indices; None if
    nothing is left.
    """
    label, children = tree
    if isinstance(children, str):
        return None if label == "-NONE-" else tree
    kept = [child for child in map(cleaned, children) if child]
    return ("TOP" if label in _ROOTS else re.split("[-=|]", label)[0], kept) if kept else None


def leaves(tree: Tree) -> list[Tree]:
    """Tags and words, from left to right."""
    return (
        [tree]
        if isinstance(tree[1], str)
        else [leaf for child in tree[1] for leaf in leaves(child)]
    )


def written(tree: Tree) -> str:
    """The tree in one line."""
    label, children = tree
    return (
        f"({label} {children if isinstance(children, str) else ' '.join(map(written, children))})"
    )


def linearised(tree: Tree, with_tags: bool = False) -> list[str]:
    """Brackets of what is below the root, with XX, or the tag in square brackets, for each word."""
    label, children = tree
    if isinstance(children, str):
        return [f"[{label}]" if with_tags else LEAF]
    inside = [token for child in children for token in linearised(child, with_tags)]
    return inside if label == "TOP" else [f"({label}", *inside, f"){label}"]


def rebuilt(tokens: Iterable[str], words: Sequence[Tree]) -> tuple[Tree, bool]:
    """The tree of brackets over the leaves given, each of which is in it once, and whether that
    took no repair.

    A tag in square brackets takes the place of the leaf's. Closing brackets that match nothing are
    dropped, open ones closed, leaves beyond the words and empty constituents dropped. Words that
    are missing go into the root constituent, and several roots into an S.
    """
    root: Tree = ("TOP", [])
    stack, num_used, is_whole = [root], 0, True
    for token in tokens:
        if token[0] == "(":
            stack[-1][1].append((token[1:], []))
            stack.append(stack[-1][1][-1])
        elif token[0] == ")":
            depth = max(
                (depth for depth in range(1, len(stack)) if stack[depth][0] == token[1:]), default=0
            )
            is_whole &= 0 < depth == len(stack) - 1
            del stack[depth or len(stack) :]
        elif num_used < len(words):
            tag, word = words[num_used]
            stack[-1][1].append((tag if token == LEAF else token[1:-1], word))
            num_used += 1
        else:
            is_whole = False
    tree = cleaned(root) or ("TOP", [])
    is_whole &= len(stack) == 1 and num_used == len(words) and tree == root and len(tree[1]) == 1
    missing = list(words[num_used:])
    if len(tree[1]) == 1 and not isinstance(tree[1][0][1], str):
        tree[1][0][1].extend(missing)
    elif len(tree[1] + missing) > 1:
        tree = ("TOP", [("S", tree[1] + missing)])
    else:
        tree = ("TOP", tree[1] + missing)
    return tree, is_whole


# ---- F1, by the rules of EVALB with COLLINS.prm ----


def spans(tree: Tree, is_counted: Sequence[bool]) -> Counter[tuple[str, int, int]]:
    """Constituents as (label, start, end) over the words that are counted; empty ones and the root
    are not.
    """
    found: Counter[tuple[str, int, int]] = Counter()
    places = itertools.accumulate(is_counted, initial=0)

    def walk(node: Tree, start: int) -> int:
        label, children = node
        if isinstance(children, str):
            return next(places)
        end = start
        for child in children:
            end = walk(child, end)
        label = "ADVP" if (label := re.split("[-=]", label)[0]) == "PRT" else label
        if end > start and label not in _ROOTS:
            found[label, start, end] += 1
        return end

    walk(tree, next(places))
    return found


def score(golds: Sequence[Tree], guesses: Sequence[Tree]) -> dict[str, Any]:
    """Labeled recall, precision and F1 over all sentences, in percent, share of exact trees, and
    sentences left out.

    A sentence is left out, as by EVALB, if the words of its two trees differ.

    Unlike in EVALB, gold tags decide which tokens are punctuation, and the tags of `guesses` do not
    matter. A label such as PRT|ADVP was cut to PRT when the trees were read.
    """
    if len(golds) != len(guesses):
        raise ValueError(
            f"`guess` must have a tree for each of the {len(golds)} of `gold`, got {len(guesses)}."
        )
    matched = wanted = given = exact = errors = 0
    for gold, guess in zip(golds, guesses, strict=True):
        if [word for _, word in leaves(gold)] != [word for _, word in leaves(guess)]:
            errors += 1
            continue
        is_counted = [tag not in _PUNCTUATION for tag, _ in leaves(gold)]
        right, found = spans(gold, is_counted), spans(guess, is_counted)
        matched, wanted, given = (
            matched + (right & found).total(),
            wanted + right.total(),
            given + found.total(),
        )
        exact += right == found
    recall, precision = matched / max(1, wanted), matched / max(1, given)
    f1 = 2 * recall * precision / (recall + precision) if matched else 0.0
    figures = {
        "f1": f1,
        "recall": recall,
        "precision": precision,
        "exact": exact / max(1, len(golds) - errors),
    }
    return {
        **{name: 100 * value for name, value in figures.items()},
        "sentences": len(golds),
        "left_out": errors,
    }


# ---- the parser ----


def prepare(
    trees: dict[str, list[Tree]],
    folder: str | Path,
    vocab_size: int = 4000,
    with_tags: bool = False,
) -> None:
    """Writes words, brackets and trees of each part into a folder, and a tokenizer to which
    brackets are atoms.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for part, some in trees.items():
        for kind, lines in {
            "words": (source_text(word for _, word in leaves(tree)) for tree in some),
            "brackets": (" ".join(linearised(tree, with_tags)) for tree in some),
            "trees": map(written, some),
        }.items():
            (folder / f"{part}.{kind}").write_text(
                "".join(f"{line}\n" for line in lines), encoding="utf-8"
            )
    brackets = sorted(
        {token for tree in trees["train"] for token in linearised(tree, with_tags)} | {LEAF}
    )
    tokenizer = train_tokenizer(
        [folder / "train.words"], vocab_size=vocab_size - len(brackets), show_progress=False
    )
    tokenizer.add_tokens([AddedToken(token, rstrip=True, normalized=False) for token in brackets])
    tokenizer.save_pretrained(folder / "tokenizer")


def source_text(words: Iterable[str]) -> str:
    """Words between spaces, without brackets and white space of their own."""
    return " ".join(
        "".join(_ESCAPED.get(letter, letter) for letter in word if not letter.isspace())
        for word in words
    )


def bracket_finder(tokenizer: Any) -> Callable[[str], list[str]]:
    """Returns a function that finds the bracket tokens in what the tokenizer decodes."""
    brackets = sorted(
        (token for token in tokenizer.get_added_vocab() if token[0] in "()[X"),
        key=len,
        reverse=True,
    )
    return re.compile("|".join(map(re.escape, brackets))).findall


def f1_of(tokenizer: Any, golds: Sequence[Tree]) -> Callable[[Any], dict[str, float]]:
    """Returns a `compute_metrics` for predictions of the words of trees, in their order."""
    find = bracket_finder(tokenizer)

    def compute(found: Any) -> dict[str, float]:
        ids = np.where(found.predictions < 0, tokenizer.pad_token_id, found.predictions)
        texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
        guesses = [
            rebuilt(find(text), leaves(gold)) for text, gold in zip(texts, golds, strict=True)
        ]
        figures = score(golds, [tree for tree, _ in guesses])
        return {
            "f1": figures["f1"],
            "whole": 100 * sum(whole for _, whole in guesses) / len(guesses),
        }

    return compute


def train_parser(
    data: str | Path, output_dir: str | Path, recipe: Recipe, **options: Any
) -> dict[str, Any]:
    """Trains a parser on a folder of `prepare`; options are those of `train`.

    Returns its results.
    """
    data = Path(data)
    files = {
        f"{split}_{side}": str(data / f"{part}.{kind}")
        for split, part in (("train", "train"), ("validation", "dev"))
        for side, kind in (("source", "words"), ("target", "brackets"))
    }
    recipe = dataclasses.replace(recipe, tokenizer=str(data / "tokenizer"), **files)
    tokenizer = VaswaniTransformerTokenizer.from_pretrained(data / "tokenizer")
    metrics = f1_of(tokenizer, list(read_trees(data / "dev.trees")))
    return train(recipe, output_dir, compute_metrics=metrics, **options)


class BracketGrammar:
    """The tokens that may follow the beginning of a tree.

    Every output then has each word once, in order, brackets that match, nothing empty and one root.
    """

    MOST_BRACKETS = 149  # with their closing ones and the words they fit into the source + 300

    def __init__(self, tokenizer: Any) -> None:
        self.names = {index: name for name, index in tokenizer.get_added_vocab().items()}
        self.end = [tokenizer.eos_token_id]
        self.opening = [index for index, name in self.names.items() if name[0] == "("]
        self.leaves = [index for index, name in self.names.items() if name[0] in "[X"]
        self.closing = {name[1:]: index for index, name in self.names.items() if name[0] == ")"}

    def following(self, ids: Iterable[int], num_words: int) -> list[int]:
        """The ids that may follow `ids` in the tree of so many words.

        The end may follow whatever cannot begin a tree; the search keeps such beams, without score.
        """
        names = [self.names.get(index, "") for index in ids]
        stack: list[str] = []
        num_left = num_words
        num_brackets = 0
        for name in names:
            if name.startswith("("):
                stack.append(name[1:])
                num_brackets += 1
            elif name.startswith(")"):
                del stack[-1:]
            else:
                num_left -= 1
        if names and not stack:
            return self.end
        allowed = []
        if num_left > 0:
            if stack or num_words == 1:
                allowed += self.leaves
            if num_brackets < self.MOST_BRACKETS:
                allowed += self.opening
        closes_too_early = len(stack) == 1 and num_left > 0
        if stack and not names[-1].startswith("(") and not closes_too_early:
            allowed.append(self.closing[stack[-1]])
        return allowed or self.end


def parse(
    model: Any,
    tokenizer: Any,
    sentences: Sequence[Sequence[str]],
    batch_size: int = 16,
    **options: Any,
) -> list[tuple[Tree, bool]]:
    """The tree of each sentence of words, and whether it took no repair; tags are XX if the parser
    learned none.

    The search only continues what `BracketGrammar` allows. Options: `generate`'s.
    """
    find = bracket_finder(tokenizer)
    grammar = BracketGrammar(tokenizer)
    order = sorted(range(len(sentences)), key=lambda place: len(sentences[place]))
    found = {}
    for start in range(0, len(order), batch_size):
        places = order[start : start + batch_size]
        batch = [sentences[place] for place in places]
        inputs = tokenizer(list(map(source_text, batch)), padding=True, return_tensors="pt")

        def following(row: int, ids: Any, batch: Any = batch) -> list[int]:
            return grammar.following(ids[1:].tolist(), len(batch[row]))

        outputs = model.generate(
            **inputs.to(model.device), prefix_allowed_tokens_fn=following, **options
        )
        texts = tokenizer.batch_decode(outputs, skip_special_tokens=True)
        for place, words, text in zip(places, batch, texts, strict=True):
            found[place] = rebuilt(find(text), [(LEAF, source_text([word])) for word in words])
    return [found[place] for place in range(len(sentences))]


# ---- the command ----


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one of the commands."""
    parser = argparse.ArgumentParser(description="Constituency parsing, section 6.3.")
    commands = parser.add_subparsers(dest="command", required=True)
    of_recipe = {"choices": RECIPES, "default": "parsing-genia"}
    options = {
        "prepare": {
            "--train": {},
            "--dev": {},
            "--test": {"required": False},
            "--output-dir": {},
            "--recipe": of_recipe,
        },
        "train": {"--data": {}, "--output-dir": {}, "--recipe": of_recipe},
        "parse": {"--model": {}},
        "score": {"--gold": {}, "--guess": {}},
    }
    made = {name: commands.add_parser(name) for name in options}
    for name, each in options.items():
        for option, settings in each.items():
            made[name].add_argument(option, **{"required": "default" not in settings, **settings})
    made["prepare"].add_argument(
        "--tags", action="store_true", help="keep the part-of-speech tags as leaves"
    )
    for switch in ("--resume", "--bf16"):
        made["train"].add_argument(switch, action="store_true")
    made["train"].add_argument("--max-steps", type=int)
    for option, of_type in (("--num-beams", int), ("--length-penalty", float)):
        made["parse"].add_argument(option, type=of_type, default=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.command == "prepare":
        parts = {
            part: list(read_trees(path))
            for part in ("train", "dev", "test")
            if (path := getattr(args, part))
        }
        prepare(parts, args.output_dir, RECIPES[args.recipe].vocab_size, args.tags)
    elif args.command == "train":
        recipe = RECIPES[args.recipe]
        recipe = dataclasses.replace(recipe, max_steps=args.max_steps or recipe.max_steps)
        results = train_parser(
            args.data, args.output_dir, recipe, resume=args.resume, bf16=args.bf16
        )
        f1 = results.get("average_eval_f1", results.get("best_eval_f1", results["last_eval_f1"]))
        print(f"F1 {f1:.2f} on the development set")
    elif args.command == "parse":
        model, tokenizer = load_for_inference(args.model)
        given = {
            name: value for name, value in vars(args).items() if name not in ("command", "model")
        }
        parsed = parse(model, tokenizer, list(map(str.split, sys.stdin)), **given)
        for tree, _ in parsed:
            print(written(tree))
        num_whole = sum(is_whole for _, is_whole in parsed)
        print(f"{num_whole:,} of {len(parsed):,} outputs needed no repair", file=sys.stderr)
    else:
        print(
            json.dumps(score(list(read_trees(args.gold)), list(read_trees(args.guess))), indent=1)
        )


if __name__ == "__main__":
    main()
