"""Selects the causes that a file can have from the words in it, so that most files need not be parsed."""

from __future__ import annotations

import contextlib
import functools
import gc
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slowtrain.script.text.source_file import ascii_words, blank_docstrings

if TYPE_CHECKING:  # the causes import NumPy; a file that imports no framework needs neither
    from slowtrain.causes import Cause

GC_THRESHOLD_OBJECTS = 500_000  # syntax trees of 20,000 lines of Python, about 60 MB

_FRAMEWORK_NAMES = rb"(?:tensorflow|tf_keras|keras)"
# Also matches tensorflow_datasets, keras_hub and similar packages. In a notebook a line begins after a quotation mark.
_FRAMEWORK_IMPORT = re.compile(rb"(?:^|[\";:])[ \t]*(?:import|from)\b[^\n#]*?\b" + _FRAMEWORK_NAMES, re.MULTILINE)


def imports_framework(content: bytes) -> bool:
    """Whether a file imports TensorFlow, Keras, or a package based on them."""
    if b"tensorflow" not in content and b"keras" not in content:
        return False
    return _FRAMEWORK_IMPORT.search(content) is not None


def unescape_line_ends(content: bytes) -> bytes:
    """A notebook's JSON with escaped line ends and tabs decoded, so that words and imports are found in it."""
    return content.replace(b"\\n", b"\n").replace(b"\\t", b"\t")


def strip_documentation(content: bytes) -> bytes:
    """A file without the text in triple quotes at line beginnings, because words and imports in it do nothing."""
    return blank_docstrings(content.decode("latin-1")).encode("latin-1")


@functools.cache
def lintable_causes() -> tuple[Cause[Any], ...]:
    """The causes that lint can find in source text."""
    with rare_garbage_collection():
        from slowtrain.causes import all_causes

        return tuple(c for c in all_causes() if c.words)


@contextlib.contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Raises the threshold of the garbage collector, because it rarely finds anything to free here.

    Syntax trees have no cycles, and results derived from them are cleared after each file.
    """
    before = gc.get_threshold()
    gc.set_threshold(before[0] and max(before[0], GC_THRESHOLD_OBJECTS))  # 0 means disabled, and stays so
    try:
        yield
    finally:
        gc.set_threshold(*before)


def possible_causes(content: bytes, active: Collection[str]) -> list[Cause[Any]]:
    """The causes of ``active`` whose words occur in ``content``."""
    names = ascii_words(content)
    return [
        cause
        for cause, words, context in _causes_with_words()
        if cause.id in active
        and words.occur_in(names, content)
        and (not cause.context_words or context.occur_in(names, content))
    ]


@dataclass(frozen=True)
class _Words:
    """Words of a cause: single names; of each other word the names in it, and a pattern.

    The pattern finds the word unless it is part of a longer name.
    """

    names: frozenset[str]
    phrases: tuple[tuple[frozenset[str], re.Pattern[bytes]], ...]

    def occur_in(self, names: frozenset[str], content: bytes) -> bool:
        """Whether one of them occurs in ``content``, whose words are ``names``."""
        return not self.names.isdisjoint(names) or any(
            parts <= names and whole.search(content) for parts, whole in self.phrases
        )


@functools.cache
def _causes_with_words() -> tuple[tuple[Cause[Any], _Words, _Words], ...]:
    """The causes that lint can find, each with its words and its context words."""
    return tuple(
        (cause, _compile_words(cause.words), _compile_words(cause.context_words)) for cause in lintable_causes()
    )


def _compile_words(words: tuple[str, ...]) -> _Words:
    single = frozenset(word for word in words if re.fullmatch(r"\w+", word))
    return _Words(single, tuple(_compile_phrase(word) for word in words if word not in single))


def _compile_phrase(word: str) -> tuple[frozenset[str], re.Pattern[bytes]]:
    """The names in ``word``, and a pattern that finds it unless it is part of a longer name."""
    ahead = rf"(?<!\w{re.escape(word)})" if word[0].isidentifier() or word[0].isdigit() else ""
    behind = r"(?!\w)" if word[-1].isidentifier() or word[-1].isdigit() else ""
    parts = frozenset(re.findall(r"\w+", word))
    return parts, re.compile(f"{re.escape(word)}{ahead}{behind}".encode())
