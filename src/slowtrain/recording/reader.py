"""Reads a recording's folder.

The file may end anywhere (the process may have been killed) and may be hostile. Every table is read with bounds, and
content that does not fit the format raises ``InputError`` with one clear line.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sqlite3
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from slowtrain.columns.arrays import NO_INTS, Ints, median_value
from slowtrain.columns.spans import Event, Name, Spans
from slowtrain.errors import InputError
from slowtrain.recording import thinned_summary
from slowtrain.recording.recording_folder import RECORDING_FILE, early_end_reason, read_launch, require_recording
from slowtrain.recording.store import SPAN_FIELDS
from slowtrain.recording.thinned_summary import NO_ROWS

FORMAT_VERSION = 2  # 1: complete; 2: parts were thinned
REQUIRED_TABLES = frozenset({"name", "chunk", "event", "fact", "sample", "pipeline"})
MAX_CHUNK_BYTES = 1 << 26
MAX_NAMES = 10_000_000
MAX_SPANS = 100_000_000
MAX_LANES = 100
MAX_HOLES = 100_000
MAX_TEXT_CHARS = 1000  # characters of a name
MAX_SQLITE_SECONDS = 120.0  # limit of SQLite's work on one file
MAIN_LANES = ("import", "loop", "step", "on_batch", "function", "gradient", "build", "gc")  # of the main thread

# Exceptions that a damaged file can raise in SQLite, JSON and NumPy.
DAMAGE_ERRORS = (
    sqlite3.Error,
    zlib.error,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
# Folders of code inside the packages. A folder named just `keras` may be the user's own.
FRAMEWORK_PATH = re.compile(
    r"[/\\](?:tensorflow[/\\](?:python|_api)|(?:keras|tf_keras)[/\\]src|jax[/\\]_src|(?:site|dist)-packages)[/\\]"
)
# Tables of a graph that name lines, with the column of the file. A row without its line is kept if it says more.
LINE_TABLES = {"lines": 0, "double": 0}
LOST_LINES_KEY = "lines_lost"  # forward ops with unknown line, and the repeated ones among them
TABLES_WITH_LINES = {"one_hot": 1, "over": 1, "loops": 1}


class Recording(Struct, frozen=True):
    """The content of a recording, on one clock: ms from the start of the run.

    ``holes``: stretches of which only a summary is left, in order. ``pieces`` is a column for each lane with the
    number of holes before the span, -1 for a span that was kept from a hole. Both are empty if nothing was thinned.
    """

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
    holes: tuple[thinned_summary.ThinnedHole, ...] = ()
    pieces: Mapping[str, Ints] = field(default_factory=dict)


def read_recording(folder: Path) -> Recording:
    """Read a recording. Raises ``InputError`` if the folder holds no recording, a newer one, or a damaged one."""
    require_recording(folder)
    try:
        with _open_database(folder) as database:
            return _read_database(folder, database)
    except DAMAGE_ERRORS as error:
        raise damaged_error(folder, error) from error


def damaged_error(folder: Path, error: Exception) -> InputError:
    what = " ".join(str(error).split())[:120] or type(error).__name__
    return InputError(f"{folder} holds a damaged recording ({what}); record the run again")


@contextlib.contextmanager
def _open_database(folder: Path) -> Iterator[sqlite3.Connection]:
    """Open the recording's file read-only. The latest changes may still be in a write-ahead log next to it.

    SQLite has to write next to the log to read it. If it cannot (a read-only disk), a copy is read.
    """
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(contextlib.closing(connect_readonly(folder)))
        try:
            database.execute("SELECT * FROM sqlite_master").fetchall()
        except sqlite3.OperationalError:
            import tempfile  # seldom needed

            copy = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slowtrain-")))
            for name in (RECORDING_FILE, f"{RECORDING_FILE}-wal"):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(folder / name, copy / name)
            database = stack.enter_context(contextlib.closing(connect_readonly(copy)))
        yield database


def connect_readonly(folder: Path, timeout: float = 5.0) -> sqlite3.Connection:
    """Open a recording's file without a transaction of its own. ``timeout``: seconds to wait for the writer's lock."""
    uri = f"{(folder / RECORDING_FILE).resolve().as_uri()}?mode=ro"
    database = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)
    database.execute("PRAGMA trusted_schema=OFF")
    deadline = time.monotonic() + MAX_SQLITE_SECONDS
    database.set_progress_handler(lambda: time.monotonic() > deadline, 1_000_000)
    return database


def _read_database(folder: Path, database: sqlite3.Connection) -> Recording:
    launch = read_launch(folder)
    database.execute("BEGIN")  # a consistent snapshot: a running script may thin the recording while it is read
    check_format(folder, database)
    facts = {str(key): json.loads(value) for key, value in database.execute("SELECT key, value FROM fact")}
    if early_end_reason(folder):
        facts["ended"] = early_end_reason(folder)
    start_ns = int(launch.get("start_ns") or facts.get("child", {}).get("begun_ns", 0))

    def run_ms(ns: int) -> float:
        return (ns - start_ns) / 1e6

    names = _read_names(database)
    raw, piece, holes = _read_spans(database)
    events = tuple(
        Event(str(lane), _bounded_text(name), run_ms(start), run_ms(end), without_framework_lines(json_object(data)))
        for start, end, lane, name, data in database.execute(
            "SELECT start_ns, end_ns, lane, name, data FROM event ORDER BY start_ns"
        )
    )
    samples = tuple(
        (run_ms(at), json_object(data))
        for at, data in database.execute("SELECT time_ns, data FROM sample ORDER BY time_ns")
    )
    counters = tuple(
        (run_ms(at), int(iterator), bytes(proto))
        for at, iterator, proto in database.execute("SELECT time_ns, iterator, proto FROM pipeline ORDER BY time_ns")
    )
    lanes, pieces, main = group_by_lane(raw, piece, names, start_ns)
    stack = lanes.get("stack", Spans())
    events = tuple(with_sampled_lines(event, names, stack) for event in events)
    last = max([(int(raw[2].max()) - start_ns) / 1e6 if raw.size else 0.0, *(s[0] for s in samples[-1:])])
    end_ns = launch.get("end_ns") if "ended" not in facts else None  # nothing after it was recorded
    end_ms = (int(end_ns) - start_ns) / 1e6 if end_ns else last
    unfinished = facts.pop("unfinished", ())
    events += tuple(
        Event(str(lane), _bounded_text(name), run_ms(at), end_ms, data) for at, lane, name, data in unfinished
    )  # of a process that died during them
    return Recording(
        folder, names, lanes, main, events, facts, samples, counters, end_ms, launch, start_ns,
        holes, pieces if holes else {},
    )  # fmt: skip


def check_format(folder: Path, database: sqlite3.Connection) -> None:
    version = database.execute("PRAGMA user_version").fetchone()[0]
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if version == 0 and not tables:
        raise InputError(
            f"{folder} holds an empty recording: the process ended before recording started; run the script again"
        )
    if not 1 <= version <= FORMAT_VERSION:
        newer = "a newer" if version > FORMAT_VERSION else "another"
        raise InputError(
            f"{folder} was recorded by {newer} version of Slowtrain (format {version}, this one reads "
            f"{FORMAT_VERSION}); install that version here to read it (see the README)"
        )
    missing = REQUIRED_TABLES - tables  # a view of that name is not accepted, because it could compute forever
    if missing:
        raise ValueError(f"it has no table {min(missing)}")


def _bounded_text(value: object) -> str:
    return str(value)[:MAX_TEXT_CHARS]


def json_object(text: str) -> Mapping[str, Any]:
    """Parse a JSON object. Raises ``ValueError`` for any other JSON."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("an entry is not a JSON object")
    return value


