"""Markdown to one HTML page, its figures inside."""

from __future__ import annotations

import base64
import html
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from campaign.document.lines import Lines
from campaign.export.style import STYLE

_TYPES = {"svg": "image/svg+xml", "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp"}
#: Nothing is fetched and no script runs, whatever a person's own HTML in the document asks for.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"


def figure_links(source: bytes) -> tuple[str, ...]:
    """Where the images of the document stand, as it links to them, each once; those of other hosts left out."""
    found: dict[str, None] = {}
    for token in _images(_parse(source)):
        link = str(token.attrGet("src") or "")
        if not re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//", link):
            found.setdefault(link)
    return tuple(found)


def export_html(source: bytes, figures: Mapping[str, bytes]) -> str:
    """The document as one page that fetches nothing; `figures`: link → bytes of the image (SVG, PNG, JPEG, WebP).

    An image that is not in `figures` is named in its place.
    """
    tokens = _parse(source)
    for token in _images(tokens):
        _inline(token, figures)
    headings = _number_headings(tokens)
    title = next((text for level, text, _ in headings if level == 1), "Report")
    body = _parser().renderer.render(tokens, _parser().options, {})
    return _page(title, _with_contents(body, headings))


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    parser.add_render_rule("table_open", _table_open)
    parser.add_render_rule("table_close", _table_close)
    return parser


def _table_open(*_args: Any) -> str:
    return '<div class="table"><table>\n'


def _table_close(*_args: Any) -> str:
    return "</table></div>\n"


def _parse(source: bytes) -> list[Token]:
    lines = Lines(source)
    text = source[lines.start(lines.front_matter()) :].decode("utf-8", "replace")
    return [token for token in _parser().parse(text) if not _is_marker(token)]


def _is_marker(token: Token) -> bool:
    return token.type == "html_block" and token.content.lstrip().startswith("<!-- campaign:")


def _images(tokens: Sequence[Token]) -> list[Token]:
    return [child for token in tokens for child in token.children or () if child.type == "image"]


def _inline(image: Token, figures: Mapping[str, bytes]) -> None:
    link = str(image.attrGet("src") or "")
    data = figures.get(link)
    kind = _TYPES.get(link.rpartition(".")[2].lower())
    if data is None or kind is None:
        image.type, image.children = "html_inline", None
        image.content = f'<span class="left-out">[figure {html.escape(image.content or link)} is not included]</span>'
        return
    image.attrSet("src", f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}")


def _number_headings(tokens: Sequence[Token]) -> list[tuple[int, str, str]]:
    """Give each heading an id: (level, text, id)."""
    headings: list[tuple[int, str, str]] = []
    used: dict[str, int] = {}
    for opening, inline in itertools.pairwise(tokens):
        if opening.type != "heading_open":
            continue
        text = "".join(c.content for c in inline.children or () if c.type in ("text", "code_inline", "text_special"))
        slug = re.sub(r"[^\w]+", "-", text.lower()).strip("-") or "section"
        used[slug] = used.get(slug, 0) + 1
        anchor = slug if used[slug] == 1 else f"{slug}-{used[slug]}"
        opening.attrSet("id", anchor)
        headings.append((int(opening.tag[1:]), text, anchor))
    return headings


def _with_contents(body: str, headings: Sequence[tuple[int, str, str]]) -> str:
    """A list of the second-level headings before the first of them, where there are at least three."""
    entries = [(text, anchor) for level, text, anchor in headings if level == 2]
    at = body.find("<h2 ")
    if len(entries) < 3 or at < 0:
        return body
    items = "".join(f'<li><a href="#{html.escape(a)}">{html.escape(t)}</a></li>' for t, a in entries)
    return f'{body[:at]}<nav aria-label="Contents"><ul>{items}</ul></nav>\n{body[at:]}'


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
