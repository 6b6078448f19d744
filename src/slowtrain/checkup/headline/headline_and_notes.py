"""Writes the headline, the notes and the next steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from slowtrain.checkup.headline import gain_words, lost_card, opaque_calls, startup_headline
from slowtrain.checkup.headline.verdict_kind import (
    find_memory_failure,
    find_nonfinite_loss,
    first_gaining,
    has_failed,
    is_negligible,
    largest_category,
    unexplained_category,
    waits_for_copies,
)
from slowtrain.diagnose import Findings
from slowtrain.model import CATEGORY_PHRASES, Category, Diagnosis, Part, Phase, Signal, VerdictKind
from slowtrain.number_text import format_count, format_number, format_speedup
from slowtrain.trace import Trace
from slowtrain.trace.signals import input_feed
from slowtrain.trace.signals.device import step_bound
from slowtrain.trace.signals.host import host_work
from slowtrain.trace.signals.host.stalls import crowding_cores

MIN_EXTRA_GAIN_SHARE = 0.05  # of a step: what a cure saves beyond the category that it is named after
MIN_OTHER_PROCESSORS = 0.2  # processors used by other processes
MIN_BETWEEN_STEPS_SHARE = 0.5
MIN_TOLD_PHASE_SHARE: Mapping[str, float] = {Phase.EPOCH: 0.1}  # of the run: nobody expects the time between epochs
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
MIN_WINDOW_INFLATION = 1.15  # times the usual step: a longer profiled step is reported
INTERRUPTED_EXIT_CODE = 128 + 2  # Ctrl-C: the user ended the run
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
    waiting = _describe_peer_wait(trace)
    if (
        waiting
        and kind is VerdictKind.TRANSFER
        and first_gaining(findings) is None
        and find_nonfinite_loss(findings) is None
    ):
        return f"{waiting}{gain_words.describe_untrained(trace)}"
    said = f"{_headline_by_kind(trace, findings, kind)}{gain_words.describe_untrained(trace)}"
    return f"{waiting}; {said}" if waiting else said


def _describe_peer_wait(trace: Trace) -> str:
    """Says that another process of the training sets the pace, if this one waits for much of a step; else empty.

    It comes first, because what follows is about this process only.
    """
    if not trace.step_ms or trace.share(Category.COLLECTIVE_WAIT) < MIN_PEER_WAIT_SHARE:
        return ""
    waits = f"{format_number(trace.mean(Category.COLLECTIVE_WAIT))} of each step's {format_number(trace.step_ms)} ms"
    said = f"this process waits for other ranks for {waits}"
    if largest_category(trace) is Category.COLLECTIVE_WAIT:
        return f"{said}; another rank sets the pace, and its recording shows why"
    return f"{said}; another rank may set the pace"


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
        said = f"the script ended with exit code {trace.fact('launch', 'exit_code')} before"
        if trace.fact("end_ns") or trace.fact("ended"):
            return f"{said} it trained anything"
        return (
            f"{said} any step was written to the recording; an exit like this (os._exit, a signal) loses the last "
            "second"
        )
    if kind is VerdictKind.INSUFFICIENT:
        return _insufficient_reason(trace, kind)
    first = first_gaining(findings)
    where = (_describe_between_steps(trace, first) if first is not None else "") or _describe_step(trace, kind)
    spoilt = next((d for d in findings.diagnoses if d.cause.startswith("numerics/")), find_memory_failure(findings))
    if spoilt is not None:
        return f"{spoilt.title.lower()}: {spoilt.evidence.says}"
    if first is None and trace.fact("profile"):
        checked = (
            f"curing any of the {len(findings.healthy)} causes that this profile can show would save less than 10 %"
        )
        return f"{where}; {checked}" if where else checked
    unseen, told = opaque_calls.opacity_hiding_cause(trace), gain_words.first_without_claim(findings)
    if first is None and unseen is not None:
        of = f"{format_number(trace.mean(Category.UNATTRIBUTED))} ms of it cannot be attributed"
        return f"{where}; {of}{unseen.why}"
    if first is None and told is not None:
        return f"{where}; {gain_words.describe_diagnosis(told)}"
    if first is None:
        beside = [
            p
            for p in trace.run.parts
            if p.share >= MIN_TOLD_PHASE_SHARE.get(p.name, MIN_BETWEEN_STEPS_SHARE) and p.name in OUTSIDE_PHASES
        ]
        most = max(beside, key=lambda p: p.share, default=None)
        also = (
            f"; {most.share:.0%} of the run is {OUTSIDE_PHASES[most.name]}{_describe_epoch_start(trace, most)}"
            if most is not None
            else ""
        )
        return f"healthy: {where + '; ' if where else ''}curing any known cause would save less than 5 %{also}"
    gain = f"curing {first.cause} would make the {first.saving.scope} {gain_words.format_gain(first.saving)}"
    return f"{where}; {gain}" if where else gain


def _insufficient_reason(trace: Trace, kind: VerdictKind) -> str:
    """Why nothing can be said about what bounds a step."""
    if trace.enough and (behind := step_bound.only_step_overrun_ms(trace)):
        said = (
            f"{_describe_step(trace, kind)}; it is followed by {format_number(behind)} ms of other work "
            f"({trace.fact('behind', 'said')})"
        )
        return f"{said}; a profile of one step does not show whether each step has them"
    if trace.enough and (
        trace.is_mostly_unattributed or step_bound.largest_verdict(trace)[0] is VerdictKind.INSUFFICIENT
    ):
        of = "a step's" if trace.fact("told_steps", default=True) else "the profile's"
        said = (
            f"{trace.share(Category.UNATTRIBUTED):.0%} of {of} {format_number(trace.step_ms)} ms cannot be attributed"
        )
        if not trace.is_mostly_unattributed:
            said += (
                f", and {format_number(trace.mean(largest_category(trace)))} ms are "
                f"{CATEGORY_PHRASES[largest_category(trace)]}"
            )
        why = opaque_calls.find_opacity(trace)
        return f"{said}{why.why}" if why is not None else said
    if trace.enough:
        return (
            f"{_describe_step(trace, kind)}; {_describe_few_steps(trace)}; the run is too short to show why, so "
            "train for longer"
        )
    count = int(trace.steps.steady.sum())
    said = f"{count or 'no'} steady step{'' if count == 1 else 's'}"
    more = "train for longer" if _has_trained(trace) else "no training was found"
    return f"{said} recorded, which is too few; {more}"


def _describe_epoch_start(trace: Trace, part: Part) -> str:
    """What takes most of the time between epochs, if the iterators that begin them tell."""
    steps = trace.steps
    if part.name != Phase.EPOCH or not len(steps):
        return ""
    made = [e.end_ms for e in trace.events_of("iterator")]
    first = [float(steps.start_ms[i]) for i in np.flatnonzero(np.diff(steps.block, prepend=-1))]
    before = [max((m for m in made if m <= at), default=at) for at in first]
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
    said = _category_phrase(trace, category)
    bound = max(BOUND_BY.get(kind, (category,)), key=trace.mean)
    parts = [f"{format_number(trace.mean(category))} ms of it {said}"]
    if bound is not category and trace.mean(bound):
        near = trace.mean(bound) >= 0.5 * trace.mean(category)  # the verdict's category comes first, unless it is small
        own = f"{format_number(trace.mean(bound))} ms {'of it ' if near else ''}{_category_phrase(trace, bound)}"
        parts = [own, f"{format_number(trace.mean(category))} ms {said}"] if near else [*parts, own]
    return f"{of} {format_number(trace.step_ms)} ms, {' and '.join(parts)}"


def _category_phrase(trace: Trace, category: Category) -> str:
    """What a step does in the time of a category."""
    if category is Category.DEVICE and waits_for_copies(trace):
        return "in its program, where it mostly waits for copies that the program started"
    made = trace.lane("iterator")
    made = made.where((made.thread == trace.main) & host_work.is_outermost(made))
    if category is Category.INPUT and host_work.ms_per_step(trace, made) > 0.5 * trace.mean(category):
        return f"creating iterators and {CATEGORY_PHRASES[category]}"
    return CATEGORY_PHRASES[category]


def _describe_between_steps(trace: Trace, first: Diagnosis) -> str:
    """Where most of the run goes, if that is outside the steps and the first cure can be about it; else empty.

    What starts and ends every run (imports, for example) is left out, because no cure is about it.
    """
    told = {**OUTSIDE_PHASES, **STARTUP_PHASES}
    parts = [p for p in trace.run.parts if p.name in told or p.name == Phase.STEPS]
    most = max(parts, key=lambda p: p.ms, default=None)
    if first.saving.scope != "run" or most is None or most.name not in told or not trace.step_ms:
        return ""
    if most.ms < MIN_PHASE_TO_SAVING * first.saving.ms:
        return ""
    return f"{format_number(most.ms / 1e3)} of the run's {format_number(trace.run_ms / 1e3)} s are {told[most.name]}"


def checkup_notes(trace: Trace, findings: Findings) -> Iterator[str]:
    """Notes on the measurement itself."""
    yield from trace.fact("notes", default=())
    yield from _recording_end_note(trace)
    if (taken := crowding_cores(trace)) >= MIN_OTHER_PROCESSORS:
        yield (
            f"other processes used {format_count(taken, 'processor', 2)} and left almost none idle: times and "
            "savings may differ on an idle machine"
        )
    code = trace.fact("launch", "exit_code")
    if code is None and trace.fact("launch", default=None):
        yield "the run did not end normally: the report covers what was recorded before that"
    elif has_failed(trace):
        how = f"was ended by signal {code - 128}" if code > 128 else f"ended with exit code {code}"
        yield f"the script {how}; the report covers what was recorded before that"
    if len(trace.steps) and trace.kernels is None and not trace.fact("unread"):
        yield "no deep window was recorded: the time inside a function call cannot be attributed"
    yield from lost_card.lost_card_notes(trace)
    yield from _window_notes(trace)
    if len(trace.steps) and opaque_calls.find_opacity(trace) is opaque_calls.NO_GPU_TIMELINE:
        yield (
            f"the time inside a function call cannot be attributed{opaque_calls.NO_GPU_TIMELINE.why}: "
            f"{opaque_calls.NO_GPU_TIMELINE.advice}"
        )
    if len(trace.steps) and Signal.INPUT not in trace.signals and trace.fact("told_steps", default=True):
        yield "the wait for input inside the training function was not measured"
    if input_feed.uses_worker_processes(trace):
        yield "worker processes make the batches, and they are not recorded: the cost of their Python is not known"
    if trace.fact("faults", default=None):
        yield f"the recorder had {len(trace.fact('faults'))} internal error(s) and continued without the affected parts"
    several = [d for d in findings.diagnoses if d.saving.speedup > 1.0]
    yield from _extra_gain_note(trace, several[0] if several else None)
    if findings.together is not None and len(several) > 1:
        whole = findings.together
        gain = f"{format_speedup(whole.speedup)} ({format_speedup(whole.low)} to {format_speedup(whole.high)})"
        yield f"all cures together make the {whole.scope} {gain} as fast; their savings overlap"
    if len(trace.steps) and trace.fact("told_steps", default=True):
        yield f"steps are counted by: {trace.steps.source}"


def _window_notes(trace: Trace) -> Iterator[str]:
    """How much longer profiled steps are. On an accelerator the division of a step comes from them."""
    profiled = trace.device.profiled if trace.device is not None else None
    usual = trace.steps.quantile_ms(0.5)
    if profiled is not None and profiled.step_ms > MIN_WINDOW_INFLATION * usual:
        longer = (
            f"{format_number(profiled.step_ms / usual)} times the usual step ({format_number(profiled.step_ms)} ms)"
        )
        yield (
            f"the {profiled.steps} profiled steps take {longer}: the step shown here has their device time in "
            "milliseconds, and its host time is divided in their proportions"
        )


def _extra_gain_note(trace: Trace, first: Diagnosis | None) -> Iterator[str]:
    """Why the first cure saves more than a step waits for its input, which is what the bars show."""
    wait = trace.mean(Category.INPUT)
    if first is None or not first.cause.startswith("input/") or first.saving.scope != "step" or trace.fact("profile"):
        return
    more = first.saving.ms - wait
    if more >= MIN_EXTRA_GAIN_SHARE * trace.step_ms:
        of = "cores and Python's lock" if trace.producers else "cores"
        spared = f"{format_number(more, 2)} ms more than the wait for input"
        yield f"curing {first.cause} saves {spared}: making batches competes with the rest of the step for {of}"


def _recording_end_note(trace: Trace) -> Iterator[str]:
    """Says that the recording covers only the beginning of the run."""
    why = trace.fact("ended")
    if why:
        start, end = (trace.fact("launch", key) for key in ("start_ns", "end_ns"))
        of = f" of {format_number((end - start) / 1e9)} s" if isinstance(start, int) and isinstance(end, int) else ""
        seen = f"the report covers its first {format_number(trace.run_ms / 1e3)} s{of}"
        yield f"the recording ended before the script did ({why}): {seen}"


def next_steps_for(trace: Trace, findings: Findings, folder: Path) -> Iterator[str]:
    first = find_nonfinite_loss(findings) or first_gaining(findings)
    if killed := startup_headline.next_steps_after_kill(trace):
        yield from killed
    elif (first := first or gain_words.first_without_claim(findings)) is not None:
        for prescription in first.prescriptions[:1]:
            yield prescription.says
        yield f"slowtrain explain {first.cause}"
        if trace.fact("profile"):
            yield (
                "run slowtrain run SCRIPT on the script's machine: it names source lines and measures what a "
                "profile does not contain"
            )
            return
        if any(p.edits for p in first.prescriptions):
            yield "run slowtrain fix with the same script and arguments: it applies this edit and measures the gain"
        yield f"after the change, run slowtrain run again, then slowtrain compare {folder} NEW"
    elif has_failed(trace) and trace.fact("launch", "exit_code") != INTERRUPTED_EXIT_CODE:
        yield _failure_next_step(trace)
    elif _describe_peer_wait(trace):
        yield "read the recordings of the other ranks: the rank that waits least sets the length of a step"
    elif not _has_trained(trace):
        yield (
            "no training was found (a step of fit or train_on_batch, a call of a tf.function or jax.jit function "
            "that computes a gradient, a gradient computed eagerly): run Slowtrain on the script that trains; "
            "processes that the script starts are not recorded"
        )
    elif trace.fact("profile"):
        yield "run slowtrain run SCRIPT on the script's machine: it measures what a profile does not contain"
    elif not trace.enough or is_negligible(trace):
        yield "run it again and train for longer"
    elif not findings.diagnoses:
        yield _next_step_without_cause(trace)


def _has_trained(trace: Trace) -> bool:
    """Whether anything trained, even for a step or two, which are too few to analyse."""
    names = {
        trace.names[int(n)].text
        for lane in ("step", "on_batch", "gradient")
        for n in set(trace.lane(lane).name.tolist())
    }
    told = any(e.data.get("training") for e in trace.events_of("trace"))
    return bool(len(trace.steps)) or bool(names & {"train", "gradient"}) or told


def _failure_next_step(trace: Trace) -> str:
    """The next step after a script that failed."""
    code = trace.fact("launch", "exit_code")
    if code > 128:
        by = "a batch system, the kernel because memory ran out, a crash in native code"
        return f"find out what sent signal {code - 128} ({by}), then run it again"
    if any(trace.events_of("failure")):
        return "fix the script's own error (its traceback is above), then run it again"
    return f"read what the script printed about its exit code {code}, then run it again"


def _next_step_without_cause(trace: Trace) -> str:
    """The next step if no cause was found."""
    unseen = (
        opaque_calls.find_opacity(trace) if trace.is_mostly_unattributed else opaque_calls.opacity_hiding_cause(trace)
    )
    if unseen is not None:
        return unseen.advice
    category = unexplained_category(trace)
    if category is Category.DISPATCH:
        return "look for loops in the graph and for many small ops: the HTML report lists the ops of the step"
    if category is not None:
        return "look at the input pipeline: the HTML report shows the cost of each node"
    return "nothing to fix: more speed needs a cheaper model or a faster machine"
