# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""What a model accepts: wrong types and shapes are refused by name, before torch fails or silently broadcasts.

Shapes: B batch, L length, D d_model. Shapes and types are known without asking the device; ids that are
compared with the vocabulary are not. Compiled and exported graphs hold none of these checks.
"""

import math
from numbers import Real
from typing import Any

import torch
from transformers import Cache, EncoderDecoderCache

MAX_TEXT_BYTES = 2**16  # of UTF-8: time grows with the square of a text's length, and no sentence is that long

_MOST_BEAMS = 10_000  # a generation config from elsewhere may ask for any number; they would fill the memory
_ID_TYPES = (torch.int64, torch.int32)


def _shape(value: Any) -> tuple[int, ...] | None:
    return tuple(value.shape) if hasattr(value, "shape") else None


def _describe(value: Any) -> str:
    return f"{tuple(value.shape)} of {value.dtype}" if torch.is_tensor(value) else type(value).__name__


def check_text_length(text: str) -> None:
    """Refuses a text that would be computed for hours: a file without line ends, say.

    Raises:
        ValueError: It has more than 65,536 bytes in UTF-8.
    """
    if 4 * len(text) > MAX_TEXT_BYTES and (size := len(text.encode("utf-8", "surrogatepass"))) > MAX_TEXT_BYTES:
        raise ValueError(
            f"A text must have at most {MAX_TEXT_BYTES} bytes, got {size} in {text[:30]!a}... Split it into sentences."
        )


def check_token_ids(name: str, ids: Any, vocab_size: int | None = None, ignore_index: int | None = None) -> None:
    """Refuses what is not a tensor (B, L) of token ids, before an embedding kernel fails on it without a message.

    Args:
        name: Of the argument.
        ids: Token ids.
        vocab_size: What the ids must stay below, which costs a wait for the device; None: not checked.
        ignore_index: An id outside the vocabulary that is allowed.

    Raises:
        TypeError: No tensor, or not of int64 or int32.
        ValueError: Not of shape (B, L), empty, or an id outside the vocabulary.
    """
    if torch.compiler.is_compiling():
        return
    if not torch.is_tensor(ids) or ids.dtype not in _ID_TYPES:
        raise TypeError(
            f"`{name}` must be a tensor of int64 token ids, got {_describe(ids)}. Pass what the tokenizer gives with "
            'return_tensors="pt".'
        )
    if ids.ndim != 2 or 0 in ids.shape:
        raise ValueError(
            f"`{name}` must have shape (batch, length), neither of them 0, got {tuple(ids.shape)}. A single sentence "
            f"is a batch of one: `{name}.unsqueeze(0)`."
        )
    if vocab_size is not None and ids.device.type != "meta":
        _check_vocabulary(name, ids if ignore_index is None else ids.masked_fill(ids == ignore_index, 0), vocab_size)


def _check_vocabulary(name: str, ids: torch.Tensor, vocab_size: int) -> None:
    lowest, highest = torch.stack(ids.aminmax()).tolist()
    if lowest < 0 or highest >= vocab_size:
        raise ValueError(
            f"`{name}` must lie in [0, {vocab_size}), got {lowest if lowest < 0 else highest}. "
            "Use the tokenizer that was saved with this model, or make room for a larger one: "
            "model.resize_token_embeddings(len(tokenizer))."
        )


def check_states(name: str, states: torch.Tensor, d_model: int) -> None:
    """Refuses embeddings or encoder outputs that are not (B, L, D).

    Raises:
        ValueError: Another shape.
    """
    shape = _shape(states)
    if not torch.compiler.is_compiling() and (shape is None or len(shape) != 3 or shape[2] != d_model or 0 in shape):
        raise ValueError(
            f"`{name}` must have shape (batch, length, {d_model}), got {shape or type(states).__name__}. Pass "
            "embeddings, or an encoder's `last_hidden_state`, of a model of this width."
        )


def check_batch(num_targets: int, num_sources: int) -> None:
    """Refuses targets that are not one for each source.

    Raises:
        ValueError: Names both numbers.
    """
    if not torch.compiler.is_compiling() and num_targets != num_sources:
        raise ValueError(
            f"`decoder_input_ids` or `labels` must hold one sentence for each source, {num_sources}, got "
            f"{num_targets}. Repeat a source that has several targets."
        )


def check_mask(name: str, mask: Any, batch: int, length: int, cache: Cache | None = None) -> None:
    """Refuses a padding mask that is not (B, L); a mask (B, H, L, L) made for the attention itself may pass.

    Args:
        name: Of the argument.
        mask: 1 for "attend", 0 for padding; or None.
        batch: Sentences.
        length: Tokens of this call.
        cache: Holds further tokens that the mask must cover; a static one is not asked, its count is on the device.

    Raises:
        ValueError: Another shape, or attention's own mask in whole numbers.
    """
    if mask is None or torch.compiler.is_compiling():
        return
    shape = _shape(mask)
    if shape is not None and len(shape) == 4:
        _check_attention_mask(name, mask, batch, length if cache is None else None)  # a static cache has room left
        return
    seen = 0 if cache is None else cache.get_seq_length()
    length = shape[-1] if torch.is_tensor(seen) and shape else length + seen
    if shape != (batch, length):
        raise ValueError(
            f"`{name}` must have shape ({batch}, {length}), one entry for each token, cached ones included, got "
            f"{shape or type(mask).__name__}. 1 means attend, 0 padding; None attends to everything."
        )


def _check_attention_mask(name: str, mask: Any, batch: int, length: int | None) -> None:
    if mask.shape[0] not in (1, batch) or length not in (None, mask.shape[3]):
        raise ValueError(
            f"`{name}` of four dimensions must have shape ({batch}, 1, queries, {length or 'keys'}), got "
            f"{tuple(mask.shape)}. Or pass one of two dimensions, 1 for each token and 0 for padding."
        )
    if torch.is_tensor(mask) and mask.dtype != torch.bool and not mask.is_floating_point():
        raise ValueError(
            f"`{name}` of four dimensions must be boolean (True: attend) or floating (added), got {mask.dtype}. "
            "Pass `mask.bool()`."
        )


def check_cache(cache: Any, batch: int) -> None:
    """Refuses a cache that is no `EncoderDecoderCache`, or that holds another number of sentences.

    Raises:
        TypeError: Another kind of cache: self- and cross-attention would share it.
        ValueError: Another number of sentences.
    """
    if cache is None or torch.compiler.is_compiling():
        return
    if not isinstance(cache, EncoderDecoderCache):
        raise TypeError(
            f"`past_key_values` must be an EncoderDecoderCache, got {type(cache).__name__}. Wrap two caches: "
            "EncoderDecoderCache(DynamicCache(config=config), DynamicCache(config=config))."
        )
    for kind in (cache.self_attention_cache, cache.cross_attention_cache):
        keys = getattr(kind.layers[0], "keys", None) if kind.layers else None
        if torch.is_tensor(keys) and keys.ndim == 4 and keys.shape[0] != batch:
            raise ValueError(
                f"`past_key_values` must hold as many sentences as `decoder_input_ids`, {batch}, got {keys.shape[0]}. "
                "Use the cache of the same batch, or reorder it with `reorder_cache`."
            )


def check_decoder_inputs(
    embeddings: torch.Tensor,
    encoder_hidden_states: torch.Tensor,
    attention_mask: Any,
    encoder_attention_mask: Any,
    past_key_values: EncoderDecoderCache | None,
) -> None:
    """Refuses what does not fit the (B, T, D) embeddings of the target tokens.

    Raises:
        TypeError: Another kind of cache.
        ValueError: Another shape, or another number of sentences.
    """
    batch, length, d_model = embeddings.shape
    check_states("encoder_hidden_states", encoder_hidden_states, d_model)
    check_batch(batch, encoder_hidden_states.shape[0])
    check_cache(past_key_values, batch)
    cache = None if past_key_values is None else past_key_values.self_attention_cache
    check_mask("decoder_attention_mask", attention_mask, batch, length, cache)
    check_mask("attention_mask", encoder_attention_mask, batch, encoder_hidden_states.shape[1])


def check_arguments_of_loss(others: dict[str, Any]) -> None:
    """Refuses the name that label smoothing has elsewhere, which would be ignored among the library's keywords.

    Raises:
        TypeError: `label_smoothing` is among them.
    """
    if "label_smoothing" in others:
        raise TypeError(
            f"`label_smoothing` must be passed as `smoothing`, got {others['label_smoothing']}. The library would "
            "take an argument of that name for labels."
        )


def check_labels(labels: torch.Tensor, states: torch.Tensor) -> None:
    """Refuses labels that are not one for each of the decoder's inputs.

    Raises:
        ValueError: Another shape.
    """
    if not torch.compiler.is_compiling() and labels.shape != states.shape[:2]:
        raise ValueError(
            f"`labels` must have the shape of `decoder_input_ids`, {tuple(states.shape[:2])}, got "
            f"{tuple(labels.shape)}. Leave `decoder_input_ids` out: they are made from the labels."
        )


def check_decoding(generation_config: Any) -> None:
    """Refuses values of a call of `generate` that no search can have.

    Args:
        generation_config: Of the call, with our keys.

    Raises:
        ValueError: Names the value.
    """
    num_beams = generation_config.num_beams
    if num_beams is not None and not (type(num_beams) is int and 1 <= num_beams <= _MOST_BEAMS):
        raise ValueError(
            f"`num_beams` must be a whole number from 1 to {_MOST_BEAMS}, got {num_beams!r}. The paper uses 4; 1 is "
            "greedy search."
        )
    num_returned = generation_config.num_return_sequences
    if num_returned is not None and not (type(num_returned) is int and num_returned >= 1):
        raise ValueError(
            f"`num_return_sequences` must be a whole number of at least 1, got {num_returned!r}. 1 gives the best."
        )
    for name in ("eos_token_id", "pad_token_id", "bos_token_id", "decoder_start_token_id"):
        _check_token_id(name, getattr(generation_config, name))
    check_length_penalty(generation_config.length_penalty, generation_config.length_penalty_offset)
    over_source = generation_config.max_new_tokens_over_source
    if over_source is not None and (type(over_source) is not int or over_source < 0):
        raise ValueError(
            f"`max_new_tokens_over_source` must be a whole number of at least 0 or None, got {over_source!r}. The "
            "paper's is 50; None leaves the length to `max_length`."
        )


def _check_token_id(name: str, value: Any) -> None:
    if value is None or torch.is_tensor(value):
        return
    ids = value if isinstance(value, (list, tuple)) else [value]
    if not ids or not all(type(each) is int and abs(each) < 2**31 for each in ids):
        raise ValueError(
            f"`{name}` must be a token's id, a list of some or None, got {value!r}. `<pad>` is 0, `<s>` 1, `</s>` 2."
        )


def check_length_penalty(alpha: Any, offset: Any) -> None:
    """Refuses what cannot be exponent and offset of `gnmt_length_penalty`; None is neither.

    Raises:
        ValueError: Names the value.
    """
    if alpha is not None and not (_is_finite(alpha) and abs(alpha) <= 10.0):
        raise ValueError(
            f"`length_penalty` must be a finite number in [-10, 10], got {alpha!r}. The paper uses 0.6; below 0 long "
            "output is punished."
        )
    if offset is not None and not (_is_finite(offset) and offset >= 0):
        raise ValueError(
            f"`length_penalty_offset` must be a finite number of at least 0, got {offset!r}. The paper's, which is "
            "GNMT's, is 5; 0 divides by length^alpha."
        )


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def check_prefix_length(prefix_length: int, max_length: int) -> None:
    """Refuses prefixes that leave no room for a token.

    Raises:
        ValueError: Names both numbers.
    """
    if prefix_length >= max_length:
        raise ValueError(
            f"`decoder_input_ids` must be shorter than the limit of {max_length} tokens, `<s>` and forced prefix "
            f"included, got {prefix_length}. Raise `max_length`, or limit the new tokens alone by `max_new_tokens` or "
            "`max_new_tokens_over_source`; learned positions end at `max_position_embeddings`."
        )


__all__ = [
    "MAX_TEXT_BYTES",
    "check_arguments_of_loss",
    "check_batch",
    "check_cache",
    "check_decoder_inputs",
    "check_decoding",
    "check_labels",
    "check_length_penalty",
    "check_mask",
    "check_prefix_length",
    "check_states",
    "check_text_length",
    "check_token_ids",
]
