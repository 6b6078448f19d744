"""Lints many files, split over all cores."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from slowtrain.lint import cause_selection, file_check, file_fixes
from slowtrain.lint.file_check import FileResult
from slowtrain.lint.lint_settings import LintSettings
from slowtrain.model import Effect
from slowtrain.model.inspections import FileError, LintAnswer, RewrittenFile

if TYPE_CHECKING:  # imported only if there are many files
    from multiprocessing.context import BaseContext

MIN_PARALLEL_FILES = 64  # fewer files take less time than starting the processes
CHUNK_FILES = 16

FileAnswer = tuple[FileResult, RewrittenFile | None]


def lint_files(
    files: Sequence[str],
    chosen: LintSettings,
    *,
    named: frozenset[str],
    fixes: frozenset[Effect] = frozenset(),
    processes: int | None = None,
) -> LintAnswer:
    """Lints ``files``; returns findings in the order of files and lines. The user gave those ``named`` themselves.

    If ``fixes`` is not empty, the edits with these effects are applied, and ``rewritten`` holds the new contents.
    Writes no file. ``processes`` defaults to the number of usable cores.
    """
    one = functools.partial(_lint_file, chosen=chosen, effects=fixes, named=named)
    cores = processes if processes is not None else _usable_cores()
    parallel = cores > 1 and len(files) >= MIN_PARALLEL_FILES
    answers = list(_lint_in_processes(one, files, cores)) if parallel else _lint_chunk(one, files)
    return LintAnswer(
        files=len(files),
        parsed=sum(looked.parsed for looked, _ in answers),
        findings=tuple(f for looked, _ in answers for f in looked.findings),
        errors=tuple(e for looked, _ in answers for e in looked.errors),
        rewritten=tuple(r for _, r in answers if r is not None),
        minor_count=sum(looked.minor_count for looked, _ in answers),
    )


def _lint_file(file: str, chosen: LintSettings, effects: frozenset[Effect], named: frozenset[str]) -> FileAnswer:
    return (
        file_fixes.fix_file(file, chosen, effects)
        if effects
        else (file_check.check_file(file, chosen, whole=file in named), None)
    )


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _lint_in_processes(one: Callable[[str], FileAnswer], found: Sequence[str], cores: int) -> Iterable[FileAnswer]:
    """Answers in the order of the files. A file that crashes Python becomes an error, the others are still checked."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    kind = "fork" if sys.platform == "linux" else "spawn"
    context = multiprocessing.get_context(kind)
    cause_selection.lintable_causes()  # imported before the fork, so that each process does not import them again
    chunks = [found[at : at + CHUNK_FILES] for at in range(0, len(found), CHUNK_FILES)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # raised because NumPy's idle threads exist when we fork
        with ProcessPoolExecutor(min(cores, len(chunks)), mp_context=context) as pool:
            asked = [pool.submit(_lint_chunk, one, chunk) for chunk in chunks]
            for chunk, future in zip(chunks, asked, strict=True):
                try:
                    yield from future.result()
                except BrokenProcessPool:
                    yield from (_lint_in_own_process(one, file, context) for file in chunk)


def _lint_chunk(one: Callable[[str], FileAnswer], chunk: Sequence[str]) -> list[FileAnswer]:
    with cause_selection.rare_garbage_collection():
        return [one(file) for file in chunk]


def _lint_in_own_process(one: Callable[[str], FileAnswer], file: str, context: BaseContext) -> FileAnswer:
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    try:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            return pool.submit(one, file).result()
    except BrokenProcessPool:
        return FileResult(errors=(FileError(file, "Python crashes when it parses this file"),)), None
