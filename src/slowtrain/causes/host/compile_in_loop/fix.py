"""Builds a model or a function once, and resets it where each iteration starts anew."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence, Set

from slowtrain.causes.host.compile_in_loop import RebuildFinding
from slowtrain.causes.host.compile_in_loop.model_hoisting import hoist_model, makes_model, reuse_model
from slowtrain.model import Edit, Effect, Place, Prescription
from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.fixes.loops.traced_arguments import graph_function
from slowtrain.script.locations import source_locations, source_places
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.properties import graph_obstacles
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace

BUILD_ONCE = "build, compile and define tf.functions once before the loop; reset weights and rates in it"
RESET_STATE = "build and compile once before the loop; in each iteration reset the weights and the optimizer's state"
CACHE_OF_ONE = "lru_cache(maxsize=1)"  # of one model at a time: more would keep the models of all folds alive
# Optimizers whose variables are all zero before the first step, except the rate.
ZERO_STATE_OPTIMIZERS = frozenset("Adam AdamW Adamax RMSprop SGD Adadelta Lion".split())
# In a file with one of these, a new compile() may do more than start with a new optimizer.
STATEFUL_WORDS = frozenset(
    "trainable load_model from_pretrained train_on_batch mixed_precision mixed_float16 LossScaleOptimizer use_ema "
    "schedules run_eagerly jit_compile".split()
)


def find_cures(trace: Trace, finding: RebuildFinding) -> Iterable[Prescription]:
    places = finding.places
    moved = _first_edits(
        trace,
        places,
        moved_statements.assign_learning_rate,
        reset_optimizer,
        remember_function,
    )
    reset = () if moved else _first_edits(trace, places, hoist_model, reuse_model)
    if reset:
        yield Prescription("edit", Effect.EQUIVALENT, RESET_STATE, edits=reset)
    yield Prescription("edit", Effect.EXACT, BUILD_ONCE, edits=moved)


def find_lines(trace: Trace, finding: RebuildFinding) -> Iterable[Place]:
    """The lines that create the models that ``compile()`` is called on."""
    if not finding.functions[0].events[0].data.get("keras"):
        return
    for place in finding.places:
        yield from source_places.file_places(
            trace, place, lambda source, line: source_locations.receiver_line(source, line, "compile")
        )


def _first_edits(
    trace: Trace, places: tuple[Place, ...], *cures: Callable[[Source, int], list[Edit]]
) -> tuple[Edit, ...]:
    """The edits of the first cure that has any."""
    return next((edits for cure in cures if (edits := recorded_edits.first_applicable(trace, places, cure))), ())


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
    if _only_returns_function(holder, made):
        return _cache_decorator_edits(source, holder)
    return _extraction_edits(source, holder, made) or _rate_dependent_edits(source, holder, made)


def _gets_new_objects(source: Source, holder: ast.FunctionDef) -> bool:
    """Whether loops pass a new model or optimizer to each call of ``holder``, so that a cache would never hit."""
    calls = [c for c in call_index.index_of(source).calls_of(holder.name) if scope_names.enclosing_loops(source, c)]
    return bool(calls) and all(_is_given_new_object(source, call) for call in calls)


def _is_given_new_object(source: Source, call: ast.Call) -> bool:
    names = {a.id for a in (*call.args, *(k.value for k in call.keywords)) if isinstance(a, ast.Name)}
    made = (n for n in syntax_tree.walk(scope_names.enclosing_loops(source, call)[0]) if isinstance(n, ast.Assign))
    return any(
        isinstance(one.value, ast.Call)
        and scope_names.bound_names(one) & names
        and (makes_model(source, one.value) or "optimizers." in scope_names.resolved_name(source, one.value.func))
        for one in made
    )


def _rate_dependent_edits(source: Source, holder: ast.FunctionDef, made: ast.FunctionDef) -> list[Edit]:
    """Caches the optimizer that ``holder`` creates for a given rate, together with its ``tf.function``.

    Each call resets the optimizer's state, because a new optimizer has none, and sets the new rate.
    """
    body, anchor = holder.body, _insertion_anchor(source, holder)
    tuned = body[0].targets[0] if isinstance(body[0], ast.Assign) else None
    new = body[0].value if isinstance(body[0], ast.Assign) else None
    rate = _variable_rate(source, new) if isinstance(new, ast.Call) else None
    parameters, above = scope_names.parameter_names(holder), node_lookup.parents_of(source)
    alone = len(body) == 3 and body[1] is made and _only_returns_function(holder, made, since=1)
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
    calls = call_index.index_of(source).calls_of(holder.name)
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


def _only_returns_function(holder: ast.FunctionDef, made: ast.FunctionDef, since: int = 0) -> bool:
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
    held_value: set[int] = set()
    loaded: dict[int, str] = {}
    for node in (n for one in nodes for n in syntax_tree.walk(one)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
            loaded[id(node)] = node.id
        if isinstance(node, ast.Call):
            held_value.add(id(node.func))
        if isinstance(node, ast.Attribute):
            held_value.add(id(node.value))
    return bool(loaded) and set(loaded) <= held_value and set(loaded.values()) == set(names)


def reset_optimizer(source: Source, line: int) -> list[Edit]:
    """Runs ``compile()`` at ``line`` once. Later iterations reset the optimizer's state to zero and set the rate."""
    call = node_lookup.single_call(source, line, "compile")
    statement = node_lookup.enclosing_statement(source, call) if call is not None else None
    if call is None or not isinstance(statement, ast.Expr) or statement.value is not call:
        return []
    owner, made = (
        scope_names.dotted_name(call.func)[: -len(".compile")],
        node_lookup.argument_value(call, "optimizer", 0),
    )
    every = [c for c in call_index.index_of(source).calls_of("compile") if isinstance(c.func, ast.Attribute)]
    if not owner or not isinstance(made, ast.Call) or any(c is not call and _compiles_model(source, c) for c in every):
        return []
    given = _variable_rate(source, made)
    others = [*call.args[1:], *(k.value for k in call.keywords if k.arg != "optimizer")]
    if _is_created_here(source, call, owner):
        return []  # a new model has no optimizer yet
    if (
        given is None
        or any(k.arg is None for k in call.keywords)
        or not all(is_constant(source, one) for one in others)
    ):
        return []
    if _mentions_any(source, STATEFUL_WORDS):
        return []
    return _reset_edits(source, statement, owner, edits.node_text(source, given))


