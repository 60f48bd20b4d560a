# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A page to translate on: the best translations of a sentence, and what the model attends to while it writes them.

It loads nothing from outside its own server, and keeps nothing of what is typed.
"""

from __future__ import annotations

import errno
import re
import socket
import threading
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import PreTrainedTokenizerBase

from ..evaluation.decoding import check_num_best, decoding_config
from ..extras import requiring
from ..modeling_vaswani_transformer import VaswaniTransformerForConditionalGeneration
from .answers import answer

if TYPE_CHECKING:
    import gradio

DEFAULT_NUM_BEST = 4
_LANGUAGES = {"cs": "Czech", "de": "German", "en": "English", "es": "Spanish", "fr": "French", "it": "Italian"}
_EXAMPLES = {
    "de": ["Warum hast du dein altes Auto verkauft?", "Meine Schwester möchte Deutsch lernen."],
    "en": ["Why did you sell your old car?", "My sister wants to learn German."],
    "fr": ["Pourquoi as-tu vendu ta vieille voiture ?", "Ma sœur veut apprendre l'allemand."],
}
# Where the usual theme is too faint to read or too small to tap.
_COLORS = {
    "button_primary_background_fill": "#0a3696",
    "button_primary_background_fill_dark": "#a9d0ff",
    "button_primary_background_fill_hover": "#0f4bc8",
    "button_primary_background_fill_hover_dark": "#c7e0ff",
    "button_primary_text_color": "#ffffff",
    "button_primary_text_color_dark": "#0f172a",
    "input_placeholder_color": "*neutral_500",
    "input_placeholder_color_dark": "*neutral_400",
    "input_border_color": "*neutral_500",
    "input_border_color_dark": "*neutral_400",
}
_LONGEST_QUEUE = 100  # visitors who wait
# Ways on which gradio takes files from visitors, keeps and serves them, or fetches what an address names.
_FILE_ROUTES = ("/upload", "/file=", "/file/", "/proxy=", "/stream/", "/process_recording")
_CSS = ".html-container { padding: 0 !important; } button.gallery-item { min-height: 44px; }"


def create_demo(
    model: VaswaniTransformerForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    *,
    name: str | None = None,
    num_best: int | None = None,
) -> gradio.Blocks:
    """The page for a model; `launch` serves it.

    Sentences are translated one after another, whoever typed them.

    Args:
        model: In eval mode; from `load_for_inference`.
        tokenizer: Saved with the model.
        name: What the page calls the model; None takes the name of its folder, or its id on the Hub.
        num_best: Translations shown of each sentence, at most as many as beams; None shows 4 where there are as many.

    Raises:
        ImportError: gradio is missing.
        ValueError: `num_best` is below 1 or above the number of beams.

    Example:
        >>> launch(create_demo(*load_for_inference("runs/my-model")))
        'http://127.0.0.1:7860'

    Paper: sections 3.2.3 and 6.1.
    """
    check_gradio()
    import gradio as gr

    num_beams = decoding_config(model).num_beams
    num_best = min(DEFAULT_NUM_BEST, num_beams) if num_best is None else num_best
    check_num_best(num_best, num_beams)
    source_language, target_language = model.config.source_language, model.config.target_language
    heading = " to ".join(map(_language, model.config.language_pair)) if model.config.language_pair else "Translation"
    name = name or _shown_name(str(model.name_or_path))
    demo = gr.Blocks(title=f"{heading}, {name}", analytics_enabled=False)
    with demo:
        code = name.replace("`", "'")
        gr.Markdown(f"# {_as_text(heading)}\n`{code}`, the Transformer of *Attention Is All You Need*")
        box = gr.Textbox(
            label=f"Sentence in {_language(source_language)}" if source_language else "Sentence",
            placeholder="Type a sentence and press Enter",
            max_lines=8,
            html_attributes=gr.InputHTMLAttributes(lang=source_language, enterkeyhint="go"),
        )
        button = gr.Button("Translate", variant="primary")
        if source_language in _EXAMPLES:
            gr.Examples(_EXAMPLES[source_language], box, cache_examples=False)
        view = _view(target_language or "")
        gr.Markdown("Nothing that you type is stored.")

        is_free = threading.Lock()

        def translate(text: str) -> dict[str, Any]:
            with is_free:
                return answer(model, tokenizer, text or "", num_best)

        gr.on(
            [box.submit, button.click],
            translate,
            box,
            view,
            api_name="translate",
            trigger_mode="always_last",
            concurrency_limit=1,
        )
    demo.queue(max_size=_LONGEST_QUEUE)
    return demo


def _view(language: str) -> gradio.HTML:
    """Where answers are drawn; `language` is that of translations."""
    import gradio as gr

    html, css, js = (
        files(__package__).joinpath(f"attention.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
    )
    return gr.HTML(html_template=html, css_template=css, js_on_load=js, apply_default_css=False, lang=language)


def launch(demo: gradio.Blocks, *, host: str | None = None, port: int | None = None) -> str:
    """Serves the page in the background and returns its address; `demo.block_thread()` waits for Ctrl-C.

    Args:
        demo: From `create_demo`.
        host: Address to listen at; None takes that of the variable GRADIO_SERVER_NAME, or 127.0.0.1, this machine
            alone.
        port: Port to listen at; None takes that of the variable GRADIO_SERVER_PORT, or the first free one from 7860.

    Raises:
        OSError: The port is in use, or the host is none of this machine.
        ValueError: `port` is no port.
    """
    check_gradio()
    import gradio as gr
    from starlette.middleware import Middleware  # gradio's server is made of it

    if host is not None and port is not None:
        check_address(host, port)
    # Fonts of the visitor's own system.
    theme = gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])
    demo.launch(
        server_name=f"[{host}]" if host and ":" in host else host,
        server_port=port,
        theme=theme.set(**_COLORS),
        css=_CSS,
        footer_links=[],
        share=False,
        ssr_mode=False,
        pwa=False,
        run_history=False,
        enable_monitoring=False,
        app_kwargs={"middleware": [Middleware(_WithoutFiles)]},
        prevent_thread_lock=True,
        quiet=True,
    )
    return str(demo.local_url).rstrip("/")


class _WithoutFiles:
    """The server without routes for files: the page has none, so nobody is to leave any here."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answers what asks for such a route with 404, and passes on the rest."""
        if scope["type"] == "http" and any(route in scope["path"] for route in _FILE_ROUTES):
            await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
        else:
            await self.app(scope, receive, send)


def check_address(host: str, port: int) -> None:
    """Raises unless a server can listen at an address; see `launch`."""
    if not 1 <= port <= 65535:
        raise ValueError(f"`port` must lie in [1, 65535], got {port}. The usual one is 7860.")
    try:
        (family, kind, protocol, _, place), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise OSError(f"`host` must be an address of this machine, got {host!r} ({error.strerror}).") from error
        raise OSError(
            f"`port` must be free at {host}, got {port} ({error.strerror}). End what uses it, or pass another port."
        ) from error


def check_gradio() -> None:
    """Raises ImportError if gradio is missing: before a model is loaded to be shown."""
    with requiring("demo", "to show the page"):
        import gradio  # noqa: F401


def _language(code: str | None) -> str:
    return _LANGUAGES.get(code or "", code or "")


def _as_text(text: str) -> str:
    """Markdown that shows a text as it is: a model's config may hold pictures and links of anybody's."""
    return re.sub(r"([^\w\s])", r"\\\1", " ".join(text.split()))


def _shown_name(name_or_path: str) -> str:
    """The id of a model of the Hub, or the name of a folder without where it lies."""
    path = Path(name_or_path)
    return path.resolve().name if path.is_dir() else name_or_path
