"""Graphs with an unrolled Python loop, which have operations for each of its iterations."""

from __future__ import annotations

from slowtrain.causes.startup.slow_startup.xla_price import copies_of_step, first_training
from slowtrain.columns.spans import Event
from slowtrain.model import Place
from slowtrain.profile import framework_names
from slowtrain.script.fixes.models import keras_calls
from slowtrain.script.lint_rules import graph_code
from slowtrain.script.locations import source_locations
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work
from slowtrain.trace.signals.host.host_work import distinct_places
from slowtrain.trace.signals.host.source_lines import calls_of_names, function_around, loops_around, source_tree
from slowtrain.trace.signals.host.start_parts import AvoidableKind, AvoidableStart

READS_PER_WRITE = 3.5  # of a variable, in forward, backward and optimizer (2.5 to 4 in models of all kinds)
PRODUCTS_PER_WEIGHT = 3.0  # matrix products: forward, and for the gradients of both factors
MAX_LISTED_WEIGHTS = 50  # of a model in a recording
MIN_REPEATED_SHARE = 0.8  # of the forward pass's ops repeat in the same lines
MIN_ITERATIONS = 3
LOOPED_START_MS = 800.0  # a first step of the same layer as a loop in the graph (an LSTM of any length, two cores)


def unrolled_start(trace: Trace) -> AvoidableStart | None:
    """The tracing of a graph that uses its variables repeatedly, in each iteration of a Python loop."""
    event = first_training(trace)
    types = (event.data.get("graph") or {}).get("types") or {} if event is not None else {}
    written = sum(
        float(types.get(kind) or 0) for kind in ("AssignVariableOp", "AssignSubVariableOp", "AssignAddVariableOp")
    )
    if event is None or not written:
        return None
    times = float(types.get("ReadVariableOp") or 0) / written / READS_PER_WRITE
    if times < MIN_ITERATIONS:
        times = _products_factor(trace, event) or _loop_iterations(trace, event)
    batches = float(types.get("IteratorGetNext") or 0)  # of one graph: its steps
    are_steps = times < MIN_ITERATIONS <= batches
    times = batches if are_steps else times
    if times < MIN_ITERATIONS:
        return None
    share = 1 - 1 / times
    ops = float(event.data["graph"].get("ops") or 0)
    places = (*_unrolled_lines(trace), *(_graph_loops(trace, event) or _text_loops(trace)), event.place)
    what = f"{times:.0f} unrolled training steps" if are_steps else "most of them from one unrolled loop"
    says = f"tracing and starting a graph of {ops:.0f} operations, {what},"
    kind = AvoidableKind.STEPS if are_steps else AvoidableKind.LAYER
    return AvoidableStart(kind, says, event.ms, max(event.ms * share - LOOPED_START_MS, 0.0), distinct_places(places))


def _products_factor(trace: Trace, event: Event) -> float:
    """How many times as many products with weights the graph has as one iteration needs.

    Keras' cells read a variable once, however often they use it. A loop in a line of the user is
    compute/handwritten-op.
    """
    graph = event.data.get("graph") or {}
    if any(not framework_names.OPTIMIZER_SCOPE.search(scope) for scope in graph.get("repeated") or ()):
        return 0.0
    kernels = sum(
        len(w.get("shape") or ()) >= 2 and w.get("class") != "Embedding" for w in op_work.largest_model_weights(trace)
    )
    # The model has no weights when fit starts, or more than the recording lists: count the updates of variables.
    if not op_work.largest_model_weights(trace) or len(op_work.largest_model_weights(trace)) >= MAX_LISTED_WEIGHTS:
        kernels = max(kernels, int((graph.get("types") or {}).get("AssignSubVariableOp") or 0))
    made = sum(float(n) for n in (graph.get("matrix") or {}).values()) / copies_of_step(event)
    return made / (PRODUCTS_PER_WEIGHT * kernels) if kernels else 0.0


def _loop_iterations(trace: Trace, event: Event) -> float:
    """Iterations of a user's loop, each of which continues from the one before, if it makes most of the graph.

    An example is a solver. Its iterations read no weights, so they cannot be counted as a layer's are.
    """
    rows = (event.data.get("graph") or {}).get("lines") or ()
    every, alike = (sum(float(row[at]) for row in rows) for at in (2, 3))
    if not every or alike < MIN_REPEATED_SHARE * every:
        return 0.0
    sources = (recorded_source(trace, file) for file in {str(row[0]) for row in rows})
    found = [
        turns for one in sources if one is not None for _, turns in graph_code.unrolled_graph_loops(one, chained=True)
    ]
    return float(max(found, default=0))


def _unrolled_lines(trace: Trace) -> tuple[Place, ...]:
    """Lines with the True of ``unroll=True`` in the files that train."""
    return source_locations.project_places(
        trace, lambda source: (true.lineno for _, true in keras_calls.unrolled_calls(source))
    )


def _text_loops(trace: Trace) -> tuple[Place, ...]:
    """Unrolled loops found in the text. For a few iterations, the graph does not say which lines they come from."""
    return source_locations.project_places(
        trace, lambda source: (loop.lineno for loop, _ in graph_code.unrolled_graph_loops(source, chained=True))
    )


def _graph_loops(trace: Trace, event: Event) -> list[Place]:
    """The user's loops around the line that makes most of the graph's ops, or around a call of its function."""
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
