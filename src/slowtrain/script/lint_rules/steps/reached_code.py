"""Lint rules on the events of the interpreter, which follows every path of a script.

They supplement the lint rules that search the text around a place: these follow the calls and loops that lead to
the place.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import prod

from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.domain.run_context import Scope
from slowtrain.script.interpreter.engine import interpreter, queries, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules.compute import handwritten_ops
from slowtrain.script.lint_rules.host import traced_functions
from slowtrain.script.lint_rules.input import array_generators, file_decoding, slow_python
from slowtrain.script.lint_rules.input.sample_loops import MIN_NUMPY_CALLS
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

MIN_REPEATED_TURNS = 5  # iterations
MIN_BUILDS = 3  # training in two stages (frozen, then unfrozen) has to compile twice
MIN_INPUT_LOOP_TURNS = 6  # iterations of a loop in input code. Fewer are channels or coordinates.
MIN_NESTED_LOOPS = {"generator": 3, "sequence": 2, "py_function": 2}  # nested loops that visit each element
RETRACING_SETTINGS = ("input_signature", "reduce_retracing", "experimental_relax_shapes")
TRAINING_METHODS = (".fit", ".train_on_batch")
MIN_UNROLLED_TURNS = 16  # iterations of a Python loop inside a graph
MIN_UNROLLED_STEPS = 8  # the same, if each iteration is a training step
PYTHON_ITERABLES = ("range", "list", "tuple", "rows")  # Python iterables, which unroll a loop in a graph
APPENDING_FUNCTIONS = frozenset({"numpy.append", "numpy.concatenate", "numpy.vstack", "numpy.hstack"})
MIN_APPENDED_ROWS = 1000
MAX_PREDICT_ROWS = 256
UPDATE_METHODS = frozenset({".apply_gradients", ".apply", ".minimize", ".assign", ".assign_sub", ".assign_add"})


def changing_arguments(source: Source) -> Iterator[traced_functions.ChangingArgument]:
    """Find arguments of a ``tf.function`` whose Python number, string or shape changes in each iteration of a loop."""
    for event, graph in _graph_calls(source):
        function = graph.of.node if graph.of is not None else None
        if not isinstance(function, ast.FunctionDef) or not isinstance(event.node, ast.Call):
            continue
        loops = {loop.number for loop in event.regular_loops(MIN_REPEATED_TURNS) if loop.number not in graph.born}
        if not loops or any(name in graph.data for name in RETRACING_SETTINGS):
            continue
        found = traced_functions.TracedFunction(function, (function.name,))
        for parameter, place, value in _given_arguments(event, event.node, function):
            number, held = _varying_part(value, loops)
            if number is not None:
                inside = (
                    interpreter.producing_expression(source, held) if held is not value and number != "text" else None
                )
                yield traced_functions.ChangingArgument(found, event.node, parameter, inside or place, number)


def _graph_calls(source: Source) -> Iterator[tuple[Event, Value]]:
    """Yield calls of tf.functions from Python, and the function."""
    if not traced_functions.may_have_graphs(source):
        return
    for event in file_events(source):
        if event.on is not None and event.on.kind == "graph" and not event.graph and not event.producer:
            yield event, event.on


def _given_arguments(event: Event, call: ast.Call, function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr, Value]]:
    """Yield the parameter, the expression and the value of each argument."""
    names = scope_names.parameter_names(function)
    if event.on is not None and event.on.of is not None and event.on.of.of is not None:
        names = names[1:]  # a method's object
    written = [a for a in call.args if not isinstance(a, ast.Starred)]
    for i, value in enumerate(event.given.args):
        place = written[i] if len(written) == len(call.args) and i < len(written) else call.args[-1]
        yield names[i] if i < len(names) else "an argument", place, value
    places = {k.arg: k.value for k in call.keywords}
    for name, value in event.given.keywords.items():
        yield name, places.get(name, call), value


def _varying_part(value: Value, loops: set[int]) -> tuple[str | None, Value]:
    """Return how a value varies by iteration, as in ``retraces.Changing``, and the part that varies."""
    for one in value.inside():
        if one.kind == "number" and one.name not in ("bool", "few") and one.varies & loops:
            return (one.name or "number") if one is value else "object" if value.kind == "object" else "held", one
        if one.kind == "text" and one.name == "counted" and one.varies & loops and value.kind != "object":
            return "text", one
        if one.kind in ("array", "tensor") and one.ragged & loops:
            return "", one
    return None, value


def repeated_builds(source: Source) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Find models and graphs that a loop compiles in each iteration without need, with a description."""
    every = file_events(source) if ".compile" in source.text or traced_functions.may_have_graphs(source) else ()
    for event in every:
        if event.name == ".compile" and event.on is not None and event.on.kind in ("keras", "object"):
            alike = [one for one in event.regular_loops(MIN_BUILDS) if one.number not in event.on.varies]
            used = [e.name for e in every if e.on is event.on and alike and alike[-1] in e.loops]
            if alike and alike[-1].number in event.on.born and ".set_weights" not in used:
                continue  # a new model with new weights
            if any(name in TRAINING_METHODS for name in used):
                yield event.node, "a loop compiles this model in each turn, and its graphs are traced anew"
    for event, graph in _graph_calls(source):
        rare = {n for e in every if e.node is graph.node and e.name == "tensorflow.function" for n in e.rare}
        loops = [one.number for one in event.regular_loops(MIN_BUILDS) if one.number in set(graph.born) - rare]
        again = loops and not _captures_varying_value(graph, set(loops))
        if again and isinstance(graph.node, (ast.expr, ast.stmt)):
            yield (
                graph.node,
                f"each turn of a loop makes {graph.name or 'this tf.function'} anew, and it is traced anew",
            )


