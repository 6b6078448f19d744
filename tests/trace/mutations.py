"""Damaged and hostile profiles by the ten thousand, made from small ones, each read in full.

    python -m tests.trace.mutations --inputs 50000 --seed 1            prints one JSON line of what came of them
    python -m tests.trace.mutations --seed 1 --only 4711 --save x.pb   one of them again, and into a file

An input is made from its number and the seed alone. ``test_mutations.py`` runs this in processes of its own, so that a
crash, a hang and the peak memory are seen from outside.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from slowtrain.errors import InputError
from slowtrain.profile.format import time_range, xplane

from .messages import entry, event, nested, number, raw_varint

DATA = Path(__file__).parent / "data"

# ---- what is damaged --------------------------------------------------------------------------------------------

_STATS = (
    nested(4, number(1, 1), number(4, -4)),
    nested(4, number(1, 2), number(3, 1 << 63)),
    nested(4, number(1, 1), b"\x11" + bytes(6) + b"\xe0\x3f"),
    nested(4, number(1, 3), nested(5, "café".encode())),
    nested(4, number(1, 3), nested(6, bytes(range(40)))),
    nested(4, number(1, 4), number(7, 2)),
)
_NAMES = (
    entry(4, 1, "model/dense/MatMul:MatMul", nested(4, b"MatMul"), nested(5, number(1, 5), nested(5, b"layer"))),
    entry(4, 2, "Iterator::Root::Prefetch"),
    entry(4, 3, "void kernel<float, 4>(int)", number(6, 1)),
    entry(4, 4, "more", nested(6, b"\x01\x02"), nested(3, b"metadata")),
    *(entry(5, i, name) for i, name in enumerate(("bytes", "_p", "tf_op", "group_id", "hlo_op"), 1)),
)
_LINE = nested(
    3, number(1, 9), nested(2, b"python"), number(3, 1_700_000_000_000_000_000), number(9, 12_000),
    event(1, 3, 4, _STATS[0]), event(2, 900, 70, _STATS[3], _STATS[5]), event(3, -8, 1 << 40, *_STATS[1:5]),
    nested(4, number(1, 1), number(3, 77), number(5, 3)), *(event(1 + i % 4, 50 * i, 20) for i in range(24)),
    nested(11, b"shown"), number(10, 3),
)  # fmt: skip
_STREAM = nested(
    3, number(1, 14), nested(2, b"Stream #14(Compute)"), number(3, 1_700_000_000_000_000_500),
    *(event(3, 40 * i, 30, nested(4, number(1, 2), number(3, i))) for i in range(9)),
)  # fmt: skip
_FACTS = nested(
    1, nested(2, b"Task Environment"), entry(5, 1, "profile_start_time"), nested(6, number(1, 1), number(3, 5))
)  # fmt: skip
MADE = (
    nested(1, number(1, 1), nested(2, b"/host:CPU"), _LINE, *_NAMES, nested(6, number(1, 1), number(3, 80))),
    nested(1, nested(2, b"/device:GPU:0"), _STREAM, *_NAMES[:3], *_NAMES[4:7]) + _FACTS
    + nested(2, b"an error") + nested(3, b"a warning") + nested(4, b"host"),
    nested(1, nested(2, b"/host:CPU"), nested(3, nested(2, b"tf_Compute/1"), event(1, 5, 6)), entry(4, 1, "x")),
)  # fmt: skip

# Which fields hold messages, by the kind of the message that they stand in.
_SCHEMA: dict[str, dict[int, str]] = {
    "space": {1: "plane"},
    "plane": {3: "line", 4: "name entry", 5: "stat entry", 6: "stat"},
    "line": {4: "event"},
    "event": {4: "stat"},
    "name entry": {2: "name"},
    "name": {5: "stat"},
}


@dataclass(frozen=True)
class Field:
    tag: int
    raw: bytes  # all of it, with tag and length
    payload: bytes  # of a length-delimited one
    value: int  # of a varint
    inner: tuple[Field, ...] = ()
    kind: str = ""  # of the message that it holds


def fields(data: bytes, kind: str) -> Iterator[Field]:
    """Of an undamaged message."""
    pos = 0
    while pos < len(data):
        start = pos
        tag, pos = _varint(data, pos)
        payload, value = b"", 0
        if tag & 7 == 0:
            value, pos = _varint(data, pos)
        else:
            size, pos = _varint(data, pos) if tag & 7 == 2 else ({1: 8, 5: 4}[tag & 7], pos)
            payload = data[pos : pos + size]
            pos += size
        holds = _SCHEMA.get(kind, {}).get(tag >> 3, "") if tag & 7 == 2 else ""
        yield Field(tag, data[start:pos], payload, value, tuple(fields(payload, holds)) if holds else (), holds)


def _varint(data: bytes, pos: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[pos] & 0x7F) << shift
        shift, pos = shift + 7, pos + 1
        if data[pos - 1] < 0x80:
            return value, pos


# ---- damage -----------------------------------------------------------------------------------------------------

NUMBERS = (
    *(raw_varint(n) for n in (0, 1, 127, 128, 2**31, 2**32 - 1, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1)),
    *(b"\x81\x80\x00", b"\x80" * 9 + b"\x00", b"\xff" * 9 + b"\x01"),  # in more bytes than they need
    *(b"\xff" * 9 + b"\x7f", b"\xff" * 10, b"\xff" * 30),  # longer than 64 bits
)
TEXTS = (
    *(b"", b"<script>alert(1)</script>", b"</style><img src=x onerror=alert(1)>", b"&lt;b&gt;", b"%s%n{0}"),
    *(b"\x1b[31mred\x1b[0m\n\r\x07", b"\xff\xfe\xfd", b"\xed\xa0\x80", b"\x00\x00", "\u202e\u2066".encode()),
    *(b"x" * 5000, b"../../etc/passwd", b"/host:CPU", b"/device:GPU:99999999999999999999", b"/device:TPU:-1"),
    *(b"Stream #" + b"9" * 400, b"(" * 300, b"Iterator::" * 200),
)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, removed, put in or repeated, wherever they stand."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        if not changed:
            break
        at, kind = chance.randrange(len(changed)), chance.randrange(6)
        if kind == 0:
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            changed[at] = chance.choice((0, 0x22, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del changed[at : at + chance.randint(1, 9)]
        elif kind == 3:
            changed[at:at] = chance.choice((*NUMBERS, b"\x22\x00", b"\x0b\x0c", b"\x1a\x00" * 50))
        elif kind == 4:
            other = chance.randrange(len(changed))
            changed[at : at + 8] = changed[other : other + 8]
        else:
            changed[at:at] = changed[at : at + chance.randint(1, 300)]
    return bytes(changed)


class Damage:
    """Makes inputs; every choice is ``chance``'s."""

    def __init__(self, seeds: Sequence[bytes]) -> None:
        self.seeds = seeds
        self.trees = [tuple(fields(seed, "space")) for seed in seeds]
        self.pool = [found for tree in self.trees for found in _all(tree)]
        made = len(MADE)
        # A real profile costs tenfold; and the third of the made ones is small enough that nearly all of it is header.
        self.weights = [58, 28, 9, *[5 / max(len(seeds) - made, 1)] * (len(seeds) - made)]

    def make(self, chance: random.Random) -> bytes:
        (which,) = chance.choices(range(len(self.seeds)), self.weights)
        how, data = chance.random(), self.seeds[which]
        if how < 0.72:
            data = self.message(self.trees[which], chance)
        elif how < 0.78:
            data = data[: chance.randrange(len(data))]
        elif how < 0.81:
            other = chance.choice(self.seeds)
            data = data[: chance.randrange(len(data))] + other[chance.randrange(len(other)) :]
        return damaged(data, chance) if how > 0.67 else data

    def message(self, found: Sequence[Field], chance: random.Random) -> bytes:
        """The message with one or a few of its fields damaged, itself or somewhere inside."""
        parts = [field.raw for field in found]
        for _ in range(1 if chance.random() < 0.8 else 3):
            at = chance.randrange(len(parts)) if parts else 0
            if at >= len(found):
                break
            field = found[at]
            if field.inner and chance.random() < 0.85:
                parts[at] = raw_varint(field.tag) + self.framed(self.message(field.inner, chance), chance)
            else:
                parts[at] = chance.choice(DAMAGES)(self, field, chance)
        if chance.random() < 0.1:
            chance.shuffle(parts)
        return b"".join(parts)

    def framed(self, payload: bytes, chance: random.Random) -> bytes:
        """Most lengths are right, so that the damage further inside is reached."""
        if chance.random() < 0.96:
            return raw_varint(len(payload)) + payload
        off = raw_varint(max(len(payload) + chance.choice((-2, -1, 1, 2, 100)), 0))
        return chance.choice((*NUMBERS, off)) + payload

    # -- of one field --

    def drop(self, field: Field, chance: random.Random) -> bytes:
        return b""

    def repeat(self, field: Field, chance: random.Random) -> bytes:
        return field.raw * chance.choice((2, 2, 3, 20, max(2, 4000 // max(len(field.raw), 1))))

    def splice(self, field: Field, chance: random.Random) -> bytes:
        other = chance.choice(self.pool).raw
        return chance.choice((other, field.raw + other, other + field.raw))

    def change_content(self, field: Field, chance: random.Random) -> bytes:
        wire = field.tag & 7
        if wire == 0:
            return raw_varint(field.tag) + chance.choice(NUMBERS)
        if wire in (1, 5):
            size = 8 if wire == 1 else 4
            return raw_varint(field.tag) + chance.choice((b"\xff" * size, bytes(size), chance.randbytes(size)))
        return raw_varint(field.tag) + self.framed(chance.choice(TEXTS), chance)

    def change_tag(self, field: Field, chance: random.Random) -> bytes:
        body = field.raw[len(raw_varint(field.tag)) :]
        tag = chance.choice((field.tag ^ chance.randrange(8), chance.randrange(130), 2**32 - 1, 2**67 - 1, 0))
        odd = raw_varint(field.tag)[:-1] + bytes((raw_varint(field.tag)[-1] | 0x80, 0))
        return chance.choice((raw_varint(tag), raw_varint(tag), odd)) + body

    def change_length(self, field: Field, chance: random.Random) -> bytes:
        if field.tag & 7 != 2:
            return field.raw[: chance.randrange(len(field.raw))]
        lies = (len(field.payload) + chance.choice((-1, 1, 7, 1 << 20)), 0, 1 << 31, 1 << 63, (1 << 64) - 1)
        return raw_varint(field.tag) + raw_varint(max(chance.choice(lies), 0)) + field.payload

    def cut_short(self, field: Field, chance: random.Random) -> bytes:
        if not field.payload:
            return field.raw[:-1]
        kept = field.payload[: chance.randrange(len(field.payload))]
        return raw_varint(field.tag) + self.framed(kept, chance)


DAMAGES: tuple[Callable[[Damage, Field, random.Random], bytes], ...] = (
    Damage.drop, Damage.repeat, Damage.splice, Damage.change_content, Damage.change_content, Damage.change_tag,
    Damage.change_length, Damage.cut_short,
)  # fmt: skip


def _all(found: Sequence[Field]) -> Iterator[Field]:
    for field in found:
        yield field
        yield from _all(field.inner)


# ---- reading ----------------------------------------------------------------------------------------------------


def everything(data: bytes) -> int | None:
    """Decodes all there is; the number of events, or None where the reader declined, in one line."""
    return _declined(lambda: _decode(xplane.parse_space(data)))


def _declined(read: Callable[[], int]) -> int | None:
    try:
        return read()
    except InputError as error:
        message = str(error)
        assert "\n" not in message, message
        assert len(message) < 20_000, message  # a line's name may be long; what prints it shortens it
        return None


def _decode(found: xplane.Space) -> int:
    count = 0
    for plane in found.planes:
        names = tuple(dict.fromkeys(list(plane.stat_names.values())[:12]))
        plane.metadata_stats(names)
        for line in plane.lines:
            events = line.events(names)
            count += len(events)
            for stat in events.stats.values():
                assert len(stat.labels()) == len(stat.per_event(0)) == len(events)
    return count


def _cut_again(data: bytes) -> int:
    """A cut of all that there is must read the same: declined only where planes went, or as the whole is.

    (A cut reads no statistics but for their names, and so not all by which a file may be declined.)
    """
    whole = time_range.cut_profile(data, -(1 << 63), (1 << 63) - 1)
    again = everything(whole.data)
    assert whole.events.kept == whole.events.of
    declined = again is None and (whole.planes.kept < whole.planes.of or everything(data) is None)
    assert declined or again == whole.events.kept, (again, whole.events)
    return whole.events.kept


def _from_file(data: bytes) -> int:
    with tempfile.NamedTemporaryFile(suffix=".xplane.pb") as file:
        file.write(data)
        file.flush()
        return _decode(xplane.read_space(file.name))


def read(data: bytes, chance: random.Random) -> int | None:
    """As users' files are read: nearly always as bytes, now and then cut and read again, or from a file, gzipped."""
    how = chance.random()
    if how > 0.06:
        return everything(data)
    if how > 0.02:
        return _declined(lambda: _cut_again(data))
    zipped = gzip.compress(data, 1, mtime=0)
    if how < 0.005:
        zipped = zipped[: chance.randrange(len(zipped))] + chance.randbytes(chance.randrange(4))
    return _declined(lambda: _from_file(zipped if how < 0.015 else data))


# ---- the run ----------------------------------------------------------------------------------------------------


def made(damage: Damage, seed: int, n: int) -> tuple[bytes, random.Random]:
    chance = random.Random(seed << 40 | n)
    return damage.make(chance), chance


def peak_bytes() -> int:
    """The most memory that this process had. Its ``ru_maxrss`` begins with that of the process which started it."""
    try:
        said = Path("/proc/self/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) for line in said.splitlines() if line.startswith("VmHWM")) * 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of a single input")
    parser.add_argument("--save", type=Path, help="write the last input into that file")
    args = parser.parse_args()
    warnings.simplefilter("error")
    damage = Damage([*MADE, *(file.read_bytes() for file in sorted(DATA.glob("*.xplane.pb")))])
    assert all(everything(seed) for seed in damage.seeds)
    counts = {"events": 0, "none": 0, "declined": 0}
    slowest_s, slowest = 0.0, 0
    for n in range(args.inputs) if args.only is None else [args.only]:
        data, chance = made(damage, args.seed, n)
        if args.save:
            args.save.write_bytes(data)
        began = time.process_time()
        try:
            found = read(data, chance)
        except BaseException:  # noqa: BLE001  whatever it is, it has to be said which input it was
            traceback.print_exc()
            print(f"again: python -m tests.trace.mutations --seed {args.seed} --only {n}", file=sys.stderr)
            return 1
        took_s = time.process_time() - began
        if took_s > slowest_s:
            slowest_s, slowest = took_s, n
        counts["declined" if found is None else "events" if found else "none"] += 1
    print(json.dumps({**counts, "slowest_s": slowest_s, "slowest": slowest, "peak_bytes": peak_bytes()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
