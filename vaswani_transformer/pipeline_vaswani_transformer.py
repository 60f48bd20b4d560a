# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""`pipeline("translation")`: text in, text out."""

import functools
import html
import itertools
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from functools import partial
from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM, Pipeline, pipelines
from transformers.utils import logging

from .generation_vaswani_transformer import without_cudnn_attention

logger = logging.get_logger(__name__)

MAX_TEXT_BYTES = 2**16  # of UTF-8: time grows with the square of a text's length, and no sentence is that long

_POOL = 4096  # texts that are read, tokenised and sorted together
_TOKENS_PER_BATCH, _TEXTS_PER_BATCH = 4096, 128  # padded source tokens; texts, at most, however short
_ANY_NUMBER = 2**31  # batch size of those who gave none
_IN_ORDER = {"logits_processor", "prefix_allowed_tokens_fn", "stopping_criteria", "streamer"}  # see the texts' places

_OF_VERSION_4 = ("truncation", "return_tensors", "return_text", "clean_up_tokenization_spaces")  # its own arguments
_SPACES = ("\u0120", "\u2581")  # in front of a word's first token, by byte-level and SentencePiece vocabularies
_PAIR_TASK = re.compile(r"translation_([\w-]+)_to_([\w-]+)")

# White space in front of a line, with the mark of a list.
_BULLET = re.compile(r"\s*(?:(?:[-*+\u2022\u2023\u2013]|\(?(?:\d{1,3}|[a-zA-Z])\))\s+)?")
_NUMBER = re.compile(r"\s*(\d{1,3})\.\s+")

# Marks that end a sentence before white space, and those that always do.
_ENDS = ".!?\u2026\u061f\u06d4\u0964\u0965\u0589\u1362\u104b\u17d4\uff0e"
_WIDE_ENDS = "\u3002\uff01\uff1f\uff61"
_CLOSING = "\"'\u201c\u201d\u00bb\u2019)\\]\u300d\u300f\uff09\u3011\u300b"
_OPENING = "\"'\u201e\u201c\u00ab\u00bf\u00a1(\\[\u300c\u300e\uff08\u3010\u300a"
_BETWEEN = re.compile(
    f"(?<=[{_ENDS}{_WIDE_ENDS}])[{_CLOSING}]*\\s+(?=[{_OPENING}]*([^\\W_]))"
    f"|(?<=[{_WIDE_ENDS}])(?=[^\\s{_CLOSING}{_ENDS}{_WIDE_ENDS}])"
)
# What does not belong to a piece of a sentence that begins behind a cut, and to one that ends before a cut.
_BEHIND_CUT = re.compile(rf"[\s,;:\u3001\u060c\uff0c\uff1b\uff1a{_CLOSING}]*")
_BEFORE_CUT = re.compile(rf"[\s{_OPENING}]*")
_ABBREVIATIONS = (
    "Dr Mr Mrs Ms Prof Rev Gen Sen Gov Capt Lt Col Sgt Jr Sr St Mt Inc Ltd Corp Co Fig No Vol vs etc cf approx est "
    "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Okt Dez Mär "
    "Hr Hrn Frl Nr Str Tel Abb Abs Art Bd bzw usw ca vgl evtl ggf inkl exkl zzgl Mio Mrd Jh geb gest "
    "Mme Mlle MM env janv févr avr juill déc Sra Srta Dra núm pág aprox "
    "Sig Dott dhr mevr bijv např np tzw godz ul "
    "г гг тыс млн млрд руб ул им"
)
_NO_END = re.compile(
    rf"(?<![^\s.(\[\"'\u201e\u201c-])(?:[^\W\d]|(?<![.,$])\d{{1,2}}|{_ABBREVIATIONS.replace(' ', '|')})\.$"
)

# What no sentence holds: emojis, and characters that are broken or control something.
_SIGNS = re.compile(
    "([\0-\b\x0e-\x1b\x7f-\x84\x86-\x9f\u2190-\u21ff\u2300-\u2bff\ud800-\udfff\ufe0f\ufffd\u20e3\U0001f000-\U0001faff\U000e0020-\U000e007f]+)"
)

