# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
def align_pairs(
    model: VaswaniTransformerForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    sources: Iterable[str],
    targets: Iterable[str],
    *,
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    **batching: Any,
) -> Iterator[list[tuple[int, int]]]:
    """The words that are aligned in each pair, in the order of the input.

    Each target word is aligned to the source word that the decoder attends to most while it predicts the target word:
    weights are averaged over heads and summed over the tokens of both words. A word is what stands between white
    space, counted from 0. A pair with an empty side has no alignment. The other arguments are those of `score_pairs`.

    Args:
        layer: Decoder layer whose attention is read, from 0; None takes the last one.
        heads: Heads to average, from 0; None takes all.
        **batching: max_tokens_per_batch, progress and total.

    Returns:
        Pairs of source word and target word for each pair of sentences, in the order of the target words.

    Raises:
        ValueError: `layer` or a head does not exist, or there are more sentences on one side than on the other.

    Example:
        >>> list(align_pairs(model, tokenizer, ["A dog runs today."], ["Heute rennt ein Hund."]))
        [[(3, 0), (2, 1), (0, 2), (1, 3)]]

    Paper: section 3.2.3.
    """
    num_layers, num_heads = model.config.num_decoder_layers, model.config.num_heads
    layer = num_layers - 1 if layer is None else layer
    heads = sorted(set(range(num_heads) if heads is None else heads))
    if layer not in range(num_layers) or not heads or not set(heads) <= set(range(num_heads)):
        raise ValueError(
            f"`layer` must be below {num_layers} and `heads` below {num_heads}, counted from 0, got {layer} and "
            f"{heads}. Choose those that the model has."
        )

    def compute(rows: list[Row]) -> list[list[tuple[int, int]]]:
        weights = _cross_attention(model, rows, layer, heads, tokenizer.pad_token_id)
        return [
            align_words(matrix[: len(target_words), : len(source_words)], source_words, target_words)
            for matrix, (_, _, source_words, target_words) in zip(weights, rows, strict=True)
        ]

    return compute_in_batches(
        paired(sources, targets, "targets"),
        partial(_encode, tokenizer),
        partial(map, compute),
        empty=list,
        doing="aligning",
        **batching,
    )


def align_words(
    weights: np.ndarray, source_words: list[list[int]], target_words: list[list[int]]
) -> list[tuple[int, int]]:
    """Pairs of source word and target word; of equal weights the first source word wins.

    Args:
        weights: (T, S) attention of each target token to each source token.
        source_words: For each source token the words that it is a part of, usually one; `</s>` is part of none.
        target_words: The same for each target token.
    """
    by_source_word = weights @ _membership(source_words)  # (T, source words)
    is_part = _membership(target_words).T  # (target words, T)
    sums = is_part @ by_source_word  # (target words, source words)
    return [(int(sums[word].argmax()), int(word)) for word in np.flatnonzero(is_part.any(axis=1))]


def token_words(text: str, offsets: Iterable[tuple[int, int]]) -> list[list[int]]:
    """For each token the words of the text that it covers at least one character of.

    Args:
        text: Words between white space.
        offsets: Start and end of each token in the text; bytes of one character have the same, `</s>` covers nothing.
    """
    word_of_character = [-1] * len(text)
    for number, word in enumerate(_WORD.finditer(text)):
        word_of_character[slice(*word.span())] = [number] * len(word.group())
    return [sorted(set(word_of_character[start:end]) - {-1}) for start, end in offsets]


def _membership(words: list[list[int]]) -> np.ndarray:
    """(tokens, words) 1.0 where a token is part of a word, else 0.0."""
    table = np.zeros((len(words), 1 + max((word for row in words for word in row), default=-1)))
    for token, row in enumerate(words):
        table[token, row] = 1.0
    return table


def _encode(tokenizer: PreTrainedTokenizerBase, pairs: list[tuple[str, str]]) -> list[Row]:
    """Source tokens, target tokens, and the words of both; nothing for a pair with a side without words."""
    sides = []
    for texts in map(list, zip(*pairs, strict=True)):
        encoded = tokenize(tokenizer, texts, return_offsets_mapping=True)
        words = [token_words(text, spans) for text, spans in zip(texts, encoded["offset_mapping"], strict=True)]
        sides.append((encoded["input_ids"], words))
    (source_ids, source_words), (target_ids, target_words) = sides
    rows = zip(source_ids, target_ids, source_words, target_words, strict=True)
    return [row if any(row[2]) and any(row[3]) else () for row in rows]


@torch.inference_mode()
def _cross_attention(
    model: VaswaniTransformerForConditionalGeneration, rows: list[Row], layer: int, heads: list[int], pad_token_id: int
) -> np.ndarray:
    """(B, T, S) weights in float64, averaged over heads; row t belongs to the step that predicts target token t."""
    kept = []
    attention = model.model.decoder.layers[layer].encoder_attn
    hooks = [  # this layer alone is asked for its weights: those of all would fill the memory
        attention.register_forward_pre_hook(
            lambda module, args, kwargs: (args, {**kwargs, "output_attentions": True}), with_kwargs=True
        ),
        # (B, H, T, S) -> (B, T, S)
        attention.register_forward_hook(lambda module, args, output: kept.append(output[1][:, heads].mean(dim=1))),
    ]
    try:
        _decode(model, rows, pad_token_id)
    finally:
        for hook in hooks:
            hook.remove()
    weights: np.ndarray = kept[0].cpu().double().numpy()
    return weights


def align_files(
    model: VaswaniTransformerForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    source_file: str | Path,
    target_file: str | Path,
    output_file: str | Path = STANDARD_STREAM,
    **options: Any,
) -> int:
    """Writes the word alignments of two files in Pharaoh's format, "0-0 2-1": source word, target word, from 0.

    The other arguments are those of `score_files`.

    Args:
        **options: Of `align_pairs`, for example layer, heads or progress.

    Example:
        >>> align_files(model, tokenizer, "newstest2014.en", "newstest2014.de", "newstest2014.align", layer=3)
    """
    with _open_pairs(source_file, target_file, output_file) as (sources, targets, total):
        aligned = align_pairs(model, tokenizer, sources, targets, total=total, **options)
        lines = (" ".join(f"{source}-{target}" for source, target in words) for words in aligned)
        return write_lines(lines, output_file)
