"""Regular expressions that are compiled at their first use, because most commands use only a few of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any


class _Pattern:
    """Behaves like a compiled pattern; each attribute is looked up once."""

    def __init__(self, pattern: Any, flags: int = 0) -> None:
        self._given = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(re.compile(*self._given), name)  # re caches compiled patterns
        setattr(self, name, found)
        return found


if TYPE_CHECKING:  # type checkers know re.compile
    late = re.compile
else:
    late = _Pattern
