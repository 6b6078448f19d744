"""Moves a model that each iteration builds out of the loop, and resets weights and optimizer in each iteration."""

from __future__ import annotations

import ast

from msgspec import Struct

from slowtrain.model import Edit
from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.navigation import call_index, class_members, node_lookup, scope_names
from slowtrain.script.properties import graph_obstacles
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source, last_name

MODEL_CLASSES = frozenset({"Sequential", "Model"})
INPUT_CLASSES = frozenset({"Input", "InputLayer"})
MODEL_ATTRIBUTES = frozenset(
    "compile fit evaluate predict predict_on_batch train_on_batch test_on_batch set_weights get_weights load_weights "
    "save save_weights summary trainable_variables trainable_weights weights variables count_params losses".split()
)
OPTIMIZER_ATTRIBUTES = frozenset("apply_gradients apply minimize".split())
FORBIDDEN_NAMES = frozenset("clear_session adapt add pop trainable append_model clone_model".split())
COPY_FUNCTION = "clone_model"
CHANGING_ATTRIBUTES = frozenset({"clear_session", "adapt", "add", "pop", "trainable"})
REUSE_TEMPLATE = """\
if not {kept}:
{made}
{unit}{model}.optimizer.build({model}.trainable_variables)
{unit}{kept}.append(({model}, [v.numpy() for v in {model}.optimizer.variables]))
{model}, {state} = {kept}[0]
for variable, value in zip({model}.optimizer.variables, {state}):
{unit}variable.assign(value)"""


class LoopParts(Struct):
    """Statements of the loop's body that create the model, compile it, create an optimizer, and functions of both."""

    model: ast.Assign
    compiled: ast.Expr | None
    optimizer: ast.Assign | None
    functions: list[ast.stmt]


def hoist_model(source: Source, line: int) -> list[Edit]:
    """Moves the model that a loop around ``line`` builds in front of the loop; empty if that may not be safe.

    Each iteration still builds a model for its initial weights. Tracing and compiling are saved.
    """
    for loop in _loops_around(source, line):
        found = _loop_parts(source, loop)
        if found is not None:
            return _hoisting_edits(source, loop, found) if _may_hoist(source, loop, found) else []
    return []


def _loops_around(source: Source, line: int) -> list[ast.For | ast.While]:
    """The loops around the line, and around calls of the function that contains it, the innermost first."""
    lines = [line]
    function = source.function_at(line)
    while function is not None:
        name = getattr(function, "name", "")
        calls = [n for n in call_index.nodes_of_class(source, ast.Call) if node_lookup.called_name(n) == name]
        lines += [c.lineno for c in calls]
        function = node_lookup.enclosing_function(source, function)
    every = [n for n in syntax_tree.walk(source.tree) if isinstance(n, (ast.For, ast.While)) and not n.orelse]
    found = [n for n in every if any(n.lineno <= at <= (n.end_lineno or 0) for at in lines)]
    return sorted(found, key=lambda n: -n.lineno)


def _loop_parts(source: Source, loop: ast.For | ast.While) -> LoopParts | None:
    model, compiled, optimizer = None, None, None
    functions: list[ast.stmt] = []
    for one in loop.body:
        value = one.value if isinstance(one, (ast.Assign, ast.Expr)) else None
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and isinstance(value, ast.Call):
            if makes_model(source, value):
                if model is not None:
                    return None
                model = one
            elif "optimizers." in scope_names.resolved_name(source, value.func):
                if optimizer is not None:
                    return None
                optimizer = one
            elif _makes_graph(source, value):
                functions.append(one)
        elif isinstance(one, ast.FunctionDef) and graph_obstacles.is_graph_function(source, one):
            functions.append(one)
        elif isinstance(one, ast.Expr) and isinstance(value, ast.Call) and node_lookup.called_name(value) == "compile":
            compiled = one
    return LoopParts(model, compiled, optimizer, functions) if model is not None else None


def makes_model(source: Source, call: ast.Call) -> bool:
    """Whether the call returns a model with known shapes, which has weights at once."""
    made = _making_function(source, call)
    nodes = [call] if made is None else source.reachable_functions(made)
    calls = [n for one in nodes for n in syntax_tree.walk(one) if isinstance(n, ast.Call)]
    models = [n for n in calls if node_lookup.called_name(n) in MODEL_CLASSES]
    shaped = any(
        node_lookup.called_name(n) in INPUT_CLASSES or any(k.arg == "input_shape" for k in n.keywords) for n in calls
    )
    direct = node_lookup.called_name(call) in MODEL_CLASSES
    returned = made is not None and any(isinstance(n, ast.Return) for n in scope_names.nodes_in_scope(made.body))
    return bool(models) and shaped and (direct or returned)


