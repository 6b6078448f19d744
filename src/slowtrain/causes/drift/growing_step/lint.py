"""Finds the cause drift/growing-step in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator

from slowtrain.causes.drift.growing_step import growing_values
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.interpreter.domain.abstract_values import Value, join_values
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine import interpreter, step_loops
from slowtrain.script.interpreter.library.framework_calls import REMOVING_METHODS
from slowtrain.script.lint_rules import spots
from slowtrain.script.navigation import (
    call_index,
    class_members,
    node_lookup,
    scope_names,
)
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

ADDING_METHODS = frozenset({".append", ".extend"})
# Functions that go through all items of a list and make a row of an array, or a text, of each.
TRAVERSING_FUNCTIONS = frozenset(
    "numpy.array numpy.asarray numpy.stack numpy.concatenate numpy.vstack numpy.hstack tensorflow.constant "
    "tensorflow.convert_to_tensor tensorflow.stack tensorflow.concat json.dump json.dumps pickle.dump pickle.dumps "
    "numpy.save numpy.savez numpy.savez_compressed numpy.savetxt pandas.DataFrame tensorflow.ragged.constant "
    "keras.ops.stack keras.ops.concatenate keras.ops.convert_to_tensor".split()
)
# These are quick for plain numbers. Tensors are read one by one.
AVERAGING_FUNCTIONS = frozenset(
    "numpy.mean numpy.sum numpy.std tensorflow.reduce_mean tensorflow.reduce_sum tensorflow.add_n sum".split()
)
COSTLY_KINDS = ("list", "tuple", "dict", "array", "tensor", "object")
MIN_QUEUE_LENGTH = 1000  # items: a queue grows until it is full


def find_spots(source: Source) -> Iterable[Spot]:
    """Values that each iteration makes longer, and growing lists that each step goes through."""
    for one, grown, says in growing_values.growing_values(source):
        kept = "keep the newest part of a fixed length; build a data set once, before the loop"
        cure = Prescription("advice", Effect.CHANGES_TRAINING, kept)
        yield Spot(edits.node_start(one), edits.node_end(grown), says, cure)
    for whole, says in traversed_growing_lists(source):
        kept = "work only on the rows that a step uses: draw them first, or keep them in an array of a fixed size"
        cure = Prescription("advice", Effect.EXACT, kept)
        yield spots.node_spot(whole, says, cure)


def traversed_growing_lists(source: Source) -> Iterator[tuple[ast.expr, str]]:
    """Where a step goes through all items that the steps before it added to a list, with the text of the spot."""
    if ".append(" not in source.text and ".extend(" not in source.text:
        return
    every = interpreter.file_events(source)
    added: dict[int, list[Event]] = {}
    taken: set[int] = set()
    for event in every:
        on = event.on
        if on is None or on.kind != "list":
            continue
        if event.name in ADDING_METHODS and event.loops and not event.graph and not event.producer:
            added.setdefault(id(on.items), []).append(event)
        elif event.name.removeprefix(".") in REMOVING_METHODS:
            taken.add(id(on.items))
    seen: set[ast.AST] = set()
    for event in every if added else ():
        for held_value in _traversed_lists(source, event, added.keys()):
            if id(held_value.items) in taken or held_value.data == "open" or event.node in seen:
                continue
            adding = added.get(id(held_value.items), ())
            if any(
                _grows_each_step(source, event, one, held_value) and _is_never_replaced(source, event, one)
                for one in adding
            ):
                seen.add(event.node)
                yield event.node, "each step goes through all items that the steps before it collected"


def _traversed_lists(source: Source, event: Event, grown: Container[int]) -> Iterator[Value]:
    """The lists that an event goes through completely. ``grown``: the identities of the items of growing lists."""
    over = event.begun
    if over is not None and id(over.items.items) in grown:
        leaves = isinstance(over.node, ast.For) and any(
            isinstance(n, ast.Break) for n in scope_names.nodes_in_scope(over.node.body)
        )
        if not leaves:
            yield over.items
    elif event.name in TRAVERSING_FUNCTIONS or event.name in AVERAGING_FUNCTIONS:
        yield from (one for one in event.given.args[:1] if one.kind == "list")
    if event.name == "zip" and isinstance(event.node, ast.Call):  # zip(*rows): a column of each
        yield from (interpreter.value_at(source, a.value) for a in event.node.args if isinstance(a, ast.Starred))


def _grows_each_step(source: Source, event: Event, adding: Event, value: Value) -> bool:
    """Whether the loop of steps adds to the list and goes through it, and does not create it."""
    loop = step_loops.per_step_loop(source, event)
    if loop is None or loop not in adding.loops or loop.number in value.born:
        return False
    item = join_values(value.items.values())
    if value.name == "bounded" and not (isinstance(value.known, int) and value.known >= MIN_QUEUE_LENGTH):
        return False
    if event.begun is not None and item.kind == "unknown":
        return True  # Python goes through the items one by one, whatever they are
    return item.kind == "tensor" if event.name in AVERAGING_FUNCTIONS else item.kind in COSTLY_KINDS


def _is_never_replaced(source: Source, event: Event, adding: Event) -> bool:
    """Whether no iteration replaces or shortens the list."""
    read = [n for n in syntax_tree.walk(event.node) if isinstance(n, (ast.Name, ast.Attribute))]
    of = [n for n in read if interpreter.value_at(source, n).kind == "list"]
    if isinstance(adding.node, ast.Call) and isinstance(adding.node.func, ast.Attribute):
        of.append(adding.node.func.value)  # type: ignore[arg-type]
    names = {scope_names.dotted_name(n).rpartition(".")[2] for n in of} - {""}
    iteration = [n for loop in adding.loops for n in syntax_tree.walk(loop.node) if isinstance(n, ast.Name)]
    again = {n.id for n in iteration if isinstance(n.ctx, ast.Store)}
    cut = [t for d in call_index.nodes_of_kind(source, ast.Delete) if isinstance(d, ast.Delete) for t in d.targets]
    shorter = {scope_names.dotted_name(t.value).rpartition(".")[2] for t in cut if isinstance(t, ast.Subscript)}
    return not names & (again | shorter) and all(
        len(stores) <= 1 and not any(_is_repeated(source, store, event, adding) for store in stores)
        for stores in (class_members.attribute_stores(source, name) for name in names)
    )


def _is_repeated(source: Source, store: ast.Attribute, event: Event, adding: Event) -> bool:
    """Whether a call in the loop, or in a function that the loop runs, repeats the assignment to an attribute."""
    storing = node_lookup.enclosing_function(source, store)
    if storing is None:
        return False
    loops = [loop.node for loop in adding.loops]
    functions = [node_lookup.enclosing_function(source, one.node) for one in (event, adding)]
    run_by_loop = [one for one in functions if one is not None and not any(n in loops for n in syntax_tree.walk(one))]
    repeated = {node for place in (*loops, *run_by_loop) for node in syntax_tree.walk(place)}
    return any(call in repeated for call in call_index.index_of(source).calls_of(storing.name))
