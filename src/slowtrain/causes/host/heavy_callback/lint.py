"""Finds the cause host/heavy-callback in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from slowtrain.model import Edit, Effect, Prescription, Spot
from slowtrain.script.evaluators import setting_origins
from slowtrain.script.fixes.models import callback_intervals
from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.engine import interpreter, queries, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import keras_names
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

# Methods of a model that process data or all weights.
COSTLY_MODEL_METHODS = frozenset(
    "predict evaluate save save_weights get_weights predict_generator evaluate_generator".split()
)
# Calls that write a file, draw a picture or process arrays.
COSTLY_FUNCTIONS = ("matplotlib.", "json.dump", "pickle.dump", "numpy.save", "numpy.histogram", "numpy.percentile",
    "h5py.",
          "numpy.linalg.svd", "numpy.linalg.eig", "numpy.linalg.cond", "numpy.linalg.matrix_rank", "numpy.linalg.pinv",
          "numpy.quantile", "numpy.corrcoef", "scipy.linalg.", "sklearn.", "tensorflow.linalg.svd",
          "tensorflow.linalg.eigh", "keras.ops.svd", "keras.ops.linalg.svd",
          "tensorflow.summary.histogram", "tensorflow.summary.image", "keras.utils.plot_model")  # fmt: skip
LAYER_ATTRIBUTES = (".layers", ".weights", ".trainable_weights", ".trainable_variables", ".variables")
CHEAP_FUNCTIONS = ("json.dumps", "pickle.dumps")
MAX_FREQUENT_SAVE_BATCHES = 10  # batches between saves. A save takes as long as several steps.
SAVE_METHODS = frozenset({".save", ".save_weights"})
# Calls that write, draw or decompose arrays for longer than a small step.
WRITING_FUNCTIONS = ("matplotlib.pyplot.savefig", "matplotlib.pyplot.figure", "matplotlib.pyplot.plot", "numpy.save",
           "tensorflow.summary.histogram", "tensorflow.summary.image", "keras.utils.plot_model", "numpy.linalg.svd",
           "numpy.linalg.eig", "tensorflow.linalg.svd", "tensorflow.linalg.eigh", "joblib.dump")  # fmt: skip
COSTLY_MODEL_CALLS = frozenset(f".{name}" for name in COSTLY_MODEL_METHODS)
MIN_SLOW_TURNS = 50_000  # iterations of Python loops, half of it for pairs. They take a millisecond or more.
_HINT_WORDS = ("Callback", "save", "summary", "pyplot", "svd", "eig", "dump")


@dataclass(frozen=True)
class FrequentWork:
    start: tuple[int, int]
    end: tuple[int, int]
    says: str
    cure: str
    changed: tuple[Edit, ...]


def find_spots(source: Source) -> Iterable[Spot]:
    """Callbacks that save, predict, draw or count all weights after every batch."""
    for one in heavy_step_work(source):
        cure = Prescription("edit", Effect.EXACT, one.cure, edits=one.changed)
        yield Spot(one.start, one.end, one.says, cure)


def frequent_work_at(node: ast.expr, says: str) -> FrequentWork:
    """Return a finding at ``node`` without an edit."""
    cure = "do it once an epoch, or every hundredth step"
    return FrequentWork(edits.node_start(node), edits.node_end(node), says, cure, ())


def frequent_callback_work(source: Source) -> Iterator[FrequentWork]:
    """Find all costly callback work of the file."""
    yield from _hook_work(source)
    yield from _lambda_work(source)
    yield from _frequent_savers(source)
    yield from _tensorboard_work(source)


def _hook_work(source: Source) -> Iterator[FrequentWork]:
    if keras_names.BATCH_HOOKS.isdisjoint(source.words):
        return
    for kind in call_index.nodes_of_kind(source, ast.ClassDef):
        assert isinstance(kind, ast.ClassDef)
        if not any(scope_names.dotted_name(base).rpartition(".")[2].endswith("Callback") for base in kind.bases):
            continue
        for hook in kind.body:
            if not isinstance(hook, ast.FunctionDef) or hook.name not in keras_names.BATCH_HOOKS:
                continue
            what = _costly_call(source, hook)
            if what is not None:
                rarer = tuple(callback_intervals.run_hook_less_often(source, kind.name, hook.name))
                named = hook.lineno, hook.col_offset + len(f"def {hook.name}")
                says = f"{kind.name}.{hook.name} calls {what} after every batch"
                cure = f"do the work of {kind.name}.{hook.name} once an epoch, or every hundredth batch"
                yield FrequentWork(edits.node_start(hook), named, says, cure, rarer)


def _costly_call(source: Source, hook: ast.FunctionDef, depth: int = 3, *, models: bool = False) -> str | None:
    """Return the costly call that a method, or a method that it calls, always runs.

    ``models``: every object with a method of Keras models counts as a model.
    """
    for node in _unconditional_nodes(hook.body):
        if not isinstance(node, ast.Call):
            continue
        name = node_lookup.called_name(node)
        owner = scope_names.dotted_name(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        whole = name_bindings.qualified_name(source, node.func)
        own = queries.called_function(source, node) if depth and (owner or models) else None
        of_model = name in COSTLY_MODEL_METHODS and (
            owner == "self.model" or (models and owner and not whole and own is None)
        )
        if of_model or (whole.startswith(COSTLY_FUNCTIONS) and whole not in CHEAP_FUNCTIONS):
            return f"{scope_names.dotted_name(node.func)}()"
        if name == "get_weights" and owner and owner in _layer_names(hook.body):
            return f"{owner}.get_weights() of all layers"
        if isinstance(own, ast.FunctionDef) and own is not hook:
            found = _costly_call(source, own, depth - 1, models=models)
            if found is not None:
                return found
    return None


def _layer_names(body: list[ast.stmt]) -> set[str]:
    """Return loop variables that iterate over the layers of the model."""
    loops = [n for one in body for n in syntax_tree.walk(one) if isinstance(n, ast.For)]
    return {
        n.target.id
        for n in loops
        if isinstance(n.target, ast.Name) and scope_names.dotted_name(n.iter) == "self.model.layers"
    }


def _unconditional_nodes(body: list[ast.stmt], over: frozenset[str] = frozenset()) -> Iterator[ast.AST]:
    """Yield the nodes that run unconditionally, up to the first test.

    A test of a loop variable in ``over``, such as the type of a layer, skips some layers but never all.
    """
    for one in body:
        if isinstance(one, ast.If):
            if not _tests_layer_only(one.test, over):
                return
            yield from _unconditional_nodes(one.body, over)
        elif isinstance(one, (ast.For, ast.With)):
            heads = [one.iter] if isinstance(one, ast.For) else [i.context_expr for i in one.items]
            for head in heads:
                yield from syntax_tree.walk(head)
            layers = isinstance(one, ast.For) and scope_names.dotted_name(one.iter).endswith(LAYER_ATTRIBUTES)
            named = frozenset(scope_names.bound_names(one.target)) if isinstance(one, ast.For) and layers else over
            yield from _unconditional_nodes(one.body, named)
        elif not isinstance(one, (ast.While, ast.Try)):
            yield from _nodes_outside_conditions(one)


def _tests_layer_only(test: ast.expr, over: frozenset[str]) -> bool:
    """Whether a test such as ``isinstance(layer, Dense) and layer.units > 1`` only depends on the layer."""
    first = test.values[0] if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else test
    asked = isinstance(first, ast.Call) and scope_names.dotted_name(first.func) in ("isinstance", "hasattr")
    compared = [n for n in syntax_tree.walk(test) if isinstance(n, ast.Compare)]
    return (
        asked
        and bool(scope_names.read_names(first) & over)
        and all(scope_names.read_names(n) <= over for n in compared)
    )


def _nodes_outside_conditions(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and its children, without parts that a condition may skip."""
    yield node
    if isinstance(node, (ast.IfExp, ast.BoolOp)):
        return
    for below in syntax_tree.child_nodes(node):
        yield from _nodes_outside_conditions(below)


