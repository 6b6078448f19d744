"""Causes that facts about a computer show. ``doctor``, ``run`` and ``diagnose`` judge them in the same way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from slowtrain.machine.checks import machine_checks
from slowtrain.machine.checks.machine_checks import combined_state
from slowtrain.machine.tables.fact_access import driver_gpus
from slowtrain.model import Effect, Evidence, Prescription, Signal
from slowtrain.model.inspections import Check, CheckState
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy

if TYPE_CHECKING:
    from slowtrain.causes import Cause

    Base = Cause[Evidence]
else:
    Base = object
MAX_SENTENCES = 3  # of one cause: a machine with eight cards may have it eight times

_last_checks: list[tuple[Trace, tuple[Check, ...]]] = []  # of the last trace: all causes ask about the same one


def has_given_facts(trace: Trace) -> bool:
    """Whether facts were given with a profile: from its computer, but from another process and time."""
    return trace.fact("given") is not None


def machine_facts(trace: Trace) -> Mapping[str, Any]:
    """The computer's facts, with those of the run: the devices that its framework opened, and its build."""
    machine = trace.fact("given", "facts") if has_given_facts(trace) else trace.fact("machine")
    found: dict[str, Any] = dict(machine) if isinstance(machine, Mapping) else {}
    devices, build = trace.fact("devices"), trace.fact("build")
    if "frameworks" in found or not isinstance(devices, (list, tuple)) or not devices:
        return found
    gpus = sum(1 for d in devices if isinstance(d, Mapping) and d.get("kind") == "GPU")
    framework = dict(build) if isinstance(build, Mapping) else {}
    name = "jax" if "jaxlib_version" in framework or trace.on_jax else "tensorflow"
    framework.setdefault("version", trace.fact(f"version.{name}"))
    found["frameworks"] = {name: {**framework, "gpus": gpus}}
    found["keras_backend"] = name  # the one that ran, whatever the environment says
    return found


def check_facts(facts: Mapping[str, Any]) -> tuple[Check, ...]:
    """Every check, with the cause that has its topic. Raises ``KeyError`` if no cause has it.

    A remedy refers to a cause by its topic, ``<versions>``.
    """
    from slowtrain.causes import all_causes

    owners = {cause.machine_topic: cause.id for cause in all_causes() if cause.machine_topic}

    def with_ids(text: str | None) -> str | None:
        return text and re.sub("<([a-z ]+)>", lambda found: owners.get(found[1], found[0]), text)

    return tuple(
        replace(c, cause=owners[c.topic], remedy=with_ids(c.remedy)) for c in machine_checks.check_machine(facts)
    )


def cause_checks(trace: Trace, cause: str) -> tuple[Check, ...]:
    """The checks of one cause."""
    if not _last_checks or _last_checks[0][0] is not trace:
        _last_checks[:] = [(trace, check_facts(machine_facts(trace)))]
    return tuple(check for check in _last_checks[0][1] if check.cause == cause)


def missing_fact_signals(trace: Trace, cause: str) -> frozenset[Signal]:
    """Signals without which no check of the cause could be judged."""
    found = cause_checks(trace, cause)
    if found and combined_state(found) is not CheckState.UNCHECKED:
        return frozenset()
    return frozenset(signal for check in found for signal in check.missing)


def wrong_checks_evidence(trace: Trace, cause: str) -> Evidence | None:
    """Evidence of the checks that are wrong; None if none is."""
    wrong = [check for check in cause_checks(trace, cause) if check.state is CheckState.WRONG]
    if not wrong:
        return None
    says = "; ".join(check.sentence for check in wrong[:MAX_SENTENCES])
    says += f"; and {len(wrong) - MAX_SENTENCES} more" if len(wrong) > MAX_SENTENCES else ""
    numbers = {key: number for check in reversed(wrong) for key, number in check.numbers.items()}
    return Evidence(says, numbers)


def recheck_signals(trace: Trace, cause: str, signal: Signal) -> frozenset[Signal]:
    """``signal``, if facts given with a profile show a card without this cause, which may be present only at times.

    That the card was fine when the facts were gathered does not prove it for the profile.
    """
    is_fine = (
        has_given_facts(trace) and driver_gpus(machine_facts(trace)) and wrong_checks_evidence(trace, cause) is None
    )
    return frozenset({signal} if is_fine else ())


def check_cures(trace: Trace, cause: str) -> Iterable[Prescription]:
    """The remedies of the checks that are wrong, each once."""
    remedies = [
        check.remedy for check in cause_checks(trace, cause) if check.state is CheckState.WRONG and check.remedy
    ]
    for says in dict.fromkeys(remedies):
        yield Prescription("setting", Effect.EXACT, says)


class FactCause(Base):
    """Base of causes that need only the facts. It comes before ``Cause`` among the bases."""

    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.FACTS})
    matters: ClassVar[bool] = True

    def wants(self, trace: Trace) -> frozenset[Signal]:
        wanted = super().wants(trace)
        return wanted | missing_fact_signals(trace, self.id) if wanted <= trace.signals else wanted

    def find(self, trace: Trace) -> Evidence | None:
        return wrong_checks_evidence(trace, self.id)

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return []  # the run does not show what it would take on another machine

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        yield from check_cures(trace, self.id)
