"""However long a run is: its recording stays under its size, and readable while it is thinned."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from slowtrain.capture.core import recorder as recorder_module
from slowtrain.capture.core.recorder import Recorder
from slowtrain.errors import InputError
from slowtrain.recording import reader, recording_folder
from slowtrain.recording.store import STOPPED_EVENT, SUSPEND_LANE
from slowtrain.recording.thinning import MAX_SAMPLES, MIN_MAX_BYTES, WARM_UP_STRETCHES
from slowtrain.trace.loading import recording_trace

from . import made_up


def size(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())


def incompressible(recorder: Recorder, chunks: int) -> None:
    """Spans that take all their forty bytes on the disk."""
    chance = np.random.default_rng(1)
    name, at = recorder.name("step", "train"), time.perf_counter_ns()
    for _ in range(chunks):
        lengths, values = chance.integers(1, 1000, 1000), chance.integers(1, 1 << 60, 1000)
        columns = (lengths.tolist(), values.tolist(), (values * 3 % (1 << 61)).tolist())
        for length, thread, value in zip(*columns, strict=True):
            recorder.emit((name, at, at + length, thread, value))
            at += 1000
        recorder._flush()


def test_it_stays_under_its_size(tmp_path: Path) -> None:
    """A profiler's window beside it counts; without thinning it would be half as large again."""
    (tmp_path / "window-1").mkdir()
    (tmp_path / "window-1" / "a.xplane.pb").write_bytes(bytes(3_000_000))
    recorder = Recorder(tmp_path, MIN_MAX_BYTES + 4_000_000)
    recorder.open()
    most = 0
    for _ in range(12):
        incompressible(recorder, 80)
        most = max(most, size(tmp_path))
    recorder.close()
    assert recorder.active
    assert not (tmp_path / "ended.txt").exists()
    assert 10_000_000 < most < recorder.max_bytes
    raw = reader.read_recording(tmp_path)
    assert len(raw.lanes["step"]) < 700_000
    assert sum(h.count([1]) for h in raw.holes) + sum(raw.pieces["step"] >= 0) == 960_000


@pytest.mark.parametrize("stopped", [True, False])
def test_where_the_process_was_stopped_all_is_kept(tmp_path: Path, stopped: bool) -> None:
    recorder = Recorder(tmp_path, 20_000_000)
    recorder.open()
    incompressible(recorder, 60)
    if stopped:
        recorder.event(SUSPEND_LANE, STOPPED_EVENT, time.perf_counter_ns())
    incompressible(recorder, 240)
    thinning = recorder._thinning
    assert thinning is not None
    assert thinning.level
    late = [s for s in thinning._stretches if s.always and s.index >= WARM_UP_STRETCHES]
    recorder.close()
    assert len(late) == (2 if stopped else 0)  # and the one before, in which it may have begun


def test_what_cannot_be_thinned_ends_it_in_time(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, MIN_MAX_BYTES)
    recorder.open()
    for i in range(200):
        recorder.fact(f"large {i}", os.urandom(100_000).hex())
        recorder._flush()
        if not recorder.active:
            break
    assert not recorder.active
    assert size(tmp_path) < MIN_MAX_BYTES
    assert "--max-disk" in recording_folder.early_end_reason(tmp_path)
    assert reader.read_recording(tmp_path).facts


