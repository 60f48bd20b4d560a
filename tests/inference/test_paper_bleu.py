# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Every step of the paper's BLEU against a second way: by hand, by naive code, and by the Perl
scripts of Moses.
"""

import math
import os
import random
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("sacrebleu", reason="needs the extra [eval]")

import sacrebleu
import sacremoses

from vaswani_transformer.inference.metrics import corpus_paper_bleu, tokenize_for_paper_bleu

MODULE = "vaswani_transformer.inference.metrics"
NEWSTESTS = {"newstest2013.de": "de", "newstest2014-deen.de": "de", "newstest2014-fren.fr": "fr"}
MOSES_SCRIPTS = os.environ.get("MOSES_SCRIPTS")

# What replace-unicode-punctuation.perl is for: East Asian and typographic marks written in ASCII.
# (Until 2019 it wrote a quote for a full-width 1.)
IDEOGRAPHIC = {
    "、": ",",
    "。": ". ",
    "〈": "<",
    "〉": ">",
    "【": "[",
    "】": "]",
    "━": "-",
    "∶": ":",
}
QUOTES = dict.fromkeys("”“《》「」", '"') | {"’": "'", "…": "..."}
FULL_WIDTH = {chr(ord(mark) + 0xFEE0): mark for mark in ",:?)!(;0123456789~%"} | {"．": ". "}


def read_newstest(shared_data, name):
    return (shared_data / "newstest" / name).read_text(encoding="utf-8").split("\n")[:-1]


def perturb_word(word, rng):
    """The word dropped, doubled, with other case, hyphens or quotes, or as it is (usually)."""
    changes = [
        lambda: [],
        lambda: [word, word],
        lambda: [word.swapcase()],
        lambda: [word.replace("-", " ") if "-" in word else f"{word}-{word}-x"],
        lambda: [f"„{word}“"],
        lambda: [f"“{word}”…"],
        lambda: [f"‘{word}’s", "vgl.", "（２）"],
    ]
    return rng.choice(changes)() if rng.random() < 0.15 else [word]


def perturbed(lines, seed=0):
    """Hypotheses that are partly right: each line with some of its words changed and neighbours
    swapped.
    """
    rng = random.Random(seed)
    hypotheses = []
    for line in lines:
        words = [new for word in line.split(" ") for new in perturb_word(word, rng)]
        for _ in range(len(words) // 12):
            place = rng.randrange(len(words) - 1)
            words[place : place + 2] = reversed(words[place : place + 2])
        hypotheses.append(" ".join(words))
    return hypotheses


def naive_punctuation(text):
    return "".join(
        (IDEOGRAPHIC | QUOTES | FULL_WIDTH).get(character, character) for character in text
    )


def naive_split(line):
    """Walks along the line; where a hyphen stands between two characters, both and the hyphen are
    done with.
    """
    done, place = "", 0
    while place < len(line):
        three = line[place : place + 3]
        if len(three) == 3 and three[1] == "-" and three[0] != " " and three[2] != " ":
            done += f"{three[0]} ##AT##-##AT## {three[2]}"
            place += 3
        else:
            done += line[place]
            place += 1
    return done


def naive_bleu(hypotheses, references):
    """Papineni et al. 2002 over tokens between spaces: clipped counts, closest reference length
    (shorter of two).
    """
    matches, totals, length, reference_length = [0] * 5, [0] * 5, 0, 0
    for hypothesis, several in zip(hypotheses, references, strict=True):
        words, others = hypothesis.split(), [reference.split() for reference in several]
        length += len(words)
        reference_length += min((abs(len(other) - len(words)), len(other)) for other in others)[1]
        for n in range(1, 5):
            ours = Counter(" ".join(words[i : i + n]) for i in range(len(words) - n + 1))
            theirs = [
                Counter(" ".join(other[i : i + n]) for i in range(len(other) - n + 1))
                for other in others
            ]
            matches[n] += sum(
                min(count, max(other[ngram] for other in theirs)) for ngram, count in ours.items()
            )
            totals[n] += sum(ours.values())
    if 0 in matches[1:]:
        return 0.0
    penalty = 1.0 if length >= reference_length else math.exp(1 - reference_length / length)
    return 100 * penalty * math.prod(matches[n] / totals[n] for n in range(1, 5)) ** 0.25


def naive_tokens(lines, language):
    """Our steps one by one, with naive code for those that are not the library's."""
    tokenizer = sacremoses.MosesTokenizer(language)
    tokens = [tokenizer.tokenize(naive_punctuation(line), return_str=True) for line in lines]
    return [naive_split(line) for line in tokens] if language == "de" else tokens


