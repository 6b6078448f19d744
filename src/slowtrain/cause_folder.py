"""The files of a cause's folder without its code: the page, drawn traces, examples. Nothing is imported for it.

    causes/FAMILY/CAUSE/
      __init__.py     the class; lint.py and fix.py where it has a source side
      page.md         what users read
      traces.txt      drawn traces in which the cause is found, or not
      examples/       NAME.before.py and NAME.after.py

Other packages bring causes through the entry point group ``slowtrain.causes``. Each entry point names a package with
the same layout (``acme_causes``, with ``acme_causes/host/slow_logger/``).
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

OWN_PACKAGE = "slowtrain.causes"
ENTRY_POINT_GROUP = "slowtrain.causes"
PAGE, TRACES, EXAMPLES = "page.md", "traces.txt", "examples"
BEFORE, AFTER = ".before.py", ".after.py"


@functools.cache
def cause_packages() -> tuple[str, ...]:
    """Names of the packages that hold causes: our own, then those of other distributions by name."""
    if not _is_group_installed():
        return (OWN_PACKAGE,)
    from importlib.metadata import entry_points

    return (OWN_PACKAGE, *sorted({point.value for point in entry_points(group=ENTRY_POINT_GROUP)}))


def _is_group_installed() -> bool:
    """Whether a distribution on the path has our entry points: 2 ms, importing ``importlib.metadata`` takes 35."""
    header = f"[{ENTRY_POINT_GROUP}]".encode()
    return any(
        header in file.read_bytes()
        for folder in map(Path, sys.path)
        for file in folder.glob("*.*-info/entry_points.txt")
    )


def cause_files() -> dict[str, Path]:
    """Id -> the file with the cause's class. Where two packages hold one id, the first one counts."""
    found: dict[str, Path] = {}
    for package in cause_packages():
        for folder in _package_folders(package):
            for file in folder.glob("*/*/__init__.py"):
                found.setdefault(cause_id(file), file)
    return dict(sorted(found.items()))


def cause_id(file: Path) -> str:
    """The id of the cause whose class is in ``file``: family, and name of its folder."""
    at = file.parent
    return f"{at.parent.name}/{at.name.replace('_', '-')}"


def _package_folders(package: str) -> Iterator[Path]:
    """The folders of a package; none where it is not installed or cannot be found."""
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        yield Path(folder)


def read_page(folder: Path) -> str:
    """The page of the cause in ``folder``. Raises ``OSError`` if there is none."""
    return (folder / PAGE).read_text(encoding="utf-8").strip()


def read_traces(folder: Path, kind: str) -> tuple[str, ...]:
    """The drawn traces of ``kind`` (``fires`` or ``quiet``), in their order. Raises ``OSError`` or ``ValueError``."""
    text = (folder / TRACES).read_text(encoding="utf-8")
    return tuple(trace for header, trace in _split_traces(text) if header == kind)


def _split_traces(text: str) -> Iterator[tuple[str, str]]:
    """Header and trace. A header is a line without indentation; text behind its colon says what the trace shows."""
    header, rows = "", list[str]()
    for number, row in enumerate([*text.splitlines(), "end"], 1):
        if not row.strip() or row.startswith((" ", "\t")):
            rows.append(row)
            continue
        if row.startswith("#"):
            continue
        if header:
            yield header, textwrap.dedent("\n".join(rows)).strip("\n")
        header, rows = row.partition(":")[0].strip(), []
        if header not in ("fires", "quiet", "end"):
            raise ValueError(f"{TRACES}, line {number}: a trace begins with 'fires' or 'quiet', not {header!r}")


def read_examples(folder: Path) -> tuple[tuple[str, str], ...]:
    """Scripts with the cause, each with the same script without it, by name. Raises ``OSError``."""
    return tuple(
        (before.read_text(encoding="utf-8"), _after(before).read_text(encoding="utf-8"))
        for before in sorted((folder / EXAMPLES).glob(f"*{BEFORE}"))
    )


def _after(before: Path) -> Path:
    return before.with_name(before.name.removesuffix(BEFORE) + AFTER)


def add_examples(doc: str, fixes: Sequence[tuple[str, str]]) -> str:
    """The page with the cause's examples: the code in which ``slowtrain lint`` finds it, and the fixed code."""
    shown = ""
    for slow, cured in fixes:
        shown += f"\n\n## Example\n```python\n{inspect.cleandoc(slow)}\n```\n\n"
        shown += f"`slowtrain lint` finds it there, and not in\n\n```python\n{inspect.cleandoc(cured)}\n```"
    return doc + shown