@pytest.mark.parametrize("where", ["thin", "version", "drop", "commit"])
def test_a_death_in_the_midst_of_thinning(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All or nothing: the file as ``kill -9`` leaves it has each step once, whole or in a summary."""
    recorder = Recorder(tmp_path / "run", 20_000_000)
    recorder.folder.mkdir()
    recorder.open()
    store, copy = recorder._store, tmp_path / "copy"
    assert store is not None
    real, calls = getattr(store, where), []

    def dying(*args: object) -> object:
        done = None if where == "commit" else real(*args)
        inside = store._db.in_transaction and recorder._thinning is not None and recorder._thinning.level
        calls.append(inside)
        if inside and not copy.exists() and calls.count(1) > 2:
            shutil.copytree(recorder.folder, copy)
            (copy / "recording.sqlite-shm").unlink()
        return real(*args) if where == "commit" else done

    monkeypatch.setattr(store, where, dying)
    incompressible(recorder, 230)
    recorder.close()
    raw = reader.read_recording(copy)
    known = sum(h.count([1]) for h in raw.holes) + int((raw.pieces["step"] >= 0).sum() if raw.pieces else 0)
    assert known
    assert known % 1000 == 0


def test_it_can_be_read_while_it_is_thinned(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, 20_000_000)
    recorder.open()
    counts: list[int] = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            raw = reader.read_recording(tmp_path)
            if raw.holes:
                counts.append(sum(h.count([1]) for h in raw.holes) + int((raw.pieces["step"] >= 0).sum()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    incompressible(recorder, 280)
    done.set()
    watcher.join()
    recorder.close()
    assert counts
    assert counts == sorted(counts)
    assert all(c % 1000 == 0 for c in counts)


def test_a_fault_of_thinning_costs_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path, 20_000_000)
    recorder.open()
    thinning = recorder._thinning
    assert thinning is not None
    monkeypatch.setattr(thinning, "_events", lambda _: 1 / 0)
    incompressible(recorder, 230)
    recorder.close()
    raw = reader.read_recording(tmp_path)
    assert len(raw.lanes["step"]) == 230_000
    assert "ZeroDivisionError" in raw.facts["faults"][0]


def test_samples_keep_their_peaks(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.open()
    for i in range(MAX_SAMPLES + 2000):
        peak = 9e9 if i == 5003 else 1e9 + i
        recorder.sample({"rss_bytes": peak, "available_bytes": 1.0 if i == 7001 else 5.0, "process_cpu_seconds": i / 2})
        if i % 50 == 49:
            recorder._flush()
    for _ in range(200):
        recorder._flush()
    recorder.close()
    samples = reader.read_recording(tmp_path).samples
    assert len(samples) < 0.6 * MAX_SAMPLES
    assert max(s["rss_bytes"] for _, s in samples) == 9e9
    assert min(s["available_bytes"] for _, s in samples) == 1.0
    spent = np.array([s["process_cpu_seconds"] for _, s in samples])
    assert np.diff(spent).max() <= 2.0
    assert spent[-1] == (MAX_SAMPLES + 1999) / 2


def test_very_many_epochs(tmp_path: Path) -> None:
    """Thirty thousand epochs of two steps: what each leaves is bounded, and no step crosses an epoch's end."""
    folder = made_up.record(tmp_path / "run", 60_000, 20_000_000, epoch=2)
    assert size(folder) < 4_000_000
    trace = recording_trace.load_recording(folder)
    assert len(trace.events) < 20_000
    assert trace.steps.count == pytest.approx(60_000, rel=2e-3)
    assert trace.step_ms == pytest.approx(2.0, rel=0.04)
    spent = {p.name: p.share for p in trace.run.parts}
    assert spent["callback"] == pytest.approx(40 / 44.2, rel=0.05)  # twenty steps' time after each two


def test_steps_of_a_tenth_of_a_millisecond(tmp_path: Path) -> None:
    folder = made_up.record(tmp_path / "run", 300_000, 20_000_000, step_ns=100_000)
    trace = recording_trace.load_recording(folder)
    assert trace.steps.whole is not None
    assert trace.steps.count == pytest.approx(300_000, rel=1e-3)
    assert trace.step_ms == pytest.approx(0.103, rel=0.02)


def test_steps_of_ten_minutes(tmp_path: Path) -> None:
    """Two days of them: none is lost."""
    folder = made_up.record(tmp_path / "run", 300, 10**10, step_ns=600 * 10**9)
    trace = recording_trace.load_recording(folder)
    assert len(trace.steps) == 300
    assert trace.has_enough_steps
    assert trace.step_ms == pytest.approx(600_000, rel=0.1)


def test_two_steps_of_ten_minutes_carry_a_statement(tmp_path: Path) -> None:
    trace = recording_trace.load_recording(made_up.record(tmp_path / "run", 4, 10**10, step_ns=600 * 10**9))
    assert (len(trace.steps), trace.steps.warm, trace.has_enough_steps) == (4, 1, True)


def test_names_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "MAX_NAMES", 1000)
    recorder = Recorder(tmp_path)
    recorder.open()
    numbers = [recorder.name("function", f"f{i}") for i in range(3000)]
    assert len(set(numbers)) <= 1001
    assert len(recorder.ids) <= 1001
    for number in numbers[-2:]:
        recorder.span(number, 1, 2)
    recorder.close()
    raw = reader.read_recording(tmp_path)
    assert raw.names[numbers[-1]].text == "others"
    assert len(raw.lanes["function"]) == 2


def test_sleep_of_the_machine_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path)
    recorder.open()
    recorder._tick(10)
    asleep = recorder_module._suspended_ns()
    monkeypatch.setattr(recorder_module, "_suspended_ns", lambda: asleep + 3_600_000_000_000)
    recorder._tick(20)
    recorder._tick(30)
    recorder.close()
    slept = [e for e in reader.read_recording(tmp_path).events if e.lane == "suspend"]
    assert [round(e.data["slept_s"]) for e in slept] == [3600]


@pytest.mark.parametrize(
    ("text", "size"),
    [("200MB", 200_000_000), ("1.5 GiB", 1_610_612_736), ("64k", 64_000), ("123", 123), ("2gb", 2_000_000_000)],
)
def test_sizes(text: str, size: int) -> None:
    assert recording_folder.parse_size("--max-disk", text) == size


@pytest.mark.parametrize("text", ["", "MB", "-5MB", "1e9", "200 XB", "1.2.3MB", "9" * 400, "٣MB"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(InputError, match="is not a size"):
        recording_folder.parse_size("--max-disk", text)


def test_too_little() -> None:
    with pytest.raises(InputError, match=r"too small .* 16MB or more"):
        recording_folder.parse_size("--max-disk", "1MB", least=MIN_MAX_BYTES)
