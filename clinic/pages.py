"""Puts a measured table into a page of the docs."""

from __future__ import annotations

from pathlib import Path

BEGIN, END = "<!-- table -->", "<!-- end -->"


def fill(path: Path, table: str, begin: str = BEGIN) -> None:
    """Between the page's markers; a page without them becomes the table."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if begin in text and END in text:
        head, _, rest = text.partition(begin)
        text = f"{head}{begin}\n{table}{END}{rest.partition(END)[2]}"
    else:
        text = table
    path.write_text(text, encoding="utf-8")
