"""Causes that are read off the facts about a computer: the same judgement in ``doctor``, ``run`` and ``diagnose``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from slowtrain.machine.checks import machine_checks
from slowtrain.machine.checks.machine_checks import combined_state
from slowtrain.machine.tables.fact_access import driver_gpus
from slowtrain.model import Effect, Evidence, Prescription, Signal
from slowtrain.model.answers.doctor_sheet import Check, CheckState
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy

if TYPE_CHECKING:
    from slowtrain.causes import Cause

    Base = Cause[Evidence]
else:
    Base = object
MOST_SAID = 3  # of what is wrong for one cause: a card of eight has it eight times

_judged: list[tuple[Trace, tuple[Check, ...]]] = []  # of the trace asked about last: every cause asks of the same one


def given(trace: Trace) -> bool:
    """Whether the facts came beside a profile: of its computer, but of another process at another time."""
    return trace.fact("given") is not None


def facts_of(trace: Trace) -> Mapping[str, Any]:
    """The computer's facts, with what a run knows better: which devices its framework opened, and how it was built."""
    machine = trace.fact("given", "facts") if given(trace) else trace.fact("machine")
    found: dict[str, Any] = dict(machine) if isinstance(machine, Mapping) else {}
    devices, build = trace.fact("devices"), trace.fact("build")
    if "frameworks" in found or not isinstance(devices, (list, tuple)) or not devices:
        return found
    gpus = sum(1 for d in devices if isinstance(d, Mapping) and d.get("kind") == "GPU")
    said = dict(build) if isinstance(build, Mapping) else {}
    name = "jax" if "jaxlib_version" in said or trace.on_jax else "tensorflow"
    said.setdefault("version", trace.fact(f"version.{name}"))
    found["frameworks"] = {name: {**said, "gpus": gpus}}
    found["keras_backend"] = name  # whatever the environment says: this one ran
    return found


def judge(facts: Mapping[str, Any]) -> tuple[Check, ...]:
    """Every check, with the cause that has its topic. Raises ``KeyError`` if no cause has it.

    A remedy refers to a cause by its topic, ``<versions>``.
    """
    from slowtrain.causes import all_causes

    owners = {cause.machine_topic: cause.id for cause in all_causes() if cause.machine_topic}

    def named(text: str | None) -> str | None:
        return text and re.sub("<([a-z ]+)>", lambda found: owners.get(found[1], found[0]), text)

    return tuple(replace(c, cause=owners[c.topic], remedy=named(c.remedy)) for c in machine_checks.check_machine(facts))


def checks(trace: Trace, cause: str) -> tuple[Check, ...]:
    """What was looked at for one cause."""
    if not _judged or _judged[0][0] is not trace:
        _judged[:] = [(trace, judge(facts_of(trace)))]
    return tuple(check for check in _judged[0][1] if check.cause == cause)


def missing(trace: Trace, cause: str) -> frozenset[Signal]:
    """What to have measured, where nothing could be judged for want of it."""
    found = checks(trace, cause)
    if found and combined_state(found) is not CheckState.UNCHECKED:
        return frozenset()
    return frozenset(signal for check in found for signal in check.missing)


def evidence(trace: Trace, cause: str) -> Evidence | None:
    """Of what is wrong; None where nothing is."""
    wrong = [check for check in checks(trace, cause) if check.state is CheckState.WRONG]
    if not wrong:
        return None
    says = "; ".join(check.sentence for check in wrong[:MOST_SAID])
    says += f"; and {len(wrong) - MOST_SAID} more" if len(wrong) > MOST_SAID else ""
    numbers = {key: number for check in reversed(wrong) for key, number in check.numbers.items()}
    return Evidence(says, numbers)


def passing(trace: Trace, cause: str, signal: Signal) -> frozenset[Signal]:
    """``signal`` where facts beside a profile show a card and nothing wrong with it for a cause that comes and goes.

    What they found fine when they were gathered was not measured while the profile was made.
    """
    fine = given(trace) and driver_gpus(facts_of(trace)) and evidence(trace, cause) is None
    return frozenset({signal} if fine else ())


def prescriptions(trace: Trace, cause: str) -> Iterable[Prescription]:
    """The remedies of what is wrong, each once."""
    remedies = [check.remedy for check in checks(trace, cause) if check.state is CheckState.WRONG and check.remedy]
    for says in dict.fromkeys(remedies):
        yield Prescription("setting", Effect.EXACT, says)


class Judged(Base):
    """For causes that need no more than the facts; stands before ``Cause`` among the bases."""

    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.FACTS})
    matters: ClassVar[bool] = True

    def wants(self, trace: Trace) -> frozenset[Signal]:
        wanted = super().wants(trace)
        return wanted | missing(trace, self.id) if wanted <= trace.signals else wanted

    def find(self, trace: Trace) -> Evidence | None:
        return evidence(trace, self.id)

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        # Nothing of the run tells what it would be like on another machine.
        return []

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        yield from prescriptions(trace, self.id)
