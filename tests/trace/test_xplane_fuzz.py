"""Damaged and hostile profiles: columns or one ``InputError``, in bounded time and memory, never anything else."""

from __future__ import annotations

import gzip
import random
import time
from pathlib import Path

import pytest

from slowtrain.errors import InputError
from slowtrain.trace import xplane

TRACES = Path(__file__).parents[2].parent / "shared" / "traces"


def trace(name: str) -> Path:
    path = TRACES / f"{name}.xplane.pb"
    if not path.exists():
        pytest.skip(f"the shared traces are not at {TRACES}")
    return path


def raw_varint(value: int) -> bytes:
    head = b""
    while value > 0x7F:
        head, value = head + bytes([value & 0x7F | 0x80]), value >> 7
    return head + bytes([value])


def number(field: int, value: int) -> bytes:
    return raw_varint(field << 3) + raw_varint(value & 0xFFFF_FFFF_FFFF_FFFF)


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


SMALL = space(
    nested(3, number(1, 9), nested(2, b"python"), number(3, 5), event(1, 3, 4, nested(4, number(1, 1), number(4, -1))),
           event(1, 900, 70, nested(4, number(1, 2), nested(5, b"text")), nested(4, number(1, 1), number(7, 2))),
           nested(4, number(1, 1), number(5, 3)), number(10, 3), nested(11, b"shown")),
    nested(3, nested(2, b"tf_Compute/1"), event(1, 5, 6)),
    more=entry(4, 3, "more", nested(4, b"display"), nested(5, number(1, 1), number(3, 8))),
)  # fmt: skip


def everything(data: bytes) -> int | None:
    """Decodes all there is; the number of events, or None where the reader declined."""
    try:
        found = xplane.parse(data)
        for plane in found.planes:
            plane.metadata_stats(tuple(plane.stat_names.values()))
        wanted = tuple({name for plane in found.planes for name in list(plane.stat_names.values())[:20]})
        return sum(len(line.events(wanted)) for plane in found.planes for line in plane.lines)
    except InputError as error:
        return None if "\n" not in str(error) else pytest.fail(f"more than one line: {error!r}")


def mutated(data: bytes, chance: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(damaged))
        kind = chance.randrange(5)
        if kind == 0:
            damaged[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            damaged[at] = chance.choice((0, 0x22, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del damaged[at : at + chance.randint(1, 9)]
        elif kind == 3:
            damaged[at:at] = chance.choice((b"\xff" * 10, b"\x22\x00", b"\x0b\x0c", raw_varint(1 << 62), b"\x80"))
        else:
            other = chance.randrange(len(damaged))
            damaged[at : at + 8] = damaged[other : other + 8]
        if not damaged:
            break
    return bytes(damaged)


def test_four_thousand_damaged_small_profiles() -> None:
    chance = random.Random(1)
    answers = [everything(mutated(SMALL, chance)) for _ in range(4_000)]
    assert None in answers
    assert any(answers)  # the damage is neither always fatal nor never


@pytest.mark.parametrize("name", ["jax-mi300x/elementwise", "tpu/tpu-inference", "tf-v100-bert/worker-0"])
def test_damaged_real_profiles(name: str) -> None:
    data, chance = trace(name).read_bytes(), random.Random(2)
    for _ in range(12):
        everything(mutated(data, chance))


def test_truncation_anywhere_is_an_error() -> None:
    for size in range(len(SMALL)):
        assert everything(SMALL[:size]) is None


def test_truncation_of_a_real_profile_between_its_planes_is_a_shorter_profile_and_else_an_error() -> None:
    data = trace("jax-mi300x/conv").read_bytes()
    whole = everything(data)
    assert whole
    for size in range(0, len(data), 1_999):
        count = everything(data[:size])
        assert count is None or count <= whole


@pytest.mark.parametrize("other", ["", "\x00", "{}", '{"traceEvents": []}', "plain text\n", "<html>", "\x1f\x8b"])
def test_other_files(tmp_path: Path, other: str) -> None:
    path = tmp_path / "some.xplane.pb"
    path.write_bytes(other.encode("latin-1"))
    with pytest.raises(InputError, match=r"some\.xplane\.pb: not a readable profile: "):
        xplane.read(path)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError, match="cannot be read"):
            xplane.read(path)


def test_the_corrupt_profile_and_protobufs_of_another_kind() -> None:
    trace("tpu/corrupt")
    for path in [TRACES / "tpu" / "corrupt.xplane.pb", *TRACES.glob("tf-gpu-*/*.pb")]:
        with pytest.raises(InputError):
            xplane.read(path)


def test_a_gzip_bomb_is_declined_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xplane, "MAX_UNZIPPED_BYTES", 1 << 22)
    path = tmp_path / "bomb.xplane.pb.gz"
    path.write_bytes(gzip.compress(bytes(1 << 24)))
    with pytest.raises(InputError, match="unzips to more than 4 MiB"):
        xplane.read(path)


def test_broken_gzip_data(tmp_path: Path) -> None:
    path = tmp_path / "cut.xplane.pb.gz"
    whole = gzip.compress(SMALL)
    for damaged in (whole[:-9], whole[:20] + b"\xff\xff\xff" + whole[23:], whole[:-6] + bytes(6)):
        path.write_bytes(damaged)
        with pytest.raises(InputError):
            xplane.read(path)


HOSTILE = {
    "stats by the thousand": space(nested(3, event(1, 0, 1, b"\x22\x00" * 200_000))),
    "empty lines": space(b"\x1a\x00" * 200_000),
    "empty events": space(nested(3, b"\x22\x00" * 300_000)),
    "events and odd fields by turns": space(nested(3, b"\x22\x00\x28\x00" * 200_000)),
    "bytes that look like events": space(nested(3, nested(4, nested(4, b"\x22" * 400_000)))),
    "many events with many fields": space(nested(3, nested(4, b"\x08\x01" * 999) * 300)),
    "a length of 2**63": space(nested(3, b"\x22" + raw_varint(1 << 63) + b"x")),
    "a stat's length of 2**63": space(nested(3, nested(4, b"\x22" + raw_varint(1 << 63)))),
    "an endless number": space(nested(3, nested(4, b"\x08" + b"\xff" * 30))),
    "a time of 2**63": space(nested(3, number(3, 1 << 63), event(1, 1 << 63, 1 << 63))),
    "times far apart": space(nested(3, number(3, 1), event(1, 0, 1)), nested(3, number(3, 1 << 62), event(1, 0, 1))),
    "a group": space(b"\x0b\x0c"),
    "a header behind the events": space(nested(3, event(1, 0, 1), number(3, 99))),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_profiles_cost_little(kind: str) -> None:
    start = time.process_time()
    everything(HOSTILE[kind])
    assert time.process_time() - start < 5  # a second or less each; far from what they aim at


def test_a_header_behind_the_events_is_declined_not_ignored() -> None:
    assert everything(HOSTILE["a header behind the events"]) is None
