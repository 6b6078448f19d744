"""Protobuf's wire format: one message at a time for a file's skeleton, a million at a time for its events.

Lengths make the wire a chain: where a message begins depends on all before it. ``Window.run`` finds the beginnings
(:mod:`slowtrain.trace.chain`); ``rounds`` then decodes field k of all messages at once. Errors are ``InputError``.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slowtrain.errors import InputError
from slowtrain.trace import chain
from slowtrain.values import dataclass

Ints: TypeAlias = NDArray[np.int64]
Codes: TypeAlias = NDArray[np.signedinteger[Any]]  # places in a table, as narrow as it allows
Bools: TypeAlias = NDArray[np.bool_]
Words: TypeAlias = NDArray[np.uint64]
Bytes: TypeAlias = NDArray[np.uint8]

WINDOW_BYTES = 1 << 22  # looked through at a time for where events begin
LANES_BYTES = 1 << 19  # a window from which on the lanes of the chain, some hundred steps in any, cost less than _run
MESSAGES = 1 << 15  # decoded at a time: enough to vectorise, few enough for the cache
MAX_SKELETON_FIELDS = 16_000_000  # of planes, names and headers in one file; real ones hold below a million
MAX_MESSAGE_FIELDS = 1_000  # of one event or one stat; real ones hold below fifty
USUAL_MESSAGE_FIELDS = 64
MAX_UNUSUAL_ROUNDS = 20_000  # beyond the usual fields, in one file: a second of work
MAX_EVENTS_HELD = 100_000_000  # of one file; of real ones less, see horizon.py
TIME_LIMIT_PS = 1 << 62  # sums of two such times still fit 64 bits: 53 days

VARINT, FIXED64, LEN, FIXED32 = 0, 1, 2, 5  # wire types; groups (3, 4) do not occur in XSpace


def field_tag(number: int, wire: int = LEN) -> int:
    return number << 3 | wire


class File:
    """The bytes of a profile, its name for messages, and a scalar walk over the fields of a message."""

    def __init__(self, data: bytes | mmap.mmap, label: str, most_fields: int = MAX_SKELETON_FIELDS) -> None:
        self.data, self.label = data, label
        self.array: Bytes = np.frombuffer(data, np.uint8)
        self.origin_ns = 0  # set once every line's header is known
        self.lines = 0
        self._fields_left = self._most_fields = most_fields
        self._unusual_rounds_left = MAX_UNUSUAL_ROUNDS
        self._events_left = MAX_EVENTS_HELD

    def bad(self, what: str) -> InputError:
        return InputError(f"{self.label}: not a readable profile: {what}")

    def _varint(self, pos: int, end: int) -> tuple[int, int]:
        data, value = self.data, 0
        for shift in range(0, 70, 7):
            if pos >= end:
                raise self.bad(f"a number is cut off at byte {pos}")
            byte = data[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, pos
        raise self.bad(f"a number is longer than 64 bits before byte {pos}")

    def field(self, pos: int, end: int) -> tuple[int, int, int]:
        """(tag, value, next position); the value of a length-delimited field is where its payload begins."""
        data = self.data
        tag, payload = data[pos], pos + 1  # most tags and numbers are of one byte, and a call costs more than the rest
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
            raise self.bad(f"wire type {wire} at byte {pos}")
        if tag < 8:
            raise self.bad(f"a field 0 at byte {pos}")
        if stop > end:
            raise self.bad(f"the field at byte {pos} reaches beyond its message")
        return tag, value, stop

    def fields(self, pos: int, end: int) -> Iterator[tuple[int, int, int]]:
        while pos < end:
            self._fields_left -= 1
            if self._fields_left < 0:
                raise self.bad(f"more than {self._most_fields} fields outside the events")
            found = self.field(pos, end)
            yield found
            pos = found[2]

    def bear(self, round_: int) -> None:
        """Counts the rounds of messages with many fields: few messages take as long as a million do."""
        self._unusual_rounds_left -= round_ >= USUAL_MESSAGE_FIELDS
        if self._unusual_rounds_left < 0:
            raise self.bad(f"too many events of more than {USUAL_MESSAGE_FIELDS} fields")

    def hold(self, events: int) -> None:
        """Counts the events that are kept as columns, again each time that they are read."""
        self._events_left -= events
        if self._events_left < 0:
            raise self.bad(f"more than {MAX_EVENTS_HELD} events")

    def packed(self, pos: int, end: int) -> Iterator[int]:
        """The numbers of a packed repeated field."""
        while pos < end:
            value, pos = self._varint(pos, end)
            yield value

    def text(self, start: int, stop: int) -> str:
        return self.data[start:stop].decode("utf-8", "replace")

    def let_go(self, start: int, stop: int) -> None:
        """Tells the kernel that these pages of a mapped file need not stay in memory."""
        if isinstance(self.data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            start -= start % mmap.PAGESIZE
            self.data.madvise(mmap.MADV_DONTNEED, start, stop - start)


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


# ---- many messages at once ------------------------------------------------------------------------------------


class Window:
    """A stretch of bytes in which many numbers are decoded at a time."""

    def __init__(self, stretch: Bytes) -> None:
        self.size = len(stretch)
        self.bytes: Bytes = np.concatenate((stretch, np.zeros(64, np.uint8)))  # so that the last numbers can be loaded
        # The eight bytes from every position on, as one overlapping view: nothing is copied.
        self.words: Words = np.ndarray((self.size + 56,), np.dtype("<u8"), self.bytes, strides=(1,))

    def varints(self, at: Ints) -> tuple[Words, Ints]:
        """Values and lengths of the varints at these positions; length 11 says: malformed."""
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
        stop &= np.negative(stop)  # the lowest: the top bit of the varint's last byte
        keep = stop - np.uint64(1)
        keep &= np.uint64(0x7F7F7F7F7F7F7F7F)
        word &= keep
        longest = keep.max()
        # Groups of 7 bits closed up to 14, 28, then 56, as far as there are any.
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

    def run(self, tag: int, first: int) -> tuple[Ints, int]:
        """Where the unbroken run of ``tag`` fields from byte 0 on begins each field, and where the run stops.

        A field that the window cuts off is not in it. ``first`` is the byte that most payloads begin with.
        """
        found = chain.starts(self.bytes, self.size, tag, first) if self.size >= LANES_BYTES else None
        if found is None:
            found = self._run(tag, first)
            if (stop := found[1]) < self.size and self.bytes[stop] == tag and not self._reaches_out(stop):
                found = self._run(tag, None)  # the run goes on with a payload that begins otherwise
        return found

    def _reaches_out(self, at: int) -> bool:
        """Whether the field that begins there ends behind the window."""
        value, used = self.varints(np.array([at + 1]))
        return bool(used[0] > 10 or at + 1 + int(used[0]) + int(value[0]) > self.size)

    def _run(self, tag: int, first: int | None) -> tuple[Ints, int]:
        """As :meth:`run`, from all bytes that could begin a field: a few percent of all equal the tag."""
        likely = self.bytes[: self.size] == tag
        if first is not None:  # behind a length of one byte or two
            likely &= (self.bytes[2 : self.size + 2] == first) | (self.bytes[3 : self.size + 3] == first)
        candidates = np.flatnonzero(likely)
        if not len(candidates) or candidates[0]:
            return np.zeros(0, np.int64), 0
        after = chain.after(self.bytes, self.size, candidates)
        found = chain.follow(candidates, after, self.size)
        found = found[after[found] <= self.size]  # the last one may be cut off by the window
        return candidates[found], int(after[found[-1]]) if len(found) else 0


@dataclass(frozen=True)
class Stretch:
    """Messages that stand one behind the other, as fields of one tag."""

    window: Window  # holds them
    start: Ints  # of each message's payload, in the window
    stop: Ints
    edges: Ints  # in the file: where each field with its tag begins, and where the last one ends


def stretches(file: File, pos: int, end: int, tag: int, first: int) -> Iterator[Stretch]:
    """The unbroken run of ``tag`` fields from ``pos`` on, a window at a time; most of them begin with ``first``."""
    while pos < end:
        found, payload, stop = file.field(pos, end)
        if found != tag:
            return
        window = Window(file.array[pos : min(end, pos + WINDOW_BYTES)])
        starts, used = window.run(tag, first)
        file.let_go(pos, pos + window.size)  # the window is a copy
        if used:
            edges = np.append(starts, used)
            for some in range(0, len(starts), MESSAGES):
                yield stretch_of(window, edges[some : some + MESSAGES + 1], pos)
        else:  # a single message larger than a window
            used = stop - pos
            if used <= WINDOW_BYTES:  # or a tag in more bytes than it needs, each of which would cost a window
                raise file.bad(f"an odd tag at byte {pos}")
            whole = Window(file.array[payload:stop])
            yield Stretch(whole, np.zeros(1, np.int64), np.array([stop - payload]), np.array([pos, stop]))
            file.let_go(pos, stop)
        pos += used


def stretch_of(window: Window, edges: Ints, pos: int) -> Stretch:
    """Fields that begin at all the edges but the last, in a window that begins at ``pos``."""
    longer = window.bytes[edges[:-1] + 1] >> 7
    lengths = longer + np.int64(1)
    if longer.any() and (window.bytes[edges[:-1] + lengths] & (longer << 7)).any():
        _, lengths = window.varints(edges[:-1] + 1)
    return Stretch(window, edges[:-1] + 1 + lengths, edges[1:], edges + pos)


@dataclass(frozen=True)
class Round:
    """The k-th field of every message that has one."""

    rows: Ints  # which message
    tag: Ints  # of a field number above 7, which the schemas of events and stats lack: only its wire type
    value: Words  # of a length-delimited field: the payload's length
    start: Ints  # of the payload
    stop: Ints
    tags: int  # the different tags as a set of bits

    def only(self, tag: int) -> Round | None:
        if self.tags == 1 << tag:
            return self
        if not self.tags >> tag & 1:
            return None
        chosen = self.tag == tag
        return Round(
            self.rows[chosen], self.tag[chosen], self.value[chosen], self.start[chosen], self.stop[chosen], 1 << tag
        )


def tags_of(file: File, window: Window, at: Ints) -> tuple[Ints, Ints, int]:
    """Tags, where their fields' contents start, and the different ones as a set of bits."""
    tag: Ints = window.bytes[at].astype(np.int64)
    start = at + 1
    if tag.max() >= 64:
        values, used = window.varints(at)
        tag, start = values.view(np.int64), at + used
    if tag.min() < 8:
        raise file.bad("an event has a field 0")
    tag = np.where(tag < 64, tag, tag & 7)
    tags = int(np.bitwise_or.reduce(np.left_shift(1, tag)))
    return tag, start, tags


