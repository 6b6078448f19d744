"""Folders of images, CSV and NPZ files: the same elements as a plain reading of the files gives, and their faults."""

from __future__ import annotations

import io
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slowtrain.capture.packing import folder_files
from slowtrain.errors import InputError
from slowtrain.model.packing import PackedFolder, PackingPlan
from slowtrain.pack import folder_plan, packing_run

from . import packing

pytestmark = pytest.mark.tensorflow


def quiet(_elements: int, _bytes: int) -> None:
    pass


def png(array: np.ndarray) -> bytes:
    import tensorflow as tf

    found: bytes = tf.io.encode_png(array).numpy()
    return found


def images(folder: Path, sizes: tuple[tuple[int, int], ...] = ((8, 8),), count: int = 6) -> dict[str, bytes]:
    rng, written = np.random.default_rng(0), {}
    for kind in ("cat", "dog"):
        for n in range(count):
            name = f"{kind}/{n:03d}.png"
            (folder / kind).mkdir(parents=True, exist_ok=True)
            written[name] = png(rng.integers(0, 255, (*sizes[n % len(sizes)], 3), np.uint8))
            (folder / name).write_bytes(written[name])
    return written


def packed_plan(folder: Path, tmp_path: Path) -> tuple[PackingPlan, PackedFolder]:
    plan = folder_plan.plan_folder(folder, tmp_path / "packed", tmp_path / "work")
    return plan, packing_run.run_plan(plan, quiet)[0]