def _lambda_work(source: Source) -> Iterator[FrequentWork]:
    for call in call_index.index_of(source).called("LambdaCallback"):
        for given in call.keywords:
            if given.arg in keras_names.BATCH_HOOKS and not isinstance(given.value, ast.Lambda):
                yield from _given_hook_work(source, given.arg, given.value)
                continue
            if given.arg not in keras_names.BATCH_HOOKS or not isinstance(given.value, ast.Lambda):
                continue
            body = given.value.body
            calls = [n for n in _unconditional_nodes([ast.Expr(body)]) if isinstance(n, ast.Call)]
            costly = [
                c
                for c in calls
                if node_lookup.called_name(c) in COSTLY_MODEL_METHODS
                or name_bindings.qualified_name(source, c.func).startswith(COSTLY_FUNCTIONS)
            ]
            if costly:
                says = f"{given.arg} calls {scope_names.dotted_name(costly[0].func)}() after every batch"
                changed = tuple(callback_intervals.run_lambda_less_often(source))
                cure = "do the work of the callback once an epoch, or every hundredth batch"
                yield FrequentWork(edits.node_start(given.value), edits.node_end(given.value), says, cure, changed)
            else:
                yield from _called_function_work(source, given.arg, given.value, calls)


def _given_hook_work(source: Source, hook: str, given: ast.expr) -> Iterator[FrequentWork]:
    """Find work in a function or method that is given as a hook, also by ``functools.partial``."""
    written = setting_origins.written_value(source, given) if isinstance(given, ast.Name) else given
    while isinstance(written, ast.Call) and node_lookup.called_name(written) == "partial" and written.args:
        written = written.args[0]
    if isinstance(written, ast.Lambda):
        calls = [n for n in _unconditional_nodes([ast.Expr(written.body)]) if isinstance(n, ast.Call)]
        yield from _called_function_work(source, hook, given, calls)
    elif isinstance(written, (ast.Name, ast.Attribute)) or isinstance(given, ast.Name):
        named = written if isinstance(written, (ast.Name, ast.Attribute)) else given
        yield from _called_function_work(source, hook, given, [ast.copy_location(ast.Call(named, [], []), named)])


