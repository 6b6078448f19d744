"""Patches of tf.data: iterators and their waits, the pipeline behind each, Python that feeds it.

The pipeline's own counters (elements, bytes, processing time, parallelism, buffers of each
node, and the consumer's gaps) come from TensorFlow's model of it, read a few times a second
in the recorder's thread. TensorFlow before 2.16 does not give them out.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from _thread import get_ident
from collections.abc import Iterable
from types import FrameType
from typing import Any

from slowtrain.capture import frames, signatures
from slowtrain.capture.fronts import front
from slowtrain.capture.lines import LineClock
from slowtrain.capture.patching import Wrapper, on_import, replace
from slowtrain.capture.recorder import Recorder, now
from slowtrain.capture.state import Flags, ThreadState

MAX_NODES = 200
getframe = sys._getframe
NO_MODEL = ("NotFoundError", "InvalidArgumentError")  # autotuning is off for this one, or the iterator has just gone
SNAPSHOT_NS = 100_000_000  # the same iterator is not asked more often


class DatasetPatches:
    """Installs itself through import hooks; ``snapshot`` reads the counters of all live iterators."""

    def __init__(self, recorder: Recorder, state: ThreadState, lines: LineClock) -> None:
        self.recorder = recorder
        self.state = state
        self.lines = lines
        self._sites: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._iterators: dict[int, tuple[weakref.ref[Any], list[int]]] = {}
        self._numbers = 0
        self._pipelines = itertools.count(1)
        self._described: dict[int, int] = {}
        self._model: Any = None

    def install(self) -> None:
        for module, patch in (
            ("tensorflow.python.data.ops.iterator_ops", self._patch_iterator),
            ("tensorflow.python.data.ops.dataset_ops", self._patch_dataset),
            ("tensorflow.python.ops.script_ops", self._patch_python_ops),
        ):
            on_import(self.recorder, module, patch)
        self.recorder.every(0.25, self.snapshot)

    # -- iterators

    def _patch_iterator(self, module: Any) -> None:
        recorder, state = self.recorder, self.state

        def init(original: Wrapper) -> Wrapper:
            def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
                start = now()
                original(self, *args, **kwargs)
                if not recorder.active or state.me.busy:
                    return
                recorder.guard("iterator", remember, self, start, now(), sys._getframe(1))

            return __init__

        def remember(iterator: Any, start: int, end: int, frame: FrameType) -> None:
            recorder.span(recorder.name("iterator", "iterator made"), start, end)
            dataset = getattr(iterator, "_dataset", None)
            if dataset is None:
                return
            self._numbers += 1
            number = self._numbers
            iterator._slowtrain = number
            self._iterators[number] = (weakref.ref(iterator), [0])
            recorder.event(
                "iterator",
                "made",
                now(),
                number=number,
                pipeline=self._pipeline_number(dataset),
                keras=bool(state.me.loops),
                site=None if state.me.loops else frames.place(frame),
            )

        replace(module.OwnedIterator, "__init__", init)
        quick = front("element", recorder, state.main, after=self._at_end)
        replace(module.OwnedIterator, "__next__", self._advance, quick)

    def _advance(self, original: Wrapper) -> Wrapper:
        patches, recorder, state = self, self.recorder, self.state
        emit, main = recorder.emit, state.main

        def __next__(self: Any) -> Any:
            me = main if get_ident() == main.ident else state.me
            if me.busy:
                return original(self)
            start = now()
            try:
                return original(self)
            except StopIteration:
                patches._at_end(self)
                raise
            finally:
                end = now()
                frame = getframe(1)
                # Compared, not looked up: everything from here on runs in cold caches, after a step.
                if me.at != frame.f_lasti or me.code is not frame.f_code:
                    recorder.guard("next", patches.asked, me, frame)
                me.left -= 1
                if not me.left:
                    me.look(recorder.active)
                try:
                    number = self._slowtrain
                except AttributeError:
                    number = self._slowtrain = 0  # made before recording began
                emit((me.name, start, end, me.ident, number))

        return __next__

    def asked(self, me: Flags, frame: FrameType) -> None:
        """The first time that an element is asked for here, or that Keras asks."""
        me.name = 0
        me.remember(frame, bool(me.loops))
        me.name = self.recorder.name_at(None if me.loops else frame, "next", "next", "next")

    def _at_end(self, iterator: Any) -> None:
        self.recorder.guard("iterator's end", self._ended, iterator)

    def _ended(self, iterator: Any) -> None:
        """The epoch's last counters, before the iterator goes."""
        number = iterator.__dict__.get("_slowtrain")
        known = self._iterators.get(number)
        if known is not None:
            self._read(number, iterator, known[1])

    def snapshot(self) -> None:
        """Reads the counters of every live iterator."""
        for number, (reference, last) in list(self._iterators.items()):
            iterator = reference()
            if iterator is None:
                self._iterators.pop(number, None)
            else:
                self._read(number, iterator, last)

    def epoch_ended(self) -> None:
        """Keras is about to drop its iterator: the newest ones are read on the spot."""
        for number, (reference, last) in list(self._iterators.items())[-3:]:  # another thread may drop one meanwhile
            iterator = reference()
            if iterator is not None and now() - last[0] > SNAPSHOT_NS:
                self._read(number, iterator, last)

    def _read(self, number: int, iterator: Any, last: list[int]) -> None:
        if self._model is None:
            self._model = model_reader() or False
        if not self._model:
            return
        last[0] = now()
        try:
            proto = self._model(iterator)
        except Exception as error:
            if type(error).__name__ not in NO_MODEL:
                self.recorder.fault(f"counters of iterator {number}")
            self._iterators.pop(number, None)
            return
        self.recorder.pipeline(number, proto)

    # -- data sets

    def _patch_dataset(self, module: Any) -> None:
        recorder, state, sites = self.recorder, self.state, self._sites

        def init(original: Wrapper) -> Wrapper:
            def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
                original(self, *args, **kwargs)
                if recorder.active and not state.me.tracing and not state.me.loops:
                    recorder.guard("data set", made, self, sys._getframe(1))

            return __init__

        def made(dataset: Any, frame: FrameType) -> None:
            place = frames.place(frame)
            if place is not None:
                sites[dataset] = place

        def from_generator(original: Wrapper) -> Wrapper:
            def from_generator(generator: Any, *args: Any, **kwargs: Any) -> Any:
                made = original(generator, *args, **kwargs)
                self.recorder.guard("from_generator", self._generator, made, generator)
                return made

            return from_generator

        replace(module.DatasetV2, "__init__", init)
        replace(module.DatasetV2, "from_generator", from_generator)

    def _generator(self, dataset: Any, generator: Any) -> None:
        dataset._slowtrain_python = frames.describe(generator) | {"arrays": host_arrays(generator)}

    def _pipeline_number(self, dataset: Any) -> int:
        number = self._described.get(id(dataset))
        if number is not None:
            return number
        number = self._described[id(dataset)] = next(self._pipelines)
        weakref.finalize(dataset, self._described.pop, id(dataset), None).atexit = False
        nodes: list[dict[str, Any]] = []
        self._node(dataset, nodes, {})
        options = self.recorder.guard("options", _options, dataset)
        if options and nodes:
            nodes[-1]["options"] = options
        self.recorder.event("pipeline", str(number), now(), number=number, nodes=nodes)
        return number

    def _node(self, dataset: Any, nodes: list[dict[str, Any]], seen: dict[int, int]) -> int:
        """Appends the node of ``dataset`` after its inputs; gives its index."""
        if id(dataset) in seen:
            return seen[id(dataset)]
        if len(nodes) >= MAX_NODES:
            return -1
        inputs = [self._node(d, nodes, seen) for d in dataset._inputs()]
        place = self._sites.get(dataset)
        node: dict[str, Any] = {
            "op": type(dataset).__name__.lstrip("_"),
            "inputs": inputs,
            "site": list(place) if place else None,
        }
        python = getattr(dataset, "_slowtrain_python", None)
        if python:
            node["python"] = python
        for name, attribute in _ATTRIBUTES.items():
            value = _plain(getattr(dataset, attribute, None))
            if value is not None:
                node[name] = value
        node["element"] = _spec(dataset.element_spec)
        self._functions_of(dataset, node)
        node["cardinality"] = _cardinality(dataset)
        nodes.append(node)
        seen[id(dataset)] = len(nodes) - 1
        return len(nodes) - 1

    def _functions_of(self, dataset: Any, node: dict[str, Any]) -> None:
        function = getattr(dataset, "_map_func", None) or getattr(dataset, "_predicate", None)
        if function is None:
            return
        python_function = getattr(function, "_func", None)
        if python_function is not None:
            node["function"] = frames.describe(python_function)
        concrete = getattr(function, "function", None)
        graph = getattr(concrete, "graph", None)
        if graph is not None:
            node["ops"] = _op_types(graph)

    # -- Python that runs inside ops

    def _patch_python_ops(self, module: Any) -> None:
        recorder, lines, state = self.recorder, self.lines, self.state

        def make(original: Wrapper) -> Wrapper:
            def __call__(self: Any, token: Any, device: Any, args: Any) -> Any:
                if not recorder.active:
                    return original(self, token, device, args)
                name = recorder.ids.get(("pyfunc", token)) or recorder.guard("pyfunc", named, self, token) or 0
                start = now()
                traced = recorder.guard("lines", lines.begin_call, name, start)
                me = state.me
                me.python += 1
                try:
                    return original(self, token, device, args)
                finally:
                    me.python -= 1
                    if traced:
                        recorder.guard("lines", lines.end_call, name)
                    recorder.span(name, start, now())

            return __call__

        def named(registry: Any, token: Any) -> int:
            function = registry._funcs.get(token)
            function = getattr(function, "_func", function)  # EagerFunc holds the user's
            return recorder.name("pyfunc", str(token), ("pyfunc", token), **frames.describe(function))

        replace(module.FuncRegistry, "__call__", make)


