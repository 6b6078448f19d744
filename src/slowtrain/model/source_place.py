"""A line of the user's source."""

from __future__ import annotations

from pathlib import PurePath

from slowtrain.values import dataclass


@dataclass(frozen=True)
class Place:
    """A line of the user's source; ``code`` is its text, stripped."""

    file: str
    line: int
    code: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def short(self) -> str:
        """Without the folders: ``train.py:12``."""
        return f"{PurePath(self.file).name}:{self.line}"
