"""The nouns of a proof: what was tried, what it gave, and the patch that is left. Frozen values, as in ``model``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slowtrain.model import Checkup, Effect, Saving, Verdict


@dataclass(frozen=True)
class Attempt:
    """One cure that was tried: ``kept`` or not, and ``why``.

    ``verdict`` is None where it could not be measured: the candidate failed, or there was no time left.
    ``predicted`` is None where somebody else's patch was tried.
    """

    name: str
    says: str
    effect: Effect | None
    predicted: Saving | None
    verdict: Verdict | None
    kept: bool
    why: str
    diff: str = ""


@dataclass(frozen=True)
class Changed:
    """A file of the user's: its bytes when it was read, and with what was kept."""

    path: Path
    before: bytes
    after: bytes


@dataclass(frozen=True)
class Proof:
    """All that was tried, in order, what it gives ``together``, and the patch.

    ``by_hand`` are prescriptions that no machine can apply: cause, words, lines. ``limits`` says what a probe could
    not keep from happening, ``notes`` what else was seen.
    """

    command: tuple[str, ...]
    attempts: tuple[Attempt, ...]
    together: Verdict | None
    diff: str
    files: tuple[Changed, ...]
    before: Checkup | None = None
    after: Checkup | None = None
    by_hand: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    limits: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
