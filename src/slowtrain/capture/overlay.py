"""Runs a script whose files are other texts than those on the disk: a candidate, before anybody's source is changed.

``__file__``, ``sys.argv``, ``sys.path``, line numbers and the working folder are what they would be after the edit.
"""

from __future__ import annotations

import linecache
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType


def install(texts: Mapping[str, str]) -> None:
    """From now on modules of the files in ``texts`` (absolute paths) are imported from their texts."""
    for file, text in texts.items():
        # An entry without a time is never checked against the disk; AutoGraph and tracebacks read functions from here.
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    sys.meta_path.insert(0, _Finder(texts))


def run(target: str, arguments: Sequence[str], as_module: bool, texts: Mapping[str, str]) -> None:
    """Runs a script, or with ``as_module`` a module, as the interpreter would run it as its main program."""
    sys.argv[:] = [target, *arguments]
    if as_module:
        sys.path[0] = os.getcwd()
        runpy._run_module_as_main(target)  # type: ignore[attr-defined]
        return
    file = os.path.abspath(target)
    if os.path.isdir(file):
        runpy.run_path(file, run_name="__main__")
        return
    sys.path[0] = os.path.dirname(os.path.realpath(file))
    text = texts.get(file)
    if text is None:
        with open(file, "rb") as opened:
            code = compile(opened.read(), target, "exec", dont_inherit=True)
    else:
        linecache.cache[target] = linecache.cache[file]
        code = compile(text, target, "exec", dont_inherit=True)
    main = ModuleType("__main__")
    main.__dict__.update(
        __file__=target, __builtins__=__builtins__, __loader__=SourceFileLoader("__main__", target), __spec__=None
    )
    sys.modules["__main__"] = main
    exec(code, main.__dict__)  # noqa: S102  the user's own script, as the interpreter would


class _Finder(MetaPathFinder):
    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self.names = {os.path.basename(f)[:-3] for f in texts} | {
            os.path.basename(os.path.dirname(f)) for f in texts if f.endswith("__init__.py")
        }

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.rpartition(".")[2] not in self.names:
            return None
        spec = PathFinder.find_spec(name, path, target)
        text = self.texts.get(os.path.abspath(spec.origin)) if spec is not None and spec.origin else None
        if spec is None or text is None:
            return None
        spec.loader = _Loader(name, str(spec.origin), text)
        return spec


class _Loader(SourceFileLoader):
    """Never reads or writes bytecode: it would be that of the file as it lies on the disk."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self.text, self.path, "exec", dont_inherit=True)
        return code

    def get_source(self, fullname: str) -> str:
        return self.text
