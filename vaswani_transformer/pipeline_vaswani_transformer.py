# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""`pipeline("translation")`, and the steps of a translation that all engines share.

The shared steps split texts into sentences, translate the sentences in batches of similar length,
and put the translations back in order.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import torch
from transformers import AutoModelForSeq2SeqLM, Pipeline, pipelines
from transformers.utils import logging

from .cpu_kernels_vaswani_transformer import is_int8
from .generation_vaswani_transformer import without_cudnn_attention

logger = logging.get_logger(__name__)

Row = TypeVar("Row")
Result = TypeVar("Result")

# Maximum number of bytes in UTF-8 of a sentence, or of a text that is not split. Longer ones raise
# an error, because the time to translate them grows with the square of their length.
MAX_TEXT_BYTES = 2**16

# Number of texts in a pool. All sentences of a pool are sorted together, by length.
_POOL = 4096
_TOKENS_PER_BATCH = 4096  # maximum of padded source tokens
_SENTENCES_PER_BATCH = 128  # maximum on a CPU

# The effects of these options of `generate` may depend on the batch. If one of the options is
# given, each batch has one sentence.
_UNBATCHED = {"logits_processor", "prefix_allowed_tokens_fn", "stopping_criteria", "streamer"}

# Marks at the beginning of a word, in byte-level and in SentencePiece vocabularies.
_SPACES = ("\u0120", "\u2581")
_PAIR_TASK = re.compile(r"translation_([\w-]+)_to_([\w-]+)")

# White space and an optional list mark at the beginning of a line: "- ", "12) ", "(a) ".
_BULLET = re.compile(r"\s*(?:(?:[-*+\u2022\u2023\u2013]|\(?(?:\d{1,3}|[a-zA-Z])\))\s+)?")
# A number at the beginning of a line: "2. ". `split_text` decides whether it is a list mark.
_NUMBER = re.compile(r"\s*(\d{1,3})\.\s+")

# Marks that end a sentence if white space follows, and marks that always end one.
_ENDS = ".!?\u2026\u061f\u06d4\u0964\u0965\u0589\u1362\u104b\u17d4\uff0e"
_WIDE_ENDS = "\u3002\uff01\uff1f\uff61"
# Closing marks may come between the end of a sentence and white space. Opening marks may come
# between white space and the beginning of a sentence.
_CLOSING = "\"'\u2018-\u201f\u2039\u203a«»)\\]\u3009\u300b\u300d\u300f\u3011\uff09\uff3d\uff63"
_OPENING = "\"'\u2018-\u201f\u2039\u203a«»¡¿(\\[\u3008\u300a\u300c\u300e\u3010\uff08\uff3b\uff62"
# Possible boundaries between sentences. `_sentences` decides which of them are real.
_BETWEEN = re.compile(
    rf"""
    # White space, with closing marks before it and opening marks after it: '"Stop!" "Why?"'.
    # The group is the first letter or digit of the next sentence. A date such as "2024. 3. 15." is
    # one sentence.
    (?<=[{_ENDS}{_WIDE_ENDS}]) (?!(?<=\d\.)\s+\d) [{_CLOSING}]* \s+ (?=[{_OPENING}]*([^\W_]))
    # Directly after a Chinese or Japanese end mark, which needs no white space after it.
    | (?<=[{_WIDE_ENDS}]) (?=[^\s{_CLOSING}{_ENDS}{_WIDE_ENDS}])
    """,
    re.VERBOSE,
)
# `_AFTER_CUT` is trimmed from the start of a piece that follows a separator, and `_BEFORE_CUT` from
# the end of a piece that precedes one. `_BEFORE_CUT` is matched against the reversed piece.
# A quotation mark between white space and a letter is not trimmed, because it opens a quotation.
_AFTER_CUT = re.compile(
    rf"(?:[\s,;:=>\u3001\u060c\uff0c\uff1b\uff1a]|(?<!\s)[{_CLOSING}]|[{_CLOSING}](?!\w))*"
)
_BEFORE_CUT = re.compile(rf"[\s:=<\uff1a{_OPENING}]*")
_ABBREVIATIONS = """
Dr Mr Mrs Ms Prof Rev Gen Sen Gov Capt Lt Col Sgt Jr Sr St Mt Inc Ltd Corp Co Fig No Vol vs etc cf
approx Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Okt Dez Mär Hr Hrn Frl Nr Str Tel Abb Abs Bd
bzw usw ca vgl evtl ggf inkl exkl zzgl Mio Mrd Jh geb gest Mme Mlle MM env janv févr avr juill déc
Sra Srta Dra núm pág aprox Sig Dott dhr mevr bijv např np tzw godz ul г гг тыс млн млрд руб ул EE
al nr prof dr sr sra Vgl Tsd проф стр TP PGS Rs Jl डॉ ดร
""".split()
# Matches if the full stop at the end of a text does not end a sentence.
_NO_END = re.compile(
    rf"""
    (?<![^\s.{_OPENING}\u2013\u2014-])  # the beginning of a word
    (?:
        # A single letter: "J. S." or "d'A. Dumas", but not in "don't." or "CAN'T." A Korean
        # syllable may be a word.
        (?<!\w['\u2019]) [^\W\d\uac00-\ud7a3] | (?<![A-Z]['\u2019]) [A-Z\u00c0-\u00de]
        # A number of one or two digits: "am 3." but not "1.50.", "3–2." or "'89."
        | (?<![.,$'\u2019\u2013\u2014])\d{{1,2}}
        | {"|".join(_ABBREVIATIONS)}  # "Dr."
    )
    \.$
    """,
    re.VERBOSE,
)

# Separators of sentences.
_SIGNS = re.compile(
    r"""
    ((?:
        [0-9#*]\ufe0f?\u20e3  # a keycap
        # ① is part of a word if it follows a letter or digit; ⌘, □, △, ○, ◯, ♭, ♮ and ♯ if they
        # touch one. Also □, △, ○ and ◯ that touch each other are.
        | (?!
            (?<=\w)[\u2460-\u24ff]
            | (?<=[\w\u25a1\u25b3\u25cb\u25ef])[\u2318\u25a1\u25b3\u25cb\u25ef\u266d-\u266f]
            | [\u2318\u25a1\u25b3\u25cb\u25ef\u266d-\u266f](?=[\w\u25a1\u25b3\u25cb\u25ef])
        )
        # Emojis, other symbols, control characters and broken characters.
        [\0-\b\x0e-\x1b\x7f-\x84\x86-\x9f\u2139\u2190-\u21ff\u2300-\u2bff\ud800-\udfff\ufe0e\ufe0f\ufffd\u20e3\U0001f000-\U0001faff\U000e0020-\U000e007f]
    )+)
    """,
    re.VERBOSE,
)

