"""Nouns of ``slowtrain lint``: what was found in which file. Frozen values, as in ``model``."""

from __future__ import annotations

from dataclasses import dataclass

from slowtrain.model import Edit, Effect

UNUSED_IGNORE = "lint/unused-ignore"
SAFE_EFFECTS = frozenset({Effect.EXACT})  # the same numbers, so --fix applies them without another option


@dataclass(frozen=True)
class RuntimeState:
    """What a recording says about a finding: ``confirmed``, ``harmless`` there, or ``not reached``.

    For a confirmed one, ``ms_per_step`` is what its cure would save per step, ``run_ms`` what it would save of the run.
    """

    state: str
    ms_per_step: float | None = None
    run_ms: float | None = None


@dataclass(frozen=True)
class LintFinding:
    """A cause in a file's text. Lines and columns count from 1, in characters; the end column is exclusive.

    In a notebook they are those of its ``cell``, which counts from 1 over all cells. ``code`` holds the lines. ``cure``
    is what to do; ``edits`` do it, and ``diff`` shows them.
    """

    cause: str
    title: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    says: str
    code: tuple[str, ...] = ()
    cell: int | None = None
    effect: Effect | None = None
    cure: str | None = None
    diff: str | None = None
    edits: tuple[Edit, ...] = ()
    runtime: RuntimeState | None = None

    @property
    def place(self) -> str:
        """``train.py:3:5``, or ``train.ipynb:cell 2:3:5``."""
        cell = f"cell {self.cell}:" if self.cell is not None else ""
        return f"{self.file}:{cell}{self.line}:{self.column}"


@dataclass(frozen=True)
class FileError:
    """Why a file, or a part of it, could not be checked; the rest was."""

    file: str
    says: str
    line: int | None = None
    cell: int | None = None

    @property
    def place(self) -> str:
        cell = f":cell {self.cell}" if self.cell is not None else ""
        return f"{self.file}{cell}" + (f":{self.line}" if self.line is not None else "")


@dataclass(frozen=True)
class RewrittenFile:
    """A file before and after its fixes; ``fixed`` is the number of findings that they removed."""

    file: str
    before: bytes
    after: bytes
    diff: str
    fixed: int


@dataclass(frozen=True)
class LintAnswer:
    """The complete answer. ``files`` were checked, of which ``parsed`` needed parsing."""

    files: int
    parsed: int
    findings: tuple[LintFinding, ...] = ()
    errors: tuple[FileError, ...] = ()
    rewritten: tuple[RewrittenFile, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def fixed(self) -> int:
        return sum(r.fixed for r in self.rewritten)