def _making_function(source: Source, call: ast.Call) -> ast.FunctionDef | None:
    return (
        node_lookup.function_named(source, node_lookup.called_name(call)) if isinstance(call.func, ast.Name) else None
    )


def _makes_graph(source: Source, call: ast.Call) -> bool:
    """Whether it is ``tf.function(f)``, or a function of the file that creates and returns one."""
    if scope_names.resolved_name(source, call.func) == "tensorflow.function":
        return True
    made = _making_function(source, call)
    inner = (
        [n for n in syntax_tree.walk(made) if isinstance(n, FUNCTION_NODES) and n is not made]
        if made is not None
        else []
    )
    return any(graph_obstacles.is_graph_function(source, n) for n in inner)


def _may_hoist(source: Source, loop: ast.For | ast.While, found: LoopParts) -> bool:
    built = [found.model, found.compiled, found.optimizer, *found.functions]
    hoisted = [one for one in built if one is not None]
    own = {n for one in hoisted if one is not found.compiled for n in scope_names.bound_names(one)}
    iterations = set(scope_names.bound_names(loop))
    for name in own:
        binders = [
            n
            for n in syntax_tree.walk(loop)
            if isinstance(n, ast.stmt) and n in hoisted and name in scope_names.bound_names(n)
        ]
        others = scope_names.bound_names([s for s in loop.body if s not in hoisted])
        if len(binders) != 1 or name in others:
            return False
    for one in hoisted:
        if _names_read(source, one) & (iterations - own) or moved_statements.edits_cross_strings([one]):
            return False
    if any(
        isinstance(n, (ast.Attribute, ast.Name)) and last_name(n) in FORBIDDEN_NAMES for n in syntax_tree.walk(loop)
    ):
        return False
    trained = found.compiled is not None or found.optimizer is not None or _is_compiled(source, found.model)
    ordered = [loop.body.index(one) for one in hoisted]
    return trained and ordered[0] == min(ordered) and _stays_in_loop(source, loop, found)


def _names_read(source: Source, one: ast.stmt) -> set[str]:
    """Names that the statement and the functions that it calls read."""
    return {name for node in source.reachable_functions(one) for name in scope_names.read_names(node)}


def _is_compiled(source: Source, model: ast.Assign) -> bool:
    made = _making_function(source, model.value) if isinstance(model.value, ast.Call) else None
    calls = [n for n in syntax_tree.walk(made) if isinstance(n, ast.Call)] if made is not None else []
    return any(node_lookup.called_name(n) == "compile" for n in calls)


def _stays_in_loop(source: Source, loop: ast.For | ast.While, found: LoopParts) -> bool:
    """Whether the loop only uses the model and the optimizer, and passes them to nothing that may keep them."""
    above = node_lookup.parents_of(source)
    model = found.model.targets[0]
    names = {scope_names.dotted_name(model): MODEL_ATTRIBUTES}
    if found.optimizer is not None:
        names[scope_names.dotted_name(found.optimizer.targets[0])] = OPTIMIZER_ATTRIBUTES
    inside = {id(n) for one in found.functions for n in syntax_tree.walk(one)}
    for node in syntax_tree.walk(loop):
        if not isinstance(node, ast.Name) or node.id not in names or not isinstance(node.ctx, ast.Load):
            continue
        parent = above.get(node)
        called = isinstance(parent, ast.Call) and parent.func is node
        used = isinstance(parent, ast.Attribute) and parent.attr in names[node.id] and isinstance(parent.ctx, ast.Load)
        given = isinstance(parent, ast.keyword) and parent.arg == "optimizer"
        if id(node) not in inside and not called and not used and not given:
            return False
    return True


