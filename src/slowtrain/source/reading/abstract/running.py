"""Functions of the script that libraries run: data sets, ``fit``, callbacks, ``map``, iterators."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

from slowtrain.source.reading.abstract import shapes, things
from slowtrain.source.reading.abstract.events import Stage
from slowtrain.source.reading.abstract.values import EACH, NOTHING, UNKNOWN, Given, Value, number, sequence, sizes

if TYPE_CHECKING:
    from slowtrain.source.reading.abstract.machine import Machine

BATCH_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
EPOCH_HOOKS = ("on_epoch_begin", "on_epoch_end")
MAPPING = ("map", "filter", "interleave", "flat_map")
OF_PYTHON = {"generator": "generator", "object": "sequence"}
KEEPING = frozenset({"map", "shuffle", "cache", "prefetch", "with_options", "enumerate", "batch", "padded_batch"})


def zipped(machine: Machine, several: Sequence[Value], node: ast.AST) -> Value:
    """The tuples of ``zip``."""
    with machine.looping(node, None) as loop:
        parts = [machine.each(one, loop, node) for one in several]
    turns = [n for one in several if (n := things.length(one)) is not None]
    least = [n for one in several if (n := things.least(one)) is not None]
    return Value("rows", min(turns) if turns else NOTHING, of=sequence("tuple", parts), data=min(least, default=None))


def mapped(machine: Machine, given: Given) -> Value:
    """The result of ``map(f, items)``."""
    function, *several = given.args
    turns = things.length(several[0])
    with machine.looping(given.node, turns, several[0]) as loop:
        made = machine.call(function, Given(given.node, [machine.each(one, loop, given.node) for one in several]))
    return Value("rows", NOTHING if turns is None else turns, of=made)


def next_of(machine: Machine, items: Value, node: ast.AST) -> Value:
    """The next item of an iterator, which changes in each turn of the loops around."""
    with machine.looping(node, None) as loop:
        found = machine.each(items, loop, node)
    inside = {k: v.moving(machine.depth()) for k, v in found.items.items()}
    return found.with_(items=inside).moving(machine.depth())


def dataset(machine: Machine, name: str, given: Given) -> Value:
    """A new data set."""
    last = name.rpartition(".")[2]
    first = given.every[0] if given.every else UNKNOWN
    held = Value("tensor")
    if last in ("from_tensor_slices", "from_tensors"):
        held = _tensors(first, cut=last == "from_tensor_slices")
    elif last == "from_generator":
        with machine.producing("generator"), machine.looping(given.node, None) as loop:
            made = machine.call(first, Given(given.node, list(given.get("args").items.values())))
            held = _said(_tensors(machine.each(made, loop, given.node), cut=False), given.get("output_signature"))
    elif last == "zip":
        several = given.args if len(given.args) > 1 else list(first.items.values())
        held = sequence("tuple", [one.of or Value("tensor") for one in several])
    elif not last[:1].isupper() and "Dataset" not in name:
        return Value("library", name=name)
    rows = things.length(first) if last == "range" else _rows(first) if last == "from_tensor_slices" else None
    stages = (Stage(machine.source, last, given, UNKNOWN, held),)
    counts = {"rows": rows, "turns": rows}
    return Value("dataset", of=held, node=given.node, born=machine.born(), stages=stages, data=counts)


def _rows(given: Value) -> int | None:
    """The number of rows that ``from_tensor_slices`` makes; None if unknown."""
    if given.kind in ("tuple", "dict"):
        return next((n for one in given.items.values() if (n := _rows(one))), None)
    return things.length(given)


def _tensors(given: Value, *, cut: bool) -> Value:
    """The same structure with tensors; ``cut``: one row of each."""
    if given.kind == "dict" or (given.kind in ("list", "tuple") and None not in given.items):
        return given.with_(items={k: _tensors(v, cut=cut) for k, v in given.items.items()})
    whole = shapes.of(given)
    return Value("tensor", dtype=given.dtype, ragged=given.ragged, shape=whole[1:] if whole and cut else whole)


def _said(held: Value, spec: Value) -> Value:
    """A generator's elements, completed by its signature; "said" marks what only the signature tells."""
    if spec.kind in ("tuple", "dict") and held.kind == spec.kind and set(held.items) == set(spec.items):
        return held.with_(items={k: _said(v, spec.items[k]) for k, v in held.items.items()})
    if held.kind != "tensor" or spec.kind != "tensor" or held.ragged:
        return held
    if held.shape is not None:
        both = zip(held.shape, spec.shape or (), strict=False)
        alike = spec.shape is not None and len(spec.shape) == len(held.shape)
        return held.with_(shape=tuple(said if n is None else n for n, said in both)) if alike else held
    return held.with_(shape=spec.shape, dtype=held.dtype or spec.dtype, name=held.name if held.dtype else "said")


