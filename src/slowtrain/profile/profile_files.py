"""Profiles on disk: finds them in a file, a session's folder, a log folder, or a folder above; maps their bytes.

TensorFlow, JAX and TensorBoard write ``LOGDIR/plugins/profile/SESSION/HOST.xplane.pb``, where SESSION is the local
time (``2026_01_31_12_00_00``) or a name that the caller chose. The first bytes of a file tell for an error message
what it is if it is no profile. The xplane module reads the content.
"""

from __future__ import annotations

import codecs
import filecmp
import gzip
import mmap
import os
import re
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from slowtrain.errors import InputError
from slowtrain.number_text import first_names

PROFILE_ENDINGS = (".xplane.pb", ".xplane.pb.gz")
VIEWER_ENDINGS = (".trace.json", ".trace.json.gz")  # the trace viewer's format, which contains less than a profile
VIEWER_NAMES = ("trace.json", "trace.json.gz")  # the same, saved by hand
MAX_ENTRIES = 100_000  # five seconds of search; log folders with checkpoints hold some ten thousand
MAX_NAMED_FOLDERS = 3  # folders in one note
MAX_UNZIPPED_BYTES = 4 << 30
MAX_UNZIPPED_RATIO = 200  # real profiles shrink five- to twentyfold, a zip bomb a thousandfold
_GZIP = b"\x1f\x8b"  # no XSpace begins with these bytes
_TIME = r"\d{4}(?:_\d\d){5}"
_RECORD = "record one: tf.profiler.experimental.start(LOGDIR) or jax.profiler.start_trace(LOGDIR)"
FILE_HEAD_BYTES = 4096
WANTED_HINT = "give a *.xplane.pb, or the log folder that holds it"
_MAGIC_BYTES = (
    (b"\x89HDF\r\n\x1a\n", "HDF5 (Keras weights or a model, .h5)"),
    (b"PK\x03\x04", "a zip archive (.keras, .npz or PyTorch)"),
    (b"SQLite format 3\x00", "an SQLite database (from Nsight Systems, or a Slowtrain recording)"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd; unpack it first"),
    (b"\xfd7zXZ\x00", "compressed with xz; unpack it first"),
    (b"BZh", "compressed with bzip2; unpack it first"),
    (b"\x7fELF", "a program"),
)
_PICKLE = rb"\x80[\x02-\x05](?:\x95|[}\](cq])"
_CHECKPOINT = r"\.(?:data-\d{5}-of-\d{5}|index)$"
_SAVED_MODEL = r"^(?:saved_model|keras_metadata|fingerprint)\.pb$"
_TRACE_VIEWER = r"\.trace\.json(?:\.gz)?$"
# Files that TensorBoard's profiler caches next to the profile, by the names of its tools.
_ANALYSIS = (
    r"(?:overview_page|input_pipeline\w*|(?:tensorflow|kernel|op)_stats\w*|memory_profile|memory_viewer|hlo_proto|"
    r"hlo_stats|pod_viewer|tf_data_bottleneck_analysis|podcapture|roofline_model|trace_viewer\w*)\.pb$"
)
_LEGACY = r"\.trace(?:\.gz)?$"
LEGACY_KIND = "a legacy trace; give the *.xplane.pb in the same folder"
# A message in a file's first field whose content a plane cannot have there: an op of a graph
# ("dense/kernel", then "VarHandleOp"), a kernel of kernel_stats.pb, …
_GRAPH_NODE = rb"\n[\x00-\x7f\x80-\xff]{1,3}?\n[\x01-\x7f][\w./-]{1,127}\x12[\x01-\x40][A-Z_]\w{1,63}[\x1a\x22\x2a\n]"
# The same for a legacy trace: a number, then a device, which is a message with a name.
_OLD_DEVICE = rb"\n[\x00-\xff]{1,3}?\x08[\x00-\xff]{1,5}?\x12[\x00-\xff]{1,3}?\n[\x01-\x7f][/\w]"
_NO_WIRE_TYPE = (6, 7)
_CONTROL = rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]"


