"""Caches a ``tf.function`` that each call of the enclosing function creates, so that one model gets one function."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from slowtrain.causes.host.compile_in_loop import model_hoisting, optimizer_reset
from slowtrain.model import Edit
from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.fixes.loops.traced_arguments import graph_function
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.properties import graph_obstacles
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

CACHE_OF_ONE = (
    "lru_cache(maxsize=1)"  # the function of one model at a time: more would keep the models of all folds alive
)


def remember_function(source: Source, line: int) -> list[Edit]:
    """Makes the code at ``line`` create its ``tf.function`` again only for other objects.

    A property becomes a cached property. A function that only creates it gets a cache. From a function that does more,
    the ``tf.function`` moves into a cached function of its own. Empty if a value that it reads changes between calls.
    """
    made = graph_function(source, line)
    if (
        made is None
        or graph_obstacles.outside_obstacle(source, made) is not None
        or moved_statements.edits_cross_strings([made])
    ):
        return []
    if not graph_obstacles.is_graph_function(source, made):
        return _cached_property_edits(source, made)
    holder = node_lookup.enclosing_function(source, made)
    if not isinstance(holder, ast.FunctionDef) or made not in holder.body or _gets_new_objects(source, holder):
        return []
    if only_returns_function(holder, made):
        return _cache_decorator_edits(source, holder)
    return _extraction_edits(source, holder, made) or _rate_dependent_edits(source, holder, made)


def _gets_new_objects(source: Source, holder: ast.FunctionDef) -> bool:
    """Whether loops pass a new model or optimizer to each call of ``holder``, so that a cache would never hit."""
    calls = [c for c in call_index.index_of(source).called(holder.name) if scope_names.enclosing_loops(source, c)]
    return bool(calls) and all(_is_given_new_object(source, call) for call in calls)


def _is_given_new_object(source: Source, call: ast.Call) -> bool:
    names = {a.id for a in (*call.args, *(k.value for k in call.keywords)) if isinstance(a, ast.Name)}
    made = (n for n in syntax_tree.walk(scope_names.enclosing_loops(source, call)[0]) if isinstance(n, ast.Assign))
    return any(
        isinstance(one.value, ast.Call)
        and scope_names.bound_names(one) & names
        and (
            model_hoisting.makes_model(source, one.value)
            or "optimizers." in scope_names.resolved_name(source, one.value.func)
        )
        for one in made
    )


def _rate_dependent_edits(source: Source, holder: ast.FunctionDef, made: ast.FunctionDef) -> list[Edit]:
    """Caches the optimizer that ``holder`` creates for a given rate, together with its ``tf.function``.

    Each call resets the optimizer's state, because a new optimizer has none, and sets the new rate.
    """
    body, anchor = holder.body, _insertion_anchor(source, holder)
    tuned = body[0].targets[0] if isinstance(body[0], ast.Assign) else None
    new = body[0].value if isinstance(body[0], ast.Assign) else None
    rate = optimizer_reset.variable_rate(source, new) if isinstance(new, ast.Call) else None
    parameters, above = scope_names.parameter_names(holder), node_lookup.parents_of(source)
    alone = len(body) == 3 and body[1] is made and only_returns_function(holder, made, since=1)
    if anchor is None or not alone or not isinstance(tuned, ast.Name) or not isinstance(new, ast.Call):
        return []
    if not isinstance(rate, ast.Name) or rate.id not in parameters or rate.id in scope_names.read_names(made):
        return []
    if not _has_one_caller(source, holder):
        return []
    given = [p for p in parameters if p in scope_names.read_names(made)]
    owner = above.get(holder)
    compared = isinstance(owner, ast.ClassDef) and (
        owner.decorator_list or "__eq__" in scope_names.bound_names(owner.body)
    )
    if compared or (given and not _are_used_as_objects([made], given)) or holder.decorator_list or holder.args.defaults:
        return []
    rows = source.text.split("\n")
    column, unit = _body_indents(rows, holder)
    if column.strip() or not unit or tuned.id not in scope_names.read_names(made):
        return []
    importing = [
        edits.ensure_import(source, name, short) for name, short in (("functools", "functools"), ("numpy", "np"))
    ]
    (cache, first), (numpy, second) = importing
    maker = moved_statements.free_name(source, f"make_{made.name.lstrip('_')}")
    rest = [f"{k.arg}={edits.node_text(source, k.value)}" for k in new.keywords if k.value is not rate]
    opened = f"{edits.node_text(source, new.func)}({', '.join(['learning_rate=0.0', *rest])})"
    inner = [f"{tuned.id} = {opened}", "", *moved_statements.statement_lines(rows, made)]
    head, results = f"{maker}({', '.join(given)})", f"{tuned.id}, {made.name}"
    call = [
        f"{results} = {head}",
        f"for variable in {tuned.id}.variables:  # begins anew",
        f"{unit}variable.assign({numpy}.zeros_like(variable.numpy()))",
        f"{tuned.id}.learning_rate = {rate.id}",
    ]
    inside = "\n".join(f"{column}{row}" for row in call).lstrip()
    return [
        *first,
        *second,
        _cached_maker_edit(source, anchor, cache, head, inner, results, unit),
        edits.replace_statements(source, body[0], made, inside, "\n".join(inner)),
    ]


def _has_one_caller(source: Source, holder: ast.FunctionDef) -> bool:
    """Whether one place calls it and replaces the earlier result. Two rates in use at once need an optimizer each."""
    calls = call_index.index_of(source).called(holder.name)
    statement = node_lookup.enclosing_statement(source, calls[0]) if len(calls) == 1 else None
    if not isinstance(statement, ast.Assign) or statement.value is not calls[0] or len(statement.targets) != 1:
        return False
    return isinstance(statement.targets[0], (ast.Name, ast.Attribute))


def _cached_property_edits(source: Source, made: ast.FunctionDef) -> list[Edit]:
    """Makes ``@property`` over ``return tf.function(self.step)`` a ``cached_property``."""
    returned = made.body[-1]
    value = returned.value if isinstance(returned, ast.Return) else None
    if not isinstance(value, ast.Call) or scope_names.resolved_name(source, value.func) != "tensorflow.function":
        return []
    if len(made.body) > 1 or [scope_names.dotted_name(d) for d in made.decorator_list] != ["property"]:
        return []
    holder = node_lookup.parents_of(source).get(made)
    slots = [n for n in syntax_tree.walk(holder) if isinstance(n, ast.Name) and n.id == "__slots__"] if holder else []
    accessors = f"{made.name}.setter" in source.text or f"{made.name}.deleter" in source.text
    if not isinstance(holder, ast.ClassDef) or slots or accessors:
        return []
    name, importing = edits.ensure_import(source, "functools", "functools")
    return [*importing, edits.replace_node(source, made.decorator_list[0], f"{name}.cached_property")]


def only_returns_function(holder: ast.FunctionDef, made: ast.FunctionDef, since: int = 0) -> bool:
    """Whether ``holder`` only defines and returns ``made`` from a statement on."""
    last = holder.body[-1]
    given = isinstance(last, ast.Return) and isinstance(last.value, ast.Name) and last.value.id == made.name
    return given and all(isinstance(n, ast.FunctionDef) for n in holder.body[since:-1])


def _cache_decorator_edits(source: Source, holder: ast.FunctionDef) -> list[Edit]:
    inside = [n for n in syntax_tree.walk(holder) if isinstance(n, ast.stmt) and n is not holder]
    if holder.decorator_list or not _are_used_as_objects(inside, scope_names.parameter_names(holder)):
        return []
    name, importing = edits.ensure_import(source, "functools", "functools")
    return [*importing, edits.add_decorator(source, holder, f"@{name}.{CACHE_OF_ONE}")]


def _extraction_edits(source: Source, holder: ast.FunctionDef, made: ast.FunctionDef) -> list[Edit]:
    """Moves ``made`` into a cached function, with the metrics that it updates. Those are reset in each call."""
    anchor = _insertion_anchor(source, holder)
    local = scope_names.bound_names(holder.body) | set(scope_names.parameter_names(holder))
    needs = sorted((scope_names.read_names(made) & local) - {made.name})
    before = holder.body[: holder.body.index(made)]
    sums = [one for one in before if _is_metric_assignment(source, one) and scope_names.bound_names(one) <= set(needs)]
    own = {name for one in sums for name in scope_names.bound_names(one)}
    given = [p for p in scope_names.parameter_names(holder) if p in needs]
    once = all(len(scope_names.binding_statements(source, n, holder)) == 1 for n in (made.name, *own))
    unbound = all(not scope_names.binding_statements(source, p, holder) for p in given)
    used = any(own & scope_names.read_names(one) for one in before)
    if anchor is None or not given or own | set(given) != set(needs) or not once or not unbound or used:
        return []
    if not _are_used_as_objects([made], given):
        return []
    rows = source.text.split("\n")
    column, unit = _body_indents(rows, holder)
    if column.strip() or not unit:
        return []
    name, importing = edits.ensure_import(source, "functools", "functools")
    maker = moved_statements.free_name(source, f"make_{made.name.lstrip('_')}")
    results = ", ".join([*sorted(own), made.name])
    inner = [row for one in sums for row in moved_statements.statement_lines(rows, one)] + [""] * bool(sums)
    inner += moved_statements.statement_lines(rows, made)
    head = f"{maker}({', '.join(given)})"
    call = [f"{results} = {head}", *(f"{one}.reset_state()" for one in sorted(own))]
    return [
        *importing,
        _cached_maker_edit(source, anchor, name, head, inner, results, unit),
        *(_statement_removal(source, rows, one) for one in sums),
        Edit(
            source.file,
            (moved_statements.first_statement_line(made), 0),
            edits.node_end(made),
            "\n".join(f"{column}{row}" for row in call),
        ),
    ]


def _body_indents(rows: list[str], holder: ast.FunctionDef) -> tuple[str, str]:
    """The indentation of the statements of ``holder``, and the part of it beyond the indentation of ``holder``."""
    first, own = holder.body[0], rows[holder.lineno - 1]
    column = rows[first.lineno - 1][: first.col_offset]
    return column, column[len(own) - len(own.lstrip()) :]


def _cached_maker_edit(
    source: Source, anchor: ast.stmt, module: str, head: str, inner: list[str], results: str, unit: str
) -> Edit:
    """Inserts the cached function before ``anchor``. ``head`` is its name and its parameters."""
    text = [f"@{module}.{CACHE_OF_ONE}", f"def {head}:", *(f"{unit}{row}" if row else "" for row in inner)]
    text += ["", f"{unit}return {results}", "", "", ""]
    return edits.insert_text(source, (moved_statements.first_statement_line(anchor), 0), "\n".join(text))


def _statement_removal(source: Source, rows: list[str], one: ast.stmt) -> Edit:
    """Removes the statement's line, and an empty line after it."""
    empty = one.lineno < len(rows) and not rows[one.lineno].strip()
    return Edit(source.file, (one.lineno, 0), (one.lineno + 1 + empty, 0), "")


