# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""The demo's page in a browser, end to end."""

import math
import re

import numpy as np
import pytest
from processes import find_port
from tiny import SENTENCES, make_model
from transformers import pipeline

from vaswani_transformer.analysis.attention import attention_maps
from vaswani_transformer.demo import create_demo, launch
from vaswani_transformer.evaluation.scoring import align_pairs
from vaswani_transformer.evaluation.translate import translate_n_best

pytestmark = pytest.mark.slow

SENTENCE, N_BEST = SENTENCES[0], 4
_TIMEOUT = 20_000  # milliseconds, for a machine under load


@pytest.fixture(scope="module")
def address(model, tiny_tokenizer):
    pytest.importorskip("gradio", reason="needs the extra [demo]")
    demo = create_demo(model, tiny_tokenizer, name="tiny")
    yield launch(demo, host="127.0.0.1", port=find_port())
    demo.close(verbose=False)


@pytest.fixture(scope="module")
def visitor(browser):
    """Whose browser keeps the files of the page from one test to the next."""
    context = browser.new_context()
    yield context
    context.close()


@pytest.fixture
def open_page(browser, visitor, address):
    """Opens the page anew, for another visitor where there are options; collects its `requests` and `errors`."""
    to_close = []

    def open_it(**options):
        context = browser.new_context(**options) if options else visitor
        context.set_default_timeout(_TIMEOUT)
        page = context.new_page()
        to_close.append(context if options else page)
        page.requests, page.errors = [], []
        page.on("request", lambda request: page.requests.append(request.url))
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("dialog", lambda dialog: (page.errors.append("dialog"), dialog.dismiss()))
        page.goto(address)
        page.get_by_label("Text in English").wait_for()
        return page

    yield open_it
    for each in to_close:
        each.close()


@pytest.fixture
def page(open_page):
    return open_page()


@pytest.fixture(scope="module")
def shared_page(browser, address):
    """A page with the sentence's answer, for tests that choose and point but type nothing."""
    context = browser.new_context()
    context.set_default_timeout(_TIMEOUT)
    page = context.new_page()
    page.requests = []
    page.on("request", lambda request: page.requests.append(request.url))
    page.goto(address)
    yield ask(page, SENTENCE)
    context.close()


@pytest.fixture
def translated(shared_page):
    """The shared page as the answer showed it first."""
    shared_page.locator(".best label").first.click()
    choose_kind(shared_page, "Cross")
    shared_page.get_by_label("Layer").select_option(str(shared_page.locator(".layer option").count() - 1))
    shared_page.get_by_label("Head").select_option("mean")
    return shared_page


def ask(page, text, shown=".map td[title]"):
    """Types a text, presses Enter and waits for what appears then."""
    box = page.get_by_label("Text in English")
    box.fill(text)
    box.press("Enter")
    page.locator(shown).first.wait_for()
    return page


def wait_for_message(page, pattern):
    page.locator(".message", has_text=re.compile(pattern)).wait_for()


def cells(page):
    """Weights of the map as its cells tell them, (R, C)."""
    rows = page.eval_on_selector_all(
        ".map tbody tr", "rows => rows.map(r => [...r.querySelectorAll('td')].map(c => c.title))"
    )
    return np.array([[float(title.rsplit(": ", 1)[1]) for title in row] for row in rows])


def is_shown(page, expected):
    """Whether the cells are these weights, to a byte and to the two digits of their text."""
    found = cells(page)
    return found.shape == expected.shape and np.abs(found - expected).max() <= 0.5 / 255 + 0.005 + 1e-9


def choose_kind(page, name):
    page.get_by_role("radio", name=name, exact=True).check(force=True)


@pytest.fixture(scope="module")
def n_best(model, tiny_tokenizer):
    (hypotheses,) = translate_n_best(model, tiny_tokenizer, [SENTENCE], N_BEST)
    return hypotheses


@pytest.fixture(scope="module")
def maps(model, tiny_tokenizer, n_best):
    return attention_maps(model, tiny_tokenizer, SENTENCE, n_best[0].text)


# ---- translations ----


def test_enter_shows_the_translation_of_the_pipeline(translated, model, tiny_tokenizer):
    (expected,) = pipeline("translation", model=model, tokenizer=tiny_tokenizer, device="cpu")([SENTENCE])
    assert translated.locator(".translation").inner_text() == expected["translation_text"]