_ATTRIBUTES = {
    "parallel": "_num_parallel_calls",
    "buffer_size": "_buffer_size",
    "batch_size": "_batch_size",
    "deterministic": "_deterministic",
    "count": "_count",
    "cycle_length": "_cycle_length",
    "filename": "_filename",
    "reshuffle": "_reshuffle_each_iteration",
}


def _options(dataset: Any) -> dict[str, Any]:
    """Limits and switches that the user set on the pipeline."""
    options = dataset.options()
    found = {
        "private_threads": options.threading.private_threadpool_size,
        "intra_op": options.threading.max_intra_op_parallelism,
        "autotune": options.autotune.enabled,
    }
    return {key: value for key, value in found.items() if value is not None}


def _plain(value: Any) -> Any:
    """A number or text out of a constant tensor, or None."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    try:
        value = value.numpy()
        return value.decode(errors="replace") if isinstance(value, bytes) else value.item()
    except Exception:
        return None


def _spec(spec: Any) -> list[dict[str, Any]]:
    """Shape and dtype of each component of an element."""
    parts: list[dict[str, Any]] = []
    stack = [spec]
    while stack and len(parts) < 32:
        item = stack.pop(0)
        if isinstance(item, dict):
            stack = list(item.values()) + stack
        elif isinstance(item, (list, tuple)):
            stack = list(item) + stack
        else:
            shape, dtype = getattr(item, "shape", None), getattr(item, "dtype", None)
            if dtype is not None:
                dims = None if shape is None or shape.rank is None else list(shape)
                parts.append({"shape": dims, "dtype": dtype.name, "bytes": dtype.size})
    return parts


def _cardinality(dataset: Any) -> int | None:
    try:
        return int(dataset.cardinality().numpy())
    except Exception:
        return None


def _op_types(graph: Any, limit: int = 3000) -> dict[str, int]:
    """How many ops of each type a graph and the functions it calls hold."""
    counts: dict[str, int] = {}
    definition = graph.as_graph_def()
    nodes = list(definition.node)
    for function in definition.library.function:
        nodes.extend(function.node_def)
    for node in nodes[:limit]:
        counts[node.op] = counts.get(node.op, 0) + 1
    return counts


def model_reader() -> Any:
    """``reader(iterator) -> bytes`` of TensorFlow's ``ModelProto``, or None where this version has none."""
    try:
        ops = sys.modules["tensorflow.python.ops.gen_experimental_dataset_ops"]
        read = ops.iterator_get_model_proto
    except (KeyError, AttributeError):
        return None

    def reader(iterator: Any) -> bytes:
        raw: bytes = read(iterator._iterator_resource).numpy()
        return raw

    return reader


