"""From a recording to what the user reads: shared by the verbs that give an answer."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slowtrain.errors import InputError
from slowtrain.model import Checkup
from slowtrain.number_text import format_count, format_number
from slowtrain.values import dataclass

REPORT = "report.html"
ANSWER = "checkup.json"
MOST_HOSTS = 16  # of a run are read one by one: each takes as long as a profile of one host
STDOUT = "-"  # as the name of a file


@dataclass(frozen=True)
class Answer:
    """Examines a recording; writes the reports into it, and prints the text."""

    folder: Path
    html: Path | None = None
    json: str | None = None

    def give(self) -> Checkup:
        """Raises ``InputError`` when the recording cannot be read or a report not be written."""
        from slowtrain.recording import recording_folder

        recording_folder.require_recording(self.folder)  # before what takes longer to import
        found = examine(self.folder)
        tell(found, html=self.html, json=self.json, into=self.folder)
        return found


def examine(folder: Path) -> Checkup:
    """The checkup of a recording. Raises ``InputError``."""
    from slowtrain.cli import _numpy

    _numpy.alone()
    from slowtrain import diagnose
    from slowtrain.checkup import build_checkup
    from slowtrain.trace.loading import recording_trace

    trace = recording_trace.load_recording(folder)
    return build_checkup(trace, diagnose.diagnose_trace(trace), folder=folder)


def examine_profile(
    files: Sequence[Path],
    path: Path,
    notes: Sequence[str] = (),
    *,
    facts: Mapping[str, Any] | None = None,
    given: Path | None = None,
) -> Checkup:
    """The checkup of a profile, a file per host; ``path`` is what the user gave. Raises ``InputError``.

    ``facts`` are those of its computer, as the file ``given`` holds them.
    """
    from slowtrain.cli import _numpy

    _numpy.alone()
    from slowtrain import diagnose
    from slowtrain.checkup import build_checkup
    from slowtrain.checkup.sections.external_facts import join_facts
    from slowtrain.cli import _facts
    from slowtrain.profile import discovery
    from slowtrain.trace.loading import profile_trace

    kept, dropped = discovery.distinct_files(files)
    said = [f"{copy.name} is byte for byte {twin.name}: read once" for copy, twin in dropped]
    trace = profile_trace.load_profile(kept, notes=(*notes, *said, *_of_hosts(kept)))
    if facts is not None and given is not None:
        with _facts.judged(given):
            trace = join_facts(trace, facts, str(given))
    return build_checkup(trace, diagnose.diagnose_trace(trace), folder=path)


def _of_hosts(files: Sequence[Path]) -> list[str]:
    """What each of several hosts' profiles says by itself: a step is as slow as the slowest of them makes it."""
    if len(files) < 2:
        return []
    from slowtrain.checkup.headline import headline_and_notes
    from slowtrain.trace.loading import profile_trace

    told = []
    for file in files[:MOST_HOSTS]:
        try:
            told.append(
                f"{file.name} by itself: {headline_and_notes.describe_host_profile(profile_trace.load_profile([file]))}"
            )
        except InputError as error:
            told.append(f"{file.name} by itself: cannot be read: {error}")
    more = len(files) - MOST_HOSTS
    return [*told, f"{more} more hosts were not read one by one"] if more > 0 else told


def tell(found: Checkup, *, html: Path | None, json: str | None, into: Path | None = None) -> None:
    """Prints the text, or the JSON alone where it was asked for on standard output; then writes what was asked for.

    ``into`` is the recording that the page and the JSON are kept in. Raises ``InputError`` where a file that was asked
    for cannot be written.
    """
    try:
        _say(found, json)
    finally:  # a reader that has gone, as `head` does, takes nothing from the files
        _keep(found, html, json, into)


def _say(found: Checkup, json: str | None) -> None:
    """At once: nobody who reads the text waits for the page, which takes a tenth of the time of all or more."""
    if json == STDOUT:
        from slowtrain.report import json as document

        sys.stdout.write(document.render(found))
    else:
        from slowtrain.report import text

        sys.stdout.write("\n")
        show(text.render, found)
    sys.stdout.flush()


