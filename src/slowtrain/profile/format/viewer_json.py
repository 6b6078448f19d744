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
import re
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from slowtrain.errors import InputError
from slowtrain.profile import framework_names
from slowtrain.profile.format import xplane
from slowtrain.profile.format.wire_format import encode_varint

MAX_JSON_BYTES = 256 << 20  # unzipped; the viewer's own limit of a million events is about 200 MB
JSON_HEAD_BYTES = 1 << 16
MAX_JSON_EVENTS = 2_000_000
MAX_PROFILE_US = 1e12  # eleven days from the first event to the last; longer ones have broken times
MAX_JSON_TEXT_CHARS = 2000  # characters of a name or of a statistic
_GZIP = b"\x1f\x8b"
_VIEWER_NAME = re.compile(r"(?:^|\.)trace\.json(?:\.gz)?$")
_DEVICE_NAME = re.compile(r"(?:^|/)(?:device:)?(GPU|TPU|CUSTOM|gpu):(\d{1,4})\b")
_PYTORCH_MARKS = (b'"deviceProperties"', b'"traceName"', b'"pytorch')  # of PyTorch's profiler
_NUMBER_STATS = (
    framework_names.CORRELATION_ID,
    framework_names.STEP_NUM,
    framework_names.GROUP_ID,
    framework_names.PROGRAM_ID,
)
_TEXT_STATS = (
    framework_names.TF_OP,
    framework_names.HLO_OP,
    framework_names.HLO_MODULE,
    framework_names.MEMCPY_DETAILS,
    framework_names.ANNOTATION_STAT,
)
_READ_STATS = (*_NUMBER_STATS, *_TEXT_STATS)


def is_viewer_json(path: Path) -> bool:
    """Return whether a file is a trace viewer's JSON, by its first bytes; False if it cannot be read."""
    try:
        head = _first_bytes(path)
    except (OSError, EOFError, zlib.error):
        return False
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return text[:1] in (b"{", b"[") and (b'"traceEvents"' in text or _VIEWER_NAME.search(path.name) is not None)


def read_viewer_json(path: Path) -> tuple[xplane.Space, str]:
    """Return the profile, and a note of what it lacks. Raises ``InputError``."""
    data = _file_bytes(path)
    if any(word in data[:JSON_HEAD_BYTES] for word in _PYTORCH_MARKS):
        raise _trace_error(path, "it is a trace from PyTorch's profiler; give a *.xplane.pb from TensorFlow or JAX")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _trace_error(path, f"broken JSON: {str(error)[:100]}") from error
    rows = document.get("traceEvents") if isinstance(document, Mapping) else document
    if not isinstance(rows, list):
        raise _trace_error(path, "it has no list of events (traceEvents); give a *.xplane.pb")
    if len(rows) > MAX_JSON_EVENTS:
        raise _trace_error(path, f"it holds more than {MAX_JSON_EVENTS:,} events; give the *.xplane.pb")
    found = _ViewerEvents(path)
    found.take(rows)
    return xplane.parse_space(found.encode_space(), str(path)), found.missing_note()


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as stored:
        head = stored.read(JSON_HEAD_BYTES)
    if not head.startswith(_GZIP):
        return head
    with gzip.open(path) as zipped:
        return zipped.read(JSON_HEAD_BYTES)


