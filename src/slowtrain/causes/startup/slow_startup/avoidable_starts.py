"""Parts of the start that could be avoided: models built repeatedly, functions traced for each shape."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from enum import Enum, auto

import numpy as np
from msgspec import Struct, field

from slowtrain.model import Place
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import (
    distinct_places,
    is_in_keras,
    ms_of_samples,
    starts_within,
    training_start_ms,
)
from slowtrain.trace.signals.host.retraces import traces_by_function
from slowtrain.trace.signals.host.source_lines import called_name, loops_around, source_tree

MIN_SHAPE_TRACES = 3  # traces of one function before it is called


class AvoidableKind(Enum):
    """Why a part of the start could have been avoided; each has its own cure."""

    XLA = auto()  # compiled for a short run
    LAST_BATCH = auto()  # compiled again for the smaller last batch
    LAYER = auto()  # unrolled in the graph, a part for each iteration of a loop
    STEPS = auto()  # whole training steps, unrolled
    MODELS = auto()  # built repeatedly
    SHAPES = auto()  # one function traced for each shape


class AvoidableStart(Struct, frozen=True):
    """A part of the start: its time, and how much of it could have been avoided."""

    kind: AvoidableKind
    says: str
    ms: float
    avoidable_ms: float
    places: tuple[Place, ...]
    spread: tuple[float, float] = (0.7, 1.1)  # relative to ``avoidable_ms``, measured on models built again
    when: str = "before the first step"
    also: str = ""  # continues the sentence
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def least_ms(self) -> float:
        """The lower bound of the saving."""
        return self.avoidable_ms * self.spread[0]


def repeated_model_building(trace: Trace) -> AvoidableStart | None:
    """Return models built repeatedly before the first step, as far as samples were in Keras."""
    begins = training_start_ms(trace)
    stack = trace.lane("stack").starting_between(0.0, begins)
    training_traces = [e for e in trace.events_of("trace") if e.data.get("training")]
    stack = stack.where(~starts_within(stack, [*training_traces, *trace.events_of("loop")]))
    keras = np.array([is_in_keras(n) for n in trace.names], dtype=bool)
    imports = trace.lane("import")
    loaded = float(imports.end_ms.max()) if len(imports) else 0.0
    inside = stack.where(keras[stack.name] & (stack.start_ms > loaded)) if len(stack) else stack
    if len(inside) < 5:
        return None
    places = distinct_places(trace.names[int(n)].place for n, _ in Counter(inside.name.tolist()).most_common())
    copies = _built_model_count(trace, begins, places)
    if copies <= 2:  # a model with equally many layers with and without weights counts as two
        return None
    ms = float(ms_of_samples(trace, inside).sum())
    return AvoidableStart(AvoidableKind.MODELS, f"building {copies:.0f} models", ms, ms * (1 - 1 / copies), places[:3])


def repeated_shape_traces(trace: Trace) -> AvoidableStart | None:
    """Return a training function that was traced for several shapes before it was called.

    One trace with open shapes would be enough.
    """
    begins = float(trace.steps.start_ms[0]) if len(trace.steps) else trace.run_ms
    for one in traces_by_function(trace):
        early = [e for e in one.events if e.data.get("training") and e.end_ms <= begins]
        if len(early) >= MIN_SHAPE_TRACES:
            ms = sum(e.ms for e in early)
            says = f"tracing {one.name} {len(early)} times, once for each of its signatures,"
            places = distinct_places(e.place for e in early)
            return AvoidableStart(AvoidableKind.SHAPES, says, ms, ms * (1 - 1 / len(early)), places[:3])
    return None


def _built_model_count(trace: Trace, begins: float, places: tuple[Place, ...]) -> float:
    """Return how many models of the trained one's size were built, from the layers made, else from the loop's count."""
    layers = len({w.get("layer") for e in trace.events_of("loop") for w in e.data.get("weights") or ()})
    if layers:
        # The model's list has no layers without weights; assumes that they are half of the layers made.
        return float((trace.lane("build").start_ms < begins).sum()) / (2 * layers)
    for place in places[:3]:
        tree = source_tree(trace, place.file)
        for loop in loops_around(tree, place.line) if tree is not None else ():
            for call in (n for n in ast.walk(loop) if isinstance(n, ast.Call) and called_name(n) == "range" and n.args):
                value = getattr(call.args[-1], "value", None)
                if isinstance(value, int):
                    return float(value)
    return 0.0
