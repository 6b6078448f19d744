"""Reading a recording's folder, whatever is in it: a recording, or one clear line."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import shutil
import sqlite3
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowtrain.errors import InputError
from slowtrain.recording import reader, recording_folder
from slowtrain.recording.store import SCHEMA, THINNED_FORMAT_VERSION, Store
from slowtrain.trace.loading import recording_trace


def make(folder: Path, close: bool = True) -> Store:
    """A recording of forty steps, a few events, samples and readings."""
    folder.mkdir(parents=True, exist_ok=True)
    store = Store(folder)
    store.begin()
    store.names([(1, "step", "train", {}), (2, "loop", "fit", {}), (3, "gc", "generation 0", {})])
    rows = [(1, 10**9 + i * 10**7, 10**9 + i * 10**7 + 8 * 10**6, 77, 1) for i in range(40)]
    rows.append((2, 10**9, 10**9 + 41 * 10**7, 77, 0))
    store.spans(np.array(rows, dtype="<i8").tobytes())
    store.events([(10**9, 10**9 + 41 * 10**7, "loop", "fit", {"nested": 0, "site": ["t.py", 3]})])
    store.fact("child", {"pid": 1, "begun_ns": 5 * 10**8})
    store.sample(10**9, {"rss_bytes": 5.0})
    store.pipeline(10**9, 1, b"")
    store.commit()
    (folder / "launch.json").write_text(json.dumps({"start_ns": 4 * 10**8, "end_ns": 2 * 10**9, "cwd": "/x"}))
    if close:
        store.close()
    return store


def one_line(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        recording_trace.load_recording(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 600
    return message


def test_a_recording(tmp_path: Path) -> None:
    make(tmp_path)
    trace = recording_trace.load_recording(tmp_path)
    assert (trace.steps.source, len(trace.steps)) == ("fit", 40)
    assert trace.run_ms == 1600
    assert sum(p.ms for p in trace.run.parts) == pytest.approx(1600)


def test_the_log_left_behind_is_read(tmp_path: Path) -> None:
    """As after ``kill -9``: nothing has been moved from the log into the file."""
    store = make(tmp_path / "run", close=False)
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    (tmp_path / "copy" / "recording.sqlite-shm").unlink()
    store.close()
    assert (tmp_path / "copy" / "recording.sqlite-wal").stat().st_size > 0
    assert len(recording_trace.load_recording(tmp_path / "copy").steps) == 40


def test_a_log_on_a_disk_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look fails as it does there; tests may run as root, whom no permission stops."""
    store = make(tmp_path / "run", close=False)
    real = reader.connect_readonly

    def connect(folder: Path) -> object:
        return _Unwritable() if folder == tmp_path / "run" else real(folder)

    monkeypatch.setattr(reader, "connect_readonly", connect)
    assert len(recording_trace.load_recording(tmp_path / "run").steps) == 40
    store.close()


class _Unwritable:
    def execute(self, _query: str) -> None:
        raise sqlite3.OperationalError("unable to open database file")

    def close(self) -> None:
        pass


def test_nothing_there(tmp_path: Path) -> None:
    assert "is not a recording" in one_line(tmp_path / "nowhere")
    assert "is not a recording" in one_line(tmp_path)
    (tmp_path / "failed.txt").write_text("ImportError: no wrapt\nmore\n" * 1000)
    assert one_line(tmp_path) == "the recorder could not start in that process (ImportError: no wrapt)"


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / recording_folder.RECORDING_FILE).write_bytes(b"")
    assert "empty recording" in one_line(tmp_path)


def test_a_newer_version(tmp_path: Path) -> None:
    make(tmp_path)
    _change(tmp_path, f"PRAGMA user_version={THINNED_FORMAT_VERSION + 1}")
    assert "newer version of Slowtrain" in one_line(tmp_path)
    assert "install that version here" in one_line(tmp_path)


@pytest.mark.parametrize("table", sorted(reader.REQUIRED_TABLES))
def test_a_table_is_missing(table: str, tmp_path: Path) -> None:
    make(tmp_path)
    _change(tmp_path, f"DROP TABLE {table}")
    assert f"no table {table}" in one_line(tmp_path)


def test_an_endless_view_in_place_of_a_table(tmp_path: Path) -> None:
    make(tmp_path)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS key, i AS value FROM n"
    _change(tmp_path, "DROP TABLE fact", f"CREATE VIEW fact AS {endless}")
    assert "no table fact" in one_line(tmp_path)


def test_queries_have_a_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path)
    monkeypatch.setattr(reader, "MAX_SQLITE_SECONDS", 0.0)
    with reader._open_database(tmp_path) as database, pytest.raises(sqlite3.OperationalError, match="interrupted"):
        database.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
        ).fetchall()


@functools.cache
def bomb() -> bytes:
    return zlib.compress(bytes(1 << 28), 1)


