"""Makes graphs of steps that run eagerly: a decorator, a function made of the step's lines, switches taken back."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from slowtrain.model import Edit
from slowtrain.script.evaluators import setting_origins
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_arguments, node_lookup, scope_names
from slowtrain.script.properties import graph_obstacles
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source
from slowtrain.source.cures import extracting

SWITCHES = ("run_functions_eagerly", "experimental_run_functions_eagerly")
APPLIES = frozenset("apply_gradients minimize assign_sub assign assign_add apply".split())
RECORDS = frozenset({"update_state"})
STEP_NAMES = ("train_step", "compiled_step", "graph_step")


def compiled_step(source: Source, line: int) -> list[Edit]:
    """The step whose gradient is taken at ``line`` as a ``tf.function``; nothing where it is not sure that it may."""
    tape = _tape(source, line)
    if tape is None or _eager_parts(source):
        return []
    function = node_lookup.enclosing_function(source, tape)
    if function is not None and _distributed(source, function):
        return []
    if function is None or scope_names.enclosing_loops(source, tape):
        return _from_lines(source, tape)
    if graph_obstacles.is_graph_function(source, function) or isinstance(function, ast.AsyncFunctionDef):
        return []
    whole = _decorated(source, function)
    return whole or _from_lines(source, tape)


def compiled_steps(source: Source, lines: Sequence[int]) -> dict[int, list[Edit]]:
    """As :func:`compiled_step` for each of ``lines`` where all can be done at once: the edits, by line.

    One function made of lines at most, as each would get the same name.
    """
    found: dict[int, list[Edit]] = {}
    for line in dict.fromkeys(lines):
        made = compiled_step(source, line)
        others = [one for one in found.values() if one != made]
        if made and not (len(made) > 1 and any(len(one) > 1 for one in others)):
            found[line] = made
    return found


def _tape(source: Source, line: int) -> ast.With | None:
    """The block of the gradient tape that ``line`` stands in, or stands behind in the same block of statements."""
    tapes = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.With) and node_lookup.is_gradient_tape(n)]
    near = [t for t in tapes if t.lineno <= line <= (scope_names.statement_block(source, t)[-1].end_lineno or t.lineno)]
    function = source.function_at(line)
    near = near or [t for t in tapes if function is not None and node_lookup.enclosing_function(source, t) is function]
    near = near or _by_another_name(source, tapes)
    outermost = [t for t in near if not any(t is not o and t in syntax_tree.walk(o) for o in near)]
    blocks = {id(scope_names.statement_block(source, t)[0]) for t in outermost}
    return outermost[0] if len(blocks) == 1 else None


def _by_another_name(source: Source, tapes: list[ast.With]) -> list[ast.With]:
    """The tapes of a model's ``train_step`` that the file calls itself, where it has no others: what ran eagerly."""
    functions = {f for t in tapes if (f := node_lookup.enclosing_function(source, t)) is not None}
    one = functions.pop() if len(functions) == 1 else None
    return tapes if isinstance(one, ast.FunctionDef) and _of_keras(source, one) and _by_hand(source, one) else []


def _by_hand(source: Source, function: ast.FunctionDef) -> list[ast.Call]:
    """Calls of a method by its name, or by another one that it is given: ``step = model.train_step``."""
    names = set()
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute) and node.value.attr == function.name:
            names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    calls = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call)]
    renamed = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id in names]
    named = [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == function.name]
    above = [c for c in named if isinstance(c.func, ast.Attribute) and isinstance(c.func.value, ast.Call)]
    return [] if above else [*named, *renamed]  # of super()


def _eager_parts(source: Source) -> bool:
    """Whether a layer or a loss of the file does in Python what a graph would do once only."""
    for node in syntax_tree.walk(source.tree):
        if not isinstance(node, ast.FunctionDef) or graph_obstacles.is_graph_function(source, node):
            continue
        layer = node.name == "call" and isinstance(node_lookup.parents_of(source).get(node), ast.ClassDef)
        loss = any(p in ("y_true", "y_pred") for p in scope_names.parameter_names(node))
        tensors, body = graph_obstacles.tensor_parameters(node), _undocumented(node.body)
        if (layer or loss) and (
            graph_obstacles.outside_obstacle(source, node) or graph_obstacles.graph_obstacle(source, body, tensors)
        ):
            return True
    return False


