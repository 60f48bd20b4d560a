# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""One subword vocabulary for source and target: byte-level byte-pair encoding."""

from collections.abc import Sequence
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    normalizers,
    pre_tokenizers,
    processors,
)
from tokenizers.models import BPE
from transformers import TokenizersBackend
from transformers.utils import logging

logger = logging.get_logger(__name__)

# GPT-2's pattern of words, except that combining marks count as letters. Otherwise Hindi words
# would be split at every vowel sign.
WORDS = (
    r"'s|'t|'re|'ve|'m|'ll|'d"
    r"| ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+"
    r"|\s+(?!\S)|\s+"
)


class VaswaniTransformerTokenizer(TokenizersBackend):
    """Joint byte-level BPE of both languages.

    `</s>` ends every source and every target. Encoding and decoding a text gives the same text,
    except for the changes that the normalizer of tokenizer.json makes. The normalizer drops white
    space around the text. In a tokenizer made by `train_tokenizer` it also replaces look-alike
    characters that are rare in the training text. tokenizer.json and tokenizer_config.json define
    the tokenizer completely: without this package, `AutoTokenizer` gives the same ids.

    The characters `</s>` in a text are read as text until you add a special token, by `add_tokens`,
    `extra_special_tokens` or `mask_token`. From then on all special tokens in a text are read as
    tokens, and the white space next to them is dropped. White space next to ordinary tokens, added
    by `add_tokens`, is kept. `new_special_tokens` of `train_new_from_iterator` are read as text:
    add special tokens after the training instead.

    Deviation: the paper does not say how its text was tokenized before the byte-pair encoding.
    Byte-level BPE needs no language-specific pre-tokenizer.

    Args:
        vocab: Ids by token. None makes an untrained tokenizer for `train_new_from_iterator`.
        merges: The byte-pair merges, in order.
        bos_token: First input of the decoder. No encoded text contains it.
        eos_token: Last token of every encoded text.
        pad_token: Token that pads batches.
        split_special_tokens: Whether special tokens inside a text are read as text. None means
            True unless there are `extra_special_tokens`.

    Example:
        >>> texts = ["a dream", "ein Traum"]
        >>> tokenizer = VaswaniTransformerTokenizer().train_new_from_iterator(texts, vocab_size=300)
        >>> batch = tokenizer(["a dream"], text_target=["ein Traum"])

    Paper: section 5.1.
    """

    vocab_files_names: dict[str, str] = {"tokenizer_file": "tokenizer.json"}
    model_input_names: list[str] = ["input_ids", "attention_mask"]
    model: Any = BPE

    def __init__(
        self,
        vocab: dict[str, int] | None = None,
        merges: list[tuple[str, str]] | None = None,
        *,
        bos_token: str = "<s>",
        eos_token: str = "</s>",
        pad_token: str = "<pad>",
        split_special_tokens: bool | None = None,
        **kwargs: Any,
    ) -> None:
        if split_special_tokens is None:
            split_special_tokens = not kwargs.get("extra_special_tokens")
        self._is_built = False
        if vocab is None:
            vocab = {str(pad_token): 0, str(bos_token): 1, str(eos_token): 2}
        self._tokenizer = Tokenizer(BPE(vocab=vocab, merges=merges or []))
        self._tokenizer.normalizer = normalizers.Sequence([normalizers.Strip()])
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        self._tokenizer.decoder = decoders.ByteLevel()
        super().__init__(
            bos_token=bos_token,
            eos_token=eos_token,
            pad_token=pad_token,
            split_special_tokens=split_special_tokens,
            **kwargs,
        )
        self._is_built = True
        eos = str(self.eos_token)
        self._tokenizer.post_processor = processors.TemplateProcessing(
            single=f"$A {eos}", pair=f"$A {eos} $B {eos}", special_tokens=[(eos, self.eos_token_id)]
        )

    def _add_tokens(
        self, new_tokens: Sequence[str | AddedToken], special_tokens: bool = False
    ) -> int:
        num_added = super()._add_tokens(list(new_tokens), special_tokens=special_tokens)
        are_special = special_tokens or any(getattr(each, "special", False) for each in new_tokens)
        changes_reading = are_special and self.split_special_tokens and self._is_built
        if num_added and changes_reading:
            logger.warning(
                f"Special tokens were added ({', '.join(map(str, new_tokens))}): from now on "
                "special tokens in a text are read as such, `</s>` included. Set "
                "`split_special_tokens=True` to read them as text again."
            )
            self.split_special_tokens = False
            self.init_kwargs["split_special_tokens"] = False
        return num_added

    @classmethod
    def convert_to_native_format(
        cls, trust_remote_code: bool = False, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the arguments unchanged.

        transformers would take only parts of tokenizer.json here, but `__init__` needs all of it.
        """
        return kwargs

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """Load a saved tokenizer as in transformers.

        Raises:
            FileNotFoundError: There is no tokenizer.json with a trained vocabulary. In this case
                transformers alone would return an empty tokenizer.
        """
        if {"additional_special_tokens", "extra_special_tokens", "mask_token"} & kwargs.keys():
            # The saved `split_special_tokens` may be True. The new tokens would then be read as
            # text.
            kwargs.setdefault("split_special_tokens", False)
        tokenizer = super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        if len(tokenizer) <= len(tokenizer.all_special_tokens):
            raise FileNotFoundError(
                f"`{pretrained_model_name_or_path}` must hold a tokenizer.json with a trained "
                "vocabulary, got only special tokens. Copy the file from where the model was "
                "trained, or train a tokenizer."
            )
        return tokenizer
