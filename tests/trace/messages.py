"""Profiles made by hand, a field at a time, and where the real ones are."""

from __future__ import annotations

from pathlib import Path

TRACES = Path(__file__).parents[2].parent / "shared" / "traces"


def trace(name: str) -> Path:
    """One of the shared real profiles; skips the test where they are absent."""
    import pytest

    path = TRACES / f"{name}.xplane.pb"
    if not path.exists():
        pytest.skip(f"the shared traces are not at {TRACES}")
    return path


def number(field: int, value: int) -> bytes:
    return raw_varint(field << 3) + raw_varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def raw_varint(value: int) -> bytes:
    head = b""
    while value > 0x7F:
        head, value = head + bytes([value & 0x7F | 0x80]), value >> 7
    return head + bytes([value])


def nested(field: int, *parts: bytes) -> bytes:
    payload = b"".join(parts)
    return raw_varint(field << 3 | 2) + raw_varint(len(payload)) + payload


def entry(field: int, key: int, name: str, *more: bytes) -> bytes:
    return nested(field, number(1, key), nested(2, number(1, key), nested(2, name.encode()), *more))


def event(key: int, offset_ps: int, duration_ps: int, *stats: bytes) -> bytes:
    return nested(4, number(1, key), number(2, offset_ps), number(3, duration_ps), *stats)


def space(*lines: bytes, more: bytes = b"") -> bytes:
    tables = entry(4, 1, "MatMul:MatMul") + entry(4, 2, "<b>x</b>") + entry(5, 1, "bytes") + entry(5, 2, "host")
    return nested(1, nested(2, b"/host:CPU"), *lines, tables, more)