CHANGES: dict[str, Callable[[sqlite3.Connection], object]] = {
    "not JSON": lambda db: db.execute("UPDATE name SET detail = '{'"),
    "a list": lambda db: db.execute("UPDATE event SET data = '[1]'"),
    "deep": lambda db: db.execute("UPDATE sample SET data = ?", ("[" * 200_000,)),
    "facts of the wrong kind": lambda db: db.execute("UPDATE fact SET value = '[3]'"),
    "text for a time": lambda db: db.execute("UPDATE event SET start_ns = 'x'"),
    "no blob": lambda db: db.execute("UPDATE chunk SET data = 'text'"),
    "not compressed": lambda db: db.execute("UPDATE chunk SET data = x'00112233'"),
    "odd length": lambda db: db.execute("UPDATE chunk SET data = ?", (zlib.compress(bytes(41)),)),
    "a bomb": lambda db: db.execute("UPDATE chunk SET data = ?", (bomb(),)),
    "a huge number": lambda db: db.execute("INSERT INTO name VALUES (9223372036854775807, 'a', 'b', '{}')"),
    "many lanes": lambda db: db.executemany(
        "INSERT INTO name VALUES (?, ?, 'b', '{}')", [(i, f"lane {i}") for i in range(10, 20_000)]
    ),
}


def changed(folder: Path, name: str) -> None:
    """A recording with one of the changes."""
    make(folder)
    with sqlite3.connect(folder / recording_folder.RECORDING_FILE) as database:
        CHANGES[name](database)


@pytest.mark.parametrize("name", CHANGES)
def test_hostile_content(name: str, tmp_path: Path) -> None:
    changed(tmp_path, name)
    assert "record" in one_line(tmp_path)


@pytest.mark.bench
@pytest.mark.parametrize("name", CHANGES)
def test_hostile_content_is_refused_within_seconds(name: str, tmp_path: Path) -> None:
    changed(tmp_path, name)
    begun = time.process_time()
    one_line(tmp_path)
    assert time.process_time() - begun < 5


def test_hostile_names_are_kept_short_and_printed_plain(tmp_path: Path) -> None:
    make(tmp_path)
    with sqlite3.connect(tmp_path / recording_folder.RECORDING_FILE) as database:
        database.execute("UPDATE name SET name = ?", ("\x1b[31m" + "x" * 1_000_000,))
        database.execute("UPDATE event SET name = ?", ("\x1b]0;owned\x07" * 100_000,))
    raw = reader.read_recording(tmp_path)
    assert max(len(n.text) for n in raw.names) <= reader.MAX_TEXT_CHARS
    assert max(len(e.name) for e in raw.events) <= reader.MAX_TEXT_CHARS


def test_launch_file_damaged(tmp_path: Path) -> None:
    make(tmp_path)
    for text in ("{", "[]", "[" * 100_000, '{"start_ns": null}', ""):
        (tmp_path / "launch.json").write_text(text)
        assert len(recording_trace.load_recording(tmp_path).steps) == 40
    for text in ('{"start_ns": "soon"}', '{"end_ns": [1]}', '{"start_ns": 1e999}'):
        (tmp_path / "launch.json").write_text(text)
        assert "damaged" in one_line(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    make(folder)
    return (folder / recording_folder.RECORDING_FILE).read_bytes()


@pytest.mark.fuzz
@settings(deadline=None)
@given(seed=st.integers(0, 1 << 32), flips=st.integers(1, 60))
def test_flipped_bytes(whole: bytes, tmp_path_factory: pytest.TempPathFactory, seed: int, flips: int) -> None:
    """Read as far as SQLite can tell, or refused in one line; nothing else."""
    folder = tmp_path_factory.mktemp("flipped")
    data, dice = bytearray(whole), random.Random(seed)
    for _ in range(flips):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    (folder / recording_folder.RECORDING_FILE).write_bytes(data)
    _read_or_refuse(folder)


@pytest.mark.fuzz
@settings(deadline=None)
@given(keep=st.floats(0, 1))
def test_cut_short(whole: bytes, tmp_path_factory: pytest.TempPathFactory, keep: float) -> None:
    folder = tmp_path_factory.mktemp("cut")
    (folder / recording_folder.RECORDING_FILE).write_bytes(whole[: int(len(whole) * keep)])
    _read_or_refuse(folder)


def _read_or_refuse(folder: Path) -> None:
    with contextlib.suppress(InputError):
        recording_trace.load_recording(folder)
    for name in os.listdir(folder):
        (folder / name).unlink()


def _change(folder: Path, *statements: str) -> None:
    database = sqlite3.connect(folder / recording_folder.RECORDING_FILE, isolation_level=None)
    for statement in statements:
        database.execute(statement)
    database.close()


def test_an_empty_recording_is_a_run_without_steps(tmp_path: Path) -> None:
    """A process that ended before the recorder wrote anything but the tables."""
    database = sqlite3.connect(tmp_path / recording_folder.RECORDING_FILE)
    database.executescript(SCHEMA + f"PRAGMA user_version={THINNED_FORMAT_VERSION};")
    database.close()
    trace = recording_trace.load_recording(tmp_path)
    assert (len(trace.steps), trace.run_ms) == (0, 0.0)


def test_the_pulse_of_a_recording_in_progress(tmp_path: Path) -> None:
    assert reader.read_progress(tmp_path) == (0, 0.0)
    store = make(tmp_path, close=False)
    steps, ms = reader.read_progress(tmp_path)
    assert (steps, round(ms, 6)) == (40, 10)
    store.begin()
    store.fact("steps_so_far", 1234)
    store.commit()
    assert reader.read_progress(tmp_path)[0] == 1234
    store.close()
