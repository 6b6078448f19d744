"""Modules that read and edit source are run when something of them is first asked for, and most answers ask for few."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

# Each cause names what finds and cures it in a text; nothing there counts on having been imported.
PARTS = ("slowtrain.script.text.source_file.", "slowtrain.lint.", "slowtrain.oom.")


def begin() -> None:
    """From now on, in this process. What is imported already stays as it is."""
    sys.meta_path.insert(0, _Later())


class _Later:
    """The standard library's lazy modules; their folders are run at once, for the import of a module asks them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname.startswith(PARTS) else None
        if spec is not None and spec.loader is not None and spec.submodule_search_locations is None:
            spec.loader = LazyLoader(spec.loader)
        return spec
