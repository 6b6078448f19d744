"""Lazy imports of the modules that read and edit source, because most answers use few of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

# The causes import modules of these packages, and no module there has effects when it is imported.
LAZY_PACKAGES = ("slowtrain.script.", "slowtrain.lint.", "slowtrain.oom.")


def install_lazy_imports() -> None:
    """Makes later imports from these packages lazy. Modules that are already imported are not affected."""
    sys.meta_path.insert(0, _LazyFinder())


class _LazyFinder:
    """Uses the standard library's lazy loader. Packages are run at once, because importing a submodule needs them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname.startswith(LAZY_PACKAGES) else None
        if spec is not None and spec.loader is not None and spec.submodule_search_locations is None:
            spec.loader = LazyLoader(spec.loader)
        return spec