def test_button_translates_an_example(page, model, tiny_tokenizer):
    page.get_by_role("button", name="Why did you sell your old car?").click()
    page.get_by_role("button", name="Translate").click()
    page.locator(".map td[title]").first.wait_for()
    ((best,),) = translate_n_best(model, tiny_tokenizer, ["Why did you sell your old car?"], 1)
    assert page.locator(".translation").inner_text() == best.text


def test_table_lists_the_n_best_with_their_figures(translated, n_best):
    rows = translated.eval_on_selector_all(
        ".best tbody tr", "rows => rows.map(r => [...r.cells].map(c => c.innerText))"
    )
    found = [[row[0].strip(), *map(float, row[1:])] for row in rows]
    assert [row[0] for row in found] == [each.text for each in n_best]
    figures = [[each.score, each.log_prob, each.length] for each in n_best]
    assert np.array([row[1:] for row in found]) == pytest.approx(np.array(figures), abs=0.0011)


def test_choosing_another_translation_shows_its_attention(translated, n_best, model, tiny_tokenizer):
    translated.locator(".best label").nth(1).click()
    maps = attention_maps(model, tiny_tokenizer, SENTENCE, n_best[1].text)
    assert translated.locator(".map tbody th").all_inner_texts() == maps.predicted_tokens
    assert is_shown(translated, maps.cross[-1].mean(axis=0))


def test_second_sentence_replaces_the_first(page, model, tiny_tokenizer):
    translated = ask(page, SENTENCE)
    ((best,),) = translate_n_best(model, tiny_tokenizer, [SENTENCES[2]], 1)
    ask(translated, SENTENCES[2])
    translated.locator(".translation", has_text=re.compile(f"^{re.escape(best.text)}$")).wait_for()
    columns = translated.locator(".map thead th").evaluate_all("all => all.map(each => each.title)")
    assert columns == attention_maps(model, tiny_tokenizer, SENTENCES[2], best.text).source_tokens


def test_sentence_typed_while_another_is_translated_is_translated_then(page, model, tiny_tokenizer):
    ((best,),) = translate_n_best(model, tiny_tokenizer, [SENTENCES[2]], 1)
    for sentence in (SENTENCES[0], SENTENCES[2]):
        page.get_by_label("Text in English").fill(sentence)
        page.get_by_label("Text in English").press("Enter")
    page.locator(".translation", has_text=re.compile(f"^{re.escape(best.text)}$")).wait_for()


# ---- sentence by sentence ----

TEXT = f"{SENTENCES[0]}\n\n- {SENTENCES[2]}"


@pytest.fixture(scope="module")
def paragraph(browser, address):
    """A page with the answer to a text of two sentences."""
    context = browser.new_context()
    context.set_default_timeout(_TIMEOUT)
    page = context.new_page()
    page.goto(address)
    page.get_by_label("Text in English").fill(TEXT)
    page.get_by_role("button", name="Translate").click()
    page.locator(".map td[title]").first.wait_for()
    yield page
    context.close()


def words(page, row, column):
    return page.locator(f".pairs tbody tr:nth-child({row + 1}) td:nth-child({column + 1}) .word")


def test_paragraph_is_shown_whole_and_sentence_by_sentence(paragraph, model, tiny_tokenizer):
    (expected,) = pipeline("translation", model=model, tokenizer=tiny_tokenizer, device="cpu")([TEXT])
    assert paragraph.locator(".translation").text_content() == expected["translation_text"]
    first, _, second = expected["translation_text"].partition("\n\n- ")
    for row, (source, target) in enumerate([(SENTENCES[0], first), (SENTENCES[2], second)]):
        assert words(paragraph, row, 0).all_inner_texts() == source.split()
        assert words(paragraph, row, 1).all_inner_texts() == target.split()


def test_choosing_a_sentence_shows_its_translations_and_attention(paragraph, model, tiny_tokenizer):
    for place in (1, 0):
        paragraph.get_by_role("radio", name=f"Sentence {place + 1}").check()
        ((best, *others),) = translate_n_best(model, tiny_tokenizer, [SENTENCES[2 * place]], N_BEST)
        assert paragraph.locator(".best td:first-child").all_inner_texts() == [each.text for each in (best, *others)]
        maps = attention_maps(model, tiny_tokenizer, SENTENCES[2 * place], best.text)
        assert is_shown(paragraph, maps.cross[-1].mean(axis=0))


