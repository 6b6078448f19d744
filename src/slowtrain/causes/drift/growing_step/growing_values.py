"""Values that each iteration of a training loop makes longer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.engine import queries
from slowtrain.script.lint_rules import keras_names, step_code
from slowtrain.script.navigation import (
    call_arguments,
    call_index,
    class_members,
    name_bindings,
    node_lookup,
    scope_names,
)
from slowtrain.script.pipelines import dataset_chains
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

JOINING_FUNCTIONS = ("concat", "concatenate", "append", "vstack", "hstack")
READING_METHODS = frozenset({"numpy", "value", "read_value"})
FRAMEWORKS = ("tensorflow.", "numpy.", "keras.ops.")
STAGES = frozenset({"map", "filter", "concatenate", "flat_map", "interleave", "shuffle"})
MAX_STAGED_ITERATIONS = 4  # each of which adds a stage to a data set


def growing_values(source: Source) -> Iterator[tuple[ast.stmt, ast.expr, str]]:
    """``all = tf.concat([all, new], 0)`` and ``ds = ds.map(f)`` in a training loop.

    Yields the statement, the target that it makes longer, and the text of the spot.
    """
    if not call_index.takes_training_steps(source):
        return
    yield from _joined_values(source)
    if not dataset_chains.may_make_dataset(source):
        return
    seen: set[tuple[ast.AST, str]] = set()
    for holder, call in _assigned_stages(source):
        name = _target_name(holder)
        key = (
            scope_names.enclosing_loops(source, holder)[-1] if scope_names.enclosing_loops(source, holder) else holder,
            name,
        )
        if (
            key in seen
            or not _extends_itself(source, holder, name)
            or not _grows_in_loop(source, holder, name, MAX_STAGED_ITERATIONS, stacked=True)
        ):
            continue
        seen.add(key)
        says = f"each iteration of the loop adds .{node_lookup.called_name(call)}() to the stages of {name}"
        yield holder, holder.targets[0], says


def _assigned_stages(source: Source) -> Iterator[tuple[ast.Assign, ast.Call]]:
    """Assignments of data sets that get a stage, there or in a function that returns them."""
    above = node_lookup.parents_of(source)
    entered: set[ast.AST] = set()
    for call in call_index.index_of(source).calls_of(*sorted(STAGES)):
        holder = above.get(node_lookup.chain_end(source, call))
        if isinstance(holder, ast.Assign) and _target_name(holder):
            yield holder, call
        function = node_lookup.enclosing_function(source, call)
        if function is None or function in entered or not isinstance(holder, (ast.Assign, ast.Return)):
            continue
        entered.add(function)
        for made in queries.calls_running(source, function):
            kept = above.get(node_lookup.chain_end(source, made))
            if isinstance(kept, ast.Assign) and _target_name(kept):
                yield kept, call


def _joined_values(source: Source) -> Iterator[tuple[ast.stmt, ast.expr, str]]:
    """Values that are joined with new parts and assigned to their old name or variable."""
    for call in call_index.index_of(source).calls_of(*JOINING_FUNCTIONS):
        holder = node_lookup.parents_of(source).get(call)
        if not name_bindings.qualified_name(source, call.func).startswith(FRAMEWORKS):
            continue
        variable = _assign_call(source, call)
        if variable is not None and _has_no_other_assignment(source, variable) and _runs_each_step(source, variable):
            statement = node_lookup.enclosing_statement(source, variable)
            name = scope_names.dotted_name(variable.func.value)  # type: ignore[attr-defined]
            if statement is not None:
                yield statement, variable.func, f"{name} gets longer in each step, which works on all of it"
            continue
        yield from _returned_values(source, call)
        if not isinstance(holder, ast.Assign):
            continue
        name = _target_name(holder)
        if not name or name not in _joined_names(call) or _only_collects_numbers(source, holder, call, name):
            continue
        if _grows_in_loop(source, holder, name, queries.MAX_FEW_TURNS) or _grows_in_hook(source, holder, name):
            says = f"{name} gets longer in each iteration of the training loop, which works on all of it"
            yield holder, holder.targets[0], says


def _only_collects_numbers(source: Source, holder: ast.Assign, call: ast.Call, name: str) -> bool:
    """Whether it is ``rewards = np.append(rewards, r)``, and nothing else in the loop reads the numbers.

    Copying some thousand numbers takes less than a call of a model.
    """
    if node_lookup.called_name(call) != "append" or node_lookup.argument_value(call, "axis", 2) is not None:
        return False
    inside = list(syntax_tree.walk(holder))
    loops = scope_names.enclosing_loops(source, holder)
    return not any(
        isinstance(node, (ast.Name, ast.Attribute)) and scope_names.dotted_name(node) == name and node not in inside
        for loop in loops[:1]
        for node in syntax_tree.walk(loop)
    )


def _returned_values(source: Source, call: ast.Call) -> Iterator[tuple[ast.stmt, ast.expr, str]]:
    """``bank = step(x, bank)`` in a loop, with a function that returns its parameter with new parts."""
    function = node_lookup.enclosing_function(source, call)
    given = set(_joined_names(call)) & set(scope_names.parameter_names(function)) if function is not None else set()
    if function is None or not given:
        return
    holder, (parameter, *_) = node_lookup.parents_of(source).get(call), sorted(given)
    target = _target_name(holder) if isinstance(holder, ast.Assign) else ""
    for name in {target, parameter} - {""}:
        if [n for n in scope_names.binding_statements(source, name, function) if n is not holder and n is not function]:
            return  # the other statement may shorten it
    several = scope_names.returned_values(function)
    parts = (several[0].elts if isinstance(several[0], ast.Tuple) else several) if len(several) == 1 else []
    at = [i for i, one in enumerate(parts) if one is call or (isinstance(one, ast.Name) and one.id == target)]
    for made in queries.calls_running(source, function) if len(at) == 1 else ():
        kept = node_lookup.parents_of(source).get(made)
        goes_in = call_arguments.argument_in(function, made, parameter)
        if not isinstance(kept, ast.Assign) or not isinstance(goes_in, ast.Name) or len(kept.targets) != 1:
            continue
        first = kept.targets[0]
        back = first if len(parts) == 1 else first.elts[at[0]] if _is_tuple_of(first, len(parts)) else None  # type: ignore[attr-defined]
        if (
            isinstance(back, ast.Name)
            and back.id == goes_in.id
            and _grows_in_loop(source, kept, back.id, queries.MAX_FEW_TURNS)
        ):
            says = f"{back.id} comes back longer from each iteration of the training loop, which works on all of it"
            yield kept, first, says


def _is_tuple_of(target: ast.expr, count: int) -> bool:
    return isinstance(target, ast.Tuple) and len(target.elts) == count


def _target_name(one: ast.Assign) -> str:
    return scope_names.dotted_name(one.targets[0]) if len(one.targets) == 1 else ""


def _joined_names(call: ast.Call) -> list[str]:
    given = call.args[0] if call.args else node_lookup.argument_value(call, "values")
    several = given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given]
    return [_read_name(one) for one in several if one is not None]


def _read_name(one: ast.expr) -> str:
    """The dotted name, without a reading method: ``self.bank`` for ``self.bank.numpy()``."""
    if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in READING_METHODS:
        return scope_names.dotted_name(one.func.value)
    return scope_names.dotted_name(one)


def _assign_call(source: Source, joined: ast.Call) -> ast.Call | None:
    """The call of ``assign`` in ``bank.assign(tf.concat([bank, new], 0))``, also through a name."""
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
        if given_first and owner is not None and scope_names.dotted_name(owner) in set(_joined_names(joined)) - {""}:
            return call  # type: ignore[return-value]
    return None


def _has_no_other_assignment(source: Source, assign: ast.Call) -> bool:
    """Whether nothing else in the file assigns to the variable. Another value may be shorter."""
    name = scope_names.dotted_name(assign.func.value) if isinstance(assign.func, ast.Attribute) else ""
    last = name.rpartition(".")[2]
    for other in call_index.index_of(source).calls_of("assign"):
        owner = other.func.value if isinstance(other.func, ast.Attribute) else None
        if other is not assign and owner is not None and scope_names.dotted_name(owner).rpartition(".")[2] == last:
            return False
    made = (
        [node_lookup.enclosing_function(source, s) for s in class_members.attribute_stores(source, last)]
        if "." in name
        else []
    )
    return all(f is not None and f.name in ("__init__", "build") for f in made)


def _runs_each_step(source: Source, call: ast.Call) -> bool:
    """Whether a step or an iteration of a loop of steps runs it, without a condition or a loop in between."""
    function, above = node_lookup.enclosing_function(source, call), node_lookup.parents_of(source)
    at = above.get(call)
    while at is not None and at is not function:
        if isinstance(at, (ast.If, ast.For, ast.While, ast.IfExp)):
            function = None
            break
        at = above.get(at)
    if function is not None and (step_code.is_in_step(source, call) or _is_batch_hook(source, function)):
        return True
    return any(
        not queries.has_few_turns(source, loop)
        and not scope_names.is_literal_loop(loop)
        and _takes_steps(source, loop, inside)
        for loop, inside in queries.loops_running(source, call)
    )


def _is_batch_hook(source: Source, function: class_members.Function) -> bool:
    """Whether Keras calls it for each batch."""
    kind = node_lookup.parents_of(source).get(function)
    return (
        function.name in keras_names.BATCH_HOOKS
        and isinstance(kind, ast.ClassDef)
        and any(scope_names.dotted_name(base).endswith("Callback") for base in kind.bases)
    )


def _grows_in_hook(source: Source, one: ast.Assign, name: str) -> bool:
    """Whether it is ``self.seen = np.concatenate([self.seen, new])`` in a hook of each batch."""
    function = node_lookup.enclosing_function(source, one)
    hook = function is not None and one in function.body and _is_batch_hook(source, function)
    return hook and not _is_set_elsewhere(source, one, name, source.tree)


def _extends_itself(source: Source, one: ast.AST, name: str) -> bool:
    """Whether a statement assigns to a name its old value with more stages, not a new data set."""
    return (
        isinstance(one, ast.Assign) and _target_name(one) == name and _chain_root(source, one.value, one, name) == name
    )


def _chain_root(source: Source, value: ast.expr, place: ast.AST, name: str, depth: int = 4) -> str:
    """The name at the start of a chain of operations, through other names of the iteration and the file's functions."""
    iteration_names = scope_names.enclosing_loops(source, place)[:1]
    for _ in range(dataset_chains.MAX_LINKS):
        inner = queries.called_function(source, value) if isinstance(value, ast.Call) and depth else None
        if isinstance(value, ast.Call) and inner is not None:
            given = _passed_argument(source, inner, value, depth)
            if given is None:
                return ""
            value = given
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            value = value.func.value
        elif isinstance(value, ast.Name) and value.id != name:
            held_value = dataset_chains.last_assignment(source, value, place)
            if held_value is None or scope_names.enclosing_loops(source, held_value)[:1] != iteration_names:
                break
            value = place = held_value
        else:
            break
    return scope_names.dotted_name(value)


