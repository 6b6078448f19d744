"""Host memory that grows from step to step."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.model import Evidence, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.script.locations import line_roles
from slowtrain.trace import Trace
from slowtrain.trace.signals import growth_suspects, memory_growth
from slowtrain.trace.signals.drift import step_growth
from slowtrain.trace.signals.growth_suspects import GrowingContainer, KeptObjects
from slowtrain.trace.signals.input_feed import free_host_bytes
from slowtrain.trace.signals.memory_growth import MemorySlope
from slowtrain.whatif import Remedy

MAX_HOURS_TO_SPOIL = 24.0  # memory that is full before a run of a day has ended matters more than any saving
MAX_SLOWDOWN = 10.0  # of the mean step until memory is full: a run that gets slower than that is ended before
MIN_GROWN_BYTES = 32 << 20  # after warm-up: recordings of healthy and cured scripts of clinic/ gained 13 MB at most
MIN_UNEXPLAINED_BYTES = 128 << 20  # if nothing was seen that keeps them: allocators take threads' arenas of 64 MiB
MIN_TRACES = 5  # functions traced after warm-up
MAX_BUFFER_RATIO = 1.5  # memory per buffered byte: allocators round up, and elements on their way count too
MAX_HOURS_UNTIL_FULL = 30 * 24.0  # no run lasts long enough to notice a slower growth
MIN_TRACES_PER_UNIT = 0.5  # functions a step or call: then the tracing is the cause, and host/retracing has the cure


class HostGrowth(Struct, frozen=True):
    """Memory that grows by ``slope``, and is full after ``hours`` if these are known.

    ``suspects`` are containers of the script that keep it. ``kept`` are objects to which no name of the script leads.
    """

    slope: MemorySlope
    suspects: tuple[GrowingContainer, ...]
    kept: KeptObjects | None
    traces_per_step: float
    hours: float | None

    def evidence(self, trace: Trace) -> Evidence:
        kept, unit = self.kept, memory_growth.growth_unit(trace)
        numbers = self.slope.numbers(self.hours) | {"traces_per_step": self.traces_per_step}
        parts = [
            self.slope.describe(unit),
            self._keeper_text(trace),
            self.slope.time_until_full(free_host_bytes(trace), self.hours),
        ]
        places = line_roles.growth_places(trace, self.suspects, retraced=self.traces_per_step > 0)
        if kept is not None and kept.places:
            places = kept.places
        return Evidence("; ".join(filter(None, parts)), numbers | (kept.numbers() if kept is not None else {}), places)

    def _keeper_text(self, trace: Trace) -> str:
        unit = memory_growth.growth_unit(trace)
        if self.suspects:
            return "; ".join(one.describe(unit) for one in self.suspects[:2])
        traced = self.traces_per_step * unit.steps
        if self.kept is None and traced and (traced >= MIN_TRACES_PER_UNIT or unit.steps == 1000.0):
            return f"functions are traced again, {_count_text(traced)} per {unit.name}, and each keeps its graph"
        says = "none of the script's own names leads to what keeps it"
        return f"{says}: {self.kept.describe(unit)}" if self.kept is not None else says


class HostLeak(Cause[HostGrowth]):
    """The process's memory grows from step to step, until the machine or the container kills it."""

    title = "Host memory grows"
    verdict_word = VerdictKind.MEMORY
    fills_memory = True
    lines_shared_as = "kept tensor"
    needs = frozenset({Signal.MEMORY})
    scope = "run"
    matters = True
    words = ("gradient", "Session")

    def find(self, trace: Trace) -> HostGrowth | None:
        return _find_host_growth(trace)

    def evidence(self, trace: Trace, finding: HostGrowth) -> Evidence:
        return finding.evidence(trace)

    def remedies(self, trace: Trace, finding: HostGrowth) -> Sequence[Remedy]:
        return []  # memory that is kept costs no time until it is full

    def spoils_in(self, trace: Trace, finding: HostGrowth) -> bool:
        """Whether the run will be killed today, by what the script itself keeps, before it gets too slow to go on."""
        hours = finding.hours if finding.hours is not None else MAX_HOURS_UNTIL_FULL
        if hours >= MAX_HOURS_TO_SPOIL or not finding.suspects:
            return False
        # How long the same steps take if they do not get slower.
        even_ms = (free_host_bytes(trace) or 0.0) / finding.slope.per_step * trace.step_ms
        return 3.6e6 * hours < MAX_SLOWDOWN * even_ms


def _count_text(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{format_number(value, 2)}"


def _find_host_growth(trace: Trace) -> HostGrowth | None:
    slope = memory_growth.memory_slope(trace, *memory_growth.process_memory(trace))
    if slope is None:
        return None
    containers = growth_suspects.growing_containers(trace)
    of_contents = growth_suspects.content_slope(slope, containers)
    if not slope.grows or slope.total_bytes < MIN_GROWN_BYTES:
        if of_contents is None:
            return None
        slope = of_contents
    suspects = growth_suspects.main_suspects(containers, slope.per_step)
    if not suspects and of_contents is not None:  # work on what is kept may take as much memory again, or more
        slope, suspects = of_contents, growth_suspects.main_suspects(containers, of_contents.per_step)
    traces_per_step = memory_growth.traces_per_step(trace)
    retraced = traces_per_step * slope.steps >= MIN_TRACES
    kept = None if suspects or retraced else growth_suspects.find_kept_objects(trace, slope.per_step)
    if not suspects and not (_exceeds_buffers(trace, slope) and (retraced or _is_kept_for_good(trace, slope, kept))):
        return None
    free = free_host_bytes(trace)
    even_hours = slope.hours(free, trace.step_ms)
    if even_hours is not None and even_hours > MAX_HOURS_UNTIL_FULL:
        return None
    hours = slope.hours(free, trace.step_ms, step_growth.slower_ms_per_step(trace))
    return HostGrowth(slope, tuple(suspects), kept, traces_per_step, hours)


def _exceeds_buffers(trace: Trace, slope: MemorySlope) -> bool:
    """Whether memory grew by more than the input pipeline was seen to buffer."""
    return slope.total_bytes > MAX_BUFFER_RATIO * memory_growth.pipeline_buffer_bytes(trace)


def _is_kept_for_good(trace: Trace, slope: MemorySlope, kept: KeptObjects | None) -> bool:
    """Whether memory to which no name of the script leads stays. Less is enough if a line is known that makes it."""
    # Python's collector frees what only circles of references keep, when it goes through all objects.
    stays = memory_growth.was_collected(trace) or (kept is not None and not kept.collects)
    least = MIN_GROWN_BYTES if kept is not None and kept.lines else MIN_UNEXPLAINED_BYTES
    return stays and slope.total_bytes >= least
