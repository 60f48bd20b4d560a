# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""scripts/paper/parsing.py: trees as brackets and back, F1 as EVALB counts it, and a parser that
learns.
"""

import io
import json
import random
import sys
from types import SimpleNamespace

import parsing
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parsing import leaves, linearised, read_trees, rebuilt, score, written

from vaswani_transformer import (
    VaswaniTransformerConfig,
    VaswaniTransformerForConditionalGeneration,
    VaswaniTransformerTokenizer,
)
from vaswani_transformer.training.train import training_arguments

LABELS = ["S", "NP", "VP", "X", "WHNP", "ADVP", "PRT"]
WORDS = st.text(st.characters(blacklist_categories=["Cs", "Z", "Cc"]), min_size=1, max_size=4)
LEAVES = st.tuples(
    st.sampled_from(["NN", "IN", ",", "-LRB-", "PRP$"]),
    WORDS.map(lambda word: parsing.source_text([word])),
)
NODES = st.recursive(
    LEAVES,
    lambda inside: st.tuples(st.sampled_from(LABELS), st.lists(inside, min_size=1, max_size=4)),
    max_leaves=12,
)
TREES = st.tuples(st.just("TOP"), st.lists(NODES, min_size=1, max_size=1))
TOKENS = st.sampled_from(["XX", "(NP", ")NP", "(S", ")S", "(X", ")X"])


def trees_of(text):
    path = parsing.Path("trees")
    path.write_text(text, encoding="utf-8")
    return list(read_trees(path))


def tree_of(text):
    return trees_of(text)[0]


@pytest.fixture(autouse=True)
def somewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# ---- reading ----


def test_traces_functions_and_empty_nodes_are_dropped():
    text = """( (S (NP-SBJ-1 (PRP We)) (VP=2 (VBP go) (S (NP-SBJ (-NONE- *-1))) (PRT|ADVP (RP on)))
        (. .)) )"""
    assert written(tree_of(text)) == "(TOP (S (NP (PRP We)) (VP (VBP go) (PRT (RP on))) (. .)))"


def test_folder_of_mrg_files_is_read_in_order(tmp_path):
    for name, word in (("01/b.mrg", "b"), ("00/a.mrg", "a"), ("01/c.txt", "c")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"( (NP (NN {word})) )\n\n( (NP (NN {word}{word})) )")
    words = [leaves(tree)[0][1] for tree in read_trees(tmp_path)]
    assert words == ["a", "aa", "b", "bb"]


@pytest.mark.parametrize(
    ("text", "says"), [("(S (NP", "got an end within 'S'"), ("(S (NN a)) b", "got 'b' outside")]
)
def test_file_that_holds_no_trees_is_refused(text, says):
    with pytest.raises(ValueError, match=says):
        trees_of(text)


# ---- brackets and back ----


def test_brackets_of_vinyals_and_others():
    tree = tree_of("(TOP (S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .)))")
    assert " ".join(linearised(tree)) == "(S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S"
    assert " ".join(linearised(tree, with_tags=True)).startswith("(S (NP [NNP] )NP (VP [VBZ]")


@given(TREES, st.booleans())
def test_every_tree_comes_back(tree, with_tags):
    words = [(parsing.LEAF, word) for _, word in leaves(tree)] if with_tags else leaves(tree)
    assert rebuilt(linearised(tree, with_tags), words) == (tree, True)
    assert tree_of(written(tree)) == tree


@given(st.lists(TOKENS, max_size=30), st.integers(0, 8))
def test_repair_leaves_each_word_once_and_no_empty_constituent(tokens, num_words):
    words = [("NN", str(number)) for number in range(num_words)]
    tree, is_whole = rebuilt(tokens, words)
    assert leaves(tree) == words
    assert not num_words or parsing.cleaned(tree) == tree
    assert len(tree[1]) == min(1, num_words)
    assert is_whole == (num_words > 0 and linearised(tree) == tokens)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ("(S XX XX )S", "(TOP (S (t a) (t b) (t c)))"),  # words that are missing go into the root
        ("(S XX XX XX XX )S", "(TOP (S (t a) (t b) (t c)))"),
        # open ones are closed
        ("(S (NP XX (VP XX )NP XX )S", "(TOP (S (NP (t a) (VP (t b))) (t c)))"),
        ("(S )NP XX XX XX )S )S", "(TOP (S (t a) (t b) (t c)))"),
        ("(S XX (NP )NP XX XX", "(TOP (S (t a) (t b) (t c)))"),
        # several roots get an S
        ("(NP XX )NP (VP XX )VP", "(TOP (S (NP (t a)) (VP (t b)) (t c)))"),
        ("", "(TOP (S (t a) (t b) (t c)))"),
    ],
)
def test_repair(tokens, expected):
    tree, is_whole = rebuilt(tokens.split(), [("t", word) for word in "abc"])
    assert (written(tree), is_whole) == (expected, False)


def test_words_never_hold_brackets():
    assert (
        parsing.source_text(["a(b)", "[", "{}", "-LRB-", "c\u00a0d"])
        == "a-LRB-b-RRB- -LSB- -LCB--RCB- -LRB- cd"
    )


def test_brackets_are_atoms_of_the_tokenizer_and_found_again(treebank):
    tokenizer = parsing.VaswaniTransformerTokenizer.from_pretrained("data/tokenizer")
    find = parsing.bracket_finder(tokenizer)
    for tree in treebank[:50]:
        brackets = linearised(tree)
        ids = tokenizer(" ".join(brackets))["input_ids"]
        assert len(ids) == len(brackets) + 1
        assert find(tokenizer.decode(ids, skip_special_tokens=True)) == brackets


# ---- F1 ----

# Gold, guess; matched, wanted and given brackets as EVALB's C program counts them with COLLINS.prm
# (`evalb -p`).
GOLDEN = [
    ("(S (NP (DT a) (NN b)) (VP (VB c)) (. .))", "(S (NP (DT a) (NN b)) (VP (VB c)) (. .))", (3, 3, 3)),  # noqa: E501
    ("(S (NP (DT a) (NN b)) (VP (VB c)) (. .))", "(S (DT a) (NP (NN b)) (VP (VB c) (. .)))", (2, 3, 3)),  # noqa: E501
    ("(S (NP (NP (NN a))) (VP (VB b)))", "(S (NP (NN a)) (VP (VP (VB b))))", (3, 4, 4)),
    ("(S (ADVP (RB a)) (VP (VB b) (PRT (RP c))))", "(S (PRT (RB a)) (VP (VB b) (ADVP (RP c))))", (4, 4, 4)),  # noqa: E501
    ("(S (NP-SBJ (NN a)) (PRN (, ,)) (VP=1 (VB b)))", "(S (NP (NN a)) (, ,) (VP (VB b)))", (3, 3, 3)),  # noqa: E501
    ("(S (`` ``) (NP (NN a)) ('' '') (VP (VB b)))", "(S (X (`` ``) (NP (NN a)) ('' '')) (VB b))", (2, 3, 3)),  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize(("gold", "guess", "counts"), GOLDEN)
def test_f1_is_evalbs(gold, guess, counts):
    matched, wanted, given = counts
    figures = score([tree_of(gold)], [tree_of(guess)])
    assert figures["recall"] == pytest.approx(100 * matched / wanted)
    assert figures["precision"] == pytest.approx(100 * matched / given)
    assert figures["f1"] == pytest.approx(200 * matched / (wanted + given))


def test_sentence_of_other_words_is_left_out_and_counted():
    golds = [tree_of("(TOP (NP (NN a)))"), tree_of("(TOP (NP (NN b)))")]
    figures = score(golds, [golds[0], golds[0]])
    assert (figures["f1"], figures["sentences"], figures["left_out"]) == (100.0, 2, 1)
    with pytest.raises(ValueError, match="`guess` must have a tree for each of the 2"):
        score(golds, golds[:1])


# ---- the parser ----


def generated(number, seed):
    """Trees whose attachments depend on the preposition: "of" goes with the noun, "with" with the
    verb.
    """
    rng = random.Random(seed)

    def noun_phrase(depth):
        words = [("DT", rng.choice(["the", "a"]))] * rng.randrange(2) + [
            ("NN", rng.choice("cat dog man tree".split()))
        ]
        if depth and rng.random() < 0.4:
            return ("NP", [("NP", words), ("PP", [("IN", "of"), noun_phrase(depth - 1)])])
        return ("NP", words)

    def sentence():
        verb = [("VBZ", rng.choice("sees has likes".split())), noun_phrase(2)]
        verb += [("PP", [("IN", "with"), noun_phrase(1)])] * rng.randrange(2)
        return ("TOP", [("S", [noun_phrase(1), ("VP", verb), (".", ".")])])

    return [sentence() for _ in range(number)]


@pytest.fixture
def treebank():
    """Trees and a prepared folder `data`."""
    trees = generated(300, 0)
    parsing.prepare({"train": trees, "dev": generated(100, 1)}, "data", vocab_size=310)
    return trees


TINY = {
    "d_model": 64,
    "d_ff": 128,
    "num_heads": 4,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
}


@pytest.mark.parametrize(
    ("name", "vocab_size"), [("paper-parsing-wsj", 16_000), ("paper-parsing-semi", 32_000)]
)
def test_recipes_hold_what_the_paper_says(name, vocab_size):
    recipe = parsing.RECIPES[name]
    config = recipe.model_config()
    layers = config.num_encoder_layers, config.num_decoder_layers
    assert (config.d_model, config.d_ff, config.num_heads, *layers) == (1024, 2048, 8, 4, 4)
    assert (config.vocab_size, recipe.label_smoothing_factor) == (vocab_size, 0.1)
    search = recipe.num_beams, recipe.length_penalty, recipe.max_new_tokens_over_source
    assert search == (21, 0.3, 300)
    # transformer_parsing_base and transformer_parsing_big of tensor2tensor halve the learning rate
    peak = (recipe.d_model * recipe.warmup_steps) ** -0.5
    assert recipe.learning_rate == pytest.approx(peak / 2, rel=1e-12)


@pytest.mark.parametrize("name", parsing.RECIPES)
def test_the_papers_recipes_choose_the_checkpoint_by_f1(name):
    recipe = parsing.dataclasses.replace(
        parsing.RECIPES[name], validation_source="words", validation_target="brackets"
    )
    arguments = training_arguments(recipe, "run", use_cpu=True)
    is_papers = name.startswith("paper")
    assert (arguments.load_best_model_at_end, arguments.num_averaged_snapshots) == (
        is_papers,
        0 if is_papers else 5,
    )


def test_commands_prepare_train_parse_and_score(treebank, monkeypatch, capsys):
    parsing.Path("train.trees").write_text("".join(f"{written(tree)}\n" for tree in treebank[:60]))
    recipe = parsing.dataclasses.replace(
        parsing.RECIPES["parsing-genia"], **TINY, vocab_size=300, eval_steps=2, save_steps=2
    )
    monkeypatch.setitem(parsing.RECIPES, "parsing-genia", recipe)
    trees = ["--train", "train.trees", "--dev", "train.trees"]
    parsing.main(["prepare", *trees, "--output-dir", "d"])
    assert len(VaswaniTransformerTokenizer.from_pretrained("d/tokenizer")) == 300
    parsing.main(["train", "--data", "d", "--output-dir", "run", "--max-steps", "2"])
    assert "F1 " in capsys.readouterr().out
    text = "a (cat) sees\n\nthe man of the tree .\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    parsing.main(["parse", "--model", "run", "--num-beams", "2", "--length-penalty", "0"])
    out, err = capsys.readouterr()
    words = [" ".join(word for _, word in leaves(tree)) for tree in trees_of(out)]
    assert words[0] == "a -LRB-cat-RRB- sees" and words[-1] == "the man of the tree ."
    assert "2 of 3 outputs needed no repair" in err  # an empty line has no tree
    parsing.main(["score", "--gold", "train.trees", "--guess", "train.trees"])
    assert json.loads(capsys.readouterr().out)["f1"] == 100.0


NAMES = [*(f"{side}{label}" for label in LABELS for side in "()"), parsing.LEAF]
GRAMMAR = parsing.BracketGrammar(
    SimpleNamespace(
        eos_token_id=99, get_added_vocab=lambda: {name: NAMES.index(name) for name in NAMES}
    )
)


@given(TREES)
def test_the_grammar_allows_every_tree(tree):
    ids = [NAMES.index(name) for name in linearised(tree)]
    for length, index in enumerate([*ids, 99]):
        assert index in GRAMMAR.following(ids[:length], len(leaves(tree)))


@given(st.integers(1, 30), st.randoms())
def test_the_grammar_allows_only_whole_trees(num_words, rng):
    """However a search chooses, and within the 300 tokens above the source."""
    ids = []
    while ids[-1:] != [99]:
        ids.append(rng.choice(GRAMMAR.following(ids, num_words)))
    words = [("NN", str(place)) for place in range(num_words)]
    tree, is_whole = rebuilt([NAMES[index] for index in ids[:-1]], words)
    assert is_whole and leaves(tree) == words
    assert len(ids) <= num_words + 300


def test_the_grammar_ends_what_only_brackets_would_continue():
    opened = [NAMES.index("(NP")] * GRAMMAR.MOST_BRACKETS
    assert GRAMMAR.following(opened[1:], 1) == [*GRAMMAR.leaves, *GRAMMAR.opening]
    assert GRAMMAR.following(opened, 1) == GRAMMAR.leaves


def test_untrained_parser_writes_whole_trees_in_the_order_of_the_sentences(treebank):
    tokenizer = VaswaniTransformerTokenizer.from_pretrained("data/tokenizer")
    model = VaswaniTransformerForConditionalGeneration(
        VaswaniTransformerConfig(vocab_size=len(tokenizer), **TINY)
    )
    sentences = ["the cat of a tree sees dogs .", "", "a (man) has"]
    words = [sentence.split() for sentence in sentences]
    search = {"num_beams": 3, "length_penalty": 0.3, "max_new_tokens_over_source": 300}
    parsed = parsing.parse(model, tokenizer, words, batch_size=2, **search)
    for sentence, (tree, is_whole) in zip(words, parsed, strict=True):
        assert [word for _, word in leaves(tree)] == [
            parsing.source_text([word]) for word in sentence
        ]
        assert is_whole or not sentence


@pytest.mark.heavy
def test_parser_learns_attachments():
    """F1 95 in three minutes, on attachments that only the words tell."""
    treebank = generated(3000, 0)
    parsing.prepare({"train": treebank, "dev": generated(100, 1)}, "data", vocab_size=310)
    recipe = parsing.dataclasses.replace(
        parsing.RECIPES["parsing-genia"],
        **TINY,
        dropout=0.1,
        attention_dropout=0.0,
        max_source_tokens_per_batch=1000,
        max_target_tokens_per_batch=1000,
        max_steps=2400,
        warmup_steps=300,
        learning_rate=0.005,
        eval_steps=100,
        save_steps=100,
        load_best_model_at_end=True,
    )
    results = parsing.train_parser("data", "run", recipe, use_cpu=True)
    assert results["best_eval_f1"] > 95