def test_word_tells_its_probability_and_what_it_is_aligned_with(paragraph, model, tiny_tokenizer):
    ((best,),) = translate_n_best(model, tiny_tokenizer, [SENTENCES[0]], 1)
    (pairs,) = align_pairs(model, tiny_tokenizer, [SENTENCES[0]], [best.text])
    for place, word in enumerate(best.words):
        (partner,) = (SENTENCES[0].split()[source] for source, target in pairs if target == place)
        name = f"{word['word']}; aligned with {partner}; probability {math.exp(word['score']):.2f}"
        assert words(paragraph, 0, 1).nth(place).get_attribute("aria-label") == name
        weight = words(paragraph, 0, 1).nth(place).evaluate("each => each.style.getPropertyValue('--weight')")
        assert float(weight) == pytest.approx(1 - math.exp(word["score"]), abs=0.001)


def test_pointing_at_a_word_marks_those_it_is_aligned_with(paragraph, model, tiny_tokenizer):
    ((best,),) = translate_n_best(model, tiny_tokenizer, [SENTENCES[0]], 1)
    (pairs,) = align_pairs(model, tiny_tokenizer, [SENTENCES[0]], [best.text])
    marked = "all => all.flatMap((each, place) => each.classList.contains('on') ? [place] : [])"
    for side in (0, 1):
        chosen = pairs[-1][side]
        words(paragraph, 0, side).nth(chosen).hover()
        assert words(paragraph, 0, side).evaluate_all(marked) == [chosen]
        assert words(paragraph, 0, 1 - side).evaluate_all(marked) == sorted(
            {pair[1 - side] for pair in pairs if pair[side] == chosen}
        )
        assert words(paragraph, 1, 0).evaluate_all(marked) == []


def test_screen_reader_hears_sentences_words_and_what_they_are(paragraph):
    heard = paragraph.locator(".pairs").aria_snapshot()
    assert 'table "Sentence by sentence"' in heard
    assert heard.count("- row ") == 3 and heard.count("- toolbar") == 4
    assert 'columnheader "Translation"' in heard
    assert re.search(r'toolbar "Translation 2":\n +- button ".*; aligned with .*; probability [01]\.\d\d"', heard)
    assert paragraph.locator(".translation").get_attribute("aria-live") == "polite"


def test_keyboard_moves_over_the_words(paragraph):
    words(paragraph, 0, 0).first.focus()
    paragraph.keyboard.press("ArrowRight")
    assert words(paragraph, 0, 0).nth(1).evaluate("each => each === document.activeElement")
    told = words(paragraph, 0, 0).nth(1).get_attribute("aria-label")
    assert paragraph.locator("#pairs-hint").inner_text() == f"{told}."
    paragraph.keyboard.press("Tab")
    assert words(paragraph, 0, 1).first.evaluate("each => each === document.activeElement")


# ---- the map ----


def test_first_map_is_the_last_layers_cross_attention(translated, maps):
    assert is_shown(translated, maps.cross[-1].mean(axis=0))


@pytest.mark.parametrize(("name", "field"), [("Cross", "cross"), ("Encoder", "encoder"), ("Decoder", "decoder")])
def test_each_kind_layer_and_head_has_its_map(name, field, translated, maps):
    choose_kind(translated, name)
    weights = getattr(maps, field)
    for layer in range(weights.shape[0]):
        translated.get_by_label("Layer").select_option(str(layer))
        for head in range(weights.shape[1]):
            translated.get_by_label("Head").select_option(str(head))
            assert is_shown(translated, weights[layer, head])


def test_choosing_asks_the_server_nothing(translated):
    before = len(translated.requests)
    choose_kind(translated, "Decoder")
    translated.get_by_label("Layer").select_option("0")
    translated.get_by_label("Head").select_option("1")
    assert translated.requests[before:] == []


