"""Checks what a verb was given, examines a recording or profile, and prints and writes the answer."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slowtrain.cli import print_message
from slowtrain.errors import EnvironmentMissing, InputError
from slowtrain.number_text import format_count, format_number

if TYPE_CHECKING:
    from slowtrain.model import Checkup

MAX_SCRIPT_BYTES = 5_000_000  # a larger Python file holds data or was generated
FIRST_KERAS_WITHOUT_MULTI_WORKER = (
    3  # first major version of Keras whose ``fit`` does not work with MultiWorkerMirroredStrategy
)
FRAMEWORKS = ("tensorflow", "keras", "jax")


def require_runnable(target: str, module: bool) -> None:
    """Raises ``InputError`` if the target is not a script, ``EnvironmentMissing`` if no framework is installed."""
    import importlib.util

    path = Path(target)
    if not module and path.suffix == ".ipynb":
        raise InputError(f"{target} is a notebook; convert it with `jupyter nbconvert --to script {target}`")
    if not module and not path.exists():
        raise InputError(f"{target} does not exist; give the path of a Python script, or -m and a module name")
    if not module and path.is_dir() and not (path / "__main__.py").exists():
        raise InputError(f"{target} is a folder; give the path of a Python script")
    if module and (missing := missing_module_part(target)):
        raise InputError(f"there is no module named {missing}; give a module name as for python -m, or a script")
    if not any(importlib.util.find_spec(name) for name in FRAMEWORKS):
        raise EnvironmentMissing(
            f"this Python ({sys.executable}) has no TensorFlow; install Slowtrain in the environment of your script, "
            "or run `pip install 'slowtrain[tensorflow]'` here"
        )


def known_failure(target: str, module: bool) -> str | None:
    """A warning about code that is known to fail: ``fit`` of Keras 3 under a strategy with several workers."""
    path = Path(*target.split(".")).with_suffix(".py") if module else Path(target)
    name = b"MultiWorkerMirroredStrategy"
    try:
        data = path.read_bytes() if path.is_file() and path.stat().st_size <= MAX_SCRIPT_BYTES else b""
    except OSError:
        return None
    if name not in data:
        return None
    from slowtrain.machine.host.environment_variables import count_workers, keras_backend, keras_version
    from slowtrain.script.lint_rules import worker_strategies
    from slowtrain.script.text import source_file

    keras = keras_version(os.environ) or ""
    if not keras.partition(".")[0].isdecimal() or int(keras.partition(".")[0]) < FIRST_KERAS_WITHOUT_MULTI_WORKER:
        return None
    if keras_backend(os.environ) != "tensorflow" or count_workers(os.environ) == 1:
        return None
    read = source_file.parse_source(str(path), data.decode("utf-8", "replace"))
    try:
        call = next(worker_strategies.unsupported_strategies(read), None) if read is not None else None
    except (SyntaxError, RecursionError):  # the script reports its own error when it runs
        return None
    finally:
        source_file.clear_caches()
    return (
        f"{path}:{call.lineno}: {worker_strategies.STRATEGY_TEXT}; {worker_strategies.STRATEGY_ADVICE}"
        if call is not None
        else None
    )


def missing_module_part(module: str) -> str:
    """The part of a module name that ``python -m`` would not find from this folder. Empty if it may exist.

    Does not import the module. A package can change its ``__path__`` when it runs, so a package whose text mentions
    that is assumed to hold the module.
    """
    import importlib.util
    from importlib.machinery import PathFinder

    top, *parts = module.split(".")
    sys.path.insert(0, os.getcwd())
    try:
        importlib.invalidate_caches()
        spec, name = importlib.util.find_spec(top), top
        while spec is not None and (parts or spec.submodule_search_locations is not None):
            if spec.submodule_search_locations is None or _may_redirect_imports(spec.origin):
                return ""  # a module can still turn itself into a package when it runs
            part = parts.pop(0) if parts else "__main__"
            name = f"{name}.{part}"
            # Searched by its last part, because for a full name the finder needs the parent package imported.
            spec = PathFinder.find_spec(part, list(spec.submodule_search_locations))
    except (ImportError, LookupError, OSError, ValueError):
        return ""
    finally:
        sys.path.remove(os.getcwd())
    return name if spec is None else ""


def _may_redirect_imports(origin: str | None) -> bool:
    """Whether a package may search for its modules outside its folder, or cannot be read."""
    if origin is None:
        return False  # a namespace package has no code
    try:
        text = Path(origin).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return not origin.endswith(".py") or any(word in text for word in ("__path__", "meta_path", "sys.modules"))


# Raised by the checks if a fact has the wrong type.
DAMAGE_ERRORS = (AttributeError, KeyError, TypeError, ValueError, OverflowError, IndexError)


@contextlib.contextmanager
def reject_damaged(file: Path) -> Iterator[None]:
    """Put around the checks of the facts in ``file`` only. Raises ``InputError`` if the facts are damaged."""
    try:
        yield
    except DAMAGE_ERRORS as error:
        raise InputError(
            f"{file} is damaged ({type(error).__name__}: {error}); write it again with `slowtrain doctor --json`"
        ) from error


REPORT_NAME = "report.html"
ANSWER_NAME = "checkup.json"
MAX_PROFILED_HOSTS = 16  # hosts whose profiles are also read one by one; each takes as long as a profile of one host
STDOUT_NAME = "-"  # given as a file name


def print_recording_answer(folder: Path, *, html: Path | None, json: str | None) -> None:
    """Examines the recording, prints the text and writes the reports into the recording.

    ``html`` and ``json`` name additional files to write. Raises ``InputError`` if the recording cannot be read or a
    report cannot be written.
    """
    from slowtrain.recording import recording_folder

    recording_folder.require_recording(folder)  # before the slow imports
    from slowtrain.checkup import examine_recording

    print_answer(examine_recording(folder), html=html, json=json, into=folder)


def examine_profile(
    files: Sequence[Path],
    path: Path,
    notes: Sequence[str] = (),
    *,
    facts: Mapping[str, Any] | None = None,
    facts_file: Path | None = None,
) -> Checkup:
    """The checkup of a profile with one file per host. ``path`` is the argument of the user.

    ``facts`` describe the computer that made the profile; they were read from ``facts_file``.
    Raises ``InputError`` if a profile cannot be read or the facts are damaged.
    """
    from slowtrain import diagnose
    from slowtrain.checkup import build_checkup
    from slowtrain.checkup.external_facts import join_facts
    from slowtrain.profile import profile_files
    from slowtrain.trace.loading import profile_trace

    distinct, dropped = profile_files.distinct_files(files)
    copies = [f"{copy.name} is identical to {twin.name} and was read once" for copy, twin in dropped]
    trace = profile_trace.load_profile(distinct, notes=(*notes, *copies, *_host_notes(distinct)))
    if facts is not None and facts_file is not None:
        with reject_damaged(facts_file):
            trace = join_facts(trace, facts, str(facts_file))
    return build_checkup(trace, diagnose.diagnose_trace(trace), folder=path)


def _host_notes(files: Sequence[Path]) -> list[str]:
    """One note per host about its own profile, because the slowest host determines the step time."""
    if len(files) < 2:
        return []
    from slowtrain.checkup import headline
    from slowtrain.trace.loading import profile_trace

    notes = []
    for file in files[:MAX_PROFILED_HOSTS]:
        try:
            notes.append(f"{file.name} alone: {headline.describe_host_profile(profile_trace.load_profile([file]))}")
        except InputError as error:
            notes.append(f"{file.name} alone: cannot be read: {error}")
    more = len(files) - MAX_PROFILED_HOSTS
    return [*notes, f"{more} more hosts were not read one by one"] if more > 0 else notes


def print_answer(found: Checkup, *, html: Path | None, json: str | None, into: Path | None = None) -> None:
    """Prints the text, or only the JSON if ``json`` is standard output; then writes the requested files.

    ``into`` is the recording in which the page and the JSON are stored. Raises ``InputError`` if a requested file
    cannot be written.
    """
    try:
        _print_checkup(found, json)
    finally:  # the files are written even if the reader of standard output, such as `head`, has exited
        _write_reports(found, html, json, into)


def _print_checkup(found: Checkup, json: str | None) -> None:
    """Prints the answer before the page is made, because the page takes 10 % or more of the total time."""
    if json == STDOUT_NAME:
        from slowtrain.report import documents

        sys.stdout.write(documents.checkup_json(found))
    else:
        from slowtrain.report import text

        sys.stdout.write("\n")
        print_text(text.checkup_text, found)
    sys.stdout.flush()


def _write_reports(found: Checkup, html: Path | None, json: str | None, into: Path | None) -> None:
    from slowtrain.report import documents

    shown: Path | None = None
    whole = checkup_page(found) if html is not None or into is not None else ""
    if into is not None:
        with contextlib.suppress(InputError):  # the recording may be on a read-only disk
            write_file(into / REPORT_NAME, whole)
            write_file(into / ANSWER_NAME, documents.checkup_json(found))
            shown = into / REPORT_NAME
    try:
        if json is not None and json != STDOUT_NAME:
            write_file(Path(json), documents.checkup_json(found), folders=True)
        if html is not None:
            write_file(html, whole, folders=True)
            shown = html
    finally:  # if the requested page cannot be written, the page in the recording is still there
        if json != STDOUT_NAME and shown is not None:
            print(f"\nreport: {shown}")


def write_json(document: str, to: str) -> bool:
    """Writes the JSON to ``to``. Returns whether that is standard output, on which nothing else may be printed."""
    if to == STDOUT_NAME:
        sys.stdout.write(document)
        return True
    write_file(Path(to), document, folders=True)
    return False


def print_text(render: Callable[..., str], answer: Any) -> None:
    """Prints an answer as text with the width, colours and characters of standard output."""
    width = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80
    sys.stdout.write(
        render(answer, width=width, colour=supports_colour(sys.stdout), unicode=supports_unicode(sys.stdout))
    )


def checkup_page(found: Checkup) -> str:
    """The HTML page, which includes the page of each diagnosed cause."""
    from slowtrain.cause_folder import add_examples
    from slowtrain.causes import all_causes
    from slowtrain.report.pages import checkup_page

    diagnosed = {d.cause for d in found.diagnoses}
    causes = [c for c in all_causes() if c.id in diagnosed]
    return checkup_page(found, {c.id: add_examples(c.page, c.fixes) for c in causes})


def require_writable(html: Path | None, json: str | None) -> None:
    """Raises ``InputError`` if a requested report cannot be written. Called before the long work.

    Folders that do not exist yet are accepted and not created, because the script may create them.
    """
    for path in (html, None if json == STDOUT_NAME else json):
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


def write_file(path: Path, content: str | bytes, *, folders: bool = False) -> None:
    """Writes a file completely or not at all. With ``folders``, missing folders are created. Raises ``InputError``."""
    data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    place = Path(os.path.realpath(path))  # a link stays a link
    part = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        if place.exists() and not place.is_file() and not place.is_dir():
            place.write_bytes(data)  # a device or a pipe is written to: as root, a rename would replace /dev/null
            return
        if folders:
            place.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(place)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise InputError(f"cannot write {path} ({error.strerror}); choose another place") from error


def supports_colour(stream: object) -> bool:
    """Whether to print colours: on a terminal, unless it is dumb or NO_COLOR is set (https://no-color.org)."""
    isatty = getattr(stream, "isatty", None)
    return bool(isatty and isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def supports_unicode(stream: object) -> bool:
    return str(getattr(stream, "encoding", "") or "").lower().replace("-", "") in ("utf8", "utf16")


class RunProgress:
    """Prints a line on stderr every ten seconds while the script runs, if stderr is a terminal."""

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
            print_message(message)
