"""Functions of the script that libraries run: data sets, ``fit``, callbacks, ``map``, iterators."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from math import ceil

from slowtrain.script.interpreter.domain import operators, shape_rules
from slowtrain.script.interpreter.domain.abstract_values import (
    EACH_ITEM,
    NOT_KNOWN,
    UNKNOWN,
    CallArgs,
    Value,
    number_value,
    sequence_value,
    shape_argument,
)
from slowtrain.script.interpreter.domain.call_events import Loop, Stage
from slowtrain.script.interpreter.domain.run_context import RunContext

BATCH_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
LAMBDA_CALLBACK = "keras.callbacks.LambdaCallback"
EPOCH_HOOKS = ("on_epoch_begin", "on_epoch_end")
MAPPING_OPERATIONS = ("map", "filter", "interleave", "flat_map")
PYTHON_PRODUCERS = {"generator": "generator", "object": "sequence"}
SAME_COUNT_OPERATIONS = frozenset(
    {"map", "shuffle", "cache", "prefetch", "with_options", "enumerate", "batch", "padded_batch"}
)


def zip_value(machine: RunContext, several: Sequence[Value], node: ast.AST) -> Value:
    """The tuples of ``zip``."""
    with machine.enter_loop(node, None) as loop:
        parts = [machine.each(one, loop, node) for one in several]
    turns = [n for one in several if (n := operators.known_length(one)) is not None]
    least = [n for one in several if (n := operators.minimum_length(one)) is not None]
    return Value(
        "rows", min(turns) if turns else NOT_KNOWN, of=sequence_value("tuple", parts), data=min(least, default=None)
    )


def map_value(machine: RunContext, call: CallArgs) -> Value:
    """The result of ``map(f, items)``."""
    function, *several = call.args
    turns = operators.known_length(several[0])
    with machine.enter_loop(call.node, turns, several[0]) as loop:
        result = machine.call(function, CallArgs(call.node, [machine.each(one, loop, call.node) for one in several]))
    return Value("rows", NOT_KNOWN if turns is None else turns, of=result)


def next_item(machine: RunContext, items: Value, node: ast.AST) -> Value:
    """The next item of an iterator, which changes in each iteration of the loops around."""
    with machine.enter_loop(node, None) as loop:
        found = machine.each(items, loop, node)
    inside = {k: v.varying_in(machine.depth()) for k, v in found.items.items()}
    return found.with_fields(items=inside).varying_in(machine.depth())


def dataset_value(machine: RunContext, name: str, call: CallArgs) -> Value:
    """A new data set."""
    last = name.rpartition(".")[2]
    first = call.every[0] if call.every else UNKNOWN
    element = Value("tensor")
    if last == "range":
        element = Value("tensor", dtype="int64", shape=())
    elif last in ("from_tensor_slices", "from_tensors"):
        element = _as_tensors(first, cut=last == "from_tensor_slices")
    elif last == "from_generator":
        with machine.in_producer("generator"), machine.enter_loop(call.node, None) as loop:
            generator = machine.call(first, CallArgs(call.node, list(call.get("args").items.values())))
            element = _with_signature(
                _as_tensors(machine.each(generator, loop, call.node), cut=False), call.get("output_signature")
            )
    elif last == "zip":
        several = call.args if len(call.args) > 1 else list(first.items.values())
        element = sequence_value("tuple", [one.of or Value("tensor") for one in several])
    elif not last[:1].isupper() and "Dataset" not in name:
        return Value("library", name=name)
    rows = (
        operators.known_length(first)
        if last == "range"
        else _row_count(first)
        if last == "from_tensor_slices"
        else None
    )
    stages = (Stage(machine.source, last, call, UNKNOWN, element),)
    counts = {"rows": rows, "turns": rows}
    return Value("dataset", of=element, node=call.node, born=machine.born(), stages=stages, data=counts)


def catalog_value(machine: RunContext, call: CallArgs) -> Value:
    """The result of ``tfds.load``: a data set for each split that is asked for, by name if none is asked for."""
    supervised = call.get("as_supervised").known is True
    element = (
        sequence_value("tuple", [Value("tensor"), Value("tensor")])
        if supervised
        else Value("dict", items={None: Value("tensor")})
    )
    stages = (Stage(machine.source, "load", call, UNKNOWN, element),)
    one = Value("dataset", of=element, node=call.node, born=machine.born(), stages=stages, data={})
    split = call.get("split", 1)
    if split.kind in ("list", "tuple"):
        found = sequence_value("list", [one] * len(split.items))
    elif split.kind == "text":
        found = one
    else:
        found = Value("dict", items={None: one}) if split is UNKNOWN else UNKNOWN
    return sequence_value("tuple", [found, UNKNOWN]) if call.get("with_info").known is True else found


def _row_count(value: Value) -> int | None:
    """The number of rows that ``from_tensor_slices`` makes; None if unknown."""
    if value.kind in ("tuple", "dict"):
        return next((n for one in value.items.values() if (n := _row_count(one))), None)
    return operators.known_length(value)


def _as_tensors(value: Value, *, cut: bool) -> Value:
    """The same structure with tensors; ``cut``: one row of each."""
    structure = value.kind == "tuple" or (value.kind == "list" and not cut)  # TensorFlow makes a tensor of a list
    if value.kind == "dict" or (structure and None not in value.items):
        return value.with_fields(items={k: _as_tensors(v, cut=cut) for k, v in value.items.items()})
    whole = shape_rules.shape_of(value)
    return Value("tensor", dtype=value.dtype, ragged=value.ragged, shape=whole[1:] if whole and cut else whole)


def _with_signature(value: Value, spec: Value) -> Value:
    """A generator's elements, completed by its signature; "said" marks values that only the signature states."""
    if spec.kind in ("tuple", "dict") and value.kind == spec.kind and set(value.items) == set(spec.items):
        return value.with_fields(items={k: _with_signature(v, spec.items[k]) for k, v in value.items.items()})
    if value.kind != "tensor" or spec.kind != "tensor" or value.ragged:
        return value
    if value.shape is not None:
        both = zip(value.shape, spec.shape or (), strict=False)
        alike = spec.shape is not None and len(spec.shape) == len(value.shape)
        return value.with_fields(shape=tuple(size if n is None else n for n, size in both)) if alike else value
    return value.with_fields(
        shape=spec.shape, dtype=value.dtype or spec.dtype, name=value.name if value.dtype else "said"
    )