# Thai, Lao, Tibetan, Burmese and Khmer, then Chinese, Japanese, Korean and their punctuation
_UNSPACED = re.compile("[\u0e00-\u109f\u1780-\u17ff\u3000-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")

# What must not be translated. Letters with spaces between words may be part of an address, Chinese ones never.
_LETTERS = r"\w\u00c0-\u024f\u0370-\u052f"
_URL = rf"[{_LETTERS}.~:/?\#@!$&*+,;=%{{}}-]"
_KEPT = re.compile(
    rf"""
    \b(?i:https?://|ftp://|www\.)(?:{_URL}|\({_URL}*\))*(?:[{_LETTERS}/~\#&=%+-]|\({_URL}*\))  # a URL
    | [{_LETTERS}][{_LETTERS}.%+-]{{0,63}}@(?:[{_LETTERS}-]{{1,63}}\.)+[{_LETTERS}]{{2,24}}  # an e-mail address
    | \{{\{{[^{{}}]{{1,100}}\}}\}}  # {{{{ name }}}}
    | [$\#%]?\{{(?:\w[\w.-]*)?(?:![rsa])?(?::[^{{}}\s]*)?\}}  # {{name}} {{}} {{price:.2f}} ${{name}} %{{name}}
    | (?<![\d%])%(?:\d+\$|\(\w+\))?[-+\#0,]?\d*(?:\.\d+)?(?:hh?|ll?|z)?[sdifuxXeEgGc@](?![A-Za-z])  # %s %1$s %(x)s
    | <%[=-]?[^<>%]{{1,100}}%>  # <%= name %>
    | </[A-Za-z][\w.:-]*\s*>  # a tag that ends
    | <[A-Za-z][\w.:-]*(?:\s+[\w.:-]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*\s*/?>  # a tag that begins
    | &(?:\w{{2,32}}|\#\d{{1,7}}|\#[xX][\dA-Fa-f]{{1,6}});  # an entity
    """,
    re.ASCII | re.VERBOSE,
)


def split_text(text: str, language: str | None = None) -> list[str]:
    """Return an odd number of parts: sentences at odd indices, what lies between them at even ones.

    Joined, the parts are the text. Lines end sentences. Within a line `sentencex` finds them if it is installed and
    the language is known, otherwise a plain rule. A sentence then ends in a full stop, an exclamation or question mark
    or an ellipsis before white space and a digit or a letter that is not small, but not behind a number of one or two
    digits, a single letter or a common abbreviation. It also ends in each full-width full stop, exclamation or
    question mark.

    "2." in front of a line is the mark of a list if another line begins with "1." or "3."
    """
    lines = text.splitlines(keepends=True)
    numbers = {int(found[1]) for found in map(_NUMBER.match, lines) if found}
    parts = [""]
    for line in lines:
        mark: Any = _BULLET.match(line)
        number = _NUMBER.match(line)
        if number and {int(number[1]) - 1, int(number[1]) + 1} & numbers:
            mark = number
        parts[-1] += mark[0]
        for sentence in _sentences(line[mark.end() :], language):
            found = _SIGNS.split(sentence)
            _add_pieces(parts, found[::2], found[1::2])
    return parts


def _add_pieces(parts: list[str], pieces: list[str], separators: list[str]) -> None:
    """Append each piece that contains a letter to the parts, as a sentence.

    White space stays outside of the sentence, and so do commas, brackets and quotation marks next to a separator.
    """
    for index, piece in enumerate(pieces):
        start = len(piece) - len(piece.lstrip())
        end = len(piece.rstrip())
        if index > 0:
            start = _BEHIND_CUT.match(piece).end()  # type: ignore[union-attr]  # which may be empty
        if index < len(separators):
            end = len(piece) - _BEFORE_CUT.match(piece[::-1]).end()  # type: ignore[union-attr]
        if any(map(str.isalpha, piece)):
            parts[-1] += piece[:start]
            parts += [piece[start:end], piece[end:]]
        else:
            parts[-1] += piece
        if index < len(separators):
            parts[-1] += separators[index]


