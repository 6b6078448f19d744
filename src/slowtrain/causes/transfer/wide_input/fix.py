"""Edits that let batches cross in fewer bytes: a cast in the model or in the step, arrays of float32."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.causes.transfer.wide_input import WideInputFinding
from slowtrain.causes.transfer.wide_input.wide_numbers import arrays_made_elsewhere, arrays_made_here
from slowtrain.model import Edit, Effect, Prescription
from slowtrain.script.fixes.models import keras_models
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names, setting_origins
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace

IN_MODEL = "hand over uint8 and cast in the model: layers.Rescaling(1 / 255) as its first layer"
IN_STEP = "hand over uint8 and cast in the step: tf.cast(x, tf.float32) / 255 as the first line of its tf.function"
AS_FLOAT32 = "make the arrays float32 (integers int32) before they are batched"
ASTYPE_CALL = '.astype("float32")'
MODEL_CAST_FUNCTIONS = ("tensorflow.cast", "keras.ops.cast")
FLOAT32_NAMES = ("tensorflow.float32", "numpy.float32")
PASSING_OPERATIONS = frozenset({"batch", "prefetch", "cache", "shuffle", "repeat", "take", "skip"})
MODEL_METHODS = ("fit", "evaluate", "predict")
OTHER_WAYS_TO_CALL = ("GradientTape", "_on_batch", "set_global_policy", "set_dtype_policy", "set_floatx")
MAX_CHAIN_LINKS = 8
ITERATING_FUNCTIONS = ("enumerate", "iter")
KERAS_METHODS = ("fit", "evaluate", "predict")  # they would get bytes as well


def find_cures(trace: Trace, finding: WideInputFinding) -> Iterable[Prescription]:
    """One cure; no edits if the text does not have the shape that they need."""
    places = (finding.part.place,) if finding.part.place else ()
    if finding.part.narrow != "uint8":
        says, edit = AS_FLOAT32, _float32_edits
    elif recorded_edits.first_applicable(trace, places, cast_in_model) or not trace.steps.source.startswith("function"):
        says, edit = IN_MODEL, cast_in_model
    else:
        says, edit = IN_STEP, cast_in_step
    yield Prescription("edit", Effect.EQUIVALENT, says, edits=recorded_edits.first_applicable(trace, places, edit))


def wide_arrays(source: Source) -> tuple[ast.expr, ...]:
    """The float64 arrays of data sets: those made in this file, or else those that calls pass on."""
    return tuple(arrays_made_here(source)) or tuple(arrays_made_elsewhere(source))


def _float32_edits(source: Source, line: int) -> list[Edit]:  # noqa: ARG001  called as the other edits
    return [edit for array in wide_arrays(source) for edit in edits.append_to_chain(source, array, ASTYPE_CALL)]


def cast_in_model(source: Source, line: int) -> list[Edit]:
    """Removes the ``map`` at ``line`` and others like it: all data of the model has to pass one of them.

    No edits if the model is called in another way, or is more than a list of layers.
    """
    calls = [c for c in node_lookup.calls_at_line(source, line, "map") if isinstance(c.func, ast.Attribute)]
    scale = _scale_of_map(source, calls[0]) if len(calls) == 1 else None
    built = [n for n in call_index.nodes_of_class(source, ast.Call) if keras_models.is_model(source, n)]
    listed = node_lookup.argument_value(built[0], "layers", 0) if len(built) == 1 else None
    if (
        scale is None
        or not isinstance(listed, ast.List)
        or not listed.elts
        or any(w in source.text for w in OTHER_WAYS_TO_CALL)
    ):
        return []
    given, names = list(_model_inputs(source, built[0])), set[str]()
    found = [_casting_map(source, one, calls[0], names) for one in given]
    if not found or None in found or calls[0] not in found or _is_read_elsewhere(source, given, names):
        return []
    keras, also = keras_models.keras_reference(source)
    first = listed.elts[0]
    entrance = isinstance(first, ast.Call) and node_lookup.called_name(first) in ("Input", "InputLayer")
    if not entrance and any(isinstance(n, ast.keyword) and n.arg == "input_shape" for n in syntax_tree.walk(first)):
        return []  # the layer with input_shape would no longer be the first
    layer = f"{keras}.layers.Rescaling({scale})"
    put = f", {layer}" if entrance else f"{layer}, "
    at = edits.node_end(first) if entrance else edits.node_start(first)
    removed = [_without_call(source, c) for c in dict.fromkeys(found) if c is not None]
    return [*also, edits.insert_text(source, at, put), *removed]


def _without_call(source: Source, call: ast.Call) -> Edit:
    """Removes one operation of a data set, or its statement if it does nothing else: ``ds = ds.map(scale)``."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call
    statement = node_lookup.enclosing_statement(source, call)
    if isinstance(statement, ast.Assign) and statement.value is call and isinstance(owner, ast.Name):
        alone = (
            len(scope_names.statement_block(source, statement)) > 1
            and ";" not in source.text.splitlines()[call.lineno - 1]
        )
        if alone and [scope_names.dotted_name(t) for t in statement.targets] == [owner.id]:
            return edits.remove_statement(source, statement)
    return Edit(source.file, edits.node_end(owner), edits.node_end(call), "")


