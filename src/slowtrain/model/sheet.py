"""What ``slowtrain doctor`` found out about a computer; what its reports render. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from slowtrain.model import NOTHING, Signal, Text
from slowtrain.values import dataclass


class State(Text):
    """What came of looking at one thing."""

    WRONG = "wrong"
    FINE = "fine"
    NOTED = "noted"  # measured or read, and neither good nor bad by itself: it depends on the script
    UNCHECKED = "unchecked"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at for ``cause``.

    ``says`` is the evidence, and of an unchecked one what was missing; ``remedy`` what to do on this very system.
    ``where`` is the card that it is about, ``sources`` are keys of the table of rules, ``missing`` the signals
    without which it could not be judged.
    """

    cause: str
    name: str
    state: State
    says: str
    remedy: str | None = None
    numbers: Mapping[str, float] = field(default_factory=lambda: NOTHING)
    sources: tuple[str, ...] = ()
    missing: tuple[Signal, ...] = ()
    where: str | None = None

    @property
    def sentence(self) -> str:
        """What it says, and of which card."""
        return f"{self.where}: {self.says}" if self.where else self.says


@dataclass(frozen=True)
class Source:
    """Where a rule comes from; ``date`` is the day on which it was read there."""

    key: str
    says: str
    where: str
    date: str


@dataclass(frozen=True)
class Sheet:
    """The whole answer. ``about`` describes the computer in a few pairs of words; ``causes`` sums the checks up."""

    version: str
    headline: str
    about: tuple[tuple[str, str], ...]
    checks: tuple[Check, ...]
    causes: Mapping[str, State]
    sources: tuple[Source, ...]
    facts: Mapping[str, object]
    given: str | None = None  # the file of somebody else's facts

    def of(self, state: State) -> tuple[Check, ...]:
        """The checks that came out so, in order."""
        return tuple(c for c in self.checks if c.state is state)