def _rebatched_element(value: Value, name: str, batch: int | None) -> Value:
    """An element of the batches; after ``unbatch``, an element of a batch."""
    if value.kind in ("list", "tuple", "dict"):
        return value.with_fields(items={k: _rebatched_element(v, name, batch) for k, v in value.items.items()})
    if value.shape is None or (not value.shape and name == "unbatch"):
        return value.with_fields(shape=None)
    return value.with_fields(shape=value.shape[1:] if name == "unbatch" else (batch, *value.shape))


def dataset_operation(machine: RunContext, on: Value, name: str, call: CallArgs) -> Value:
    """A data set with one more operation."""
    element = before = on.of or Value("tensor")
    place = len(machine.events)
    function = call.every[0] if call.every else UNKNOWN
    if name in MAPPING_OPERATIONS:
        is_tuple = element.kind == "tuple" and None not in element.items
        with machine.tracing():
            result = machine.call(
                function, CallArgs(call.node, list(element.items.values()) if is_tuple else [element])
            )
        if name == "map":
            element = result if result.kind != "unknown" else Value("tensor")
        elif name != "filter":
            element = result.of or Value("tensor")
    elif name == "padded_batch" and "padded_shapes" not in call.keywords and len(call.args) < 2:
        element = _padded_to_longest(element)
    elif name == "apply":
        return machine.call(function, CallArgs(call.node, [on]))
    elif name == "as_numpy_iterator":
        return Value("rows", of=Value("array"))
    elif name in ("cardinality", "save", "reduce", "get_single_element"):
        return Value("tensor")
    if name in ("batch", "padded_batch", "unbatch"):
        size = call.get("batch_size", 0).known if call.get("drop_remainder", 1).known is True else None
        element = _rebatched_element(element, name, size if isinstance(size, int) else None)
    stages = (*on.stages, Stage(machine.source, name, call, before, element, tuple(machine.events[place:])))
    return on.with_fields(of=element, node=call.node, stages=stages, data=_element_counts(on, name, call))


