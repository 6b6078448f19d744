"""The file of a recording: SQLite in WAL mode, written by one background thread.

Spans are stored in chunks: rows of five little-endian int64 (name, start_ns, end_ns, thread, value), compressed
together. One SQL row for each span would cost more than the step that it describes. A committed chunk survives ``kill
-9`` and a power failure, because each commit waits for the disk.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

DATABASE_NAME = "recording.sqlite"
WHOLE_FORMAT_VERSION = 1  # format version of a recording that holds everything
THINNED_FORMAT_VERSION = 2  # format version of a thinned recording; an older reader would take the holes for long steps
MAX_LOG_BYTES = 4 << 20  # SQLite moves its log into the file when the log has grown to this size
SPAN_FIELDS = 5
SUSPEND_LANE, STOPPED_EVENT = "suspend", "process stopped"

SCHEMA = """
CREATE TABLE name(id INTEGER PRIMARY KEY, lane TEXT NOT NULL, name TEXT NOT NULL, detail TEXT NOT NULL);
CREATE TABLE chunk(id INTEGER PRIMARY KEY, spans INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE event(start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, lane TEXT NOT NULL, name TEXT NOT NULL,
                   data TEXT NOT NULL);
CREATE TABLE fact(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE sample(time_ns INTEGER NOT NULL, data TEXT NOT NULL);
CREATE TABLE hole(first INTEGER PRIMARY KEY, last INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE pipeline(time_ns INTEGER NOT NULL, iterator INTEGER NOT NULL, proto BLOB NOT NULL);
"""


class Store:
    """Writes one recording. Not thread-safe: one thread owns it. Raises ``sqlite3.Error`` or ``OSError``."""

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(folder / DATABASE_NAME, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")  # waits for the disk once a second, in the recorder's thread
        self._db.execute(f"PRAGMA journal_size_limit={MAX_LOG_BYTES}")
        self._page_bytes = int(self._db.execute("PRAGMA page_size").fetchone()[0])
        if self._db.execute("PRAGMA user_version").fetchone()[0] == 0:
            self._db.executescript(SCHEMA)
            self._db.execute(f"PRAGMA user_version={WHOLE_FORMAT_VERSION}")

    def begin(self) -> None:
        self._db.execute("BEGIN")

    def commit(self) -> None:
        self._db.execute("COMMIT")

    def rollback(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def names(self, rows: Iterable[tuple[int, str, str, Mapping[str, Any]]]) -> None:
        self._db.executemany(
            "INSERT OR REPLACE INTO name VALUES (?,?,?,?)",
            [(key, lane, sqlite_text(name), json_text(detail)) for key, lane, name, detail in rows],
        )

    def spans(self, data: bytes) -> int:
        """Writes packed int64, :data:`SPAN_FIELDS` for each span. Returns the number of the new chunk."""
        count = len(data) // (8 * SPAN_FIELDS)
        done = self._db.execute("INSERT INTO chunk(spans, data) VALUES (?,?)", (count, zlib.compress(data, 1)))
        return int(done.lastrowid or 0)

    def events(self, rows: Iterable[tuple[int, int, str, str, Mapping[str, Any]]]) -> None:
        self._db.executemany(
            "INSERT INTO event VALUES (?,?,?,?,?)",
            [(start, end, lane, sqlite_text(name), json_text(data)) for start, end, lane, name, data in rows],
        )

    def fact(self, key: str, value: Any) -> None:
        self._db.execute("INSERT OR REPLACE INTO fact VALUES (?,?)", (key, json_text(value)))

    def sample(self, time_ns: int, data: Mapping[str, Any]) -> None:
        self._db.execute("INSERT INTO sample VALUES (?,?)", (time_ns, json_text(data)))

    def pipeline(self, time_ns: int, iterator: int, proto: bytes) -> None:
        self._db.execute("INSERT INTO pipeline VALUES (?,?,?)", (time_ns, iterator, proto))

    def used_bytes(self) -> int:
        """Returns the bytes that the file needs: its pages without the free ones, which later rows reuse."""
        pages, free = (self._db.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "freelist_count"))
        return int(pages - free) * self._page_bytes

    # -- used by thinning (:mod:`slowtrain.recording.thinning`)

    def next_row(self, table: str) -> int:
        """Returns the number that the next row will get. Correct only if the newest rows were never deleted."""
        query = f"SELECT coalesce(max(rowid), 0) + 1 FROM {table}"  # noqa: S608  a table of ours
        return int(self._db.execute(query).fetchone()[0])

    def chunks(self, first: int, last: int) -> list[tuple[bytes]]:
        return self._db.execute("SELECT data FROM chunk WHERE id BETWEEN ? AND ? ORDER BY id", (first, last)).fetchall()

    def moments(self, first: int, after: int) -> list[int]:
        """Returns the times (ns) at which an epoch or a loop begins or ends."""
        rows = self._db.execute(
            "SELECT start_ns, end_ns FROM event WHERE rowid >= ? AND rowid < ? AND lane IN ('epoch', 'loop')",
            (first, after),
        )
        return [ns for row in rows for ns in row]

    def events_between(self, first: int, after: int) -> list[tuple[int, str, str, int]]:
        return self._db.execute(
            "SELECT rowid, lane, name, end_ns - start_ns FROM event WHERE rowid >= ? AND rowid < ? ORDER BY rowid",
            (first, after),
        ).fetchall()

    def counters_between(self, first: int, after: int) -> list[tuple[int, int]]:
        return self._db.execute(
            "SELECT rowid, iterator FROM pipeline WHERE rowid >= ? AND rowid < ? ORDER BY rowid", (first, after)
        ).fetchall()

    def samples_after(self, row: int, count: int) -> list[tuple[int, str]]:
        return self._db.execute(
            "SELECT rowid, data FROM sample WHERE rowid > ? ORDER BY rowid LIMIT ?", (row, count)
        ).fetchall()

    def drop(self, table: str, rows: Iterable[int]) -> None:
        query = f"DELETE FROM {table} WHERE rowid = ?"  # noqa: S608  a table of ours
        self._db.executemany(query, [(row,) for row in rows])

    def hole(self, first: int) -> bytes:
        return bytes(self._db.execute("SELECT data FROM hole WHERE first = ?", (first,)).fetchone()[0])

    def thin(self, first: int, last: int, hole: bytes) -> None:
        """Replaces chunks ``first`` to ``last``, and the holes among them, by one hole."""
        self._db.execute("DELETE FROM chunk WHERE id BETWEEN ? AND ?", (first, last))
        self._db.execute("DELETE FROM hole WHERE first BETWEEN ? AND ?", (first, last))
        self._db.execute("INSERT INTO hole VALUES (?,?,?)", (first, last, hole))

    def version(self, number: int) -> None:
        self._db.execute(f"PRAGMA user_version={number}")

    def close(self) -> None:
        self._db.close()


def json_text(value: Any) -> str:
    """Returns any value as JSON. What JSON does not know is stored as its ``repr``, cut at 200 characters."""
    try:
        return json.dumps(value, default=_short_repr, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):  # keys that are not text, or a circular structure
        if isinstance(value, Mapping):
            return json.dumps({sqlite_text(k): _short_repr(v) for k, v in value.items()}, separators=(",", ":"))
        return json.dumps(_short_repr(value))


def sqlite_text(text: object) -> str:
    """Returns text that SQLite accepts: without lone surrogates, at most a thousand characters."""
    return str(text)[:1000].encode("utf-8", "replace").decode("utf-8")


def _short_repr(value: object) -> str:
    try:
        return repr(value)[:200]
    except Exception:
        return f"<{type(value).__name__}>"
