"""Nouns of ``slowtrain doctor``, which its reports render. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slowtrain.model import EMPTY_NUMBERS, Signal, Text


class CheckState(Text):
    """The result of one check."""

    WRONG = "wrong"
    FINE = "fine"
    NOTED = "noted"  # measured or read, but neither good nor bad by itself: it depends on the script
    UNCHECKED = "unchecked"


@dataclass(frozen=True)
class Check:
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
    numbers: Mapping[str, float] = field(default_factory=lambda: EMPTY_NUMBERS)
    sources: tuple[str, ...] = ()
    missing: tuple[Signal, ...] = ()
    where: str | None = None
    cause: str = ""

    @property
    def sentence(self) -> str:
        """The evidence with its GPU."""
        return f"{self.where}: {self.says}" if self.where else self.says


@dataclass(frozen=True)
class Source:
    """The origin of a rule; ``date`` is the day on which it was read there."""

    key: str
    says: str
    where: str
    date: str


@dataclass(frozen=True)
class Sheet:
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
