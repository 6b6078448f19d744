"""Judges facts as fine, wrong with a remedy, noted, or unchecked. ``doctor`` and ``run`` both use these checks."""

from __future__ import annotations

from slowtrain.machine.checks.gpu_checks import check_gpus
from slowtrain.machine.checks.host_checks import check_host
from slowtrain.machine.checks.library_checks import check_builds
from slowtrain.machine.checks.setting_checks import check_settings
from slowtrain.machine.checks.visibility_checks import check_visibility
from slowtrain.machine.tables.fact_access import Facts
from slowtrain.model.inspections import Check, CheckState


def check_machine(facts: Facts) -> tuple[Check, ...]:
    """All checks, in the order in which a person would look."""
    return (
        *check_visibility(facts),
        *check_builds(facts),
        *check_gpus(facts),
        *check_host(facts),
        *check_settings(facts),
    )


def combined_state(checks: tuple[Check, ...]) -> CheckState:
    """One state for several checks: wrong comes first, then fine, then noted; else unchecked."""
    states = {check.state for check in checks}
    for state in (CheckState.WRONG, CheckState.FINE, CheckState.NOTED):
        if state in states:
            return state
    return CheckState.UNCHECKED
