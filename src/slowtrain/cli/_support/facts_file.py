"""Facts about a computer given as a file. A damaged file is reported in one line by every verb that takes one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slowtrain.errors import InputError

# Raised by the checks if a fact has the wrong type.
DAMAGE_ERRORS = (AttributeError, KeyError, TypeError, ValueError, OverflowError, IndexError)


@contextmanager
def reject_damaged(file: Path) -> Iterator[None]:
    """Put around the checks of the facts in ``file`` only. Raises ``InputError`` if the facts are damaged."""
    try:
        yield
    except DAMAGE_ERRORS as error:
        raise InputError(
            f"{file} is damaged ({type(error).__name__}: {error}); write it again with `slowtrain doctor --json`"
        ) from error
