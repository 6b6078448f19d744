"""Tensors that Python asks for their truth, compares or writes out in each step: it waits for what computes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.engine import interpreter, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.navigation import name_bindings, node_lookup
from slowtrain.script.text.source_file import Source
from slowtrain.source.spots.transfer.stepwise import HELD, Copied

FEWEST = 100  # turns: in fewer a wait for each is soon over
DEPTH = 6  # from a test back to the step that gave what it asks for
TRUTH = ("bool", "min", "max")
WRITTEN = frozenset({"print", "format", ".format", "logging.info", "absl.logging.info", "tqdm.write", ".write"})
SAYS = {
    True: "Python decides by a tensor in each step, and waits for the device to know it",
    False: "each step writes a tensor out, and waits for the device to have it",
}
CURES = {
    True: "decide in the tf.function of the step (tf.cond, tf.minimum, or an if there), or ask every hundredth step",
    False: "write it out every hundredth step, or gather it in a keras.metrics.Mean",
}


def truth(source: Source) -> Iterator[Copied]:
    """``if loss < best:``, ``best = min(best, loss)``, ``print(loss)`` in each turn of a loop of compiled steps."""
    graphs = {
        e.loops[-1].number
        for e in step_loops.step_events(source)
        if e.on is not None and e.on.kind == "graph" and e.loops
    }
    seen: set[int] = set()
    for event in file_events(source) if graphs else ():
        if event.name not in TRUTH and event.name not in WRITTEN:
            continue
        loop = step_loops.step_loop_of(source, event)
        if loop is None or loop.number in seen or not {one.number for one in _from(event, loop)} & graphs:
            continue
        decides = event.name in TRUTH
        if (loop.turns or FEWEST) < FEWEST or any(one.number in event.rare for one in _from(event, loop)):
            continue
        if _asked(event, loop) and _of_step(source, event.node, loop):
            seen.add(loop.number)
            yield Copied(event.node, SAYS[decides], CURES[decides])


def _from(event: Event, loop: Loop) -> tuple[Loop, ...]:
    """This loop and those in it around the event."""
    return event.loops[event.loops.index(loop) :]


def _asked(event: Event, loop: Loop) -> bool:
    """Whether a tensor of this turn becomes one of Python's values there; of whole numbers, which count steps, none."""
    given = event.given.every
    if event.name in ("min", "max") and len(given) < 2:
        return False
    parts = [one for value in given for one in value.inside(2)]
    return any(one.kind in HELD and loop.number in one.varies and not _counts(one) for one in parts)


def _counts(held: Value) -> bool:
    return held.dtype.startswith(("int", "uint", "string"))


def _of_step(source: Source, node: ast.AST, loop: Loop, depth: int = DEPTH) -> bool:
    """Whether what it asks for is computed by a graph or a model, and not only read, counted or drawn."""
    if isinstance(node, ast.expr):
        held = interpreter.value_at(source, node)
        if held.kind in HELD and _counts(held):
            return False
        if held.kind == "tensor" and loop.number in held.varies and (held.name == "result" or _runs(source, node)):
            return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mod, ast.FloorDiv)) and not _text(node.left):
        return False
    if isinstance(node, ast.Name):
        given = name_bindings.single_assignment(source, node) if depth else None
        return given is not None and _of_step(source, given, loop, depth - 1)
    if isinstance(node, ast.Attribute) and node.attr in ("shape", "dtype", "numpy"):
        return False
    return any(_of_step(source, one, loop, depth) for one in ast.iter_child_nodes(node))


def _text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _runs(source: Source, node: ast.expr) -> bool:
    """Whether a call runs a model or a graph."""
    if not isinstance(node, ast.Call):
        return False
    return (
        interpreter.value_at(source, node.func).kind in ("keras", "graph")
        and node_lookup.called_name(node) != "gradient"
    )