# Scripts without spaces between words: Thai, Lao, Tibetan, Burmese, Khmer, then Chinese, Japanese,
# their punctuation, and others.
_UNSPACED = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u3000-\u312f\u3190-\ua95f\ua980-\uabff\uf900-\ufaff\uff00-\uff9f\uffe0-\uffef\U00020000-\U0003ffff]"
)
# Languages whose letters Python converts wrongly between upper and lower case: Turkish,
# Azerbaijani, Crimean Tatar, Gagauz, Karakalpak, Georgian and Cherokee.
_OWN_CASE = re.compile("(?i)(?<![a-z])(tr|tur|az|aze|azb|azj|crh|gag|kaa|ka|kat|geo|chr)(?![a-z])")
# Korean has spaces between words, but its particles directly follow a name or a URL.
_KOREAN = re.compile("[\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff\uffa0-\uffdf]")

# Parts that must not be translated. Addresses may contain letters of scripts with spaces between
# words, but no Chinese characters, since these may follow an address without a space.
_LETTERS = r"\w\u00c0-\u024f\u0370-\u052f\u0531-\u0587\u05d0-\u05ea\u0620-\u06d3\u06d5-\u0963\u0966-\u0dff\u10a0-\u10ff\u1200-\u135f\u1e00-\u1fff"  # noqa: E501
_URL = rf"[{_LETTERS}.~:/?\#@!$&*+,;=%{{}}-]"
_KEPT = re.compile(
    rf"""
    # A URL, without the full stop after it: "https://example.org/a_(b)?c=d", "www.example.org".
    \b(?i:https?://|ftp://|www\.)
    (?:{_URL}|\({_URL}*\))*
    (?:[{_LETTERS}/~\#&=%+}}-]|\({_URL}*\))

    # An e-mail address: "jane.doe@example.org".
    | [{_LETTERS}][{_LETTERS}.%+-]{{0,63}}@(?:[{_LETTERS}-]{{1,63}}\.)+[{_LETTERS}]{{2,24}}

    # A placeholder of Jinja or Mustache: "{{{{ name }}}}".
    | \{{\{{[^{{}}]{{1,100}}\}}\}}

    # A placeholder in braces: "{{name}}", "{{}}", "{{price:.2f}}", "{{x!r}}", "${{name}}",
    # "%{{name}}".
    | [$\#%]?\{{(?:\w[\w.-]*)?(?:![rsa])?(?::[^{{}}\s]*)?\}}

    # A placeholder of printf: "%s", "%1$s", "%(x)s", "%.2f". But not after a digit: "50%d".
    | (?<![\d%])%
    (?:\d+\$|\(\w+\))?[-+\#0,]?\d*(?:\.\d+)?(?:hh?|ll?|z)?
    [sdifuxXeEgGc@](?![A-Za-z])

    # The same with a unit: "%dms", "%.1fMiB". But not after a number and a space: "50 %der".
    | (?<![\w%])(?<!\d[\ \u00a0\u2009\u202f-])%
    (?:\d+\$|\(\w+\))?(?:\.\d+)?(?:ll?)?
    [dfu][A-Za-z]{{1,3}}(?![A-Za-z])

    # A placeholder of a template: "<%= name %>".
    | <%[=-]?[^<>%]{{1,100}}%>

    # An end tag: "</b>".
    | </[A-Za-z][\w.:-]*\s*>

    # A start tag, with or without attributes: "<b>", "<a href='x'>", "<br/>".
    | <[A-Za-z][\w.:-]*
    (?:\s+[\w.:-]+\s*=\s*(?:"[^"<]*"|'[^'<]*'|[^\s"'<>=]+))*
    \s*/?>

    # An entity: "&amp;", "&#39;", "&#x27;".
    | &(?:\w{{2,32}}|\#\d{{1,7}}|\#[xX][\dA-Fa-f]{{1,6}});
    """,
    re.ASCII | re.VERBOSE,
)


def split_text(text: str) -> list[str]:
    """Split a text into sentences.

    Every line break ends a sentence. Within a line, a full stop, exclamation mark, question mark or
    ellipsis ends a sentence if it is followed by white space and then by a digit or a letter that
    is not lowercase. Quotation marks and brackets may surround the white space. But a full stop
    after a number of one or two digits, a single letter or a common abbreviation does not end a
    sentence, nor does one between two numbers. The marks `。！？｡` need no white space after them,
    but end no sentence before a closing mark. Nothing inside a URL, a placeholder or a tag ends a
    sentence.

    A list mark at the beginning of a line belongs to no sentence. "2." is a list mark if another
    line begins with "1." or "3."

    Returns:
        An odd number of parts: sentences at odd indices, the text between them at even indices.
        Joining the parts gives back the text.

    Example:
        >>> split_text("- Hi. Bye.")
        ['- ', 'Hi.', ' ', 'Bye.', '']
    """
    lines = text.splitlines(keepends=True)
    numbers = {int(found[1]) for found in map(_NUMBER.match, lines) if found}
    parts = [""]
    for line in lines:
        mark: Any = _BULLET.match(line)
        number = _NUMBER.match(line)
        if number:
            neighbors = {int(number[1]) - 1, int(number[1]) + 1}
            if neighbors & numbers:
                mark = number
        parts[-1] += mark[0]
        for sentence in _sentences(line[mark.end() :]):
            found = _SIGNS.split(sentence)
            _add_pieces(parts, found[::2], found[1::2])
    return parts


