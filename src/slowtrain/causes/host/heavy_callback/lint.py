"""Finds the cause host/heavy-callback in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from math import prod

from slowtrain.model import Edit, Effect, Prescription, Spot
from slowtrain.script.fixes.loops import periodic_work
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.engine import interpreter, queries, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import keras_names, spots
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names, setting_origins
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

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
          "tensorflow.summary.histogram", "tensorflow.summary.image", "keras.utils.plot_model",
          "joblib.dump")  # fmt: skip
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


def find_spots(source: Source) -> Iterable[Spot]:
    """Callbacks that save, predict, draw or count all weights after every batch; such work in hand-written loops."""
    known = [*_hook_work(source), *_frequent_savers(source), *_tensorboard_work(source)]
    yield from known or _step_work(source)


def _work_spot(node: ast.expr, says: str, cure: str, changed: Iterable[Edit] = (), worth_if: str | None = None) -> Spot:
    return spots.node_spot(node, says, Prescription("edit", Effect.EXACT, cure, edits=tuple(changed)), worth_if)


def _hook_work(source: Source) -> Iterator[Spot]:
    """Find hooks that make a costly call after every batch, themselves or in functions that they call."""
    seen: set[ast.AST] = set()
    for event in file_events(source) if not keras_names.BATCH_HOOKS.isdisjoint(source.words) else ():
        way = _way_from_hook(source, event) if _is_costly(event, COSTLY_FUNCTIONS, "unknown") else []
        if not way or way[0] in seen or not isinstance(event.node, ast.Call):
            continue
        seen.add(way[0])
        what = f"{scope_names.dotted_name(event.node.func)}()"
        if event.name == ".get_weights" and not isinstance(event.loops[-1].node, ast.Call):
            what += " of all layers"
        match node_lookup.parents_of(source).get(way[0]), way[0]:
            case ast.ClassDef() as kind, ast.FunctionDef() as hook if hook.name in keras_names.BATCH_HOOKS:
                yield _method_spot(source, kind, hook, what)
            case _:
                yield from _given_hook_work(source, way, what)


def _way_from_hook(source: Source, event: Event) -> list[ast.AST]:
    """Return the functions from the hook to the event, if a hook of this file makes the call after every batch."""
    loop = step_loops.per_step_loop(source, event)
    if loop is None or not isinstance(loop.node, ast.Call):
        return []
    nodes = [*zip(event.path, event.files, strict=True), (event.node, event.source)]
    fit = max((at for at, (call, _) in enumerate(nodes) if call is loop.node), default=-1)
    kinds = (ast.Lambda, *FUNCTION_NODES)
    way = [node_lookup.enclosing_node(file, node, *kinds) or file.tree for node, file in nodes[fit + 1 :]]
    test = node_lookup.enclosing_node(nodes[fit + 1][1], nodes[fit + 1][0], ast.If)
    return [] if isinstance(test, ast.If) and _begins_late(test.test, way[0]) else way


def _begins_late(test: ast.expr, hook: ast.AST) -> bool:
    """``if batch > 100``, unlike ``if batch % 5 == 0``."""
    counter = {*scope_names.parameter_names(hook)[:2]} - {"self"}
    periodic = any(isinstance(n.op, ast.Mod) for n in syntax_tree.nodes_inside(test, ast.BinOp))
    return not periodic and bool(scope_names.read_names(test) & counter)


def _method_spot(source: Source, kind: ast.ClassDef, hook: ast.FunctionDef, what: str) -> Spot:
    rarer = tuple(periodic_work.run_hook_less_often(source, kind.name, hook.name))
    cure = f"do the work of {kind.name}.{hook.name} once an epoch, or every hundredth batch"
    named = hook.lineno, hook.col_offset + len(f"def {hook.name}")
    says = f"{kind.name}.{hook.name} calls {what} after every batch"
    return Spot(edits.node_start(hook), named, says, Prescription("edit", Effect.EXACT, cure, edits=rarer))


def _given_hook_work(source: Source, way: list[ast.AST], what: str) -> Iterator[Spot]:
    """Find the argument of a ``LambdaCallback`` that gives the hook."""
    given = [k for call in call_index.index_of(source).calls_of("LambdaCallback") for k in call.keywords]
    for hook in (k for k in given if k.arg in keras_names.BATCH_HOOKS and _gives_function(source, k.value, way[0])):
        own = next((one.name for one in way if isinstance(one, ast.FunctionDef)), None)
        if own is None:
            says, cure = f"{hook.arg} calls {what} after every batch", "do the work of the callback once an epoch"
            yield _work_spot(hook.value, says, f"{cure}, or every hundredth batch")
        else:
            says = f"{hook.arg} is {own}(), which calls {what}: after every batch"
            yield _work_spot(hook.value, says, f"do the work of {own} once an epoch (on_epoch_end)")


def _gives_function(source: Source, given: ast.expr, function: ast.AST) -> bool:
    held: Value | None = interpreter.value_at(source, given)
    while held is not None and held.node is not function:
        held = held.of
    return given is function or held is not None


def _frequent_savers(source: Source) -> Iterator[Spot]:
    for call in call_index.index_of(source).calls_of(*periodic_work.KERAS_SAVERS):
        kind, freq = node_lookup.called_name(call), setting_origins.call_argument(source, call, "save_freq")
        every = queries.int_at(source, freq)
        if freq is not None and every is not None and 1 <= every <= MAX_FREQUENT_SAVE_BATCHES:
            says = f"{kind} saves the model after every {f'{every} batches' if every > 1 else 'batch'}"
            cure = f"let {kind} save less often (save_freq) or only weights (save_weights_only=True)"
            yield _work_spot(freq, says, cure, periodic_work.make_callbacks_lighter(source, kind))


def _tensorboard_work(source: Source) -> Iterator[Spot]:
    for call in call_index.index_of(source).calls_of("TensorBoard"):
        freq = node_lookup.argument_value(call, "update_freq")
        every = queries.constant_at(source, freq)
        if freq is not None and (every == "batch" or every in range(1, MAX_FREQUENT_SAVE_BATCHES + 1)):
            says = "TensorBoard writes the loss and each metric after every batch"
            rarer = 'TensorBoard(update_freq="epoch"), or a number of some hundred batches'
            yield _work_spot(freq, says, rarer, worth_if="a step takes less than some ms")
        images = node_lookup.argument_value(call, "write_images")
        histograms = node_lookup.argument_value(call, "histogram_freq")
        if queries.constant_at(source, images) is True and queries.int_at(source, histograms) == 1:
            says = "TensorBoard writes every weight as a histogram and as a picture after each epoch"
            lighter = periodic_work.make_callbacks_lighter(source, "TensorBoard")
            cure, worth_if = (
                "TensorBoard(histogram_freq=0, write_images=False)",
                "an epoch takes less than some minutes",
            )
            yield _work_spot(call, says, cure, lighter, worth_if)


def _step_work(source: Source) -> Iterator[Spot]:
    """Find costly calls and long Python loops in each step, or each of a few, by the interpreter's events."""
    if not any(word in source.text for word in _HINT_WORDS):
        return
    rarer = "do it once an epoch, or every hundredth step"
    seen: set[ast.AST | None] = set()
    for event in file_events(source):
        if event.begun is None and not _is_costly(event, WRITING_FUNCTIONS):
            continue
        function = node_lookup.enclosing_function(source, event.node)
        if function in seen:
            continue
        loop = step_loops.per_step_loop(source, event)
        hook = loop is not None and isinstance(loop.node, ast.Call)
        if loop is None or (event.begun is None and (hook or event.name in COSTLY_MODEL_CALLS - SAVE_METHODS)):
            continue  # predictions of a loop may be steps; validations are another rule
        says = f"{event.name.lstrip('.')}() after each batch, or one of a few"
        if event.begun is not None:
            turns = _nested_turns(source, event, loop) if hook else 0
            says = f"Python loops take up to {turns:,} turns after each batch" if turns >= MIN_SLOW_TURNS else ""
        if says:
            seen.add(function)
            yield _work_spot(event.node, says, rarer)


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
    for name in syntax_tree.nodes_inside(over, ast.Name):
        written = name_bindings.single_assignment(source, name)
        asked += [n.args[0] for n in node_lookup.length_queries(written or name) if isinstance(n, ast.Call) and n.args]
    asked += [n.args[0] for n in node_lookup.length_queries(over) if isinstance(n, ast.Call) and n.args]
    queues = (interpreter.value_at(source, one) for one in asked)
    return max((q.known for q in queues if q.name == "bounded" and isinstance(q.known, int)), default=1)


def _is_costly(event: Event, functions: tuple[str, ...], *kinds: str) -> bool:
    """Whether it is one of ``functions``, or a costly method of a model, or of an object of one of ``kinds``."""
    if event.name in COSTLY_MODEL_CALLS and event.on is not None:
        known = event.on.kind in ("keras", "object", *kinds) and event.on.name != "numpy.random.Generator"
        return known or event.name == ".get_weights"
    return event.name.startswith(functions) and event.name not in CHEAP_FUNCTIONS
