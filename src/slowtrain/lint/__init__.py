"""Finds causes of slow steps in source files and applies their edits. Many files are split over all cores.

settings    which causes and files are selected: ``pyproject.toml`` and the command line
files       the search for files
catalogue   which causes a file can have, decided before it is parsed
documents, notebooks    a file as text and syntax tree, and edits written back into its bytes
looking     the findings of one file
fixing      the edits of one file
ignoring    ``# slowtrain: ignore`` comments
baseline    findings that were accepted before
joining     what a recording says about each finding
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from slowtrain.lint import catalogue, files, fixing, looking
from slowtrain.lint.looking import Looked
from slowtrain.lint.settings import Settings
from slowtrain.model import Effect
from slowtrain.model.answers.linted_files import FileError, LintAnswer, RewrittenFile

if TYPE_CHECKING:  # imported only if there are many files
    from multiprocessing.context import BaseContext

FEW_FILES = 64  # fewer files take less time than starting the processes
CHUNK = 16

Answer = tuple[Looked, RewrittenFile | None]


def lint(
    paths: Sequence[str], chosen: Settings, *, fixes: frozenset[Effect] = frozenset(), processes: int | None = None
) -> LintAnswer:
    """Lints all files in ``paths``; returns findings in the order of files and lines.

    If ``fixes`` is not empty, the edits with these effects are applied, and ``rewritten`` holds the new contents.
    Writes no file. ``processes`` defaults to the number of usable cores.
    Raises ``InputError`` if a path does not exist.
    """
    found, errors = files.find(paths, chosen)
    one = functools.partial(_one, chosen=chosen, effects=fixes, named=frozenset(paths))
    cores = processes if processes is not None else _cores()
    parallel = cores > 1 and len(found) >= FEW_FILES
    answers = list(_in_processes(one, found, cores)) if parallel else _several(one, found)
    return LintAnswer(
        files=len(found),
        parsed=sum(looked.parsed for looked, _ in answers),
        findings=tuple(f for looked, _ in answers for f in looked.findings),
        errors=(*errors, *(e for looked, _ in answers for e in looked.errors)),
        rewritten=tuple(r for _, r in answers if r is not None),
    )


def _one(file: str, chosen: Settings, effects: frozenset[Effect], named: frozenset[str]) -> Answer:
    return fixing.fix(file, chosen, effects) if effects else (looking.look(file, chosen, whole=file in named), None)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_processes(one: Callable[[str], Answer], found: Sequence[str], cores: int) -> Iterable[Answer]:
    """Answers in the order of the files. A file that crashes Python becomes an error, the others are still checked."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    kind = "fork" if sys.platform == "linux" else "spawn"
    context = multiprocessing.get_context(kind)
    catalogue.causes()  # imported before the fork, so that each process does not import them again
    chunks = [found[at : at + CHUNK] for at in range(0, len(found), CHUNK)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # raised because NumPy's idle threads exist when we fork
        with ProcessPoolExecutor(min(cores, len(chunks)), mp_context=context) as pool:
            asked = [pool.submit(_several, one, chunk) for chunk in chunks]
            for chunk, future in zip(chunks, asked, strict=True):
                try:
                    yield from future.result()
                except BrokenProcessPool:
                    yield from (_alone(one, file, context) for file in chunk)


def _several(one: Callable[[str], Answer], chunk: Sequence[str]) -> list[Answer]:
    with catalogue.seldom_collected():
        return [one(file) for file in chunk]


def _alone(one: Callable[[str], Answer], file: str, context: BaseContext) -> Answer:
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    try:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            return pool.submit(one, file).result()
    except BrokenProcessPool:
        return Looked(errors=(FileError(file, "Python crashes when it parses this file"),)), None
