"""``slowtrain explain``: the page of a cause, or the list of all causes.

Pages are read from the folders of the causes without importing them, because importing all
causes also imports NumPy and every detector, which is slow. ``tests/cli/test_explain.py`` checks
that both ways give the same page.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slowtrain.cause_folder import add_examples, cause_files, cause_id, read_examples, read_page
from slowtrain.errors import InputError

HELP = "explain a cause: what it is, how it is detected, what to do"
EXAMPLES = """
slowtrain explain                          list all causes
slowtrain explain input/sequential-map     print the page of a cause
slowtrain explain sequential-map           the family is optional
"""


@dataclass(frozen=True)
class CausePage:
    """The page of a cause: id, title, and its text with the examples."""

    id: str
    title: str
    doc: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's options."""
    parser.add_argument("cause", nargs="?", metavar="CAUSE", help="id of a cause, with or without its family")


def main(args: argparse.Namespace) -> int:
    """Prints the page of ``args.cause``, or the list of all causes."""
    files = cause_files()
    if args.cause is None:
        print(format_cause_list([page for file in files.values() if (page := read_cause_page(file)) is not None]))
        return 0
    name = find_cause(args.cause, list(files))
    page = read_cause_page(files[name])
    if page is None:
        raise InputError(f"{name} has no page: {files[name]} defines no cause; reinstall slowtrain")
    print(f"{page.id}: {page.title}\n\n{page.doc}")
    return 0


def read_cause_page(file: Path) -> CausePage | None:
    """The page of the cause whose class is in ``file``. None if no class in it has a title."""
    import ast

    for node in ast.parse(file.read_bytes()).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for line in node.body:
            if isinstance(line, (ast.Assign, ast.AnnAssign)) and isinstance(line.value, ast.Constant):
                target = line.targets[0] if isinstance(line, ast.Assign) else line.target
                if isinstance(target, ast.Name) and target.id == "title":
                    doc = add_examples(read_page(file.parent), read_examples(file.parent))
                    return CausePage(cause_id(file), str(line.value.value), doc)
    return None


def format_cause_list(pages: Sequence[CausePage]) -> str:
    """The list of all causes with their titles, grouped by family."""
    width = max((len(page.id) for page in pages), default=0)
    lines: list[str] = []
    family = ""
    for page in pages:
        if family and family != page.id.split("/")[0]:
            lines.append("")
        family = page.id.split("/")[0]
        lines.append(f"{page.id:<{width}}  {page.title}")
    return "\n".join([*lines, "", "slowtrain explain CAUSE prints the page of a cause."])


def find_cause(text: str, ids: Sequence[str]) -> str:
    """The id that ``text`` names. Raises ``InputError``, which lists similar ids, if there is none."""
    wanted = text.strip().lower().replace("_", "-").strip("/")
    exact = [full for full in ids if wanted in (full, full.split("/")[-1])]
    if len(exact) == 1:
        return exact[0]
    near = exact or _closest_ids(wanted, ids)
    what = "matches several causes" if exact else "is not a cause"
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise InputError(f"{text!r} {what}; {hint}'slowtrain explain' lists them all")


def _closest_ids(wanted: str, ids: Sequence[str]) -> list[str]:
    import difflib

    by_name = {name: full for full in ids for name in (full, full.split("/")[-1])}
    near = [by_name[name] for name in difflib.get_close_matches(wanted, by_name, n=3, cutoff=0.6)]
    inside = [full for full in ids if wanted and wanted in full]  # a family, or one word of a name
    return list(dict.fromkeys([*near, *inside]))[:3]