def whole_text(text: str) -> list[str]:
    """Return the white space before a text, the text and the white space behind it; three empty ones for a blank."""
    stripped = text.strip()
    start = len(text) - len(text.lstrip())
    return [text[:start], stripped, text[start + len(stripped) :]] if stripped else ["", "", ""]


def put_together(parts: list[str], translations: Iterable[str]) -> str:
    """Return the parts of `split_text` with the sentences translated.

    A translation that touches what is before or behind it gets a space there, if its sentence is of a script without
    spaces and the translation is not.
    """
    text = parts[0]
    following = [*parts[3::2], ""]
    for sentence, after, next_sentence, translation in zip(
        parts[1::2], parts[2::2], following, translations, strict=True
    ):
        if text and not text[-1].isspace() and _needs_space(sentence[:1], translation[:1]):
            text += " "
        text += translation
        behind = (after + next_sentence)[:1]
        if behind and not behind.isspace() and _needs_space(sentence[-1:], translation[-1:]):
            text += " "
        text += after
    return text


def _needs_space(source: str, translated: str) -> bool:
    """Return True if a character is of a script without spaces and the one in its place is of another."""
    return bool(_UNSPACED.match(source) and translated and not _UNSPACED.match(translated))


def prefix_ids(tokenizer: Any, prefix: str) -> list[int]:
    """Tokens that a translation begins with; white space at the end is left to the model."""
    if not isinstance(prefix, str):
        raise TypeError(f"`target_prefix` must be one text (str), got {type(prefix).__name__}. Call once for each.")
    ids: list[int] = tokenizer(text_target=prefix.rstrip(), verbose=False)["input_ids"]
    return ids[:-1] if ids and ids[-1] == tokenizer.eos_token_id else ids


def by_sentence(
    texts: Iterator[Any],
    model: Any,
    tokenizer: Any,
    language: str | None,
    compute: Callable[[Iterator[str]], Iterable[Any]],
    edit: Callable[[Any, Callable[[str], str]], Any],
    again: Callable[[list[str]], Iterable[str]],
) -> Iterator[tuple[list[str], list[Any]]]:
    """Yield the parts of each text (`split_text`) and what `compute` finds for its sentences.

    What has no letter outside of URLs, e-mail addresses, placeholders, tags and entities is not translated. A sentence
    whose translation lacks one of these is translated in pieces around them, by `again`. Sentences in capitals are
    translated in small letters. A text that begins with an added token of the tokenizer is not split, and left to the
    model as it is.

    Args:
        texts: Texts; anything else is passed on to `compute`.
        model: Its config has the languages, if they are known.
        tokenizer: Its added tokens are never protected from translation.
        language: Code of the texts' language; None: the model's source language.
        compute: Results of sentences, in their order.
        edit: Changes the translations in a result of `compute` by a function of a text.
        again: Translations of pieces of a sentence.
    """
    language = language or getattr(model.config, "source_language", None)
    languages = {language_of(language), language_of(getattr(model.config, "target_language", None))}
    knows_capitals = not {"tr", "az", "ka"} & languages  # their capitals are not what Python makes
    tokens = set(tokenizer.get_added_vocab())
    if tokenizer.split_special_tokens:
        tokens -= set(tokenizer.all_special_tokens)
    starts = tuple(tokens)
    pending: deque[list[str]] = deque()

    def is_for_the_model(sentence: Any) -> bool:
        return not isinstance(sentence, str) or sentence.startswith(starts)

    def is_shouted(sentence: str) -> bool:
        num_words = sum(any(map(str.isalpha, word)) for word in sentence.split())
        is_loud = num_words > 1 and all(map(str.isupper, filter(str.isalpha, sentence)))
        return is_loud and knows_capitals and sentence.capitalize().upper() == sentence

    def sentences() -> Iterator[Any]:
        for text in texts:
            if not isinstance(text, str):
                parts = ["", text, ""]
            elif is_for_the_model(text.lstrip()):
                parts = whole_text(text)
            else:
                parts = split_text(text, language)
            pending.append(parts)
            for sentence in parts[1::2] or [""]:
                if is_for_the_model(sentence):
                    yield sentence
                elif not _has_letter(_around_kept(sentence, tokens)[0]):
                    yield ""
                else:
                    yield sentence.capitalize() if is_shouted(sentence) else sentence

    def complete(sentence: str, text: str) -> str:
        if is_for_the_model(sentence):
            return text
        pieces, kept = _around_kept(sentence, tokens)
        if not _has_letter(pieces):
            return sentence
        shouts = is_shouted(sentence)
        if shouts:
            text = text.upper()
        if all(_num_copies(each, text) >= number for each, number in Counter(kept).items()):
            return text
        parts = [""]
        _add_pieces(parts, pieces, kept)
        sources = parts[1::2]
        found = list(again([source.capitalize() if shouts else source for source in sources]))
        if shouts:
            found = [translation.upper() for translation in found]
        for number, source in enumerate(sources):
            if source[-1] not in _ENDS + _WIDE_ENDS:
                found[number] = _without_full_stop(found[number])
        return put_together(parts, found)

    results = iter(compute(sentences()))
    for first in results:
        parts = pending.popleft()
        sources = parts[1::2]
        if sources:
            found = [first, *itertools.islice(results, len(sources) - 1)]
            yield parts, [edit(each, partial(complete, source)) for source, each in zip(sources, found, strict=True)]
        else:
            yield [*parts, "", ""], [first]  # the result of a blank


