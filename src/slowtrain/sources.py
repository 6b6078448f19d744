"""Lines of the user's source for reports: the path as the user knows it, and the line's text."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from slowtrain.model import Place

MOST_BYTES = 4 << 20
MOST_LETTERS = 200
SUFFIXES = (".py", ".pyw", ".ipynb")  # a recording may come from anywhere: nothing but source is read for it


class Sources:
    """``root`` is the folder that the script was started in; paths inside are shown relative to it."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root) if root else ""
        self._lines: dict[str, list[str]] = {}

    def relative(self, path: str) -> str:
        """``path`` from the root where it is inside; as it is otherwise."""
        if not (self.root and os.path.isabs(path)):
            return path
        real = os.path.realpath(path)
        return os.path.relpath(real, self.root) if real.startswith(self.root.rstrip(os.sep) + os.sep) else path

    def shown(self, place: Place) -> Place:
        """A place as a report shows it. A line that cannot be read has no text."""
        lines = self._read(place.file)
        code = lines[place.line - 1].strip() if 0 < place.line <= len(lines) else ""
        return replace(place, file=self.relative(place.file), code=place.code or code[:MOST_LETTERS])

    def _read(self, file: str) -> list[str]:
        known = self._lines.get(file)
        if known is None:
            known = self._lines[file] = _lines(Path(self.root, file))
        return known


def _lines(path: Path) -> list[str]:
    if path.suffix not in SUFFIXES or not path.is_file():
        return []
    try:
        with path.open("rb") as source:
            return source.read(MOST_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