def _read_names(database: sqlite3.Connection) -> tuple[Name, ...]:
    rows = database.execute("SELECT id, lane, name, detail FROM name ORDER BY id").fetchall()
    size = (rows[-1][0] + 1) if rows else 1
    if size > MAX_NAMES:
        raise ValueError("too many names")
    names = [Name("", "?")] * size
    for number, lane, text, detail in rows:
        names[number] = Name(str(lane), _bounded_text(text), json_object(detail))
    return tuple(names)


def decode_chunk(data: bytes) -> Ints:
    """Return the spans of a chunk: name, start_ns, end_ns, thread, value. Raises ``ValueError`` or ``zlib.error``."""
    inflate = zlib.decompressobj()
    plain = inflate.decompress(data, MAX_CHUNK_BYTES)
    if inflate.unconsumed_tail or len(plain) % (8 * SPAN_FIELDS):
        raise ValueError("a chunk of spans has the wrong size")
    return np.frombuffer(plain, dtype="<i8").reshape(-1, SPAN_FIELDS)


def _read_chunks(database: sqlite3.Connection) -> Iterator[Ints]:
    count = 0
    for (data,) in database.execute("SELECT data FROM chunk ORDER BY id"):
        rows = decode_chunk(data)
        count += len(rows)
        if count > MAX_SPANS:
            raise ValueError("too many spans")
        yield rows