def _distributed(source: Source, function: ast.AST) -> bool:
    """Whether a strategy runs the function on its devices."""
    name = getattr(function, "name", "")
    runs = (
        n
        for n in syntax_tree.walk(source.tree)
        if isinstance(n, ast.Call) and node_lookup.called_name(n) in ("run", "reduce")
    )
    return any(scope_names.dotted_name(a).rpartition(".")[2] == name for call in runs for a in call.args[:1])


def _name_of_tf(source: Source) -> str | None:
    """The file's name for TensorFlow, of which there must be one."""
    for node in source.tree.body:
        for alias in node.names if isinstance(node, ast.Import) else ():
            if alias.name == "tensorflow":
                return alias.asname or alias.name
    return None


# -- the whole function


def _decorated(source: Source, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[Edit]:
    name = _name_of_tf(source)
    if name is None or isinstance(function, ast.AsyncFunctionDef) or function.args.vararg or function.args.kwarg:
        return []
    if _of_keras(source, function) and not _by_hand(source, function):
        return []  # Keras compiles it itself
    if function.decorator_list or not _updates(source, function.body) or not _called_plainly(source, function):
        return []
    tensors = graph_obstacles.tensor_parameters(function)
    body = list(function.body)
    if isinstance(body[-1], ast.Return) and body[-1].value is None:
        body = body[:-1]
    if any(isinstance(n, ast.Return) for one in body[:-1] for n in syntax_tree.walk(one)):
        return []
    if graph_obstacles.outside_obstacle(source, function) or graph_obstacles.graph_obstacle(
        source, _undocumented(body), tensors
    ):
        return []
    if not all(_fit_for_tensor(source, function, p) for p in tensors):
        return []
    return [edits.add_decorator(source, function, f"@{name}.function")]


def _undocumented(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    return [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]


def _updates(source: Source, statements: Sequence[ast.stmt]) -> bool:
    """Whether the statements also apply the gradient, themselves or in functions of the file."""
    every = [f for one in statements for f in source.called(one)]
    calls = (n for one in every for n in syntax_tree.walk(one) if isinstance(n, ast.Call))
    return any(node_lookup.called_name(c) in APPLIES for c in calls)


def _called_plainly(source: Source, function: ast.FunctionDef) -> bool:
    """Whether every call stands in eager code, and gives the same objects or things that become tensors."""
    calls = _calls(source, function)
    for call in calls:
        around = node_lookup.enclosing_function(source, call)
        if around is not None and graph_obstacles.is_graph_function(source, around):
            return False
        if any(k.arg is None for k in call.keywords):
            return False
    for parameter in scope_names.parameter_names(function):
        if any(queries.kind_at(source, g) == queries.NUMBER for g in _given(source, function, parameter)):
            return False
    return bool(calls)


def _calls(source: Source, function: ast.FunctionDef) -> list[ast.Call]:
    return (
        _by_hand(source, function) if _of_keras(source, function) else call_arguments.function_calls(source, function)
    )


def _given(source: Source, function: ast.FunctionDef, parameter: str) -> list[ast.expr]:
    """What calls give for the parameter; ``step(data)`` of ``step = model.train_step`` gives no ``self``."""
    found = []
    for call in _calls(source, function):
        names = scope_names.parameter_names(function)
        given = call_arguments.argument_in(function, call, parameter)
        if isinstance(call.func, ast.Name) and names[0] == "self":
            given = (
                node_lookup.argument_value(call, parameter, names.index(parameter) - 1) if parameter != "self" else None
            )
        found += [given] if given is not None else []
    return found


def _fit_for_tensor(source: Source, function: ast.FunctionDef, parameter: str) -> bool:
    """Whether an array given for ``parameter`` may become a tensor: of 4-byte floats, or only ever given to calls.

    Eagerly an 8-byte array takes the type of the tensor that it meets; as an argument of a graph it keeps its own.
    """
    given = _given(source, function, parameter)
    if given and all(queries.kind_at(source, g) == queries.TENSOR or queries.is_float32(source, g) for g in given):
        return True
    names = {parameter, *_taken_apart(function, parameter)} if _of_keras(source, function) else {parameter}
    return not any(mixes(function.body, name) for name in names)


def _taken_apart(function: ast.FunctionDef, parameter: str) -> set[str]:
    """``x`` and ``y`` of ``x, y = data``."""
    found = (
        n
        for n in syntax_tree.walk(function)
        if isinstance(n, ast.Assign) and scope_names.dotted_name(n.value) == parameter
    )
    return {name for n in found for name in scope_names.bound_names(n)}


def mixes(statements: Sequence[ast.stmt], name: str) -> bool:
    """Whether ``name`` meets other values in an operator or in an op of TensorFlow, not only in layers and losses."""
    for one in statements:
        for node in syntax_tree.walk(one):
            if isinstance(node, (ast.BinOp, ast.Compare)):
                sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.left, *node.comparators]
                if any(isinstance(n, ast.Name) and n.id == name for s in sides for n in _operands(s)):
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


def _operands(node: ast.expr) -> list[ast.expr]:
    """An operand, seen through indexing and signs."""
    while isinstance(node, (ast.Subscript, ast.UnaryOp)):
        node = node.value if isinstance(node, ast.Subscript) else node.operand
    return [node]


# -- the lines of a loop


def _from_lines(source: Source, tape: ast.With) -> list[Edit]:
    """The lines from the tape to the update as a function of their own."""
    name = _name_of_tf(source)
    found = _lines(source, tape)
    if name is None or not found:
        return []
    function = node_lookup.enclosing_function(source, tape)
    if function is not None and (graph_obstacles.is_graph_function(source, function) or _of_keras(source, function)):
        return []
    if function is not None and node_lookup.enclosing_function(source, function) is not None:
        return []  # it may need names of the function around it
    cut = extracting.piece(source, found, at_top=function is not None)
    if cut is None or any(n in cut.results for n in _tapes(found)):
        return []
    if not _sure(source, cut):
        return []
    step = extracting.free_name(source, *STEP_NAMES)
    return extracting.extracted(source, cut, step, f"@{name}.function")


def _of_keras(source: Source, function: ast.AST) -> bool:
    above = node_lookup.parents_of(source).get(function)
    return isinstance(above, ast.ClassDef) and any("Model" in scope_names.dotted_name(b) for b in above.bases)


def _tapes(statements: Sequence[ast.stmt]) -> set[str]:
    items = (i for one in statements for n in syntax_tree.walk(one) if isinstance(n, ast.With) for i in n.items)
    return {n for i in items if i.optional_vars is not None for n in scope_names.bound_names(i.optional_vars)}


def _lines(source: Source, tape: ast.With) -> list[ast.stmt]:
    """From the first tape of the block to the last update, with metrics updated right behind it."""
    block = scope_names.statement_block(source, tape)
    tapes = [i for i, s in enumerate(block) if isinstance(s, ast.With) and node_lookup.is_gradient_tape(s)]
    updates = [
        i
        for i, s in enumerate(block)
        if i >= tapes[0]
        and any(isinstance(n, ast.Call) and node_lookup.called_name(n) in APPLIES for n in syntax_tree.walk(s))
        and not isinstance(s, FUNCTION_NODES)
    ]
    if not updates:
        return []
    first, last = tapes[0], updates[-1]
    while last + 1 < len(block) and _records(block[last + 1]):
        last += 1
    return list(block[first : last + 1])


def _records(one: ast.stmt) -> bool:
    """``metric.update_state(y, p)``."""
    return (
        isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) and node_lookup.called_name(one.value) in RECORDS
    )