# ---- By hand ----


@pytest.mark.parametrize(
    ("text", "language", "tokens"),
    [
        ("Ein rich-text-format.", "de", "Ein rich ##AT##-##AT## text ##AT##-##AT## format ."),
        ("Ein rich-text-format.", "fr", "Ein rich-text-format ."),
        ("Ein rich-text-format.", None, "Ein rich-text-format ."),
        ("a-b-c-d x--y - z", "de", "a ##AT##-##AT## b-c ##AT##-##AT## d x ##AT##-##AT## -y - z"),
        ("„Gut“, sagte er.", "de", "„ Gut &quot; , sagte er ."),
        ("L’été d'abord", "fr", "L&apos; été d&apos; abord"),
        ("L’été d'abord", "de", "L &apos; été d &apos; abord"),
        ("It’s the dogs' 5,300.5 m.", "en", "It &apos;s the dogs &apos; 5,300.5 m ."),
        ("It’s the dogs' 5,300.5 m.", None, "It &apos;s the dogs &apos; 5,300.5 m ."),
        ("Dr. Ute geht… nun 5. Mai. Na", "de", "Dr. Ute geht ... nun 5. Mai . Na"),
        (
            "a\u00a0b  c\u2028d & <e> [f] g|h",
            "de",
            "a b c d &amp; &lt; e &gt; &#91; f &#93; g &#124; h",
        ),
        ("a\x1cb\x02c", "de", "abc"),
        ("Im Hotel usw.", "de", "Im Hotel usw."),
        ("", "de", ""),
    ],
)
def test_tokens_are_those_of_the_rules(text, language, tokens):
    assert tokenize_for_paper_bleu([text], language) == [tokens]


@pytest.mark.parametrize("language", ["de_AT", "de-CH", "DE"])
def test_tokens_do_not_depend_on_the_region(language):
    assert tokenize_for_paper_bleu(["rich-text"], language) == ["rich ##AT##-##AT## text"]


@pytest.mark.parametrize("mark", sorted(IDEOGRAPHIC | QUOTES | FULL_WIDTH))
def test_unicode_punctuation_counts_as_ascii(mark):
    texts = [f"x{mark}y", f"x{naive_punctuation(mark)}y"]
    first, second = tokenize_for_paper_bleu(texts, "de")
    assert first == second


def test_score_has_the_brevity_penalty_by_hand():
    # 5 of 6 words, all n-grams right: exp(1 - 6/5).
    score, _ = corpus_paper_bleu(["a b c d e"], [["a b c d e f"]], "en")
    assert score == pytest.approx(100 * math.exp(-0.2))


def test_score_is_that_of_clipped_counts_by_hand():
    # 1-grams 5/7 (a twice at most), 2-grams 4/6, 3-grams 3/5, 4-grams 2/4 (a b c d, b c d a);
    # longer than 5 words.
    score, _ = corpus_paper_bleu(["a a a b c d a"], [["a b c d a"]], "en")
    assert score == pytest.approx(100 * (5 / 7 * 4 / 6 * 3 / 5 * 2 / 4) ** 0.25)


@pytest.mark.parametrize("hypothesis", ["a b c x d e f", "a b c", "x", ""])
def test_score_is_0_without_a_right_4_gram(hypothesis):
    assert corpus_paper_bleu([hypothesis], [["a b c d e f g"]], "en")[0] == 0.0


def test_score_takes_raw_references_the_same_way():
    score, _ = corpus_paper_bleu(
        ['Das "Rich-Text"-Format ist\'s.'], [["Das “Rich-Text”-Format ist’s."]], "de"
    )
    assert score == pytest.approx(100.0)


