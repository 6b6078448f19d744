"""The file of a recording: SQLite in WAL mode, written by one background thread.

Spans come in chunks: rows of five little-endian int64 (name, start_ns, end_ns, thread,
value), compressed together, since a row of SQL for each would cost more than the step
that it describes. A chunk that was committed survives ``kill -9`` of the process.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FILE = "recording.sqlite"
VERSION = 1
SPAN_FIELDS = 5

SCHEMA = """
CREATE TABLE name(id INTEGER PRIMARY KEY, lane TEXT NOT NULL, name TEXT NOT NULL, detail TEXT NOT NULL);
CREATE TABLE chunk(id INTEGER PRIMARY KEY, spans INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE event(start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, lane TEXT NOT NULL, name TEXT NOT NULL,
                   data TEXT NOT NULL);
CREATE TABLE fact(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE sample(time_ns INTEGER NOT NULL, data TEXT NOT NULL);
CREATE TABLE pipeline(time_ns INTEGER NOT NULL, iterator INTEGER NOT NULL, proto BLOB NOT NULL);
"""


class Store:
    """Writes one recording. Not thread-safe: one thread owns it. Raises ``sqlite3.Error`` or ``OSError``."""

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(folder / FILE, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        if self._db.execute("PRAGMA user_version").fetchone()[0] == 0:
            self._db.executescript(SCHEMA)
            self._db.execute(f"PRAGMA user_version={VERSION}")

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
            [(key, lane, plain(name), dumps(detail)) for key, lane, name, detail in rows],
        )

    def spans(self, data: bytes) -> None:
        """``data``: packed int64, :data:`SPAN_FIELDS` a span."""
        count = len(data) // (8 * SPAN_FIELDS)
        self._db.execute("INSERT INTO chunk(spans, data) VALUES (?,?)", (count, zlib.compress(data, 1)))

    def events(self, rows: Iterable[tuple[int, int, str, str, Mapping[str, Any]]]) -> None:
        self._db.executemany(
            "INSERT INTO event VALUES (?,?,?,?,?)",
            [(start, end, lane, plain(name), dumps(data)) for start, end, lane, name, data in rows],
        )

    def fact(self, key: str, value: Any) -> None:
        self._db.execute("INSERT OR REPLACE INTO fact VALUES (?,?)", (key, dumps(value)))

    def sample(self, time_ns: int, data: Mapping[str, Any]) -> None:
        self._db.execute("INSERT INTO sample VALUES (?,?)", (time_ns, dumps(data)))

    def pipeline(self, time_ns: int, iterator: int, proto: bytes) -> None:
        self._db.execute("INSERT INTO pipeline VALUES (?,?,?)", (time_ns, iterator, proto))

    def close(self) -> None:
        self._db.close()


def dumps(value: Any) -> str:
    """JSON of anything: what JSON does not know becomes its ``repr``, cut at 200 characters."""
    try:
        return json.dumps(value, default=_repr, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):  # keys that are no text; a circle
        if isinstance(value, Mapping):
            return json.dumps({plain(k): _repr(v) for k, v in value.items()}, separators=(",", ":"))
        return json.dumps(_repr(value))


def plain(text: object) -> str:
    """Text that SQLite takes: without lone surrogates, at most a thousand characters."""
    return str(text)[:1000].encode("utf-8", "replace").decode("utf-8")


def _repr(value: object) -> str:
    try:
        return repr(value)[:200]
    except Exception:
        return f"<{type(value).__name__}>"
