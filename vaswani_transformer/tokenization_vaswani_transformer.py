# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""One subword vocabulary for source and target: byte-level byte-pair encoding."""

from collections.abc import Iterable
from typing import Any, ClassVar

from tokenizers import Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from transformers import TokenizersBackend


class VaswaniTransformerTokenizer(TokenizersBackend):
    """Joint byte-level BPE of both languages; `</s>` ends every sentence, on the source and on the target.

    Any text survives encoding and decoding, byte for byte; a literal `</s>` in a text stays text. Everything the
    tokenizer does is written into tokenizer.json and tokenizer_config.json, so that a reader without this package
    gets the same ids from `AutoTokenizer`.

    Deviation: byte-level BPE instead of the paper's byte-pair encoding of pre-tokenised text: it is lossless and
    needs no language-specific tokeniser.

    Args:
        vocab: Token -> id. None makes an untrained tokenizer for `train_new_from_iterator`.
        merges: The byte-pair merges, in order.
        bos_token: First decoder input; never part of an encoded text.
        eos_token: Ends every encoded text.
        pad_token: Fills batches.

    Example:
        >>> tokenizer = VaswaniTransformerTokenizer().train_new_from_iterator(["a dream", "ein Traum"], vocab_size=300)
        >>> batch = tokenizer(["a dream"], text_target=["ein Traum"])

    Paper: section 5.1.
    """

    vocab_files_names: ClassVar[dict[str, str]] = {"tokenizer_file": "tokenizer.json"}
    model_input_names: ClassVar[list[str]] = ["input_ids", "attention_mask"]
    model = BPE

    def __init__(
        self,
        vocab: dict[str, int] | None = None,
        merges: list[tuple[str, str]] | None = None,
        *,
        bos_token: str = "<s>",
        eos_token: str = "</s>",
        pad_token: str = "<pad>",
        split_special_tokens: bool = True,
        **kwargs: Any,
    ) -> None:
        if vocab is None:
            vocab = {str(token): index for index, token in enumerate((pad_token, bos_token, eos_token))}
        self._tokenizer = Tokenizer(BPE(vocab=vocab, merges=merges or []))
        self._tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._tokenizer.decoder = decoders.ByteLevel()
        super().__init__(
            bos_token=bos_token,
            eos_token=eos_token,
            pad_token=pad_token,
            split_special_tokens=split_special_tokens,
            **kwargs,
        )
        eos = str(self.eos_token)
        self._tokenizer.post_processor = processors.TemplateProcessing(
            single=f"$A {eos}", pair=f"$A {eos} $B {eos}", special_tokens=[(eos, self.eos_token_id)]
        )

    def train_new_from_iterator(
        self, text_iterator: Iterable[str | list[str]], vocab_size: int, **kwargs: Any
    ) -> "VaswaniTransformerTokenizer":
        """Trains a vocabulary on source and target sentences together.

        Args:
            text_iterator: Sentences, or lists of sentences, of both languages.
            vocab_size: Entries of the vocabulary, special tokens and the 256 bytes included.
            **kwargs: As in the library's method of this name.

        Raises:
            ValueError: `vocab_size` is below the byte alphabet and the special tokens.
        """
        smallest = len(pre_tokenizers.ByteLevel.alphabet()) + len(self.all_special_tokens)
        if vocab_size < smallest:
            raise ValueError(
                f"`vocab_size` must be at least {smallest} (256 bytes and {len(self.all_special_tokens)} special "
                f"tokens), got {vocab_size}. Choose a larger vocabulary; the paper's has about 37,000 entries."
            )
        return super().train_new_from_iterator(text_iterator, vocab_size, **kwargs)


__all__ = ["VaswaniTransformerTokenizer"]