def test_cell_tells_its_weight_when_pointed_at(translated, maps):
    translated.locator(".map td[data-row='1'][data-column='2']").hover()
    weight = maps.cross[-1].mean(axis=0)[1, 2]
    found = re.fullmatch(r"“(.*)” attends to “(.*)” with weight (.*)\.", translated.locator(".readout").inner_text())
    assert found.groups()[:2] == (maps.predicted_tokens[1], maps.source_tokens[2])
    assert float(found[3]) == pytest.approx(weight, abs=0.008)


def highlighted(page, side):
    """Weights that the tokens of a side show, by their numbers; those that round to 0 show none."""
    chips = page.locator(f".tokens[data-side={side}] button")
    return np.array(
        [float(text or 0) for text in chips.evaluate_all("all => all.map(each => each.lastChild.textContent)")]
    )


def test_pointing_at_a_target_token_marks_what_it_attends_to(translated, maps):
    translated.locator(".tokens[data-side=row] button").nth(1).hover()
    assert highlighted(translated, "column") == pytest.approx(maps.cross[-1].mean(axis=0)[1], abs=0.008)


def test_pointing_at_a_source_token_marks_what_attends_to_it(translated, maps):
    translated.locator(".tokens[data-side=column] button").nth(2).hover()
    assert highlighted(translated, "row") == pytest.approx(maps.cross[-1].mean(axis=0)[:, 2], abs=0.008)


