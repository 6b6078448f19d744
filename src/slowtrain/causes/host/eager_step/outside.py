"""Small ops over all weights that a loop starts from Python after each compiled step: averages of them, clipping."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.domain.abstract_values import NOT_KNOWN, Value
from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.engine import interpreter, step_loops
from slowtrain.script.navigation import class_members, imported_functions, name_bindings, node_lookup
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.source.spots.input import augmenting
from slowtrain.source.spots.transfer.readbacks import VARIABLES

WORDS = ("assign", "assign_add", "assign_sub")
OFTEN = 2  # turns in one of which it happens: in fewer, what a step pays for it is no large part of one
SEVERAL_OPS = 3  # on pictures: fewer start in a tenth of a millisecond
FIXED = ("Rescaling", "Resizing", "CenterCrop", "Input", "InputLayer")  # beside random layers
PASSING = frozenset({"zip", "enumerate", "list", "tuple", "reversed", "range", "len", "zip_longest"})


def over_weights(source: Source) -> Iterator[ast.expr]:
    """``for t, s in zip(teacher.weights, student.weights): t.assign(...)`` in each turn of a loop of compiled steps.

    One variable after the other is read, computed with and assigned: some four ops, each started from Python. What
    does no more than to copy is meant as well. A loop whose own gradient is taken eagerly has more to cure than this.
    """
    if source.words.isdisjoint(WORDS) or not any(name in source.words for name in VARIABLES):
        return
    every = interpreter.file_events(source)
    seen: set[ast.AST] = set()
    for event in every:
        if event.name.removeprefix(".") not in WORDS or event.graph or event.producer:
            continue
        loop = step_loops.step_loop_of(source, event)
        inner = event.loops[event.loops.index(loop) + 1 :] if loop is not None else ()
        around = step_loops.loop_and_period(source, event)
        if loop is None or around is None or around[1] > OFTEN or _copied_in(event):
            continue
        over = next((one for one in inner if _weights(source, one)), None)
        if over is None or over.node in seen or any(one.number in event.rare for one in inner):
            continue
        if any(e.name == "tensorflow.GradientTape" and loop in e.loops and not e.graph for e in every):
            continue
        seen.add(over.node)
        yield over.node.iter  # type: ignore[attr-defined]


def augmented(source: Source) -> Iterator[ast.Call]:
    """Where a loop has each batch augmented op by op, in front of the step: by TensorFlow's ops or by random layers.

    One place of each loop.
    """
    own = "image" in source.words or not source.words.isdisjoint(augmenting.LAYERS)
    if not own and not imported_functions.may_import_project_files(source):
        return
    ops: dict[tuple[int, ast.Call], set[ast.AST]] = {}
    layers: list[tuple[int, ast.Call]] = []
    for event in interpreter.project_events(source):
        loop = step_loops.step_loop_of(source, event)
        place = _called_in(source, event, loop) if loop is not None else None
        if loop is None or place is None or event.regular_loops()[-1:] != (loop,):
            continue
        if event.name.startswith("tensorflow.image."):
            ops.setdefault((loop.number, place), set()).add(event.node)
        elif event.name == "__call__" and event.on is not None and _augments(source, event.on):
            layers.append((loop.number, place))
    seen: set[int] = set()
    for number, place in (*layers, *(key for key, nodes in ops.items() if len(nodes) >= SEVERAL_OPS)):
        if number not in seen:
            seen.add(number)
            yield place


def _called_in(source: Source, event: Event, loop: Loop) -> ast.Call | None:
    """The call in a loop of this file that leads to an event."""
    above = node_lookup.parents_of(source)
    way = zip((*event.path, event.node), (*event.files, event.source), strict=True)
    for node in (one for one, file in way if file is source and loop.source is source):
        at = above.get(node)
        while at is not None and at is not loop.node:
            at = above.get(at)
        if at is loop.node and isinstance(node, ast.Call):
            return node
    return None


def _augments(source: Source, on: Value) -> bool:
    """A random layer, or a model of nothing but such, or of functions in a file of TensorFlow's ops on pictures."""
    made = on.node
    names = (
        [node_lookup.called_name(n) for n in syntax_tree.walk(made) if isinstance(n, ast.Call)]
        if made is not None
        else []
    )
    names = [n for n in names if n[:1].isupper() and n != "Sequential"]
    if on.kind != "keras" or not names or not isinstance(made, ast.Call):
        return False
    if any(n in augmenting.LAYERS for n in names):
        return all(n in (*augmenting.LAYERS, *FIXED) for n in names)
    own = {kind.name for kind in class_members.class_definitions(source)}
    several = sum(name_bindings.qualified_name(source, n.func).startswith("tensorflow.image.")
                  for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call))  # fmt: skip
    return "Lambda" in names and set(names) <= {"Lambda", *own} and several >= SEVERAL_OPS


def _copied_in(event: Event) -> bool:
    """Whether what is assigned is an array or one number: a copy into the model, and no op."""
    given = event.given.get("value", 0)
    return given.kind == "array" or given.known is not NOT_KNOWN


def _weights(source: Source, loop: Loop) -> bool:
    """Whether a loop goes through the variables of a model, also by a name or by their numbers."""
    over = loop.node.iter if isinstance(loop.node, (ast.For, ast.comprehension)) else None
    return over is not None and any(_of_model(source, one) for one in _parts(over))


def _parts(over: ast.expr) -> Iterator[ast.expr]:
    """What a loop goes through side by side."""
    if isinstance(over, ast.Call) and node_lookup.called_name(over) in PASSING:
        for one in over.args:
            yield from _parts(one)
    else:
        yield over


def _of_model(source: Source, over: ast.expr) -> bool:
    """``model.weights``, whatever it is called by now; also several together: ``a.weights + b.weights``."""
    for node in syntax_tree.walk(over):
        if isinstance(node, ast.Attribute) and node.attr in VARIABLES:
            return True
    held = interpreter.value_at(source, over)
    return held.kind == "method" and held.name in VARIABLES