def _read_spans(database: sqlite3.Connection) -> tuple[Ints, Ints, tuple[thinned_summary.ThinnedHole, ...]]:
    """Return all spans as five columns, the number of holes before each (-1: kept from a hole), and the holes."""
    holes = _read_holes(database)
    firsts = [first for first, _ in holes]
    numbers = [number for (number,) in database.execute("SELECT id FROM chunk ORDER BY id")]
    chunks = list(_read_chunks(database))
    piece = np.repeat(np.searchsorted(firsts, numbers), [len(c) for c in chunks]) if chunks else NO_INTS
    left = [hole.kept for _, hole in holes]
    rows = np.concatenate([NO_ROWS, *chunks, *left])
    piece = np.concatenate((piece, np.full(sum(map(len, left)), -1))).astype(np.int64)
    return np.ascontiguousarray(rows.T), piece, tuple(hole for _, hole in holes)


def _read_holes(database: sqlite3.Connection) -> list[tuple[int, thinned_summary.ThinnedHole]]:
    known = database.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'hole'").fetchone()[0]
    rows = database.execute("SELECT first, data FROM hole ORDER BY first").fetchall() if known else []
    if len(rows) > MAX_HOLES:
        raise ValueError("too many summaries")
    return [(int(first), thinned_summary.unpack_hole(bytes(data))) for first, data in rows]


def group_by_lane(
    raw: Ints, piece: Ints, names: Sequence[Name], start_ns: int
) -> tuple[dict[str, Spans], dict[str, Ints], int]:
    """Return the spans by lane in order of start, longest first, with their pieces, and the main thread's number.

    ``raw`` has five rows, which are the fields of spans, and ``piece`` a number for each span.
    """
    lane_names = sorted({n.lane for n in names})
    if len(lane_names) > MAX_LANES:
        raise ValueError("too many lanes")
    number = {lane: i for i, lane in enumerate(lane_names)}
    of = np.array([number[n.lane] for n in names], dtype=np.int16)
    known = (raw[0] >= 0) & (raw[0] < len(names))
    lane_of = np.where(known, of[np.clip(raw[0], 0, len(names) - 1)], -1)
    lanes, pieces = {}, {}
    for i, lane in enumerate(lane_names):
        rows = np.flatnonzero(lane_of == i)
        if len(rows):
            rows = rows[_span_order(raw[1][rows], raw[2][rows])]
            start, end = (raw[1][rows] - start_ns) / 1e6, (raw[2][rows] - start_ns) / 1e6
            lanes[lane] = Spans(start, end, raw[0][rows], raw[3][rows], raw[4][rows])
            pieces[lane] = piece[rows]
    for lane in MAIN_LANES:
        if lane in lanes:
            values, counts = np.unique(lanes[lane].thread, return_counts=True)
            return lanes, pieces, int(values[np.argmax(counts)])
    return lanes, pieces, int(raw[3, np.argmin(raw[1])]) if raw.size else 0


