"""Runs a script whose files have other texts than on the disk: a candidate, before the user's source is changed.

``__file__``, ``sys.argv``, ``sys.path``, line numbers and the working folder are as they would be after the edit.
"""

from __future__ import annotations

import io
import linecache
import os
import runpy
import sys
import zipfile
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType, ModuleType
from typing import Any


def install_overlay(texts: Mapping[str, str]) -> None:
    """Imports modules of the files in ``texts`` (absolute paths) from these texts from now on."""
    if not texts:
        return
    sys.meta_path.insert(0, _OverlayFinder(texts))
    _patch_runpy(texts)
    original = linecache.updatecache

    def updatecache(filename: str, module_globals: Any = None) -> list[str]:
        text = texts.get(os.path.abspath(filename)) if filename else None
        return original(filename, module_globals) if text is None else _cache_source(filename, text)

    linecache.updatecache = updatecache  # AutoGraph reads functions again
    for file, text in texts.items():
        _cache_source(file, text)


def _cache_source(file: str, text: str) -> list[str]:
    """Registers the text of ``file`` for tracebacks, ``inspect`` and AutoGraph."""
    # Lines as the compiler counts them: str.splitlines() would also split at form feeds.
    lines = io.StringIO(text, newline=None).readlines()
    linecache.cache[file] = (len(text), None, lines, file)  # an entry without a time is never checked against the disk
    return lines


def run_as_main(target: str, arguments: Sequence[str], as_module: bool, texts: Mapping[str, str]) -> None:
    """Runs a script, or with ``as_module`` a module, as the interpreter would run it as its main program."""
    sys.argv[:] = [target, *arguments]
    sys.orig_argv[:] = [sys.executable, *(["-m"] if as_module else []), target, *arguments]
    mine = sys.modules["__main__"].__dict__
    for name in [name for name in mine if not name.startswith("__")]:
        del mine[name]  # left by our own command line
    if as_module:
        sys.path[0] = os.getcwd()
        runpy._run_module_as_main(target)  # type: ignore[attr-defined]
        return
    file = os.path.abspath(target)
    if os.path.isdir(file) or zipfile.is_zipfile(file):
        sys.path[0] = file
        runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]
        return
    sys.path[0] = os.path.dirname(os.path.realpath(file))
    text: str | bytes | None = texts.get(file)
    if text is None:
        with open(file, "rb") as opened:
            text = opened.read()
    code = compile(text, file, "exec", dont_inherit=True)
    main = ModuleType("__main__")
    main.__dict__.update(
        __file__=file,
        __cached__=None,
        __builtins__=sys.modules["builtins"],
        __loader__=SourceFileLoader("__main__", file),
    )
    sys.modules["__main__"] = main
    exec(code, main.__dict__)  # noqa: S102  the user's own script, as the interpreter would


def _patch_runpy(texts: Mapping[str, str]) -> None:
    """Patches ``runpy``, which runs the main program again in each new process that ``multiprocessing`` starts."""
    original = runpy._get_code_from_file  # type: ignore[attr-defined]

    def code_from_file(*arguments: Any) -> Any:
        text = texts.get(os.path.abspath(arguments[-1]))
        if text is None:
            return original(*arguments)
        code = compile(text, arguments[-1], "exec", dont_inherit=True)
        return (code, arguments[-1]) if len(arguments) > 1 else code  # one argument, one result: Python 3.12 and newer

    runpy._get_code_from_file = code_from_file  # type: ignore[attr-defined]


class _OverlayFinder(MetaPathFinder):
    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self.new = {file for file in texts if not os.path.exists(file)}
        self.names = {os.path.basename(f)[:-3] for f in texts} | {
            os.path.basename(os.path.dirname(f)) for f in texts if f.endswith("__init__.py")
        }

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        last = name.rpartition(".")[2]
        if last not in self.names:
            return None
        spec = self._new(name, last, sys.path if path is None else path) or self._find_original(name, path, target)
        text = self.texts.get(os.path.abspath(spec.origin)) if spec is not None and spec.origin else None
        if spec is None or text is None:
            return None
        spec.loader = _OverlayLoader(name, str(spec.origin), text)
        return spec

    def _find_original(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        """Returns where the module would come from without us. Editable installs have finders of their own."""
        for finder in sys.meta_path:
            if finder is not self and not type(finder).__module__.startswith("wrapt"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None

    def _new(self, name: str, last: str, folders: Sequence[str]) -> ModuleSpec | None:
        """Returns the spec of a file that the candidate adds. No other finder would find it."""
        for file in (os.path.join(os.path.abspath(one), last) for one in folders if self.new):
            for origin in (os.path.join(file, "__init__.py"), f"{file}.py"):
                if origin in self.new:
                    return spec_from_file_location(name, origin)
        return None


class _OverlayLoader(SourceFileLoader):
    """Never reads or writes bytecode, because that would belong to the file on the disk."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self.text, self.path, "exec", dont_inherit=True)
        return code

    def get_source(self, fullname: str) -> str:
        return self.text
