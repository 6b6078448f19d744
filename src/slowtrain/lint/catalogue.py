"""Which causes a file could have, told from its bytes: what cannot matter is never parsed."""

from __future__ import annotations

import contextlib
import functools
import gc
import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from slowtrain.script.text.source_file import ascii_words, blank_docstrings

if TYPE_CHECKING:  # the causes bring NumPy; a file that imports no framework needs neither
    from slowtrain.causes import Cause

MANY_OBJECTS = 500_000  # those of twenty thousand lines of Python as syntax trees; 60 MB

_NAMES = rb"(?:tensorflow|tf_keras|keras)"
# Also tensorflow_datasets, keras_hub and their like. In a notebook a line begins behind a quotation mark.
_IMPORT = re.compile(rb"(?:^|[\";:])[ \t]*(?:import|from)\b[^\n#]*?\b" + _NAMES, re.MULTILINE)


def imports_framework(content: bytes) -> bool:
    """Whether a file imports TensorFlow, Keras, or a package on top of them."""
    if b"tensorflow" not in content and b"keras" not in content:
        return False
    return _IMPORT.search(content) is not None


def lines_of_notebook(content: bytes) -> bytes:
    """A notebook's JSON with its cells' line ends as such, so that words and imports are found in it."""
    return content.replace(b"\\n", b"\n").replace(b"\\t", b"\t")


def code_of_script(content: bytes) -> bytes:
    """A file without its documentation, in which words and imports stand that do nothing."""
    return blank_docstrings(content.decode("latin-1")).encode("latin-1")


@functools.cache
def causes() -> tuple[Cause, ...]:
    """Those with a source side."""
    with seldom_collected():
        from slowtrain.causes import all_causes

        return tuple(c for c in all_causes() if c.words)


@contextlib.contextmanager
def seldom_collected() -> Iterator[None]:
    """The garbage collector wakes once for many objects: it goes through all of them, and seldom finds one to free.

    A tree has no cycles, and what causes work out from it is taken apart when it is forgotten.
    """
    before = gc.get_threshold()
    gc.set_threshold(before[0] and max(before[0], MANY_OBJECTS))  # 0: it rests
    try:
        yield
    finally:
        gc.set_threshold(*before)


def could_have(content: bytes, active: Collection[str]) -> list[Cause]:
    """The causes whose words occur."""
    names = ascii_words(content)
    by_name = _by_name()
    met = {id_ for name in by_name.keys() & names for id_ in by_name[name]}
    return [
        c
        for c in causes()
        if c.id in active
        and (c.id in met or _stands(_kinds(c.words)[1], names, content))
        and (not c.beside or _occur(c.beside, names, content))
    ]


@functools.cache
def _by_name() -> dict[str, list[str]]:
    """The causes that one name alone brings: one look at a file's names instead of one for each cause."""
    found: dict[str, list[str]] = {}
    for cause in causes():
        for name in _kinds(cause.words)[0]:
            found.setdefault(name, []).append(cause.id)
    return found


def _occur(wanted: tuple[str, ...], names: frozenset[str], content: bytes) -> bool:
    """Whether one of them does."""
    single, longer = _kinds(wanted)
    return not single.isdisjoint(names) or _stands(longer, names, content)


def _stands(longer: tuple[_Longer, ...], names: frozenset[str], content: bytes) -> bool:
    return any(parts <= names and whole.search(content) for parts, whole in longer)


_Longer = tuple[frozenset[str], re.Pattern[bytes]]


@functools.cache
def _kinds(wanted: tuple[str, ...]) -> tuple[frozenset[str], tuple[_Longer, ...]]:
    """Words that are a name each; and of the others the names in them, and how they stand."""
    single = frozenset(word for word in wanted if re.fullmatch(r"\w+", word))
    return single, tuple(_longer(word) for word in wanted if word not in single)


def _longer(word: str) -> _Longer:
    """The names in ``word``, and how it stands in a text: not as a part of a longer name."""
    ahead = rf"(?<!\w{re.escape(word)})" if word[0].isidentifier() or word[0].isdigit() else ""
    behind = r"(?!\w)" if word[-1].isidentifier() or word[-1].isdigit() else ""
    parts = frozenset(re.findall(r"\w+", word))
    return parts, re.compile(f"{re.escape(word)}{ahead}{behind}".encode())
