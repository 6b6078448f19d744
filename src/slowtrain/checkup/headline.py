"""The headline: what a step consists of, and what the first cure would give."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from slowtrain.causes import class_of
from slowtrain.checkup import verdicts
from slowtrain.checkup.verdicts import (
    find_memory_failure,
    find_nonfinite_loss,
    first_gaining,
    has_trained,
    largest_category,
    waits_for_copies,
)
from slowtrain.diagnose import Findings
from slowtrain.model import CATEGORY_PHRASES, Category, Diagnosis, Part, Phase, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import step_bound
from slowtrain.trace.signals.host import host_work

MIN_BETWEEN_STEPS_SHARE = 0.5
MIN_REPORTED_PHASE_SHARE: Mapping[str, float] = {Phase.EPOCH: 0.1}  # of the run: nobody expects the time between epochs
OUTSIDE_PHASES: Mapping[str, str] = {
    Phase.PREPARATION: "the script's own code outside training",
    Phase.EPOCH: "between epochs",
    Phase.VALIDATION: "validation",
    Phase.PREDICT: "predict and evaluate",
    Phase.CALLBACK: "callbacks at epoch ends",
    Phase.CHECKPOINT: "writing checkpoints",
}
# The phases of start-up that a cure of the run can be about.
STARTUP_PHASES: Mapping[str, str] = {Phase.COMPILE: "tracing and compiling", Phase.BUILD: "building the model"}
MIN_PHASE_TO_SAVING = 0.9  # of what a cure of the run saves: a phase that takes less cannot be its subject
# The category behind a verdict, which need not be the largest part of a step: Python that makes input delays all of it.
BOUND_BY = {
    VerdictKind.INPUT: (Category.INPUT,),
    VerdictKind.TRANSFER: step_bound.CATEGORIES_BY_VERDICT[VerdictKind.TRANSFER],
    VerdictKind.LAUNCH: (Category.DISPATCH,),
    VerdictKind.COMPUTE: (Category.DEVICE,),
}
# Share of a step in which a process waits for other processes. In two measured runs the worker that set the pace spent
# 5 and 10 % in the exchange, the one that waited 83 and 93 %.
MIN_PEER_WAIT_SHARE = 0.2
NONFINITE_LABEL = "loss not finite"


def _describe_few_steps(trace: Trace) -> str:
    steps = f"all {trace.steps.count:,} steady steps"
    return f"{steps} are {format_number(trace.steps.total_ms / 1e3)} of the run's {format_number(trace.run_ms / 1e3)} s"


def headline_for(trace: Trace, findings: Findings, kind: VerdictKind) -> str:
    """One line: what a step consists of, and what the first cure would give."""
    waiting = describe_peer_wait(trace)
    if (
        waiting
        and kind is VerdictKind.TRANSFER
        and first_gaining(findings) is None
        and find_nonfinite_loss(findings) is None
    ):
        return f"{waiting}{verdicts.describe_untrained(trace)}"
    headline = f"{_headline_by_kind(trace, findings, kind)}{verdicts.describe_untrained(trace)}"
    return f"{waiting}; {headline}" if waiting else headline


def describe_peer_wait(trace: Trace) -> str:
    """Says that another process of the training sets the pace, if this one waits for much of a step; else empty.

    It comes first, because what follows is about this process only.
    """
    if not trace.step_ms or trace.share(Category.COLLECTIVE_WAIT) < MIN_PEER_WAIT_SHARE:
        return ""
    waits = f"{format_number(trace.mean(Category.COLLECTIVE_WAIT))} of each step's {format_number(trace.step_ms)} ms"
    waiting = f"this process waits for other ranks for {waits}"
    if largest_category(trace) is Category.COLLECTIVE_WAIT:
        return f"{waiting}; another rank sets the pace, and its recording shows why"
    return f"{waiting}; another rank may set the pace"


def describe_host_profile(trace: Trace) -> str:
    """What a profile of one of several hosts says, as a clause."""
    if not trace.step_ms:
        return "no steps were found"
    kind, most = step_bound.largest_verdict(trace)[0], largest_category(trace)
    return f"{kind}: {format_number(trace.mean(most))} of {format_number(trace.step_ms)} ms {CATEGORY_PHRASES[most]}"


def _headline_by_kind(trace: Trace, findings: Findings, kind: VerdictKind) -> str:
    lost = find_nonfinite_loss(findings)
    if lost is not None:
        speed = "too few steps to judge" if kind is VerdictKind.INSUFFICIENT else kind
        return f"{lost.evidence.says}; the training after that step is lost (speed: {speed})"
    if kind is VerdictKind.FAILED:
        start = f"the script ended with exit code {trace.fact('launch', 'exit_code')} before"
        if trace.fact("end_ns") or trace.fact("ended"):
            return f"{start} it trained anything"
        return (
            f"{start} any step was written to the recording; an exit like this (os._exit, a signal) loses the last "
            "second"
        )
    if kind is VerdictKind.INSUFFICIENT:
        return _insufficient_reason(trace, kind)
    first = first_gaining(findings)
    where = (_describe_between_steps(trace, first) if first is not None else "") or _describe_step(trace, kind)
    wrong = (d for d in findings.diagnoses if d.cause.startswith("numerics/") and not class_of(d.cause).measuring_verb)
    spoilt = next(wrong, find_memory_failure(findings))
    if spoilt is not None:
        return f"{spoilt.title.lower()}: {spoilt.evidence.says}"
    if first is None and trace.fact("profile"):
        checked = (
            f"curing any of the {len(findings.healthy)} causes that this profile can show would save less than 10 %"
        )
        return f"{where}; {checked}" if where else checked
    unseen, unclaimed = verdicts.opacity_hiding_cause(trace), verdicts.first_without_claim(findings)
    if first is None and unseen is not None:
        of = f"{format_number(trace.mean(Category.UNATTRIBUTED))} ms of it cannot be attributed"
        return f"{where}; {of}{unseen.why}"
    if first is None and unclaimed is not None:
        return f"{where}; {verdicts.describe_diagnosis(unclaimed)}"
    if first is None:
        parts = [
            p
            for p in trace.run.parts
            if p.share >= MIN_REPORTED_PHASE_SHARE.get(p.name, MIN_BETWEEN_STEPS_SHARE) and p.name in OUTSIDE_PHASES
        ]
        most = max(parts, key=lambda p: p.share, default=None)
        also = (
            f"; {most.share:.0%} of the run is {OUTSIDE_PHASES[most.name]}{_describe_epoch_start(trace, most)}"
            if most is not None
            else ""
        )
        return f"healthy: {where + '; ' if where else ''}curing any known cause would save less than 5 %{also}"
    gain = f"curing {first.cause} would make the {first.saving.scope} {verdicts.format_gain(first.saving)}"
    return f"{where}; {gain}" if where else gain


def _insufficient_reason(trace: Trace, kind: VerdictKind) -> str:
    """Why nothing can be said about what bounds a step."""
    if trace.has_enough_steps and (behind := step_bound.only_step_overrun_ms(trace)):
        reason = (
            f"{_describe_step(trace, kind)}; it is followed by {format_number(behind)} ms of other work "
            f"({trace.fact('behind', 'said')})"
        )
        return f"{reason}; a profile of one step does not show whether each step has them"
    if trace.has_enough_steps and (
        trace.is_mostly_unattributed or step_bound.largest_verdict(trace)[0] is VerdictKind.INSUFFICIENT
    ):
        of = "a step's" if trace.fact("told_steps", default=True) else "the profile's"
        reason = (
            f"{trace.share(Category.UNATTRIBUTED):.0%} of {of} {format_number(trace.step_ms)} ms cannot be attributed"
        )
        if not trace.is_mostly_unattributed:
            reason += (
                f", and {format_number(trace.mean(largest_category(trace)))} ms are "
                f"{CATEGORY_PHRASES[largest_category(trace)]}"
            )
        why = verdicts.find_opacity(trace)
        return f"{reason}{why.why}" if why is not None else reason
    if trace.has_enough_steps:
        return (
            f"{_describe_step(trace, kind)}; {_describe_few_steps(trace)}; the run is too short to show why, so "
            "train for longer"
        )
    count = int(trace.steps.steady.sum())
    reason = f"{count or 'no'} steady step{'' if count == 1 else 's'}"
    more = "train for longer" if has_trained(trace) else "no training was found"
    return f"{reason} recorded, which is too few; {more}"


def _describe_epoch_start(trace: Trace, part: Part) -> str:
    """What takes most of the time between epochs, if the iterators that begin them tell."""
    steps = trace.steps
    if part.name != Phase.EPOCH or not len(steps):
        return ""
    created_ms = [e.end_ms for e in trace.events_of("iterator")]
    first = [float(steps.start_ms[i]) for i in np.flatnonzero(np.diff(steps.block, prepend=-1))]
    before = [max((m for m in created_ms if m <= at), default=at) for at in first]
    if sum(at - m for at, m in zip(first[1:], before[1:], strict=True)) < 0.5 * part.ms:
        return ""
    shuffles = trace.pipeline is not None and any(n.family == "Shuffle" for n in trace.pipeline.nodes)
    return f", mostly waiting for new iterators{' (a shuffle buffer is refilled)' if shuffles else ''}"


def _describe_step(trace: Trace, kind: VerdictKind) -> str:
    """What a step consists of, and the share of what the verdict names; empty without steps."""
    if not trace.step_ms:
        return ""
    category = largest_category(trace)
    of = "a step takes" if trace.fact("told_steps", default=True) else "the profile covers"
    phrase = _category_phrase(trace, category)
    bound = max(BOUND_BY.get(kind, (category,)), key=trace.mean)
    parts = [f"{format_number(trace.mean(category))} ms of it {phrase}"]
    if bound is not category and trace.mean(bound):
        near = trace.mean(bound) >= 0.5 * trace.mean(category)  # the verdict's category comes first, unless it is small
        own = f"{format_number(trace.mean(bound))} ms {'of it ' if near else ''}{_category_phrase(trace, bound)}"
        parts = [own, f"{format_number(trace.mean(category))} ms {phrase}"] if near else [*parts, own]
    return f"{of} {format_number(trace.step_ms)} ms, {' and '.join(parts)}"


def _category_phrase(trace: Trace, category: Category) -> str:
    """What a step does in the time of a category."""
    if category is Category.DEVICE and waits_for_copies(trace):
        return "in its program, where it mostly waits for copies that the program started"
    creations = trace.lane("iterator")
    creations = creations.where((creations.thread == trace.main) & host_work.is_outermost(creations))
    if category is Category.INPUT and host_work.ms_per_step(trace, creations) > 0.5 * trace.mean(category):
        return f"creating iterators and {CATEGORY_PHRASES[category]}"
    return CATEGORY_PHRASES[category]


def _describe_between_steps(trace: Trace, first: Diagnosis) -> str:
    """Where most of the run goes, if that is outside the steps and the first cure can be about it; else empty.

    What starts and ends every run (imports, for example) is left out, because no cure is about it.
    """
    phases = {**OUTSIDE_PHASES, **STARTUP_PHASES}
    parts = [p for p in trace.run.parts if p.name in phases or p.name == Phase.STEPS]
    most = max(parts, key=lambda p: p.ms, default=None)
    if first.saving.scope != "run" or most is None or most.name not in phases or not trace.step_ms:
        return ""
    if most.ms < MIN_PHASE_TO_SAVING * first.saving.ms:
        return ""
    return f"{format_number(most.ms / 1e3)} of the run's {format_number(trace.run_ms / 1e3)} s are {phases[most.name]}"