def _sure(source: Source, cut: extracting.Piece) -> bool:
    """Whether the lines may run as a graph with what they are given."""
    numbers = set()
    for name in cut.parameters:
        node = next(
            n for one in cut.statements for n in syntax_tree.walk(one) if isinstance(n, ast.Name) and n.id == name
        )
        kind = queries.kind_at(source, node)
        if kind == queries.NUMBER:
            return False  # a new graph for each of its values
        if kind == queries.CONSTANT:
            numbers.add(name)
        elif kind != queries.TENSOR and not queries.is_float32(source, node) and mixes(cut.statements, name):
            return False
    if _outside(source, cut):
        return False
    return graph_obstacles.graph_obstacle(source, cut.statements, set(cut.parameters) - numbers - {"self"}) is None


def _outside(source: Source, cut: extracting.Piece) -> str | None:
    """What the lines read that changes and is not handed over."""
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


# -- switches


def without_eager_compile(source: Source, line: int) -> list[Edit]:
    """``compile()`` at ``line`` without ``run_eagerly``, where nothing in the file's models needs it.

    Keras leaves the batch's size open, so that ``x.shape[0]`` in a shape becomes ``tf.shape(x)[0]``.
    """
    call = node_lookup.single_call(source, line, "compile")
    given = node_lookup.argument_value(call, "run_eagerly") if call is not None else None
    if call is None or not isinstance(given, (ast.Constant, ast.Name, ast.Attribute)):
        return []
    sizes = _open_sizes(source)
    if _needs_eager(source, sizes):
        return []
    return [*edits.remove_keyword(source, call, "run_eagerly"), *(_opened(source, s) for s in sizes)]


