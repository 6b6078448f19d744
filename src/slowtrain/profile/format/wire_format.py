"""Protobuf's wire format: single messages for a file's skeleton, a million messages at a time for its events.

The beginning of a message depends on the lengths of all messages before it. Therefore all beginnings are found first;
then field k of all messages is decoded at once. Errors are ``InputError``.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from functools import cached_property
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from slowtrain.columns.arrays import Ints
from slowtrain.errors import InputError
from slowtrain.profile.format import message_chain

Words: TypeAlias = NDArray[np.uint64]
Bytes: TypeAlias = NDArray[np.uint8]

WINDOW_BYTES = 1 << 22  # searched at a time for the beginnings of events
MIN_LANES_BYTES = 1 << 19  # windows of this size and more are searched by chain.starts, which is then cheaper than _run
MESSAGES_PER_BATCH = 1 << 15  # decoded at a time: many enough to vectorise, few enough for the cache
MAX_SKELETON_FIELDS = 16_000_000  # of planes, names and headers in one file; real files hold less than a million
MAX_MESSAGE_FIELDS = 1_000  # of one event or stat; real ones hold less than fifty
USUAL_MESSAGE_FIELDS = 64
MAX_UNUSUAL_ROUNDS = 20_000  # rounds beyond the usual fields, in one file: a second of work
MAX_EVENTS_HELD = 100_000_000  # of one file; the reading horizon keeps real files below it
MAX_TIME_PS = 1 << 62  # sums of two such times still fit 64 bits: 53 days

VARINT, FIXED64, LEN, FIXED32 = 0, 1, 2, 5  # wire types; groups (3, 4) do not occur in XSpace


def field_tag(number: int, wire: int = LEN) -> int:
    """Return the tag of a field: its number and wire type."""
    return number << 3 | wire


class ProtoFile:
    """The bytes of a profile with its name for messages, and a scalar walk over a message's fields."""

    def __init__(self, data: bytes | mmap.mmap, label: str, most_fields: int = MAX_SKELETON_FIELDS) -> None:
        self.data, self.label = data, label
        self.origin_ns = 0  # set once every line's header is known
        self.lines = 0
        self._fields_left = self._most_fields = most_fields
        self._unusual_rounds_left = MAX_UNUSUAL_ROUNDS
        self._events_left = MAX_EVENTS_HELD

    @cached_property
    def array(self) -> Bytes:
        return np.frombuffer(self.data, np.uint8)

    def input_error(self, what: str) -> InputError:
        """Return the ``InputError`` for an unreadable profile."""
        return InputError(f"{self.label}: not a readable profile: {what}")

    def _varint(self, pos: int, end: int) -> tuple[int, int]:
        data, value = self.data, 0
        for shift in range(0, 70, 7):
            if pos >= end:
                raise self.input_error(f"a number is cut off at byte {pos}")
            byte = data[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, pos
        raise self.input_error(f"a number is longer than 64 bits before byte {pos}")

    def field(self, pos: int, end: int) -> tuple[int, int, int]:
        """Return (tag, value, next position); for a length-delimited field the value is the start of its payload."""
        data = self.data
        tag, payload = data[pos], pos + 1  # most tags and numbers have one byte; a call would cost more
        if tag >= 0x80:
            tag, payload = self._varint(pos, end)
        wire = tag & 7
        if wire in (VARINT, LEN):
            if payload < end and data[payload] < 0x80:
                value, stop = data[payload], payload + 1
            else:
                value, stop = self._varint(payload, end)
            if wire == LEN:
                value, stop = stop, stop + value
        elif wire in (FIXED64, FIXED32):
            stop = payload + (8 if wire == FIXED64 else 4)
            value = int.from_bytes(data[payload:stop], "little")
        else:
            raise self.input_error(f"wire type {wire} at byte {pos}")
        if tag < 8:
            raise self.input_error(f"a field 0 at byte {pos}")
        if stop > end:
            raise self.input_error(f"the field at byte {pos} reaches beyond its message")
        return tag, value, stop

    def fields(self, pos: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield (tag, value, next position) for each field. Raises ``InputError`` if there are too many."""
        while pos < end:
            self._fields_left -= 1
            if self._fields_left < 0:
                raise self.input_error(f"more than {self._most_fields} fields outside the events")
            found = self.field(pos, end)
            yield found
            pos = found[2]

    def count_unusual_round(self, round_: int) -> None:
        """Count the decoding rounds for unusually long messages.

        A few such messages take as long as a million others.
        """
        self._unusual_rounds_left -= round_ >= USUAL_MESSAGE_FIELDS
        if self._unusual_rounds_left < 0:
            raise self.input_error(f"too many events of more than {USUAL_MESSAGE_FIELDS} fields")

    def count_events(self, events: int) -> None:
        """Count the events that are kept as columns, each time they are read."""
        self._events_left -= events
        if self._events_left < 0:
            raise self.input_error(f"more than {MAX_EVENTS_HELD} events")

    def packed_numbers(self, pos: int, end: int) -> Iterator[int]:
        """Yield the numbers of a packed repeated field."""
        while pos < end:
            value, pos = self._varint(pos, end)
            yield value

    def text(self, start: int, stop: int) -> str:
        return self.data[start:stop].decode("utf-8", "replace")

    def release_pages(self, start: int, stop: int) -> None:
        """Tell the kernel that these pages of a mapped file need not stay in memory."""
        if isinstance(self.data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            start -= start % mmap.PAGESIZE
            self.data.madvise(mmap.MADV_DONTNEED, start, stop - start)


def to_signed(value: int) -> int:
    """Return the two's complement of 64 bits."""
    return value - (1 << 64) if value >> 63 else value


def encode_varint(value: int) -> bytes:
    """Return the bytes of a number that is not negative, seven bits in each."""
    head = bytearray()
    while value > 0x7F:
        head.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*head, value))


