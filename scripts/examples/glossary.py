# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains a model to follow a glossary (Dinu et al. 2019): the wanted term stands in the source.

A glossary is a file with a source term, a tab and a target term on each line. `annotate` turns
"The dog runs." into "The dog <term> Hund </term> runs." A model that is trained on such sentences
is meant to copy the words in between; docs/measured.md says how far a short training goes.

G="python scripts/examples/glossary.py"
$G find --source train.en --target train.de --output terms.tsv
$G annotate --terms terms.tsv --source train.en --target train.de --share 0.5 \
    --output annotated.en
vaswani-transformer train --train-source annotated.en --train-target train.de \
    --added-tokens "<term>" "</term>" --output-dir runs/glossary
$G annotate --terms terms.tsv --source test.en --output annotated-test.en
vaswani-transformer translate --model runs/glossary --input annotated-test.en --output out.de
$G count --source annotated-test.en --translations out.de
"""

import argparse
import random
import re
from collections import Counter

from vaswani_transformer.data import read_lines
from vaswani_transformer.files import write_lines

BEGIN, END = "<term>", "</term>"
FEWEST_SENTENCES = 10  # that have both words of a pair
FEWEST_LETTERS = 4


def find_terms(sources, targets, number):
    """Return the `number` pairs of words with the highest Dice coefficient of their sentences.

    A pair is kept if neither word has a better partner. Source words are in small letters.
    """
    word = re.compile(rf"[^\W\d_]{{{FEWEST_LETTERS},}}")
    source_counts, target_counts, pair_counts = Counter(), Counter(), Counter()
    for source, target in zip(sources, targets, strict=True):
        source_words = {found.lower() for found in word.findall(source)}
        target_words = set(word.findall(target))
        source_counts.update(source_words)
        target_counts.update(target_words)
        pair_counts.update((one, other) for one in source_words for other in target_words)
    scored = []
    for (one, other), together in pair_counts.items():
        if together >= FEWEST_SENTENCES:
            dice = 2 * together / (source_counts[one] + target_counts[other])
            scored.append((dice, one, other))
    terms = {}
    seen_sources, seen_targets = set(), set()
    for _, one, other in sorted(scored, reverse=True):
        if one not in seen_sources and other not in seen_targets:
            terms[one] = other
        seen_sources.add(one)
        seen_targets.add(other)
    return list(terms.items())[:number]


def pattern_of(terms):
    """Return a pattern that finds the source terms as whole words, the longest first."""
    longest_first = sorted(terms, key=len, reverse=True)
    term = "|".join(map(re.escape, longest_first))
    return re.compile(rf"(?<!\w)(?:{term})(?!\w)", re.IGNORECASE)


def is_in(term, text):
    return re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text) is not None


def annotate(source, terms, target=None):
    """Write the target term behind each source term; with a target only those that it has."""
    text, end = "", 0
    for found in pattern_of(terms).finditer(source):
        wanted = terms[found[0].lower()]
        text += source[end : found.end()]
        if target is None or is_in(wanted, target):
            text += f" {BEGIN} {wanted} {END}"
        end = found.end()
    return text + source[end:]


def annotate_share(sources, targets, terms, share):
    """Yield the sources, a share of them annotated, the same at every call."""
    draw = random.Random(0)
    for source, target in zip(sources, targets, strict=True):
        yield annotate(source, terms, target) if draw.random() < share else source


def count_terms(annotated, translations):
    """Return how many terms are written into the sources, and how many the translations have.

    A term is `exact` as a whole word. Otherwise it is `inflected` if a word begins with its stem:
    the term without its last two letters, but at least its first five letters ("Straßen" for
    "Straße").
    """
    counts = Counter(sentences=0, terms=0, exact=0, inflected=0)
    for source, translation in zip(annotated, translations, strict=True):
        terms = set(re.findall(f"{BEGIN} (.+?) {END}", source))
        counts["sentences"] += bool(terms)
        counts["terms"] += len(terms)
        for term in terms:
            stem = term[: max(len(term) - 2, 5)]
            if is_in(term, translation):
                counts["exact"] += 1
            elif re.search(rf"\b{re.escape(stem)}", translation):
                counts["inflected"] += 1
    return counts


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=["find", "annotate", "count"])
    parser.add_argument("--source", required=True, help="source text, one sentence a line")
    parser.add_argument("--target", help="its translation: annotate only terms that it has")
    parser.add_argument("--terms", help="glossary to annotate with")
    parser.add_argument("--number", type=int, default=200, help="number of terms to find")
    parser.add_argument("--share", type=float, default=1, help="share of sentences to annotate")
    parser.add_argument("--translations", help="text in which terms are counted")
    parser.add_argument("--output", help="file to write")
    args = parser.parse_args(arguments)
    needed = {"find": "target output", "annotate": "terms output", "count": "translations"}
    for name in needed[args.task].split():
        if getattr(args, name) is None:
            parser.error(f"{args.task} needs --{name}.")

    sources = list(read_lines(args.source))
    targets = read_lines(args.target) if args.target else [None] * len(sources)
    if args.task == "find":
        lines = map("\t".join, find_terms(sources, targets, args.number))
    elif args.task == "annotate":
        pairs = (line.split("\t") for line in read_lines(args.terms) if line)
        terms = {source.lower(): target for source, target in pairs}
        lines = annotate_share(sources, targets, terms, args.share)
    else:
        counts = count_terms(sources, read_lines(args.translations))
        print(", ".join(f"{name}: {number}" for name, number in counts.items()))
        return
    write_lines(lines, args.output)


if __name__ == "__main__":
    main()