def _scale_of_map(source: Source, call: ast.Call) -> str | None:
    """The factor by which the function of a map scales its first element after the cast; None if it does more."""
    function = node_lookup.argument_value(call, "map_func", 0)
    given = node_lookup.function_named(source, function.id, call) if isinstance(function, ast.Name) else function
    if isinstance(given, ast.FunctionDef):
        only = given.body[0] if len(given.body) == 1 and not given.decorator_list else None
        body = only.value if isinstance(only, ast.Return) else None
    else:
        body = given.body if isinstance(given, ast.Lambda) else None
    names = scope_names.parameter_names(given) if given is not None else []
    whole = body.elts if isinstance(body, ast.Tuple) else [body]
    if not names or len(whole) != len(names) or not isinstance(whole[0], ast.expr):
        return None
    if not all(isinstance(e, ast.Name) and e.id == n for e, n in zip(whole[1:], names[1:], strict=True)):
        return None
    return _scale_of_expression(source, whole[0], names[0])


def _scale_of_expression(source: Source, value: ast.expr, name: str) -> str | None:
    if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Div, ast.Mult)):
        known = setting_origins.literal_origin(source, value.right)
        if (
            known is None
            or not isinstance(known.value, (int, float))
            or _scale_of_expression(source, value.left, name) != "1.0"
        ):
            return None
        number = edits.node_text(source, value.right)
        return f"1 / {number}" if isinstance(value.op, ast.Div) else number
    if not isinstance(value, ast.Call) or name_bindings.qualified_name(source, value.func) not in MODEL_CAST_FUNCTIONS:
        return None
    kind = node_lookup.argument_value(value, "dtype", 1)
    to_float = kind is not None and (
        name_bindings.qualified_name(source, kind) in FLOAT32_NAMES
        or (isinstance(kind, ast.Constant) and kind.value == "float32")
    )
    array = value.args[0] if value.args else None
    return "1.0" if to_float and isinstance(array, ast.Name) and array.id == name else None


def _model_inputs(source: Source, built: ast.Call) -> Iterator[ast.expr]:
    """All data given to a model by ``fit``, ``evaluate`` and ``predict``."""
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MODEL_METHODS:
            parts = [node_lookup.argument_value(node, "x", 0), node_lookup.argument_value(node, "validation_data")]
            yield from (p for p in parts if p is not None)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and _names_model(source, node.func, built):
            yield node  # the model is called directly


def _names_model(source: Source, name: ast.Name, built: ast.Call) -> bool:
    return name_bindings.latest_assignment(source, name) is built


def _casting_map(source: Source, given: ast.expr, alike: ast.Call, names: set[str]) -> ast.Call | None:
    """The map in a data set's chain that does what ``alike`` does, if nothing behind it changes its results.

    Adds to ``names`` the variables between the map and the model.
    """
    node: ast.expr | None = given
    for _ in range(MAX_CHAIN_LINKS):
        if isinstance(node, ast.Name):
            names.add(node.id)
            node = name_bindings.latest_assignment(source, node)
        for call in node_lookup.chain_calls(node) if isinstance(node, ast.Call) else ():
            if node_lookup.called_name(call) == "map" and _map_same_function(call, alike):
                return call
            if not isinstance(call.func, ast.Attribute) or call.func.attr not in PASSING_OPERATIONS:
                return None
            node = call.func.value
        if not isinstance(node, ast.Name):
            return None
    return None


def _is_read_elsewhere(source: Source, given: list[ast.expr], names: set[str]) -> bool:
    """Whether anything but the model reads the data set, apart from assignments between these ``names``."""
    above = node_lookup.parents_of(source)
    for node in (n for name in names for n in name_bindings.reads_of(source, name)):
        statement = node_lookup.enclosing_statement(source, node)
        continues = isinstance(statement, ast.Assign) and scope_names.bound_names(statement) <= names
        if node not in given and not (continues and isinstance(above.get(node), ast.Attribute)):
            return True
    return False


