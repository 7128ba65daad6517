"""Markdown becomes HTML that reads well and cannot harm."""

import json
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.markdown import LONGEST_RENDERED, to_html

pytestmark = pytest.mark.once

HOSTILE: list[str] = json.loads((Path(__file__).parent / "hostile.json").read_text(encoding="utf-8"))
HARMLESS_TAGS = """
    a blockquote br code del div em h1 h2 h3 h4 h5 h6 hr li ol p pre s span strong table tbody td th thead tr
    ul
""".split()  # noqa: SIM905 - as words it can be read
HARMLESS_ATTRIBUTES = {"class", "href", "rel", "target", "start", "title", "value"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.harm: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in HARMLESS_TAGS:
            self.harm.append(tag)
        for name, value in attrs:
            if name not in HARMLESS_ATTRIBUTES:
                self.harm.append(f"{tag} {name}")
            if name == "href" and not str(value).startswith(("http://", "https://", "mailto:")):
                self.harm.append(f"{tag} href={value}")

    def handle_data(self, data: str) -> None:
        self.words += data

    def handle_comment(self, data: str) -> None:
        self.harm.append("comment")


def _read(html: str) -> _Reader:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader


def test_there_are_enough_hostile_texts() -> None:
    assert len(set(HOSTILE)) >= 40


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markdown_is_harmless(text: str) -> None:
    assert _read(to_html(text)).harm == []


@given(st.text(alphabet=st.sampled_from("<>\"'&;:/!()[]`*_~|#-=\\$ \n\tabjscript#x0"), max_size=120))
def test_no_text_makes_anything_but_harmless_html(text: str) -> None:
    assert _read(to_html(text)).harm == []


def test_raw_html_is_shown_as_the_text_it_is() -> None:
    assert "<b>bold</b>" in _read(to_html("so <b>bold</b>")).words


def test_a_picture_of_another_host_is_a_link_and_is_not_loaded() -> None:
    html = to_html("![a cat](https://example.org/cat.png)")
    assert "<img" not in html
    assert 'href="https://example.org/cat.png"' in html
    assert "a cat" in html


def test_a_link_opens_elsewhere_and_tells_nothing() -> None:
    html = to_html("[x](https://example.org)")
    assert 'target="_blank"' in html
    assert 'rel="noopener noreferrer nofollow"' in html


def test_code_is_highlighted_by_classes() -> None:
    html = to_html('```python\ndef f(): return "x"\n```')
    assert '<span class="c-k">def</span>' in html
    assert "style=" not in html


LATE_IMPORTS = """
import sys
from web import markdown
known = set(sys.modules)
for language in markdown._LANGUAGES.split():
    code = "<?php echo strlen('a'); ?> let a = string.format(1) # { color: red } <script>var a</script>"
    markdown.to_html(f"```{language}\\n{code}\\n```")
print(sorted(set(sys.modules) - known))
"""


def test_a_render_in_a_thread_of_its_own_imports_nothing() -> None:
    ran = subprocess.run([sys.executable, "-c", LATE_IMPORTS], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


def test_code_keeps_every_character() -> None:
    code = "  <a>\n\n\tif x && y:\n\n"
    assert _read(to_html(f"```python\n{code}```")).words.startswith(code)


def test_a_table_keeps_its_alignment_without_styles() -> None:
    html = to_html("| a | b |\n|:--|--:|\n| 1 | 2 |")
    assert '<td class="align-right">2</td>' in html
    assert "style=" not in html


@pytest.mark.parametrize(
    "text", ["$a_1 * b_2 * c$", "\\(a_1 * b_2 * c\\)", "$$\na_1 * b_2 * c\n$$", "\\[\na_1 * b_2 * c\n\\]"]
)
def test_mathematics_is_left_as_it_was_written(text: str) -> None:
    html = to_html(text)
    assert "a_1 * b_2 * c" in html
    assert "math" in html


def test_money_is_no_mathematics() -> None:
    assert "math" not in to_html("It costs $5 here and $6 there.")


def test_a_list_keeps_its_numbers() -> None:
    assert '<ol start="3">' in to_html("3. c\n4. d")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 20_000,
        "*a " * 6_000,
        "`" * 20_000,
        "> " * 10_000,
        "![](" * 5_000,
        "$" * 20_000,
        "|" * 20_000,
        "- " * 10_000,
    ],
    ids=["brackets", "stars", "backticks", "quotes", "images", "dollars", "pipes", "lists"],
)
def test_a_text_made_to_be_slow_is_not(text: str) -> None:
    began = time.process_time()
    to_html(text)
    assert time.process_time() - began < 2


def test_a_very_long_block_is_shown_as_it_is() -> None:
    text = "<b>*a*\n" * LONGEST_RENDERED
    assert _read(to_html(text)).words == text
