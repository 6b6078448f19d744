"""A line of the user's source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath


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
