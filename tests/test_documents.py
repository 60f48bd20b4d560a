# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Texts of several sentences and lines: split, translated sentence by sentence, and put together as
they were.
"""

import random
import re
import time

import pytest
import torch
from transformers import TextStreamer, pipeline

from vaswani_transformer import pipeline_vaswani_transformer as code
from vaswani_transformer.pipeline_vaswani_transformer import MAX_TEXT_BYTES, split_text

KEPT = """\
https://a.bc/d?e=f&g=1#h
https://a.bc/{id}
https://ar.wikipedia.org/wiki/مصر
<img alt="Is it? Yes. It is!">
{{ _("Yes. No.") }}
HTTPS://A.BC/D1
https://en.wikipedia.org/wiki/Attention_(machine_learning)
www.a.bc
ftp://a.bc/d_e~f/
jo.doe+x@mail.a-b.org
{name}
{}
{0}
{user.name}
{x!r}
{price:.2f}
${count}
#{count}
%{count}
{{ name }}
{{x}}
%s
%d
%1$s
%2$d
%.2f
%(kind)s
%(n)d
%05d
%-3s
%@
%lld
%ds
%1$dms
<%= x %>
<b>
</b>
<br/>
<a href="https://a.bc" title='x'>
<a href=https://a.bc title=x>
<x id="1"/>
&amp;
&nbsp;
&#160;
&#xA0;
""".splitlines()


@pytest.fixture
def saying(checkpoint, monkeypatch):
    """Makes a pipeline whose model says what a function of the text does, and the list of texts
    that it saw.
    """

    def make(say):
        pipe = pipeline("translation", model=str(checkpoint))
        seen = []

        def generate(input_ids, num_return_sequences=1, **_):
            texts = pipe.tokenizer.batch_decode(input_ids, skip_special_tokens=True)
            seen.extend(texts)
            said = [say(text) for text in texts for _ in range(num_return_sequences)]
            return torch.nn.functional.pad(
                pipe.tokenizer(said, padding=True, return_tensors="pt").input_ids, (1, 0), value=1
            )

        monkeypatch.setattr(pipe.model, "generate", generate)
        return pipe, seen

    return make


@pytest.fixture
def copying(saying):
    """A pipeline that gives back what it is given, and the texts that its model saw."""
    return saying(lambda text: text)


def without_figures(text):
    """A translation that loses all but letters and full stops, and turns words around, so that all
    are translated.
    """
    return " ".join(word.swapcase() for word in re.sub(r"[^a-zA-Z. ]", "", text).split())


# ---- splitting ----

# Of each text its parts, between "|": what lies in front of the first sentence, the sentence, what
# lies behind it ...
SPLIT = [
    "",
    " \n ",
    "|A dog runs.|",
    "|One.| |Two!|  |Three?|\t|Four\u2026| |Five|",
    "|a|\n|b|\r\n\n |c| ",
    "- |one|\n* |two|\n\t1. |Three.|\n2. |Four|\n(a) |four|",
    '|He said: "Go."| |Then (he) left.)| |"So?"| |Yes|',
    "|Dr. Smith and J. Doe, e.g. No. 5, paid $3.50.| |Then 3.5 more.|",
    "|Am 3. Mai, z. B. um 5 Uhr.| |\u00c4pfel!|",
    "|Wait... what? no. yes|",
    "|It fell to \u22125 \u2264 xy.| |So?|",
    "|Go| \u2192 |there| \u2705",
    "|See https://a.bc/D.E?f=Go.| |Then go|",
    # Lone sentences.
    "|Это стоит 5 тыс. рублей.|",
    "|Das Gebiet inkl. öffentlicher Wege ist groß.|",
    "|On viendra av. été ou après.|",
    "|Tel mám např. čtyři.|",
    "|He left on Jan. 5 and came back on Sept. 3.|",
    "|Am 3. Oktober ist Feiertag.|",
    "|3. Oktober ist Feiertag.|",
    "|Der Betrag von 3 Mio. Euro ist bezahlt.|",
    "|Воду пили в 1999 г. Москва росла.|",
    "|Sra. López y el Sr. García.|",
    "|他说：“你好。”然后走了。|",
    "|‘Mr. Smith is here,’ she said.|",
    "|«Dr. House» est une série.|",
    "|¿Sr. López, viene usted?|",
    "|—Sra. López, pase usted.|",
    "|Роман «А. С. Пушкин и время» вышел.|",
    "|회의는 2024. 3. 15. 서울에서 열린다.|",
    "|Está en EE. UU., según Wu et al. (2017).|",
    "|see nr. 4, prof. Kowalski|",
    "|un roman d'A. Dumas|",
    "|The score was 3–2.| |They CAN’T.| |IT IS.| |In ’89.| |Then|",
    "|Il y en a 194 301.| |De son côté|",
    "|World War II.| |We left.|",
    "① |Open it.| ② |Close it.|",
    "□ |Yes| □ |No|",
    "○ |First.| ○ |Second.|",
    "|डॉ. शर्मा यहाँ हैं।|",
    # A contraction is no initial.
    "|I don't.| |You do.| |It’s Tom’s.| |Take it!|",
    "|Das war 1990.| |Danach ging er.|",
    # Marks of other scripts end sentences.
    "|你好。||再见！||真的？||好|",
    "|〈行く。〉と言った。||［注。］です。|",
    "|今日は。||「はい。」| |元気？|",
    "|هل أنت هنا؟| |نعم.|",
    "|मैं यहाँ हूँ।| |तुम कहाँ हो।|",
    "|کیا آپ یہاں ہیں؟| |جی ہاں۔| |اچھا|",
    "|저는 갔어요.| |오늘 왔어요.|",
    "|Он ушёл.| |Она пришла!|",
    "|¿Qué?| |¡Ándale!|",
    "|ძაღლი გარბის.| |კატა ზის.|",
    "|तो घरात.| |ती आली.|",
    "|அவன் போக.| |அவள் வந்தாள்.|",
    "|Շունը վազում է։| |Կատուն նստած է։|",
    "|ውሻው ይሮጣል።| |ድመቷ ተቀምጣለች።|",
    # Numbers in front of lines are marks of a list if they count.
    "1. |Eins|\n2. |Zwei|\n\n3. |Drei|",
    "|3. Oktober|\n|24. Dezember|",
    "|Termine:|\n|1. Mai|",
]


@pytest.mark.parametrize("parts", SPLIT)
def test_text_is_split_at_lines_and_behind_sentences(parts):
    assert split_text(parts.replace("|", "")) == parts.split("|")


SENTENCES = """\
A dog runs.
Two men read!
Why?
he said no
Mr. X left.
Äpfel 低.
"Yes."
3.5 is more
""".splitlines()
BETWEEN = [*" \n\t\u2028", "  ", "\n\n", "\r\n", " \n - ", "\n1. ", "\n\u2022 ", "\n   \n"]
ODD = [
    *"\x00\x0b\x1c\x85\u200b\u200d\u00ad\u3000\ufffd\u202e\u0301\\,;",  # each character alone
    *"\u1e9e\u0130\u212a\uff1b\u2019\u201c",
    *"e\u0301 \U0001f468\u200d\U0001f469 \U0001f1e9\U0001f1ea".split(" "),
    *"</s> <pad> ##AT## a-b 's (a) STOP".split(),
    "3. ",
    "- ",
]
SCRIPTS = """\
你好。
再见！
「はい。」
元気？
저는 어제 USB를 샀어요.
오늘
मैं यहाँ हूँ।
कहाँ
هل أنت هنا؟
نعم.
Он ушёл.
5 тыс.
STOP THAT
ΕΛΑ ΕΔΩ
Ńie.
ฉันไม่รู้
שלום.
İSTANBUL VE
12:30
٢٠٢٠
1,500.75
""".splitlines()


def random_texts(number, pieces=(*SENTENCES, *BETWEEN, *KEPT, *ODD, *SCRIPTS)):
    """Pieces of many scripts and what breaks things, put together at random."""
    draw = random.Random(0)
    for _ in range(number):
        yield "".join(
            draw.choice(["", " "]) + draw.choice(pieces) for _ in range(draw.randint(1, 9))
        )


def test_parts_of_1000_texts_make_them_up_again():
    for text in random_texts(1000, pieces=[*SENTENCES, *BETWEEN]):
        parts = split_text(text)
        assert "".join(parts) == text and len(parts) % 2 == 1
        assert all(sentence == sentence.strip() != "" for sentence in parts[1::2])
        assert not any("\n" in sentence for sentence in parts[1::2])


@pytest.mark.parametrize(
    "text",
    [
        "a" + " " * 10**5 + "b",
        ". " * 50_000,
        "." + '"' * 10**5,
        "Hello there. " * 8000,
        "1. " * 30_000,
        ".\n" * 30_000,
    ],
)
def test_splitting_takes_time_by_length_alone(text):
    start = time.process_time()
    assert "".join(split_text(text)) == text
    assert time.process_time() - start < 5  # seconds; the square of the length would take hours


# ---- the pipeline ----


@pytest.mark.parametrize("number", [1000, pytest.param(200_000, marks=pytest.mark.heavy)])
def test_texts_of_every_kind_come_back_where_the_translator_copies(copying, number):
    pipe, seen = copying
    texts = list(random_texts(number))
    expected = [{"translation_text": text} for text in texts]
    assert pipe(texts) == expected
    # some texts have nothing to translate
    assert not any("\n" in text for text in seen) and len(seen) > 0.9 * number
    assert pipe(texts, split_sentences=False) == expected
    assert pipe(texts[:99], batch_size=2) == expected[:99]


def test_splitting_can_be_off_from_the_start(checkpoint, translate):
    text = "A dog runs. Two women read."
    other = pipeline("translation", model=str(checkpoint), split_sentences=False)
    ids = other.model.generate(**other.tokenizer(text, return_tensors="pt"))
    whole = other.tokenizer.decode(ids[0], skip_special_tokens=True)
    assert other(text) == [{"translation_text": whole}] != translate(text)
    assert translate(text, split_sentences=False) == other(text)
    assert other(text, split_sentences=True) == translate(text)


def test_several_translations_of_a_document_are_those_of_its_sentences(copying):
    pipe, _ = copying
    assert pipe(["A. B.", "c"], num_return_sequences=3, num_beams=3) == [
        [{"translation_text": "A. B."}] * 3,
        [{"translation_text": "c"}] * 3,
    ]


def test_limit_of_bytes_is_that_of_a_sentence(copying):
    pipe, _ = copying
    text = "A dog runs.\n" * (MAX_TEXT_BYTES // 11)
    assert pipe(text) == [{"translation_text": text}]
    with pytest.raises(ValueError, match="at most 65536 bytes"):
        pipe("A dog.\n" + "a" * (MAX_TEXT_BYTES + 1))


def test_a_prefix_that_is_no_text_is_refused(translate):
    with pytest.raises(TypeError, match="`target_prefix`"):
        translate("A.", target_prefix=["Ein"])


# ---- white space ----


SPACES = "\t\r \u00a0\u3000\n"


@pytest.mark.parametrize("split_sentences", [True, False])
def test_white_space_around_a_text_is_not_translated_and_comes_back(copying, split_sentences):
    pipe, seen = copying
    texts = [f"{before}A dog{after}" for before in ["", *SPACES] for after in ["", *SPACES]]
    expected = [{"translation_text": text} for text in texts]
    assert pipe(texts, split_sentences=split_sentences) == expected
    assert [pipe(text, split_sentences=split_sentences)[0] for text in texts] == expected
    assert set(seen) == {"A dog"}


# ---- what stays as it is ----


@pytest.mark.parametrize(
    ("around", "said", "expected"),
    [
        (
            "See KEPT for more.",
            {"See": "Siehe.", "for more.": "f\u00fcr mehr."},
            "Siehe KEPT f\u00fcr mehr.",
        ),
        ("看KEPT吧", {"看": "Look.", "吧": "please。"}, "Look KEPT please"),
        ("See KEPT now", {"See": "Տեսեք։", "now": "ተመልከት።"}, "Տեսեք KEPT ተመልከት"),
        ("See KEPT now", {"See": "ကြည့်ပါ။", "now": "ឥឡូវ។"}, "ကြည့်ပါ KEPT ឥឡូវ"),
        ("ดูที่KEPTนะ", {"ดูที่": "Look at", "นะ": "please"}, "Look at KEPT please"),
        ("看KEPT吧", {"看": "見て", "吧": "ください"}, "見てKEPTください"),
        ("看KEPT吧", {"看": "보", "吧": "세요"}, "보 KEPT 세요"),
        ("KEPT를 보세요.", {"를 보세요.": "is there."}, "KEPT is there."),
        (
            "The file “KEPT” is bad.",
            {"The file": "Die Datei", "is bad.": "ist schlecht."},
            "Die Datei “KEPT” ist schlecht.",
        ),
        ("まず「KEPT」、そして", {"まず": "First", "そして": "then"}, "First 「KEPT」、 then"),
        ("e.g. KEPT", {"e.g.": "z. B."}, "z. B. KEPT"),
        ("Wait KEPT", {"Wait": "Warte..."}, "Warte... KEPT"),
        ("देखो KEPT अब।", {"देखो": "Schau।", "अब।": "jetzt।"}, "Schau KEPT jetzt।"),
        ("See:KEPT; go", {"See": "Siehe", "go": "geh"}, "Siehe:KEPT; geh"),
        ("See <KEPT> now", {"See": "Siehe", "now": "jetzt"}, "Siehe <KEPT> jetzt"),
        ("Смотри, KEPT, сейчас!", {"Смотри,": "Sieh,", "сейчас!": "jetzt!"}, "Sieh, KEPT, jetzt!"),
    ],
)
def test_sentence_is_translated_around_what_its_translation_lost(saying, around, said, expected):
    pipe, seen = saying(lambda text: said.get(text, "Verloren."))
    texts = [around.replace("KEPT", kept) for kept in KEPT]
    for text, kept in zip(texts, KEPT, strict=True):
        assert pipe(text) == [{"translation_text": expected.replace("KEPT", kept)}]
    assert set(seen) == {*texts, *said}
    assert pipe(texts, split_sentences=False) == [{"translation_text": "Verloren."}] * len(texts)


def test_translation_that_copied_it_stands(saying):
    pipe, seen = saying(lambda text: f"Das {text.split(maxsplit=1)[1]} ist gut.")
    texts = [f"See {kept}" for kept in KEPT]
    assert pipe(texts) == [{"translation_text": f"Das {kept} ist gut."} for kept in KEPT]
    assert sorted(seen) == sorted(texts)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Siehe https://ru.wikipedia.org/wiki/Москва!", "https://ru.wikipedia.org/wiki/Москва"),
        (
            "Xem https://vi.wikipedia.org/wiki/Việt_Nam nhé.",
            "https://vi.wikipedia.org/wiki/Việt_Nam",
        ),
        ("տես hy.wikipedia.org, www.x.am/Հայաստան։", "www.x.am/Հայաստան"),
        ("ნახე www.x.ge/საქართველო აქ", "www.x.ge/საქართველო"),
        ("https://x.et/ኢትዮጵያ። ተመልከት", "https://x.et/ኢትዮጵያ"),
        ("Write to jörg.müller@firma.de now", "jörg.müller@firma.de"),
        ("See https://a.bc/{id}/users.", "https://a.bc/{id}/users"),
        ("See https://a.bc's page", "https://a.bc"),
        ("Delete all 3 %s now", "%s"),
        ("看https://a.bc/d吧。再见", "https://a.bc/d"),
        ("写信给jo@a.bc吧", "jo@a.bc"),
        ("Gehe zu (https://a.bc/d), bitte", "https://a.bc/d"),
        ("Иди на https://a.bc/d.", "https://a.bc/d"),
        ("देखो %sमें", "%s"),
        ("Use %.2fMiB, no %%s.", "%.2fMiB"),
    ],
)
def test_what_is_kept_ends_where_its_standard_says(text, kept):
    assert code._around_kept(text, set())[1] == [kept]


NOT_KEPT = """\
I <3 you and you -> like me.
If a < b and c > d then x<y.
It grew by 100% so fast, 5 % did not, %% neither.
50 %der Leute, 20%s, der %-Gehalt, 5-%ige Lösung, %temp%, my%20file.txt, %50si, zehn %ige, der %satz
AT&T; Q&A, Rock&roll
</br/> </b x='y'>
Take { this } and {that one}.
me@home and @you
It costs 1,299.50 on 2026-11-05 at 12:30, see 192.168.100.1.
""".splitlines()


@pytest.mark.parametrize("text", NOT_KEPT)
def test_nothing_else_is_kept(text):
    assert code._around_kept(text, set())[1] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("3亿人", "300 million people"),
        ("في عام ٢٠٢٠", "In 2020"),
        # A copy with a suffix is a copy, and names may change places.
        ("See https://a.bc/d now.", "https://a.bc/d'ye bak."),
        ("See www.a.bc/d or www.a.bc, {x}", "{x}, www.a.bc UND www.a.bc/d"),
        ("See https://a.bc/d now.", "看https://a.bc/d吧"),
    ],
)
def test_translations_are_the_models_own(saying, text, said):
    pipe, seen = saying({text: said}.get)
    assert pipe(text) == [{"translation_text": said}]
    assert seen == [text]


@pytest.mark.parametrize(
    ("text", "said", "expected"),
    [
        ("see www.a.bc now.", "SEE www.a.bcd NOW.", "SEE www.a.bc NOW."),
        ("go %s of %d now.", "GO %d OF %s NOW.", "GO %s OF %d NOW."),
        ("go {x} of {x} now.", "{x} {x} {x}", "GO {x} OF {x} NOW."),
        ("go <b>now</b> all.", "</b>NOW<b> GO ALL.", "GO <b>NOW</b> ALL."),
    ],
)
def test_longer_words_more_copies_and_another_order_are_no_copies(saying, text, said, expected):
    pipe, _ = saying(lambda piece: said if piece == text else piece.upper())
    assert pipe(text) == [{"translation_text": expected}]


@pytest.mark.parametrize("kept", KEPT)
def test_what_is_kept_alone_is_not_translated(saying, kept):
    pipe, seen = saying(lambda text: f"Das ist {text}.")
    assert pipe(f" {kept}. 42\n") == [{"translation_text": f" {kept}. 42\n"}]
    assert set(seen) <= {""}


def test_tokens_of_the_tokenizer_are_left_to_the_model(saying):
    pipe, seen = saying(lambda text: "Gut.")
    pipe.tokenizer.add_tokens(["<de>", "<bt>"])
    texts = ["<de>A dog. A book.", " <bt> STOP THAT https://a.bc ", "A <de> dog."]
    assert [each["translation_text"] for each in pipe(texts)] == ["Gut.", " Gut. ", "Gut."]
    assert sorted(seen) == sorted(text.strip() for text in texts)


@pytest.mark.parametrize(
    ("text", "seen", "found"),
    [
        ("STOP THAT DOG", "Stop that dog", "STOP THAT DOG NOW."),
        ("ДА, ИДИ СЮДА!", "Да, иди сюда!", "ДА, ИДИ СЮДА! NOW."),
        ("ΕΛΑ ΕΔΩ", "Ελα εδω", "ΕΛΑ ΕΔΩ NOW."),
        ("DON’T GO 2 É", "Don’t go 2 é", "DON’T GO 2 É NOW."),
        ("NATO 2025", "NATO 2025", "NATO 2025 now."),
        ("The USA", "The USA", "The USA now."),
        ("저는 어제 USB를 샀어요.", "저는 어제 USB를 샀어요.", "저는 어제 USB를 샀어요. now."),
        ("{}İSTANBUL VE", "{}İSTANBUL VE", "{}İSTANBUL VE now."),
        ("김○○(30) 씨는 제①조, B♭와 ⌘C를 썼다.",) * 2
        + ("김○○(30) 씨는 제①조, B♭와 ⌘C를 썼다. now.",),
        ("I ♥\ufe0e", "I", "I now. ♥\ufe0e"),
        ("♥\ufe0e you", "you", "♥\ufe0e you now."),
        ("😀，”他说。", "他说。", "😀，”他说。 now."),
        ('🔥 "Best one" says Bob', '"Best one" says Bob', '🔥 "Best one" says Bob now.'),
        ("我买了 USB 和 DVD", "我买了 USB 和 DVD", "我买了 USB 和 DVD now."),
    ],
)
def test_capitals_alone_are_translated_as_small_letters_and_come_back_as_capitals(
    saying, text, seen, found
):
    pipe, asked = saying(lambda text: f"{text} now.")
    assert pipe(text) == [{"translation_text": found}]
    assert asked == [seen]


@pytest.mark.parametrize("code", ["tr", "tur_Latn", "kaa", "gag", "chr"])
@pytest.mark.parametrize("side", ["source_language", "target_language"])
def test_capitals_of_a_language_with_its_own_case_are_left_to_the_model(saying, side, code):
    pipe, seen = saying(lambda text: "istanbul ve ışık")
    setattr(pipe.model.config, side, code)
    assert pipe("İSTANBUL VE IŞIK") == [{"translation_text": "istanbul ve ışık"}]
    assert seen == ["İSTANBUL VE IŞIK"]
    assert pipe("KAPI AÇIK") == [{"translation_text": "istanbul ve ışık"}]
    assert seen[1:] == ["KAPI AÇIK"]  # small letters and back give the same capitals


def test_shouted_pieces_come_back_as_capitals(saying):
    pipe, seen = saying(without_figures)
    assert pipe("CALL {NAME} NOW") == [{"translation_text": "CALL {NAME} NOW"}]
    assert set(seen) == {"Call {name} now", "Call", "Now"}


@pytest.mark.parametrize(
    ("text", "said", "expected"),
    [
        ("你好。再见！", {"你好。": "Hello.", "再见！": "Goodbye!"}, "Hello. Goodbye!"),
        (
            "你好\U0001f600再见\U0001f600",
            {"你好": "Hello", "再见": "Goodbye"},
            "Hello \U0001f600 Goodbye \U0001f600",
        ),
        ("「はい。」元気？", {"「はい。」元気？": "Yes. How are you?"}, "Yes. How are you?"),
        ("你好。再见！", {"你好。": "今日は。", "再见！": "さようなら！"}, "今日は。さようなら！"),
        ("Hi. Bye!", {"Hi.": "你好。", "Bye!": "再见！"}, "你好。 再见！"),
        # Korean has spaces between words.
        ("你好\U0001f600再见", {"你好": "안녕", "再见": "잘 가"}, "안녕 \U0001f600 잘 가"),
        ("안녕\U0001f600잘 가", {"안녕": "你好", "잘 가": "再见"}, "你好\U0001f600再见"),
        ("안녕\U0001f600잘 가", {"안녕": "안녕", "잘 가": "잘 가"}, "안녕\U0001f600잘 가"),
    ],
)
def test_sentences_that_touched_have_a_space_between_them_in_other_scripts(
    saying, text, said, expected
):
    pipe, _ = saying(said.get)
    assert pipe(text) == [{"translation_text": expected}]


def test_symbols_and_broken_characters_stay_and_are_not_translated(saying):
    pipe, seen = saying(str.upper)
    assert pipe("\U0001f469\u200d\U0001f52c hi 1\ufe0f\u20e3#\u20e3 there \ufffd\x07") == [
        {"translation_text": "\U0001f469\u200d\U0001f52c HI 1\ufe0f\u20e3#\u20e3 THERE \ufffd\x07"}
    ]
    assert pipe("hi \ud83d there") == [{"translation_text": "HI \ud83d THERE"}]
    assert set(seen) == {"hi", "there"}


def test_text_without_letters_stays_as_it_is(saying):
    pipe, seen = saying(str.lower)
    texts = ["12:30", "...", "\U0001f600", "?!\n--\n42"]
    assert [each["translation_text"] for each in pipe(texts)] == texts
    assert set(seen) <= {""}


def test_every_translation_is_completed_and_its_words_have_no_scores_then(saying):
    pipe, _ = saying(without_figures)
    found = pipe(["Go to {x}.", "Go."], num_return_sequences=2, return_scores=True)
    assert [each["translation_text"] for each in found[0]] == ["gO TO {x}."] * 2
    assert [(each["score"], each["words"]) for each in found[0]] == [(None, [])] * 2
    assert all(each["words"] for each in found[1])


@pytest.mark.parametrize(
    "text", ["a" * 5000, "\u4e2d" * 5000, "\x00\xff\x80" * 300, "%s {} <> @ http:// 1", "<" * 3000]
)
def test_odd_text_is_answered_soon(saying, text):
    pipe, _ = saying(lambda text: "no")
    start = time.process_time()
    assert isinstance(pipe(text)[0]["translation_text"], str)
    assert time.process_time() - start < 5


# ---- streaming ----


def test_streamer_gets_the_words_of_every_sentence_as_they_are_found(translate):
    class Parts(TextStreamer):
        def on_finalized_text(self, text, stream_end=False):
            parts.append(text)

    parts = []
    streamer = Parts(translate.tokenizer, skip_special_tokens=True)
    first, second = translate(["A dog runs.", "Two women read."], num_beams=1)
    found = translate("A dog runs.\nTwo women read.", num_beams=1, streamer=streamer)
    assert found == [
        {"translation_text": f"{first['translation_text']}\n{second['translation_text']}"}
    ]
    assert "".join(parts) == first["translation_text"] + second["translation_text"]
    assert len([part for part in parts if part]) > 3


# ---- prefixes ----


@pytest.mark.parametrize("num_beams", [1, 4])
def test_prefix_begins_the_translation_of_the_exact_search(translate, num_beams):
    text = "A dog runs. Two women read."
    tokenizer = translate.tokenizer
    model = translate.model
    for prefix in ("Ein H", "Zwei Frauen ", "\u00c4", ""):
        ids = tokenizer(prefix.rstrip())["input_ids"][:-1]
        found = model.generate(
            **tokenizer(text, return_tensors="pt"),
            decoder_input_ids=torch.tensor([[1, *ids]]),
            num_beams=num_beams,
        )
        expected = tokenizer.decode(found[0], skip_special_tokens=True)
        assert expected.startswith(prefix.rstrip())
        assert translate(text, target_prefix=prefix, num_beams=num_beams) == [
            {"translation_text": expected}
        ]
    several = translate(
        ["A dog runs.", "Two women read.", ""], target_prefix="Ein", num_beams=num_beams
    )
    assert [each["translation_text"][:3] for each in several] == ["Ein", "Ein", ""]


# ---- confidence ----


def test_scores_are_means_of_the_log_probabilities_that_the_search_found(translate):
    texts = ["A dog runs.", "Two women read a book."]
    options = {"num_return_sequences": 2, "length_penalty": 0.0}
    found = translate([*texts, ""], return_scores=True, **options)
    assert found.pop() == [{"translation_text": "", "score": None, "words": []}] * 2
    for text, translations in zip(texts, found, strict=True):
        inputs = translate.tokenizer(text, return_tensors="pt")
        own = translate.model.generate(**inputs, **options, return_dict_in_generate=True)
        counts = (own.beam_indices >= 0).sum(dim=1)
        assert [each["score"] for each in translations] == pytest.approx(
            (own.sequences_scores / counts).tolist(), abs=1e-4
        )
        for each in translations:
            assert "".join(word["word"] for word in each["words"]) == each[
                "translation_text"
            ].replace(" ", "")


def test_a_missing_translation_has_no_score(translate):
    end = translate.tokenizer.eos_token_id
    options = {"num_return_sequences": 2, "prefix_allowed_tokens_fn": lambda *_: [end]}
    found = translate("A dog runs.", return_scores=True, **options)
    assert found[1] == {"translation_text": "", "score": None, "words": []}


def test_document_has_the_words_and_the_mean_score_of_its_sentences_which_keep_theirs(translate):
    texts = ["A dog runs.", "Two women read."]
    (document,) = translate("\n".join(texts), return_scores=True)
    first, second = document["sentences"]
    assert document["words"] == first["words"] + second["words"]
    assert document["score"] == pytest.approx((first["score"] + second["score"]) / 2)
    for found, alone in zip((first, second), translate(texts, return_scores=True), strict=True):
        assert found["translation_text"] == alone["translation_text"]
        assert found["score"] == pytest.approx(alone["score"], abs=1e-5)
