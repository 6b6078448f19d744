"""Which causes a file could have, told from its bytes: what cannot matter is never parsed."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the causes bring NumPy; a file that imports no framework needs neither
    from slowtrain.causes import Cause

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


@functools.cache
def causes() -> tuple[Cause, ...]:
    """Those with a source side."""
    from slowtrain.causes import all_causes

    return tuple(c for c in all_causes() if c.words)


def could_have(content: bytes, active: Collection[str]) -> list[Cause]:
    """The causes whose words occur."""
    names = set(content.translate(_APART).split())

    def occurs(word: str) -> bool:
        parts, whole = _word(word)
        return parts <= names and (whole is None or whole.search(content) is not None)

    found = (c for c in causes() if c.id in active and any(map(occurs, c.words)))
    return [c for c in found if not c.beside or any(map(occurs, c.beside))]


_APART = bytes(n if n < 128 and (chr(n).isalnum() or chr(n) == "_") else 32 for n in range(256))


@functools.cache
def _word(word: str) -> tuple[frozenset[bytes], re.Pattern[bytes] | None]:
    """The names in ``word``, and how it stands where it is more than one: not as a part of a longer name."""
    parts = frozenset(re.findall(rb"\w+", word.encode()))
    if parts == {word.encode()}:
        return parts, None
    ahead = rf"(?<!\w{re.escape(word)})" if word[0].isidentifier() or word[0].isdigit() else ""
    behind = r"(?!\w)" if word[-1].isidentifier() or word[-1].isdigit() else ""
    return parts, re.compile(f"{re.escape(word)}{ahead}{behind}".encode())
