"""The causes seen in source text: files found, read, shown to the causes, fixed; on all cores where that is worth it.

settings    what is looked for: pyproject.toml and the command line
files       which files there are
catalogue   which causes a file could have, before it is parsed
documents, notebooks    a file as text and tree, and the way back
looking     one file's findings
fixing      one file's edits
baseline, joining       findings that are known, and what a recording says of them
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

if TYPE_CHECKING:  # loaded where there are many files
    from multiprocessing.context import BaseContext

FEW_FILES = 64  # fewer are done before other processes have started
CHUNK = 16

Answer = tuple[Looked, RewrittenFile | None]


def lint(
    paths: Sequence[str], chosen: Settings, *, fixes: frozenset[Effect] = frozenset(), processes: int | None = None
) -> LintAnswer:
    """What is found below ``paths``, in the order of files and lines.

    With ``fixes``, edits of these effects are made in what is handed back as ``rewritten``; nothing is written.
    Raises ``InputError`` for a path that is not there.
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
    """Answers in the order of the files. A file on which Python itself dies is told, and the rest goes on."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    kind = "fork" if sys.platform == "linux" else "spawn"
    context = multiprocessing.get_context(kind)
    catalogue.causes()  # once, before the processes part
    chunks = [found[at : at + CHUNK] for at in range(0, len(found), CHUNK)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside NumPy's idle threads
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
        return Looked(errors=(FileError(file, "Python itself ends when it parses this file"),)), None