def _called_function_work(source: Source, hook: str, given: ast.expr, calls: list[ast.Call]) -> Iterator[FrequentWork]:
    """Find work in functions of the file that a hook calls."""
    for call in calls:
        own = queries.called_function(source, call)
        what = _costly_call(source, own, models=True) if isinstance(own, ast.FunctionDef) else None
        if what is not None and isinstance(own, ast.FunctionDef):
            says = f"{hook} is {own.name}(), which calls {what}: after every batch"
            cure = f"do the work of {own.name} once an epoch (on_epoch_end)"
            yield FrequentWork(edits.node_start(given), edits.node_end(given), says, cure, ())
            return


def _frequent_savers(source: Source) -> Iterator[FrequentWork]:
    for call in call_index.index_of(source).called(*callback_intervals.KERAS_SAVERS):
        kind, freq = node_lookup.called_name(call), setting_origins.call_argument(source, call, "save_freq")
        every = queries.int_at(source, freq) if freq is not None else None
        if freq is not None and every is not None and 1 <= every <= MAX_FREQUENT_SAVE_BATCHES:
            says = f"{kind} saves the model after every {f'{every} batches' if every > 1 else 'batch'}"
            cure = f"let {kind} save less often (save_freq) or only weights (save_weights_only=True)"
            yield FrequentWork(
                edits.node_start(freq),
                edits.node_end(freq),
                says,
                cure,
                tuple(callback_intervals.make_callbacks_lighter(source, kind)),
            )


def _saves_each_batch(source: Source, given: ast.expr) -> bool:
    """Whether a save frequency is ``"batch"`` or a small number of batches."""
    known = setting_origins.literal_origin(source, given)
    every = queries.int_at(source, given)
    return (known is not None and known.value == "batch") or (
        every is not None and 1 <= every <= MAX_FREQUENT_SAVE_BATCHES
    )