def _captures_varying_value(graph: Value, loops: set[int]) -> bool:
    """Whether a name that the graph captures changes in each iteration, so that each iteration needs its own graph.

    An object that each iteration builds in the same way, such as a model per fold, does not count.
    """
    function = graph.of
    if function is None or not isinstance(function.data, Scope) or function.node is None:
        return True
    found = (function.data.find(name) for name in scope_names.read_names(function.node))
    return any(one is not None and one.varies & loops and not _can_be_argument(one) for one in found)


def _can_be_argument(value: Value) -> bool:
    """Whether one graph can take the value as an argument: tensors and floats."""
    return value.kind in ("tensor", "array") or (value.kind == "number" and value.name == "float")


def eager_tapes(source: Source) -> Iterator[ast.With]:
    """Find gradient tapes of training steps that a loop runs eagerly in each iteration."""
    every = file_events(source) if "GradientTape" in source.text else ()
    updated = {one for e in every if e.name in UPDATE_METHODS and not e.graph for one in e.loops}
    for event in every:
        if event.name != "tensorflow.GradientTape" or event.graph or event.producer:
            continue
        tape = node_lookup.enclosing_statement(source, event.node)
        way = [*zip(event.path, event.files, strict=True), (tape, source)]
        if any(node is not None and node_lookup.is_taped(file, node) for node, file in way):
            continue  # a gradient inside a gradient, of a residual: no step
        if isinstance(tape, ast.With) and any(one in updated for one in event.regular_loops(MIN_REPEATED_TURNS)[-1:]):
            yield tape


def double_weights(source: Source) -> Iterator[ast.Call]:
    """Find float64 weights whose dtype the text does not state."""
    for event in file_events(source) if "Variable" in source.text else ():
        double = event.name == "tensorflow.Variable" and event.result.dtype == "float64"
        said = isinstance(event.node, ast.Call) and _states_dtype(source, event.node)
        shape = event.given.get("initial_value", 0).shape
        if double and not said and isinstance(event.node, ast.Call) and (shape is None or len(shape) > 1):
            yield event.node


def _states_dtype(source: Source, made: ast.Call) -> bool:
    """Whether the text states the dtype of a weight, or a parameter of the function does."""
    if any(k.arg == "dtype" and not _is_dtype_of_data(k.value) for k in made.keywords):
        return True
    function = node_lookup.enclosing_function(source, made)
    chosen = set(scope_names.parameter_names(function)) if function is not None else set()
    inner = (k.value for n in syntax_tree.walk(made) if isinstance(n, ast.Call) for k in n.keywords if k.arg == "dtype")
    return any(isinstance(one, ast.Name) and one.id in chosen for one in inner)


def _is_dtype_of_data(dtype: ast.expr) -> bool:
    """``x.dtype``"""
    return isinstance(dtype, ast.Attribute) and dtype.attr == "dtype"


def slow_input_parts(source: Source) -> Iterator[slow_python.SlowPart]:
    """Find slow Python in input code, and loops over the elements of each batch."""
    known = list(slow_python.slow_parts(source))
    calls = {one.call for one in known}
    whole: list[slow_python.SlowPart] = []  # the text does not show which part of the work is slow
    for each in array_generators.sample_generators(source):
        if each.call not in calls:
            calls.add(each.call)
            found = slow_python.SlowPart(edits.node_start(each.given), edits.node_end(each.given), each.says, each.call)
            (known if each.cut else whole).append(found)
    yield from known
    seen: set[ast.AST | None] = set()
    inner = False
    for event in file_events(source):
        if event.name != "loop" or not event.producer:
            continue
        inside, function = _loops_inside_input(event.loops), node_lookup.enclosing_function(source, event.node)
        if function in seen or not inside or inside[-1] is not event.loops[-1]:
            continue
        if len(inside) < MIN_NESTED_LOOPS[event.producer] and not _loops_over_rows(source, event, inside[-1]):
            continue
        seen.add(function)
        low, high = (function.lineno, function.end_lineno or 0) if function is not None else (0, 0)
        if not any(low <= one.start[0] <= high for one in known):
            inner = True
            says = "Python goes through each batch element by element"
            yield slow_python.SlowPart(edits.node_start(event.node), edits.node_end(event.node), says)
    if not known and not inner:
        yield from whole or file_decoding.sequential_decoding(source)