# Relative luminance and contrast of WCAG 2, over the cells and tokens with text.
_CONTRAST = """all => {
  const channel = c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const canvas = document.createElement("canvas").getContext("2d");
  const luminance = color => {
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(v => channel(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const solid = node => {
    for (; node; node = node.parentElement) {
      const color = getComputedStyle(node).backgroundColor;
      if (!/rgba.*, 0[)]|transparent/.test(color)) return color;
    }
    return "white";
  };
  return all.filter(each => each.textContent && each.offsetParent).map(each => {
    const [a, b] = [luminance(getComputedStyle(each).color), luminance(solid(each))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_on_every_colour(scheme, open_page):
    page = ask(open_page(color_scheme=scheme), SENTENCE)
    page.evaluate(
        "() => document.querySelectorAll('.map td[title]').forEach((cell, index) => {"
        "const weight = (index % 101) / 100; cell.textContent = weight; cell.style.setProperty('--weight', weight);"
        "cell.classList.toggle('over-half', weight >= 0.52); cell.classList.toggle('strong', weight >= 0.69) })"
    )
    nodes = (
        ".map td, .map th, .token, .word, .best td, .best th, .readout, .legend, h2, h3, button, label span, caption"
    )
    assert min(page.eval_on_selector_all(nodes, _CONTRAST)) >= 4.5


# ---- what is typed ----


def test_empty_text_gets_a_hint(page):
    page.get_by_role("button", name="Translate").click()
    wait_for_message(page, "^Type a sentence to translate.$")


def test_hint_replaces_an_older_answer(page):
    translated = ask(page, SENTENCE)
    translated.get_by_label("Text in English").fill("   ")
    translated.get_by_role("button", name="Translate").click()
    wait_for_message(translated, "^Type a sentence to translate.$")
    assert translated.locator(".answer").is_hidden()


def test_text_over_the_limit_is_refused_on_the_page(page):
    ask(page, "dog " * 600, ".message")
    wait_for_message(page, "tokens; the page takes up to 512")


def test_long_text_is_translated_without_a_map(page):
    ask(page, "dog " * 70, ".note:not(:empty)")
    assert "attention is shown for up to 100" in page.locator(".note").inner_text()
    assert page.locator(".translation").is_visible()
    assert page.locator(".attention").is_hidden()


def test_markup_stays_text(page):
    markup = "A dog <img src=x onerror=alert(1)> runs."
    ask(page, markup)
    assert page.errors == []
    assert page.locator("img[src=x]").count() == 0
    tokens = page.locator(".tokens[data-side=column] button").evaluate_all(
        "all => all.map(e => e.firstChild.textContent)"
    )
    assert "".join(token.removeprefix("##").strip("␣") for token in tokens) == markup.replace(" ", "") + "</s>"


def test_odd_text_breaks_nothing(page):
    ask(page, "a\n🐕 كلب\n\u202ea\u0007 ${x} {{y}} `z`")
    assert page.errors == []


# ---- how it is reached ----


def test_page_asks_no_other_host(translated):
    hosts = {url.split("/")[2] for url in translated.requests if not url.startswith(("data:", "blob:"))}
    assert {host.split(":")[0] for host in hosts} == {"127.0.0.1"}


@pytest.mark.parametrize("width", [320, 360])
def test_phone_needs_no_scrolling_to_the_side(open_page, width):
    page = ask(open_page(viewport={"width": width, "height": 740}, has_touch=True), " ".join(SENTENCES[::2]))
    assert page.evaluate("document.documentElement.scrollWidth") == width
    # The page clips what sticks out, so each part is asked, too; the map scrolls in a box of its own.
    outside = (
        "(all, right) => all.filter(e => !e.closest('.map') && e.offsetParent)"
        ".filter(e => e.getBoundingClientRect().right > right).length"
    )
    right = page.get_by_role("button", name="Translate").bounding_box()
    assert page.eval_on_selector_all(".answer *, button, textarea", outside, right["x"] + right["width"] + 1) == 0


def test_phone_has_controls_that_a_finger_hits(open_page):
    page = ask(open_page(viewport={"width": 360, "height": 740}, has_touch=True), SENTENCE)
    controls = "textarea, button, select, .best label, fieldset label"
    heights = page.eval_on_selector_all(
        controls, "all => all.filter(e => e.offsetParent).map(e => [e.offsetHeight, e.outerHTML.slice(0, 80)])"
    )
    assert [each for each in heights if each[0] < 40] == []


def test_keyboard_alone_reaches_everything(page, maps):
    focused = "() => document.activeElement"

    def tab_to(condition):
        for _ in range(12):
            page.keyboard.press("Tab")
            if page.evaluate(f"() => (e => {condition})(document.activeElement)"):
                return
        pytest.fail(f"Tab does not reach {condition}")

    tab_to("e.tagName === 'TEXTAREA'")
    page.keyboard.type(SENTENCE)
    page.keyboard.press("Enter")
    page.locator(".map td[title]").first.wait_for()
    tab_to("e.name === 'translation'")
    page.keyboard.press("ArrowDown")
    assert page.locator(".best tbody tr").nth(1).locator("input").is_checked()
    page.keyboard.press("ArrowUp")
    tab_to("e.name === 'kind'")
    tab_to("e.className === 'layer'")
    tab_to("e.className === 'head'")
    tab_to("e.parentElement.dataset.side === 'row'")
    page.keyboard.press("ArrowRight")
    assert highlighted(page, "column") == pytest.approx(maps.cross[-1].mean(axis=0)[1], abs=0.008)
    tab_to("e.parentElement.dataset.side === 'column'")
    tab_to("e.tagName === 'TD'")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert page.evaluate(
        focused + " && [document.activeElement.dataset.row, document.activeElement.dataset.column]"
    ) == ["1", "2"]
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_controls_have_names(translated):
    is_named = "e.labels?.length || e.textContent.trim() || e.title || e.ariaLabel"
    unnamed = f"all => all.filter(e => !({is_named})).map(e => e.outerHTML)"
    assert translated.eval_on_selector_all("input, select, textarea, button, [role=gridcell]", unnamed) == []


def test_browser_keeps_nothing_of_what_was_typed(translated):
    assert translated.evaluate("indexedDB.databases()") == []
    assert SENTENCE not in translated.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")


def test_markup_in_a_models_config_and_name_stays_text(browser, tiny_tokenizer):
    pytest.importorskip("gradio", reason="needs the extra [demo]")
    evil = "`</title></script><img src='http://192.0.2.1/x' onerror=alert(1)> ![](http://192.0.2.1/y)"
    demo = create_demo(make_model(source_language=evil, target_language=evil), tiny_tokenizer, name=evil)
    address, seen = launch(demo, host="127.0.0.1", port=find_port()), []
    try:
        page = browser.new_page()
        page.on("request", lambda request: seen.append(request.url))
        page.on("dialog", lambda dialog: (seen.append("dialog"), dialog.dismiss()))
        page.goto(address)
        page.get_by_role("heading", level=1).wait_for(timeout=_TIMEOUT)
        heading = page.get_by_role("heading", level=1).inner_text()
        assert page.locator("img").count() == 0
        page.close()
    finally:
        demo.close(verbose=False)
    assert heading == f"{evil} to {evil}"
    assert [url for url in seen if not url.startswith((address, "data:", "blob:"))] == []
