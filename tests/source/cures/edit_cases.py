"""Scripts before and after an edit, as one text with marked lines, and what an edit makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slowtrain.model import Edit
from slowtrain.script.text import edits, source_file

EditCase = tuple[str, str | None]
MakeEdits = Callable[[source_file.Source, int], Sequence[Edit]]


def edit_cases(text: str, head: str = "") -> dict[str, EditCase]:
    """Name -> the script before and after, from a full diff per case below a line ``== name``.

    After is None where no line is marked: nothing may be edited. The line that a run named has the comment HERE.
    ``head`` begins each script.
    """
    cases: dict[str, EditCase] = {}
    for case in text.split("\n== ")[1:]:
        name, *rows = case.rstrip("\n").split("\n")
        before = "".join(f"{row[1:]}\n" for row in rows if not row.startswith("+"))
        after = "".join(f"{row[1:]}\n" for row in rows if not row.startswith("-"))
        assert name not in cases
        cases[name] = head + before, head + after if after != before else None
    return cases


def assert_edit(case: EditCase, make_edits: MakeEdits) -> None:
    """The edits make the script after, or there are none; Windows line ends stay."""
    for end in ("\n", "\r\n"):
        before, after = (None if one is None else one.replace("\n", end) for one in case)
        assert before is not None
        text = source_file.parse_source("train.py", before)
        assert text is not None
        line = next((i for i, row in enumerate(before.splitlines(), 1) if "HERE" in row), 0)
        made = make_edits(text, line)
        assert (edits.edited_text(text, made) if made else None) == after
