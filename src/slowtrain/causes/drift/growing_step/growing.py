"""Tensors, arrays and data sets that each turn of a training loop makes longer, and nothing makes shorter."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import (
    call_arguments,
    call_index,
    class_members,
    name_bindings,
    node_lookup,
    scope_names,
    training_calls,
)
from slowtrain.script.pipelines import dataset_chains
from slowtrain.script.text.source_file import Source
from slowtrain.source.spots.compute import turns
from slowtrain.source.spots.host import callbacks, fits

JOINED = ("concat", "concatenate", "append", "vstack", "hstack")
READING = frozenset({"numpy", "value", "read_value"})
FRAMEWORKS = ("tensorflow.", "numpy.", "keras.ops.")
STAGES = frozenset({"map", "filter", "concatenate", "flat_map", "interleave", "shuffle"})
FEW = 4  # turns, of a data set that gets a stage in each


def longer(source: Source) -> Iterator[tuple[ast.stmt, ast.expr, str]]:
    """``all = tf.concat([all, new], 0)`` and ``ds = ds.map(f)`` in the turns of a loop that trains; what is seen.

    The statement, what it makes longer, and the words.
    """
    if not training_calls.takes_training_steps(source):
        return
    yield from _joined(source)
    if not dataset_chains.may_make_dataset(source):
        return
    seen: set[tuple[ast.AST, str]] = set()
    for holder, call in _staged(source):
        name = _target(holder)
        key = (
            scope_names.enclosing_loops(source, holder)[-1] if scope_names.enclosing_loops(source, holder) else holder,
            name,
        )
        if key in seen or not _on_itself(source, holder, name) or not _grows(source, holder, name, FEW, stacked=True):
            continue
        seen.add(key)
        says = f"each turn of the loop puts .{node_lookup.called_name(call)}() on top of the stages that {name} has"
        yield holder, holder.targets[0], says


def _staged(source: Source) -> Iterator[tuple[ast.Assign, ast.Call]]:
    """What is assigned data sets that get a stage: written there, or in a function that gives them back."""
    above = node_lookup.parents_of(source)
    entered: set[ast.AST] = set()
    for call in call_index.index_of(source).called(*sorted(STAGES)):
        holder = above.get(node_lookup.chain_end(source, call))
        if isinstance(holder, ast.Assign) and _target(holder):
            yield holder, call
        function = node_lookup.enclosing_function(source, call)
        if function is None or function in entered or not isinstance(holder, (ast.Assign, ast.Return)):
            continue
        entered.add(function)
        for made in queries.calls_running(source, function):
            kept = above.get(node_lookup.chain_end(source, made))
            if isinstance(kept, ast.Assign) and _target(kept):
                yield kept, call


def _joined(source: Source) -> Iterator[tuple[ast.stmt, ast.expr, str]]:
    """What is put together with new parts under its old name, or assigned to the variable that it was."""
    for call in call_index.index_of(source).called(*JOINED):
        holder = node_lookup.parents_of(source).get(call)
        if not name_bindings.qualified_name(source, call.func).startswith(FRAMEWORKS):
            continue
        variable = _assigned(source, call)
        if variable is not None and _stays(source, variable) and _each_step(source, variable):
            statement = node_lookup.enclosing_statement(source, variable)
            name = scope_names.dotted_name(variable.func.value)  # type: ignore[attr-defined]
            if statement is not None:
                yield statement, variable.func, f"{name} gets longer in each step, which works on all of it"
            continue
        yield from _handed_back(source, call)
        if not isinstance(holder, ast.Assign):
            continue
        name = _target(holder)
        if not name or name not in _parts(call):
            continue
        if _grows(source, holder, name, queries.MAX_FEW_TURNS) or _hooked(source, holder, name):
            says = f"{name} gets longer in each turn of the training loop, which works on all of it"
            yield holder, holder.targets[0], says


def _handed_back(source: Source, call: ast.Call) -> Iterator[tuple[ast.stmt, ast.expr, str]]:
    """``bank = step(x, bank)`` in a loop, of a function that gives its parameter back with new parts."""
    function = node_lookup.enclosing_function(source, call)
    given = set(_parts(call)) & set(scope_names.parameter_names(function)) if function is not None else set()
    if function is None or not given:
        return
    holder, (parameter, *_) = node_lookup.parents_of(source).get(call), sorted(given)
    target = _target(holder) if isinstance(holder, ast.Assign) else ""
    for name in {target, parameter} - {""}:
        if [n for n in scope_names.binding_statements(source, name, function) if n is not holder and n is not function]:
            return  # cut again, maybe
    several = scope_names.returned_values(function)
    parts = (several[0].elts if isinstance(several[0], ast.Tuple) else several) if len(several) == 1 else []
    at = [i for i, one in enumerate(parts) if one is call or (isinstance(one, ast.Name) and one.id == target)]
    for made in queries.calls_running(source, function) if len(at) == 1 else ():
        kept = node_lookup.parents_of(source).get(made)
        goes_in = call_arguments.argument_in(function, made, parameter)
        if not isinstance(kept, ast.Assign) or not isinstance(goes_in, ast.Name) or len(kept.targets) != 1:
            continue
        first = kept.targets[0]
        back = first if len(parts) == 1 else first.elts[at[0]] if _unpacks(first, len(parts)) else None  # type: ignore[attr-defined]
        if (
            isinstance(back, ast.Name)
            and back.id == goes_in.id
            and _grows(source, kept, back.id, queries.MAX_FEW_TURNS)
        ):
            says = f"{back.id} comes back longer from each turn of the training loop, which works on all of it"
            yield kept, first, says


def _unpacks(target: ast.expr, count: int) -> bool:
    return isinstance(target, ast.Tuple) and len(target.elts) == count


def _target(one: ast.Assign) -> str:
    return scope_names.dotted_name(one.targets[0]) if len(one.targets) == 1 else ""


def _parts(call: ast.Call) -> list[str]:
    given = call.args[0] if call.args else node_lookup.argument_value(call, "values")
    several = given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given]
    return [_read(one) for one in several if one is not None]


def _read(one: ast.expr) -> str:
    """``self.bank`` of ``self.bank.numpy()`` as well."""
    if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in READING:
        return scope_names.dotted_name(one.func.value)
    return scope_names.dotted_name(one)


def _assigned(source: Source, joined: ast.Call) -> ast.Call | None:
    """``bank.assign(tf.concat([bank, new], 0))``, by a name in between as well: the call of ``assign``."""
    holder = node_lookup.parents_of(source).get(joined)
    given: list[ast.expr] = [joined]
    if isinstance(holder, ast.Assign) and len(holder.targets) == 1 and isinstance(holder.targets[0], ast.Name):
        function = node_lookup.enclosing_function(source, holder)
        read = [
            n
            for n in name_bindings.reads_of(source, holder.targets[0].id)
            if node_lookup.enclosing_function(source, n) is function
        ]
        given = [n for n in read if name_bindings.single_assignment(source, n) is joined]
    for one in given:
        call = node_lookup.parents_of(source).get(one)
        owner = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
        given_first = isinstance(call, ast.Call) and one in call.args[:1] and node_lookup.called_name(call) == "assign"
        if given_first and owner is not None and scope_names.dotted_name(owner) in set(_parts(joined)) - {""}:
            return call  # type: ignore[return-value]
    return None


def _stays(source: Source, assign: ast.Call) -> bool:
    """Whether nothing else in the file gives the variable something: it may well be a shorter one."""
    name = scope_names.dotted_name(assign.func.value) if isinstance(assign.func, ast.Attribute) else ""
    last = name.rpartition(".")[2]
    for other in call_index.index_of(source).called("assign"):
        owner = other.func.value if isinstance(other.func, ast.Attribute) else None
        if other is not assign and owner is not None and scope_names.dotted_name(owner).rpartition(".")[2] == last:
            return False
    made = (
        [node_lookup.enclosing_function(source, s) for s in class_members.attribute_stores(source, last)]
        if "." in name
        else []
    )
    return all(f is not None and f.name in ("__init__", "build") for f in made)


def _each_step(source: Source, call: ast.Call) -> bool:
    """Whether a step runs it, or a loop that takes steps, in each turn: no test and no loop decides."""
    function, above = node_lookup.enclosing_function(source, call), node_lookup.parents_of(source)
    at = above.get(call)
    while at is not None and at is not function:
        if isinstance(at, (ast.If, ast.For, ast.While, ast.IfExp)):
            function = None
            break
        at = above.get(at)
    if function is not None and (turns.in_step(source, call) or _is_hook(source, function)):
        return True
    return any(
        not queries.has_few_turns(source, loop)
        and not scope_names.is_literal_loop(loop)
        and _trains(source, loop, inside)
        for loop, inside in queries.loops_running(source, call)
    )


def _is_hook(source: Source, function: class_members.Function) -> bool:
    """Whether Keras calls it for each batch."""
    kind = node_lookup.parents_of(source).get(function)
    return (
        function.name in callbacks.HOOKS
        and isinstance(kind, ast.ClassDef)
        and any(scope_names.dotted_name(base).endswith("Callback") for base in kind.bases)
    )


def _hooked(source: Source, one: ast.Assign, name: str) -> bool:
    """``self.seen = np.concatenate([self.seen, new])`` in a hook of each batch."""
    function = node_lookup.enclosing_function(source, one)
    hook = function is not None and one in function.body and _is_hook(source, function)
    return hook and not _set_elsewhere(source, one, name, source.tree)


def _on_itself(source: Source, one: ast.AST, name: str) -> bool:
    """Whether what a statement assigns to a name is what the name held, with stages on it: no fresh data set."""
    return isinstance(one, ast.Assign) and _target(one) == name and _root(source, one.value, one, name) == name


def _root(source: Source, value: ast.expr, place: ast.AST, name: str, depth: int = 4) -> str:
    """What a chain of operations begins with, through other names of the turn and functions of the file."""
    turn = scope_names.enclosing_loops(source, place)[:1]
    for _ in range(dataset_chains.MAX_LINKS):
        inner = queries.called_function(source, value) if isinstance(value, ast.Call) and depth else None
        if isinstance(value, ast.Call) and inner is not None:
            given = _handed(source, inner, value, depth)
            if given is None:
                return ""
            value = given
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            value = value.func.value
        elif isinstance(value, ast.Name) and value.id != name:
            held = dataset_chains.last_assignment(source, value, place)
            if held is None or scope_names.enclosing_loops(source, held)[:1] != turn:
                break
            value = place = held
        else:
            break
    return scope_names.dotted_name(value)


def _handed(source: Source, function: class_members.Function, call: ast.Call, depth: int) -> ast.expr | None:
    """The argument of a call that the function gives back with stages on it."""
    back = scope_names.returned_values(function)
    parameter = _root(source, back[0], back[0], "", depth - 1) if len(back) == 1 else ""
    bound = (
        [n for n in scope_names.binding_statements(source, parameter, function) if n is not function]
        if parameter
        else []
    )
    if any(not _on_itself(source, n, parameter) for n in bound):
        return None
    return call_arguments.argument_in(function, call, parameter)


def _grows(source: Source, one: ast.Assign, name: str, few: int, *, stacked: bool = False) -> bool:
    """Whether a loop that takes steps runs it in each of many turns, and nothing else in there assigns the name."""
    for loop, inside in queries.loops_running(source, one):
        count = queries.loop_turns(source, loop)
        if (count is not None and count <= few) or scope_names.is_literal_loop(loop):
            continue
        if _set_elsewhere(source, one, name, loop, stacked=stacked) or not _trains(source, loop, inside):
            continue
        return True
    return False


def _set_elsewhere(source: Source, one: ast.Assign, name: str, loop: ast.AST, *, stacked: bool = False) -> bool:
    """Whether something else in the loop gives the name a value; ``stacked``: further stages of a data set apart."""
    if "." not in name:
        scope = scope_names.enclosing_scope(source, one)
        function = node_lookup.enclosing_function(source, one)
        if (
            function is not None
            and name not in scope_names.declared_outer_names(function)
            and function is not scope_names.enclosing_scope(source, loop)
        ):
            return True  # a function's own name, made anew in each call
        others = [n for n in scope_names.binding_statements(source, name, scope) if n is not one]
        others = [n for n in others if not stacked or not _on_itself(source, n, name)]
        begin, end = getattr(loop, "lineno", 0), getattr(loop, "end_lineno", 0)
        return any(begin <= getattr(n, "lineno", 0) <= end for n in others)
    if not name.startswith("self.") or name.count(".") > 1:
        return True
    held = [
        (s, node_lookup.enclosing_statement(source, s))
        for s in class_members.attribute_stores(source, name.partition(".")[2])
    ]
    stored = [s for s, by in held if by is not one and not (stacked and by and _on_itself(source, by, name))]
    made = [node_lookup.enclosing_function(source, s) for s in stored]
    return any(f is None or f.name != "__init__" for f in made) or not stored


def _trains(source: Source, loop: ast.For | ast.While, inside: ast.stmt) -> bool:
    fit = any(scope_names.enclosing_loops(source, c)[:1] == [loop] for c in call_index.index_of(source).called("fit"))
    return fit or fits.takes_step(source, [inside, *loop.body])
