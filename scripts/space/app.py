# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""A page that translates with a model and shows what it attends to, on this machine or as a Space
of the Hub.

python scripts/space/app.py --model runs/my-model

It loads nothing from other servers and keeps nothing of what is typed. It needs this package and
gradio.
"""

import argparse
import os
import re
import threading
from pathlib import Path

import gradio as gr
from answers import answer

from vaswani_transformer.inference.loading import load_for_inference
from vaswani_transformer.inference.translate import decoding_config

HERE = Path(__file__).parent
LANGUAGES = {
    "cs": "Czech",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
}
EXAMPLES = {
    "de": ["Warum hast du dein altes Auto verkauft?", "Meine Schwester möchte Deutsch lernen."],
    "en": ["Why did you sell your old car?", "My sister wants to learn German."],
    "fr": ["Pourquoi as-tu vendu ta vieille voiture ?", "Ma sœur veut apprendre l'allemand."],
}
# Where gradio's theme is too faint to read or too small to tap.
COLORS = {
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
CSS = ".html-container { padding: 0 !important; } button.gallery-item { min-height: 44px; }"


def create_page(model, tokenizer, name, num_best):
    """Return the page of a model in eval mode, a `gr.Blocks`.

    Args:
        model: From `load_for_inference`.
        tokenizer: Saved with the model.
        name: What the page calls the model.
        num_best: Translations shown of each sentence, or as many as beams if those are fewer.
    """
    config = model.config
    num_best = min(num_best, decoding_config(model).num_beams)
    source, target = (
        LANGUAGES.get(code, code) for code in (config.source_language, config.target_language)
    )
    heading = f"{source} to {target}" if config.language_pair else "Translation"
    is_free = threading.Lock()

    def translate(text):
        with is_free:  # gradio's limit does not hold for requests that pass its queue by
            return answer(model, tokenizer, text or "", num_best)

    page = gr.Blocks(title=f"{heading}, {name}", analytics_enabled=False)
    with page:
        # Escaped: a downloaded model's config may hold markup, with pictures and links to anywhere.
        escaped, code = (
            re.sub(r"([^\w\s])", r"\\\1", " ".join(heading.split())),
            name.replace("`", "'"),
        )
        gr.Markdown(f"# {escaped}\n`{code}`, the Transformer of *Attention Is All You Need*")
        box = gr.Textbox(
            label=f"Text in {source}" if source else "Text",
            placeholder="Type a sentence or a paragraph and press Enter",
            max_lines=8,
            html_attributes=gr.InputHTMLAttributes(lang=config.source_language, enterkeyhint="go"),
        )
        button = gr.Button("Translate", variant="primary")
        if config.source_language in EXAMPLES:
            gr.Examples(EXAMPLES[config.source_language], box, cache_examples=False)
        view = gr.HTML(
            html_template=(HERE / "attention.html").read_text("utf-8"),
            css_template=(HERE / "attention.css").read_text("utf-8"),
            js_on_load=(HERE / "attention.js").read_text("utf-8"),
            apply_default_css=False,
            lang=config.target_language or "",
        )
        gr.Markdown("Nothing that you type is stored.")
        triggers = [box.submit, button.click]
        gr.on(
            triggers,
            translate,
            box,
            view,
            api_name="translate",
            trigger_mode="always_last",
            concurrency_limit=1,
        )
    return page.queue(max_size=100)  # visitors who wait


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    model_id = os.environ.get("MODEL_ID")  # as a Space has it
    parser.add_argument(
        "--model",
        default=model_id,
        required=not model_id,
        help="folder of a model, or its id on the Hub (default: the variable MODEL_ID)",
    )
    parser.add_argument(
        "--host", help="address to listen at; 0.0.0.0 lets others in (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--port", type=int, help="port to listen at (default: the first free one from 7860)"
    )
    parser.add_argument(
        "--n-best", type=int, default=4, help="translations shown of each sentence (default: 4)"
    )
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")
    args = parser.parse_args()
    model, tokenizer = load_for_inference(args.model, device=args.device)
    is_folder = Path(args.model).is_dir()
    page = create_page(
        model, tokenizer, Path(args.model).resolve().name if is_folder else args.model, args.n_best
    )
    theme = gr.themes.Default(
        font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]
    )
    page.launch(
        server_name=args.host,
        server_port=args.port,
        theme=theme.set(**COLORS),
        css=CSS,
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
    print(f"open {page.local_url.rstrip('/')} in a browser; Ctrl-C ends it", flush=True)
    page.block_thread()


if __name__ == "__main__":
    main()