def _reshaped(held: Value, name: str, batch: int | None) -> Value:
    """An element of the batches, or of what was a batch before ``unbatch``."""
    if held.kind in ("list", "tuple", "dict"):
        return held.with_(items={k: _reshaped(v, name, batch) for k, v in held.items.items()})
    if held.shape is None or (not held.shape and name == "unbatch"):
        return held.with_(shape=None)
    return held.with_(shape=held.shape[1:] if name == "unbatch" else (batch, *held.shape))


def staged(machine: Machine, on: Value, name: str, given: Given) -> Value:
    """A data set with one more operation."""
    held = before = on.of or Value("tensor")
    place = len(machine.events)
    function = given.every[0] if given.every else UNKNOWN
    if name in MAPPING:
        apart = held.kind == "tuple" and None not in held.items
        with machine.tracing():
            made = machine.call(function, Given(given.node, list(held.items.values()) if apart else [held]))
        if name == "map":
            held = made if made.kind != "unknown" else Value("tensor")
        elif name != "filter":
            held = made.of or Value("tensor")
    elif name == "padded_batch" and "padded_shapes" not in given.keywords and len(given.args) < 2:
        held = _uneven(held)
    elif name == "apply":
        return machine.call(function, Given(given.node, [on]))
    elif name == "as_numpy_iterator":
        return Value("rows", of=Value("array"))
    elif name in ("cardinality", "save", "reduce", "get_single_element"):
        return Value("tensor")
    if name in ("batch", "padded_batch", "unbatch"):
        size = given.get("batch_size", 0).known if given.get("drop_remainder", 1).known is True else None
        held = _reshaped(held, name, size if isinstance(size, int) else None)
    stages = (*on.stages, Stage(machine.source, name, given, before, held, tuple(machine.events[place:])))
    return on.with_(of=held, node=given.node, stages=stages, data=_counted(on, name, given))


def _counted(on: Value, name: str, given: Given) -> dict[str, int | None]:
    """The number of elements after an operation, and the batch size."""
    data: dict[str, int | None] = dict(on.data) if isinstance(on.data, dict) else {}
    turns, first = data.get("turns"), given.every[0].known if given.every else NOTHING
    count = first if isinstance(first, int) and first > 0 and not isinstance(first, bool) else None
    if name in ("batch", "padded_batch"):
        data["batch"] = count if "batch" not in data else None
        turns = ceil(turns / count) if turns and count else None
    elif name == "take":
        turns = min(count, turns) if turns and count else count
    elif name == "repeat":
        turns, data["repeated"] = turns * count if turns and count else None, count
    elif name not in KEEPING:
        return {}
    return {**data, "turns": turns}


def _uneven(held: Value) -> Value:
    """Batches padded to their longest rows, of a new shape each."""
    if held.kind in ("list", "tuple", "dict"):
        return held.with_(items={k: _uneven(v) for k, v in held.items.items()})
    return held.with_(ragged=held.ragged | {EACH})


def python_function(machine: Machine, given: Given) -> Value:
    """The result of a Python function in a graph, which runs for each batch or element."""
    parts = [one.with_(kind="array", known=NOTHING) for one in given.get("inp", 1).items.values()]
    with machine.producing("py_function"), machine.looping(given.node, None) as loop:
        machine.call(given.get("func", 0), Given(given.node, [p.moving((loop.number,)) for p in parts]))
    return Value("tuple", items={None: Value("tensor")})


def of_model(machine: Machine, on: Value, name: str, given: Given) -> Value:
    """The result of a method of a model, layer or optimizer of Keras, or of a subclass."""
    loops = frozenset(machine.depth())
    if name == "compile":
        on.items["run_eagerly"] = given.get("run_eagerly")
        on.items["loss"] = given.get("loss", 1)
    if name in ("fit", "evaluate", "predict", "fit_generator"):
        _fed(machine, on, name, given)
    if name == "fit":
        return Value(name="History", of=on)
    if name in ("predict", "predict_on_batch"):
        return Value("array", varies=given.varies | loops, dtype="float32", node=given.node)
    if name in ("train_on_batch", "test_on_batch", "evaluate"):
        return number("float", loops)
    if name.startswith("flow"):  # of ImageDataGenerator
        return Value("rows", node=given.node, of=Value("tuple", items={None: Value("array", dtype="float32")}))
    if name == "add_weight":
        shape = given.get("shape", 0)
        named = given.get("dtype").known
        return Value("variable", dtype=named if isinstance(named, str) else "float32", born=machine.born(),
                     node=given.node, shape=sizes(shape))  # fmt: skip
    if name == "get_weights":
        return Value("list", items={None: Value("array", varies=loops, dtype="float32")})
    if name == "result":
        return Value("tensor", varies=loops, dtype="float32", name="result")
    return Value("tensor", varies=given.varies | loops) if name == "gradient" else UNKNOWN


