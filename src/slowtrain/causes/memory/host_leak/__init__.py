"""Host memory that grows from step to step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.causes.memory.host_leak import fix
from slowtrain.model import Edit, Effect, Evidence, Prescription, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.script.locations import growth_lines
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import measured
from slowtrain.trace import Trace
from slowtrain.trace.signals.drift import step_growth
from slowtrain.trace.signals.input.input_feed import free_host_bytes
from slowtrain.trace.signals.memory import growth_suspects, kept_objects, memory_growth
from slowtrain.trace.signals.memory.growth_suspects import GrowingContainer
from slowtrain.trace.signals.memory.kept_objects import KeptObjects
from slowtrain.trace.signals.memory.memory_growth import GrowthUnit, MemorySlope
from slowtrain.whatif import Remedy

LEAST_BYTES = 32 << 20  # gained after warm-up: recordings of healthy and cured scripts of clinic/ gained 13 MB at most
LEAST_UNEXPLAINED_BYTES = 128 << 20  # where nothing was seen that keeps it: allocators take threads' arenas of 64 MiB
LEAST_TRACES = 5  # functions traced after warm-up
FILLED = 1.5  # buffered bytes take so much memory at most: allocators round up, and what is on its way counts too
LONGEST_H = 30 * 24.0  # at a rate that fills the memory later than this, no run would notice
SOON_H = 24.0  # before a run of a day has ended: then nothing else matters as much
ROOM = 0.25  # of the memory that was free throughout: what a container that grows may take
SLOWED = 10.0  # times as long as now, a mean step until memory is full: nobody waits for that
RETRACED = 0.5  # functions a step or call: then the tracing is the cause, and its cure that of host/retracing


class HostLeak(Cause[Evidence]):
    """The process's memory grows from step to step, until the machine or the container kills it."""

    title = "Host memory grows"
    verdict_word = VerdictKind.MEMORY
    fills_memory = True
    lines_shared_as = "kept tensor"
    needs = frozenset({Signal.MEMORY})
    scope = "run"
    matters = True
    words = ("gradient", "Session")

    def find(self, trace: Trace) -> Evidence | None:
        found = memory_growth.memory_slope(trace, *memory_growth.process_memory(trace))
        if found is None:
            return None
        keeping = growth_suspects.growing_containers(trace)
        own = growth_suspects.content_slope(found, keeping)
        if not found.grows or found.total_bytes < LEAST_BYTES:
            if own is None:
                return None
            found = own
        why = growth_suspects.main_suspects(keeping, found.per_step)
        if not why and own is not None:  # work on what is kept may take as much again, and more, until it is freed
            found, why = own, growth_suspects.main_suspects(keeping, own.per_step)
        traced = memory_growth.traces_per_step(trace)
        retraced = traced * found.steps >= LEAST_TRACES
        behind = None if why or retraced else kept_objects.find_kept_objects(trace, found.per_step)
        if not why and not _believed(trace, found, retraced, behind):
            return None
        left = free_host_bytes(trace)
        hours = found.hours(left, trace.step_ms)
        if hours is not None and hours > LONGEST_H:
            return None
        hours = found.hours(left, trace.step_ms, step_growth.slower_ms_per_step(trace))
        numbers = found.numbers(hours) | {"traces_per_step": traced} | (behind.numbers() if behind is not None else {})
        unit = memory_growth.growth_unit(trace)
        said = [found.said(unit), _what(why, traced, unit, behind), found.until(left, hours)]
        places = growth_lines.growth_places(trace, why, retraced=traced > 0)
        if behind is not None and behind.places:
            places = behind.places
        return Evidence("; ".join(filter(None, said)), numbers, places)

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return []  # memory that is kept costs no time until it is full

    def spoils_in(self, trace: Trace, evidence: Evidence) -> bool:
        """A run that will be killed today, by what the script itself keeps, and not slowed down to nothing before."""
        per_step, hours = evidence.numbers["per_step_bytes"], evidence.numbers.get("full_in_h", LONGEST_H)
        if hours >= SOON_H or not growth_suspects.main_suspects(growth_suspects.growing_containers(trace), per_step):
            return False
        even_ms = (free_host_bytes(trace) or 0.0) / per_step * trace.step_ms  # the same steps, did they not get slower
        return 3.6e6 * hours < SLOWED * even_ms

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        why = growth_suspects.main_suspects(
            growth_suspects.growing_containers(trace), evidence.numbers["per_step_bytes"]
        )
        tensors = [one for one in why if "Tensor" in one.element]
        if tensors:
            made = _edited(trace, tensors[0], fix.reduced)
            less = "keep numbers, not tensors: float(loss), or value.numpy() at most"
            if made:
                less = f"keep in `{tensors[0].path}` only what is read of it later"
            yield Prescription("edit" if made else "advice", Effect.EXACT, less, edits=made)
        if why and why[0].array:
            says = f"keep the newest part of `{why[0].path}`, a slice of a fixed length, or write out what is not read"
            yield Prescription("advice", Effect.EXACT, says)
        elif why and why[0].kind == "graph":
            says = "make ops once, before the loop, and feed what changes; graph.finalize() fails at the line that adds"
            yield Prescription("advice", Effect.EXACT, says)
        elif why and why[0].at_least:
            yield from _models(why[0])
        elif why:
            yield _limit(trace, why)
        elif evidence.numbers["traces_per_step"] and not kept_objects.EVIDENCE_KEYS & evidence.numbers.keys():
            yield Prescription("advice", Effect.EXACT, "make functions and models once, outside the loop")
            yield Prescription("advice", Effect.EXACT, "call keras.backend.clear_session() between models")
        else:
            yield _sought(kept_objects.find_kept_objects(trace, evidence.numbers["per_step_bytes"]))