def _around_kept(sentence: str, tokens: set[str]) -> tuple[list[str], list[str]]:
    """Return the pieces of a sentence between the parts to keep, and these parts; tokens are never kept."""
    pieces, kept, end = [], [], 0
    for found in _KEPT.finditer(sentence):
        is_no_entity = found[0].startswith("&") and html.unescape(found[0]) == found[0]
        if found[0] not in tokens and not is_no_entity:
            pieces.append(sentence[end : found.start()])
            kept.append(found[0])
            end = found.end()
    return [*pieces, sentence[end:]], kept


def _has_letter(pieces: list[str]) -> bool:
    return any(map(str.isalpha, "".join(pieces)))


def _num_copies(kept: str, text: str) -> int:
    """Return how often a text has a kept part, not counting the beginnings of longer words."""
    end = "(?![A-Za-z0-9])" if kept[-1].isalnum() else ""
    return len(re.findall(re.escape(kept) + end, text))


def _without_full_stop(text: str) -> str:
    """Return a translated piece without the full stop that the model added."""
    is_stop = text[-1:] in (".", "\u3002", "\u0964", "\u06d4") and text[-2:-1] != text[-1:]
    return text[:-1] if is_stop and not _NO_END.search(text[-12:]) else text


def language_of(code: str | None) -> str | None:
    """Return a language code without its region."""
    return code and re.split("[-_]", code)[0]


@functools.cache
def _segmenter() -> Any:
    """Return `segment` of sentencex, or None if it is not installed."""
    try:
        from sentencex import segment
    except ImportError:
        return None
    return segment


def _sentences(line: str, language: str | None) -> list[str]:
    """Return the sentences of a line, which they make up."""
    segment = _segmenter()
    code = language_of(language)
    if segment is None or code is None:
        ends = [0]
        for found in _BETWEEN.finditer(line):
            goes_on = found[1] is not None and found[1] != found[1].title()  # Georgian letters are their own titles
            if not goes_on and not _NO_END.search(line[max(0, found.start() - 12) : found.start()]):
                ends.append(found.end())
        ends.append(len(line))
    else:
        plain = re.sub(r"[^\S\n]|[\ud800-\udfff]", " ", line)  # it panics at others
        ends = [0, *itertools.accumulate(map(len, segment(code, plain)))]
    return [line[start:end] for start, end in itertools.pairwise(ends)]


