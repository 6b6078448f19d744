"""The folder of shards: complete or absent, the same bytes however it was stopped, and never over something else."""

from __future__ import annotations

import io
import json
import os
import random
import resource
import signal
import sys
import textwrap
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from slowtrain.errors import InputError

from .. import warm  # noqa: TID252  tests are no package
from . import packing

pytestmark = pytest.mark.tensorflow

RECORDS = [bytes([n % 251]) * (n * 37 % 900) for n in range(400)]
SHARD_BYTES = 10_000


def written(folder: Path, stop: int | None = None, plan: str = "plan") -> Any:
    """Writes the records that are missing; stops in front of record ``stop`` as an error would."""
    from slowtrain.capture.packing.shard_writer import ShardWriter

    with ShardWriter(folder, plan, {"form": "bytes"}, SHARD_BYTES) as writer:
        for number in range(writer.stored, len(RECORDS)):
            if number == stop:
                raise KeyboardInterrupt
            writer.write(RECORDS[number])
        return writer.finish()


def test_stopped_anywhere_the_bytes_are_the_same(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole")
    assert whole.elements == len(RECORDS)
    assert len(whole.shards) > 5
    assert whole.resumed == 0
    for stop in (0, 1, 57, 399):
        folder = tmp_path / str(stop)
        with pytest.raises(KeyboardInterrupt):
            written(folder, stop)
        assert not folder.exists()
        found = written(folder)
        assert found.resumed <= stop
        assert packing.contents(folder) == packing.contents(tmp_path / "whole")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["whole", "0", "1", "57", "399"])


def test_shards_are_plain_tfrecord_files(tmp_path: Path) -> None:
    import tensorflow as tf

    folder = written(tmp_path / "packed")
    files = [str(tmp_path / "packed" / shard.file) for shard in folder.shards]
    assert [bytes(r.numpy()) for r in tf.data.TFRecordDataset(files)] == RECORDS


def test_stopped_before_the_folder_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = written(tmp_path / "wanted")
    renamed = Path.rename

    def killed(self: Path, target: Path) -> Path:
        if self.name.endswith(".part"):
            raise KeyboardInterrupt
        return renamed(self, target)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        written(tmp_path / "packed")
    monkeypatch.undo()
    assert not (tmp_path / "packed").exists()
    assert written(tmp_path / "packed").resumed == wanted.elements
    assert packing.contents(tmp_path / "packed") == packing.contents(tmp_path / "wanted")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.txt").write_text("a")
    with pytest.raises(InputError, match="mine exists and holds other data; nothing was written"):
        written(tmp_path / "mine")
    written(tmp_path / "packed")
    before = packing.contents(tmp_path)
    with pytest.raises(InputError, match="packed is complete already"):
        written(tmp_path / "packed")
    with pytest.raises(InputError, match="packed exists and holds other data"):
        written(tmp_path / "packed", plan="another")
    assert packing.contents(tmp_path) == before


def test_an_unfinished_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        written(tmp_path / "packed", 200)
    before = packing.contents(tmp_path)
    with pytest.raises(InputError, match=r"packed\.part belongs to another plan; remove it, or give another --to"):
        written(tmp_path / "packed", plan="another")
    assert {k: v for k, v in packing.contents(tmp_path).items() if "tfrecord" in k} == {
        k: v for k, v in before.items() if "tfrecord" in k
    }
    foreign = tmp_path / "foreign.part"
    foreign.mkdir()
    (foreign / "photo.jpg").write_text("a")
    with pytest.raises(InputError, match=r"foreign\.part holds photo\.jpg, which slowtrain did not write"):
        written(tmp_path / "foreign")
    assert (foreign / "photo.jpg").read_text() == "a"


def test_a_changed_shard_is_found(tmp_path: Path) -> None:
    from slowtrain.capture.packing import shard_writer

    with pytest.raises(KeyboardInterrupt):
        written(tmp_path / "packed", 200)
    shard = sorted((tmp_path / "packed.part").glob("*.tfrecord"))[1]
    kept = shard.read_bytes()
    shard.write_bytes(kept[:-1])
    with pytest.raises(InputError, match="was changed after it was written"):
        written(tmp_path / "packed")
    shard.write_bytes(kept)
    folder = written(tmp_path / "packed")
    assert shard_writer.check_packed_folder(tmp_path / "packed").shards == folder.shards
    shard = tmp_path / "packed" / shard.name
    shard.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    with pytest.raises(InputError, match="differs from its checksum"):
        shard_writer.check_packed_folder(tmp_path / "packed")


