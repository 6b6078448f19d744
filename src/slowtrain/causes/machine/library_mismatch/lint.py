"""Where the cause machine/library-mismatch shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.lint_rules import spots, worker_strategies
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """A strategy for several workers in a script that trains with ``fit``."""
    for call in worker_strategies.unsupported_strategies(source):
        cure = Prescription("advice", Effect.EQUIVALENT, worker_strategies.STRATEGY_ADVICE)
        yield spots.node_spot(call, worker_strategies.STRATEGY_TEXT, cure)
