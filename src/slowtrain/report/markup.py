"""HTML and SVG that cannot be broken out of: text is escaped when it is put in, and nowhere else.

:func:`el` is the only way to make an element, and escapes whatever is not made by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from slowtrain.report.wording import clean

_VOID = frozenset({"br", "meta", "hr"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | None | Iterable["Child"]


def text(value: str, *, keep_lines: bool = False) -> Markup:
    """Somebody's text as HTML."""
    return Markup(escape(clean(value, keep_lines=keep_lines)))


def join(children: Child) -> Markup:
    """Children one after the other; None is nothing."""
    if children is None:
        return Markup()
    if isinstance(children, str):
        return children if isinstance(children, Markup) else text(children)
    return Markup("".join(join(child) for child in children))


def el(tag: str, *children: Child, **attributes: str | float | None) -> Markup:
    """An element. ``class_`` is ``class``, ``aria_label`` is ``aria-label``; None leaves an attribute out."""
    said = "".join(f' {_name(k)}="{_value(v)}"' for k, v in attributes.items() if v is not None)
    if tag in _VOID:
        return Markup(f"<{tag}{said}>")
    return Markup(f"<{tag}{said}>{join(children)}</{tag}>")


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _value(value: str | float) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return escape(clean(str(value)))


def diff(source: str) -> Markup:
    """A unified diff; the signs stay, so that colour is not all that tells the lines apart."""
    kinds = {"+": "add", "-": "del", "@": "hunk"}
    lines = []
    for line in clean(source, keep_lines=True).rstrip("\n").split("\n"):
        kind = "file" if line.startswith(("+++", "---")) else kinds.get(line[:1], "same")
        lines.append(el("span", text(line + "\n", keep_lines=True), class_=kind))
    return el("pre", el("code", lines), class_="diff", tabindex="0")


def markdown(source: str, level: int = 4) -> Markup:
    """The pages' subset of Markdown: headings, paragraphs, lists, fences, ``code`` and **strong**.

    A heading becomes ``<h{level}>`` whatever its depth. Links and images stay text, for
    the report fetches nothing.
    """
    blocks: list[Markup] = []
    lines = clean(source, keep_lines=True).split("\n")
    while lines:
        line = lines[0].strip()
        if not line:
            lines.pop(0)
        elif line.startswith("```"):
            blocks.append(_fence(lines))
        elif re.match(r"#{1,6} ", line):
            lines.pop(0)
            blocks.append(el(f"h{level}", _inline(line.lstrip("# "))))
        elif _ITEM.match(line):
            blocks.append(_list(lines))
        else:
            blocks.append(el("p", _inline(" ".join(_paragraph(lines)))))
    return join(blocks)


_ITEM = re.compile(r"(?:[-*+]|\d+[.)])\s+")
_SPAN = re.compile(r"(`+)(?P<code>.+?)\1|\*\*(?P<strong>.+?)\*\*")


def _fence(lines: list[str]) -> Markup:
    lines.pop(0)
    code: list[str] = []
    while lines and not lines[0].strip().startswith("```"):
        code.append(lines.pop(0))
    if lines:
        lines.pop(0)
    return el("pre", el("code", text("\n".join(code), keep_lines=True)), tabindex="0")


def _paragraph(lines: list[str]) -> list[str]:
    """The lines up to the next block; the first is always taken, so that every call gets on."""
    taken = [lines.pop(0).strip()]
    while (
        lines and lines[0].strip() and not re.match(r"\s*(```|#{1,6} )", lines[0]) and not _ITEM.match(lines[0].strip())
    ):
        taken.append(lines.pop(0).strip())
    return taken


def _list(lines: list[str]) -> Markup:
    numbered = lines[0].strip()[0].isdigit()
    items: list[Markup] = []
    while lines and _ITEM.match(lines[0].strip()) and lines[0].strip()[0].isdigit() == numbered:
        lines[0] = _ITEM.sub("", lines[0].strip(), count=1)
        items.append(el("li", _inline(" ".join(_paragraph(lines)))))
    return el("ol" if numbered else "ul", items)


def _inline(source: str) -> Markup:
    pieces: list[Child] = []
    end = 0
    for match in _SPAN.finditer(source):
        pieces.append(source[end : match.start()])
        code = match["code"]
        pieces.append(el("code", code.strip()) if code is not None else el("strong", _inline(match["strong"])))
        end = match.end()
    return join([*pieces, source[end:]])
