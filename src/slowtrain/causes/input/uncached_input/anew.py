"""Data sets with a cache that are built again in every turn of a loop, for one pass each: nobody reads the cache."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains, map_work, training_pipelines, whole_pipelines
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.values import dataclass

DEPTH = 6  # calls from the loop to where a pass begins, and names on the way back to where a value comes from
IN_PLACE = ("append", "extend", "insert", "pop", "remove", "clear", "add", "update", "shuffle")
ASKED = frozenset({"cardinality", "element_spec"})  # of a data set, without going through it
Loop = ast.For | ast.While


@dataclass(frozen=True)
class Anew:
    """``built`` makes the data set in every turn; ``does`` names the work that its ``cache`` is to spare."""

    built: ast.expr
    cache: ast.Call
    does: str


@dataclass(frozen=True)
class _Turn:
    """One turn of ``loop``: what stands in it, and in ``functions``, which run in it; ``calls``: by these of them."""

    source: Source
    loop: Loop
    functions: frozenset[ast.AST] = frozenset()
    calls: tuple[ast.Call, ...] = ()

    def holds(self, node: ast.AST) -> bool:
        return (
            self.loop in scope_names.enclosing_loops(self.source, node)
            or node_lookup.enclosing_function(self.source, node) in self.functions
        )

    def within(self, function: ast.AST, call: ast.Call) -> _Turn:
        return _Turn(self.source, self.loop, self.functions | {function}, (*self.calls, call))


def caches(source: Source) -> Iterator[Anew]:
    """Each such data set, where what is cached is the same in every turn as far as the text tells."""
    if not call_index.index_of(source).called("cache") or not whole_pipelines.pipelines_of(source):
        return
    seen: set[ast.AST] = set()
    for given, place in _passes(source):
        for turn in _turns(source, place):
            found = _built(turn, given, place)
            if found is not None and found.built not in seen:
                seen.add(found.built)
                yield found


def _passes(source: Source) -> Iterator[tuple[ast.expr, ast.AST]]:
    """What is gone through just once where it stands, and where that is."""
    for call in call_index.index_of(source).called("fit", "evaluate"):
        given, several = (
            node_lookup.argument_value(call, "x", 0),
            node_lookup.called_name(call) == "fit" and not _one_epoch(source, call),
        )
        if given is not None and not several and node_lookup.argument_value(call, "steps_per_epoch") is None:
            yield given, call
        held = node_lookup.argument_value(call, "validation_data")
        if held is not None and not several:
            yield held, call
    if any(name in source.text for name in training_pipelines.STEP_CALLS):
        for loop in call_index.nodes_of_kind(source, ast.For):
            assert isinstance(loop, ast.For)
            if not any(
                isinstance(n, ast.Break) for one in loop.body for n in scope_names.nodes_in_scope(one)
            ):  # which ends the pass
                yield loop.iter, loop


def _one_epoch(source: Source, fit: ast.Call) -> bool:
    """``epochs`` left out, 1, or one more than ``initial_epoch``."""
    epochs, first = node_lookup.argument_value(fit, "epochs", 3), node_lookup.argument_value(fit, "initial_epoch")
    if epochs is None or first is None:
        return epochs is None or queries.int_at(source, epochs) == 1
    return ast.unparse(epochs) == f"{ast.unparse(first)} + 1"


def _turns(source: Source, place: ast.AST, depth: int = DEPTH) -> Iterator[_Turn]:
    """The loops of which ``place`` runs in every turn, around it or around a call of its function."""
    around = [one for one in scope_names.enclosing_loops(source, place) if one is not place]
    if around:
        yield _Turn(source, around[0])
        return
    function = node_lookup.enclosing_function(source, place)
    for call in queries.calls_running(source, function) if function is not None and depth else ():
        for turn in _turns(source, call, depth - 1):
            if function is not None:
                yield turn.within(function, call)


def _built(turn: _Turn, given: ast.expr, place: ast.AST) -> Anew | None:
    """The data set behind ``given``, if all of it up to its cache is made in a turn, of the same each time."""
    source = turn.source
    flow = next(training_pipelines.chains_behind(source, given, place), None)
    names = flow.names if flow is not None and flow.whole else ()
    kept = [c for c in flow.calls if node_lookup.called_name(c) == "cache"] if flow is not None else []
    if not kept or kept[-1].args or kept[-1].keywords or {"repeat", "take"} & set(names) or flow is None:
        return None  # a file that is kept is read the next time
    made, turn = _entered(turn, given, place, kept[-1])
    before = flow.before(kept[-1])
    does = next((w.says for c in before if (w := _work(source, c)) is not None), None)
    if made is None or does is None or any(_differs(turn, c) for c in before):
        return None
    return Anew(made, kept[-1], does)


def _entered(turn: _Turn, given: ast.expr, place: ast.AST, cache: ast.Call) -> tuple[ast.expr | None, _Turn]:
    """The expression in the loop that makes ``cache`` in every turn; the turn, with the functions on the way there."""
    source, made = turn.source, None
    node: ast.expr | None = given
    for _ in range(dataset_chains.MAX_LINKS):
        if node is None:
            break
        if isinstance(node, ast.Call) and not turn.holds(node) and node is not getattr(place, "iter", None):
            break
        if isinstance(node, ast.Name):
            node = _held(turn, node, place)
            place = node if node is not None else place
            continue
        if not isinstance(node, ast.Call):
            break
        if turn.loop in scope_names.enclosing_loops(source, node) or made is None:
            made = node
        if node is cache:
            return made, turn
        if dataset_chains.is_operation(node) and isinstance(node.func, ast.Attribute):
            node = node.func.value
            continue
        if node_lookup.called_name(node) in training_pipelines.TRANSPARENT_CALLS and node.args:
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
        if isinstance(node.func, ast.Attribute) and _made_in(turn, node.func.value):
            break
        turn = turn.within(inner, node)
        node = back[0]
        place = node if node is not None else place
    return None, turn


def _held(turn: _Turn, name: ast.Name, place: ast.AST) -> ast.expr | None:
    """What a name holds there, and nothing else goes through in the same turn."""
    value = dataset_chains.last_assignment(turn.source, name, place) or dataset_chains.parameter_argument(
        turn.source, name, turn.calls
    )
    return value if value is None or not _read_again(turn, name, value) else None


def _made_in(turn: _Turn, owner: ast.expr) -> bool:
    """Whether an object is bound in the loop: to another one in each turn, maybe."""
    bound = scope_names.bound_names(turn.loop)
    return any(isinstance(n, ast.Name) and n.id in bound and turn.holds(n) for n in syntax_tree.walk(owner))


def _work(source: Source, call: ast.Call) -> map_work.Work | None:
    if node_lookup.called_name(call) != "map" or not dataset_chains.is_operation(call) or not call.args:
        return None
    return map_work.function_work(source, call.args[0], call)


# -- whether two turns make the same


def _differs(turn: _Turn, call: ast.Call) -> bool:
    """Whether what an operation is given, or does, may be another thing in the next turn."""
    given = [*call.args, *(k.value for k in call.keywords)]
    if node_lookup.called_name(call) in ("map", "filter", "flat_map", "interleave"):
        function = call.args[0] if call.args else None
        if function is None or repeatable_functions.may_vary_by_call(turn.source, function):
            return True
        made = whole_pipelines.mapped_function(turn.source, call)
        given += (
            [n for n in syntax_tree.walk(made) if isinstance(n, (ast.Name, ast.Attribute))] if made is not None else []
        )
    return any(_changes(turn, one, DEPTH) for one in given)


def _changes(turn: _Turn, value: ast.expr, depth: int) -> bool:
    """Whether an expression may have another value in the next turn."""
    source = turn.source
    if not depth or repeatable_functions.draws_or_mutates(source, value):
        return True
    for node in syntax_tree.walk(value):
        if isinstance(node, ast.Call) and node_lookup.called_name(node) in ("next", "pop", "popleft", "get"):
            return True
        if isinstance(node, ast.Attribute) and _set_later(turn, node):
            return True
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and _name_changes(turn, node, depth):
            return True
    return False


def _set_later(turn: _Turn, node: ast.Attribute) -> bool:
    """Whether an attribute is assigned anywhere but in a constructor."""
    source = turn.source
    stored = [
        n
        for n in call_index.nodes_of_kind(source, ast.Attribute)
        if isinstance(n, ast.Attribute) and n.attr == node.attr
    ]
    functions = [node_lookup.enclosing_function(source, n) for n in stored if not isinstance(n.ctx, ast.Load)]
    return any(f is None or f.name != "__init__" for f in functions)


def _name_changes(turn: _Turn, name: ast.Name, depth: int) -> bool:
    source = turn.source
    where = name_bindings.binding_scope(source, name, name.id)
    if where in turn.functions and name.id in scope_names.parameter_names(where):
        if name.id == "self":
            return False
        given = dataset_chains.parameter_argument(source, name, turn.calls)
        if given is None:
            return not _left_out(turn, where, name.id)
        return _changes(turn, given, depth - 1)
    if isinstance(where, scope_names.COMPREHENSIONS):
        return any(
            _changes(turn, one.iter, depth - 1)
            for one in where.generators
            if name.id in scope_names.bound_names(one.target)
        )
    if _worked_on(turn, name):
        return True
    stored = [n for n in name_bindings.bindings_of(where, name.id) if isinstance(n, ast.Name)]
    inside = [n for n in stored if turn.holds(n) or n in syntax_tree.walk(getattr(turn.loop, "target", n))]
    if not inside:
        return False
    for one in inside:
        held = name_bindings.assigned_value(source, one)
        again = held is not None and any(isinstance(n, ast.Name) and n.id == name.id for n in syntax_tree.walk(held))
        if held is None or again or _changes(turn, held, depth - 1):
            return True
    return False


def _left_out(turn: _Turn, function: ast.AST, name: str) -> bool:
    """Whether the calls that led into a function leave a parameter to its default, which is made once."""
    given = getattr(function, "args", None)
    called = [c for c in turn.calls if node_lookup.called_name(c) == getattr(function, "name", "")]
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


def _worked_on(turn: _Turn, name: ast.Name) -> bool:
    """Whether the turn changes what a name holds: ``files.append(f)``, ``rng.shuffle(files)``, ``x[i] = 0``."""
    for call in call_index.index_of(turn.source).called(*IN_PLACE):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if any(isinstance(n, ast.Name) and n.id == name.id for n in (owner, *call.args)) and turn.holds(call):
            return True
    stored = (n for n in call_index.nodes_of_kind(turn.source, ast.Subscript) if isinstance(n, ast.Subscript))
    return any(
        isinstance(n.value, ast.Name) and n.value.id == name.id and not isinstance(n.ctx, ast.Load) and turn.holds(n)
        for n in stored
    )


def _read_again(turn: _Turn, name: ast.Name, value: ast.expr) -> bool:
    """Whether something else in the turn goes through what ``name`` holds: the second time it reads the cache."""
    source = turn.source
    if not turn.holds(value):
        return False
    above = node_lookup.parents_of(source)
    for other in name_bindings.reads_of(source, name.id):
        if other is name or not turn.holds(other):
            continue
        holder = above.get(other)
        asked = isinstance(holder, ast.Attribute) and holder.attr in ASKED
        counted = isinstance(holder, ast.Call) and node_lookup.called_name(holder) == "len"
        if not asked and not counted and dataset_chains.last_assignment(source, other, other) is value:
            return True
    return False
