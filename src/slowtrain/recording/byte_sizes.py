"""Sizes in the form that people write: ``200MB``, ``1.5 GiB``, ``4000000``."""

from __future__ import annotations

import re

from slowtrain.errors import InputError

UNIT_BYTES = {"": 1, "b": 1}
UNIT_BYTES |= {f"{letter}{end}": 1000 ** (i + 1) for i, letter in enumerate("kmgt") for end in ("", "b")}
UNIT_BYTES |= {f"{letter}ib": 1024 ** (i + 1) for i, letter in enumerate("kmgt")}
SIZE_PATTERN = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]*)", re.ASCII)


def parse_size(option: str, text: str, least: int = 0) -> int:
    """Returns the size in bytes. Raises ``InputError`` if ``text`` is no size, or is below ``least``."""
    found = SIZE_PATTERN.fullmatch(text.strip().lower())
    unit = UNIT_BYTES.get(found[2]) if found else None
    if found is None or unit is None:
        raise InputError(f"{option} {text!r} is not a size; write it as 200MB or 1.5GB")
    size = int(float(found[1]) * unit)
    if size < least:
        raise InputError(f"{option} {text} is too small for a recording; give {least / 1e6:.0f}MB or more")
    return size
