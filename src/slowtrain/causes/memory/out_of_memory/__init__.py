"""The run ended because memory was exhausted."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.columns.spans import Event
from slowtrain.model import Effect, Evidence, Place, Prescription, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy

TRAINING_CHANGES = ("halve the batch", "divide the batch", "float16", "a smaller model", "optimizer with less")
DUMP_FIGURES = ("asked_bytes", "limit_bytes", "in_use_bytes", "free_bytes", "largest_free_bytes")


class ExhaustedMemory(Struct, frozen=True):
    """What the allocator's dump says, or else the exception alone; and the event of that exception, if there is one."""

    dump: Mapping[str, Any]
    failure: Event | None


class OutOfMemory(Cause[ExhaustedMemory]):
    """The script ended because an allocator could not give what an op asked for."""

    title = "Memory ran out"
    verdict_word = VerdictKind.MEMORY
    fills_memory = True
    exhausts_memory = True
    needs = frozenset({Signal.ENDING})
    scope = "run"
    matters = True
    spoils = True

    def find(self, trace: Trace) -> ExhaustedMemory | None:
        if not trace.fact("launch", "exit_code"):
            return None
        failure = next((e for e in trace.events_of("failure") if e.data.get("exhausted")), None)
        dump = _dump_of_run(trace, failure)
        return ExhaustedMemory(dump, failure) if dump is not None else None

    def evidence(self, trace: Trace, finding: ExhaustedMemory) -> Evidence:
        dump, failure = finding.dump, finding.failure
        asked = [f"by {dump['op']}"] if dump.get("op") else []
        asked += [f"for {dump['dtype'] or 'a tensor'} {list(dump['shape'])}"] if dump.get("shape") else []
        request = f" (asked {' '.join(asked)})" if asked else ""
        holders = dump.get("held") or []
        most = f"; {holders[0][0]} held most" if holders and dump.get("in_use_bytes") else ""
        numbers = {name: float(dump[name]) for name in DUMP_FIGURES if dump.get(name) is not None}
        place = failure.place if failure is not None and failure.place is not None else _place_of_site(dump.get("site"))
        return Evidence(
            f"{dump['says']}{request}{most}{_in_use_text(finding)}", numbers, (place,) if place is not None else ()
        )

    def remedies(self, trace: Trace, finding: ExhaustedMemory) -> Sequence[Remedy]:
        return []

    def cures(self, trace: Trace, finding: ExhaustedMemory) -> Iterable[Prescription]:
        yield from _recording_advice(trace, finding.failure)
        for says, gain in finding.dump.get("advice") or []:
            worth = f" ({format_number(gain / 2**20)} MiB)" if gain else ""
            changes = any(word in says for word in TRAINING_CHANGES)
            yield Prescription("advice", Effect.CHANGES_TRAINING if changes else Effect.EXACT, says + worth)
        yield Prescription(
            "advice", Effect.EXACT, "slowtrain memory with this script finds the largest batch that fits"
        )


def _dump_of_run(trace: Trace, failure: Event | None) -> Mapping[str, Any] | None:
    """What the allocator's dump said, or else the exception alone."""
    dump = trace.fact("launch", "exhausted")
    if isinstance(dump, Mapping) and dump.get("says"):
        return dump
    if trace.fact("launch", "memory_kill"):
        return _summary_of_kill(trace)
    if failure is None:
        return None
    message = str(failure.data.get("says") or "")
    from slowtrain.oom import judge_log  # the log reader compiles many patterns, and few runs end like this
    from slowtrain.oom.dump_judgement import recorded_summary
    from slowtrain.oom.log_reader import LogReader

    reader = LogReader()
    reader.feed(f"{failure.name}: {message}\n".encode("utf-8", "replace"))
    reader.close()
    summary = recorded_summary(judge_log(reader, "exception"))
    if summary is not None and summary.get("says"):
        return summary
    return {"says": f"{failure.name}: {' '.join(message.split())[:200]}"}


def _recording_advice(trace: Trace, failure: Event | None) -> Iterator[Prescription]:
    """How to record the allocator's dump, if it went to a terminal, or to a pipe that standard output shares."""
    launch = trace.fact("launch", default={})
    argv = [str(a) for a in launch.get("argv") or ()][1:]  # without the interpreter
    if failure is None or failure.name == "MemoryError" or launch.get("heard") is not False or not argv:
        return
    log_level = "TF_CPP_MIN_LOG_LEVEL=0 " if trace.on_jax else ""  # JAX suppresses the dump by default
    command = f"{log_level}slowtrain run {shlex.join(argv)} 2> train.err"
    yield Prescription("advice", Effect.EXACT, f"see what held the memory: {command}")


def _in_use_text(finding: ExhaustedMemory) -> str:
    """What TensorFlow's allocators counted when the exception came, if no dump says more."""
    failure = finding.failure
    devices = (failure.data.get("devices") if failure is not None else None) or {}
    if finding.dump.get("in_use_bytes") or not devices:
        return ""
    parts = [
        f"{n} {format_number(d['current'] / 2**30)} GiB, {format_number(d['peak'] / 2**30)} at most"
        for n, d in devices.items()
    ]
    return f"; in use then: {', '.join(parts)}"


def _summary_of_kill(trace: Trace) -> Mapping[str, Any]:
    """The summary if the kernel ended the script, with the memory of the last sample, up to a second before."""
    column = trace.samples.get("rss_bytes")
    rows = np.empty(0) if column is None else column[np.isfinite(column)]
    usable = trace.fact("machine", "memory", "usable_bytes")
    last_sample = f"; it held {format_number(rows[-1] / 2**30)} GiB in the last sample" if len(rows) else ""
    of = (
        f" ({format_number(usable / 2**30)} GiB may be used)"
        if last_sample and isinstance(usable, (int, float))
        else ""
    )
    return {
        "says": f"the kernel ended the script because the host's memory was exhausted{last_sample}{of}",
        "advice": [
            ("hold less of the data in memory at once: read it batch by batch, smaller shuffle buffers", 0),
            ("see what grew: slowtrain explain memory/host-leak", 0),
        ],
        **({"in_use_bytes": float(rows[-1])} if len(rows) else {}),
    }


def _place_of_site(site: Any) -> Place | None:
    return Place(str(site[0]), int(site[1])) if isinstance(site, (list, tuple)) and len(site) == 2 else None
