"""Makes a step that runs eagerly a ``tf.function``: adds a decorator, or moves its lines into a function with one."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from slowtrain.model import Edit
from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_arguments, call_index, node_lookup, scope_names
from slowtrain.script.properties import graph_obstacles
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

UPDATE_CALLS = frozenset("apply_gradients minimize assign_sub assign assign_add apply".split())
METRIC_CALLS = frozenset({"update_state"})
STEP_NAMES = ("train_step", "compiled_step", "graph_step")


def compiled_step(source: Source, line: int) -> list[Edit]:
    """Makes the step whose gradient is taken at ``line`` a ``tf.function``; empty if that may not be safe."""
    tape = _gradient_tape(source, line)
    if tape is None or _has_eager_parts(source):
        return []
    function = node_lookup.enclosing_function(source, tape)
    if function is not None and _is_distributed(source, function):
        return []
    if function is None or scope_names.enclosing_loops(source, tape):
        return _extraction_edits(source, tape)
    if graph_obstacles.is_graph_function(source, function) or isinstance(function, ast.AsyncFunctionDef):
        return []
    whole = _decorator_edits(source, function)
    return whole or _extraction_edits(source, tape)


def compiled_steps(source: Source, lines: Sequence[int]) -> dict[int, list[Edit]]:
    """The edits of :func:`compiled_step` by line, for those of ``lines`` that can be edited together.

    At most one of them moves lines into a new function, because each new function would get the same name.
    """
    found: dict[int, list[Edit]] = {}
    for line in dict.fromkeys(lines):
        made = compiled_step(source, line)
        others = [one for one in found.values() if one != made]
        if made and not (len(made) > 1 and any(len(one) > 1 for one in others)):
            found[line] = made
    return found


def _gradient_tape(source: Source, line: int) -> ast.With | None:
    """The gradient tape whose ``with`` contains ``line``, or precedes it in the same block of statements."""
    tapes = [n for n in call_index.nodes_of_class(source, ast.With) if node_lookup.is_gradient_tape(n)]
    near = [t for t in tapes if t.lineno <= line <= (scope_names.statement_block(source, t)[-1].end_lineno or t.lineno)]
    function = source.function_at(line)
    near = near or [t for t in tapes if function is not None and node_lookup.enclosing_function(source, t) is function]
    near = near or _renamed_train_step_tapes(source, tapes)
    outermost = [t for t in near if not any(t is not o and t in syntax_tree.walk(o) for o in near)]
    blocks = {id(scope_names.statement_block(source, t)[0]) for t in outermost}
    return outermost[0] if len(blocks) == 1 else None


def _renamed_train_step_tapes(source: Source, tapes: list[ast.With]) -> list[ast.With]:
    """The tapes of a model's ``train_step`` that the file calls itself; empty if the file has other tapes."""
    functions = {f for t in tapes if (f := node_lookup.enclosing_function(source, t)) is not None}
    one = functions.pop() if len(functions) == 1 else None
    return (
        tapes
        if isinstance(one, ast.FunctionDef) and _is_keras_method(source, one) and _direct_calls(source, one)
        else []
    )


def _direct_calls(source: Source, function: ast.FunctionDef) -> list[ast.Call]:
    """Calls of a method by its name, or by a variable as in ``step = model.train_step``."""
    names = set()
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute) and node.value.attr == function.name:
            names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    calls = call_index.nodes_of_class(source, ast.Call)
    renamed = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id in names]
    named = [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == function.name]
    above = [c for c in named if isinstance(c.func, ast.Attribute) and isinstance(c.func.value, ast.Call)]
    return [] if above else [*named, *renamed]  # of super()


def _has_eager_parts(source: Source) -> bool:
    """Whether a layer or a loss of the file does something in Python that a graph would do only while tracing."""
    for node in syntax_tree.walk(source.tree):
        if not isinstance(node, ast.FunctionDef) or graph_obstacles.is_graph_function(source, node):
            continue
        layer = node.name == "call" and isinstance(node_lookup.parents_of(source).get(node), ast.ClassDef)
        loss = any(p in ("y_true", "y_pred") for p in scope_names.parameter_names(node))
        tensors, body = graph_obstacles.tensor_parameters(node), body_without_docstring(node.body)
        if (layer or loss) and (
            graph_obstacles.outside_obstacle(source, node) or graph_obstacles.graph_obstacle(source, body, tensors)
        ):
            return True
    return False


def _is_distributed(source: Source, function: ast.AST) -> bool:
    """Whether a strategy runs the function on its devices."""
    name = getattr(function, "name", "")
    runs = (n for n in call_index.nodes_of_class(source, ast.Call) if node_lookup.called_name(n) in ("run", "reduce"))
    return any(scope_names.dotted_name(a).rpartition(".")[2] == name for call in runs for a in call.args[:1])