def _models(one: GrowingContainer) -> Iterable[Prescription]:
    says = f"keep in `{one.path}` what is read of each model later: its score, history.history, its weights in a file"
    yield Prescription("advice", Effect.EXACT, says)
    says = "call keras.backend.clear_session() in each turn, once nothing holds the model"
    yield Prescription("advice", Effect.EXACT, says)


def _limit(trace: Trace, why: Sequence[GrowingContainer]) -> Prescription:
    """A limit to what grows: as many as a quarter of the memory that was free throughout has room for."""
    one, free = why[0], free_host_bytes(trace)
    most = _round(ROOM * free / one.element_bytes) if free and one.element_bytes else 0
    made = _edited(trace, one, lambda text, found: fix.limited(text, found, most)) if most else ()
    names = ", ".join(f"`{one.path}`" for one in why[:3])
    if not made:
        says = f"give {names} a limit (collections.deque(maxlen=…)), or write it out and clear it"
        return Prescription("advice", Effect.EXACT, says)
    steers = any(fix.trains_with(text, found) for text, found in _named(trace, one))
    room = memory_growth.format_bytes(most * one.element_bytes)
    says = f"keep the last {most:,} of `{one.path}`, at most {room}, and forget older ones"
    return Prescription("edit", Effect.CHANGES_TRAINING if steers else Effect.EXACT, says, edits=made)


def _round(number: float) -> int:
    """Down to one figure: 106,123 becomes 100,000."""
    digits = len(str(int(number))) - 1
    return int(number) // 10**digits * 10**digits if number >= 1 else 0


def _named(trace: Trace, one: GrowingContainer) -> list[tuple[Source, fix.Kept]]:
    text = recorded_source(trace, one.file) if one.file else None
    attribute = "." in one.path
    found = fix.every(text, one.named, one.kind) if text is not None else ()
    return [(text, k) for k in found if text is not None and k.attribute is attribute]


def _edited(trace: Trace, one: GrowingContainer, cure: Callable[[Source, fix.Kept], list[Edit]]) -> tuple[Edit, ...]:
    for text, found in _named(trace, one):
        made = cure(text, found)
        if made and measured.parses(text, made):
            return tuple(made)
    return ()


def _believed(trace: Trace, found: MemorySlope, retraced: bool, behind: KeptObjects | None) -> bool:
    """Whether memory that no name of the script's leads to is kept for good; less will do where a line makes it."""
    if found.total_bytes <= FILLED * memory_growth.pipeline_buffer_bytes(trace):
        return False
    # What only circles of references keep is freed when Python's collector goes through all objects.
    stays = memory_growth.was_collected(trace) or (behind is not None and not behind.collects)
    least = LEAST_BYTES if behind is not None and behind.lines else LEAST_UNEXPLAINED_BYTES
    return retraced or (stays and found.total_bytes >= least)


def _sought(behind: KeptObjects | None) -> Prescription:
    """Of what no name leads to: how it is found."""
    if behind is not None and not behind.collects:
        says = "leave Python's collector on, or call gc.collect() now and then: nothing else frees circles"
    elif behind is not None and behind.kinds:
        says = f"look who refers to objects of type `{behind.kinds[0].short}`: gc.get_referrers() of one of them"
    elif behind is not None:
        says = "look what becomes of what is made there: gc.get_referrers() of it, some steps later"
    else:
        says = "look for what is kept: tracemalloc between two epochs names its line"
    return Prescription("advice", Effect.EXACT, says)


def _what(why: Sequence[GrowingContainer], traced: float, unit: GrowthUnit, behind: KeptObjects | None) -> str:
    if why:
        return "; ".join(one.said(unit) for one in why[:2])
    if behind is None and traced and (traced * unit.steps >= RETRACED or unit.steps == 1000.0):
        return f"functions are traced again, {_count(traced * unit.steps)} per {unit.name}, and each keeps its graph"
    says = "what keeps it is behind none of the script's own names"
    return f"{says}: {behind.said(unit)}" if behind is not None else says


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{format_number(value, 2)}"