def host_arrays(function: Any) -> dict[str, Any]:
    """Arrays that a generator (or its function) refers to by name, with their length and bytes."""
    code = getattr(function, "gi_code", None) or getattr(function, "__code__", None)
    if code is None:
        return {}
    frame = getattr(function, "gi_frame", None)
    scope: dict[str, Any] = dict(frame.f_globals if frame else getattr(function, "__globals__", {}))
    local = dict(frame.f_locals) if frame else {}
    names = (*code.co_names, *code.co_freevars, *code.co_varnames)
    closure = getattr(function, "__closure__", None) or ()
    local.update({n: c.cell_contents for n, c in zip(code.co_freevars, closure, strict=False) if c})
    return _arrays((name, local.get(name, scope.get(name))) for name in names[:64])


def held_arrays(data: Any) -> dict[str, Any]:
    """Arrays and lists that an object holds as its attributes, with their length and bytes."""
    return _arrays(list(getattr(data, "__dict__", {}).items())[:64])


def _arrays(named: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in named:
        shape = getattr(value, "shape", None)
        if isinstance(shape, tuple) and shape:  # a module may have a function of that name
            found[name] = {"length": int(shape[0]), "bytes": int(getattr(value, "nbytes", 0))}
        elif isinstance(value, (list, tuple)):
            found[name] = {"length": len(value), "bytes": signatures.host_bytes((value[:1],)) * len(value)}
    return found
