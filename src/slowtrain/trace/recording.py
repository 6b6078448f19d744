"""Reads a recording's folder into a :class:`~slowtrain.trace.Trace`.

The file may end anywhere (the process was killed) and may be hostile: every table is read
with bounds, and what does not fit the format raises ``InputError`` with one clear line.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slowtrain.errors import InputError
from slowtrain.trace import Event, Ints, Name, Spans

FILE = "recording.sqlite"
LAUNCH = "launch.json"
ENDED = "ended.txt"
VERSION = 1
MAX_CHUNK_BYTES = 1 << 28
MAX_SPANS = 200_000_000


@dataclass(frozen=True)
class Recording:
    """What the file holds, on one clock: ms from the start of the run."""

    folder: Path
    names: tuple[Name, ...]
    lanes: Mapping[str, Spans]
    main: int
    events: tuple[Event, ...]
    facts: Mapping[str, Any]
    samples: tuple[tuple[float, Mapping[str, Any]], ...] = ()
    counters: tuple[tuple[float, int, bytes], ...] = ()
    end_ms: float = 0.0
    launch: Mapping[str, Any] = field(default_factory=dict)
    start_ns: int = 0


def is_recording(path: Path) -> bool:
    return (path / FILE).is_file()


def read(folder: Path) -> Recording:
    """Raises ``InputError`` when the folder holds no recording, a newer one, or a damaged one."""
    if not is_recording(folder):
        raise InputError(_absent(folder))
    try:
        return _read(folder)
    except (sqlite3.Error, zlib.error, ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
        what = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise InputError(f"{folder} holds a damaged recording ({what}); record the run again") from error


def _absent(folder: Path) -> str:
    failed = folder / "failed.txt"
    if failed.is_file():
        return f"the recorder could not start in that process ({failed.read_text(errors='replace')[:200].strip()})"
    return f"{folder} is not a recording: it has no {FILE}; make one with `slowtrain run SCRIPT`"


def _read(folder: Path) -> Recording:
    launch = _launch(folder)
    database = sqlite3.connect(f"{(folder / FILE).resolve().as_uri()}?mode=ro", uri=True)
    try:
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version != VERSION:
            newer = "a newer" if version > VERSION else "another"
            raise InputError(
                f"{folder} was recorded by {newer} version of Slowtrain (format {version}, this one reads {VERSION}); "
                "upgrade with `pip install -U slowtrain`"
            )
        facts = {key: json.loads(value) for key, value in database.execute("SELECT key, value FROM fact")}
        ended = _ended(folder)
        if ended:
            facts["ended"] = ended
        start_ns = int(launch.get("start_ns") or facts.get("child", {}).get("begun_ns", 0))
        names = _names(database)
        raw = _spans(database)
        events = tuple(
            Event(lane, name, (start - start_ns) / 1e6, (end - start_ns) / 1e6, json.loads(data))
            for start, end, lane, name, data in database.execute("SELECT * FROM event ORDER BY start_ns")
        )
        samples = tuple(
            ((at - start_ns) / 1e6, json.loads(data))
            for at, data in database.execute("SELECT time_ns, data FROM sample ORDER BY time_ns")
        )
        counters = tuple(
            ((at - start_ns) / 1e6, int(iterator), bytes(proto))
            for at, iterator, proto in database.execute("SELECT * FROM pipeline ORDER BY time_ns")
        )
    finally:
        database.close()
    lanes, main = _lanes(raw, names, start_ns)
    last = max([(int(raw[:, 2].max()) - start_ns) / 1e6 if len(raw) else 0.0, *(s[0] for s in samples[-1:])])
    end_ns = launch.get("end_ns")
    end_ms = (int(end_ns) - start_ns) / 1e6 if end_ns else last
    return Recording(folder, names, lanes, main, events, facts, samples, counters, end_ms, launch, start_ns)


def _launch(folder: Path) -> Mapping[str, Any]:
    try:
        found = json.loads((folder / LAUNCH).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _ended(folder: Path) -> str:
    """Why recording ended before the script did; empty where it did not."""
    try:
        with (folder / ENDED).open(encoding="utf-8", errors="replace") as file:
            return file.read(200).strip()
    except OSError:
        return ""


def _names(database: sqlite3.Connection) -> tuple[Name, ...]:
    rows = database.execute("SELECT id, lane, name, detail FROM name ORDER BY id").fetchall()
    size = (rows[-1][0] + 1) if rows else 1
    if size > 10_000_000:
        raise ValueError("too many names")
    names = [Name("", "?")] * size
    for number, lane, text, detail in rows:
        names[number] = Name(str(lane), str(text), json.loads(detail))
    return tuple(names)


def _chunks(database: sqlite3.Connection) -> Iterator[Ints]:
    count = 0
    for (data,) in database.execute("SELECT data FROM chunk ORDER BY id"):
        inflate = zlib.decompressobj()
        plain = inflate.decompress(data, MAX_CHUNK_BYTES)
        if inflate.unconsumed_tail or len(plain) % 40:
            raise ValueError("a chunk of spans has the wrong size")
        rows = np.frombuffer(plain, dtype="<i8").reshape(-1, 5)
        count += len(rows)
        if count > MAX_SPANS:
            raise ValueError("too many spans")
        yield rows


def _spans(database: sqlite3.Connection) -> Ints:
    chunks = list(_chunks(database))
    return np.concatenate(chunks) if chunks else np.zeros((0, 5), dtype=np.int64)


def _lanes(raw: Ints, names: tuple[Name, ...], start_ns: int) -> tuple[dict[str, Spans], int]:
    """Spans by lane in order of start, longest first; and the number of the main thread."""
    raw = raw[(raw[:, 0] >= 0) & (raw[:, 0] < len(names))]
    raw = raw[np.lexsort((-raw[:, 2], raw[:, 1]))]
    lane_names = sorted({n.lane for n in names})
    lane_of = np.array([lane_names.index(n.lane) for n in names])[raw[:, 0]] if len(raw) else np.zeros(0, dtype=int)
    lanes = {}
    for i, lane in enumerate(lane_names):
        rows = raw[lane_of == i]
        if len(rows):
            start, end = (rows[:, 1] - start_ns) / 1e6, (rows[:, 2] - start_ns) / 1e6
            lanes[lane] = Spans(start, end, rows[:, 0].copy(), rows[:, 3].copy(), rows[:, 4].copy())
    for lane in ("import", "loop", "step", "function", "build", "gc"):
        if lane in lanes:
            values, counts = np.unique(lanes[lane].thread, return_counts=True)
            return lanes, int(values[np.argmax(counts)])
    return lanes, int(raw[0, 3]) if len(raw) else 0


def pulse(folder: Path) -> tuple[int, float]:
    """Of a recording in progress: steps so far and the newest median in ms; ``(0, 0.0)`` where nothing can be told."""
    try:
        database = sqlite3.connect(f"{(folder / FILE).resolve().as_uri()}?mode=ro", uri=True, timeout=0.2)
        try:
            names = _names(database)
            wanted = [i for i, n in enumerate(names) if n.lane in ("step", "on_batch") or n.detail.get("training")]
            rows = np.concatenate(list(_chunks(database)) or [np.zeros((0, 5), dtype=np.int64)])
        finally:
            database.close()
    except (sqlite3.Error, zlib.error, ValueError, OSError):
        return 0, 0.0
    starts = np.sort(rows[np.isin(rows[:, 0], wanted), 1])
    return len(starts), float(np.median(np.diff(starts[-200:]))) / 1e6 if len(starts) > 1 else 0.0