def _tensorboard_work(source: Source) -> Iterator[FrequentWork]:
    for call in call_index.index_of(source).called("TensorBoard"):
        each = node_lookup.argument_value(call, "update_freq")
        if each is not None and _saves_each_batch(source, each):
            says = "TensorBoard writes the loss and each metric after every batch"
            cure = 'TensorBoard(update_freq="epoch"), or a number of some hundred batches'
            yield FrequentWork(edits.node_start(each), edits.node_end(each), says, cure, ())
        freq, images = (
            node_lookup.argument_value(call, "histogram_freq"),
            node_lookup.argument_value(call, "write_images"),
        )
        every = queries.int_at(source, freq) if freq is not None else None
        if isinstance(images, ast.Constant) and images.value is True and every == 1:
            says = "TensorBoard writes every weight as a histogram and as a picture after each epoch"
            cure = "TensorBoard(histogram_freq=0, write_images=False)"
            yield FrequentWork(
                edits.node_start(call),
                edits.node_end(call),
                says,
                cure,
                tuple(callback_intervals.make_callbacks_lighter(source, "TensorBoard")),
            )


def heavy_step_work(source: Source) -> Iterator[FrequentWork]:
    """Find costly work of callbacks or hand-written loops in each step, or each of a few."""
    known = list(frequent_callback_work(source))
    yield from known
    if known or not any(word in source.text for word in _HINT_WORDS):
        return
    seen: set[ast.AST | None] = set()
    for event in file_events(source):
        function = node_lookup.enclosing_function(source, event.node)
        if function in seen or not (event.begun is not None or _is_costly(event)):
            continue
        loop = step_loops.per_step_loop(source, event)
        hook = loop is not None and isinstance(loop.node, ast.Call)
        if event.begun is not None:
            turns = _nested_turns(source, event, loop) if loop is not None and hook else 0
            if turns >= MIN_SLOW_TURNS:
                seen.add(function)
                yield frequent_work_at(event.node, f"Python loops take up to {turns:,} turns after each batch")
            continue
        if loop is None or (event.name in COSTLY_MODEL_CALLS - SAVE_METHODS and not hook):
            continue  # predictions of a loop may be steps; validations are another rule
        seen.add(function)
        yield frequent_work_at(event.node, f"{event.name.lstrip('.')}() after each batch, or one of a few")


def _nested_turns(source: Source, event: Event, loop: Loop) -> int:
    """Return the known iterations of the loops inside ``loop`` that lead to the event."""
    inside = event.loops[event.loops.index(loop) + 1 :]
    return prod(_loop_turns(source, one) for one in inside if one.number not in event.rare)


def _loop_turns(source: Source, loop: Loop) -> int:
    """Return the iterations of a loop, or the capacity of a queue that it iterates over; 1 if unknown."""
    over = getattr(loop.node, "iter", None)
    if loop.turns is not None or over is None:
        return loop.turns or 1
    asked = [over.value if isinstance(over, ast.Subscript) else over]
    for name in (n for n in syntax_tree.walk(over) if isinstance(n, ast.Name)):
        written = name_bindings.single_assignment(source, name)
        asked += [n.args[0] for n in node_lookup.length_queries(written or name) if isinstance(n, ast.Call) and n.args]
    asked += [n.args[0] for n in node_lookup.length_queries(over) if isinstance(n, ast.Call) and n.args]
    queues = (interpreter.value_at(source, one) for one in asked)
    return max((q.known for q in queues if q.name == "bounded" and isinstance(q.known, int)), default=1)


def _is_costly(event: Event) -> bool:
    if event.name in COSTLY_MODEL_CALLS:
        return (
            event.on is not None and event.on.kind in ("keras", "object") and event.on.name != "numpy.random.Generator"
        )
    return event.name.startswith(WRITING_FUNCTIONS)