def _file_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as stored:
            zipped = stored.read(2) == _GZIP
        with gzip.open(path) if zipped else path.open("rb") as stored:
            data = stored.read(MAX_JSON_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _trace_error(path, f"broken gzip data: {error}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_JSON_BYTES:
        raise _trace_error(path, f"it is larger than {MAX_JSON_BYTES >> 20} MiB; give the *.xplane.pb")
    return data


def _trace_error(path: Path, why: str) -> InputError:
    return InputError(f"{path}: not a readable trace: {why}")


class _ViewerEvents:
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
            value = row.get("args")
            arguments: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
            if kind == "M":
                name = str(arguments.get("name", ""))[:MAX_JSON_TEXT_CHARS]
                if row.get("name") == "process_name":
                    self.processes[process] = name
                elif row.get("name") == "thread_name":
                    self.threads[process, thread] = name
            elif kind == "X" and (times := _event_times(row)) is not None:
                stats = {k: v for k in _READ_STATS if (v := _stat_value(k, arguments.get(k))) is not None}
                self.stats.update(stats)
                name = str(arguments.get("long name") or row.get("name", ""))[:MAX_JSON_TEXT_CHARS]
                self.events.setdefault((process, thread), []).append((*times, name, stats))
            else:
                self.left_out += 1
        starts = [event[0] for events in self.events.values() for event in events]
        if starts and max(starts) - min(starts) > MAX_PROFILE_US:
            raise _trace_error(self.path, "its events are more than eleven days apart")

    def missing_note(self) -> str:
        """Return a note of what the viewer's format does not contain."""
        absent = []
        if framework_names.CORRELATION_ID not in self.stats:
            absent.append("which call started which kernel")
        if not self.stats & {framework_names.TF_OP, framework_names.HLO_OP, framework_names.ANNOTATION_STAT}:
            absent.append("the ops of kernels")
        names = ", ".join([*absent, "shapes and data sets"])
        more = f"; {self.left_out:,} events without a length were left out" if self.left_out else ""
        return f"{self.path.name} is a trace viewer's JSON, which lacks {names}: the *.xplane.pb has more data{more}"

    def encode_space(self) -> bytes:
        """Return an XSpace (tsl/profiler/protobuf/xplane.proto)."""
        origin = min((event[0] for events in self.events.values() for event in events), default=0.0)
        planes: dict[str, list[tuple[str, str]]] = {}
        for process, thread in self.events:
            planes.setdefault(self._plane(process), []).append((process, thread))
        return b"".join(_encode_field(1, self._encoded_plane(name, keys, origin)) for name, keys in planes.items())

    def _plane(self, process: str) -> str:
        name = self.processes.get(process, "")
        device = _DEVICE_NAME.search(name)
        if device is not None:
            return f"/device:{device[1].upper()}:{device[2]}"
        return name.split(" ")[0] if name.startswith(framework_names.HOST_PLANE) else framework_names.HOST_PLANE

    def _encoded_plane(self, name: str, keys: list[tuple[str, str]], origin_us: float) -> bytes:
        texts: dict[str, int] = {}
        lines = []
        labels = [self.threads.get(key, key[1]) for key in keys]
        named = any(re.match(framework_names.STREAM_LINE, label) for label in labels)
        unnamed = name.startswith(framework_names.GPU_PLANE) and not named
        for i, (key, label) in enumerate(zip(keys, labels, strict=True)):
            if unnamed and label not in framework_names.DERIVED_LINES:
                label = f"Stream #{i}"
            events = [
                _encode_field(
                    4, _encode_event(texts.setdefault(text, len(texts) + 1), start - origin_us, length, stats)
                )
                for start, length, text, stats in sorted(self.events[key], key=lambda event: event[:2])
            ]
            lines.append(
                _encode_field(3, b"".join((_encode_number(1, i + 1), _encode_field(2, label.encode()), *events)))
            )
        tables = [_encode_entry(4, number, text) for text, number in texts.items()]
        tables += [_encode_entry(5, i + 1, stat) for i, stat in enumerate(_READ_STATS)]
        return b"".join((_encode_field(2, name.encode()), *lines, *tables))


def _event_times(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return start and length in µs; None if they are not valid times."""
    try:
        start, length = float(row["ts"]), float(row.get("dur", 0.0))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    usable = math.isfinite(start) and math.isfinite(length) and abs(start) < 1e18 and 0 <= length <= MAX_PROFILE_US
    return (start, length) if usable else None


def _stat_value(name: str, value: Any) -> int | str | None:
    if value is None or isinstance(value, Mapping | list | bool):
        return None
    if name not in _NUMBER_STATS:
        return str(value)[:MAX_JSON_TEXT_CHARS]
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 <= number < 1 << 62 else None


# ---- the profile's own form -----------------------------------------------------------------------------------


def _encode_number(field: int, value: int) -> bytes:
    return encode_varint(field << 3) + encode_varint(value)


def _encode_field(field: int, data: bytes) -> bytes:
    return encode_varint(field << 3 | 2) + encode_varint(len(data)) + data


def _encode_entry(field: int, number: int, text: str) -> bytes:
    value = _encode_number(1, number) + _encode_field(2, text.encode("utf-8", "replace"))
    return _encode_field(field, _encode_number(1, number) + _encode_field(2, value))


def _encode_event(number: int, start_us: float, length_us: float, stats: Mapping[str, int | str]) -> bytes:
    found = (
        _encode_number(1, number) + _encode_number(2, round(start_us * 1e6)) + _encode_number(3, round(length_us * 1e6))
    )
    for i, name in enumerate(_READ_STATS):
        value = stats.get(name)
        if isinstance(value, int):
            found += _encode_field(4, _encode_number(1, i + 1) + _encode_number(4, value))
        elif value is not None:
            found += _encode_field(4, _encode_number(1, i + 1) + _encode_field(5, value.encode("utf-8", "replace")))
    return found
