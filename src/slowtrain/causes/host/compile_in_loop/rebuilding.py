"""Models built anew in every turn of a loop: built once, with new weights and a new optimizer's state in each turn."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from slowtrain.model import Edit
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.properties import graph_obstacles
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source
from slowtrain.source.cures import extracting

MAKES_MODEL = frozenset({"Sequential", "Model"})
GIVES_SHAPE = frozenset({"Input", "InputLayer"})
OF_MODEL = frozenset(
    "compile fit evaluate predict predict_on_batch train_on_batch test_on_batch set_weights get_weights load_weights "
    "save save_weights summary trainable_variables trainable_weights weights variables count_params losses".split()
)
OF_OPTIMIZER = frozenset("apply_gradients apply minimize".split())
FORBIDDEN = frozenset("clear_session adapt add pop trainable append_model clone_model".split())


@dataclass
class Parts:
    """Statements of the loop's body: what makes the model, compiles it, makes an optimizer and functions of both."""

    model: ast.Assign
    compiled: ast.Expr | None
    optimizer: ast.Assign | None
    functions: list[ast.stmt]


def rebuilt(source: Source, line: int) -> list[Edit]:
    """The model that a loop around ``line`` builds in every turn, built before it; nothing where it is not sure.

    The new model of each turn is still made, for its initial weights: what is spared is tracing and compiling.
    """
    for loop in _loops(source, line):
        found = _parts(source, loop)
        if found is not None:
            return _edits(source, loop, found) if _sure(source, loop, found) else []
    return []


def _loops(source: Source, line: int) -> list[ast.For | ast.While]:
    """The loops around the line, and around calls of the function that holds it, the innermost first."""
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


def _parts(source: Source, loop: ast.For | ast.While) -> Parts | None:
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
            elif _graph(source, value):
                functions.append(one)
        elif isinstance(one, ast.FunctionDef) and graph_obstacles.is_graph_function(source, one):
            functions.append(one)
        elif isinstance(one, ast.Expr) and isinstance(value, ast.Call) and node_lookup.called_name(value) == "compile":
            compiled = one
    return Parts(model, compiled, optimizer, functions) if model is not None else None


def makes_model(source: Source, call: ast.Call) -> bool:
    """Whether the call gives a model whose shapes are known, so that it has weights at once."""
    made = _made_by(source, call)
    nodes = [call] if made is None else source.called(made)
    calls = [n for one in nodes for n in syntax_tree.walk(one) if isinstance(n, ast.Call)]
    models = [n for n in calls if node_lookup.called_name(n) in MAKES_MODEL]
    shaped = any(
        node_lookup.called_name(n) in GIVES_SHAPE or any(k.arg == "input_shape" for k in n.keywords) for n in calls
    )
    direct = node_lookup.called_name(call) in MAKES_MODEL
    returned = made is not None and any(isinstance(n, ast.Return) for n in scope_names.nodes_in_scope(made.body))
    return bool(models) and shaped and (direct or returned)


def _made_by(source: Source, call: ast.Call) -> ast.FunctionDef | None:
    return (
        node_lookup.function_named(source, node_lookup.called_name(call)) if isinstance(call.func, ast.Name) else None
    )


def _graph(source: Source, call: ast.Call) -> bool:
    """``tf.function(f)``, or a function of the file that makes and returns one."""
    if scope_names.resolved_name(source, call.func) == "tensorflow.function":
        return True
    made = _made_by(source, call)
    inner = (
        [n for n in syntax_tree.walk(made) if isinstance(n, FUNCTION_NODES) and n is not made]
        if made is not None
        else []
    )
    return any(graph_obstacles.is_graph_function(source, n) for n in inner)


def _sure(source: Source, loop: ast.For | ast.While, found: Parts) -> bool:
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
        if _reads(source, one) & (turns - own) or extracting.edits_cross_strings([one]):
            return False
    if any(isinstance(n, (ast.Attribute, ast.Name)) and _word(n) in FORBIDDEN for n in syntax_tree.walk(loop)):
        return False
    trained = found.compiled is not None or found.optimizer is not None or compiles(source, found.model)
    ordered = [loop.body.index(one) for one in hoisted]
    return trained and ordered[0] == min(ordered) and _kept_to_itself(source, loop, found)


def _word(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _reads(source: Source, one: ast.stmt) -> set[str]:
    """Names that the statement reads, those of functions that it calls too."""
    return {name for node in source.called(one) for name in scope_names.read_names(node)}


def compiles(source: Source, model: ast.Assign) -> bool:
    made = _made_by(source, model.value) if isinstance(model.value, ast.Call) else None
    calls = [n for n in syntax_tree.walk(made) if isinstance(n, ast.Call)] if made is not None else []
    return any(node_lookup.called_name(n) == "compile" for n in calls)


def _kept_to_itself(source: Source, loop: ast.For | ast.While, found: Parts) -> bool:
    """Whether the loop only uses the model and the optimizer, and hands them to nothing that may keep them."""
    above = node_lookup.parents_of(source)
    model = found.model.targets[0]
    names = {scope_names.dotted_name(model): OF_MODEL}
    if found.optimizer is not None:
        names[scope_names.dotted_name(found.optimizer.targets[0])] = OF_OPTIMIZER
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


def _edits(source: Source, loop: ast.For | ast.While, found: Parts) -> list[Edit]:
    rows = source.text.split("\n")
    indent = rows[loop.lineno - 1][: loop.col_offset]
    name = scope_names.dotted_name(found.model.targets[0])
    tuned = scope_names.dotted_name(found.optimizer.targets[0]) if found.optimizer is not None else f"{name}.optimizer"
    start = extracting.free_name(source, "start_state", "optimizer_start")
    known = [found.model, found.optimizer, found.compiled, *found.functions]
    hoisted = sorted((one for one in known if one is not None), key=lambda n: n.lineno)
    if indent.strip() or any(rows[one.lineno - 1][: one.col_offset].strip() for one in hoisted):
        return []
    before = [row for one in hoisted for row in extracting.lines(rows, one)]
    before += [f"{tuned}.build({name}.trainable_variables)", f"{start} = [v.numpy() for v in {tuned}.variables]"]
    anew = [] if _weighted(loop, found, name) else [f"{name}.set_weights({_written(source, found)}.get_weights())"]
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


def _written(source: Source, found: Parts) -> str:
    return edits.node_text(source, found.model.value)


def _weighted(loop: ast.For | ast.While, found: Parts, name: str) -> bool:
    """Whether the loop sets the model's weights itself before it does anything else with it."""
    for one in loop.body[loop.body.index(found.model) + 1 :]:
        call = one.value if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) else None
        if call is not None and scope_names.dotted_name(call.func) == f"{name}.set_weights":
            return not any(name in scope_names.read_names(a) for a in call.args)
        if name in scope_names.read_names(one):
            return False
    return False
