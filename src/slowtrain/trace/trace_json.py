"""Reads a trace viewer's JSON (``*.trace.json.gz``) as a profile, as far as its content allows.

TensorBoard and JAX write it next to the profile, and often it is the only file that was kept. It holds names of
processes and threads, events with start and length, and the statistics that the viewer shows.

The events are written in the profile's own format and read by the xplane module, so that there is one reader of
planes. Size, nesting and times are bounded. The result is a profile or ``InputError``.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from slowtrain.errors import InputError
from slowtrain.patterns import late
from slowtrain.trace import names, xplane

MOST_BYTES = 256 << 20  # unzipped; the viewer's own limit of a million events is about 200 MB
HEAD_BYTES = 1 << 16
MOST_EVENTS = 2_000_000
LONGEST_US = 1e12  # eleven days from the first event to the last; longer ones have broken times
MOST_TEXT = 2000  # characters of a name or of a statistic
_GZIP = b"\x1f\x8b"
_NAME = late(r"(?:^|\.)trace\.json(?:\.gz)?$")
_DEVICE = late(r"(?:^|/)(?:device:)?(GPU|TPU|CUSTOM|gpu):(\d{1,4})\b")
_ANOTHER = (b'"deviceProperties"', b'"traceName"', b'"pytorch')  # of PyTorch's profiler
_NUMBERS = (names.CORRELATION_ID, names.STEP_NUM, names.GROUP_ID, names.PROGRAM_ID)
_TEXTS = (names.TF_OP, names.HLO_OP, names.HLO_MODULE, names.MEMCPY_DETAILS, names.ANNOTATION)
_STATS = (*_NUMBERS, *_TEXTS)


def is_trace(path: Path) -> bool:
    """Return whether a file is a trace viewer's JSON, by its first bytes; False if it cannot be read."""
    try:
        head = _head(path)
    except (OSError, EOFError, zlib.error):
        return False
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return text[:1] in (b"{", b"[") and (b'"traceEvents"' in text or _NAME.search(path.name) is not None)


def read(path: Path) -> tuple[xplane.Space, str]:
    """Return the profile, and a note of what it lacks. Raises ``InputError``."""
    data = _contents(path)
    if any(word in data[:HEAD_BYTES] for word in _ANOTHER):
        raise _declined(path, "it is a trace of PyTorch's profiler; give a *.xplane.pb of TensorFlow or JAX")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _declined(path, f"broken JSON: {str(error)[:100]}") from error
    rows = document.get("traceEvents") if isinstance(document, Mapping) else document
    if not isinstance(rows, list):
        raise _declined(path, "it has no list of events (traceEvents); give a *.xplane.pb")
    if len(rows) > MOST_EVENTS:
        raise _declined(path, f"it holds more than {MOST_EVENTS:,} events; give the *.xplane.pb")
    found = _Read(path)
    found.take(rows)
    return xplane.parse(found.encoded(), str(path)), found.lacks()


def _head(path: Path) -> bytes:
    with path.open("rb") as stored:
        head = stored.read(HEAD_BYTES)
    if not head.startswith(_GZIP):
        return head
    with gzip.open(path) as zipped:
        return zipped.read(HEAD_BYTES)


