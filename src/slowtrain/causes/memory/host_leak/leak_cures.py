"""Cures for memory that grows: less of each thing that is kept, a limit, or how to find what keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slowtrain.causes.memory.host_leak import fix
from slowtrain.causes.memory.host_leak.host_growth import HostGrowth
from slowtrain.model import Edit, Effect, Prescription
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace
from slowtrain.trace.signals import memory_growth
from slowtrain.trace.signals.growth_suspects import GrowingContainer, KeptObjects
from slowtrain.trace.signals.input_feed import free_host_bytes

MAX_CONTAINER_SHARE = 0.25  # of the memory that was free throughout: the room that a limited container may take


def cures_of_growth(trace: Trace, finding: HostGrowth) -> Iterable[Prescription]:
    """All cures of a finding, the best first."""
    tensors = [one for one in finding.suspects if "Tensor" in one.element]
    if tensors:
        yield _smaller_elements_cure(trace, tensors[0])
    if finding.suspects:
        yield from _container_cures(trace, finding)
    elif finding.traces_per_step and finding.kept is None:
        yield Prescription("advice", Effect.EXACT, "make functions and models once, outside the loop")
        yield Prescription("advice", Effect.EXACT, "call keras.backend.clear_session() between models")
    else:
        yield _search_advice(finding.kept)


def _container_cures(trace: Trace, finding: HostGrowth) -> Iterable[Prescription]:
    first = finding.suspects[0]
    if first.array:
        says = f"keep the newest part of `{first.path}`, a slice of a fixed length, or write out what is not read"
        yield Prescription("advice", Effect.EXACT, says)
    elif first.kind == "graph":
        says = "make ops once, before the loop, and feed what changes; graph.finalize() fails at the line that adds"
        yield Prescription("advice", Effect.EXACT, says)
    elif first.at_least:
        yield from _model_cures(first)
    else:
        yield _limit_cure(trace, finding)


def _smaller_elements_cure(trace: Trace, container: GrowingContainer) -> Prescription:
    made = _container_edits(trace, container, fix.reduce_elements)
    says = "keep numbers, not tensors: float(loss), or value.numpy() at most"
    if made:
        says = f"keep in `{container.path}` only the part that is read later"
    return Prescription("edit" if made else "advice", Effect.EXACT, says, edits=made)


def _model_cures(container: GrowingContainer) -> Iterable[Prescription]:
    says = f"keep in `{container.path}` only what is read of each model later: its score, history.history, its weights "
    yield Prescription("advice", Effect.EXACT, says + "in a file")
    says = "call keras.backend.clear_session() in each iteration, once nothing holds the model"
    yield Prescription("advice", Effect.EXACT, says)


def _limit_cure(trace: Trace, finding: HostGrowth) -> Prescription:
    """A limit to what grows: as many elements as fit in a part of the memory that was free throughout."""
    container, free = finding.suspects[0], free_host_bytes(trace)
    size = container.element_bytes
    most = _rounded_down(MAX_CONTAINER_SHARE * free / size) if free and size else 0
    made = _container_edits(trace, container, lambda text, named: fix.limit_length(text, named, most)) if most else ()
    if not made:
        names = ", ".join(f"`{one.path}`" for one in finding.suspects[:3])
        says = f"give {names} a limit (collections.deque(maxlen=…)), or write it out and clear it"
        return Prescription("advice", Effect.EXACT, says)
    steers = any(fix.is_read_in_training(text, named) for text, named in _containers_in_text(trace, container))
    room = memory_growth.format_bytes(most * size)
    says = f"keep the last {most:,} of `{container.path}`, at most {room}, and forget older ones"
    return Prescription("edit", Effect.CHANGES_TRAINING if steers else Effect.EXACT, says, edits=made)


def _rounded_down(number: float) -> int:
    """Down to one digit: 106,123 becomes 100,000."""
    digits = len(str(int(number))) - 1
    return int(number) // 10**digits * 10**digits if number >= 1 else 0


def _containers_in_text(trace: Trace, container: GrowingContainer) -> list[tuple[Source, fix.NamedContainer]]:
    text = recorded_source(trace, container.file) if container.file else None
    if text is None:
        return []
    attribute = "." in container.path
    found = fix.named_containers(text, container.named, container.kind)
    return [(text, named) for named in found if named.attribute is attribute]


def _container_edits(
    trace: Trace, container: GrowingContainer, edit: Callable[[Source, fix.NamedContainer], list[Edit]]
) -> tuple[Edit, ...]:
    for text, named in _containers_in_text(trace, container):
        made = edit(text, named)
        if made and recorded_edits.are_valid_edits(text, made):
            return tuple(made)
    return ()


def _search_advice(kept: KeptObjects | None) -> Prescription:
    """How to find what keeps memory to which no name leads."""
    if kept is not None and not kept.collects:
        says = "leave Python's collector on, or call gc.collect() now and then: nothing else frees circles"
    elif kept is not None and kept.kinds:
        says = f"look who refers to objects of type `{kept.kinds[0].short}`: gc.get_referrers() of one of them"
    elif kept is not None:
        says = "look who keeps what is made there: gc.get_referrers() of it, some steps later"
    else:
        says = "look for what is kept: tracemalloc between two epochs names its line"
    return Prescription("advice", Effect.EXACT, says)