@dataclass(frozen=True)
class Session:
    """What one or several hosts recorded at the same time."""

    name: str
    folder: Path
    files: tuple[Path, ...]  # one per host


@dataclass(frozen=True)
class FoundSessions:
    """The sessions, the newest first, and notes of what was not searched."""

    sessions: tuple[Session, ...]
    notes: tuple[str, ...] = ()


def find_sessions(path: Path) -> list[Session]:
    """Return the sessions at or below ``path``, the newest first. Raises ``InputError`` if there are none."""
    return list(search_sessions(path).sessions)


def search_sessions(path: Path) -> FoundSessions:
    """Return the sessions at or below ``path``, at any depth. Raises ``InputError`` if there are none.

    Links below ``path`` are not followed, and hidden folders are skipped. Folders that hold only a trace viewer's
    JSON count if there is no profile at all.
    """
    try:
        if path.is_file():
            return FoundSessions(
                (Session(path.name, path.parent, (path,)),)
            )  # with any name; the reader reports what it is
        if not path.is_dir():
            raise InputError(_no_folder_message(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    sessions: list[Session] = []
    viewed: list[Session] = []
    seen = _WalkedEntries()
    for folder, files in _walk_folders(path, seen):
        name = folder.name or folder.resolve().name
        if found := _one_file_per_host(folder, files):
            sessions.append(Session(name, folder, tuple(found)))
        elif found := _one_file_per_host(
            folder, (f for f in files if f in VIEWER_NAMES), VIEWER_NAMES
        ) or _one_file_per_host(folder, files, VIEWER_ENDINGS):
            viewed.append(Session(name, folder, tuple(found)))
    if not sessions and not viewed:
        raise InputError(f"{path}: {_no_profile_message(seen)}")
    notes = list(_search_notes(seen))
    if sessions and viewed:
        notes.append(f"folders that contain only a trace viewer's JSON are left out: {_folder_names(viewed)}")
    chosen = sorted(sessions or viewed, key=lambda s: (_session_time(s), s.name, str(s.folder)), reverse=True)
    return FoundSessions(tuple(chosen), tuple(notes))


def other_sessions_note(sessions: Iterable[Session]) -> str:
    """Return a note that the first of several profiles is the newest, and which the others are."""
    newest, *older = sessions
    return (
        f"this is the newest of {len(older) + 1} profiles, {newest.name}; --list shows the others "
        f"({_folder_names(older)})"
    )


def _folder_names(sessions: Sequence[Session]) -> str:
    return ", ".join(first_names([str(s.folder) for s in sessions], MAX_NAMED_FOLDERS))


def _search_notes(seen: _WalkedEntries) -> Iterator[str]:
    """Yield what was not searched."""
    if seen.cut_short:
        yield f"only the first {MAX_ENTRIES:,} files and folders were searched: there may be newer profiles"
    if seen.kinds["link"]:
        yield f"links to profiles are not followed: {seen.kinds['link']}"
    if seen.unreadable is not None:
        yield f"{seen.unreadable} cannot be read, and its contents were left out"


def distinct_files(files: Iterable[Path]) -> tuple[list[Path], list[tuple[Path, Path]]]:
    """Return the files without identical copies, and each dropped copy with the file that it equals.

    Two hosts never record the same bytes. Such files are one host's file, copied under two names.
    """
    distinct: list[Path] = []
    dropped: list[tuple[Path, Path]] = []
    by_size: dict[int, list[Path]] = {}
    for file in files:
        try:
            rivals = by_size.setdefault(file.stat().st_size, [])
            twin = next((rival for rival in rivals if filecmp.cmp(rival, file, shallow=False)), None)
        except OSError as error:
            raise InputError(f"{file}: cannot be read: {error.strerror or error}") from error
        if twin is None:
            rivals.append(file)
            distinct.append(file)
        else:
            dropped.append((file, twin))
    return distinct, dropped


def _session_time(session: Session) -> float:
    """Return seconds since 1970, from the session's name (copying changes the files' times), else from its files."""
    if re.fullmatch(_TIME, session.name):
        try:
            return time.mktime(time.strptime(session.name, "%Y_%m_%d_%H_%M_%S"))
        except (ValueError, OverflowError):
            pass  # not a valid date: an ordinary name
    try:
        return max(file.stat().st_mtime for file in session.files)
    except OSError:
        return 0.0


def _one_file_per_host(folder: Path, names: Iterable[str], endings: tuple[str, ...] = PROFILE_ENDINGS) -> list[Path]:
    """Return the profiles among these files; of a host's file and its gzipped copy the plain one."""
    found: dict[str, str] = {}
    for name in sorted(names):  # HOST.xplane.pb before HOST.xplane.pb.gz
        if name.endswith(endings):
            found.setdefault(name.removesuffix(".gz"), name)
    return [folder / name for name in found.values()]


# ---- the walk ---------------------------------------------------------------------------------------------------


class _WalkedEntries:
    """What was found during the search, for the message if there is no profile."""

    def __init__(self) -> None:
        self.entries = 0
        self.kinds: Counter[str] = Counter()
        self.unreadable: Path | None = None
        self.cut_short = False

    def note(self, name: str) -> None:
        if name.endswith((".json", ".json.gz")):
            self.kinds["JSON"] += 1
        elif name.endswith((".trace", ".trace.gz")):
            self.kinds["legacy"] += 1
        elif name.startswith("events.out.tfevents."):
            self.kinds["events"] += 1
        elif name.endswith((".pb", ".pb.gz")):
            self.kinds["pb"] += 1


def _walk_folders(path: Path, seen: _WalkedEntries) -> Iterator[tuple[Path, list[str]]]:
    """Yield folders with the names of their files, level by level."""
    level = [path]
    while level:
        below: list[Path] = []
        for folder in level:
            files, folders = _list_folder(folder, seen)
            yield folder, files
            if seen.cut_short:
                return
            below += [folder / name for name in folders]
        level = sorted(below)


def _list_folder(folder: Path, seen: _WalkedEntries) -> tuple[list[str], list[str]]:
    """Return the names of relevant files and folders in a folder."""
    files: list[str] = []
    folders: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                seen.entries += 1
                if seen.entries > MAX_ENTRIES:
                    seen.cut_short = True
                    break
                if entry.is_symlink():
                    seen.kinds["link"] += entry.name.endswith(PROFILE_ENDINGS)
                elif entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith("."):
                        folders.append(entry.name)
                elif entry.is_file(follow_symlinks=False):
                    files.append(entry.name)
                    seen.note(entry.name)
    except OSError:
        seen.unreadable = folder
    return files, folders


# ---- what there is instead --------------------------------------------------------------------------------------


def _no_folder_message(path: Path) -> str:
    if path.exists():
        return f"{path}: not a file or folder; give a profile (*.xplane.pb) or a log folder"
    if path.is_symlink():
        return f"{path}: the link's target does not exist"
    return f"{path}: no such file or folder; give a profile (*.xplane.pb) or the log folder that holds it"


def _no_profile_message(seen: _WalkedEntries) -> str:
    """Return why a folder has no usable profile, the most specific reason first."""
    if seen.unreadable is not None:
        return f"no profile (*.xplane.pb) was found, and {seen.unreadable} cannot be read; check its permissions"
    if not seen.entries:
        return "the folder is empty; give a profile (*.xplane.pb) or the log folder that holds it"
    if seen.kinds["link"]:
        return "its profiles are links, which are not followed; give the target of one"
    if seen.cut_short:
        return f"no profile (*.xplane.pb) among the first {MAX_ENTRIES:,} files and folders; give the log folder"
    if seen.kinds["legacy"]:
        return f"it holds legacy traces (*.trace) without the *.xplane.pb that belongs to them; {_RECORD}"
    if seen.kinds["pb"]:
        return f"it holds *.pb files but none named *.xplane.pb; if one is a profile, give that file, else {_RECORD}"
    if seen.kinds["events"]:
        return f"it holds TensorBoard's event files but no profile (*.xplane.pb); {_RECORD}"
    return f"no profile (*.xplane.pb) among its {seen.entries} entries; give the log folder that holds one"


def other_file_kind(head: bytes, name: str) -> str | None:
    """Return what the file certainly is instead of a profile; None if it may be a profile."""
    for magic, kind in _MAGIC_BYTES:
        if head.startswith(magic):
            return kind
    if re.match(_PICKLE, head):
        return "a Python pickle"
    if b"brain.Event:" in head[:64]:
        return "TensorBoard's event file; the profiles are in plugins/profile in the same folder"
    if head[257:262] == b"ustar":
        return "a tar archive; unpack it first"
    if not re.search(_CONTROL, head):
        return _text_kind(head, name)
    if re.match(_GRAPH_NODE, head):
        return "a graph (GraphDef) without times"
    if re.match(_OLD_DEVICE, head):
        return LEGACY_KIND
    # Decided by the first byte, before gigabytes of zeros are unzipped.
    message = head[0] >> 3 and head[0] & 7 not in _NO_WIRE_TYPE
    return None if message or likely_file_kind(head, name) else "not a protobuf message"


def likely_file_kind(head: bytes, name: str) -> str | None:
    """Return what a file that could not be read as a profile may be; None if unknown."""
    if re.search(_CHECKPOINT, name):
        return "part of a TensorFlow checkpoint"
    if re.search(_LEGACY, name):
        return LEGACY_KIND
    if re.search(_SAVED_MODEL, name) or head.startswith(b"\x08\x01\x12"):
        return "part of a SavedModel"
    if re.search(_ANALYSIS, name) or b"type.googleapis.com/tensorflow.profiler." in head:
        return "an analysis of a profile, written by TensorBoard's profiler"
    return None


def _text_kind(head: bytes, name: str) -> str | None:
    """Return the kind of a text without control characters. The last character may be cut off."""
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head).lstrip()
    except UnicodeDecodeError:
        return None
    if text.startswith(("{", "[")):
        trace = '"traceEvents"' in text or '"displayTimeUnit"' in text or re.search(_TRACE_VIEWER, name)
        return "a trace viewer's JSON" if trace else "JSON"
    return "TensorFlow's list of checkpoints" if text.startswith("model_checkpoint_path:") else "text"


def profile_bytes(path: str | Path) -> mmap.mmap:
    """Return the bytes of a file that may be a profile, unzipped if needed. Raises ``InputError``."""
    try:
        with Path(path).open("rb") as stored:
            head = stored.read(FILE_HEAD_BYTES)
            if not head.startswith(_GZIP):
                _decline_other_kinds(path, head)
                return mmap.mmap(stored.fileno(), 0, access=mmap.ACCESS_READ)
        import tempfile  # needed for packed ones alone

        with gzip.open(path) as zipped, tempfile.TemporaryFile() as plain:
            limit = min(MAX_UNZIPPED_BYTES, max(1 << 26, MAX_UNZIPPED_RATIO * Path(path).stat().st_size))
            _decline_other_kinds(path, zipped.peek(FILE_HEAD_BYTES)[:FILE_HEAD_BYTES])
            while part := zipped.read(1 << 20):
                plain.write(part)
                if plain.tell() > limit:
                    raise profile_error(path, f"it is larger than {limit >> 20} MiB when unpacked")
            plain.flush()
            return mmap.mmap(plain.fileno(), 0, access=mmap.ACCESS_READ)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise profile_error(path, f"broken gzip data: {error}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def profile_error(path: str | Path, why: str) -> InputError:
    return InputError(f"{path}: not a readable profile: {why}")


def _decline_other_kinds(path: str | Path, head: bytes) -> None:
    if not head:
        raise profile_error(path, "the file is empty")
    kind = other_file_kind(head, Path(path).name)
    if kind is not None:
        raise profile_error(path, f"it seems to be {kind}; {WANTED_HINT}")