def _is_created_here(source: Source, call: ast.Call, owner: str) -> bool:
    """Whether the model is created in the same iteration or function call in which it is compiled."""
    makers = (
        scope_names.binding_statements(source, owner, scope_names.enclosing_scope(source, call))
        if "." not in owner
        else []
    )
    inner = node_lookup.enclosing_function(source, call) is not None
    around = scope_names.enclosing_loops(source, call)
    return any((around or inner) and scope_names.enclosing_loops(source, one) == around for one in makers)


def _mentions_any(source: Source, words: Set[str]) -> bool:
    """Whether one of the words is anywhere in the file as a name, an argument's name or a string."""
    kinds = (ast.Name, ast.Attribute, ast.keyword, ast.Constant)
    return any(isinstance(n, kinds) and _name_in(n) in words for n in syntax_tree.walk(source.tree))


def _name_in(node: ast.AST) -> object:
    for field in ("id", "attr", "arg", "value"):
        if hasattr(node, field):
            return getattr(node, field) if field != "value" or isinstance(node, ast.Constant) else None
    return None


def _compiles_model(source: Source, call: ast.Call) -> bool:
    return name_bindings.qualified_name(source, call.func) != "re.compile"


def _variable_rate(source: Source, made: ast.Call) -> ast.expr | None:
    """The learning rate of a Keras optimizer with zero state if it is not a literal and all other settings are."""
    kind = name_bindings.qualified_name(source, made.func)
    if (
        not kind.startswith("keras.optimizers.")
        or node_lookup.called_name(made) not in ZERO_STATE_OPTIMIZERS
        or len(made.args) > 1
    ):
        return None
    found = node_lookup.argument_value(made, "learning_rate", 0)
    others = [k for k in made.keywords if k.arg != "learning_rate"]
    plain = all(isinstance(k.value, ast.Constant) and k.arg for k in others)
    return found if plain and found is not None and not isinstance(found, ast.Constant) else None


def is_constant(source: Source, node: ast.expr) -> bool:
    """Whether an argument is the same in every iteration: a literal, or a loss or metric of Keras made of literals."""
    if isinstance(node, ast.Call):
        given = [*node.args, *(k.value for k in node.keywords)]
        return name_bindings.qualified_name(source, node.func).startswith("keras.") and all(
            is_constant(source, g) for g in given
        )
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(is_constant(source, e) for e in node.elts)
    if isinstance(node, ast.Dict):
        return all(is_constant(source, v) for v in node.values)
    return isinstance(node, ast.Constant)


def _reset_edits(source: Source, statement: ast.Expr, owner: str, rate: str) -> list[Edit]:
    rows = source.text.split("\n")
    start, stop = statement.lineno, statement.end_lineno or statement.lineno
    indent = rows[start - 1][: statement.col_offset]
    rest = rows[stop - 1].encode()[statement.end_col_offset or 0 :].decode().strip()
    if indent.strip() or (rest and not rest.startswith("#")) or moved_statements.edits_cross_strings([statement]):
        return []
    unit = edits.indentation_unit(source)
    numpy, importing = edits.ensure_import(source, "numpy", "np")
    after = [
        f"{indent}else:",
        f"{indent}{unit}for variable in {owner}.optimizer.variables:",
        f"{indent}{unit}{unit}variable.assign({numpy}.zeros_like(variable.numpy()))",
        f"{indent}{unit}{owner}.optimizer.learning_rate = {rate}",
    ]
    shifts = [edits.insert_text(source, (n, 0), unit) for n in range(start + 1, stop + 1) if rows[n - 1].strip()]
    head = edits.insert_text(source, (start, 0), f'{indent}if getattr({owner}, "optimizer", None) is None:\n{unit}')
    tail = edits.insert_text(source, (stop, len(rows[stop - 1].rstrip("\r").encode())), "\n" + "\n".join(after))
    return [*importing, head, *shifts, tail]
