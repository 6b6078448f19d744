"""Edits that read a tensor back as a whole, in place of element by element."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.causes.transfer.per_step_readback import LoopReadback, ProfiledReadback
from slowtrain.model import Edit, Effect, Prescription
from slowtrain.script.fixes.loops import deferred_readbacks, moved_statements
from slowtrain.script.interpreter.engine import interpreter
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.properties import graph_obstacles
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source, holds_line
from slowtrain.trace import Trace

NUMBER_TYPES = ("float", "int", "bool")
# Functions of a row whose result is an index or an element, and NumPy's function with exactly the same result.
NUMPY_NAMES = {
    "tensorflow.argmax": "argmax", "tensorflow.argmin": "argmin", "tensorflow.math.argmax": "argmax",
    "tensorflow.math.argmin": "argmin", "tensorflow.reduce_max": "max", "tensorflow.reduce_min": "min",
}  # fmt: skip


def find_cures(trace: Trace, finding: LoopReadback | ProfiledReadback) -> Iterable[Prescription]:
    where = finding.where
    whole = recorded_edits.first_applicable(trace, where, read_whole) or recorded_edits.first_applicable(
        trace, where, read_by_index
    )
    if whole:
        says = "read the whole tensor back at once: .numpy() in front of the loop over it"
        yield Prescription("edit", Effect.EXACT, says, edits=whole)
        return
    deferred = recorded_edits.first_applicable(trace, where, deferred_readbacks.defer_readbacks)
    # A check that ends the run would see a diverged value up to a hundred steps later.
    effect = Effect.EQUIVALENT if recorded_edits.touch_word(trace, deferred, "raise") else Effect.EXACT
    says = "read back every hundredth step, or all values at once at the end of an epoch"
    yield Prescription("edit", effect, says, edits=deferred)
    yield Prescription("edit", Effect.EXACT, "gather in a tf.keras.metrics.Mean and read its result()")


# -- loops over tensors
def read_whole(source: Source, line: int) -> list[Edit]:
    """``for value in losses: float(value)`` around ``line`` over ``losses.numpy()``: one readback for all of them."""
    loops = [n for n in call_index.nodes_of_kind(source, ast.For) if isinstance(n, ast.For) and holds_line(n, line)]
    for loop in sorted(loops, key=lambda n: -n.lineno):
        function = node_lookup.enclosing_function(source, loop)
        if function is not None and graph_obstacles.is_graph_function(source, function):
            continue
        given = [
            over
            for target, over in _names_and_iterables(loop)
            if _is_tensor(source, over) and _is_only_converted(source, loop, target)
        ]
        if given:
            return [edit for over in given for edit in edits.append_to_chain(source, over, ".numpy()")]
    return []


def _is_tensor(source: Source, node: ast.expr) -> bool:
    """Whether it is a tensor, by the text, or by interpretation: ``for ids, x in ds``, passed to another function."""
    return interpreter.value_at(source, node).kind in ("tensor", "variable")


def _names_and_iterables(loop: ast.For) -> list[tuple[ast.Name, ast.expr]]:
    """The names that the loop binds, each with its iterable, in ``zip``, in ``enumerate`` or by itself."""
    target, over = loop.target, loop.iter
    name = node_lookup.called_name(over) if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) else ""
    if isinstance(over, ast.Call) and name == "enumerate" and isinstance(target, ast.Tuple) and len(over.args) == 1:
        target, over = target.elts[-1], over.args[0]
        name = node_lookup.called_name(over) if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) else ""
    if isinstance(over, ast.Call):
        if name != "zip" or not isinstance(target, ast.Tuple) or len(target.elts) != len(over.args):
            return []
        return [(t, o) for t, o in zip(target.elts, over.args, strict=True) if isinstance(t, ast.Name)]
    return [(target, over)] if isinstance(target, ast.Name) else []


def _is_only_converted(source: Source, loop: ast.For, target: ast.Name) -> bool:
    """Whether the loop's variable is only converted to a number: ``float(value)``."""
    above = node_lookup.parents_of(source)
    inside = {id(n) for n in syntax_tree.walk(loop)}
    found = 0
    for node in (
        n for one in scope_names.scope_body(scope_names.enclosing_scope(source, loop)) for n in syntax_tree.walk(one)
    ):
        if not isinstance(node, ast.Name) or node.id != target.id or node is target:
            continue
        parent = above.get(node)
        converted = isinstance(parent, ast.Call) and parent.args == [node] and not parent.keywords
        plain = isinstance(parent, ast.Call) and scope_names.dotted_name(parent.func) in NUMBER_TYPES
        if id(node) not in inside or not isinstance(node.ctx, ast.Load) or not (converted and plain):
            return False
        found += 1
    return found > 0