def _keep(found: Checkup, html: Path | None, json: str | None, into: Path | None) -> None:
    from slowtrain.report import json as document

    shown: Path | None = None
    whole = page(found) if html is not None or into is not None else ""
    if into is not None:
        with contextlib.suppress(InputError):  # a recording on a read-only disk is still answered
            write(into / REPORT, whole)
            write(into / ANSWER, document.render(found))
            shown = into / REPORT
    try:
        if json is not None and json != STDOUT:
            write(Path(json), document.render(found), folders=True)
        if html is not None:
            write(html, whole, folders=True)
            shown = html
    finally:  # where that cannot be written there is still the recording's own
        if json != STDOUT and shown is not None:
            print(f"\nreport: {shown}")


def written(document: str, to: str) -> bool:
    """Writes the JSON where it was asked for; whether that is standard output, on which nothing else belongs."""
    if to == STDOUT:
        sys.stdout.write(document)
        return True
    write(Path(to), document, folders=True)
    return False


def show(render: Callable[..., str], answer: Any) -> None:
    """Prints an answer as text that fits where it is printed."""
    width = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80
    sys.stdout.write(render(answer, width=width, colour=coloured(sys.stdout), unicode=speaks_unicode(sys.stdout)))


def page(found: Checkup) -> str:
    """The HTML page, with the own page of each cause that was found in it."""
    from slowtrain.causes import all_causes
    from slowtrain.cli import explain
    from slowtrain.report import html

    told = {d.cause for d in found.diagnoses}
    causes = [c for c in all_causes() if c.id in told]
    pages = {c.id: explain.with_examples(c.page, c.fixes) for c in causes}
    return html.render(found, pages)


def writable(html: Path | None, json: str | None) -> None:
    """Raises ``InputError`` where a report that was asked for could not be written: before what takes long.

    Folders that are not there yet are no hindrance, nor made now: the script may make them.
    """
    for path in (html, None if json == STDOUT else json):
        place = Path(os.path.realpath(path or os.devnull))
        there = next(p for p in (place, *place.parents) if p.exists())
        if place.is_dir():
            wrong = errno.EISDIR
        elif there != place and not there.is_dir():
            wrong = errno.ENOTDIR
        elif not os.access(there.parent if there.is_file() else there, os.W_OK):
            wrong = errno.EACCES
        else:
            continue
        raise InputError(f"cannot write {path} ({os.strerror(wrong)}); choose another place")


def write(path: Path, content: str | bytes, *, folders: bool = False) -> None:
    """Writes a file whole or not at all; ``folders``: in folders that are made. Raises ``InputError``."""
    data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    place = Path(os.path.realpath(path))  # a link stays a link
    part = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        if place.exists() and not place.is_file() and not place.is_dir():
            place.write_bytes(data)  # a device or a pipe stays one: root would put a file in place of /dev/null
            return
        if folders:
            place.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(place)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise InputError(f"cannot write {path} ({error.strerror}); choose another place") from error


def coloured(stream: object) -> bool:
    """https://no-color.org: a terminal, unless it is dumb or the user says no."""
    isatty = getattr(stream, "isatty", None)
    return bool(isatty and isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def speaks_unicode(stream: object) -> bool:
    return str(getattr(stream, "encoding", "") or "").lower().replace("-", "") in ("utf8", "utf16")


class Progress:
    """A line on a terminal's stderr now and then while the script runs; nothing where it is piped."""

    EVERY_S = 10.0

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shown = sys.stderr.isatty()
        self._next = self.EVERY_S
        self.say(f"recording into {folder}")

    def tick(self, seconds: float) -> None:
        if not self.shown or seconds < self._next:
            return
        self._next = seconds + self.EVERY_S
        from slowtrain.recording import reader

        steps, ms = reader.read_progress(self.folder)
        what = f"{format_count(steps, 'step')}, {format_number(ms)} ms a step" if steps else "no steps yet"
        self.say(f"{seconds:.0f} s, {what}")

    def say(self, message: str) -> None:
        if self.shown:
            self.warn(message)

    def warn(self, message: str) -> None:
        print(f"slowtrain: {message}", file=sys.stderr, flush=True)
