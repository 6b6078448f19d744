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
    seen: dict[str, bool] = {}

    def occurs(word: str) -> bool:
        if word not in seen:
            seen[word] = word.encode() in content and _whole(word).search(content) is not None
        return seen[word]

    found = (c for c in causes() if c.id in active and any(map(occurs, c.words)))
    return [c for c in found if not c.beside or any(map(occurs, c.beside))]


@functools.cache
def _whole(word: str) -> re.Pattern[bytes]:
    """``word`` where it does not go on as a longer name."""
    ahead = r"(?<!\w)" if word[0].isidentifier() or word[0].isdigit() else ""
    behind = r"(?!\w)" if word[-1].isidentifier() or word[-1].isdigit() else ""
    return re.compile(f"{ahead}{re.escape(word)}{behind}".encode())