def _hoisting_edits(source: Source, loop: ast.For | ast.While, found: LoopParts) -> list[Edit]:
    rows = source.text.split("\n")
    indent = rows[loop.lineno - 1][: loop.col_offset]
    name = scope_names.dotted_name(found.model.targets[0])
    tuned = scope_names.dotted_name(found.optimizer.targets[0]) if found.optimizer is not None else f"{name}.optimizer"
    start = moved_statements.free_name(source, "start_state", "optimizer_start")
    known = [found.model, found.optimizer, found.compiled, *found.functions]
    hoisted = sorted((one for one in known if one is not None), key=lambda n: n.lineno)
    if indent.strip() or any(rows[one.lineno - 1][: one.col_offset].strip() for one in hoisted):
        return []
    before = [row for one in hoisted for row in moved_statements.statement_lines(rows, one)]
    before += [f"{tuned}.build({name}.trainable_variables)", f"{start} = [v.numpy() for v in {tuned}.variables]"]
    resets = (
        []
        if _sets_weights_first(loop, found, name)
        else [f"{name}.set_weights({_hoisted_text(source, found)}.get_weights())"]
    )
    resets += [
        f"for variable, value in zip({tuned}.variables, {start}):",
        f"{edits.indentation_unit(source)}variable.assign(value)",
    ]
    inner = rows[found.model.lineno - 1][: found.model.col_offset]
    first = Edit(source.file, edits.node_start(found.model), edits.node_end(found.model), f"\n{inner}".join(resets))
    top = "".join(f"{indent}{row}\n" if row else "\n" for row in before)
    rest = [one for one in hoisted if one is not found.model]
    return [
        edits.insert_text(source, (loop.lineno, 0), top),
        first,
        *(edits.remove_statement(source, one, top) for one in rest),
    ]


def _hoisted_text(source: Source, found: LoopParts) -> str:
    return edits.node_text(source, found.model.value)


def _sets_weights_first(loop: ast.For | ast.While, found: LoopParts, name: str) -> bool:
    """Whether the loop sets the model's weights itself before it does anything else with it."""
    for one in loop.body[loop.body.index(found.model) + 1 :]:
        call = one.value if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) else None
        if call is not None and scope_names.dotted_name(call.func) == f"{name}.set_weights":
            return not any(name in scope_names.read_names(a) for a in call.args)
        if name in scope_names.read_names(one):
            return False
    return False


def reuse_model(source: Source, line: int) -> list[Edit]:
    """Makes the function at ``line`` build and compile its model in the first call only.

    Its next use must be ``set_weights``, nothing but ``get_weights`` may leave the function, and every call must build
    the same model. The optimizer's state is reset in each call. ``line`` may also be in a function that it calls.
    """
    function = source.function_at(line)
    functions = [function, *_calling_functions(source, function)] if isinstance(function, ast.FunctionDef) else []
    for one in functions:
        for made in one.body:
            if isinstance(made, ast.Assign) and _assigns_model(source, made):
                found = _function_edits(source, one, made)
                if found:
                    return found
    return []


def _calling_functions(source: Source, made: ast.FunctionDef) -> list[ast.FunctionDef]:
    holders = [node_lookup.enclosing_function(source, c) for c in call_index.index_of(source).calls_of(made.name)]
    return [h for h in dict.fromkeys(holders) if isinstance(h, ast.FunctionDef)]


def _assigns_model(source: Source, made: ast.Assign) -> bool:
    call = made.value
    if len(made.targets) != 1 or not isinstance(made.targets[0], ast.Name) or not isinstance(call, ast.Call):
        return False
    return node_lookup.called_name(call) == COPY_FUNCTION or makes_model(source, call)


def _function_edits(source: Source, function: ast.FunctionDef, made: ast.Assign) -> list[Edit]:
    at, name = function.body.index(made), scope_names.dotted_name(made.targets[0])
    after = function.body[at + 1 :]
    compiled = after[0] if after and _called_name(after[0]) == f"{name}.compile" else None
    rest = after[1:] if compiled is not None else after
    built: list[ast.stmt] = [made] if compiled is None else [made, compiled]
    if compiled is None and not _is_compiled(source, made):
        return []
    if not rest or _called_name(rest[0]) != f"{name}.set_weights" or name in _names_passed(rest[0]):
        return []
    if not _owns_model(source, function, name) or not _builds_the_same(source, function, built):
        return []
    return _reuse_edits(source, function, built, name)


