"""ArrayRecord files: the elements of TFRecord files, in any order, read by Grain and without TensorFlow."""

from __future__ import annotations

import re
import resource
from dataclasses import replace
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slowtrain.errors import EnvironmentMissing, InputError
from slowtrain.model.packing import ARRAY_RECORD, PackedFolder, PackingPlan
from slowtrain.pack import folder_plan, packing_run

from . import packing

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def grain() -> Any:
    pytest.importorskip("array_record", reason="slowtrain[grain] is not installed here")
    return pytest.importorskip("grain", reason="slowtrain[grain] is not installed here")


def write_images(folder: Path) -> None:
    import tensorflow as tf

    rng = np.random.default_rng(0)
    for kind in ("cat", "dog"):
        (folder / kind).mkdir(parents=True)
        for n in range(6):
            image = rng.integers(0, 255, (8, 9, 3), np.uint8)
            (folder / kind / f"{n}.png").write_bytes(tf.io.encode_png(image).numpy())


def write_rows(folder: Path) -> None:
    folder.mkdir()
    for file in range(2):
        lines = ["id,value,name,city", *(f"{n},{n / 7},{'x' * (n % 5)},Köln {n}" for n in range(40))]
        (folder / f"{file}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_arrays(folder: Path) -> None:
    folder.mkdir()
    rng = np.random.default_rng(0)
    for n in range(3):
        arrays = {"x": rng.random((20, 3, 2)).astype("f4"), "y": rng.integers(0, 9, 20), "ok": rng.random(20) > 0.5}
        np.savez(folder / f"{n}.npz", **arrays)  # type: ignore[arg-type]


def packed(folder: Path, output: Path, file_format: str, **changed: Any) -> tuple[PackingPlan, PackedFolder]:
    work = output.with_name(f"{output.name}-work")
    plan = replace(folder_plan.plan_folder(folder, output, work, file_format), **changed)
    return plan, packing_run.run_plan(plan, lambda _elements, _bytes: None)[0]


def flat(element: Any) -> list[Any]:
    import tensorflow as tf

    return [one if isinstance(one, bytes) else np.asarray(one) for one in tf.nest.flatten(element)]


@pytest.mark.parametrize(
    ("write", "decoding_us"), [(write_images, 0.0), (write_images, 1e9), (write_rows, 0.0), (write_arrays, 0.0)]
)
def test_the_elements_are_those_of_tfrecord_files(
    grain: Any, write: Any, decoding_us: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slowtrain.capture.packing import folder_elements, packing_job

    monkeypatch.setattr(folder_elements, "decoding_us", lambda _files: decoding_us)
    monkeypatch.setattr(packing_job, "_read_from_disk_us", lambda _packed, _form: 50.0)
    write(tmp_path / "data")
    plan, folder = packed(tmp_path / "data", tmp_path / "packed", ARRAY_RECORD, shard_bytes=1000)
    assert (plan.source.decoded, plan.form.block) == (bool(decoding_us), 1)
    assert len(folder.shards) > 1
    assert all(shard.file.endswith(".array_record") for shard in folder.shards)
    reference, other = packed(tmp_path / "data", tmp_path / "reference", "tfrecord")
    wanted = [flat(one) for one in packing.read(reference.form, other)]
    found = [flat(one) for one in packing_job.grain_elements(plan.form, folder)]
    assert len(found) == len(wanted) == folder.elements
    for one, two in zip(found, wanted, strict=True):
        for mine, theirs in zip(one, two, strict=True):
            same = mine == theirs if isinstance(mine, bytes) else mine.tobytes() == theirs.tobytes()
            assert same
            assert isinstance(mine, bytes) or (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
    again = packing_run.run_plan(plan, lambda _elements, _bytes: None)[0]
    assert again.already_complete


def test_the_printed_lines_need_no_tensorflow(grain: Any, tmp_path: Path) -> None:
    write_arrays(tmp_path / "data")
    plan, folder = packed(tmp_path / "data", tmp_path / "packed", ARRAY_RECORD)
    lines = f"import sys\nsys.modules['tensorflow'] = None\n{packing_run.reading_text(plan.form, [folder])}"
    lines += "data = read_packed()\nprint(len(data), data[3]['x'].shape)\n"
    lines += "print(next(iter(data.seed(0).shuffle().batch(4).to_iter_dataset()))['x'].shape)\n"
    done = packing.run(tmp_path, lines)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["60 (3, 2)", "(4, 3, 2)"]


def test_stopped_anywhere_the_bytes_are_the_same(grain: Any, tmp_path: Path) -> None:
    from slowtrain.capture.packing.shard_writer import ShardWriter

    records = [bytes([n % 251]) * (n * 37 % 900) for n in range(200)]

    def write(folder: Path, stop: int | None = None) -> PackedFolder:
        with ShardWriter(folder, "plan", {}, 10_000, file_format=ARRAY_RECORD) as writer:
            for number in range(writer.stored, len(records)):
                if number == stop:
                    raise KeyboardInterrupt
                writer.write(records[number])
            return writer.finish()

    assert len(write(tmp_path / "whole").shards) > 5
    for stop in (0, 57, 199):
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path / str(stop), stop)
        assert write(tmp_path / str(stop)).resumed <= stop
        assert packing.contents(tmp_path / str(stop)) == packing.contents(tmp_path / "whole")


WRITE = """
    import sys
    from pathlib import Path
    from slowtrain.capture.packing.shard_writer import ShardWriter
    from slowtrain.errors import InputError

    try:
        with ShardWriter(Path(sys.argv[1]), "plan", {}, 1 << 30, file_format="array-record") as writer:
            for n in range(400):
                writer.write(bytes([n % 251]) * 9000)
            writer.finish()
    except InputError as error:
        print(error)
"""


def test_a_disk_that_refuses_bytes(grain: Any, tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))

    done = packing.run(tmp_path, WRITE, str(tmp_path / "packed"), preexec_fn=limit)
    said = done.stdout.splitlines()[-1]
    assert re.match(rf"cannot write {tmp_path}/packed\.part/elements-00000\.array_record\.tmp \(", said)
    assert said.endswith("finished shards are kept: make room and run the same command again")
    assert not (tmp_path / "packed").exists()


def test_what_array_records_cannot_hold_is_one_line(grain: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "a.npz", words=np.array([b"a", b"bc"]).reshape(1, 2), x=np.zeros(1))
    with pytest.raises(InputError, match="hold numbers of known shape and scalar strings, not words") as error:
        packed(tmp_path / "data", tmp_path / "packed", ARRAY_RECORD)
    assert "\n" not in str(error.value)


def test_without_grain_one_line_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from slowtrain.capture.packing import record_files

    monkeypatch.setattr(record_files, "find_spec", lambda name: None if name == "grain" else util.find_spec(name))
    write_arrays(tmp_path / "data")
    with pytest.raises(EnvironmentMissing, match=r"pip install 'slowtrain\[grain\]'"):
        packed(tmp_path / "data", tmp_path / "packed", ARRAY_RECORD)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["data"]
