"""Syntax of newer Pythons as an older one can parse it: the same statements and names, in the same places."""

from __future__ import annotations

import re
from collections.abc import Callable

_NAME = r"(?:\w+\.)*[A-Z]\w*"  # of an exception; Python 2 had a small one here for what was caught

# In the order of the versions: except*, type, type parameters, exceptions without brackets.
_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"^([ \t]*except)\*", re.MULTILINE), lambda m: f"{m[1]} "),
    (
        re.compile(r"^([ \t]*)type[ \t]+(\w+)[ \t]*(?:\[[^\]\n]*\])?[ \t]*=", re.MULTILINE),
        lambda m: f"{m[1]}{m[2]}".ljust(len(m[0]) - 1) + "=",
    ),
    (
        re.compile(r"^([ \t]*(?:(?:async[ \t]+)?def|class)[ \t]+\w+)\[[^\]\n]*\]", re.MULTILINE),
        lambda m: m[1].ljust(len(m[0])),
    ),
    (
        re.compile(rf"^([ \t]*except) ({_NAME}),[ \t]?((?:{_NAME}[ \t]*,[ \t]*)*{_NAME})(?=[ \t]*:)", re.MULTILINE),
        lambda m: f"{m[1]}({m[2]},{m[3]})",
    ),
)


def older(text: str) -> str:
    """``text`` without what only newer Pythons know, where that stands on one line. Strings of theirs stay."""
    for form, written in _FORMS:
        text = form.sub(written, text)
    return text