def _add_pieces(parts: list[str], pieces: list[str], separators: list[str]) -> None:
    """Append pieces and separators to the parts; each piece that contains a letter is a sentence.

    White space is stripped from both ends of a sentence. If a separator precedes the sentence,
    commas, semicolons, colons, `=`, `>`, closing brackets and closing quotation marks are stripped
    from its start, too. If a separator follows the sentence, colons, `=`, `<`, opening brackets and
    opening quotation marks are stripped from its end, too. The stripped characters, the separators
    and the pieces without letters become part of the text between the sentences.

    Args:
        parts: Parts as `split_text` returns them. They are extended in place.
        pieces: Pieces of a text.
        separators: The text between the pieces, one fewer than the pieces.
    """
    for index, piece in enumerate(pieces):
        start = len(piece) - len(piece.lstrip())
        end = len(piece.rstrip())
        if index > 0:
            start = _AFTER_CUT.match(piece).end()  # type: ignore[union-attr]
        if index < len(separators):
            end = len(piece) - _BEFORE_CUT.match(piece[::-1]).end()  # type: ignore[union-attr]
        if _has_letter(piece):
            parts[-1] += piece[:start]
            parts += [piece[start:end], piece[end:]]
        else:
            parts[-1] += piece
        if index < len(separators):
            parts[-1] += separators[index]


def whole_text(text: str) -> list[str]:
    """Return three parts as `split_text` does, with the whole stripped text as one sentence.

    The other two parts are the white space around the sentence. In a blank text, the sentence is
    empty.
    """
    stripped = text.strip()
    start = len(text) - len(text.lstrip())
    return [text[:start], stripped, text[start + len(stripped) :]]


def put_together(parts: list[str], translations: Iterable[str]) -> str:
    """Join the parts of `split_text`, with each sentence replaced by its translation.

    If a sentence in a script without spaces is translated into a script with spaces, spaces
    separate the translation from the text before and after it, also from a tag.
    """
    text = parts[0]
    for index, translation in enumerate(translations):
        source = parts[2 * index + 1]
        after = parts[2 * index + 2]
        following = "".join(parts[2 * index + 2 : 2 * index + 4])  # includes the next sentence
        if _needs_space(text[-1:], source[:1], translation[:1]):
            text += " "
        text += translation
        if _needs_space(following[:1], source[-1:], translation[-1:]):
            text += " "
        text += after
    return text


def _needs_space(neighbor: str, source: str, translated: str) -> bool:
    """Return True if a space must separate a translation from the character next to it.

    Args:
        neighbor: The character next to the translation; empty if there is none.
        source: First or last character of the source sentence.
        translated: First or last character of the translation.
    """
    if not neighbor or neighbor.isspace() or not translated:
        return False
    if _KOREAN.match(source):
        return not _KOREAN.match(translated) and not _UNSPACED.match(translated)
    return bool(_UNSPACED.match(source)) and not _UNSPACED.match(translated)


def _around_kept(sentence: str, tokens: set[str]) -> tuple[list[str], list[str]]:
    """Split a sentence at the parts that must not be translated; return the pieces and these parts.

    Args:
        sentence: The sentence.
        tokens: Added tokens of the tokenizer. They do not split the sentence, because the model
            gets them as tokens.
    """
    pieces = []
    kept = []
    end = 0
    for found in _KEPT.finditer(sentence):
        if found[0] not in tokens:
            pieces.append(sentence[end : found.start()])
            kept.append(found[0])
            end = found.end()
    return [*pieces, sentence[end:]], kept


def _ordered(kept: list[str]) -> list[str]:
    """Return the kept parts that must not change places: tags, and placeholders such as `%s`."""
    return [part for part in kept if re.match(r"<|\{[}:!]|%(?!\d+\$|[({])", part)]


def _has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))


def _sentences(line: str) -> list[str]:
    """Split a line into sentences. Joining the sentences gives back the line."""
    ends = [0]
    masked = _KEPT.sub(lambda kept: "_" * len(kept[0]), line)
    for found in _BETWEEN.finditer(masked):
        # Compare the first character with its `title()` instead of using `islower`, because
        # `islower` is True for all Georgian letters, also at the beginning of a sentence.
        is_lowercase = found[1] is not None and found[1] != found[1].title()
        # 12 characters are enough for the longest abbreviation and the character before it.
        last_word = line[max(0, found.start() - 12) : found.start()]
        if not is_lowercase and not _NO_END.search(last_word):
            ends.append(found.end())
    ends.append(len(line))
    return [line[start:end] for start, end in itertools.pairwise(ends)]


# ---- texts, their sentences and translations ----


@dataclass(frozen=True)
class Hypothesis:
    """A translation of a sentence.

    Args:
        text: The translation.
        score: `log_prob` divided by GNMT's length penalty, or None if it was not computed. Beam
            search ranks by this score.
        log_prob: Log-probability of the translation, including its `</s>`, given the source; None
            if it was not computed.
        length: Number of tokens of the translation, including its `</s>`; 0 if they were not
            counted.
        words: For each word, a dictionary with the `word` and its `score`, the mean log-probability
            of its tokens.
    """

    text: str
    score: float | None = None
    log_prob: float | None = None
    length: int = 0
    words: list[dict[str, Any]] = field(default_factory=list)

    def mean_log_prob(self) -> float | None:
        """Return the mean log-probability of the tokens.

        Return None if it was not computed, or if the search found no such translation.
        """
        if self.log_prob is None or not self.length:
            return None
        return self.log_prob / self.length


@dataclass
class Sentence:
    """A sentence of a text.

    Args:
        text: The sentence as it is in the text.
        source: Input of the model, empty if there is nothing to translate.
        is_shouted: Whether `source` is in lowercase because the sentence is in capitals.
        kept: Parts that must not be translated, such as URLs.
        parts: At odd indices, the pieces to translate. At even indices, the text around these
            pieces, kept parts included. Joining the parts gives back the sentence.
        found: Translations, best first.
    """

    text: str
    source: str
    is_shouted: bool = False
    kept: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    found: list[Hypothesis] = field(default_factory=list)


@dataclass
class Document:
    """A text and its sentences.

    Args:
        parts: Parts of the text, as `split_text` returns them.
        sentences: A `Sentence` for each part with an odd index.
    """

    parts: list[str]
    sentences: list[Sentence]

    def translation(self, rank: int) -> str:
        """Return the text with each sentence replaced by its translation of this rank.

        Rank 0 is the best translation. A sentence that has no translation of this rank is left out.
        """
        translations = []
        for sentence in self.sentences:
            if rank < len(sentence.found):
                translations.append(sentence.found[rank].text)
            else:
                translations.append("")
        return put_together(self.parts, translations)