def _called_name(statement: ast.stmt) -> str:
    """``model.compile`` for the statement ``model.compile(...)``."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return scope_names.dotted_name(call.func) if isinstance(call, ast.Call) else ""


def _names_passed(statement: ast.stmt) -> set[str]:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return (
        scope_names.read_names([*call.args, *(k.value for k in call.keywords)]) if isinstance(call, ast.Call) else set()
    )


def _owns_model(source: Source, function: ast.FunctionDef, name: str) -> bool:
    """Whether only ``function`` has the model, binds it once and does not change it."""
    above = node_lookup.parents_of(source)
    if len(scope_names.binding_statements(source, name, function)) != 1 or "clear_session" in source.words:
        return False
    for node in syntax_tree.walk(function):
        if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal)):
            return False
        if (
            isinstance(node, ast.Attribute)
            and node.attr in CHANGING_ATTRIBUTES
            and scope_names.dotted_name(node.value) == name
        ):
            return False
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            parent = above.get(node)
            if not isinstance(parent, ast.Attribute) or parent.attr not in MODEL_ATTRIBUTES:
                return False
            if not isinstance(parent.ctx, ast.Load) or node_lookup.enclosing_function(source, node) is not function:
                return False
    return True


def _builds_the_same(source: Source, function: ast.FunctionDef, built: list[ast.stmt]) -> bool:
    """Whether every call builds the same model: from parameters with equal arguments, and from values that stay."""
    read, parameters = (
        scope_names.read_names(built) - scope_names.bound_names(built),
        scope_names.parameter_names(function),
    )
    if read & scope_names.bound_names(function.body) or "self" in read:
        return False  # another object may have another value
    calls = call_index.index_of(source).calls_of(function.name)
    named = [
        n for n in syntax_tree.walk(source.tree)
        if function.name in (getattr(n, "id", ""), getattr(n, "attr", "")) and isinstance(n, (ast.Name, ast.Attribute))
    ]  # fmt: skip
    if not calls or len(named) != len(calls):
        return False  # it may be called by other means
    places = parameters[1:] if parameters[:1] == ["self"] else parameters
    given: list[ast.AST] = [*built]
    for name in read & set(parameters):
        arguments = [node_lookup.argument_value(c, name, places.index(name)) for c in calls]
        if any(a is None or not _is_loop_invariant(source, a) for a in arguments):
            return False
        if len({ast.dump(a) for a in arguments if a is not None}) != 1:
            return False
        given += [a for a in arguments if a is not None]
    if any(scope_names.is_rebound(source, n, source.tree) for n in read - set(parameters)):
        return False
    attributes = {n.attr for g in given for n in syntax_tree.walk(g) if isinstance(n, ast.Attribute)}
    return not class_members.is_stored_outside_init(source, attributes)


def _is_loop_invariant(source: Source, given: ast.expr) -> bool:
    """Whether an argument is the same in every iteration of the loops around the call."""
    root = scope_names.dotted_name(given).partition(".")[0]
    if not root:
        return isinstance(given, ast.Constant)
    above, node = node_lookup.parents_of(source), node_lookup.enclosing_statement(source, given)
    around = (
        {n for loop in scope_names.enclosing_loops(source, node) for n in scope_names.bound_names(loop)}
        if node is not None
        else {root}
    )
    inner: ast.AST | None = given
    while inner is not None and not isinstance(inner, ast.stmt):
        if isinstance(inner, scope_names.COMPREHENSIONS):
            around |= {n.id for g in inner.generators for n in syntax_tree.walk(g.target) if isinstance(n, ast.Name)}
        inner = above.get(inner)
    return root not in around


def _reuse_edits(source: Source, function: ast.FunctionDef, built: list[ast.stmt], name: str) -> list[Edit]:
    rows = source.text.split("\n")
    first, last = built[0], built[-1]
    indent = rows[first.lineno - 1][: first.col_offset]
    tail = rows[(last.end_lineno or last.lineno) - 1].encode()[last.end_col_offset or 0 :].decode().strip()
    top = next(s for s in source.tree.body if any(n is function for n in syntax_tree.walk(s)))
    if indent.strip() or (tail and not tail.startswith("#")) or moved_statements.edits_cross_strings(built):
        return []
    kept = moved_statements.free_name(source, f"kept_{name}")
    state = moved_statements.free_name(source, "start_state", "optimizer_start")
    unit = edits.indentation_unit(source)
    made = "\n".join(
        f"{unit}{row}" if row else "" for one in built for row in moved_statements.statement_lines(rows, one)
    )
    text = REUSE_TEMPLATE.format(kept=kept, made=made, model=name, state=state, unit=unit)
    inside = "\n".join(f"{indent}{row}" if row else "" for row in text.split("\n")).lstrip()
    return [
        edits.insert_before(
            source, top, f"{kept} = []  # the model once it is built, and how its optimizer begins\n\n\n"
        ),
        edits.replace_statements(source, first, last, inside),
    ]