def _span_order(start: Ints, end: Ints) -> NDArray[np.intp]:
    """Sort by start, for equal starts the longest first. Spans are nearly in order, so that a merge sort is fast."""
    order = np.argsort(start, kind="stable")
    same = np.diff(start[order]) == 0
    if same.any():
        tied = np.append(same, False) | np.append(False, same)
        some = order[tied]
        order[tied] = some[np.lexsort((-end[some], start[some]))]
    return order


def read_progress(folder: Path) -> tuple[int, float]:
    """Return the number of steps so far and the newest median in ms; ``(0, 0.0)`` if it cannot be read."""
    try:
        with contextlib.closing(connect_readonly(folder, timeout=0.2)) as database:
            stored = database.execute("SELECT value FROM fact WHERE key = 'steps_so_far'").fetchone()
            names = _read_names(database)
            wanted = [i for i, n in enumerate(names) if n.lane in ("step", "on_batch") or n.detail.get("training")]
            newest = database.execute("SELECT data FROM chunk ORDER BY id DESC LIMIT 40").fetchall()
            rows = np.concatenate([NO_ROWS, *(decode_chunk(data) for (data,) in newest)])
    except (*DAMAGE_ERRORS, OSError):
        return 0, 0.0
    starts = np.sort(rows[np.isin(rows[:, 0], wanted), 1])
    steps = max(int(stored[0]) if stored else 0, len(starts))
    return steps, float(median_value(np.diff(starts[-200:]))) / 1e6 if len(starts) > 1 else 0.0


def without_framework_lines(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an event's data, its graph without framework lines."""
    graph = data.get("graph")
    if not isinstance(graph, Mapping):
        return data
    changed: dict[str, Any] = {}
    for table, at in LINE_TABLES.items():
        rows = graph.get(table) or ()
        changed[table] = [row for row in rows if not is_framework_file(row[at])]
    lost = [row for row in graph.get("lines") or () if is_framework_file(row[0])]
    if lost:
        changed[LOST_LINES_KEY] = [sum(row[2] for row in lost), sum(row[3] for row in lost)]
    for table, at in TABLES_WITH_LINES.items():
        rows = graph.get(table) or ()
        changed[table] = [[*row[:at], None, 0, *row[at + 2 :]] if is_framework_file(row[at]) else row for row in rows]
    tables = {table: rows for table, rows in changed.items() if table in graph or table == LOST_LINES_KEY}
    return {**data, "graph": {**graph, **tables}}


def with_sampled_lines(event: Event, names: Sequence[Name], samples: Spans) -> Event:
    """Return a trace event; if its ops lost their lines, with lines at which the main thread was sampled while tracing.

    The line of the call is excluded, because it also stands for the framework's own work.
    """
    graph = event.data.get("graph")
    lost = graph.get(LOST_LINES_KEY) if isinstance(graph, Mapping) else None
    if not lost:
        return event
    traced_until = event.start_ms + float(event.data.get("trace_ns") or 0) / 1e6
    sites = (names[int(n)].detail.get("site") for n in samples.starting_between(event.start_ms, traced_until).name)
    called = event.data.get("site")
    found = Counter(tuple(site) for site in sites if site and site != called and not is_framework_file(site[0]))
    total = sum(found.values())
    rows = [[*site, round(lost[0] * n / total), round(lost[1] * n / total)] for site, n in found.most_common()]
    known = [*(graph.get("lines") or ()), *rows] if isinstance(graph, Mapping) else rows
    return replace(event, data={**event.data, "graph": {**(graph or {}), "lines": known}})


def is_framework_file(file: object) -> bool:
    """Return whether a file belongs to an installed package of TensorFlow, Keras or JAX."""
    return isinstance(file, str) and FRAMEWORK_PATH.search(file) is not None
