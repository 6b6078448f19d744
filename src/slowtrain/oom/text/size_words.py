"""Formats bytes for the sentences about dumps."""

from __future__ import annotations

from slowtrain.number_text import format_number


def format_size(value: int | None) -> str:
    if value is None:
        return "an unknown amount"
    scaled = float(value)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if scaled < 1023.5:
            return (
                f"{scaled:.0f} B"
                if unit == "B"
                else f"{format_number(scaled)} {unit}"
                if scaled < 999.5
                else f"{scaled:.0f} {unit}"
            )
        scaled /= 1024
    return f"{format_number(scaled)} EiB"
