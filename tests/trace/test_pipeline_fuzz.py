"""TensorFlow's counters: bytes from a file, so anything may stand there."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowtrain.errors import InputError
from slowtrain.trace.loading import iterator_counters

pytestmark = pytest.mark.fuzz


def varint(value: int) -> bytes:
    parts = []
    while True:
        value, low = value >> 7, value & 127
        parts.append(low | (128 if value else 0))
        if not value:
            return bytes(parts)


def field(number: int, value: int | bytes | float) -> bytes:
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


numbers = st.integers(0, 2**63 - 1)
nodes = st.builds(
    lambda number, name, elements, spent, inputs, width: field(
        1,
        field(1, number)
        + field(
            2,
            field(1, number)
            + field(2, name.encode())
            + field(8, elements)
            + field(9, spent)
            + field(11, field(1, b"parallelism") + field(2, width) + field(6, 1))
            + b"".join(field(14, i) for i in inputs),
        ),
    ),
    st.integers(0, 6),
    st.text(max_size=12),
    numbers,
    numbers,
    st.lists(st.integers(0, 6), max_size=3),
    st.floats(),
)
models = st.builds(
    lambda parts, output, gaps: b"".join(parts) + field(2, output) + b"".join(field(6, g) for g in gaps),
    st.lists(nodes, max_size=6),
    st.integers(0, 6),
    st.lists(numbers, max_size=5),
)


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    with contextlib.suppress(InputError):
        iterator_counters.decode_message(data)
    with contextlib.suppress(InputError):
        iterator_counters.read_counters(data)


@given(models, st.data())
def test_damaged_models(model: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, max(len(model) - 1, 0)))
    for bytes_ in (model[:at], model[:at] + data.draw(st.binary(max_size=3)) + model[at + 1 :]):
        with contextlib.suppress(InputError):
            iterator_counters.read_counters(bytes_)


@given(st.lists(models, min_size=1, max_size=3))
def test_models_of_any_shape(several: list[bytes]) -> None:
    """Nodes that name each other in a circle, that come and go between readings, with figures of any size."""
    readings = [iterator_counters.read_counters(one) for one in several]
    found = iterator_counters.merge_iterators((), [(readings, 1.0)], keras=False)
    assert found.batches >= 0
    assert len(found.stages()) <= 3 * len(found.nodes) + 1
    for node in found.nodes:
        found.upstream_nodes(node)


@given(st.dictionaries(st.integers(1, 20), st.lists(numbers, min_size=1, max_size=3), max_size=5))
def test_what_was_written_is_read(fields: dict[int, list[int]]) -> None:
    data = b"".join(field(number, value) for number, values in fields.items() for value in values)
    assert dict(iterator_counters.decode_message(data)) == fields
