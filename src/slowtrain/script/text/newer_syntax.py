"""Rewrites syntax of newer Python versions so that this one can parse it; statements and names keep their places."""

from __future__ import annotations

import re
from collections.abc import Callable

_EXCEPTION_NAME = r"(?:\w+\.)*[A-Z]\w*"  # of an exception class; Python 2 bound a lower-case name here
_TYPE_PARAMETERS = r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]"


def _without_type_parameters(found: re.Match[str]) -> str:
    """A function or class without its type parameters; if these span lines, the parameter list opens before them."""
    head, parameters, opens = found[1], found[2], found[3] or ""
    inside = re.sub(r"[^\n]", " ", parameters[1:-1])
    if "\n" not in inside:
        return f"{head}  {inside}{opens}"
    return f"{head}({inside}{' ' if opens else ')'}{' ' if opens else ''}"


# In version order: except*, type statements, type parameters, exceptions without brackets.
_SYNTAX_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"^([ \t]*except)\*", re.MULTILINE), lambda m: f"{m[1]} "),
    (
        re.compile(r"^([ \t]*)type[ \t]+(\w+)[ \t]*(?:\[[^\]\n]*\])?[ \t]*=", re.MULTILINE),
        lambda m: f"{m[1]}{m[2]}".ljust(len(m[0]) - 1) + "=",
    ),
    (
        re.compile(rf"^([ \t]*(?:(?:async[ \t]+)?def|class)[ \t]+\w+)({_TYPE_PARAMETERS})(\()?", re.MULTILINE),
        _without_type_parameters,
    ),
    (
        re.compile(
            rf"^([ \t]*except *) ({_EXCEPTION_NAME}),[ \t]?((?:{_EXCEPTION_NAME}[ \t]*,[ "
            rf"\t]*)*{_EXCEPTION_NAME})(?=[ \t]*:)",
            re.MULTILINE,
        ),
        lambda m: f"{m[1]}({m[2]},{m[3]})",
    ),
)

# Where a comment or a string begins. f-strings, and templates of 3.14, hold expressions in braces.
_TOKEN_START = re.compile(r"""#[^\n]*|(?<!\w)([A-Za-z]{0,2})(\'\'\'|\"\"\"|\'|\")""")
_FORMATTED_PREFIXES = frozenset({"f", "fr", "rf", "t", "tr", "rt"})
_MAX_STRING_DEPTH = 20  # strings nested in expressions of strings


def as_older_syntax(text: str) -> str:
    """``text`` without syntax that only newer versions know; every other character keeps its place."""
    for form, written in _SYNTAX_FORMS:
        text = form.sub(written, text)
    return _normalize_strings(text)


def _normalize_strings(text: str) -> str:
    """Makes templates f-strings; replaces what only Python 3.12 can parse inside an f-string by a name."""
    chars, at = list(text), 0
    while (found := _TOKEN_START.search(text, at)) is not None:
        at = _string_end(text, found, chars, ()) if found[2] else found.end()
    return "".join(chars)


def _string_end(text: str, begins: re.Match[str], chars: list[str], around: tuple[str, ...]) -> int:
    """Where the string that begins at ``begins`` ends; ``around``: the quotes of the strings that contain it."""
    kind, quote, at = begins[1].lower(), begins[2], begins.end()
    if kind in _FORMATTED_PREFIXES and "t" in kind:
        chars[begins.start(1) + kind.index("t")] = "f"
    while at < len(text):
        if text.startswith(quote, at):
            return at + len(quote)
        if text[at] == "\n" and len(quote) == 1:  # unterminated
            return at
        if kind in _FORMATTED_PREFIXES and text[at] == "{" and not text.startswith("{{", at):
            at = _expression_end(text, at + 1, chars, (*around, quote))
        else:
            at += 2 if text[at] == "\\" or text.startswith("{{", at) else 1
    return at


def _expression_end(text: str, at: int, chars: list[str], around: tuple[str, ...]) -> int:
    """The position after the brace that ends an expression, or after its format."""
    depth = 0
    while at < len(text) and len(around) < _MAX_STRING_DEPTH:
        begins = _TOKEN_START.match(text, at)
        if begins is not None and begins[2]:
            end = _string_end(text, begins, chars, around)
            inside = text[at:end]
            if "\n" not in inside and ("\\" in inside or any(quote in inside for quote in around)):
                chars[at:end] = "_" * len(inside)
            at = end
            continue
        if text[at] == "}" and not depth:
            return at + 1
        if text[at] == ":" and not depth:
            return _format_end(text, at + 1, chars, around)
        depth += (text[at] in "([{") - (text[at] in ")]}")
        at += 1
    return len(text)


def _format_end(text: str, at: int, chars: list[str], around: tuple[str, ...]) -> int:
    while at < len(text) and text[at] not in "}\n":
        at = _expression_end(text, at + 1, chars, around) if text[at] == "{" else at + 1
    return at + 1
