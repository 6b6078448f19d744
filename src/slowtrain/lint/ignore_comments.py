"""Comments such as ``# slowtrain: ignore[input/sequential-map]``: they hide findings; unused ones are reported."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from slowtrain.lint.inputs import lint_settings
from slowtrain.model import Edit, Effect, Prescription, Spot

IGNORE_COMMENT = re.compile(r"#\s*slowtrain:\s*ignore\b(?:\s*\[([^\]]*)\])?")
IGNORE_MARK = b"slowtrain:"


@dataclass
class IgnoreComment:
    """One comment. ``ids`` maps each name in it to the cause ids it means; if empty, it covers all causes.

    ``start`` and ``end`` are columns in characters; ``row`` is the text of its line.
    """

    line: int
    start: int
    end: int
    ids: dict[str, frozenset[str]]
    row: str
    used: set[str] = field(default_factory=set)

    def covers_finding(self, cause: str, first: int, last: int) -> bool:
        """Whether a finding on these lines is ignored. Records that the comment was used."""
        if not first <= self.line <= last:
            return False
        named = [name for name, ids in self.ids.items() if cause in ids]
        if self.ids and not named:
            return False
        self.used |= set(named) or {""}
        return True


def read_comments(text: str) -> list[IgnoreComment]:
    """The ignore comments of a text, not those inside strings."""
    if "slowtrain:" not in text:
        return []
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            match = IGNORE_COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
            if match:
                names = [n.strip() for n in (match[1] or "").split(",") if n.strip()]
                column = token.start[1]
                ids = {n: lint_settings.matching_ids(n) for n in names}
                found.append(
                    IgnoreComment(token.start[0], column + match.start(), column + match.end(), ids, token.line)
                )
    except (tokenize.TokenError, SyntaxError):
        pass  # ``tokenize`` rejects a few files that ``ast`` parses
    return found


def unused_comments(
    file: str, ignores: Iterable[IgnoreComment], looked_for: Collection[str], all_ids: int
) -> Iterable[Spot]:
    """Comments, or ids in them, that hide no finding. Ids of causes that were not selected are left alone."""
    for one in ignores:
        if not one.ids:
            if not one.used and len(looked_for) >= all_ids:
                yield _unused_spot(file, one, "this comment ignores nothing, because nothing is found on this line", [])
            continue
        idle = [n for n, ids in one.ids.items() if n not in one.used and (not ids or ids & set(looked_for))]
        if not idle:
            continue
        strange = [n for n in idle if not one.ids[n]]
        says = f"no cause is named {strange[0]}" if strange else f"{', '.join(idle)} is not found on this line"
        yield _unused_spot(file, one, f"{says}, so there is nothing to ignore", [n for n in one.ids if n not in idle])


def _unused_spot(file: str, one: IgnoreComment, says: str, kept: list[str]) -> Spot:
    start, end = one.start, one.end
    text = f"# slowtrain: ignore[{', '.join(kept)}]" if kept else ""
    if not kept:  # the spaces before the comment are removed with it
        start = len(one.row[:start].rstrip()) if one.row[:start].strip() else start
    begun, ended = (len(one.row[:n].encode()) for n in (start, end))
    edit = Edit(file, (one.line, begun), (one.line, ended), text)
    shown = len(one.row[: one.start].encode())
    cure = Prescription("edit", Effect.EXACT, "remove it", edits=(edit,))
    return Spot((one.line, shown), (one.line, ended), says, cure)
