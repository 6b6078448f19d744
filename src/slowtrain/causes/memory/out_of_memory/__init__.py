"""The run died since its memory was exhausted."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from slowtrain.causes import Cause
from slowtrain.columns.spans import Event
from slowtrain.model import Effect, Evidence, Place, Prescription, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy

# In an advice that changes what is trained.
CHANGING = ("halve the batch", "divide the batch", "float16", "a smaller model", "optimizer with less")
FIGURES = ("asked_bytes", "limit_bytes", "in_use_bytes", "free_bytes", "largest_free_bytes")


class OutOfMemory(Cause[Evidence]):
    """The script ended since an allocator could not give what an op asked for."""

    title = "Memory ran out"
    verdict_word = VerdictKind.MEMORY
    fills_memory = True
    exhausts_memory = True
    needs = frozenset({Signal.ENDING})
    scope = "run"
    matters = True
    spoils = True

    def find(self, trace: Trace) -> Evidence | None:
        failure = _failure(trace)
        told = _told(trace, failure)
        if not trace.fact("launch", "exit_code") or told is None:
            return None
        asked = [f"by {told['op']}"] if told.get("op") else []
        asked += [f"for {told['dtype'] or 'a tensor'} {list(told['shape'])}"] if told.get("shape") else []
        said = f" (asked {' '.join(asked)})" if asked else ""
        held = told.get("held") or []
        most = f"; most was held by {held[0][0]}" if held and told.get("in_use_bytes") else ""
        numbers = {name: float(told[name]) for name in FIGURES if told.get(name) is not None}
        place = failure.place if failure is not None and failure.place is not None else _place(told.get("site"))
        return Evidence(
            f"{told['says']}{said}{most}{_in_use(told, failure)}", numbers, (place,) if place is not None else ()
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return []

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        failure = _failure(trace)
        told = _told(trace, failure) or {}
        yield from _record(trace, failure)
        for says, gain in told.get("advice") or []:
            worth = f" ({format_number(gain / 2**20)} MiB)" if gain else ""
            smaller = any(word in says for word in CHANGING)
            yield Prescription("advice", Effect.CHANGES_TRAINING if smaller else Effect.EXACT, says + worth)
        yield Prescription(
            "advice", Effect.EXACT, "slowtrain memory with this script tells the largest batch that fits"
        )


def _failure(trace: Trace) -> Event | None:
    return next((e for e in trace.events_of("failure") if e.data.get("exhausted")), None)


def _told(trace: Trace, failure: Event | None) -> Mapping[str, Any] | None:
    """What the allocator's dump said, or else the exception alone."""
    heard = trace.fact("launch", "exhausted")
    if isinstance(heard, Mapping) and heard.get("says"):
        return heard
    if trace.fact("launch", "memory_kill"):
        return _killed(trace)
    if failure is None:
        return None
    words = str(failure.data.get("says") or "")
    from slowtrain.oom import judge_log  # what reads logs has many patterns, and few runs end like this
    from slowtrain.oom.judgement.recorded_summary import recorded_summary
    from slowtrain.oom.reading.log_reader import LogReader

    reader = LogReader()
    reader.feed(f"{failure.name}: {words}\n".encode("utf-8", "replace"))
    reader.close()
    found = recorded_summary(judge_log(reader, "exception"))
    if found is not None and found.get("says"):
        return found
    return {"says": f"{failure.name}: {' '.join(words.split())[:200]}"}


def _record(trace: Trace, failure: Event | None) -> Iterator[Prescription]:
    """How to have the allocator's dump, where it went to a terminal, or to a pipe that standard output shares."""
    launch = trace.fact("launch", default={})
    argv = [str(a) for a in launch.get("argv") or ()][1:]  # without the interpreter
    if failure is None or failure.name == "MemoryError" or launch.get("heard") is not False or not argv:
        return
    told = "TF_CPP_MIN_LOG_LEVEL=0 " if trace.on_jax else ""  # JAX leaves the dump out by itself
    command = f"{told}slowtrain run {shlex.join(argv)} 2> train.err"
    yield Prescription("advice", Effect.EXACT, f"see what held the memory: {command}")


def _in_use(told: Mapping[str, Any], failure: Event | None) -> str:
    """What TensorFlow's allocators counted when the exception came, where no dump says more."""
    devices = (failure.data.get("devices") if failure is not None else None) or {}
    if told.get("in_use_bytes") or not devices:
        return ""
    said = [
        f"{n} {format_number(d['current'] / 2**30)} GiB, {format_number(d['peak'] / 2**30)} at most"
        for n, d in devices.items()
    ]
    return f"; in use then: {', '.join(said)}"


def _killed(trace: Trace) -> Mapping[str, Any]:
    """The kernel ended the script; what it held is that of the last sample, from up to a second before."""
    column = trace.samples.get("rss_bytes")
    rows = np.empty(0) if column is None else column[np.isfinite(column)]
    usable = trace.fact("machine", "memory", "usable_bytes")
    held = f"; it held {format_number(rows[-1] / 2**30)} GiB when last looked at" if len(rows) else ""
    of = f" ({format_number(usable / 2**30)} GiB may be used)" if held and isinstance(usable, (int, float)) else ""
    return {
        "says": f"the kernel ended the script for want of the host's memory{held}{of}",
        "advice": [
            ("hold less of the data in memory at once: read it batch by batch, smaller shuffle buffers", 0),
            ("see what grew: slowtrain explain memory/host-leak", 0),
        ],
        **({"in_use_bytes": float(rows[-1])} if len(rows) else {}),
    }


def _place(site: Any) -> Place | None:
    return Place(str(site[0]), int(site[1])) if isinstance(site, (list, tuple)) and len(site) == 2 else None
