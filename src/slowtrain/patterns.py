"""Regular expressions that are compiled when they are first used: most answers use a few of those that name things."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any


class _Pattern:
    """A compiled one's methods and attributes, each looked up once."""

    def __init__(self, pattern: Any, flags: int = 0) -> None:
        self._given = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(re.compile(*self._given), name)  # which keeps what it has compiled
        setattr(self, name, found)
        return found


if TYPE_CHECKING:  # the checkers know that one
    late = re.compile
else:
    late = _Pattern