class TextReader:
    """Split texts into sentences and prepare them for the model.

    A sentence that has no letter outside of URLs, e-mail addresses, placeholders, tags and entities
    is not translated. A sentence in capitals is passed to the model in lowercase. A text that
    begins with an added token of the tokenizer is passed to the model unchanged, as one sentence.

    Args:
        tokenizer: Tokenizer of the model. Added tokens are passed to the model, except emojis and
            other symbols that separate sentences.
        source_language: Language code of the texts, if it is known.
        target_language: Language code of the translations, if it is known.
        splits: Whether texts are split into sentences. If not, each text is stripped and treated as
            one sentence, and this sentence is passed to the model unchanged.
    """

    def __init__(
        self, tokenizer: Any, source_language: str | None, target_language: str | None, splits: bool
    ) -> None:
        self._splits = splits
        self._can_change_case = not _OWN_CASE.search(f"{source_language} {target_language}")
        self._tokens = set(tokenizer.get_added_vocab())
        if tokenizer.split_special_tokens:
            self._tokens -= set(tokenizer.all_special_tokens)
        self._beginnings = tuple(self._tokens)

    def read(self, text: str) -> Document:
        """Split a text into sentences, and prepare the input of the model for each sentence.

        Raises:
            TypeError: The input is not a text.
        """
        if not isinstance(text, str):
            raise TypeError(
                f"Every input must be a text (str), got {type(text).__name__}. Pass one, or a list "
                "of them."
            )
        if not self._splits or text.lstrip().startswith(self._beginnings):
            parts = whole_text(text)
        else:
            parts = split_text(text)
        return Document(parts, [self._sentence(each) for each in parts[1::2]])

    def has_kept(self, sentence: Sentence, translation: str) -> bool:
        """Return True if a translation has each kept part as often as its sentence.

        Tags, and placeholders without a name or number, must also be in the same order.
        """
        kept = sentence.kept
        if not kept:
            return True
        found = _around_kept(translation, self._tokens)[1]
        return sorted(found) == sorted(kept) and _ordered(found) == _ordered(kept)

    def _sentence(self, text: str) -> Sentence:
        if not self._splits or text.startswith(self._beginnings):
            return Sentence(text, source=text)
        pieces, kept = _around_kept(text, self._tokens)
        plain = "".join(pieces)
        if not _has_letter(plain):
            return Sentence(text, source="")
        parts = [""]
        _add_pieces(parts, pieces, kept)
        num_words = sum(map(_has_letter, plain.split()))
        is_in_capitals = num_words > 1 and all(map(str.isupper, filter(str.isalpha, plain)))
        is_reversible = plain.lower().upper() == plain
        is_shouted = self._can_change_case and is_in_capitals and is_reversible
        return Sentence(text, _to_source(text, is_shouted), is_shouted, kept, parts)


def _to_source(text: str, is_shouted: bool) -> str:
    """Return a text as the model gets it: in lowercase but for the first character if shouted."""
    if is_shouted:
        return text.capitalize()
    return text


# ---- many texts, translated in batches of similar length ----


@dataclass(frozen=True)
class Batching:
    """Sizes of batches and pools.

    The sizes change speed and memory, not the translations. Only in int8, a few translations may
    change, too.

    Args:
        max_tokens: Maximum of padded source tokens per batch (number of sentences x longest
            sentence). None means no maximum.
        max_sentences: Maximum of sentences per batch. None means no maximum. With 1, sentences are
            not sorted by length.
        pool_size: Number of texts that are read at once. All their sentences are sorted together.
    """

    max_tokens: int | None = _TOKENS_PER_BATCH
    max_sentences: int | None = None
    pool_size: int = _POOL

    def __post_init__(self) -> None:
        """Raise ValueError for a size below 1, under the name that callers of the package use."""
        for name, size in (
            ("max_tokens_per_batch", self.max_tokens),
            ("batch_size", self.max_sentences),
            ("batch_size", self.pool_size),
        ):
            if size is not None and size < 1:
                raise ValueError(f"`{name}` must be at least 1, got {size}. Pass a larger number.")


def translate_texts(
    texts: Iterable[str], reader: TextReader, engine: Any, batching: Batching, bar: Any = None
) -> Iterator[Document]:
    """Translate texts and yield them in order, with the translations of their sentences.

    Parts of a sentence that must not be translated, such as URLs, are called kept parts. If a
    translation loses, repeats or reorders kept parts (see `TextReader.has_kept`), the pieces around
    them are translated instead of the whole sentence. If `reader` does not split texts, as for a
    file of sentences, there are no kept parts, so whole sentences are always translated.

    Args:
        texts: Texts to translate. They are read one pool at a time, so the stream may be endless.
        reader: Splits the texts into sentences.
        engine: Computes the translations, such as `TorchEngine`. `encode(texts)` returns the token
            ids of each text. `compute(batches)` yields, for each batch of token ids, a list with
            the hypotheses of each row. `num_best` is the number of hypotheses per row.
        batching: Sizes of batches and pools.
        bar: Progress bar that counts sentences.
    """
    rest = iter(texts)
    while True:
        documents = [reader.read(text) for text in itertools.islice(rest, batching.pool_size)]
        if not documents:
            return
        sentences: list[Sentence] = []
        for document in documents:
            sentences += document.sentences
        _set_translations(sentences, engine, batching, bar)
        incomplete = []
        for sentence in sentences:
            if not all(reader.has_kept(sentence, each.text) for each in sentence.found):
                incomplete.append(sentence)
        _translate_in_pieces(incomplete, reader, engine, batching)
        yield from documents


