"""Checkpoints that a script writes between its steps, by samples of the lines that write them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from slowtrain.model import Place
from slowtrain.trace import Trace
from slowtrain.trace.host import in_windows, saves, stands_for, training_begins

LEAST = 4  # that the script asks for by itself: of fewer hardly one can be left out
# Of the training between them. A pass over as much data as the epoch trained on costs about a third of it (a forward
# pass, of a forward and a backward one): what takes more is frequent, or large. Below that, saving makes stalls.
SHARE = 1 / 3


@dataclass(frozen=True)
class Saving:
    """``passes``: how often; ``ms`` in all of them, ``training_ms`` in the rest of the training."""

    passes: int
    ms: float
    training_ms: float
    places: tuple[Place, ...]

    @property
    def much(self) -> bool:
        """Whether that is for host/frequent-validation to tell."""
        return self.passes >= LEAST and self.ms > SHARE * self.training_ms


def by_samples(trace: Trace) -> Saving | None:
    """None where no line that saves was ever met at work."""
    if not len(trace.steps):
        return None
    samples = trace.lane("stack").between(training_begins(trace), float(trace.steps.end_ms[-1]))
    samples = samples.where(~in_windows(trace, samples))
    places = [trace.names[int(n)].place for n in samples.name]
    lines_of_saves = {p for p in set(places) if p is not None and saves(trace, p)}
    saving = np.array([p in lines_of_saves for p in places], dtype=bool)
    if not saving.any():
        return None
    spent = float(stands_for(trace, samples.where(saving)).sum())
    passes = int((np.diff(np.flatnonzero(saving)) > 1).sum()) + 1
    every = float(stands_for(trace, samples).sum())
    lines = Counter(p for p, keep in zip(places, saving, strict=True) if keep and p is not None)
    return Saving(passes, spent, max(every - spent, 1e-9), tuple(p for p, _ in lines.most_common(3)))