def _decorator_edits(source: Source, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[Edit]:
    name = scope_names.module_alias(source, "tensorflow")
    if not name or isinstance(function, ast.AsyncFunctionDef) or function.args.vararg or function.args.kwarg:
        return []
    if _is_keras_method(source, function) and not _direct_calls(source, function):
        return []  # Keras compiles it itself
    if function.decorator_list or not _applies_gradient(source, function.body) or not _has_safe_calls(source, function):
        return []
    tensors = graph_obstacles.tensor_parameters(function)
    body = list(function.body)
    if isinstance(body[-1], ast.Return) and body[-1].value is None:
        body = body[:-1]
    if any(isinstance(n, ast.Return) for one in body[:-1] for n in syntax_tree.walk(one)):
        return []
    if graph_obstacles.outside_obstacle(source, function) or graph_obstacles.graph_obstacle(
        source, body_without_docstring(body), tensors
    ):
        return []
    if not all(_may_become_tensor(source, function, p) for p in tensors):
        return []
    return [edits.add_decorator(source, function, f"@{name}.function")]


def body_without_docstring(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    return [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]


def _applies_gradient(source: Source, statements: Sequence[ast.stmt]) -> bool:
    """Whether the statements apply the gradient, themselves or in functions of the file that they call."""
    every = [f for one in statements for f in source.reachable_functions(one)]
    calls = (n for one in every for n in syntax_tree.walk(one) if isinstance(n, ast.Call))
    return any(node_lookup.called_name(c) in UPDATE_CALLS for c in calls)


def _has_safe_calls(source: Source, function: ast.FunctionDef) -> bool:
    """Whether every call is in eager code and passes the same objects, or values that become tensors."""
    calls = _step_calls(source, function)
    for call in calls:
        around = node_lookup.enclosing_function(source, call)
        if around is not None and graph_obstacles.is_graph_function(source, around):
            return False
        if any(k.arg is None for k in call.keywords):
            return False
    for parameter in scope_names.parameter_names(function):
        if any(queries.kind_at(source, g) == queries.NUMBER for g in _given_arguments(source, function, parameter)):
            return False
    return bool(calls)


def _step_calls(source: Source, function: ast.FunctionDef) -> list[ast.Call]:
    return (
        _direct_calls(source, function)
        if _is_keras_method(source, function)
        else call_arguments.function_calls(source, function)
    )


def _given_arguments(source: Source, function: ast.FunctionDef, parameter: str) -> list[ast.expr]:
    """The arguments that calls pass for the parameter. ``step(data)`` of ``step = model.train_step`` has no self."""
    found = []
    for call in _step_calls(source, function):
        names = scope_names.parameter_names(function)
        given = call_arguments.argument_in(function, call, parameter)
        if isinstance(call.func, ast.Name) and names[0] == "self":
            given = (
                node_lookup.argument_value(call, parameter, names.index(parameter) - 1) if parameter != "self" else None
            )
        found += [given] if given is not None else []
    return found


def _may_become_tensor(source: Source, function: ast.FunctionDef, parameter: str) -> bool:
    """Whether an array passed for ``parameter`` may become a tensor: it has 4-byte floats, or is only passed to calls.

    In eager mode an 8-byte array takes the type of the tensor it is combined with. As an argument of a graph it keeps
    its own.
    """
    given = _given_arguments(source, function, parameter)
    if given and all(queries.kind_at(source, g) == queries.TENSOR or queries.is_float32(source, g) for g in given):
        return True
    names = {parameter, *_unpacked_names(function, parameter)} if _is_keras_method(source, function) else {parameter}
    return not any(_meets_other_values(function.body, name) for name in names)


def _unpacked_names(function: ast.FunctionDef, parameter: str) -> set[str]:
    """``x`` and ``y`` of ``x, y = data``."""
    found = (
        n
        for n in syntax_tree.walk(function)
        if isinstance(n, ast.Assign) and scope_names.dotted_name(n.value) == parameter
    )
    return {name for n in found for name in scope_names.bound_names(n)}


def _meets_other_values(statements: Sequence[ast.stmt], name: str) -> bool:
    """Whether ``name`` meets other values in an operator or a TensorFlow op, not only in layers and losses."""
    for one in statements:
        for node in syntax_tree.walk(one):
            if isinstance(node, (ast.BinOp, ast.Compare)):
                sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.left, *node.comparators]
                if any(isinstance(n, ast.Name) and n.id == name for n in map(_base_operand, sides)):
                    return True
            if isinstance(node, ast.Call) and scope_names.dotted_name(node.func).partition(".")[0] in (
                "tf",
                "tensorflow",
                "K",
            ):
                if node_lookup.called_name(node) in (
                    "cast",
                    "constant",
                    "convert_to_tensor",
                    "gather",
                    "one_hot",
                    "shape",
                ):
                    continue
                arguments = [*node.args, *(k.value for k in node.keywords)]
                if len(arguments) > 1 and any(isinstance(a, ast.Name) and a.id == name for a in arguments):
                    return "sparse_softmax" not in node_lookup.called_name(node)
    return False


def _base_operand(node: ast.expr) -> ast.expr:
    """The operand without indexing and signs."""
    while isinstance(node, (ast.Subscript, ast.UnaryOp)):
        node = node.value if isinstance(node, ast.Subscript) else node.operand
    return node


# -- the lines of a loop
def _extraction_edits(source: Source, tape: ast.With) -> list[Edit]:
    """Moves the lines from the tape to the update into a function of their own."""
    name = scope_names.module_alias(source, "tensorflow")
    found = _step_lines(source, tape)
    if not name or not found:
        return []
    function = node_lookup.enclosing_function(source, tape)
    if function is not None and (
        graph_obstacles.is_graph_function(source, function) or _is_keras_method(source, function)
    ):
        return []
    if function is not None and node_lookup.enclosing_function(source, function) is not None:
        return []  # it may need names of the enclosing function
    cut = moved_statements.statements_to_extract(source, found, at_top=function is not None)
    if cut is None or any(n in cut.results for n in _tape_names(found)):
        return []
    if not _may_be_graph(source, cut):
        return []
    step = moved_statements.free_name(source, *STEP_NAMES)
    return moved_statements.extract_function(source, cut, step, f"@{name}.function")


def _is_keras_method(source: Source, function: ast.AST) -> bool:
    above = node_lookup.parents_of(source).get(function)
    return isinstance(above, ast.ClassDef) and any("Model" in scope_names.dotted_name(b) for b in above.bases)


def _tape_names(statements: Sequence[ast.stmt]) -> set[str]:
    items = (i for one in statements for n in syntax_tree.walk(one) if isinstance(n, ast.With) for i in n.items)
    return {n for i in items if i.optional_vars is not None for n in scope_names.bound_names(i.optional_vars)}


def _step_lines(source: Source, tape: ast.With) -> list[ast.stmt]:
    """The statements from the first tape of the block to the last update, and the metric updates after it."""
    block = scope_names.statement_block(source, tape)
    tapes = [i for i, s in enumerate(block) if isinstance(s, ast.With) and node_lookup.is_gradient_tape(s)]
    updates = [
        i
        for i, s in enumerate(block)
        if i >= tapes[0]
        and any(isinstance(n, ast.Call) and node_lookup.called_name(n) in UPDATE_CALLS for n in syntax_tree.walk(s))
        and not isinstance(s, FUNCTION_NODES)
    ]
    if not updates:
        return []
    first, last = tapes[0], updates[-1]
    while last + 1 < len(block) and _updates_metric(block[last + 1]):
        last += 1
    return list(block[first : last + 1])


def _updates_metric(one: ast.stmt) -> bool:
    """``metric.update_state(y, p)``."""
    return (
        isinstance(one, ast.Expr)
        and isinstance(one.value, ast.Call)
        and node_lookup.called_name(one.value) in METRIC_CALLS
    )


def _may_be_graph(source: Source, cut: moved_statements.ExtractedStatements) -> bool:
    """Whether the lines may run as a graph with their arguments."""
    numbers = set()
    for name in cut.parameters:
        node = next(
            n for one in cut.statements for n in syntax_tree.walk(one) if isinstance(n, ast.Name) and n.id == name
        )
        kind = queries.kind_at(source, node)
        if kind == queries.NUMBER:
            return False  # each value would need a new graph
        if kind == queries.CONSTANT:
            numbers.add(name)
        elif (
            kind != queries.TENSOR
            and not queries.is_float32(source, node)
            and _meets_other_values(cut.statements, name)
        ):
            return False
    if _outside_read(source, cut):
        return False
    return graph_obstacles.graph_obstacle(source, cut.statements, set(cut.parameters) - numbers - {"self"}) is None


def _outside_read(source: Source, cut: moved_statements.ExtractedStatements) -> str | None:
    """A value that the lines read, that changes, and that is not passed to them."""
    for one in cut.statements:
        for node in syntax_tree.walk(one):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in cut.parameters:
                scope = call_arguments.binding_function(source, node)
                if scope is None or node.id in scope_names.bound_names(list(cut.statements)):
                    continue
                if scope_names.is_rebound(source, node.id, scope):
                    return f"{node.id} changes outside"
    return graph_obstacles.stateful_read(
        source, cut.statements, set(cut.parameters) | scope_names.bound_names(list(cut.statements))
    )