def _loops_over_rows(source: Source, event: Event, loop: Loop) -> bool:
    """Whether a loop iterates over the rows of a batch and calls NumPy several times per row."""
    if event.producer != "py_function" or loop.items.kind not in ("array", "rows"):
        return False
    if loop.turns is not None and loop.turns < MIN_UNROLLED_TURNS:
        return False
    inner = (e for e in file_events(source) if e.loops[-1:] == (loop,))
    each = {e.node for e in inner if e.name.startswith("numpy.") or (e.on is not None and e.on.kind == "array")}
    return len(each) >= MIN_NUMPY_CALLS


def _loops_inside_input(loops: tuple[Loop, ...]) -> list[Loop]:
    """Return the loops inside the one that makes the input, without loops of few iterations."""
    made_by = max((i for i, one in enumerate(loops) if isinstance(one.node, ast.Call)), default=-1)
    below = [
        one for one in loops[made_by + 1 :] if not isinstance(one.node, ast.While)
    ]  # while True repeats the whole input
    return [one for one in below if (n := _visible_turns(one)) is None or n >= MIN_INPUT_LOOP_TURNS]


def _visible_turns(loop: Loop) -> int | None:
    """Return the visible number of iterations, or of items that a loop adds to a list."""
    filled = loop.items.kind == "list" and isinstance(loop.items.data, int)
    return loop.items.data if loop.turns is None and filled else loop.turns


def unrolled_graph_loops(source: Source, chained: bool) -> Iterator[tuple[ast.For, int]]:
    """Find Python loops that a graph unrolls, with the number of iterations.

    ``chained``: each iteration depends on the previous one, as in a solver. Otherwise, one op may process all rows.
    """
    seen: set[ast.AST] = set()
    for event in file_events(source) if may_trace(source) else ():
        loop = event.loops[-1] if event.loops else None
        if event.name != "loop" or not event.graph or loop is None or loop.node in seen:
            continue
        if loop.items.kind not in PYTHON_ITERABLES:
            continue
        turns = prod(
            one.turns or 1
            for one in event.loops
            if one.items.kind in PYTHON_ITERABLES and _in_same_function(source, one, loop)
        )
        stepping = any(loop in e.loops for e in file_events(source) if e.name == "tensorflow.GradientTape")
        if not isinstance(loop.node, ast.For) or turns < (MIN_UNROLLED_STEPS if stepping else MIN_UNROLLED_TURNS):
            continue
        if (stepping or _depends_on_previous(source, loop.node)) != chained:
            continue
        if chained or _has_equal_iterations(source, loop):
            seen.add(loop.node)
            yield loop.node, turns


def reached_handwritten_ops(source: Source) -> Iterator[handwritten_ops.HandwrittenOp]:
    """Find handwritten ops, and loops whose iterations one op could process together."""
    known = list(handwritten_ops.find_handwritten_ops(source))
    yield from known
    for loop, turns in unrolled_graph_loops(source, chained=False):
        if not any(loop.lineno <= one.start[0] <= (loop.end_lineno or 0) for one in known):
            says = f"the graph gets the ops of each of {turns} turns of this loop, of the same shapes"
            whole = "stack what the turns take and let one op run over all of them"
            yield handwritten_ops.HandwrittenOp(edits.node_start(loop), edits.node_end(loop.iter), says, whole, ())


def may_trace(source: Source) -> bool:
    """Whether the file may build graphs, by tf.function or Keras."""
    return traced_functions.may_have_graphs(source) or "keras" in source.text


def _in_same_function(source: Source, one: Loop, loop: Loop) -> bool:
    """Whether both loops are in the same function, and thus in the same graph."""
    return node_lookup.enclosing_function(source, one.node) is node_lookup.enclosing_function(source, loop.node)


