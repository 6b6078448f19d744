"""Nouns of what was inspected without a run: source files by ``slowtrain lint``, a computer by ``slowtrain doctor``."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from slowtrain.model import EMPTY_NUMBERS, Edit, Effect, Signal, Text
from slowtrain.shared.vocabulary import Source

SAFE_EFFECTS = frozenset({Effect.EXACT})  # the same numbers, so --fix applies them without another option


class RuntimeState(Struct, frozen=True):
    """What a recording says about a finding: ``confirmed``, ``harmless`` there, or ``not reached``.

    For a confirmed one, ``ms_per_step`` is what its cure would save per step, ``run_ms`` what it would save of the run.
    """

    state: str
    ms_per_step: float | None = None
    run_ms: float | None = None


class LintFinding(Struct, frozen=True):
    """A cause in a file's text. Lines and columns count from 1, in characters; the end column is exclusive.

    In a notebook they are those of its ``cell``, which counts from 1 over all cells. ``code`` holds the lines. ``cure``
    is what to do; ``edits`` do it, and ``diff`` shows them. ``minor``: the cure saves little of a training.
    ``worth_if``: what its worth depends on, if the text does not say that.
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
    minor: bool = False
    worth_if: str | None = None

    @property
    def place(self) -> str:
        """``train.py:3:5``, or ``train.ipynb:cell 2:3:5``."""
        cell = f"cell {self.cell}:" if self.cell is not None else ""
        return f"{self.file}:{cell}{self.line}:{self.column}"


class FileError(Struct, frozen=True):
    """Why a file, or a part of it, could not be checked; the rest was."""

    file: str
    says: str
    line: int | None = None
    cell: int | None = None

    @property
    def place(self) -> str:
        cell = f":cell {self.cell}" if self.cell is not None else ""
        return f"{self.file}{cell}" + (f":{self.line}" if self.line is not None else "")


class RewrittenFile(Struct, frozen=True):
    """A file before and after its fixes; ``fixed`` is the number of findings that they removed."""

    file: str
    before: bytes
    after: bytes
    diff: str
    fixed: int


class LintAnswer(Struct, frozen=True):
    """The complete answer. ``files`` were checked, of which ``parsed`` needed parsing.

    ``minor_count`` findings whose cure saves little of a training were left out.
    """

    files: int
    parsed: int
    findings: tuple[LintFinding, ...] = ()
    errors: tuple[FileError, ...] = ()
    rewritten: tuple[RewrittenFile, ...] = ()
    notes: tuple[str, ...] = ()
    minor_count: int = 0

    @property
    def fixed_count(self) -> int:
        return sum(r.fixed for r in self.rewritten)


class CheckState(Text):
    """The result of one check."""

    WRONG = "wrong"
    FINE = "fine"
    NOTED = "noted"  # measured or read, but neither good nor bad by itself: it depends on the script
    UNCHECKED = "unchecked"


class Check(Struct, frozen=True):
    """One check of a ``topic``, which one ``cause`` has (empty: not yet known).

    ``says`` is the evidence, or for an unchecked one what was missing. ``remedy`` is what to do on this system.
    ``where`` is the GPU that was checked, ``sources`` are keys of the rule table, ``missing`` the signals that were
    needed.
    """

    topic: str
    name: str
    state: CheckState
    says: str
    remedy: str | None = None
    numbers: Mapping[str, float] = EMPTY_NUMBERS
    sources: tuple[str, ...] = ()
    missing: tuple[Signal, ...] = ()
    where: str | None = None
    cause: str = ""

    @property
    def sentence(self) -> str:
        """The evidence with its GPU."""
        return f"{self.where}: {self.says}" if self.where else self.says


class Sheet(Struct, frozen=True):
    """The complete answer.

    ``about`` describes the computer in a few pairs of words; ``causes`` summarises the checks.
    """

    version: str
    headline: str
    about: tuple[tuple[str, str], ...]
    checks: tuple[Check, ...]
    causes: Mapping[str, CheckState]
    sources: tuple[Source, ...]
    facts: Mapping[str, object]
    given: str | None = None  # name of the facts file of another computer

    def of(self, state: CheckState) -> tuple[Check, ...]:
        """The checks with this state, in order."""
        return tuple(c for c in self.checks if c.state is state)