def _insertion_anchor(source: Source, holder: ast.FunctionDef) -> ast.stmt | None:
    """The top-level statement before which the new function goes: ``holder`` or its class."""
    above = node_lookup.parents_of(source).get(holder)
    if isinstance(above, ast.Module):
        return holder
    return above if isinstance(above, ast.ClassDef) and above in source.tree.body else None


def _is_metric_assignment(source: Source, one: ast.stmt) -> bool:
    """Whether it is ``total = keras.metrics.Mean()`` on a line of its own. A reset metric equals a new one."""
    if not isinstance(one, ast.Assign) or len(one.targets) != 1 or not isinstance(one.value, ast.Call):
        return False
    value = one.value
    if "metrics." not in scope_names.resolved_name(source, value.func):
        return False
    plain = all(isinstance(a, ast.Constant) for a in (*value.args, *(k.value for k in value.keywords)))
    return plain and isinstance(one.targets[0], ast.Name) and one.lineno == one.end_lineno


def _are_used_as_objects(nodes: Sequence[ast.AST], names: list[str]) -> bool:
    """Whether all of ``names`` are called or have attributes read, as models and optimizers, which are hashable."""
    held: set[int] = set()
    loaded: dict[int, str] = {}
    for node in (n for one in nodes for n in syntax_tree.walk(one)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
            loaded[id(node)] = node.id
        if isinstance(node, ast.Call):
            held.add(id(node.func))
        if isinstance(node, ast.Attribute):
            held.add(id(node.value))
    return bool(loaded) and set(loaded) <= held and set(loaded.values()) == set(names)
