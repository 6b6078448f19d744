"""Edits of calls of Keras models: compile, fit, predict and their arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from slowtrain.model import Edit
from slowtrain.script.fixes.loops import periodic_work
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_index, node_lookup, scope_names, setting_origins
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

STEPS_PER_CALL = 50
MONITOR_CALLBACKS = frozenset("EarlyStopping ReduceLROnPlateau ModelCheckpoint".split())
PLAIN_PREDICT_ARGUMENTS = frozenset({"x", "verbose", "batch_size"})
DATASET_NAME = re.compile(r"\bds\b|_ds\b|dataset|gen(erator)?\b|loader|sequence", re.IGNORECASE)
PLAIN_FIT_ARGUMENTS = frozenset({"x", "y", "verbose", "batch_size", "epochs", "shuffle"})
DATASET_METHODS = frozenset("batch prefetch shuffle repeat cache take skip padded_batch from_tensor_slices".split())


def run_several_steps_per_call(source: Source, line: int) -> list[Edit]:
    """Set ``steps_per_execution`` in ``compile()`` at ``line``, if no callback observes single batches."""
    call = node_lookup.single_call(source, line, "compile")
    if call is None or periodic_work.observes_batches(source) or any(k.arg is None for k in call.keywords):
        return []
    eager = node_lookup.argument_value(call, "run_eagerly")
    if eager is not None and not (isinstance(eager, ast.Constant) and not eager.value):
        return []
    argument = node_lookup.argument_value(call, "steps_per_execution")
    if argument is not None and not (isinstance(argument, ast.Constant) and argument.value in (1, None)):
        return []
    if _counts_steps(source):
        return []  # fit takes whole calls, and thus too many steps unless the number is a multiple
    return [edits.set_keyword(source, call, "steps_per_execution", str(STEPS_PER_CALL))]


def _counts_steps(source: Source) -> bool:
    """Whether a call of ``fit`` sets its number of steps per epoch."""
    for call in call_index.index_of(source).calls_of("fit"):
        steps = node_lookup.argument_value(call, "steps_per_epoch")
        none = steps is None or (isinstance(steps, ast.Constant) and steps.value is None)
        if not none or (any(k.arg is None for k in call.keywords) and "steps_per_epoch" in source.text):
            return True
    return False


def disable_xla(source: Source, line: int) -> list[Edit]:
    """Set ``jit_compile=False`` in ``compile()`` at ``line``, or in a ``tf.function`` that asks for XLA."""
    call = node_lookup.single_call(source, line, "compile", "function")
    if call is None or any(k.arg is None for k in call.keywords) or len(call.args) > node_lookup.JIT_COMPILE_POSITION:
        return []
    argument = node_lookup.argument_value(call, "jit_compile")
    if isinstance(argument, ast.Constant) and (argument.value is True or argument.value == "auto"):
        return [edits.replace_node(source, argument, "False")]
    method = isinstance(call.func, ast.Attribute) and node_lookup.called_name(call) == "compile"
    return [edits.set_keyword(source, call, "jit_compile", "False")] if argument is None and method else []


def unrolled_calls(source: Source) -> Iterator[tuple[ast.Call, ast.Constant]]:
    """Yield calls with ``unroll=True`` and the constant, at the call or where the name is assigned."""
    for call in call_index.nodes_of_kind(source, ast.Call) if "unroll" in source.text else ():
        assert isinstance(call, ast.Call)
        argument = node_lookup.argument_value(call, "unroll")
        found = setting_origins.written_value(source, argument) if argument is not None else None
        if isinstance(found, ast.Constant) and found.value is True:
            yield call, found


def disable_unroll(source: Source, line: int) -> list[Edit]:
    """Remove ``unroll=True`` at ``line`` from a layer, or set it to False if several layers share the value."""
    for call, true in unrolled_calls(source):
        if true.lineno == line:
            plain = true is node_lookup.argument_value(call, "unroll")
            return (
                edits.remove_keyword(source, call, "unroll") if plain else [edits.replace_node(source, true, "False")]
            )
    return []


# -- validation


def validate_less_often(source: Source, line: int, rarer: int) -> list[Edit]:
    """Let ``fit`` at ``line`` validate every ``rarer`` epochs, including the last one."""
    call = node_lookup.single_call(source, line, "fit")
    if call is None or rarer < 2 or any(k.arg is None for k in call.keywords) or _may_use_validation(source, call):
        return []
    if (
        node_lookup.argument_value(call, "validation_data") is None
        and node_lookup.argument_value(call, "validation_split") is None
    ):
        return []
    argument = node_lookup.argument_value(call, "validation_freq")
    if argument is not None and not (isinstance(argument, ast.Constant) and argument.value == 1):
        return []
    epochs = queries.int_at(source, node_lookup.argument_value(call, "epochs"))
    begins = node_lookup.argument_value(call, "initial_epoch")
    if epochs is None or begins is not None or _uses_validation_series(source):
        return []
    divisors = [n for n in range(2, epochs + 1) if epochs % n == 0]
    best = min(divisors, key=lambda n: (abs(n - rarer), n), default=None)
    return [edits.set_keyword(source, call, "validation_freq", str(best))] if best else []


def _may_use_validation(source: Source, call: ast.Call) -> bool:
    """Whether a callback may use validation results."""
    callbacks = node_lookup.argument_value(call, "callbacks")
    if callbacks is None:
        return False
    names = {n.id for n in call_index.nodes_of_class(source, ast.Name)}
    names |= {n.attr for n in call_index.nodes_of_class(source, ast.Attribute)}
    own = any(
        isinstance(n, ast.ClassDef) and "Callback" in "".join(map(scope_names.dotted_name, n.bases))
        for n in source.tree.body
    )
    return bool(MONITOR_CALLBACKS & names) or own


def _uses_validation_series(source: Source) -> bool:
    """Whether validation results are used as a series with one value per epoch."""
    above = node_lookup.parents_of(source)
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("val_"):
            item = above.get(node)
            user = above.get(item) if item is not None else None
            one = isinstance(user, ast.Subscript) and user.value is item
            best = isinstance(user, ast.Call) and node_lookup.called_name(user) in ("min", "max", "argmin", "argmax")
            if not (isinstance(item, ast.Subscript) and (one or best)):
                return True
    return False


# -- calls for little work


def use_predict_on_batch(source: Source, line: int) -> list[Edit]:
    """Replace ``model.predict(x)`` at ``line`` by ``predict_on_batch``, which needs no iterator."""
    call = node_lookup.single_call(source, line, "predict")
    data = node_lookup.argument_value(call, "x", 0) if call is not None and is_plain_predict(call) else None
    if call is None or data is None or queries.is_dataset(source, data) or _is_named_like_dataset(data):
        return []
    return _call_other_method(source, call, "predict_on_batch", ("verbose", "batch_size"))


def is_plain_predict(call: ast.Call) -> bool:
    """Whether ``predict`` gets one input and no argument that changes its behaviour."""
    names = {k.arg for k in call.keywords}
    plain = isinstance(call.func, ast.Attribute) and names <= PLAIN_PREDICT_ARGUMENTS
    return plain and len(call.args) + ("x" in names) == 1


def _is_named_like_dataset(expression: ast.expr) -> bool:
    """Whether the name looks like a data set or generator."""
    is_dataset_call = isinstance(expression, ast.Call) and node_lookup.called_name(expression) in DATASET_METHODS
    return is_dataset_call or bool(DATASET_NAME.search(ast.unparse(expression)))


def use_train_on_batch(source: Source, line: int) -> list[Edit]:
    """Replace ``model.fit(x, y, epochs=1)`` at ``line``, which takes one step, by ``train_on_batch``."""
    call = node_lookup.single_call(source, line, "fit")
    statement = node_lookup.enclosing_statement(source, call) if call is not None else None
    if call is None or not isinstance(statement, ast.Expr) or statement.value is not call:
        return []
    if not is_single_epoch_fit(source, call):
        return []
    return _call_other_method(source, call, "train_on_batch", ("verbose", "batch_size", "epochs", "shuffle"))


def is_single_epoch_fit(source: Source, call: ast.Call) -> bool:
    """Whether ``fit`` runs one epoch over an input and a target, without further arguments."""
    names, epochs = {k.arg for k in call.keywords}, node_lookup.argument_value(call, "epochs")
    once = epochs is None or queries.int_at(source, epochs) == 1
    if not isinstance(call.func, ast.Attribute) or len(call.args) > 2 or not once or not names <= PLAIN_FIT_ARGUMENTS:
        return False
    return len(call.args) + len(names & {"x", "y"}) == 2


def _call_other_method(source: Source, call: ast.Call, name: str, dropped: tuple[str, ...]) -> list[Edit]:
    """Replace the method of ``call`` and drop the arguments that the new method lacks."""
    assert isinstance(call.func, ast.Attribute)
    arguments = [edits.node_text(source, a) for a in call.args]
    arguments += [f"{k.arg}={edits.node_text(source, k.value)}" for k in call.keywords if k.arg not in dropped]
    owner = edits.node_text(source, call.func.value)
    return [edits.replace_node(source, call, f"{owner}.{name}({', '.join(arguments)})")]