def _element_counts(on: Value, name: str, call: CallArgs) -> dict[str, int | None]:
    """The number of elements after an operation, and the batch size."""
    data: dict[str, int | None] = dict(on.data) if isinstance(on.data, dict) else {}
    turns, first = data.get("turns"), call.every[0].known if call.every else NOT_KNOWN
    count = first if isinstance(first, int) and first > 0 and not isinstance(first, bool) else None
    if name in ("batch", "padded_batch"):
        data["batch"] = count if "batch" not in data else None
        turns = ceil(turns / count) if turns and count else None
    elif name == "take":
        turns = min(count, turns) if turns and count else count
    elif name == "repeat":
        turns, data["repeated"] = turns * count if turns and count else None, count
    elif name not in SAME_COUNT_OPERATIONS:
        return {}
    return {**data, "turns": turns}


def _padded_to_longest(value: Value) -> Value:
    """Batches padded to their longest rows, of a new shape each."""
    if value.kind in ("list", "tuple", "dict"):
        return value.with_fields(items={k: _padded_to_longest(v) for k, v in value.items.items()})
    return value.with_fields(ragged=value.ragged | {EACH_ITEM})


def py_function_value(machine: RunContext, call: CallArgs) -> Value:
    """The result of a Python function in a graph, which runs for each batch or element."""
    parts = [one.with_fields(kind="array", known=NOT_KNOWN) for one in call.get("inp", 1).items.values()]
    with machine.in_producer("py_function"), machine.enter_loop(call.node, None) as loop:
        machine.call(call.get("func", 0), CallArgs(call.node, [p.varying_in((loop.number,)) for p in parts]))
    return Value("tuple", items={None: Value("tensor")})


def model_method_value(machine: RunContext, on: Value, name: str, call: CallArgs) -> Value:
    """The result of a method of a model, layer or optimizer of Keras, or of a subclass."""
    loops = frozenset(machine.depth())
    if name == "compile":
        on.items["run_eagerly"] = call.get("run_eagerly")
        on.items["loss"] = call.get("loss", 1)
    if name in ("fit", "evaluate", "predict", "fit_generator"):
        _run_fit(machine, on, name, call)
    if name == "fit":
        return Value(name="History", of=on)
    if name in ("predict", "predict_on_batch"):
        return Value("array", varies=call.varies | loops, dtype="float32", node=call.node)
    if name in ("train_on_batch", "test_on_batch", "evaluate"):
        return number_value("float", loops)
    if name.startswith("flow"):  # of ImageDataGenerator
        return Value("rows", node=call.node, of=Value("tuple", items={None: Value("array", dtype="float32")}))
    if name == "add_weight":
        shape = call.get("shape", 0)
        named = call.get("dtype").known
        return Value("variable", dtype=named if isinstance(named, str) else "float32", born=machine.born(),
                     node=call.node, shape=shape_argument(shape))  # fmt: skip
    if name == "get_weights":
        return Value("list", items={None: Value("array", varies=loops, dtype="float32")})
    if name == "result":
        return Value("tensor", varies=loops, dtype="float32", name="result")
    return Value("tensor", varies=call.varies | loops) if name == "gradient" else UNKNOWN


def _run_fit(machine: RunContext, on: Value, name: str, call: CallArgs) -> None:
    """Runs the script's code that ``fit`` runs: generators and sequences, steps, callbacks."""
    node, source, epochs = call.node, call.get("x", 0), call.get("epochs")
    whole = epochs.known if isinstance(epochs.known, int) else None
    with machine.enter_loop(node, whole if epochs is not UNKNOWN else 1) as epoch:
        with machine.enter_loop(node, None) as step:
            _run_python_input(machine, source, step, node)
            own = operators.find_attribute(on, "train_step" if name == "fit" else "test_step")
            if own is not None and on.kind == "object" and name != "predict":
                _run_step(machine, on, own, CallArgs(node, [_train_step_data(call)]))
            elif on.kind == "object":
                _run_model_call(machine, on, _model_input(source), node)
        loss = on.items.get("loss", UNKNOWN)
        called = operators.find_attribute(loss, "call") if loss.kind == "object" else loss
        if name == "fit" and called is not None and called.kind in ("function", "method"):
            with machine.tracing():
                machine.call(called, CallArgs(node, [Value("tensor"), Value("tensor")]))
        for one in call.get("callbacks").items.values() if name == "fit" else ():
            _run_callback(machine, on, one, epoch.number, node)


