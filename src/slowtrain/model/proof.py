"""The nouns of measuring: two runs compared; cures tried, what they gave, the patch that is left. As in ``model``."""

from __future__ import annotations

from pathlib import Path

from slowtrain.model import Checkup, Effect, Saving, Verdict
from slowtrain.values import dataclass


@dataclass(frozen=True)
class Attempt:
    """One cure that was tried: ``kept`` or not, and ``why``.

    ``verdict`` is None where it could not be measured: the candidate failed, or there was no time left.
    ``predicted`` is None where somebody else's patch was tried. ``remark``: what is to be known of the loss with a cure
    that is kept, where it is not the same to the bit.
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
class ByHand:
    """A prescription that was not applied, and the lines that it is about. ``needs``: the option that would have it."""

    cause: str
    says: str
    effect: Effect
    where: tuple[str, ...] = ()
    needs: str | None = None


@dataclass(frozen=True)
class Changed:
    """A file of the user's: its bytes when it was read, and with what was kept."""

    path: Path
    before: bytes
    after: bytes


@dataclass(frozen=True)
class Proof:
    """All that was tried, in order, what it gives ``together``, and the patch.

    ``by_hand`` is what is left to a person. ``limits`` says what a probe could not keep from happening, ``notes`` what
    else was seen. ``apply`` and ``undo`` are commands that apply the patch and take it back, in whatever folder they
    are typed; empty where there is none.
    """

    command: tuple[str, ...]
    attempts: tuple[Attempt, ...]
    together: Verdict | None
    diff: str
    files: tuple[Changed, ...]
    before: Checkup | None = None
    after: Checkup | None = None
    by_hand: tuple[ByHand, ...] = ()
    limits: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    apply: str = ""
    undo: str = ""


@dataclass(frozen=True)
class Change:
    """A figure in two runs; ``noise`` is each one's 95 % half-width, ``real`` whether the difference exceeds them."""

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

    ``samples`` are those of a mean step, where they are known of both runs and differ; the step and its categories are
    then ms per thousand samples. ``run`` is ms of the runs; a phase of one run alone has no noise that could be told.
    ``scripts``: what ran, where the two are not called alike.
    """

    names: tuple[str, str]
    step: Change
    rows: tuple[Change, ...]
    samples: tuple[float, float] | None = None
    run: tuple[tuple[str, float, float], ...] = ()
    scripts: tuple[str, str] | None = None