@pytest.mark.parametrize("decoded", [True, False])
def test_images_with_their_classes(decoded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    from slowtrain.capture.packing import folder_elements, packing_job

    monkeypatch.setattr(folder_elements, "decoding_us", lambda _files: 150.0 if decoded else 0.0)
    monkeypatch.setattr(packing_job, "_read_from_disk_us", lambda _packed, form: 50.0 if form.block == 1 else 100.0)
    wanted = images(tmp_path / "images")
    plan, folder = packed_plan(tmp_path / "images", tmp_path)
    assert plan.source.decoded is decoded
    assert plan.source.class_names == ("cat", "dog")
    assert (plan.elements, folder.elements) == (12, 12)
    found = packing.read(plan.form, folder)
    assert [int(label) for _, label in found] == [0] * 6 + [1] * 6
    for (value, _), name in zip(found, sorted(wanted), strict=True):
        if decoded:
            assert value.tobytes() == tf.io.decode_image(wanted[name]).numpy().tobytes()
        else:
            assert value == wanted[name]


def test_images_of_several_sizes_stay_encoded(tmp_path: Path) -> None:
    wanted = images(tmp_path / "images", sizes=((8, 8), (4, 16)))
    plan, folder = packed_plan(tmp_path / "images", tmp_path)
    assert not plan.source.decoded
    assert re.search(r"decoded: .*001\.png has the shape \(4, 16, 3\) and others \(8, 8, 3\): ragged", plan.rejected[0])
    assert [value for value, _ in packing.read(plan.form, folder)] == [wanted[name] for name in sorted(wanted)]


def test_files_without_classes(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for n in range(5):
        (tmp_path / "notes" / f"{n}.txt").write_bytes(bytes([n]) * n)
    (tmp_path / "notes" / ".hidden").write_text("x")
    plan, folder = packed_plan(tmp_path / "notes", tmp_path)
    assert packing.read(plan.form, folder) == [bytes([n]) * n for n in range(5)]


def test_rows_of_csv_files(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    for file in range(2):
        lines = ["id,value,name", *(f'{n + 3000 * file},{n / 7},"a, {n}"' for n in range(3000))]
        (tmp_path / "rows" / f"{file}.csv").write_text("\n".join(lines) + "\n")
    plan, folder = packed_plan(tmp_path / "rows", tmp_path)
    assert plan.source.columns == (("id", "int64"), ("value", "float32"), ("name", "string"))
    found = packing.read(plan.form, folder)
    assert [int(row["id"]) for row in found] == list(range(6000))
    assert [row["value"] for row in found] == [np.float32(n / 7) for n in range(3000)] * 2
    assert found[-1]["name"] == b"a, 2999"


@pytest.mark.parametrize("rows", [True, False])
def test_arrays_of_npz_files(rows: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "arrays").mkdir()
    wanted = []
    for n in range(4):
        length = 50 if rows else 1
        x, y = rng.random((length, 3, 2)).astype("f4"), rng.integers(0, 9, length)
        arrays = {"x": x, "y": y} if rows else {"x": x[0], "y": y[0]}
        np.savez(tmp_path / "arrays" / f"{n}.npz", **arrays)
        wanted += list(zip(x, y, strict=True))
    plan, folder = packed_plan(tmp_path / "arrays", tmp_path)
    assert plan.source.rows is rows
    found = packing.read(plan.form, folder)
    assert len(found) == len(wanted)
    for row, (x, y) in zip(found, wanted, strict=True):
        assert row["x"].tobytes() == x.tobytes()
        assert row["y"] == y


def ragged_csv(folder: Path) -> None:
    (folder / "a.csv").write_text("a,b\n1,2\n3\n")


def other_columns(folder: Path) -> None:
    (folder / "a.csv").write_text("a,b\n1,2\n")
    (folder / "b.csv").write_text("a,c\n1,2\n")


def words_in_numbers(folder: Path) -> None:
    (folder / "a.csv").write_text("a\n" + "1\n" * 1000 + "one\n")


def objects(folder: Path) -> None:
    np.savez(folder / "a.npz", x=np.array([{"a": 1}, None], object))


def damaged(folder: Path) -> None:
    content = io.BytesIO()
    np.savez(content, x=np.arange(1000))
    (folder / "a.npz").write_bytes(content.getvalue()[:600])


def ragged_arrays(folder: Path) -> None:
    np.savez(folder / "a.npz", x=np.zeros((5, 3)), y=np.zeros(5))
    np.savez(folder / "b.npz", x=np.zeros((5, 4)), y=np.zeros(5))


def nothing(folder: Path) -> None:
    pass


def mixed(folder: Path) -> None:
    (folder / "a.csv").write_text("a\n1\n")
    (folder / "a.txt").write_text("a")


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (ragged_csv, "a.csv:3 has 1 values and the header 2: ragged data"),
        (other_columns, "b.csv has other columns than the first file"),
        (words_in_numbers, "a.csv, from line 2 on: invalid literal for int"),
        (objects, "a.npz holds Python objects, which records do not hold"),
        (damaged, "cannot read .*a.npz"),
        (ragged_arrays, r"b.npz: x has the shape \(5, 4\) and others"),
        (nothing, "holds no files to pack"),
        (mixed, "mixes CSV or NPZ files with others"),
    ],
)
def test_data_that_cannot_be_packed_is_one_line(write: Any, said: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write(tmp_path / "data")
    with pytest.raises(InputError, match=said) as error:
        packed_plan(tmp_path / "data", tmp_path)
    assert "\n" not in str(error.value)
    assert "Traceback" not in str(error.value)


def test_an_unreadable_file_is_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    wanted = images(tmp_path / "images", sizes=((8, 8), (4, 16)))
    plan = folder_plan.plan_folder(tmp_path / "images", tmp_path / "packed", tmp_path / "work")
    bad = tmp_path / "images" / "dog" / "002.png"
    state = bad.stat()
    bad.unlink()
    with pytest.raises(InputError, match="has changed since the plan was made; nothing was written"):
        packing_run.run_plan(plan, quiet)
    bad.symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"002\.png"):
        folder_plan.plan_folder(tmp_path / "images", tmp_path / "packed", tmp_path / "work2")
    bad.unlink()
    bad.write_bytes(wanted["dog/002.png"])
    os.utime(bad, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert packing_run.run_plan(plan, quiet)[0].elements == 12


def test_too_little_room_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images(tmp_path / "images")
    plan = folder_plan.plan_folder(tmp_path / "images", tmp_path / "packed", tmp_path / "work")
    before = sorted(p.name for p in tmp_path.iterdir())
    monkeypatch.setattr(packing_run, "free_bytes", lambda _output: 1 << 20)
    with pytest.raises(InputError, match=r"packed needs 64 MiB and its disk has 1 MiB; nothing was written"):
        packing_run.run_plan(plan, quiet)
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_a_complete_folder_is_checked_and_kept(tmp_path: Path) -> None:
    images(tmp_path / "images")
    plan, folder = packed_plan(tmp_path / "images", tmp_path)
    before = packing.contents(tmp_path / "packed")
    again = packing_run.run_plan(plan, quiet)[0]
    assert again.already_complete
    assert again.shards == folder.shards
    assert packing.contents(tmp_path / "packed") == before


@pytest.mark.parametrize("rows", [True, False])
def test_stopped_between_groups_the_bytes_are_the_same(
    rows: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slowtrain.capture.packing import folder_elements, shard_writer

    monkeypatch.setattr(folder_elements, "GROUP_SHARDS", 2)
    if rows:
        (tmp_path / "data").mkdir()
        for n in range(6):
            lines = ["id,name", *(f"{k},{'x' * (k % 9)}" for k in range(40 + n))]
            (tmp_path / "data" / f"{n}.csv").write_text("\n".join(lines) + "\n")
    else:
        images(tmp_path / "data", count=20)
    plan = folder_plan.plan_folder(tmp_path / "data", tmp_path / "whole", tmp_path / "work")
    plan = replace(plan, shard_bytes=400)
    shards = len(packing_run.run_plan(plan, quiet)[0].shards)
    assert len(folder_elements.file_groups(folder_files.find_files(tmp_path / "data"), plan)) > 2
    end_shard = shard_writer.ShardWriter._end_shard
    for stop in (1, 4, shards - 1):
        other = replace(plan, output=str(tmp_path / f"stopped-{stop}"))

        def ended(self: Any, stop: int = stop) -> None:
            if len(self.shards) == stop:
                raise KeyboardInterrupt
            end_shard(self)

        monkeypatch.setattr(shard_writer.ShardWriter, "_end_shard", ended)
        with pytest.raises(KeyboardInterrupt):
            packing_run.run_plan(other, quiet)
        monkeypatch.setattr(shard_writer.ShardWriter, "_end_shard", end_shard)
        assert packing_run.run_plan(other, quiet)[0].resumed > 0
        assert packing.contents(tmp_path / f"stopped-{stop}") == packing.contents(tmp_path / "whole")
