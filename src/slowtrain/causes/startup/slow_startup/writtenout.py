"""Graphs in which a loop of Python is written out: a set of operations for each turn."""

from __future__ import annotations

from slowtrain.causes.startup.slow_startup.compiling import copies_of_step, first_training
from slowtrain.columns.spans import Event
from slowtrain.model import Place
from slowtrain.profile import framework_names
from slowtrain.script.locations import source_locations
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.source.cures.host import kerascalls
from slowtrain.source.spots import reached
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work
from slowtrain.trace.signals.host.avoidable_start import AvoidableKind, AvoidableStart
from slowtrain.trace.signals.host.host_work import distinct_places, source_tree
from slowtrain.trace.signals.host.source_lines import calls_of_names, function_around, loops_around

USUAL_READS = 3.5  # of a variable for each write, in forward, backward and optimizer (2.5 to 4 in models of all kinds)
USUAL_PRODUCTS = 3.0  # with a matrix of weights: forward, and for the gradients of both factors
MOST_WEIGHTS = 50  # that a recording lists of a model
MOST_ALIKE = 0.8  # of the forward pass's ops come again and again in the same lines
ROLLED_MS = 800.0  # a first step of the same layer as a loop in the graph (an LSTM of any length, two cores)


def unrolled(trace: Trace) -> AvoidableStart | None:
    """A graph that uses its variables over and over: one set of operations for each turn of a Python loop."""
    event = first_training(trace)
    types = (event.data.get("graph") or {}).get("types") or {} if event is not None else {}
    written = sum(
        float(types.get(kind) or 0) for kind in ("AssignVariableOp", "AssignSubVariableOp", "AssignAddVariableOp")
    )
    if event is None or not written:
        return None
    times = float(types.get("ReadVariableOp") or 0) / written / USUAL_READS
    if times < 3:
        times = _products(trace, event) or _turns(trace, event)
    batches = float(types.get("IteratorGetNext") or 0)  # each of the same graph: a step behind the other
    whole = times < 3 <= batches
    times = batches if whole else times
    if times < 3:
        return None
    share = 1 - 1 / times
    ops = float(event.data["graph"].get("ops") or 0)
    places = (*_unrolled_lines(trace), *(_written_out(trace, event) or _in_text(trace)), event.place)
    one_behind_the_other = f"{times:.0f} training steps written out one behind the other"
    what = one_behind_the_other if whole else "most of them one loop written out"
    says = f"tracing and starting a graph of {ops:.0f} operations, {what},"
    kind = AvoidableKind.STEPS if whole else AvoidableKind.LAYER
    return AvoidableStart(kind, says, event.ms, max(event.ms * share - ROLLED_MS, 0.0), distinct_places(places))


def _products(trace: Trace, event: Event) -> float:
    """How many times as often the graph multiplies by a matrix of weights as forward and both gradients do.

    Keras' cells read a variable once, however often they use it. A loop in a line of the user's is handwritten-op's.
    """
    graph = event.data.get("graph") or {}
    if any(not framework_names.OPTIMIZER_SCOPE.search(scope) for scope in graph.get("repeated") or ()):
        return 0.0
    kernels = sum(
        len(w.get("shape") or ()) >= 2 and w.get("class") != "Embedding" for w in op_work.largest_model_weights(trace)
    )
    # A model without weights when fit began, or with more than the recording lists: each is moved once, or twice.
    if not op_work.largest_model_weights(trace) or len(op_work.largest_model_weights(trace)) >= MOST_WEIGHTS:
        kernels = max(kernels, int((graph.get("types") or {}).get("AssignSubVariableOp") or 0))
    made = sum(float(n) for n in (graph.get("matrix") or {}).values()) / copies_of_step(event)
    return made / (USUAL_PRODUCTS * kernels) if kernels else 0.0


def _turns(trace: Trace, event: Event) -> float:
    """Turns of a loop of the user's that each go on from the one before, where nearly all of the graph is made of it.

    A solver's steps, say: they read no weights in each turn, by which a layer's could be counted.
    """
    rows = (event.data.get("graph") or {}).get("lines") or ()
    every, alike = (sum(float(row[at]) for row in rows) for at in (2, 3))
    if not every or alike < MOST_ALIKE * every:
        return 0.0
    sources = (recorded_source(trace, file) for file in {str(row[0]) for row in rows})
    found = [turns for one in sources if one is not None for _, turns in reached.written_out(one, chained=True)]
    return float(max(found, default=0))


def _unrolled_lines(trace: Trace) -> tuple[Place, ...]:
    """Lines with the ``True`` of ``unroll=True`` in the files that train."""
    return source_locations.project_places(
        trace, lambda source: (true.lineno for _, true in kerascalls.unrolling(source))
    )


def _in_text(trace: Trace) -> tuple[Place, ...]:
    """Such loops as the text shows them: of a few turns the graph does not say which lines they come from."""
    return source_locations.project_places(
        trace, lambda source: (loop.lineno for loop, _ in reached.written_out(source, chained=True))
    )


def _written_out(trace: Trace, event: Event) -> list[Place]:
    """Loops of the user's around the line that makes most of the graph's ops, or around a call of its function."""
    for file, line, *_ in (event.data.get("graph") or {}).get("lines") or ():
        tree = source_tree(trace, str(file))
        if tree is None:
            continue
        around = loops_around(tree, int(line))
        function = function_around(tree, int(line))
        if not around and function is not None:
            calls = calls_of_names(tree, [function.name])
            around = next((loops for call in calls if (loops := loops_around(tree, call.lineno))), [])
        if around:
            return [Place(str(file), getattr(one, "lineno", 0)) for one in reversed(around)][:2]
    return []
