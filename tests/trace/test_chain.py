"""Where events begin, by lanes and in columns, against walks that are slow and obvious."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowtrain.profile.format import event_columns, message_chain, wire_format

from .messages import event, nested, number, raw_varint, space
from .test_xplane import message, only_line, signed

TAG, FIRST = event_columns.EVENT_TAG, event_columns.EVENT_ID_TAG
STAT = nested(4, number(1, 3), number(3, 7))


def walked(data: bytes) -> tuple[list[int], int]:
    """Where each whole field of the run at the beginning begins, and where the run stops."""
    pos = 0
    found: list[int] = []
    while pos < len(data) and data[pos] == TAG:
        length = shift = 0
        at = pos + 1
        while at < len(data):
            length |= (data[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 0x80:
                break
        else:
            return found, pos
        if at + length > len(data):
            return found, pos
        found.append(pos)
        pos = at + length
    return found, pos


def some_events(chance: random.Random, count: int) -> Iterator[bytes]:
    """As profiles have them, and now and then one that is nothing like it."""
    for i in range(count):
        kind = chance.random()
        if kind < 0.9:
            stats = [STAT] * chance.choice([0, 0, 0, 1, 3, 30])
            yield event(chance.randrange(1, 400), i << chance.randrange(30), chance.randrange(1 << 20), *stats)
        elif kind < 0.95:
            yield nested(4, chance.randbytes(chance.choice([0, 1, 5, 200, 3000])))
        else:
            yield nested(4, number(2, i), nested(4, bytes([TAG, 2, FIRST, 1]) * chance.randrange(60)))


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many lanes in little data."""
    monkeypatch.setattr(message_chain, "BYTES_PER_LANE", 448)
    monkeypatch.setattr(wire_format, "MIN_LANES_BYTES", 0)


@pytest.mark.usefixtures("narrow")
def test_lanes_find_what_a_walk_finds() -> None:
    told = 0
    for seed in range(60):
        chance = random.Random(seed)
        data = b"".join(some_events(chance, 600))
        behind = chance.choice([b"", b"\x28\x01" * 300, nested(4, bytes(9000))[:5000], b"\x22" + b"\xff" * 40])
        window = wire_format.ByteWindow(np.frombuffer(data + behind, np.uint8))
        found = window.field_run(TAG, FIRST)
        assert (found[0].tolist(), found[1]) == walked(data + behind), seed
        lanes = message_chain.run_starts(window.bytes, window.size, TAG, FIRST)
        assert lanes is None or (lanes[0].tolist(), lanes[1]) == walked(data + behind), seed
        told += lanes is not None
    assert told >= 40  # or it is the other way that was tested


@pytest.mark.usefixtures("narrow")
@given(
    st.lists(
        st.sampled_from([b"\x22\x00", b"\x22\x02\x08\x01", b"\x22", b"\x08", STAT, b"\x22\x80\x02", b"\xff"]),
        max_size=2000,
    )
)
def test_lanes_never_tell_what_is_not_so(parts: list[bytes]) -> None:
    data = b"".join(parts)
    window = wire_format.ByteWindow(np.frombuffer(data, np.uint8))
    lanes = message_chain.run_starts(window.bytes, window.size, TAG, FIRST)
    assert lanes is None or (lanes[0].tolist(), lanes[1]) == walked(data)


@pytest.mark.usefixtures("narrow")
def test_events_from_the_midst_of_a_run() -> None:
    data = b"".join(event(9, 1 << 30, 5, STAT, STAT) for _ in range(500))
    each = len(data) // 500
    for at in range(200, 300):
        window = wire_format.ByteWindow(np.frombuffer(data[at : at + 3000], np.uint8))
        met = message_chain.find_field(window.bytes, window.size, TAG, FIRST)
        assert met is not None
        assert ((met[0] + at) % each, met[1]) == (0, each)
    assert message_chain.find_field(np.zeros(300, np.uint8), 200, TAG, FIRST) is None


def test_events_of_any_order_of_fields() -> None:
    fields = [number(1, 70_000), number(2, 1 << 44), number(3, 300), STAT, number(5, 4), number(900, 1), b""]
    chance = random.Random(5)
    payloads = [b"".join(chance.choices(fields, k=chance.randrange(7))) for _ in range(4000)]
    payloads += [event(1, 2, 3)[2:]] * 40 + [b"\x08\x81\x80\x00\x10\x05", number(1, 1) + number(2, -5)]
    for stats in ((), ("bytes",)):
        events = only_line(space(nested(3, *(nested(4, p) for p in payloads))), stats)
        expected = [[signed(message(p).get(n, [0])[-1]) for n in (1, 2, 3)] for p in payloads]
        found = np.stack([events.metadata_id, events.start_ps, events.duration_ps], axis=1)
        # Without statistics decoding stops where they begin: no writer has a time behind them.
        usual = [i for i, p in enumerate(payloads) if stats or STAT not in p]
        assert found[usual].tolist() == [expected[i] for i in usual]


def test_a_name_in_more_bytes_than_it_needs() -> None:
    odd = b"\x08" + raw_varint(3)[:-1] + b"\x83\x80\x80\x00" + number(2, 7)
    assert only_line(space(nested(3, nested(4, odd)))).metadata_id.tolist() == [3]