def without_eager_option(source: Source, given: ast.expr) -> list[Edit]:
    """False where a mapping that ``compile()`` gets says True, if nothing in the file's models needs it."""
    if not isinstance(given, ast.Constant):
        return []
    sizes = _open_sizes(source)
    if _needs_eager(source, sizes):
        return []
    return [edits.replace_node(source, given, "False"), *(_opened(source, s) for s in sizes)]


def without_eager_switch(source: Source) -> list[Edit]:
    """``tf.config.run_functions_eagerly(False)`` for True, where nothing in the file needs it.

    A setting that is switched on where it is written, and asked for nowhere else, is switched off there.
    """
    calls = [
        n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call) and node_lookup.called_name(n) in SWITCHES
    ]
    given = [value for c in calls if (value := node_lookup.argument_value(c, "run_eagerly", 0)) is not None]
    on = [v for v in given if getattr(setting_origins.written_value(source, v), "value", None) is not False]
    true = [v for v in on if getattr(setting_origins.written_value(source, v), "value", None) is True]
    if len(on) != 1 or len(given) != len(calls) or not true:
        return []
    sizes = _open_sizes(source)
    if _needs_eager(source, sizes):
        return []
    return [edits.replace_node(source, _written_once(source, on[0]), "False"), *(_opened(source, s) for s in sizes)]


def _written_once(source: Source, value: ast.expr) -> ast.expr:
    """Where the True of a setting stands, if nothing but ``value`` asks for that setting; else ``value`` itself."""
    found = setting_origins.written_value(source, value)
    if found is None or not isinstance(value, (ast.Subscript, ast.Attribute)):
        return value
    key = value.attr if isinstance(value, ast.Attribute) else getattr(value.slice, "value", None)
    asked = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Attribute) and n.attr == key]
    words = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Constant) and n.value == key]
    names = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.keyword) and n.arg == key]
    return found if len(asked) + len(words) + len(names) <= 2 else value


def _open_sizes(source: Source) -> list[ast.Subscript]:
    """Batch sizes in models' ``call`` that must not be taken while tracing."""
    if _name_of_tf(source) != "tf":
        return []
    methods = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.FunctionDef) and n.name == "call"]
    return [size for method in methods for size in graph_obstacles.batch_size_nodes(method)]


def _opened(source: Source, size: ast.Subscript) -> Edit:
    owner = size.value.value if isinstance(size.value, ast.Attribute) else size.value
    return edits.replace_node(source, size, f"tf.shape({edits.node_text(source, owner)})[0]")


def _needs_eager(source: Source, sizes: Sequence[ast.AST]) -> bool:
    """Whether something that would become a graph reads values or keeps state in Python."""
    for node in syntax_tree.walk(source.tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        above = node_lookup.parents_of(source).get(node)
        method = isinstance(above, ast.ClassDef) and node.name in ("call", "train_step", "test_step", "update_state")
        loss = any(p in ("y_true", "y_pred") for p in scope_names.parameter_names(node))
        graphed = graph_obstacles.is_graph_function(source, node)
        if not (method or loss or graphed):
            continue
        tensors, body = graph_obstacles.tensor_parameters(node), _undocumented(node.body)
        if graph_obstacles.outside_obstacle(source, node) or graph_obstacles.graph_obstacle(
            source, body, tensors, graphed, sizes
        ):
            return True
    return False