def _map_same_function(one: ast.Call, other: ast.Call) -> bool:
    mine, its = node_lookup.argument_value(one, "map_func", 0), node_lookup.argument_value(other, "map_func", 0)
    return mine is not None and its is not None and ast.dump(mine) == ast.dump(its)


def cast_in_step(source: Source, line: int) -> list[Edit]:
    """Moves the cast of the ``map`` at ``line`` to the first line of the ``tf.function`` that takes the batches.

    No edits unless each loop over the data set gives its batches to that function alone, and nothing else reads them.
    """
    calls = [c for c in node_lookup.calls_at_line(source, line, "map") if isinstance(c.func, ast.Attribute)]
    scale = _scale_of_map(source, calls[0]) if len(calls) == 1 else None
    if scale is None or call_index.index_of(source).calls_of(*KERAS_METHODS):
        return []
    names: set[str] = set()
    loops = [n for n in call_index.nodes_of_kind(source, ast.For) if isinstance(n, ast.For)]
    mine = [n for n in loops if _casting_map(source, _dataset_of_loop(n), calls[0], names) is calls[0]]
    given = [_dataset_of_loop(n) for n in mine]
    steps = [_step_function(source, loop) for loop in mine]
    step = steps[0] if steps else None
    if step is None or any(s is not step for s in steps) or _is_read_elsewhere(source, given, names):
        return []
    if len(call_index.index_of(source).calls_of(step.name)) != len(mine) or not _is_castable_graph_function(
        source, step
    ):
        return []
    name = scope_names.parameter_names(step)[0]
    tf, also = edits.ensure_import(source, "tensorflow", "tf")
    cast = f"{name} = {tf}.cast({name}, {tf}.float32){_scaling_text(scale)}"
    return [*also, edits.insert_before(source, _first_statement(step), cast), _without_call(source, calls[0])]


def _dataset_of_loop(loop: ast.For) -> ast.expr:
    """The data set of a loop, without ``enumerate`` and ``iter``."""
    given = loop.iter
    while (
        isinstance(given, ast.Call) and node_lookup.called_name(given) in ITERATING_FUNCTIONS and len(given.args) >= 1
    ):
        given = given.args[0]
    return given


def _step_function(source: Source, loop: ast.For) -> ast.FunctionDef | None:
    """The function whose first argument is the first part of the loop's element, if nothing else reads that part."""
    target = loop.target
    counted = isinstance(loop.iter, ast.Call) and node_lookup.called_name(loop.iter) == "enumerate"
    if counted:
        target = target.elts[1] if isinstance(target, ast.Tuple) and len(target.elts) == 2 else target
    first = target.elts[0] if isinstance(target, ast.Tuple) else target
    if not isinstance(first, ast.Name) or (counted and target is loop.target):
        return None
    reads = [n for n in name_bindings.reads_of(source, first.id) if edits.node_start(n) > edits.node_start(loop)]
    call = node_lookup.parents_of(source).get(reads[0]) if len(reads) == 1 else None
    if not isinstance(call, ast.Call) or call.args[:1] != reads or not isinstance(call.func, ast.Name):
        return None
    return (
        node_lookup.function_named(source, call.func.id, call)
        if loop in scope_names.enclosing_loops(source, call)
        else None
    )


def _is_castable_graph_function(source: Source, step: ast.FunctionDef) -> bool:
    """Whether it is a ``tf.function`` without a signature that never rebinds its first parameter."""
    names = scope_names.parameter_names(step)
    of = [d.func if isinstance(d, ast.Call) else d for d in step.decorator_list]
    signed = any(
        node_lookup.argument_value(d, "input_signature", 1) for d in step.decorator_list if isinstance(d, ast.Call)
    )
    graph = [name_bindings.qualified_name(source, d) for d in of] == ["tensorflow.function"]
    return graph and not signed and bool(names) and names[0] not in scope_names.bound_names(step.body)


def _first_statement(step: ast.FunctionDef) -> ast.stmt:
    """The first statement behind the docstring."""
    head = step.body[0]
    text = isinstance(head, ast.Expr) and isinstance(head.value, ast.Constant) and isinstance(head.value.value, str)
    return step.body[1] if text and len(step.body) > 1 else head


def _scaling_text(scale: str) -> str:
    """``1 / 255.0`` as ``/ 255.0``, the operation of the map; "" for 1."""
    if scale == "1.0":
        return ""
    return f" / {scale.removeprefix('1 / ')}" if scale.startswith("1 / ") else f" * {scale}"
