"""Patches of tf.data: iterators and their waits, the pipeline behind each, and Python that feeds it.

The pipeline's own counters (elements, bytes, processing time, parallelism, buffers of each node, and the consumer's
gaps) come from TensorFlow's model of it. The recorder's thread reads them a few times a second. TensorFlow before 2.16
does not provide them.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from _thread import get_ident
from types import FrameType
from typing import Any

from slowtrain.capture.core.fast_path import fast_path_maker
from slowtrain.capture.core.line_tracer import LineClock
from slowtrain.capture.core.patching import Wrapper, patch_on_import, replace_function
from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import Flags, ThreadState
from slowtrain.capture.inspection import user_code
from slowtrain.capture.tensorflow import dataset_recipe

getframe = sys._getframe
NO_MODEL_ERRORS = (
    "NotFoundError",
    "InvalidArgumentError",
)  # autotuning is off for this iterator, or it has just been deleted
MAX_ALIKE_DATASETS = 100  # described data sets that one line iterates; if each step makes one, the others are the same
MIN_SNAPSHOT_PERIOD_NS = 100_000_000  # minimum time between two reads of one iterator


class DatasetPatches:
    """Installs itself through import hooks. ``snapshot`` reads the counters of all live iterators."""

    def __init__(self, recorder: Recorder, state: ThreadState, lines: LineClock) -> None:
        self.recorder = recorder
        self.state = state
        self.lines = lines
        self._sites: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._iterators: dict[int, tuple[weakref.ref[Any], list[int]]] = {}
        self._numbers = 0
        self._pipelines = itertools.count(1)
        self._described: dict[int, int] = {}
        self._alike: dict[tuple[str, int] | None, int] = {}  # number of data sets by the line that iterates them
        self._model: Any = None

    def install(self) -> None:
        for module, patch in (
            ("tensorflow.python.data.ops.iterator_ops", self._patch_iterator),
            ("tensorflow.python.data.ops.dataset_ops", self._patch_dataset),
            ("tensorflow.python.ops.script_ops", self._patch_python_ops),
        ):
            patch_on_import(self.recorder, module, patch)
        self.recorder.every(0.25, self.snapshot)

    # -- iterators

    def _patch_iterator(self, module: Any) -> None:
        recorder, state = self.recorder, self.state

        def wrap_init(original: Wrapper) -> Wrapper:
            def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
                start = now()
                original(self, *args, **kwargs)
                if not recorder.active or state.me.busy:
                    return
                recorder.guard("iterator", record_iterator, self, start, now(), sys._getframe(1))

            return __init__

        def record_iterator(iterator: Any, start: int, end: int, frame: FrameType) -> None:
            recorder.span(recorder.name("iterator", "iterator made"), start, end)
            dataset = getattr(iterator, "_dataset", None)
            if dataset is None:
                return
            self._numbers += 1
            number = self._numbers
            iterator._slowtrain = number
            self._iterators[number] = (weakref.ref(iterator), [0])
            site = user_code.user_place(frame)
            recorder.event(
                "iterator",
                "made",
                now(),
                number=number,
                pipeline=self._pipeline_number(dataset, site),
                keras=bool(state.me.loops),
                site=None if state.me.loops else site,
            )

        replace_function(module.OwnedIterator, "__init__", wrap_init)
        quick = fast_path_maker("element", recorder, state.main, after=self._at_end)
        replace_function(module.OwnedIterator, "__next__", self._advance, quick)

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
                # Compared and not looked up, because everything from here on runs in cold caches, after a step.
                if me.at != frame.f_lasti or me.code is not frame.f_code:
                    recorder.guard("next", patches.name_request, me, frame)
                me.left -= 1
                if not me.left:
                    me.look(recorder.active)
                try:
                    number = self._slowtrain
                except AttributeError:
                    number = self._slowtrain = 0  # created before recording began
                emit((me.name, start, end, me.ident, number))

        return __next__

    def name_request(self, me: Flags, frame: FrameType) -> None:
        """Names a place at which an element is requested for the first time, or a request by Keras."""
        me.name = 0
        me.remember(frame, bool(me.loops))
        me.name = self.recorder.name_at(None if me.loops else frame, "next", "next", "next")

    def _at_end(self, iterator: Any) -> None:
        self.recorder.guard("iterator's end", self._read_last_counters, iterator)

    def _read_last_counters(self, iterator: Any) -> None:
        """Reads the last counters of an epoch, before the iterator is deleted."""
        number = iterator.__dict__.get("_slowtrain")
        known = self._iterators.get(number)
        if known is not None:
            self._read_counters(number, iterator, known[1])

    def snapshot(self) -> None:
        """Reads the counters of every live iterator."""
        for number, (reference, last) in list(self._iterators.items()):
            iterator = reference()
            if iterator is None:
                self._iterators.pop(number, None)
            else:
                self._read_counters(number, iterator, last)

    def read_newest_iterators(self) -> None:
        """Reads the newest iterators at once, because Keras is about to delete its iterator."""
        for number, (reference, last) in list(self._iterators.items())[-3:]:  # another thread may delete one meanwhile
            iterator = reference()
            if iterator is not None and now() - last[0] > MIN_SNAPSHOT_PERIOD_NS:
                self._read_counters(number, iterator, last)

    def _read_counters(self, number: int, iterator: Any, last: list[int]) -> None:
        if self._model is None:
            self._model = pipeline_model_reader() or False
        if not self._model:
            return
        last[0] = now()
        me = self.state.me
        me.busy += 1  # its bytes are no value that the script reads back
        try:
            proto = self._model(iterator)
        except Exception as error:
            if type(error).__name__ not in NO_MODEL_ERRORS:
                self.recorder.fault(f"counters of iterator {number}")
            self._iterators.pop(number, None)
            return
        finally:
            me.busy -= 1
        self.recorder.pipeline(number, proto)

    # -- data sets

    def _patch_dataset(self, module: Any) -> None:
        recorder, state, sites = self.recorder, self.state, self._sites

        def wrap_init(original: Wrapper) -> Wrapper:
            def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
                original(self, *args, **kwargs)
                if recorder.active and not state.me.tracing and not state.me.loops:
                    recorder.guard("data set", note_place, self, sys._getframe(1))

            return __init__

        def note_place(dataset: Any, frame: FrameType) -> None:
            place = user_code.user_place(frame)
            if place is not None:
                sites[dataset] = place

        def from_generator(original: Wrapper) -> Wrapper:
            def from_generator(generator: Any, *args: Any, **kwargs: Any) -> Any:
                dataset = original(generator, *args, **kwargs)
                self.recorder.guard("from_generator", self._generator, dataset, generator)
                return dataset

            return from_generator

        replace_function(module.DatasetV2, "__init__", wrap_init)
        replace_function(module.DatasetV2, "from_generator", from_generator)

    def _generator(self, dataset: Any, generator: Any) -> None:
        dataset._slowtrain_python = user_code.describe_function(generator) | {
            "arrays": dataset_recipe.referenced_arrays(generator)
        }

    def _pipeline_number(self, dataset: Any, site: tuple[str, int] | None) -> int:
        number = self._described.get(id(dataset))
        if number is not None:
            return number
        number = self._described[id(dataset)] = next(self._pipelines)
        weakref.finalize(dataset, self._described.pop, id(dataset), None).atexit = False
        count = self._alike[site] = self._alike.get(site, 0) + 1
        if count <= MAX_ALIKE_DATASETS:
            self._describe(number, dataset)
        return number

    def _describe(self, number: int, dataset: Any) -> None:
        """Describes a data set, which takes a millisecond.

        Sizes and lengths that are read from tensors meanwhile do not count as the script's reads.
        """
        me = self.state.me
        me.busy += 1
        try:
            nodes = dataset_recipe.dataset_nodes(dataset, self._sites, self.recorder)
        finally:
            me.busy -= 1
        self.recorder.event("pipeline", str(number), now(), number=number, nodes=nodes)

    # -- Python that runs inside ops

    def _patch_python_ops(self, module: Any) -> None:
        recorder, lines, state = self.recorder, self.lines, self.state

        def make(original: Wrapper) -> Wrapper:
            def __call__(self: Any, token: Any, device: Any, args: Any) -> Any:
                if not recorder.active:
                    return original(self, token, device, args)
                name = recorder.ids.get(("pyfunc", token)) or recorder.guard("pyfunc", pyfunc_name, self, token) or 0
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

        def pyfunc_name(registry: Any, token: Any) -> int:
            function = registry._funcs.get(token)
            function = getattr(function, "_func", function)  # EagerFunc contains the user's function
            return recorder.name("pyfunc", str(token), ("pyfunc", token), **user_code.describe_function(function))

        replace_function(module.FuncRegistry, "__call__", make)


def pipeline_model_reader() -> Any:
    """Returns ``reader(iterator) -> bytes`` for TensorFlow's ``ModelProto``, or None if this version has none."""
    try:
        ops = sys.modules["tensorflow.python.ops.gen_experimental_dataset_ops"]
        read = ops.iterator_get_model_proto
    except (KeyError, AttributeError):
        return None

    def reader(iterator: Any) -> bytes:
        raw: bytes = read(iterator._iterator_resource).numpy()
        return raw

    return reader