def test_two_writers_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from slowtrain.capture.packing import shard_writer
    from slowtrain.capture.packing.shard_writer import ShardWriter

    monkeypatch.setattr(shard_writer, "LOCK_WAIT_S", 0.0)

    with (
        ShardWriter(tmp_path / "packed", "plan", {}),
        pytest.raises(InputError, match="another process is writing"),
        ShardWriter(tmp_path / "packed", "plan", {}),
    ):
        pass


PACK = """
    import sys
    from pathlib import Path
    import tensorflow as tf
    from slowtrain.capture.packing import packing_job, element_records
    from slowtrain.errors import InputError

    data = tf.data.Dataset.range(6000).map(lambda n: (tf.fill([50, 50], n), tf.strings.as_string(n)))
    form = element_records.describe_elements(data.element_spec)
    try:
        found = packing_job.pack_datasets([data], packing_job.PackingJob(sys.argv[1], "plan", form, 6000, 1 << 20))
        print(found.resumed)
    except InputError as error:
        print(error)
"""


def packed_here(folder: Path) -> str:
    """The same in this process; what it prints."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as said:
        patch.setattr(sys, "argv", ["run.py", str(folder)])
        exec(textwrap.dedent(PACK), {})
    return said.getvalue()


@pytest.mark.parametrize("kills", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_killed_at_random_moments_the_bytes_are_the_same(kills: int, tmp_path: Path) -> None:
    packed_here(tmp_path / "whole")
    whole, generator = tmp_path / "whole", random.Random(7)
    folder, part = tmp_path / "killed", tmp_path / "killed.part"
    command = [sys.executable, "-c", textwrap.dedent(PACK), str(folder)]
    nothing = (tmp_path / "printed").open("w+")
    for _ in range(kills):
        child = warm.WarmProcess(command, env=os.environ, stdin=nothing, stdout=nothing)
        before = len(list(part.glob("*.tfrecord")))
        # Waits until it writes again, so that each round gets further, then kills it at any moment.
        while child.poll() is None and len(list(part.glob("*.tfrecord"))) <= before:
            time.sleep(0.002)
        time.sleep(generator.uniform(0, 0.05))
        assert child.poll() is None
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    nothing.close()
    assert not folder.exists()
    assert int(packed_here(folder)) > kills  # elements of shards that were finished before
    assert packing.contents(folder) == packing.contents(whole)
    assert not part.exists()


def test_a_disk_that_refuses_bytes(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))

    done = packing.run(tmp_path, PACK, str(tmp_path / "packed"), preexec_fn=limit)
    said = done.stdout.splitlines()[-1]
    assert said.startswith(f"cannot write {tmp_path}/packed.part/elements-00000.tfrecord.tmp (")
    assert said.endswith("finished shards are kept: make room and run the same command again")
    assert not (tmp_path / "packed").exists()
    packed_here(tmp_path / "packed")
    assert json.loads((tmp_path / "packed" / "manifest.json").read_text())["elements"] == 6000


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    original = tf.io.TFRecordWriter

    class Full:
        def __init__(self, path: str) -> None:
            self.path, self.count, self.file = path, 0, original(path)

        def write(self, record: bytes) -> None:
            self.count += 1
            if "00002" in self.path and self.count > 3:
                raise tf.errors.ResourceExhaustedError(None, None, f"{self.path}; No space left on device")
            self.file.write(record)

        def close(self) -> None:
            self.file.close()

    monkeypatch.setattr(tf.io, "TFRecordWriter", Full)
    with pytest.raises(InputError) as error:
        written(tmp_path / "packed")
    kept = "finished shards are kept: make room and run the same command again"
    assert str(error.value) == f"the disk of {tmp_path}/packed.part is full; {kept}"
    monkeypatch.undo()
    assert written(tmp_path / "packed").resumed > 0
    written(tmp_path / "whole")
    assert packing.contents(tmp_path / "packed") == packing.contents(tmp_path / "whole")
