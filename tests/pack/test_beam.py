"""A folder that is packed by an Apache Beam pipeline has the same bytes as one that a single process packs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slowtrain.capture.packing import folder_files
from slowtrain.errors import EnvironmentMissing, InputError
from slowtrain.model.packing import PackedFolder, PackingPlan
from slowtrain.pack import beam_packing, folder_plan, packing_run

from . import packing

pytestmark = pytest.mark.tensorflow
LOCAL = ("--runner", "direct")
SIDE = 20  # pixels


@pytest.fixture
def beam() -> Any:
    return pytest.importorskip("apache_beam", reason="slowtrain[beam] is not installed here")


def write_images(folder: Path, count: int = 15) -> None:
    import tensorflow as tf

    rng = np.random.default_rng(0)
    for kind in ("cat", "dog"):
        (folder / kind).mkdir(parents=True)
        for n in range(count):
            image = rng.integers(0, 255, (SIDE, SIDE, 3), np.uint8)
            (folder / kind / f"{n:02d}.png").write_bytes(tf.io.encode_png(image).numpy())


def write_rows(folder: Path) -> None:
    folder.mkdir()
    for file in range(5):
        lines = ["id,name", *(f"{n},{'x' * (n % 9)}" for n in range(30 + file))]
        (folder / f"{file}.csv").write_text("\n".join(lines) + "\n")


def write_arrays(folder: Path) -> None:
    folder.mkdir()
    for n in range(5):
        np.savez(folder / f"{n}.npz", x=np.arange(n, n + 40), y=np.full((40, 3), n, "f4"))


def grouped_plan(folder: Path, output: Path, monkeypatch: pytest.MonkeyPatch, shard_bytes: int = 1000) -> PackingPlan:
    """A plan for images as pixels, or rows, whose files form several groups."""
    from slowtrain.capture.packing import folder_elements

    monkeypatch.setattr(folder_elements, "decoding_us", lambda _files: 1e9)
    monkeypatch.setattr(folder_elements, "GROUP_SHARDS", 1)
    return replace(folder_plan.plan_folder(folder, output, output.with_name("work")), shard_bytes=shard_bytes)


def run(plan: PackingPlan, *beam_options: str) -> PackedFolder:
    return packing_run.run_plan(plan, lambda _elements, _bytes: None, beam_options or None)[0]


@pytest.mark.parametrize("write", [write_images, write_rows, write_arrays])
def test_the_bytes_are_those_of_one_process(
    beam: Any, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slowtrain.capture.packing import folder_elements

    write(tmp_path / "data")
    before = packing.contents(tmp_path / "data")
    plan = grouped_plan(tmp_path / "data", tmp_path / "alone", monkeypatch)
    alone = run(plan)
    found = run(replace(plan, output=str(tmp_path / "beam")), *LOCAL)
    assert len(folder_elements.file_groups(folder_files.find_files(tmp_path / "data"), plan)) > 1
    assert len(found.shards) > 3
    assert (found.elements, found.shards) == (alone.elements, alone.shards)
    assert packing.contents(tmp_path / "beam") == packing.contents(tmp_path / "alone")
    assert packing.contents(tmp_path / "data") == before
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("continued", [LOCAL, ()])
def test_after_a_failure_finished_groups_are_kept(
    beam: Any, continued: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_images(tmp_path / "data")
    plan = grouped_plan(tmp_path / "data", tmp_path / "alone", monkeypatch, 2 * SIDE * SIDE * 3)
    run(plan)
    bad = tmp_path / "data" / "dog" / "03.png"
    content, times = bad.read_bytes(), (bad.stat().st_atime_ns, bad.stat().st_mtime_ns)
    bad.write_bytes(bytes(len(content)))
    os.utime(bad, ns=times)
    broken = replace(plan, output=str(tmp_path / "beam"))
    with pytest.raises(InputError, match=r"03\.png is not an image that TensorFlow decodes; finished shards are kept"):
        run(broken, *LOCAL)
    assert not (tmp_path / "beam").exists()
    kept = {path.name for path in (tmp_path / "beam.part").glob("elements-*")}
    assert kept
    bad.write_bytes(content)
    os.utime(bad, ns=times)
    assert run(broken, *continued).resumed > 0
    assert packing.contents(tmp_path / "beam") == packing.contents(tmp_path / "alone")


def test_ended_while_shards_get_their_names(beam: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from slowtrain.capture.packing import shard_writer

    write_rows(tmp_path / "data")
    plan = grouped_plan(tmp_path / "data", tmp_path / "alone", monkeypatch, 300)
    count = len(run(plan).shards)
    other = replace(plan, output=str(tmp_path / "beam"))
    original = shard_writer.ShardWriter._write_progress
    for stop in (0, 2, count - 1):
        calls = 0

        def killed(self: Any, stop: int = stop) -> None:
            nonlocal calls
            if self.folder.name == "beam":
                calls += 1
                if calls > stop:
                    raise KeyboardInterrupt
            original(self)

        monkeypatch.setattr(shard_writer.ShardWriter, "_write_progress", killed)
        with pytest.raises(KeyboardInterrupt):
            run(other, *LOCAL)
        monkeypatch.setattr(shard_writer.ShardWriter, "_write_progress", original)
    run(other, *LOCAL)
    assert packing.contents(tmp_path / "beam") == packing.contents(tmp_path / "alone")


def test_only_folders_are_packed_by_beam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_arrays(tmp_path / "data")
    plan = grouped_plan(tmp_path / "data", tmp_path / "packed", monkeypatch)
    monkeypatch.setattr(beam_packing, "find_spec", lambda _name: None)
    with pytest.raises(EnvironmentMissing, match=r"--runner needs Apache Beam: pip install 'slowtrain\[beam\]'"):
        run(plan, *LOCAL)
    with pytest.raises(InputError, match="--runner is for the plan of a folder"):
        run(replace(plan, source=replace(plan.source, kind="script")), *LOCAL)
    assert not list(tmp_path.glob("packed*"))
