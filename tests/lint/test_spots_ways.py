"""One mistake in many ways to write a program, and what only looks like it: ``ways/*.txt``.

A line ``#= cause | what it is like`` begins each; ``#= !cause`` what is no such mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import spotted

WAYS = Path(__file__).parent / "ways"


def _every() -> Iterator[tuple[str, str, str]]:
    for path in sorted(WAYS.glob("*.txt")):
        for one in re.split(r"^#= ", path.read_text(), flags=re.MULTILINE)[1:]:
            head, _, body = one.partition("\n")
            cause, _, like = head.partition(" | ")
            yield cause, like, body


@pytest.mark.parametrize(("cause", "like", "body"), list(_every()), ids=lambda v: v[:60] if "\n" not in v else "")
def test_it_is_found_however_it_is_written(cause: str, like: str, body: str) -> None:
    found = spotted.seen(spotted.HEAD + body, [cause.removeprefix("!")])
    assert bool(found) != cause.startswith("!"), like
