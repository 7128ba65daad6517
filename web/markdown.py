"""Markdown from a model to HTML that cannot harm: tables, highlighted code, mathematics left as written.

Markdown is CommonMark with tables, strikethrough and bare links. HTML inside it is shown as text. The result
carries classes only, no styles and no identifiers; it loads nothing from anywhere: an image becomes a link.
"""

import re
from collections.abc import MutableMapping, Sequence
from functools import cache
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.texmath import texmath_plugin
from pygments import highlight as pygments_highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_by_name

LONGEST_RENDERED = 20_000
"""Characters of one block; a longer one is shown as plain text, because some are made to be slow."""

# Imported with this module, so that a render (which may run in a real thread) never imports anything. A lexer
# compiles its many patterns at its first use: all of them at once would take half of the time of a start.
_LANGUAGES = """
    bash batch c console cpp csharp css diff docker go haskell html http ini java javascript json kotlin lua
    make nginx perl php powershell python r ruby rust scala sql swift toml typescript xml yaml zig
"""
_IMPORT_AS_THEY_WORK = ("php", "swift")

_FORMATTER = HtmlFormatter(nowrap=True, classprefix="c-")
_TAGS = """
    a blockquote br code del div em h1 h2 h3 h4 h5 h6 hr li ol p pre s span strong table tbody td th thead tr
    ul
"""
_ATTRIBUTES = {
    "a": {"href", "target", "class"},
    "code": {"class"},
    "div": {"class"},
    "li": {"value"},
    "ol": {"start"},
    "span": {"class"},
    "td": {"class"},
    "th": {"class"},
}


def _lexers() -> dict[str, type[Lexer]]:
    lexers: dict[str, type[Lexer]] = {}
    for language in _LANGUAGES.split():
        kind = find_lexer_class_by_name(language)
        lexers.update(dict.fromkeys((language, *kind.aliases), kind))
    return lexers


@cache
def _lexer(kind: type[Lexer]) -> Lexer:
    return kind(stripnl=False, ensurenl=False)


_LEXERS = _lexers()


def to_html(text: str) -> str:
    """The sanitised HTML of one piece of Markdown; plain text when it is longer than LONGEST_RENDERED."""
    if len(text) > LONGEST_RENDERED:
        return f"<pre>{nh3.clean_text(text)}</pre>"
    return nh3.clean(
        _MARKDOWN.render(text),
        tags=set(_TAGS.split()),
        attributes=_ATTRIBUTES,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )


def _highlight(code: str, language: str, _attributes: str) -> str:
    """Spans with classes, or "" (which the renderer takes as: escape it) for a language that is not known."""
    kind = _LEXERS.get(language.lower())
    if kind is None:
        return ""
    return str(pygments_highlight(code, _lexer(kind), _FORMATTER))


for _language in _IMPORT_AS_THEY_WORK:
    _highlight("x", _language, "")


def _is_absolute_link(url: str) -> bool:
    return re.match(r"(https?://|mailto:)", url, re.IGNORECASE) is not None


def _link_open(
    renderer: RendererHTML,
    tokens: Sequence[Token],
    index: int,
    options: OptionsDict,
    _: MutableMapping[str, Any],
) -> str:
    tokens[index].attrSet("target", "_blank")
    return renderer.renderToken(tokens, index, options, {})


def _image(
    renderer: RendererHTML,
    tokens: Sequence[Token],
    index: int,
    options: OptionsDict,
    env: MutableMapping[str, Any],
) -> str:
    """A link to the picture: loading it would tell its host that, and what, somebody reads."""
    token = tokens[index]
    name = renderer.renderInlineAsText(token.children or [], options, env) or "image"
    link = Token(
        "link_open", "a", 1, attrs={"href": token.attrs["src"], "target": "_blank", "class": "image"}
    )
    return renderer.renderToken([link], 0, options, env) + nh3.clean_text(name) + "</a>"


def _inline_display_math(
    _renderer: RendererHTML,
    tokens: Sequence[Token],
    index: int,
    _options: OptionsDict,
    _: MutableMapping[str, Any],
) -> str:
    return f'<span class="math display">{nh3.clean_text(tokens[index].content)}</span>'


def _cell_open(
    renderer: RendererHTML,
    tokens: Sequence[Token],
    index: int,
    options: OptionsDict,
    _: MutableMapping[str, Any],
) -> str:
    """The column's alignment as a class, since the page allows no inline styles."""
    style = str(tokens[index].attrs.pop("style", ""))
    if style:
        tokens[index].attrSet("class", style.replace("text-align:", "align-"))
    return renderer.renderToken(tokens, index, options, {})


def _build() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False, "linkify": True, "highlight": _highlight})
    markdown.enable(["table", "strikethrough", "linkify"])
    texmath_plugin(markdown, delimiters="brackets")
    dollarmath_plugin(markdown, allow_space=False, allow_digits=False, double_inline=True)
    markdown.validateLink = _is_absolute_link  # type: ignore[method-assign]
    if markdown.linkify is not None:
        markdown.linkify.set({"fuzzy_link": False, "fuzzy_email": False})
    for name, rule in (
        ("link_open", _link_open),
        ("image", _image),
        ("math_inline_double", _inline_display_math),
        ("th_open", _cell_open),
        ("td_open", _cell_open),
    ):
        markdown.add_render_rule(name, rule)
    return markdown


_MARKDOWN = _build()
