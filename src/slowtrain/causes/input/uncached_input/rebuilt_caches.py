"""Data sets that every iteration of a loop builds again, for one pass each, so that their cache is never read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains, whole_pipelines
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

MAX_CALL_DEPTH = 6  # calls from the loop to the start of a pass, and names from a use back to its value
IN_PLACE_METHODS = ("append", "extend", "insert", "pop", "remove", "clear", "add", "update", "shuffle")
INSPECTING_ATTRIBUTES = frozenset({"cardinality", "element_spec"})  # of a data set; they do not iterate over it
Loop = ast.For | ast.While


class RebuiltCache(Struct, frozen=True):
    """``built`` makes the data set in every iteration; ``does`` names the work that its ``cache`` should spare."""

    built: ast.expr
    cache: ast.Call
    does: str


class _Iteration(Struct, frozen=True):
    """One iteration of ``loop``, with the ``functions`` that run in it and the ``calls`` that lead to them."""

    source: Source
    loop: Loop
    functions: frozenset[ast.AST] = frozenset()
    calls: tuple[ast.Call, ...] = ()

    def has_node(self, node: ast.AST) -> bool:
        return (
            self.loop in scope_names.enclosing_loops(self.source, node)
            or node_lookup.enclosing_function(self.source, node) in self.functions
        )

    def inside_function(self, function: ast.AST, call: ast.Call) -> _Iteration:
        return _Iteration(self.source, self.loop, self.functions | {function}, (*self.calls, call))


def find_rebuilt_caches(source: Source) -> Iterator[RebuiltCache]:
    """Each such data set, if the text shows nothing that makes the cached elements differ between iterations."""
    if not call_index.index_of(source).calls_of("cache") or not whole_pipelines.pipelines_of(source):
        return
    seen: set[ast.AST] = set()
    for given, place in _single_passes(source):
        for iteration in _iterations_around(source, place):
            found = _rebuilt_cache_of(iteration, given, place)
            if found is not None and found.built not in seen:
                seen.add(found.built)
                yield found


def _single_passes(source: Source) -> Iterator[tuple[ast.expr, ast.AST]]:
    """Expressions of which a statement makes a single pass, each with that statement or call."""
    for call in call_index.index_of(source).calls_of("fit", "evaluate"):
        given, several = (
            node_lookup.argument_value(call, "x", 0),
            node_lookup.called_name(call) == "fit" and not _one_epoch(source, call),
        )
        if given is not None and not several and node_lookup.argument_value(call, "steps_per_epoch") is None:
            yield given, call
        held_value = node_lookup.argument_value(call, "validation_data")
        if held_value is not None and not several:
            yield held_value, call
    if any(name in source.text for name in call_index.STEP_CALLS):
        for loop in call_index.nodes_of_kind(source, ast.For):
            assert isinstance(loop, ast.For)
            if not any(
                isinstance(n, ast.Break) for one in loop.body for n in scope_names.nodes_in_scope(one)
            ):  # which ends the pass
                yield loop.iter, loop


def _one_epoch(source: Source, fit: ast.Call) -> bool:
    """Whether ``epochs`` is omitted, 1, or one more than ``initial_epoch``."""
    epochs, first = node_lookup.argument_value(fit, "epochs", 3), node_lookup.argument_value(fit, "initial_epoch")
    if epochs is None or first is None:
        return epochs is None or queries.int_at(source, epochs) == 1
    return ast.unparse(epochs) == f"{ast.unparse(first)} + 1"


def _iterations_around(source: Source, place: ast.AST, depth: int = MAX_CALL_DEPTH) -> Iterator[_Iteration]:
    """The loops that run ``place`` in every iteration: around it, or around a call of its function."""
    around = [one for one in scope_names.enclosing_loops(source, place) if one is not place]
    if around:
        yield _Iteration(source, around[0])
        return
    function = node_lookup.enclosing_function(source, place)
    for call in queries.calls_running(source, function) if function is not None and depth else ():
        for iteration in _iterations_around(source, call, depth - 1):
            if function is not None:
                yield iteration.inside_function(function, call)


def _rebuilt_cache_of(iteration: _Iteration, given: ast.expr, place: ast.AST) -> RebuiltCache | None:
    """The data set behind ``given``, if each iteration makes it up to its cache, from the same values each time."""
    source = iteration.source
    flow = next(whole_pipelines.chains_behind(source, given, place), None)
    names = flow.names if flow is not None and flow.whole else ()
    kept = [c for c in flow.calls if node_lookup.called_name(c) == "cache"] if flow is not None else []
    if not kept or kept[-1].args or kept[-1].keywords or {"repeat", "take"} & set(names) or flow is None:
        return None  # a cache in a file is read by the next pass
    made, iteration = _creation_in_iteration(iteration, given, place, kept[-1])
    before = flow.calls_before(kept[-1])
    does = next((w.says for c in before if (w := _work_of_map(source, c)) is not None), None)
    if made is None or does is None or any(_may_differ(iteration, c) for c in before):
        return None
    return RebuiltCache(made, kept[-1], does)


def _creation_in_iteration(
    iteration: _Iteration, given: ast.expr, place: ast.AST, cache: ast.Call
) -> tuple[ast.expr | None, _Iteration]:
    """The expression in the loop that makes ``cache``; and the iteration, with the functions that lead there."""
    source, made = iteration.source, None
    node: ast.expr | None = given
    for _ in range(dataset_chains.MAX_LINKS):
        if node is None:
            break
        if isinstance(node, ast.Call) and not iteration.has_node(node) and node is not getattr(place, "iter", None):
            break
        if isinstance(node, ast.Name):
            node = _value_of_name(iteration, node, place)
            place = node if node is not None else place
            continue
        if not isinstance(node, ast.Call):
            break
        if iteration.loop in scope_names.enclosing_loops(source, node) or made is None:
            made = node
        if node is cache:
            return made, iteration
        if dataset_chains.is_operation(node) and isinstance(node.func, ast.Attribute):
            node = node.func.value
            continue
        if node_lookup.called_name(node) in whole_pipelines.TRANSPARENT_CALLS and node.args:
            node = node.args[0]
            continue
        inner = node_lookup.function_named(source, node_lookup.called_name(node), node)
        back = (
            [n.value for n in scope_names.nodes_in_scope(inner.body) if isinstance(n, ast.Return)]
            if inner is not None
            else []
        )
        if inner is None or len(back) != 1:
            break
        if isinstance(node.func, ast.Attribute) and _is_bound_in_loop(iteration, node.func.value):
            break
        iteration = iteration.inside_function(inner, node)
        node = back[0]
        place = node if node is not None else place
    return None, iteration


def _value_of_name(iteration: _Iteration, name: ast.Name, place: ast.AST) -> ast.expr | None:
    """The value of a name at ``place``, if nothing else in the same iteration iterates over it."""
    value = dataset_chains.last_assignment(iteration.source, name, place) or dataset_chains.parameter_argument(
        iteration.source, name, iteration.calls
    )
    return value if value is None or not _is_read_again(iteration, name, value) else None


def _is_bound_in_loop(iteration: _Iteration, owner: ast.expr) -> bool:
    """Whether the loop binds the object, possibly to another one in each iteration."""
    bound = scope_names.bound_names(iteration.loop)
    return any(isinstance(n, ast.Name) and n.id in bound and iteration.has_node(n) for n in syntax_tree.walk(owner))


def _work_of_map(source: Source, call: ast.Call) -> whole_pipelines.Work | None:
    if node_lookup.called_name(call) != "map" or not dataset_chains.is_operation(call) or not call.args:
        return None
    return whole_pipelines.function_work(source, call.args[0], call)


# -- whether two iterations make the same elements
def _may_differ(iteration: _Iteration, call: ast.Call) -> bool:
    """Whether the arguments or the work of an operation may be different in the next iteration."""
    given = [*call.args, *(k.value for k in call.keywords)]
    if node_lookup.called_name(call) in ("map", "filter", "flat_map", "interleave"):
        function = call.args[0] if call.args else None
        if function is None or repeatable_functions.may_vary_by_call(iteration.source, function):
            return True
        made = whole_pipelines.mapped_function(iteration.source, call)
        given += (
            [n for n in syntax_tree.walk(made) if isinstance(n, (ast.Name, ast.Attribute))] if made is not None else []
        )
    return any(_value_may_change(iteration, one, MAX_CALL_DEPTH) for one in given)


def _value_may_change(iteration: _Iteration, value: ast.expr, depth: int) -> bool:
    """Whether an expression may have another value in the next iteration."""
    source = iteration.source
    if not depth or repeatable_functions.draws_or_mutates(source, value):
        return True
    for node in syntax_tree.walk(value):
        if isinstance(node, ast.Call) and node_lookup.called_name(node) in ("next", "pop", "popleft", "get"):
            return True
        if isinstance(node, ast.Attribute) and _is_stored_outside_init(iteration, node):
            return True
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and _name_may_change(iteration, node, depth):
            return True
    return False


def _is_stored_outside_init(iteration: _Iteration, node: ast.Attribute) -> bool:
    """Whether an attribute is assigned outside a constructor."""
    source = iteration.source
    stored = [
        n
        for n in call_index.nodes_of_kind(source, ast.Attribute)
        if isinstance(n, ast.Attribute) and n.attr == node.attr
    ]
    functions = [node_lookup.enclosing_function(source, n) for n in stored if not isinstance(n.ctx, ast.Load)]
    return any(f is None or f.name != "__init__" for f in functions)


def _name_may_change(iteration: _Iteration, name: ast.Name, depth: int) -> bool:
    source = iteration.source
    where = name_bindings.binding_scope(source, name, name.id)
    if where in iteration.functions and name.id in scope_names.parameter_names(where):
        if name.id == "self":
            return False
        given = dataset_chains.parameter_argument(source, name, iteration.calls)
        if given is None:
            return not _uses_default(iteration, where, name.id)
        return _value_may_change(iteration, given, depth - 1)
    if isinstance(where, scope_names.COMPREHENSIONS):
        return any(
            _value_may_change(iteration, one.iter, depth - 1)
            for one in where.generators
            if name.id in scope_names.bound_names(one.target)
        )
    if _is_changed_in_place(iteration, name):
        return True
    stored = [n for n in name_bindings.bindings_of(where, name.id) if isinstance(n, ast.Name)]
    inside = [n for n in stored if iteration.has_node(n) or n in syntax_tree.walk(getattr(iteration.loop, "target", n))]
    if not inside:
        return False
    for one in inside:
        value = name_bindings.assigned_value(source, one)
        again = value is not None and any(isinstance(n, ast.Name) and n.id == name.id for n in syntax_tree.walk(value))
        if value is None or again or _value_may_change(iteration, value, depth - 1):
            return True
    return False


def _uses_default(iteration: _Iteration, function: ast.AST, name: str) -> bool:
    """Whether the calls that lead into a function use the default of a parameter, which is evaluated once."""
    given = getattr(function, "args", None)
    called = [c for c in iteration.calls if node_lookup.called_name(c) == getattr(function, "name", "")]
    if not isinstance(given, ast.arguments) or not called:
        return False
    usual = [*given.posonlyargs, *given.args]
    first = len(usual) - len(given.defaults)
    known = {a.arg for a in usual[first:]} | {
        a.arg for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is not None
    }
    at = [a.arg for a in usual].index(name) if name in {a.arg for a in usual} else len(usual)
    unpacked = any(isinstance(a, ast.Starred) for c in called for a in c.args)
    unpacked = unpacked or any(k.arg is None for c in called for k in c.keywords)
    return name in known and not unpacked and all(node_lookup.argument_value(c, name, at) is None for c in called)


def _is_changed_in_place(iteration: _Iteration, name: ast.Name) -> bool:
    """Whether the iteration changes a value in place: ``files.append(f)``, ``rng.shuffle(files)``, ``x[i] = 0``."""
    for call in call_index.index_of(iteration.source).calls_of(*IN_PLACE_METHODS):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if any(isinstance(n, ast.Name) and n.id == name.id for n in (owner, *call.args)) and iteration.has_node(call):
            return True
    stored = (n for n in call_index.nodes_of_kind(iteration.source, ast.Subscript) if isinstance(n, ast.Subscript))
    return any(
        isinstance(n.value, ast.Name)
        and n.value.id == name.id
        and not isinstance(n.ctx, ast.Load)
        and iteration.has_node(n)
        for n in stored
    )


def _is_read_again(iteration: _Iteration, name: ast.Name, value: ast.expr) -> bool:
    """Whether something else in the iteration iterates over the value of ``name``: that pass reads the cache."""
    source = iteration.source
    if not iteration.has_node(value):
        return False
    above = node_lookup.parents_of(source)
    for other in name_bindings.reads_of(source, name.id):
        if other is name or not iteration.has_node(other):
            continue
        holder = above.get(other)
        asked = isinstance(holder, ast.Attribute) and holder.attr in INSPECTING_ATTRIBUTES
        counted = isinstance(holder, ast.Call) and node_lookup.called_name(holder) == "len"
        if not asked and not counted and dataset_chains.last_assignment(source, other, other) is value:
            return True
    return False
