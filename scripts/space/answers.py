# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Demo: a page with translations of a text, how sure the model is, and what it attends to; gradio is the extra [demo].

The page loads nothing from other servers and keeps nothing of what is typed.
"""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase
from transformers.utils import logging

from ..analysis.attention import attention_maps
from ..evaluation.scoring import align_pairs
from ..evaluation.translate import Hypothesis, check_num_best, decoding_config, translate_n_best
from ..extras import requiring
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration
from ..pipeline_vaswani_transformer import by_sentence, split_text

__all__ = ["answer", "create_demo", "launch"]

MAX_SENTENCES, MAX_SOURCE_TOKENS, MAX_MAP_TOKENS = 40, 512, 100
_MAX_MAP_CHARACTERS = 4_000_000  # of all maps of a text, as they are sent
_LANGUAGES = {"cs": "Czech", "de": "German", "en": "English", "es": "Spanish", "fr": "French", "it": "Italian"}
_EXAMPLES = {
    "de": ["Warum hast du dein altes Auto verkauft?", "Meine Schwester möchte Deutsch lernen."],
    "en": ["Why did you sell your old car?", "My sister wants to learn German."],
    "fr": ["Pourquoi as-tu vendu ta vieille voiture ?", "Ma sœur veut apprendre l'allemand."],
}
# Where gradio's theme is too faint to read or too small to tap.
_COLORS = {
    "button_primary_background_fill": "#0a3696",
    "button_primary_background_fill_dark": "#a9d0ff",
    "button_primary_background_fill_hover": "#0f4bc8",
    "button_primary_background_fill_hover_dark": "#c7e0ff",
    "button_primary_text_color": "#ffffff",
    "button_primary_text_color_dark": "#0f172a",
    **{f"input_{part}_color": "*neutral_500" for part in ("placeholder", "border")},
    **{f"input_{part}_color_dark": "*neutral_400" for part in ("placeholder", "border")},
}


def create_demo(
    model: VaswaniTransformerForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    *,
    name: str | None = None,
    num_best: int | None = None,
) -> Any:
    """Makes the page of a model, a `gradio.Blocks` that translates one text at a time; `launch` serves it.

    Args:
        model: In eval mode; from `load_for_inference`.
        tokenizer: Saved with the model.
        name: What the page calls the model; None takes the name of its folder, or its id on the Hub.
        num_best: Translations shown of each sentence, at most as many as beams; None shows up to 4.

    Raises:
        ImportError: gradio is missing.
        ValueError: `num_best` is not in [1, number of beams].

    Example:
        >>> launch(create_demo(*load_for_inference("runs/my-model")))
        'http://127.0.0.1:7860'

    Paper: sections 3.2.3 and 6.1.
    """
    with requiring("demo", "to show the page"):
        import gradio as gr
    num_beams = decoding_config(model).num_beams
    num_best = min(4, num_beams) if num_best is None else num_best
    check_num_best(num_best, num_beams)
    config = model.config
    folder = Path(str(model.name_or_path))
    name = name or (folder.resolve().name if folder.is_dir() else str(folder))
    source, target = (_LANGUAGES.get(code or "", code) for code in (config.source_language, config.target_language))
    heading = f"{source} to {target}" if config.language_pair else "Translation"
    is_free = threading.Lock()

    def translate(text: str) -> dict[str, Any]:
        with is_free:
            return answer(model, tokenizer, text or "", num_best)

    demo = gr.Blocks(title=f"{heading}, {name}", analytics_enabled=False)
    with demo:
        # Escaped: a downloaded model's config may hold markup, with pictures and links to anywhere.
        escaped, code = re.sub(r"([^\w\s])", r"\\\1", " ".join(heading.split())), name.replace("`", "'")
        gr.Markdown(f"# {escaped}\n`{code}`, the Transformer of *Attention Is All You Need*")
        box = gr.Textbox(
            label=f"Text in {source}" if source else "Text",
            placeholder="Type a sentence or a paragraph and press Enter",
            max_lines=8,
            html_attributes=gr.InputHTMLAttributes(lang=config.source_language, enterkeyhint="go"),
        )
        button = gr.Button("Translate", variant="primary")
        if config.source_language in _EXAMPLES:
            gr.Examples(_EXAMPLES[config.source_language], box, cache_examples=False)
        parts = files(__package__)
        html, css, js = ((parts / f"attention.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))
        language = config.target_language or ""
        view = gr.HTML(html_template=html, css_template=css, js_on_load=js, apply_default_css=False, lang=language)
        gr.Markdown("Nothing that you type is stored.")
        triggers = [box.submit, button.click]
        gr.on(triggers, translate, box, view, api_name="translate", trigger_mode="always_last", concurrency_limit=1)
    return demo.queue(max_size=100)  # visitors who wait


def launch(demo: Any, *, host: str | None = None, port: int | None = None) -> str:
    """Serves a page in the background and returns its address; `demo.block_thread()` waits for Ctrl-C.

    Args:
        demo: From `create_demo`.
        host: Address to listen at; None takes the variable GRADIO_SERVER_NAME, or 127.0.0.1, this machine alone.
        port: Port to listen at; None takes the variable GRADIO_SERVER_PORT, or the first free one from 7860.

    Raises:
        OSError: The port is in use, or the host is not an address of this machine.
    """
    import gradio as gr

    theme = gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])
    try:
        demo.launch(
            server_name=f"[{host}]" if host and ":" in host else host,
            server_port=port,
            theme=theme.set(**_COLORS),
            css=".html-container { padding: 0 !important; } button.gallery-item { min-height: 44px; }",
            footer_links=[],
            share=False,
            ssr_mode=False,
            pwa=False,
            run_history=False,
            enable_monitoring=False,
            max_file_size=0,  # visitors leave no files
            prevent_thread_lock=True,
            quiet=True,
        )
    except OSError as error:
        raise OSError(f"`port` must be free at an address of this machine, got {port} at {host}.") from error
    return str(demo.local_url).rstrip("/")


def answer(
    model: VaswaniTransformerForConditionalGeneration, tokenizer: PreTrainedTokenizerBase, text: str, num_best: int
) -> dict[str, Any]:
    """Translates a visitor's text for the page, as plain JSON.

    It has a `message` that says why there is no translation; or `before`, what precedes the first sentence, and
    `sentences`, each with its `source`, what comes `after` it, the `alignment` of its best translation, as pairs of
    words, and `translations`, each with its figures and either `maps` ("cross" and "decoder") or a `note` why it has
    none, and the map `encoder` that they share.
    """
    sent = 0

    def count(text: str) -> int:
        return len(tokenizer(text, verbose=False)["input_ids"])

    def search(sentences: Iterable[str]) -> Iterable[list[Hypothesis]]:
        return translate_n_best(model, tokenizer, sentences, num_best)

    def again(pieces: list[str]) -> list[str]:
        return [each[0].text if each else "" for each in search(pieces)]

    def edit(found: list[Hypothesis], change: Callable[[str], str]) -> list[Hypothesis]:
        changed = [(each, change(each.text)) for each in found]
        return [each if text == each.text else replace(each, text=text, words=[]) for each, text in changed]

    def maps_of(source: str, target: str, shown: dict[str, Any]) -> dict[str, Any]:
        nonlocal sent
        if not target.strip():
            return {"note": "This translation is empty, so there is no attention to show."}
        for side, found in (("sentence", count(source)), ("translation", count(target))):
            if found > MAX_MAP_TOKENS:
                limit = f"attention is shown for up to {MAX_MAP_TOKENS} on each side"
                return {"note": f"This {side} has {found} tokens; {limit}."}
        if sent > _MAX_MAP_CHARACTERS:
            return {"note": "The text is long: translate this sentence alone to see its attention."}
        maps = attention_maps(model, tokenizer, source, target)
        shown["encoder"] = _packed(maps.encoder, maps.source_tokens, maps.source_tokens)
        cross = _packed(maps.cross, maps.predicted_tokens, maps.source_tokens)
        decoder = _packed(maps.decoder, maps.fed_tokens, maps.fed_tokens)
        sent += len(shown["encoder"]["weights"]) + len(cross["weights"]) + len(decoder["weights"])
        return {"maps": {"cross": cross, "decoder": decoder}}

    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # halves of characters become "�"
    longest = MAX_SOURCE_TOKENS
    if model.config.position_encoding == "learned":
        longest = min(longest, model.config.max_position_embeddings)
    if not text.strip():
        return {"message": "Type a sentence to translate."}
    parts = split_text(text, model.config.source_language)
    if len(parts) == 1:
        return {"message": "This text has no words to translate."}
    sources = parts[1::2]
    if len(sources) > MAX_SENTENCES:
        return {"message": f"This text has {len(sources):,} sentences; the page takes up to {MAX_SENTENCES}."}
    if (found := max(map(count, sources))) > longest:
        return {"message": f"A sentence has {found:,} tokens; the page takes up to {longest:,}. Try a shorter one."}
    shown: dict[str, Any] = {"message": "", "before": parts[0], "sentences": []}
    try:
        ((parts, hypotheses),) = by_sentence(iter([text]), model, tokenizer, None, search, edit, again)
        if not all(hypotheses):
            return {"message": "The model found no translation of this text."}
        aligned = align_pairs(model, tokenizer, parts[1::2], [best.text for best, *_ in hypotheses])
        for source, after, found, alignment in zip(parts[1::2], parts[2::2], hypotheses, aligned, strict=True):
            sentence: dict[str, Any] = {"source": source, "after": after, "alignment": alignment}
            maps = {target: maps_of(source, target, sentence) for target in dict.fromkeys(each.text for each in found)}
            sentence["translations"] = [{**asdict(each), **maps[each.text]} for each in found]
            shown["sentences"].append(sentence)
    except (MemoryError, RuntimeError):
        logging.get_logger(__name__).exception("a text could not be translated")
        return {"message": "The server failed on this text, perhaps for lack of memory. Try a shorter one."}
    return shown


def _packed(weights: np.ndarray, rows: list[str], columns: list[str]) -> dict[str, Any]:
    """Packs weights (layers, heads, rows, columns) from 0 to 1 into one byte each, with the tokens of both sides."""
    packed = base64.b64encode(np.rint(weights * 255).astype(np.uint8).tobytes()).decode("ascii")
    return {"layers": len(weights), "heads": weights.shape[1], "rows": rows, "columns": columns, "weights": packed}