def has_wire(tags: int, wire: int) -> bool:
    return bool(tags & (0x0101010101010101 << wire))


def rounds(file: File, window: Window, start: Ints, stop: Ints, until: int | None = None) -> Iterator[Round]:
    """Walks many messages in step; a message that has come to a field ``until`` is left there."""
    rows: Ints = np.arange(len(start))
    for k in range(MAX_MESSAGE_FIELDS):
        more = start < stop
        if until is not None:
            more &= window.bytes[start] != until
        if not more.all():
            rows, start, stop = rows[more], start[more], stop[more]
        if not len(rows):
            return
        file.bear(k)
        tag, content, tags = tags_of(file, window, start)
        value, used = window.varints(content)
        if any(has_wire(tags, wire) for wire in (3, 4, 6, 7)):
            raise file.bad("an event has a field of an unknown wire type")
        if fixed := has_wire(tags, FIXED64) or has_wire(tags, FIXED32):
            used = np.where(tag & 3 == 1, 0, used)
        if used.max(initial=0) > 10:
            raise file.bad("an event has a number longer than 64 bits")
        payload = content + used
        after = payload
        if has_wire(tags, LEN):
            size = np.where(tag & 7 == LEN, value, np.uint64(0))
            if size.max() > window.size:
                raise file.bad("a field reaches beyond its event")
            after = after + size.astype(np.int64)
        if fixed:
            after = after + np.where(tag & 7 == FIXED64, 8, 0) + np.where(tag & 7 == FIXED32, 4, 0)
        if (after > stop).any():
            raise file.bad("a field reaches beyond its event")
        yield Round(rows, tag, value, payload, after, tags)
        start = after
    raise file.bad(f"an event has more than {MAX_MESSAGE_FIELDS} fields")