def _fed(machine: Machine, on: Value, name: str, given: Given) -> None:
    """Runs the script's code that ``fit`` runs: generators and sequences, steps, callbacks."""
    node, source, epochs = given.node, given.get("x", 0), given.get("epochs")
    whole = epochs.known if isinstance(epochs.known, int) else None
    with machine.looping(node, whole if epochs is not UNKNOWN else 1) as epoch:
        with machine.looping(node, None) as step:
            if source.kind in OF_PYTHON:
                with machine.producing(OF_PYTHON[source.kind]):
                    machine.each(source, step, node)
            own = things.attribute_of(on, "train_step" if name == "fit" else "test_step")
            if own is not None and on.kind == "object" and name != "predict":
                _step(machine, on, own, Given(node, [_stepped(given)]))
            elif on.kind == "object":
                _called(machine, on, _batch(source), node)
        loss = on.items.get("loss", UNKNOWN)
        called = things.attribute_of(loss, "call") if loss.kind == "object" else loss
        if name == "fit" and called is not None and called.kind in ("function", "method"):
            with machine.tracing():
                machine.call(called, Given(node, [Value("tensor"), Value("tensor")]))
        for one in given.get("callbacks").items.values() if name == "fit" else ():
            _hooks(machine, on, one, epoch.number, node)


def _batch(data: Value) -> Value:
    """A model's input as its class sees it."""
    if data.kind == "dataset":
        held = data.of or UNKNOWN
        apart = held.kind == "tuple" and held.items and None not in held.items
        return _symbolic(next(iter(held.items.values())) if apart else held)
    whole = shapes.of(data) if data.kind in ("array", "tensor") else None
    return Value("tensor", name="symbolic", shape=(None, *whole[1:]) if whole else None)


def _symbolic(held: Value) -> Value:
    if held.kind in ("tuple", "list", "dict") and None not in held.items:
        return held.with_(items={k: _symbolic(v) for k, v in held.items.items()})
    shape = held.shape if held.kind == "tensor" else None
    return Value("tensor", name="symbolic", shape=shape, dtype=held.dtype if held.kind == "tensor" else "")


def _called(machine: Machine, on: Value, batch: Value, node: ast.AST) -> None:
    """Runs a model's ``call`` as Keras's own step does."""
    whole = things.attribute_of(on, "call")
    if whole is not None:
        with machine.tracing():
            machine.call(on, Given(node, [batch]))


def _stepped(given: Given) -> Value:
    """The argument of ``train_step``: an element of the data set, or a batch of each array."""
    data = given.get("x", 0)
    if data.kind == "dataset" and data.of is not None and data.of.kind in ("tuple", "list", "dict", "tensor"):
        return _tensors(data.of, cut=False)
    labels = given.get("y", 1)
    if data.kind in ("array", "tensor") and labels.kind in ("array", "tensor"):
        rows = [_reshaped(_tensors(one, cut=True), "batch", None) for one in (data, labels)]
        return Value("tuple", items=dict(enumerate(rows)))
    return Value("tuple", items={None: Value("tensor")})


def _step(machine: Machine, on: Value, own: Value, batch: Given) -> None:
    if on.items.get("run_eagerly", UNKNOWN).known is True:
        machine.call(own, batch)
        return
    with machine.tracing():
        machine.call(own, batch)


def _hooks(machine: Machine, on: Value, callback: Value, epoch: int, node: ast.AST) -> None:
    if callback.kind != "object":
        return
    callback.items.setdefault("model", on)
    logs = Value("dict", items={None: number("float")})
    for name in EPOCH_HOOKS:
        hook = things.attribute_of(callback, name)
        if hook is not None:
            machine.call(hook, Given(node, [number("int", frozenset({epoch})), logs]))
    with machine.looping(node, None) as step:
        for name in BATCH_HOOKS:
            hook = things.attribute_of(callback, name)
            if hook is not None:
                machine.call(hook, Given(node, [number("int", frozenset({step.number})), logs]))