def _passed_argument(source: Source, function: class_members.Function, call: ast.Call, depth: int) -> ast.expr | None:
    """The argument of a call that the function returns with more stages."""
    back = scope_names.returned_values(function)
    parameter = _chain_root(source, back[0], back[0], "", depth - 1) if len(back) == 1 else ""
    bound = (
        [n for n in scope_names.binding_statements(source, parameter, function) if n is not function]
        if parameter
        else []
    )
    if any(not _extends_itself(source, n, parameter) for n in bound):
        return None
    return call_arguments.argument_in(function, call, parameter)


def _grows_in_loop(source: Source, one: ast.Assign, name: str, few: int, *, stacked: bool = False) -> bool:
    """Whether a loop that takes steps runs it in each of many iterations, and nothing else in it assigns the name."""
    for loop, inside in queries.loops_running(source, one):
        count = queries.loop_turns(source, loop)
        if (count is not None and count <= few) or scope_names.is_literal_loop(loop):
            continue
        if _is_set_elsewhere(source, one, name, loop, stacked=stacked) or not _takes_steps(source, loop, inside):
            continue
        return True
    return False


def _is_set_elsewhere(source: Source, one: ast.Assign, name: str, loop: ast.AST, *, stacked: bool = False) -> bool:
    """Whether something else in the loop assigns the name. ``stacked``: ignore statements that add stages."""
    if "." not in name:
        scope = scope_names.enclosing_scope(source, one)
        function = node_lookup.enclosing_function(source, one)
        if (
            function is not None
            and name not in scope_names.declared_outer_names(function)
            and function is not scope_names.enclosing_scope(source, loop)
        ):
            return True  # a local name, which each call creates
        others = [n for n in scope_names.binding_statements(source, name, scope) if n is not one]
        others = [n for n in others if not stacked or not _extends_itself(source, n, name)]
        begin, end = getattr(loop, "lineno", 0), getattr(loop, "end_lineno", 0)
        return any(begin <= getattr(n, "lineno", 0) <= end for n in others)
    if not name.startswith("self.") or name.count(".") > 1:
        return True
    value = [
        (s, node_lookup.enclosing_statement(source, s))
        for s in class_members.attribute_stores(source, name.partition(".")[2])
    ]
    stored = [s for s, by in value if by is not one and not (stacked and by and _extends_itself(source, by, name))]
    made = [node_lookup.enclosing_function(source, s) for s in stored]
    return any(f is None or f.name != "__init__" for f in made) or not stored


def _takes_steps(source: Source, loop: ast.For | ast.While, inside: ast.stmt) -> bool:
    fit = any(scope_names.enclosing_loops(source, c)[:1] == [loop] for c in call_index.index_of(source).calls_of("fit"))
    return fit or call_index.reaches_training_step(source, [inside, *loop.body])