# ---- many messages at once ------------------------------------------------------------------------------------


class ByteWindow:
    """A range of bytes in which many numbers are decoded at a time."""

    def __init__(self, stretch: Bytes) -> None:
        self.size = len(stretch)
        self.bytes: Bytes = np.concatenate((stretch, np.zeros(64, np.uint8)))  # padding to load the last numbers
        # The eight bytes from every position on, as one overlapping view without a copy.
        self.words: Words = np.ndarray((self.size + 56,), np.dtype("<u8"), self.bytes, strides=(1,))

    def varints(self, at: Ints) -> tuple[Words, Ints]:
        """Return values and lengths of the varints at these positions; length 11 means malformed."""
        first = self.bytes[at]
        if not len(first) or first.max() < 0x80:
            return first.astype(np.uint64), np.ones(len(first), np.int64)
        second = self.bytes[at + 1]
        if (first & second).max() < 0x80:
            longer = first >> 7
            return (first & 0x7F) + (second * longer).astype(np.uint64) * np.uint64(128), longer + np.int64(1)
        word = self.words[at]
        stop = ~word
        stop &= np.uint64(0x8080808080808080)
        stop &= np.negative(stop)  # the lowest set bit: the top bit of the varint's last byte
        keep = stop - np.uint64(1)
        keep &= np.uint64(0x7F7F7F7F7F7F7F7F)
        word &= keep
        longest = keep.max()
        # Joins groups of 7 bits to 14, 28, then 56 bits, as far as needed.
        for least, low, high, shift in (
            (0x00, 0x007F007F007F007F, 0x7F007F007F007F00, 1),
            (0x7FFF, 0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
            (0x7FFFFFFF, 0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
        ):
            if longest > least:
                np.bitwise_and(word, np.uint64(high), out=keep)
                keep >>= np.uint64(shift)
                word &= np.uint64(low)
                word |= keep
        # stop is 1 << 8k+7, so the product carries the constant's byte 7-k, which is k+1, to the top.
        stop >>= np.uint64(7)
        stop *= np.uint64(0x0102030405060708)
        stop >>= np.uint64(56)
        size = stop.view(np.int64)
        if not size.all():  # more than eight bytes
            long = np.flatnonzero(size == 0)
            ninth = self.bytes[at[long] + 8].astype(np.uint64)
            tenth = np.where(ninth < 0x80, np.uint64(0), self.bytes[at[long] + 9].astype(np.uint64))
            word[long] |= (ninth & np.uint64(0x7F)) << np.uint64(56) | tenth << np.uint64(63)
            size[long] = np.where(ninth < 0x80, 9, np.where(tenth < 0x80, 10, 11))
        return word, size

    def field_run(self, tag: int, first: int) -> tuple[Ints, int]:
        """Return where each field of the unbroken run of ``tag`` fields from byte 0 begins, and where the run ends.

        A field that is cut off by the window's end is not included. ``first`` is the byte with which most payloads
        begin.
        """
        found = message_chain.run_starts(self.bytes, self.size, tag, first) if self.size >= MIN_LANES_BYTES else None
        if found is None:
            found = self._scan_field_run(tag, first)
            if (stop := found[1]) < self.size and self.bytes[stop] == tag and not self._reaches_out(stop):
                found = self._scan_field_run(
                    tag, None
                )  # the run continues with a payload that begins with another byte
        return found

    def _reaches_out(self, at: int) -> bool:
        """Return whether the field that begins at ``at`` ends outside the window."""
        value, used = self.varints(np.array([at + 1]))
        return bool(used[0] > 10 or at + 1 + int(used[0]) + int(value[0]) > self.size)

    def _scan_field_run(self, tag: int, first: int | None) -> tuple[Ints, int]:
        """Same as :meth:`run`, from all bytes that can begin a field; a few percent of all bytes equal the tag."""
        likely = self.bytes[: self.size] == tag
        if first is not None:  # after a length of one or two bytes
            likely &= (self.bytes[2 : self.size + 2] == first) | (self.bytes[3 : self.size + 3] == first)
        candidates = np.flatnonzero(likely)
        if not len(candidates) or candidates[0]:
            return np.zeros(0, np.int64), 0
        after = message_chain.field_ends(self.bytes, self.size, candidates)
        found = message_chain.follow_chain(candidates, after, self.size)
        found = found[after[found] <= self.size]  # the window may cut off the last one
        return candidates[found], int(after[found[-1]]) if len(found) else 0


class MessageRun(Struct, frozen=True):
    """Consecutive messages that are fields with the same tag."""

    window: ByteWindow  # holds them
    start: Ints  # of each message's payload, in the window
    stop: Ints
    edges: Ints  # positions in the file: the start of each field (with its tag), and the end of the last one


def message_runs(file: ProtoFile, pos: int, end: int, tag: int, first: int) -> Iterator[MessageRun]:
    """Yield the unbroken run of ``tag`` fields from ``pos`` on, a window at a time; most begin with ``first``."""
    while pos < end:
        found, payload, stop = file.field(pos, end)
        if found != tag:
            return
        window = ByteWindow(file.array[pos : min(end, pos + WINDOW_BYTES)])
        starts, used = window.field_run(tag, first)
        file.release_pages(pos, pos + window.size)  # possible because the window is a copy
        if used:
            edges = np.append(starts, used)
            for some in range(0, len(starts), MESSAGES_PER_BATCH):
                yield message_run_of(window, edges[some : some + MESSAGES_PER_BATCH + 1], pos)
        else:  # a single message larger than a window
            used = stop - pos
            if used <= WINDOW_BYTES:  # or a tag encoded in more bytes than needed, each of which would cost a window
                raise file.input_error(f"an odd tag at byte {pos}")
            whole = ByteWindow(file.array[payload:stop])
            yield MessageRun(whole, np.zeros(1, np.int64), np.array([stop - payload]), np.array([pos, stop]))
            file.release_pages(pos, stop)
        pos += used


def message_run_of(window: ByteWindow, edges: Ints, pos: int) -> MessageRun:
    """Return the fields that begin at all edges but the last, in a window that begins at ``pos``."""
    longer = window.bytes[edges[:-1] + 1] >> 7
    lengths = longer + np.int64(1)
    if longer.any() and (window.bytes[edges[:-1] + lengths] & (longer << 7)).any():
        _, lengths = window.varints(edges[:-1] + 1)
    return MessageRun(window, edges[:-1] + 1 + lengths, edges[1:], edges + pos)


class FieldRound(Struct, frozen=True):
    """The k-th field of every message that has at least k fields."""

    rows: Ints  # which message
    tag: Ints  # only the wire type for field numbers above 7, which events and stats do not have
    value: Words  # of a length-delimited field: the payload's length
    start: Ints  # of the payload
    stop: Ints
    tags: int  # the distinct tags as a bit set

    def with_tag(self, tag: int) -> FieldRound | None:
        """Return the fields with this tag, None if there are none."""
        if self.tags == 1 << tag:
            return self
        if not self.tags >> tag & 1:
            return None
        chosen = self.tag == tag
        return FieldRound(
            self.rows[chosen], self.tag[chosen], self.value[chosen], self.start[chosen], self.stop[chosen], 1 << tag
        )


def field_tags_at(file: ProtoFile, window: ByteWindow, at: Ints) -> tuple[Ints, Ints, int]:
    """Return the tags, the start of each field's content, and the distinct tags as a bit set."""
    tag: Ints = window.bytes[at].astype(np.int64)
    start = at + 1
    if tag.max() >= 64:
        values, used = window.varints(at)
        tag, start = values.view(np.int64), at + used
    if tag.min() < 8:
        raise file.input_error("an event has a field 0")
    tag = np.where(tag < 64, tag, tag & 7)
    tags = int(np.bitwise_or.reduce(np.left_shift(1, tag)))
    return tag, start, tags


def has_wire_type(tags: int, wire: int) -> bool:
    return bool(tags & (0x0101010101010101 << wire))


def field_rounds(
    file: ProtoFile, window: ByteWindow, start: Ints, stop: Ints, until: int | None = None
) -> Iterator[FieldRound]:
    """Decode many messages in step, one field of each per round; stops a message at a field ``until``."""
    rows: Ints = np.arange(len(start))
    for k in range(MAX_MESSAGE_FIELDS):
        more = start < stop
        if until is not None:
            more &= window.bytes[start] != until
        if not more.all():
            rows, start, stop = rows[more], start[more], stop[more]
        if not len(rows):
            return
        file.count_unusual_round(k)
        tag, content, tags = field_tags_at(file, window, start)
        value, used = window.varints(content)
        if any(has_wire_type(tags, wire) for wire in (3, 4, 6, 7)):
            raise file.input_error("an event has a field of an unknown wire type")
        if fixed := has_wire_type(tags, FIXED64) or has_wire_type(tags, FIXED32):
            used = np.where(tag & 3 == 1, 0, used)
        if used.max(initial=0) > 10:
            raise file.input_error("an event has a number longer than 64 bits")
        payload = content + used
        after = payload
        if has_wire_type(tags, LEN):
            size = np.where(tag & 7 == LEN, value, np.uint64(0))
            if size.max() > window.size:
                raise file.input_error("a field reaches beyond its event")
            after = after + size.astype(np.int64)
        if fixed:
            after = after + np.where(tag & 7 == FIXED64, 8, 0) + np.where(tag & 7 == FIXED32, 4, 0)
        if (after > stop).any():
            raise file.input_error("a field reaches beyond its event")
        yield FieldRound(rows, tag, value, payload, after, tags)
        start = after
    raise file.input_error(f"an event has more than {MAX_MESSAGE_FIELDS} fields")