def _run_python_input(machine: RunContext, data: Value, step: Loop, node: ast.AST) -> None:
    """Runs the script's code that makes a batch."""
    if data.kind in PYTHON_PRODUCERS:
        with machine.in_producer(PYTHON_PRODUCERS[data.kind]):
            machine.each(data, step, node)


def _model_input(data: Value) -> Value:
    """A model's input as its class sees it."""
    if data.kind == "dataset":
        element = data.of or UNKNOWN
        is_tuple = element.kind == "tuple" and element.items and None not in element.items
        return _symbolic_tensors(next(iter(element.items.values())) if is_tuple else element)
    whole = shape_rules.shape_of(data) if data.kind in ("array", "tensor") else None
    return Value("tensor", name="symbolic", shape=(None, *whole[1:]) if whole else None)


def _symbolic_tensors(value: Value) -> Value:
    if value.kind in ("tuple", "list", "dict") and None not in value.items:
        return value.with_fields(items={k: _symbolic_tensors(v) for k, v in value.items.items()})
    shape = value.shape if value.kind == "tensor" else None
    return Value("tensor", name="symbolic", shape=shape, dtype=value.dtype if value.kind == "tensor" else "")


def _run_model_call(machine: RunContext, on: Value, batch: Value, node: ast.AST) -> None:
    """Runs a model's ``call`` as Keras's own step does."""
    whole = operators.find_attribute(on, "call")
    if whole is not None:
        with machine.tracing():
            machine.call(on, CallArgs(node, [batch]))


def _train_step_data(call: CallArgs) -> Value:
    """The argument of ``train_step``: an element of the data set, or a batch of each array."""
    data = call.get("x", 0)
    if data.kind == "dataset" and data.of is not None and data.of.kind in ("tuple", "list", "dict", "tensor"):
        return _as_tensors(data.of, cut=False)
    labels = call.get("y", 1)
    if data.kind in ("array", "tensor") and labels.kind in ("array", "tensor"):
        rows = [_rebatched_element(_as_tensors(one, cut=True), "batch", None) for one in (data, labels)]
        return Value("tuple", items=dict(enumerate(rows)))
    return Value("tuple", items={None: Value("tensor")})


def _run_step(machine: RunContext, on: Value, own: Value, batch: CallArgs) -> None:
    if on.items.get("run_eagerly", UNKNOWN).known is True:
        machine.call(own, batch)
        return
    with machine.tracing():
        machine.call(own, batch)


def _run_callback(machine: RunContext, on: Value, callback: Value, epoch: int, node: ast.AST) -> None:
    hooks = callback.items if callback.name == LAMBDA_CALLBACK else None
    if callback.kind != "object" and hooks is None:
        return
    logs = Value("dict", items={None: number_value("float")})
    if hooks is None:
        callback.items.setdefault("model", on)
    for name in EPOCH_HOOKS if hooks is None else ():
        hook = operators.find_attribute(callback, name)
        if hook is not None:
            machine.call(hook, CallArgs(node, [number_value("int", frozenset({epoch})), logs]))
    with machine.enter_loop(node, None) as step:
        for name in BATCH_HOOKS:
            hook = operators.find_attribute(callback, name) if hooks is None else hooks.get(name)
            if hook is not None:
                machine.call(hook, CallArgs(node, [number_value("int", frozenset({step.number})), logs]))


def run_unknown_fit(machine: RunContext, callback: Value, node: ast.Call) -> None:
    """What a callback does in a ``fit`` of which nothing is known."""
    with machine.enter_loop(node, None) as epoch:
        _run_callback(machine, Value("keras", name="keras.Model"), callback, epoch.number, node)


def run_unknown_input(machine: RunContext, data: Value, node: ast.Call) -> None:
    """What a generator or sequence does in a ``fit`` of which nothing is known."""
    with machine.enter_loop(node, None), machine.enter_loop(node, None) as step:
        _run_python_input(machine, data, step, node)
