"""Sizes, shapes and types in the notation of logs."""

from __future__ import annotations

SIZE_UNITS = {"": 1, "B": 1, "bytes": 1, "K": 2**10, "KiB": 2**10, "M": 2**20, "MiB": 2**20, "G": 2**30, "GiB": 2**30,
         "T": 2**40, "TiB": 2**40, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}  # fmt: skip
_DTYPE_BYTES = {"float": 4, "float32": 4, "half": 2, "float16": 2, "bfloat16": 2, "double": 8, "float64": 8, "int32": 4,
                "int64": 8, "uint8": 1, "int8": 1, "bool": 1, "int16": 2, "uint16": 2, "complex64": 8}  # fmt: skip
MAX_BYTES = 1 << 62
SIZE = rb"([\d.]{1,20}) ?([KMGT]?i?B?|bytes)"


def parse_size(number: str | bytes | None, unit: str | bytes | None = "") -> int | None:
    """Bytes of ``32.00`` and ``MiB``; None if the text is not a size."""
    number = number.decode("ascii", "replace") if isinstance(number, bytes) else number or ""
    unit = unit.decode("ascii", "replace") if isinstance(unit, bytes) else unit or ""
    try:
        found = int(number) if number.isdigit() and unit in ("", "B") else round(float(number) * SIZE_UNITS[unit])
    except (KeyError, ValueError, OverflowError):
        return None
    return found if 0 <= found <= MAX_BYTES else None


def decode_name(text: bytes | None) -> str:
    return (text or b"").decode("utf-8", "replace").strip()[:500]


def parse_dimensions(text: bytes | None) -> tuple[int, ...] | None:
    """Numbers in ``96,96,3``."""
    parts = (text or b"").replace(b" ", b"").rstrip(b",").split(b",")
    if not all(p.isdigit() and len(p) <= 18 for p in parts) or len(parts) > 32:
        return None
    return tuple(map(int, parts))


def tensor_bytes(dims: tuple[int, ...] | None, dtype: str) -> int | None:
    """Bytes of a tensor; None if its type's size is unknown."""
    each = _DTYPE_BYTES.get(dtype)
    if dims is None or each is None:
        return None
    for one in dims:
        each = min(each * one, 1 << 62)
    return each