def _contents(path: Path) -> bytes:
    try:
        with path.open("rb") as stored:
            zipped = stored.read(2) == _GZIP
        with gzip.open(path) if zipped else path.open("rb") as stored:
            data = stored.read(MOST_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _declined(path, f"broken gzip data: {error}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(data) > MOST_BYTES:
        raise _declined(path, f"it is larger than {MOST_BYTES >> 20} MiB; give the *.xplane.pb")
    return data


def _declined(path: Path, why: str) -> InputError:
    return InputError(f"{path}: not a readable trace: {why}")


class _Read:
    """Events by process and thread: ``(start_us, length_us, name, statistics)``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.processes: dict[str, str] = {}
        self.threads: dict[tuple[str, str], str] = {}
        self.events: dict[tuple[str, str], list[tuple[float, float, str, dict[str, Any]]]] = {}
        self.left_out = 0
        self.stats: set[str] = set()

    def take(self, rows: Iterable[Any]) -> None:
        for row in rows:
            if not isinstance(row, Mapping) or not row:
                continue
            kind, process, thread = row.get("ph"), str(row.get("pid", "")), str(row.get("tid", ""))
            given = row.get("args")
            arguments: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
            if kind == "M":
                name = str(arguments.get("name", ""))[:MOST_TEXT]
                if row.get("name") == "process_name":
                    self.processes[process] = name
                elif row.get("name") == "thread_name":
                    self.threads[process, thread] = name
            elif kind == "X" and (times := _times(row)) is not None:
                stats = {k: v for k in _STATS if (v := _stat(k, arguments.get(k))) is not None}
                self.stats.update(stats)
                name = str(arguments.get("long name") or row.get("name", ""))[:MOST_TEXT]
                self.events.setdefault((process, thread), []).append((*times, name, stats))
            else:
                self.left_out += 1
        starts = [event[0] for events in self.events.values() for event in events]
        if starts and max(starts) - min(starts) > LONGEST_US:
            raise _declined(self.path, "its events lie more than eleven days apart")

    def lacks(self) -> str:
        """Return a note of what the viewer's format does not contain."""
        absent = []
        if names.CORRELATION_ID not in self.stats:
            absent.append("which call started which kernel")
        if not self.stats & {names.TF_OP, names.HLO_OP, names.ANNOTATION}:
            absent.append("the ops of kernels")
        said = ", ".join([*absent, "shapes and data sets"])
        more = f"; {self.left_out:,} events without a length were left out" if self.left_out else ""
        return f"{self.path.name} is a trace viewer's JSON, which lacks {said}: the *.xplane.pb tells more{more}"

    def encoded(self) -> bytes:
        """Return an XSpace (tsl/profiler/protobuf/xplane.proto)."""
        origin = min((event[0] for events in self.events.values() for event in events), default=0.0)
        planes: dict[str, list[tuple[str, str]]] = {}
        for process, thread in self.events:
            planes.setdefault(self._plane(process), []).append((process, thread))
        return b"".join(_field(1, self._encoded_plane(name, keys, origin)) for name, keys in planes.items())

    def _plane(self, process: str) -> str:
        name = self.processes.get(process, "")
        device = _DEVICE.search(name)
        if device is not None:
            return f"/device:{device[1].upper()}:{device[2]}"
        return name.split(" ")[0] if name.startswith(names.HOST_PLANE) else names.HOST_PLANE

    def _encoded_plane(self, name: str, keys: list[tuple[str, str]], origin_us: float) -> bytes:
        texts: dict[str, int] = {}
        lines = []
        labels = [self.threads.get(key, key[1]) for key in keys]
        unnamed = name.startswith(names.GPU_PLANE) and not any(map(names.STREAM_LINE.match, labels))
        for i, (key, label) in enumerate(zip(keys, labels, strict=True)):
            if unnamed and label not in names.DERIVED_LINES:
                label = f"Stream #{i}"
            events = [
                _field(4, _event(texts.setdefault(text, len(texts) + 1), start - origin_us, length, stats))
                for start, length, text, stats in sorted(self.events[key], key=lambda event: event[:2])
            ]
            lines.append(_field(3, b"".join((_number(1, i + 1), _field(2, label.encode()), *events))))
        tables = [_entry(4, number, text) for text, number in texts.items()]
        tables += [_entry(5, i + 1, stat) for i, stat in enumerate(_STATS)]
        return b"".join((_field(2, name.encode()), *lines, *tables))


def _times(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return start and length in µs; None if they are not valid times."""
    try:
        start, length = float(row["ts"]), float(row.get("dur", 0.0))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    usable = math.isfinite(start) and math.isfinite(length) and abs(start) < 1e18 and 0 <= length <= LONGEST_US
    return (start, length) if usable else None


def _stat(name: str, value: Any) -> int | str | None:
    if value is None or isinstance(value, Mapping | list | bool):
        return None
    if name not in _NUMBERS:
        return str(value)[:MOST_TEXT]
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 <= number < 1 << 62 else None


# ---- the profile's own form -----------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _entry(field: int, number: int, text: str) -> bytes:
    value = _number(1, number) + _field(2, text.encode("utf-8", "replace"))
    return _field(field, _number(1, number) + _field(2, value))


def _event(number: int, start_us: float, length_us: float, stats: Mapping[str, int | str]) -> bytes:
    found = _number(1, number) + _number(2, round(start_us * 1e6)) + _number(3, round(length_us * 1e6))
    for i, name in enumerate(_STATS):
        value = stats.get(name)
        if isinstance(value, int):
            found += _field(4, _number(1, i + 1) + _number(4, value))
        elif value is not None:
            found += _field(4, _number(1, i + 1) + _field(5, value.encode("utf-8", "replace")))
    return found
