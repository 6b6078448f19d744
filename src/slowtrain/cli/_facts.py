"""Facts about a computer that somebody gives as a file: damaged ones are one line, for every verb that takes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slowtrain.errors import InputError

# What judging raises where a fact is of another kind than it should be.
DAMAGED = (AttributeError, KeyError, TypeError, ValueError, OverflowError, IndexError)


@contextmanager
def judged(file: Path) -> Iterator[None]:
    """Around what judges the facts of ``file``, and nothing else. Raises ``InputError`` where they are damaged."""
    try:
        yield
    except DAMAGED as error:
        raise InputError(
            f"{file} is damaged ({type(error).__name__}: {error}); write it again with `slowtrain doctor --json`"
        ) from error
