"""Nouns of measuring: two runs compared; cures tried, their effect, and the patch that remains."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slowtrain.model import Checkup, Effect, Saving, Verdict


@dataclass(frozen=True)
class Attempt:
    """One cure that was tried: ``kept`` or not, and ``why``.

    ``verdict`` is None if it could not be measured, because the candidate failed or no time was left. ``predicted`` is
    None for a patch of the user's. ``remark``: a note on the loss with a kept cure, if the loss is not identical to the
    bit.
    """

    name: str
    says: str
    effect: Effect | None
    predicted: Saving | None
    verdict: Verdict | None
    kept: bool
    why: str
    diff: str = ""
    remark: str = ""


@dataclass(frozen=True)
class ManualCure:
    """A prescription that was not applied, and the lines that it is about.

    ``needs``: the option that would apply it.
    """

    cause: str
    says: str
    effect: Effect
    where: tuple[str, ...] = ()
    needs: str | None = None


@dataclass(frozen=True)
class ChangedFile:
    """A file of the user's: its bytes when it was read, and with the cures that were kept."""

    path: Path
    before: bytes
    after: bytes


@dataclass(frozen=True)
class Proof:
    """All that was tried, in order, what it gives ``together``, and the patch.

    ``by_hand``: what a person has to do. ``limits``: side effects that a probe could not prevent. ``notes``: other
    observations. ``apply`` and ``undo`` are commands that apply the patch and revert it, from any folder; empty if
    there is no patch.
    """

    command: tuple[str, ...]
    attempts: tuple[Attempt, ...]
    together: Verdict | None
    diff: str
    files: tuple[ChangedFile, ...]
    before: Checkup | None = None
    after: Checkup | None = None
    by_hand: tuple[ManualCure, ...] = ()
    limits: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    apply: str = ""
    undo: str = ""


@dataclass(frozen=True)
class Change:
    """A figure in two runs. ``noise``: 95 % half-width of each. ``real``: whether the difference exceeds the noise."""

    name: str
    before_ms: float
    after_ms: float
    before_noise_ms: float
    after_noise_ms: float
    real: bool

    @property
    def difference_ms(self) -> float:
        return self.after_ms - self.before_ms


@dataclass(frozen=True)
class Comparison:
    """Two runs: the mean steady step, its categories by the size of their change, and the phases of the whole runs.

    ``samples``: the samples of a mean step, if both runs' are known and differ. The step and its categories are then ms
    per thousand samples. ``run``: ms of the runs' phases; a phase of one run has no measurable noise. ``scripts``: what
    ran, if the names differ.
    """

    names: tuple[str, str]
    step: Change
    rows: tuple[Change, ...]
    samples: tuple[float, float] | None = None
    run: tuple[tuple[str, float, float], ...] = ()
    scripts: tuple[str, str] | None = None
