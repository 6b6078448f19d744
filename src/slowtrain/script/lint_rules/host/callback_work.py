"""Lint rules about callbacks that do costly work after every batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from slowtrain.model import Edit
from slowtrain.script.fixes.loops import periodic_work
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names, setting_origins
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

BATCH_HOOKS = frozenset({"on_train_batch_end", "on_batch_end", "on_train_batch_begin", "on_batch_begin"})
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


@dataclass(frozen=True)
class FrequentWork:
    start: tuple[int, int]
    end: tuple[int, int]
    says: str
    cure: str
    changed: tuple[Edit, ...]


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
    if BATCH_HOOKS.isdisjoint(source.words):
        return
    for kind in call_index.nodes_of_kind(source, ast.ClassDef):
        assert isinstance(kind, ast.ClassDef)
        if not any(scope_names.dotted_name(base).rpartition(".")[2].endswith("Callback") for base in kind.bases):
            continue
        for hook in kind.body:
            if not isinstance(hook, ast.FunctionDef) or hook.name not in BATCH_HOOKS:
                continue
            what = _costly_call(source, hook)
            if what is not None:
                rarer = tuple(periodic_work.run_hook_less_often(source, kind.name, hook.name))
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
            if given.arg in BATCH_HOOKS and not isinstance(given.value, ast.Lambda):
                yield from _given_hook_work(source, given.arg, given.value)
                continue
            if given.arg not in BATCH_HOOKS or not isinstance(given.value, ast.Lambda):
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
                cure = "do the work of the callback once an epoch, or every hundredth batch"
                yield FrequentWork(edits.node_start(given.value), edits.node_end(given.value), says, cure, ())
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
    for call in call_index.index_of(source).called(*periodic_work.KERAS_SAVERS):
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
                tuple(periodic_work.make_callbacks_lighter(source, kind)),
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
                tuple(periodic_work.make_callbacks_lighter(source, "TensorBoard")),
            )
