"""Work of a pipeline that is the same in every epoch, and whose result is visibly small enough to keep."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from slowtrain.model import Edit
from slowtrain.source import READERS, Source, edits
from slowtrain.source.cures.input import datasets
from slowtrain.source.reading import finding, index, repeatable, scopes
from slowtrain.source.reading.input import chains, costly, elements, pipelines

MOST_BYTES = 2**28  # assumed: 256 MiB are free wherever a model is trained
NUMBER_BYTES = 8  # at most
PASSING = frozenset({"shuffle", "take", "skip", "shard", "prefetch", "with_options", "enumerate"})


@dataclass(frozen=True)
class Again:
    """``call`` does ``does`` for each element anew; ``edits`` keep the result of ``bytes`` at most, exactly or not."""

    call: ast.Call
    does: str
    bytes: int
    edits: tuple[Edit, ...]
    exact: bool


def work(source: Source) -> Iterator[Again]:
    """The last such work of each pipeline that training goes through several times."""
    for flow in pipelines.of(source):
        if {"cache", "snapshot", "take"} & set(flow.names) or not {"map", "from_generator"} & set(flow.names):
            continue
        count = elements.count(source, flow)
        found = [one for call in flow.calls if count and (one := _at(source, call, count)) is not None]
        if found and pipelines.repeated(source, flow):
            yield found[-1]


def too_early(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """A ``cache`` of nothing but names, with the same long work behind it in every epoch; and what that does."""
    for flow in pipelines.of(source) if index.of(source).called("cache") else ():
        caches = [c for c in flow.calls if finding.called(c) == "cache"]
        before = flow.before(caches[0]) if len(caches) == 1 else ()
        plain = bool(before) and {finding.called(c) for c in before[1:]} <= PASSING
        if not plain or finding.called(before[0]) not in ("from_tensor_slices", "list_files", "from_tensors"):
            continue
        for call in flow.after(caches[0]):
            if finding.called(call) == "map" and call.args:
                function = pipelines.function(source, call)
                if function is None or repeatable.drawing(source, call.args[0]) or _mapped(source, call) is None:
                    break
                inner = [finding.called(c) for c in pipelines.calls(pipelines.reached(source, function))]
                does = next((name for name in inner if name.startswith(costly.READING)), None)
                if does is not None and pipelines.repeated(source, flow):
                    yield caches[0], does
                break


def _at(source: Source, call: ast.Call, count: int) -> Again | None:
    generated = finding.called(call) == "from_generator"
    if scopes.loops(source, call):
        return None  # one of several maps: no place for a cache
    if finding.called(call) == "map":
        does, numbers = _mapped(source, call), elements.picture(source, call)
    elif generated:
        does, numbers = _generated(source, call), elements.signature(source, call)
    else:
        return None
    size = count * numbers * NUMBER_BYTES if numbers is not None else None
    if does is None or size is None or size > MOST_BYTES:
        return None
    names = ("from_generator",) if generated else ()
    made, exact = datasets.cached(source, edits.end(call.func)[0], None, *names)
    return Again(call, does, size, tuple(made), exact) if made else None


def _mapped(source: Source, call: ast.Call) -> str | None:
    found = costly.work(source, call.args[0], call) if call.args and chains.operates(call) else None
    return found.says if found is not None and not found.python else None


def _generated(source: Source, call: ast.Call) -> str | None:
    """How a generator reads files, if it does."""
    given = finding.keyword(call, "generator", 0)
    made = finding.defined(source, given.id, call) if isinstance(given, ast.Name) else None
    if made is None:
        return None
    for inner in pipelines.calls(pipelines.reached(source, made)):
        name = scopes.full(source, inner.func)
        if name == "os.open" or finding.called(inner) in READERS - {"load", "get"} or name == "numpy.load":
            return name
    return None