def _depends_on_previous(source: Source, loop: ast.For) -> bool:
    """Whether an iteration reads values of the previous one, apart from sums and lists that it extends."""
    inside = [n for n in scope_names.nodes_in_scope(list(loop.body)) if isinstance(n, ast.Assign)]
    kept = {name for one in inside for target in one.targets for name in scope_names.bound_names(target)}
    turned = {id(n) for n in syntax_tree.walk(loop)}
    apart = (
        n
        for n in scope_names.nodes_in_scope(scope_names.scope_body(scope_names.enclosing_scope(source, loop)))
        if id(n) not in turned
    )
    before = {n.id for n in apart if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    function = node_lookup.enclosing_function(source, loop)
    outside = before | set(scope_names.parameter_names(function) if function is not None else ())
    calls = (
        n
        for n in scope_names.nodes_in_scope(list(loop.body))
        if isinstance(n, ast.Call) and node_lookup.called_name(n) == "append"
    )
    lists = {c.func.value.id for c in calls if isinstance(c.func, ast.Attribute) and isinstance(c.func.value, ast.Name)}
    taken = (
        n
        for n in scope_names.nodes_in_scope(list(loop.body))
        if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)
    )
    again = any(isinstance(n.value, ast.Name) and n.value.id in lists for n in taken)  # far[-1]
    return again or bool(kept & outside & scope_names.read_names(list(loop.body)))


def _has_equal_iterations(source: Source, loop: Loop) -> bool:
    """Whether all iterations run the same TensorFlow ops on rows selected by the loop index."""
    inside = [e for e in file_events(source) if loop in e.loops and e.name not in ("loop", ".append")]
    if not inside or not all(e.name.startswith(("tensorflow.", "keras.ops.")) for e in inside):
        return False
    turn = scope_names.bound_names(loop.node.target) if isinstance(loop.node, ast.For) else set()
    body = list(scope_names.nodes_in_scope(scope_names.scope_body(loop.node)))
    cuts = {id(n) for one in body if isinstance(one, ast.Slice) for n in syntax_tree.walk(one)}  # x[:, k : k + n]
    for one in body:
        if id(one) in cuts:
            continue
        sides = (one.left, one.right) if isinstance(one, ast.BinOp) else ()
        counted = any(isinstance(s, ast.Name) and s.id in turn for s in sides)
        if counted and any(interpreter.value_at(source, s).kind in ("tensor", "variable") for s in sides):
            return False
    return True


def growing_arrays(source: Source) -> Iterator[ast.expr]:
    """Find arrays that a long loop extends by a row, which copies the array in each iteration."""
    for event in file_events(source):
        if (
            event.name not in APPENDING_FUNCTIONS
            or not event.loops
            or event.producer
            or event.graph
            or not event.given.args
        ):
            continue
        statement = node_lookup.enclosing_statement(source, event.node)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        names = {scope_names.dotted_name(one) for one in targets} - {""}
        read = (
            {scope_names.dotted_name(n) for a in event.node.args for n in syntax_tree.walk(a)}
            if isinstance(event.node, ast.Call)
            else set()
        )
        if _is_rebound_first(event.loops[-1].node, names & read):
            continue
        if names & read and ((event.loops[-1].turns or 0) >= MIN_APPENDED_ROWS or _covers_all_rows(event.loops[-1])):
            yield event.node


def _is_rebound_first(loop: ast.AST, names: set[str]) -> bool:
    """Whether each iteration of a loop first rebinds one of these names."""
    for one in scope_names.nodes_in_scope(list(getattr(loop, "body", []))):
        if (
            isinstance(one, ast.Assign)
            and names & scope_names.bound_names(one)
            and not names & scope_names.read_names(one.value)
        ):
            return True
    return False


def _covers_all_rows(loop: Loop) -> bool:
    """Whether a loop like ``for i in range(len(x) - 24)`` has an iteration for each of an unknown number of rows."""
    over = loop.node.iter if isinstance(loop.node, ast.For) else None
    if loop.turns is not None or loop.items.kind != "range" or over is None:
        return False
    return any(node_lookup.length_queries(over))


def small_predict_calls(source: Source) -> Iterator[ast.Call]:
    """Find calls of ``predict`` with few rows in each of many iterations."""
    for event in file_events(source) if ".predict" in source.text else ():
        if event.name != ".predict" or not isinstance(event.node, ast.Call) or event.on is None:
            continue
        rows = event.given.get("x", 0).shape
        many = prod(one.turns or 1 for one in event.regular_loops(MIN_BUILDS)) >= MIN_UNROLLED_TURNS
        many |= step_loops.step_loop_of(source, event) is not None  # as many calls as steps
        if rows and rows[0] is not None:
            few = rows[0] <= MAX_PREDICT_ROWS
        else:  # a batch size above the default of Keras means more rows
            batch = queries.int_at(source, node_lookup.argument_value(event.node, "batch_size", 1))
            few = (batch is None or batch <= MAX_PREDICT_ROWS) and not step_loops.is_between_epochs(source, event)
        if many and event.on.kind in ("keras", "object") and few:
            yield event.node