def test_signature_names_what_the_score_depends_on():
    common = f"smooth:none|sacremoses:{sacremoses.__version__}|version:{sacrebleu.__version__}"
    signatures = [
        corpus_paper_bleu(["a"], [["a"], ["b"]], language)[1] for language in ("de_DE", "fr", None)
    ]
    assert signatures == [
        f"nrefs:2|case:mixed|tok:moses-de|punct:unicode-replaced|compounds:split|{common}",
        f"nrefs:2|case:mixed|tok:moses-fr|punct:unicode-replaced|compounds:whole|{common}",
        f"nrefs:2|case:mixed|tok:moses-en|punct:unicode-replaced|compounds:whole|{common}",
    ]
    assert corpus_paper_bleu(["a", "b"], [["a", "b"], ["c", None]])[1].startswith("nrefs:var|")


# ---- On the newstests, by naive code ----


@pytest.mark.parametrize("name", NEWSTESTS)
@pytest.mark.parametrize("num_references", [1, 2])
def test_score_equals_the_naive_one(shared_data, name, num_references):
    references = read_newstest(shared_data, name)[-100:]
    check_score(
        perturbed(references),
        [references, perturbed(references, seed=1)][:num_references],
        NEWSTESTS[name],
    )


def check_score(hypotheses, streams, language):
    score, _ = corpus_paper_bleu(hypotheses, streams, language)
    references = zip(*(naive_tokens(stream, language) for stream in streams), strict=True)
    assert 30 < score < 90
    assert score == pytest.approx(
        naive_bleu(naive_tokens(hypotheses, language), list(references)), abs=1e-9
    )


# ---- On the newstests, by the Perl scripts of Moses ----


def perl(*arguments, lines):
    """Lines that a Perl program makes of lines."""
    text = "".join(f"{line}\n" for line in lines).encode()
    done = subprocess.run(
        ["perl", *map(str, arguments)], input=text, check=True, capture_output=True
    )
    return done.stdout.decode().split("\n")[:-1]


def moses_tokens(lines, language):
    tokenizer = Path(MOSES_SCRIPTS) / "tokenizer"
    lines = perl(tokenizer / "replace-unicode-punctuation.perl", lines=lines)
    lines = perl(tokenizer / "tokenizer.perl", "-q", "-l", language, lines=lines)
    if language == "de":
        lines = perl("-ple", r"s{(\S)-(\S)}{$1 ##AT##-##AT## $2}g", lines=lines)
    return lines


def cut_last_full_stop(line):
    """What tokenizer.perl does to every line since November 2018, and did before only where the
    word is no prefix.
    """
    return re.sub(r"([^\s.])\.$", r"\1 .", line)


@pytest.mark.skipif(
    MOSES_SCRIPTS is None, reason="MOSES_SCRIPTS, the folder `scripts` of mosesdecoder, is not set"
)
@pytest.mark.parametrize("name", NEWSTESTS)
def test_score_equals_that_of_the_moses_scripts(shared_data, tmp_path, name):
    references, language = read_newstest(shared_data, name), NEWSTESTS[name]
    hypotheses = perturbed(references)
    tokens = [tokenize_for_paper_bleu(lines, language) for lines in (references, hypotheses)]
    theirs = [moses_tokens(lines, language) for lines in (references, hypotheses)]
    if "split last words" in (Path(MOSES_SCRIPTS) / "tokenizer" / "tokenizer.perl").read_text(
        errors="replace"
    ):
        tokens = [list(map(cut_last_full_stop, lines)) for lines in tokens]
    assert tokens == theirs
    ours = (
        tokenize_for_paper_bleu(references, language),
        tokenize_for_paper_bleu(hypotheses, language),
    )
    (tmp_path / "references").write_text("".join(f"{line}\n" for line in ours[0]), encoding="utf-8")
    printed = perl(
        Path(MOSES_SCRIPTS) / "generic" / "multi-bleu.perl", tmp_path / "references", lines=ours[1]
    )
    score, _ = corpus_paper_bleu(hypotheses, [references], language)
    assert printed[0].startswith(f"BLEU = {score:.2f}, ")
