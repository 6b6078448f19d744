"""Judges facts as fine, wrong with a remedy, noted, or unchecked. ``doctor`` and ``run`` both use these checks."""

from __future__ import annotations

from slowtrain.machine.carding import carding
from slowtrain.machine.hosting import hosting
from slowtrain.machine.leftovers import leftovers
from slowtrain.machine.matching import matching
from slowtrain.machine.reading import Facts
from slowtrain.machine.seeing import seeing
from slowtrain.model.sheet import Check, State


def judge(facts: Facts) -> tuple[Check, ...]:
    """All checks, in the order in which a person would look."""
    return (*seeing(facts), *matching(facts), *carding(facts), *hosting(facts), *leftovers(facts))


def outcome(checks: tuple[Check, ...]) -> State:
    """One state for several checks: wrong comes first, then fine, then noted; else unchecked."""
    states = {check.state for check in checks}
    for state in (State.WRONG, State.FINE, State.NOTED):
        if state in states:
            return state
    return State.UNCHECKED
