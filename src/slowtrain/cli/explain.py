"""``slowtrain explain``: the page of a cause, or the list of all.

Pages are read from the causes' folders and not by importing them: importing the catalogue brings NumPy and every
detector with it, which takes longer than a reader of one page should wait. ``tests/cli/test_explain.py`` holds that
the two agree.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slowtrain.cause_folder import cause_files, cause_id, read_examples, read_page
from slowtrain.errors import InputError
from slowtrain.values import dataclass

if TYPE_CHECKING:
    import ast

HELP = "explain a cause: what it is, how it is recognised, what to do"
EXAMPLES = """
slowtrain explain                          list all causes
slowtrain explain input/sequential-map     one cause's page
slowtrain explain sequential-map           the family may be left out
"""


@dataclass(frozen=True)
class Page:
    """A cause for readers; ``doc`` is its page with its examples."""

    id: str
    title: str
    doc: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's options."""
    parser.add_argument("cause", nargs="?", metavar="CAUSE", help="a cause's id, with or without its family")


def main(args: argparse.Namespace) -> int:
    """Prints the page that ``args.cause`` names, or the list."""
    files = cause_files()
    if args.cause is None:
        print(contents([page for file in files.values() if (page := read(file)) is not None]))
        return 0
    name = find(args.cause, list(files))
    page = read(files[name])
    if page is None:
        raise InputError(f"{name} has no page: its file {files[name]} declares no cause; reinstall slowtrain")
    print(f"{page.id}: {page.title}\n\n{page.doc}")
    return 0


def read(file: Path) -> Page | None:
    """The page of the cause whose class is in ``file``, or None where no class there has a title."""
    import ast

    for node in ast.parse(file.read_bytes()).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for line in node.body:
            if isinstance(line, (ast.Assign, ast.AnnAssign)) and isinstance(line.value, ast.Constant):
                target = line.targets[0] if isinstance(line, ast.Assign) else line.target
                if isinstance(target, ast.Name) and target.id == "title":
                    return Page(cause_id(file), str(line.value.value), _doc(file, node))
    return None


def _doc(file: Path, cause: ast.ClassDef) -> str:
    import ast

    if file.name == "__init__.py":
        return with_examples(read_page(file.parent), read_examples(file.parent))
    return with_examples(ast.get_docstring(cause) or "", _fixes(cause))  # single file


def with_examples(doc: str, fixes: Sequence[tuple[str, str]]) -> str:
    """The page with the cause's own examples: what ``slowtrain lint`` finds, and what is in its place afterwards."""
    import inspect

    shown = ""
    for slow, cured in fixes:
        shown += f"\n\n## Example\n```python\n{inspect.cleandoc(slow)}\n```\n\n"
        shown += f"`slowtrain lint` finds it there, and not in\n\n```python\n{inspect.cleandoc(cured)}\n```"
    return doc + shown


def _fixes(cause: ast.ClassDef) -> Sequence[tuple[str, str]]:
    import ast

    for line in cause.body:
        if isinstance(line, ast.Assign) and [getattr(t, "id", None) for t in line.targets] == ["fixes"]:
            fixes: tuple[tuple[str, str], ...] = ast.literal_eval(line.value)
            return fixes
    return ()


def contents(pages: Sequence[Page]) -> str:
    """All causes with their titles, by family."""
    width = max((len(page.id) for page in pages), default=0)
    lines: list[str] = []
    family = ""
    for page in pages:
        if family and family != page.id.split("/")[0]:
            lines.append("")
        family = page.id.split("/")[0]
        lines.append(f"{page.id:<{width}}  {page.title}")
    return "\n".join([*lines, "", "slowtrain explain CAUSE prints a cause's page."])


def find(said: str, ids: Sequence[str]) -> str:
    """The id that ``said`` names. Raises ``InputError`` with the closest ones where there is none."""
    wanted = said.strip().lower().replace("_", "-").strip("/")
    exact = [full for full in ids if wanted in (full, full.split("/")[-1])]
    if len(exact) == 1:
        return exact[0]
    near = exact or _closest(wanted, ids)
    what = "could be more than one cause" if exact else "is no cause"
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise InputError(f"{said!r} {what}; {hint}'slowtrain explain' lists them all")


def _closest(wanted: str, ids: Sequence[str]) -> list[str]:
    import difflib

    by_name = {name: full for full in ids for name in (full, full.split("/")[-1])}
    near = [by_name[name] for name in difflib.get_close_matches(wanted, by_name, n=3, cutoff=0.6)]
    inside = [full for full in ids if wanted and wanted in full]  # a family, or one word of a name
    return list(dict.fromkeys([*near, *inside]))[:3]
