# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What the page shows of a text, as plain JSON: translations with scores and attention."""

import base64
from dataclasses import asdict

import numpy as np
from maps import attention_maps
from transformers.utils import logging

from vaswani_transformer.inference.translate import decoding_config, with_gnmt_scores
from vaswani_transformer.pipeline_vaswani_transformer import (
    Batching,
    TextReader,
    TorchEngine,
    split_text,
    translate_texts,
)

MAX_SENTENCES = 40
MAX_SOURCE_TOKENS = 512
MAX_MAP_TOKENS = 100
MAX_MAP_CHARACTERS = 4_000_000  # of all maps of a text, as they are sent


def answer(model, tokenizer, text, num_best):
    """Translate a visitor's text.

    The answer has a `message` that says why there is no translation. Otherwise it has `before`, the
    text before the first sentence, and `sentences`. Each sentence has its `source`, the text
    `after` it, and `translations`. Each translation has its figures and either `maps` ("cross" and
    "decoder") or a `note` that says why there are none. The map `encoder` belongs to the sentence.
    """
    # half characters become "�"
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if not text.strip():
        return {"message": "Type a sentence to translate."}
    sources = split_text(text)[1::2]
    if not sources:
        return {"message": "This text has no words to translate."}
    if len(sources) > MAX_SENTENCES:
        return {
            "message": f"This text has {len(sources):,} sentences; "
            f"the page takes up to {MAX_SENTENCES}."
        }
    limit = MAX_SOURCE_TOKENS
    if model.config.position_encoding == "learned":
        limit = min(limit, model.config.max_position_embeddings)
    longest = max(num_tokens(tokenizer, source) for source in sources)
    if longest > limit:
        return {
            "message": f"A sentence has {longest:,} tokens; the page takes up to {limit:,}. "
            "Try a shorter one."
        }
    try:
        return translated(model, tokenizer, text, num_best)
    except (MemoryError, RuntimeError, ValueError):
        logging.get_logger(__name__).exception("a text could not be translated")
        return {
            "message": "The server failed on this text, perhaps for lack of memory. "
            "Try a shorter one."
        }


def translated(model, tokenizer, text, num_best):
    """Return the answer to a text that is neither empty nor too long."""

    options = {"num_return_sequences": num_best, "return_dict_in_generate": False}
    engine = TorchEngine(model, tokenizer, options, return_scores=True)
    reader = TextReader(
        tokenizer, model.config.source_language, model.config.target_language, splits=True
    )
    (document,) = translate_texts([text], reader, engine, Batching())
    decoding = decoding_config(model)
    parts = document.parts
    found = [with_gnmt_scores(sentence.found, decoding) for sentence in document.sentences]
    if not all(found):
        return {"message": "The model found no translation of this text."}
    sentences = []
    num_sent = 0
    for source, after, hypotheses in zip(parts[1::2], parts[2::2], found, strict=True):
        sentence = {"source": source, "after": after, "translations": []}
        for hypothesis in hypotheses:
            translation = asdict(hypothesis)
            sentence["translations"].append(translation)
            note = why_no_maps(tokenizer, source, hypothesis.text, num_sent)
            if note:
                translation["note"] = note
                continue
            maps = attention_maps(model, tokenizer, source, hypothesis.text)
            sent = {kind: packed(*maps[kind]) for kind in ("encoder", "cross", "decoder")}
            num_sent += sum(len(each["weights"]) for each in sent.values())
            sentence["encoder"] = sent.pop("encoder")
            translation["maps"] = sent
        sentences.append(sentence)
    return {"message": "", "before": parts[0], "sentences": sentences}


def why_no_maps(tokenizer, source, target, num_sent):
    """Return why a translation is shown without attention; an empty text if it has some."""
    if not target.strip():
        return "This translation is empty, so there is no attention to show."
    for side, text in (("sentence", source), ("translation", target)):
        length = num_tokens(tokenizer, text)
        if length > MAX_MAP_TOKENS:
            return (
                f"This {side} has {length} tokens; "
                f"attention is shown for up to {MAX_MAP_TOKENS} on each side."
            )
    if num_sent > MAX_MAP_CHARACTERS:
        return "The text is long: translate this sentence alone to see its attention."
    return ""


def num_tokens(tokenizer, text):
    return len(tokenizer(text, verbose=False)["input_ids"])


def packed(weights, rows, columns):
    """Pack weights (layers, heads, rows, columns) from 0 to 1 into one byte each, with the tokens
    of both sides.
    """
    data = np.rint(weights * 255).astype(np.uint8).tobytes()
    num_layers, num_heads = weights.shape[:2]
    text = base64.b64encode(data).decode("ascii")
    return {
        "layers": num_layers,
        "heads": num_heads,
        "rows": rows,
        "columns": columns,
        "weights": text,
    }