def _translate_in_pieces(
    sentences: list[Sentence], reader: TextReader, engine: Any, batching: Batching
) -> None:
    """Replace each translation for which `TextReader.has_kept` is False.

    The new translation joins the kept parts and the translations of the pieces around them.
    """
    pieces = []
    for sentence in sentences:
        is_shouted = sentence.is_shouted
        for text in sentence.parts[1::2]:
            pieces.append(Sentence(text, _to_source(text, is_shouted), is_shouted))
    _set_translations(pieces, engine, batching)
    rest = iter(pieces)
    for sentence in sentences:
        own_pieces = itertools.islice(rest, len(sentence.parts) // 2)
        translations = [_translation_of_piece(piece) for piece in own_pieces]
        joined = Hypothesis(put_together(sentence.parts, translations))
        found = []
        for hypothesis in sentence.found:
            is_complete = reader.has_kept(sentence, hypothesis.text)
            found.append(hypothesis if is_complete else joined)
        sentence.found = found


def _set_translations(
    sentences: list[Sentence], engine: Any, batching: Batching, bar: Any = None
) -> None:
    """Set the translations of each sentence. `bar` is a progress bar that counts sentences."""
    to_translate = []
    for sentence in sentences:
        if sentence.source:
            to_translate.append(sentence)
        else:
            sentence.found = [Hypothesis(sentence.text)] * engine.num_best
    if bar is not None:
        bar.update(len(sentences) - len(to_translate))
    if not to_translate:
        return
    rows = engine.encode([sentence.source for sentence in to_translate])
    results = compute_in_order(rows, [len(row) for row in rows], engine.compute, batching, bar)
    for sentence, found in zip(to_translate, results, strict=True):
        if sentence.is_shouted:
            # The scores are those of the lowercase translation, so drop them.
            found = [Hypothesis(each.text.upper()) for each in found]
        sentence.found = found


def _translation_of_piece(piece: Sentence) -> str:
    """Return the best translation of a piece of a sentence.

    If the piece does not end with a full stop or another end mark, a final full stop of the
    translation is dropped.
    """
    text = piece.found[0].text
    if piece.text[-1] in _ENDS + _WIDE_ENDS:
        return text
    last = text[-1:]
    has_one_stop = last in ".\u3002\u0964\u06d4\u0589\u1362\u104b\u17d4" and text[-2:-1] != last
    if has_one_stop and not _NO_END.search(text[-12:]):
        return text[:-1]
    return text


def compute_in_order(
    rows: Sequence[Row],
    lengths: Sequence[int],
    compute: Callable[[list[list[Row]]], Iterable[list[Result]]],
    batching: Batching,
    bar: Any = None,
) -> list[Result]:
    """Compute rows in batches of similar length, and return the results in the order of the rows.

    Args:
        rows: Inputs of `compute`.
        lengths: Number of tokens of each row.
        compute: Takes batches of rows and yields, for each batch, a result for each row.
        batching: Sizes of batches.
        bar: Progress bar that counts rows.
    """
    results: list[Any] = [None] * len(rows)
    batches = list(length_batches(lengths, batching))
    computed = compute([[rows[index] for index in batch] for batch in batches])
    for batch, found in zip(batches, computed, strict=True):
        for index, result in zip(batch, found, strict=True):
            results[index] = result
        if bar is not None:
            bar.update(len(batch))
    return results


def length_batches(lengths: Sequence[int], batching: Batching) -> Iterator[list[int]]:
    """Yield the row indices of each batch, longest rows first.

    A row of more than `max_tokens` tokens is a batch of its own. With `max_sentences` of 1, the
    rows are not sorted.
    """
    order = list(range(len(lengths)))
    if batching.max_sentences != 1:
        order.sort(key=lambda index: -lengths[index])
    while order:
        size = batching.max_sentences or len(order)
        if batching.max_tokens is not None:
            size = min(size, max(1, batching.max_tokens // lengths[order[0]]))
        yield order[:size]
        order = order[size:]


# ---- translation by a model of transformers ----


class TorchEngine:
    """Translates batches of token ids by a model's `generate`.

    Args:
        model: Any encoder-decoder model, in eval mode.
        tokenizer: Tokenizer that was saved with the model.
        options: Arguments of `generate`, without those that change the type of its result.
        return_scores: Whether to compute log-probability, length and words of each hypothesis.
        target_prefix: Text that every translation begins with. White space at its end is dropped.
        languages: `src_lang` and `tgt_lang`, for tokenizers that need them.
        source_prefix: Text that is put before each source, for models such as T5.
    """

    max_tokens = _TOKENS_PER_BATCH

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        options: dict[str, Any],
        return_scores: bool = False,
        target_prefix: str | None = None,
        languages: dict[str, Any] | None = None,
        source_prefix: str = "",
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.options = dict(options)
        self.return_scores = return_scores
        self._source_prefix = source_prefix
        config = self.options.get("generation_config") or model.generation_config
        num_best = self.options.get("num_return_sequences") or config.num_return_sequences
        self.num_best: int = num_best or model.generation_config.num_return_sequences or 1
        self._prompt: list[int] | None = None
        if target_prefix is not None:
            prefix = prefix_ids(tokenizer, target_prefix)
            self._prompt = [model.config.decoder_start_token_id, *prefix]
        self._encode_one: Callable[[str], Any] | None = None
        build = getattr(tokenizer, "_build_translation_inputs", None)
        if build is not None:
            self._encode_one = partial(build, return_tensors=None, **(languages or {}))
            built = self._encode_one("")
            if "forced_bos_token_id" in built:
                self.options["forced_bos_token_id"] = built["forced_bos_token_id"]

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Return the token ids of each text, without truncation.

        Raises:
            ValueError: A text has more than 65,536 bytes, or more tokens than the model has
                positions.
        """
        texts = [self._source_prefix + text for text in texts]
        if self._encode_one is None:
            rows: list[list[int]] = tokenize(self.tokenizer, texts)["input_ids"]
        else:
            check_sizes(texts)
            rows = [self._encode_one(text)["input_ids"] for text in texts]
        table = getattr(self.model.get_encoder(), "embed_positions", None)
        # Positions that are computed have no limit. FSMT computes its table again if it is too
        # small.
        if isinstance(table, torch.nn.Embedding) and not hasattr(table, "make_weight"):
            check_positions(texts, rows, table.num_embeddings - getattr(table, "offset", 0))
        longest = getattr(self.model.generation_config, "longest_training_source", None)
        warn_of_long_texts(rows, longest)
        return rows

    def compute(self, batches: list[list[list[int]]]) -> Iterable[list[list[Hypothesis]]]:
        """Yield, for each batch, the hypotheses of each row, best first."""
        return map(self.translate_batch, batches)

    @torch.no_grad()
    def translate_batch(self, rows: list[list[int]]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each row of token ids, best first."""
        model: Any = self.model
        input_ids, attention_mask = padded(rows, self.tokenizer.pad_token_id, model.device)
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if self._prompt is not None:
            prompts = [self._prompt] * len(rows)
            inputs["decoder_input_ids"] = torch.tensor(prompts, device=model.device)
        with without_cudnn_attention(model.device):
            sequences = model.generate(**inputs, **self.options)
        texts = self.tokenizer.batch_decode(sequences, skip_special_tokens=True)
        if self.return_scores:
            log_probs = token_log_probs(model, input_ids, attention_mask, sequences)
            hypotheses = self._scored(texts, sequences[:, 1:].tolist(), log_probs.tolist())
        else:
            hypotheses = [Hypothesis(text) for text in texts]
        num_each = len(hypotheses) // len(rows)
        starts = range(0, len(hypotheses), num_each)
        return [hypotheses[start : start + num_each] for start in starts]

    def _scored(
        self, texts: list[str], sequences: list[list[int]], log_probs: list[list[float]]
    ) -> list[Hypothesis]:
        """Return the hypotheses with log-probability, length and words.

        Args:
            texts: Text of each hypothesis.
            sequences: Token ids of each hypothesis, with padding, but without the first token.
            log_probs: Log-probability of each token in `sequences`.
        """
        scored = []
        for text, tokens, each in zip(texts, sequences, log_probs, strict=True):
            length = output_length(tokens, self.tokenizer.eos_token_id, self.tokenizer.pad_token_id)
            own_log_probs = each[:length]
            words = word_scores(self.tokenizer, tokens[:length], own_log_probs)
            hypothesis = Hypothesis(text, log_prob=sum(own_log_probs), length=length, words=words)
            scored.append(hypothesis)
        return scored


def prefix_ids(tokenizer: Any, prefix: str) -> list[int]:
    """Return the token ids of a target prefix, without trailing white space and `</s>`."""
    if not isinstance(prefix, str):
        raise TypeError(
            f"`target_prefix` must be one text (str), got {type(prefix).__name__}. Call once for "
            "each."
        )
    ids: list[int] = tokenizer(text_target=prefix.rstrip(), verbose=False)["input_ids"]
    if ids and ids[-1] == tokenizer.eos_token_id:
        return ids[:-1]
    return ids


def check_sizes(texts: list[str]) -> None:
    """Raise ValueError if a text has more than 65,536 bytes, or a lone surrogate.

    A text that is too long may be a whole file without line breaks. It would take far too long to
    translate.
    """
    for text in texts:
        size = len(text.encode())
        if size > MAX_TEXT_BYTES:
            raise ValueError(
                f"A text must have at most {MAX_TEXT_BYTES} bytes, got {size} in {text[:30]!a}... "
                "Split it into sentences."
            )


def tokenize(tokenizer: Any, texts: list[str], **options: Any) -> Any:
    """Tokenize texts without truncation. Errors are those of `check_sizes`."""
    check_sizes(texts)
    return tokenizer(texts, truncation=False, padding=False, verbose=False, **options)


def check_positions(texts: list[str], rows: list[list[int]], num_positions: int) -> None:
    """Raise ValueError if a text has more tokens than the model has positions."""
    for text, row in zip(texts, rows, strict=True):
        if len(row) > num_positions:
            raise ValueError(
                f"A text must have at most {num_positions} tokens, the number of positions of the "
                f"model, got {len(row)} in {text[:30]!a}... Split it into sentences."
            )


def warn_of_long_texts(rows: list[list[int]], longest: int | None) -> None:
    """Warn once if a row has more tokens than the longest training sentence.

    If `longest` is None, there is no warning.
    """
    if longest is not None and any(len(row) > longest for row in rows):
        logger.warning_once(
            f"A text is longer than the longest training sentence ({longest} tokens). Expect a "
            "poor translation."
        )


def padded(
    rows: list[list[int]], pad_token_id: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (B, L) token ids, padded on the right, and their (B, L) attention mask.

    The mask is 1 for tokens and 0 for padding. Both tensors are on `device`.
    """
    longest = max(map(len, rows))
    ids = []
    mask = []
    for row in rows:
        num_padding = longest - len(row)
        ids.append(row + [pad_token_id] * num_padding)
        mask.append([1] * len(row) + [0] * num_padding)
    return torch.tensor(ids).to(device), torch.tensor(mask).to(device)


@torch.no_grad()
def token_log_probs(
    model: Any,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    sequences: torch.Tensor,
    max_tokens: int = 1024,
) -> torch.Tensor:
    """Return the (B * n, T - 1) log-probabilities of each sequence's tokens except the first.

    Args:
        model: Any encoder-decoder model, in eval mode.
        input_ids: (B, S) token ids of the sources.
        attention_mask: (B, S) mask of the sources.
        sequences: (B * n, T) token ids, n sequences for each source.
        max_tokens: Maximum of target tokens per forward pass. This maximum limits the memory of the
            logits. If the sequences are longer than the maximum, each sequence gets its own pass.
    """
    num_each = len(sequences) // len(input_ids)
    input_ids = input_ids.repeat_interleave(num_each, dim=0)
    attention_mask = attention_mask.repeat_interleave(num_each, dim=0)
    num_rows = max(1, max_tokens // max(1, sequences.shape[1] - 1))
    found = []
    for start in range(0, len(sequences), num_rows):
        rows = slice(start, start + num_rows)
        with without_cudnn_attention(sequences.device):
            logits = model(
                input_ids=input_ids[rows],
                attention_mask=attention_mask[rows],
                decoder_input_ids=sequences[rows, :-1],
                use_cache=False,
            ).logits
        precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
        chosen = sequences[rows, 1:].unsqueeze(-1).to(precise.device)
        found.append(precise.log_softmax(dim=-1).gather(-1, chosen).squeeze(-1))
    return torch.cat(found)


def output_length(tokens: list[int], eos_token_id: int, pad_token_id: int) -> int:
    """Return the number of tokens of a hypothesis, `</s>` included.

    If there is no `</s>`, all tokens count except for the padding at the end.
    """
    if eos_token_id in tokens:
        return tokens.index(eos_token_id) + 1
    length = len(tokens)
    while length > 0 and tokens[length - 1] == pad_token_id:
        length -= 1
    return length


def word_scores(tokenizer: Any, tokens: list[int], log_probs: list[float]) -> list[dict[str, Any]]:
    """Return each word of a translation with the mean log-probability of its tokens.

    Special tokens are left out.
    """
    words: list[tuple[list[str], list[float]]] = []
    special = set(tokenizer.all_special_ids)
    for token, log_prob in zip(tokens, log_probs, strict=False):
        text = tokenizer.convert_ids_to_tokens(token)
        if token in special or text is None:  # The model may have more ids than the tokenizer.
            continue
        if not words or text.startswith(_SPACES):
            words.append(([], []))
        words[-1][0].append(text)
        words[-1][1].append(log_prob)
    to_text = tokenizer.convert_tokens_to_string
    results = []
    for parts, scores in words:
        results.append({"word": to_text(parts).strip(), "score": sum(scores) / len(scores)})
    return results


# ---- the pipeline ----


class VaswaniTransformerTranslationPipeline(Pipeline):
    """Translates texts with any encoder-decoder model.

    Models of this package use the paper's decoding. A text gives a list of
    `{"translation_text": ...}`, one dictionary per returned sequence. A list of texts gives a list
    with one dictionary per text, or, if several sequences are returned, with one list of
    dictionaries per text. A generator or a data set gives an iterable over lists of dictionaries.
    Results keep the order of the inputs. A blank text is returned as it is. Nothing is truncated: a
    text longer than any training sentence is translated whole, with one warning.

    Sentences are sorted by length. A batch has up to 4,096 padded tokens (on a CPU also at most 128
    sentences), or `batch_size` sentences. Texts of a generator are translated one at a time. With
    `batch_size`, the texts of 16 batches are read ahead. Sentences are translated one at a time if
    the call has a streamer, logits processors, stopping criteria or `prefix_allowed_tokens_fn`, or
    if the model is of another package and `batch_size` is not given.

    A text of several sentences or lines is translated sentence by sentence (see `split_text`). Its
    blank lines and list marks stay. With `split_sentences=False`, at construction or in the call,
    each text is translated as one sentence. False is the default for models of other packages,
    because their texts may begin with a prefix that belongs to all sentences. A text that begins
    with an added token of the tokenizer, such as `<2de>`, is not split either. White space around a
    text is not passed to the model, and is restored around the translation. `target_prefix` is a
    text that every translation begins with. If `target_prefix` is given, each text is translated as
    one sentence.

    With `return_scores=True`, each dictionary also has a `score`, the mean log-probability of the
    tokens, and `words`, a list of dictionaries with a `word` and its `score`. For a text of several
    sentences, `score` is the mean over the sentences, and `sentences` has a dictionary for each
    sentence. A sentence has no words and the score None if it is in capitals, has no letters, is
    translated in pieces around URLs and the like, or has fewer translations than
    `num_return_sequences`. Such sentences are left out of the mean.

    Arguments of `generate` (`num_beams`, `max_new_tokens`, ...) can be given at construction or in
    the call. `src_lang` and `tgt_lang`, which some models of other architectures need, can be given
    at construction or in the call, too.

    Raises:
        ValueError: The model does not translate the requested languages, its checkpoint has missing
            or unexpected tensors, the tokenizer is larger than the model's vocabulary, or a
            sentence has more than 65,536 bytes or more tokens than the model has positions.
        TypeError: An input is not a text.

    Example:
        >>> import vaswani_transformer
        >>> from transformers import pipeline
        >>> translate = pipeline("translation", model="path/to/checkpoint")
        >>> translate("A dog runs.")
        [{'translation_text': 'Ein Hund rennt.'}]
    """

    _load_tokenizer: Any = True
    _load_processor: Any = False
    _load_image_processor: Any = False
    _load_feature_extractor: Any = False
    _load_video_processor: Any = False
    _pipeline_calls_generate = True

    model: Any  # of any architecture
    tokenizer: Any

    def __init__(self, *args: Any, split_sentences: bool | None = None, **kwargs: Any) -> None:
        if is_int8(kwargs.get("model")):
            kwargs.setdefault("device", "cpu")  # the int8 kernels run on CPUs only
        super().__init__(*args, **kwargs)
        self._is_ours = hasattr(self.model, "check_loaded_weights")
        if split_sentences is None:
            split_sentences = self._is_ours
        self._splits_sentences = split_sentences
        if self._is_ours:
            self.model.check_loaded_weights()
            self.model.check_tokenizer(self.tokenizer)

    def _sanitize_parameters(
        self, src_lang: str | None = None, tgt_lang: str | None = None, **options: Any
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Divide the arguments of a call into the three groups that `Pipeline` requires.

        Returns:
            The arguments of `preprocess` (the languages), of `_forward` (options of `TorchEngine`
            and `generate`) and of `postprocess` (none).

        Raises:
            ValueError: The model does not translate these languages.
        """
        given = getattr(self, "_preprocess_params", {})  # absent during construction
        src_lang = src_lang or given.get("src_lang")
        tgt_lang = tgt_lang or given.get("tgt_lang")
        pair_task = _PAIR_TASK.fullmatch(self.task or "")
        if pair_task:
            src_lang = src_lang or pair_task[1]
            tgt_lang = tgt_lang or pair_task[2]
        languages = {"src_lang": src_lang, "tgt_lang": tgt_lang}
        pair = getattr(self.model.config, "language_pair", None)
        if pair:
            source, target = pair
            if (src_lang or source) != source or (tgt_lang or target) != target:
                raise ValueError(
                    f"The languages must be {source} and {target}, which the model translates, got "
                    f"{languages}. Load a model of your pair, or call "
                    f'pipeline("translation_{source}_to_{target}", model=...).'
                )
        return {name: value for name, value in languages.items() if value}, options, {}

    def __call__(  # type: ignore[override]
        self,
        inputs: Any,
        *,
        split_sentences: bool | None = None,
        batch_size: int | None = None,
        num_workers: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Translate a text, a list of texts, a generator or a data set of texts; see the class.

        Args:
            inputs: Texts to translate.
            split_sentences: Whether texts are translated sentence by sentence. None means the
                choice that was made at construction.
            batch_size: Sentences per batch.
            num_workers: Ignored.
            **kwargs: Other arguments. They replace the arguments that were given at construction.
        """
        languages, options, _ = self._sanitize_parameters(**kwargs)
        options = {**self._forward_params, **options}
        return_scores = options.pop("return_scores", False)
        prefix = options.pop("target_prefix", None)
        options = self._prepare_generate_kwargs(options, return_dict_in_generate=False)
        engine = TorchEngine(self.model, self.tokenizer, options, return_scores, prefix, languages)
        if split_sentences is None:
            split_sentences = self._splits_sentences and prefix is None
        config = self.model.config
        source_language = languages.get("src_lang") or getattr(config, "source_language", None)
        target_language = languages.get("tgt_lang") or getattr(config, "target_language", None)
        reader = TextReader(self.tokenizer, source_language, target_language, split_sentences)
        if batch_size is None:
            batch_size = self._batch_size
        batching = self._batching(isinstance(inputs, Sized), batch_size, engine.options)

        def find(texts: Iterable[str]) -> Iterator[list[dict[str, Any]]]:
            for document in translate_texts(texts, reader, engine, batching):
                yield [_result(document, rank, return_scores) for rank in range(engine.num_best)]

        return results_like(inputs, find)

    def _batching(
        self, is_sized: bool, batch_size: int | None, options: dict[str, Any]
    ) -> Batching:
        """Return the sizes of batches and pools for a call."""
        if _UNBATCHED & options.keys() or (batch_size is None and not self._is_ours):
            return Batching(max_sentences=1, pool_size=1)
        if batch_size is not None:
            return Batching(None, batch_size, min(_POOL, 16 * batch_size))
        max_sentences = _SENTENCES_PER_BATCH if self.device.type == "cpu" else None
        pool_size = _POOL if is_sized else 1
        return Batching(_TOKENS_PER_BATCH, max_sentences, pool_size)

    # `Pipeline` requires these three methods. They only pass values on, since `__call__` does the
    # work.

    def preprocess(self, text: str) -> str:  # type: ignore[override]
        """Return a text as it is."""
        return text

    def _forward(self, text: str, **options: Any) -> list[dict[str, Any]]:  # type: ignore[override]
        """Translate a text."""
        found: list[dict[str, Any]] = self(text, **options)
        return found

    def postprocess(self, found: list[dict[str, Any]]) -> list[dict[str, Any]]:  # type: ignore[override]
        """Return the translations as they are."""
        return found


def _result(document: Document, rank: int, has_scores: bool) -> dict[str, Any]:
    """Return the pipeline's dictionary for a text, made from one translation of each sentence.

    Use the sentence's best translation if `rank` is 0, and the second best if `rank` is 1.
    """
    result: dict[str, Any] = {"translation_text": document.translation(rank)}
    if not has_scores:
        return result
    scores = []
    words = []
    sentences = []
    for sentence in document.sentences:
        found = sentence.found[rank]
        score = found.mean_log_prob()
        if score is not None:
            scores.append(score)
        words += found.words
        sentences.append({"translation_text": found.text, "score": score, "words": found.words})
    result["score"] = sum(scores) / len(scores) if scores else None
    result["words"] = words
    if len(sentences) > 1:
        result["sentences"] = sentences
    return result


def results_like(inputs: Any, find: Callable[[Iterable[str]], Iterator[list[Any]]]) -> Any:
    """Return results in the form of the inputs, as the pipelines of transformers do.

    Args:
        inputs: A text, a list of texts, a generator or a data set of texts.
        find: Function that takes texts and yields, for each text, the list of its results.

    Returns:
        For a text, the list of its results. For a list of texts, a list with one result per text
        if every text has exactly one result, and otherwise a list with one list of results per
        text. For a generator or a data set, an iterable over one list of results per text.

    Raises:
        TypeError: `inputs` has another type.
    """
    if isinstance(inputs, str):
        return next(find([inputs]))
    if isinstance(inputs, Sequence):
        results = list(find(inputs))
        if all(len(each) == 1 for each in results):
            return [each[0] for each in results]
        return results
    if isinstance(inputs, dict) or not isinstance(inputs, (Iterable, Sized)):
        raise TypeError(
            f"Every input must be a text (str), got {type(inputs).__name__}. Pass one, or a list "
            "of them."
        )
    if isinstance(inputs, Sized):
        return _SizedResults(inputs, find)
    return find(inputs)


class _SizedResults:
    """Results for a data set of known length. Each iteration computes them again."""

    def __init__(self, inputs: Any, find: Callable[[Iterable[str]], Iterator[list[Any]]]) -> None:
        self._inputs = inputs
        self._find = find

    def __len__(self) -> int:
        return len(self._inputs)

    def __iter__(self) -> Iterator[list[Any]]:
        if isinstance(self._inputs, Iterable):
            return self._find(self._inputs)
        return self._find(map(self._inputs.__getitem__, range(len(self))))


def register_translation_pipeline() -> None:
    """Make transformers accept `pipeline("translation")` and `pipeline("translation_xx_to_yy")`.

    transformers 5 removed both tasks, and refuses their names before it reads its registry. So this
    function changes the tables of transformers in the whole process. A second call has no effect.
    """
    pipelines.REMOVED_TASKS.pop("translation", None)
    registry: Any = pipelines.PIPELINE_REGISTRY
    if "translation" not in registry.supported_tasks:
        registry.register_pipeline(
            "translation",
            VaswaniTransformerTranslationPipeline,
            pt_model=AutoModelForSeq2SeqLM,
            type="text",
        )
    if not getattr(registry.check_task, "knows_language_pairs", False):
        registry.check_task = _with_language_pairs(registry.check_task)


def _with_language_pairs(check_task: Callable[[str], Any]) -> Any:
    """Wrap the registry's `check_task`, so that `translation_xx_to_yy` counts as `translation`."""

    def check(task: str) -> Any:
        if _PAIR_TASK.fullmatch(task):
            task = "translation"
        return check_task(task)

    check.knows_language_pairs = True  # type: ignore[attr-defined]
    return check
