"""Damaged and hostile profiles: columns or one ``InputError``, in bounded time and memory, never anything else."""

from __future__ import annotations

import gzip
import random
import time
from pathlib import Path

import pytest

from slowtrain.errors import InputError
from slowtrain.profile import profile_files
from slowtrain.profile.format import xplane

from . import mutations
from .messages import TRACES, entry, event, nested, number, raw_varint, space, trace
from .mutations import everything

SMALL = space(
    nested(3, number(1, 9), nested(2, b"python"), number(3, 5), event(1, 3, 4, nested(4, number(1, 1), number(4, -1))),
           event(1, 900, 70, nested(4, number(1, 2), nested(5, b"text")), nested(4, number(1, 1), number(7, 2))),
           nested(4, number(1, 1), number(5, 3)), number(10, 3), nested(11, b"shown")),
    nested(3, nested(2, b"tf_Compute/1"), event(1, 5, 6)),
    more=entry(4, 3, "more", nested(4, b"display"), nested(5, number(1, 1), number(3, 8))),
)  # fmt: skip


@pytest.mark.parametrize("name", ["jax-mi300x/elementwise", "tpu/tpu-inference", "tf-v100-bert/worker-0"])
def test_damaged_real_profiles(name: str) -> None:
    data, chance = trace(name).read_bytes(), random.Random(2)
    for _ in range(12):
        everything(mutations.damaged(data, chance))


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
        xplane.read_space(path)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError, match="cannot be read"):
            xplane.read_space(path)


def test_the_corrupt_profile_and_protobufs_of_another_kind() -> None:
    trace("tpu/corrupt")
    for path in [TRACES / "tpu" / "corrupt.xplane.pb", *TRACES.glob("tf-gpu-*/*.pb")]:
        with pytest.raises(InputError):
            xplane.read_space(path)


def test_a_gzip_bomb_is_declined_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_files, "MAX_UNZIPPED_BYTES", 1 << 22)
    path = tmp_path / "bomb.xplane.pb.gz"
    path.write_bytes(gzip.compress(SMALL + bytes(1 << 24)))
    with pytest.raises(InputError, match="larger than 4 MiB when unpacked"):
        xplane.read_space(path)


def test_broken_gzip_data(tmp_path: Path) -> None:
    path = tmp_path / "cut.xplane.pb.gz"
    whole = gzip.compress(SMALL)
    for damaged in (whole[:-9], whole[:20] + b"\xff\xff\xff" + whole[23:], whole[:-6] + bytes(6)):
        path.write_bytes(damaged)
        with pytest.raises(InputError):
            xplane.read_space(path)


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
    "tags in more bytes than they need": space(nested(3, event(1, 0, 1), b"\xa2\x00\x02\x08\x01" * 60_000)),
    "lines of one event of many fields": space(nested(3, nested(4, b"\x08\x01" * 990)) * 200),
    "lines of one event of many stats": space(nested(3, nested(4, b"\x22\x02\x08\x01" * 490)) * 200),
    "thousands of lines, and of names of one statistic": space(
        nested(3, event(1, 0, 1)) * 5_000, more=b"".join(entry(5, i, "bytes") for i in range(5_000))
    ),
    "a group": space(b"\x0b\x0c"),
    "a header behind the events": space(nested(3, event(1, 0, 1), number(3, 99))),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_profiles_are_read_or_declined(kind: str) -> None:
    everything(HOSTILE[kind])


@pytest.mark.bench
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_profiles_cost_little(kind: str) -> None:
    start = time.process_time()
    everything(HOSTILE[kind])
    assert time.process_time() - start < 5  # a second or less each; far from what they aim at


def test_a_header_behind_the_events_is_declined_not_ignored() -> None:
    assert everything(HOSTILE["a header behind the events"]) is None
