"""Moves a model that each iteration builds out of the loop, and resets weights and optimizer in each iteration."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from slowtrain.model import Edit
from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.properties import graph_obstacles
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

MODEL_CLASSES = frozenset({"Sequential", "Model"})
INPUT_CLASSES = frozenset({"Input", "InputLayer"})
MODEL_ATTRIBUTES = frozenset(
    "compile fit evaluate predict predict_on_batch train_on_batch test_on_batch set_weights get_weights load_weights "
    "save save_weights summary trainable_variables trainable_weights weights variables count_params losses".split()
)
OPTIMIZER_ATTRIBUTES = frozenset("apply_gradients apply minimize".split())
FORBIDDEN_NAMES = frozenset("clear_session adapt add pop trainable append_model clone_model".split())


@dataclass
class LoopParts:
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
        calls = [
            n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call) and node_lookup.called_name(n) == name
        ]
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
    turns = set(scope_names.bound_names(loop))
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
        if _names_read(source, one) & (turns - own) or moved_statements.edits_cross_strings([one]):
            return False
    if any(isinstance(n, (ast.Attribute, ast.Name)) and _name_in(n) in FORBIDDEN_NAMES for n in syntax_tree.walk(loop)):
        return False
    trained = found.compiled is not None or found.optimizer is not None or is_compiled(source, found.model)
    ordered = [loop.body.index(one) for one in hoisted]
    return trained and ordered[0] == min(ordered) and _stays_in_loop(source, loop, found)


def _name_in(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _names_read(source: Source, one: ast.stmt) -> set[str]:
    """Names that the statement and the functions that it calls read."""
    return {name for node in source.reachable_functions(one) for name in scope_names.read_names(node)}


def is_compiled(source: Source, model: ast.Assign) -> bool:
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
    anew = (
        []
        if _sets_weights_first(loop, found, name)
        else [f"{name}.set_weights({_hoisted_text(source, found)}.get_weights())"]
    )
    anew += [
        f"for variable, value in zip({tuned}.variables, {start}):",
        f"{edits.indentation_unit(source)}variable.assign(value)",
    ]
    inner = rows[found.model.lineno - 1][: found.model.col_offset]
    first = Edit(source.file, edits.node_start(found.model), edits.node_end(found.model), f"\n{inner}".join(anew))
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