def check_text_length(text: str) -> None:
    """Raises ValueError for a text of more than 65,536 bytes, say a file without line ends: it would take hours."""
    if 4 * len(text) > MAX_TEXT_BYTES and (size := len(text.encode("utf-8", "surrogatepass"))) > MAX_TEXT_BYTES:
        raise ValueError(
            f"A text must have at most {MAX_TEXT_BYTES} bytes, got {size} in {text[:30]!a}... Split it into sentences."
        )


class VaswaniTransformerTranslationPipeline(Pipeline):
    """Translates texts with any encoder-decoder model, by the paper's decoding where the model is ours.

    Called with a text it returns a list of `{"translation_text": ...}`, one for each returned sequence; with a list,
    a list of those dictionaries (of lists of them when several sequences are returned); with a generator or a data
    set, an iterator over lists. Order out is order in. Empty and blank texts become empty texts. Nothing is
    truncated: a text longer than any training sentence is translated whole, with one warning; one of more than 65,536
    bytes is refused.

    Lists and data sets are sorted by length and cut into batches of 4,096 padded tokens (on a CPU of at most 128
    texts), or of `batch_size` texts if that is given. Texts of a generator are translated one at a time; with
    `batch_size`, 16 batches are read ahead.

    A text of several sentences or lines is translated sentence by sentence (`split_text`), each of which then has that
    limit of bytes, and its blank lines and list marks stay. `split_sentences=False`, at construction or in the call,
    translates each text as one. This is the default for models of other packages, since their texts may begin with a
    prefix for all sentences. A text that begins with an added token of the tokenizer, such as `<2de>`, is not split.
    White space around a text never reaches the model and comes back around the translation. `target_prefix` is what
    every translation begins with; a text is then translated as one sentence.

    `return_scores=True` adds to each dictionary `score`, the mean log-probability of its tokens, and `words`, each
    with the mean of its own; a text of several sentences has the mean of theirs, all words, and `sentences`.

    Parameters of `generate` (`num_beams`, `max_new_tokens`, ...) can be given at construction or in the call, and so
    can `src_lang` and `tgt_lang`, for models of other architectures whose tokenizers ask for them.

    Raises:
        ValueError: The model translates other languages than those asked for, its checkpoint does not hold exactly its
            tensors, the tokenizer is too large, or a text has more than 65,536 bytes.
        TypeError: An input is not a text.

    Example:
        >>> import vaswani_transformer
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
        if getattr(kwargs.get("model"), "quantization_method", "") == "vaswani_int8":
            kwargs.setdefault("device", "cpu")  # whose kernels it has
        super().__init__(*args, **kwargs)
        self._is_ours = hasattr(self.model, "check_loaded_weights")
        self._splits_sentences = self._is_ours if split_sentences is None else split_sentences
        if self._is_ours:
            self.model.check_loaded_weights()
            self.model.check_tokenizer(self.tokenizer)

    def _sanitize_parameters(
        self, src_lang: str | None = None, tgt_lang: str | None = None, **forward_kwargs: Any
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        if ignored := [name for name in _OF_VERSION_4 if forward_kwargs.pop(name, None) is not None]:
            logger.warning_once(f"{', '.join(ignored)}: arguments of the pipeline of transformers 4, without effect.")
        source, target = asked.groups() if (asked := _PAIR_TASK.fullmatch(self.task or "")) else (None, None)
        languages = {"src_lang": src_lang or source, "tgt_lang": tgt_lang or target}
        pair = getattr(self.model.config, "language_pair", None)
        if pair and any(each not in (None, own) for each, own in zip(languages.values(), pair, strict=True)):
            raise ValueError(
                f"The languages must be {pair[0]} and {pair[1]}, which the model translates, got {languages}. Load "
                f'a model of your pair, or call pipeline("translation_{pair[0]}_to_{pair[1]}", model=...).'
            )
        return {name: value for name, value in languages.items() if value}, forward_kwargs, {}

    def __call__(self, inputs: Any, *, split_sentences: bool | None = None, **kwargs: Any) -> Any:  # type: ignore
        """Translates a text, a list of texts, a generator or a data set of texts; see the class."""
        begins = kwargs.get("target_prefix", self._forward_params.get("target_prefix")) is not None
        splits = (self._splits_sentences and not begins) if split_sentences is None else split_sentences
        is_sized, is_list = isinstance(inputs, Sized), isinstance(inputs, Sequence)
        if is_sized and kwargs.get("batch_size") is None and self._batch_size is None:
            kwargs["batch_size"] = _ANY_NUMBER
        if isinstance(inputs, dict) or not (isinstance(inputs, Iterable) or is_sized):
            self.preprocess(inputs)  # type: ignore[arg-type]  # raises TypeError
        if isinstance(inputs, str):
            return next(self._documents([inputs], splits, **kwargs))
        find: Any = partial(self._documents, inputs, splits, **kwargs)
        if not is_list:
            return _Sized(find, len(inputs)) if is_sized else find()
        results = list(find())
        if all(len(result) == 1 for result in results):
            return [result[0] for result in results]
        return results

    def _documents(self, texts: Any, splits: bool, **kwargs: Any) -> Iterator[list[dict[str, Any]]]:
        """Yield the results of texts, whose sentences are translated one by one and put in their places."""
        language = kwargs.get("src_lang") or self._preprocess_params.get("src_lang")
        compute: Any = partial(super().__call__, **kwargs)
        if not splits:
            texts, originals = itertools.tee(_iterator(texts))
            stripped = (text.strip() if isinstance(text, str) else text for text in texts)
            for text, result in zip(originals, compute(stripped), strict=True):
                for each in result:
                    each["translation_text"] = put_together(whole_text(text), [each["translation_text"]])
                yield result
            return

        def edit(result: list[dict[str, Any]], change: Callable[[str], str]) -> list[dict[str, Any]]:
            for each in result:
                text = change(each["translation_text"])
                if "words" in each and text != each["translation_text"]:
                    each |= {"score": None, "words": []}  # those were of another text
                each["translation_text"] = text
            return result

        def again(pieces: list[str]) -> list[str]:
            return [result[0]["translation_text"] for result in compute(pieces)]

        for parts, found in by_sentence(_iterator(texts), self.model, self.tokenizer, language, compute, edit, again):
            documents = []
            for translations in zip(*found, strict=True):
                text = put_together(parts, [each["translation_text"] for each in translations])
                document = {**translations[0], "translation_text": "" if text.isspace() else text}
                if len(translations) > 1 and "score" in document:
                    scores = [each["score"] for each in translations if each["score"] is not None]
                    document["score"] = sum(scores) / len(scores) if scores else None
                    document["words"] = [word for each in translations for word in each["words"]]
                    document["sentences"] = list(translations)
                documents.append(document)
            yield documents

    def get_iterator(
        self, inputs: Any, num_workers: int, batch_size: int, *params: dict[str, Any]
    ) -> Iterable[list[dict[str, str]]]:
        """Results in the order of the texts, which are read a pool at a time and batched by length."""
        preprocess_params, forward_params, postprocess_params = params
        if batch_size <= 1 or not self._is_ours or _IN_ORDER & forward_params.keys():
            batch_size = 1 if batch_size == _ANY_NUMBER else batch_size
            one_by_one: Iterable[list[dict[str, str]]] = super().get_iterator(inputs, 0, batch_size, *params)
            return one_by_one

        limits = (_ANY_NUMBER, batch_size)
        if batch_size == _ANY_NUMBER:
            limits = (_TOKENS_PER_BATCH, _TEXTS_PER_BATCH if self.device.type == "cpu" else _ANY_NUMBER)
        collate = pipelines.base.pad_collate_fn(self.tokenizer, None)
        side_by_side = getattr(self.model, "side_by_side", lambda _, compute, batches: map(compute, batches))
        options = self._prepare_generate_kwargs(forward_params)

        def results() -> Iterator[list[dict[str, str]]]:
            rest = _iterator(inputs)
            while pool := list(itertools.islice(rest, min(_POOL, 16 * batch_size))):
                encoded = [self.preprocess(text, **preprocess_params) for text in pool]
                found: list[Any] = [None] * len(pool)
                lengths = [each["input_ids"].shape[1] for each in encoded]
                batches = list(length_batches(lengths, *limits))

                def compute(batch: list[int], encoded: list[Any] = encoded) -> dict[str, torch.Tensor]:
                    outputs: Any = self.forward(collate([encoded[index] for index in batch]), **forward_params)
                    return dict(outputs)

                for batch, outputs in zip(batches, side_by_side(options, compute, batches), strict=True):
                    for row, index in enumerate(batch):
                        own = {name: value[row : row + 1] for name, value in outputs.items()}
                        found[index] = self.postprocess(own, **postprocess_params)
                yield from found

        return _Sized(results, len(inputs)) if isinstance(inputs, Sized) else results()

    def preprocess(  # type: ignore[override]  # that of transformers takes anything
        self, text: str, src_lang: str | None = None, tgt_lang: str | None = None
    ) -> dict[str, torch.Tensor]:
        """(1, S) source tokens, their mask, and (1, 1) whether the text is blank."""
        if not isinstance(text, str):
            raise TypeError(
                f"Every input must be a text (str), got {type(text).__name__}. Pass one, or a list of them."
            )
        check_text_length(text)
        is_blank = not text.strip()
        languages = {"src_lang": src_lang, "tgt_lang": tgt_lang}
        build = getattr(self.tokenizer, "_build_translation_inputs", None)
        encode = partial(build, **languages) if build else partial(self.tokenizer, verbose=False)
        encoded = encode("" if is_blank else text, return_tensors="pt")
        length = encoded["input_ids"].shape[1]
        longest = getattr(self.model.generation_config, "longest_training_source", None)  # if its training told
        if longest is not None and length > longest:
            logger.warning_once(
                f"A text is longer than the longest training sentence ({longest} tokens). Expect a poor translation."
            )
        keys = ("input_ids", "attention_mask", "forced_bos_token_id")
        return {**{key: encoded[key] for key in keys if key in encoded}, "is_blank": torch.tensor([[is_blank]])}

    def _forward(  # type: ignore[override]  # transformers' types are those of no pipeline
        self,
        model_inputs: dict[str, torch.Tensor],
        target_prefix: str | None = None,
        return_scores: bool = False,
        **generate_kwargs: Any,
    ) -> dict[str, torch.Tensor]:
        """(B, n, T) output tokens, of blank texts all padding, and log-probabilities of those after the first."""
        is_blank = model_inputs.pop("is_blank").view(-1, 1, 1)
        if target_prefix is not None:
            start = [self.model.config.decoder_start_token_id, *prefix_ids(self.tokenizer, target_prefix)]
            generate_kwargs["decoder_input_ids"] = torch.tensor([start], device=self.device).expand(len(is_blank), -1)
        generate_kwargs = self._prepare_generate_kwargs(generate_kwargs, return_dict_in_generate=False)
        with without_cudnn_attention(self.device):
            sequences = self.model.generate(**model_inputs, **generate_kwargs)
        shape = (is_blank.shape[0], -1, sequences.shape[-1])  # (B * n, T) -> (B, n, T)
        outputs = {"sequences": sequences.view(shape).masked_fill(is_blank, self.tokenizer.pad_token_id)}
        if return_scores:
            sources = model_inputs["input_ids"], model_inputs["attention_mask"]
            log_probs = token_log_probs(self.model, *sources, sequences)
            outputs["log_probs"] = log_probs.view(shape[0], outputs["sequences"].shape[1], -1)
        return outputs

    def postprocess(  # type: ignore[override]  # there are no parameters
        self, model_outputs: dict[str, torch.Tensor]
    ) -> list[dict[str, Any]]:
        """One dictionary for each returned sequence of one text."""
        sequences, log_probs = model_outputs["sequences"][0], model_outputs.get("log_probs")
        texts = self.tokenizer.batch_decode(sequences, skip_special_tokens=True)
        if log_probs is None:
            return [{"translation_text": text} for text in texts]
        scored, eos, pad = [], self.tokenizer.eos_token_id, self.tokenizer.pad_token_id
        for text, tokens, row in zip(texts, sequences[:, 1:].tolist(), log_probs[0].tolist(), strict=True):
            tokens = tokens[: tokens.index(eos) + 1] if eos in tokens else tokens
            real = [each for token, each in zip(tokens, row, strict=False) if token != pad]
            score = sum(real) / len(real) if real else None
            words = word_scores(self.tokenizer, tokens, row)
            scored.append({"translation_text": text, "score": score, "words": words})
        return scored


@torch.inference_mode()
def token_log_probs(
    model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, sequences: torch.Tensor, max_tokens: int = 1024
) -> torch.Tensor:
    """(B * n, T - 1) log-probabilities of the tokens behind the first of `sequences` (B * n, T), given (B, S) sources.

    Distributions over the vocabulary are held for `max_tokens` tokens at once, or for one sequence.
    """
    found, num_each = [], len(sequences) // len(input_ids)
    for rows in torch.arange(len(sequences)).split(max(1, max_tokens // sequences.shape[1])):
        inputs = {"input_ids": input_ids[rows // num_each], "attention_mask": attention_mask[rows // num_each]}
        with without_cudnn_attention(sequences.device):
            logits = model(**inputs, decoder_input_ids=sequences[rows, :-1], use_cache=False).logits.float()
        found.append(logits.log_softmax(dim=-1).gather(-1, sequences[rows, 1:].unsqueeze(-1)).squeeze(-1))
    return torch.cat(found)


def word_scores(tokenizer: Any, tokens: list[int], log_probs: list[float]) -> list[dict[str, Any]]:
    """Words of a translation, each with the mean log-probability of its tokens; special tokens are part of none."""
    words: list[tuple[list[str], list[float]]] = []
    special = set(tokenizer.all_special_ids)
    for token, log_prob in zip(tokens, log_probs, strict=False):
        if token in special:
            continue
        text = tokenizer.convert_ids_to_tokens(token)
        if not words or text.startswith(_SPACES):
            words.append(([], []))
        words[-1][0].append(text)
        words[-1][1].append(log_prob)
    to_text = tokenizer.convert_tokens_to_string
    return [{"word": to_text(parts).strip(), "score": sum(each) / len(each)} for parts, each in words]


def _iterator(texts: Any) -> Iterator[Any]:
    return iter(texts) if isinstance(texts, Iterable) else map(texts.__getitem__, range(len(texts)))


class _Sized:
    """Results whose number is known, found anew for each reading."""

    def __init__(self, find: Callable[[], Iterator[Any]], length: int) -> None:
        self._find, self._length = find, length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        return self._find()


def length_batches(lengths: list[int], max_tokens: int, max_texts: int | None = None) -> Iterator[list[int]]:
    """Indices grouped by length, longest first, at most `max_texts` and `max_tokens` padded tokens in a batch.

    A text of more tokens forms a batch of its own.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    while order:
        num_texts = min(max(1, max_tokens // lengths[order[0]]), max_texts or len(order))
        yield order[:num_texts]
        order = order[num_texts:]


def register_translation_pipeline() -> None:
    """Gives `pipeline("translation")` and `pipeline("translation_xx_to_yy")` back to transformers.

    Version 5 removed both and refuses their names before it looks at its registry, so this changes its tables for the
    whole process; calling it again changes nothing.
    """
    pipelines.REMOVED_TASKS.pop("translation", None)
    registry: Any = pipelines.PIPELINE_REGISTRY
    if "translation" not in registry.supported_tasks:
        registry.register_pipeline(
            "translation", VaswaniTransformerTranslationPipeline, pt_model=AutoModelForSeq2SeqLM, type="text"
        )
    if not getattr(registry.check_task, "knows_language_pairs", False):
        registry.check_task = _with_language_pairs(registry.check_task)


def _with_language_pairs(check_task: Callable[[str], Any]) -> Any:
    """The registry's look-up, taking `translation_xx_to_yy` for `translation`."""

    def check(task: str) -> Any:
        return check_task("translation" if _PAIR_TASK.fullmatch(task) else task)

    check.knows_language_pairs = True  # type: ignore[attr-defined]
    return check