# -- elements of tensors by their index
def read_by_index(source: Source, line: int) -> list[Edit]:
    """Reads the tensors of ``int(y[i])`` and ``int(tf.argmax(scores[i]))`` back before the loop around ``line``.

    No edits if an element is not converted to a number, or if the loop binds the tensor.
    """
    loops = [n for n in call_index.nodes_of_kind(source, ast.For) if isinstance(n, ast.For) and holds_line(n, line)]
    for loop in sorted(loops, key=lambda n: -n.lineno):
        function = node_lookup.enclosing_function(source, loop)
        graph = function is not None and graph_obstacles.is_graph_function(source, function)
        found = {} if graph else _elements_read_by_index(source, loop)
        if found:
            return _edits_reading_before(source, loop, found)
    return []


def _elements_read_by_index(source: Source, loop: ast.For) -> dict[str, list[ast.Subscript]]:
    """Tensors whose elements the loop takes by its index and converts to numbers, with these elements."""
    counted = {n.id for n in syntax_tree.walk(loop.target) if isinstance(n, ast.Name)}
    above, within = node_lookup.parents_of(source), scope_names.bound_names(loop.body)
    found: dict[str, list[ast.Subscript]] = {}
    left: set[str] = set()
    for node in (n for s in loop.body for n in syntax_tree.walk(s)):
        if not isinstance(node, ast.Name):
            continue
        item = above.get(node)
        first = item.slice if isinstance(item, ast.Subscript) and item.value is node else None
        first = first.elts[0] if isinstance(first, ast.Tuple) and first.elts else first
        taken = isinstance(item, ast.Subscript) and isinstance(first, ast.Name) and first.id in counted
        if not taken or node.id in within or not _is_tensor(source, node):
            left.add(node.id)
        elif isinstance(item, ast.Subscript):
            found.setdefault(node.id, []).append(item)
    return {
        name: items for name, items in found.items()
        if name not in left and all(_converting_call(source, item) is not None for item in items)
    }  # fmt: skip


def _converting_call(source: Source, item: ast.Subscript) -> ast.Call | None:
    """The call that converts an element: ``int(y[i])``, ``y[i].numpy()``, ``int(tf.argmax(y[i]))``."""
    above = node_lookup.parents_of(source)
    node: ast.AST = item
    parent = above.get(node)
    if (
        isinstance(parent, ast.Call)
        and scope_names.resolved_name(source, parent.func) in NUMPY_NAMES
        and parent.args == [node]
    ):
        node, parent = parent, above.get(parent) if not parent.keywords else None
    if isinstance(parent, ast.Attribute) and parent.attr == "numpy" and node is item:
        call = above.get(parent)
        return call if isinstance(call, ast.Call) and call.func is parent else None
    plain = (
        isinstance(parent, ast.Call) and scope_names.dotted_name(parent.func) in NUMBER_TYPES and parent.args == [node]
    )
    return parent if isinstance(parent, ast.Call) and plain and not parent.keywords else None


def _edits_reading_before(source: Source, loop: ast.For, found: dict[str, list[ast.Subscript]]) -> list[Edit]:
    numpy, importing = edits.ensure_import(source, "numpy", "np")
    above = node_lookup.parents_of(source)
    names = {name: moved_statements.free_name(source, f"{name}_read") for name in found}
    done = [edits.insert_before(source, loop, "\n".join(f"{new} = {old}.numpy()" for old, new in names.items()))]
    for name, items in found.items():
        for item in items:
            done.append(edits.replace_node(source, item.value, names[name]))
            number, outer = _converting_call(source, item), above.get(item)
            if isinstance(outer, ast.Call) and outer is not number:  # tf.argmax of a row, which becomes NumPy's
                done += importing
                importing = []
                done.append(
                    edits.replace_node(
                        source, outer.func, f"{numpy}.{NUMPY_NAMES[scope_names.resolved_name(source, outer.func)]}"
                    )
                )
            if number is not None and isinstance(number.func, ast.Attribute):  # an array has no .numpy()
                done.append(Edit(source.file, edits.node_end(number.func.value), edits.node_end(number), ""))
    return done
