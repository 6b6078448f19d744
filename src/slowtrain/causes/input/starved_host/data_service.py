"""The map of a data set on the cores of other computers: tf.data service."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.interpreter.engine import interpreter
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.pipelines import chain_edits, dataset_chains, whole_pipelines
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

ADDRESS_VARIABLE = "TF_DATA_SERVICE"
# Sources that the dispatcher splits among the workers.
SPLIT_SOURCES = frozenset(
    "from_tensor_slices range list_files TFRecordDataset TextLineDataset FixedLengthRecordDataset".split()
)
# Each worker applies these to its part. It would cache, take, skip or number its own part too, which gives others.
SHARED_OPERATIONS = frozenset("map filter interleave flat_map shuffle batch prefetch with_options".split())
LOCAL_OPERATIONS = frozenset({"prefetch", "with_options"})
# Python stays in its process, and nobody knows the length of a distributed data set.
OBSTACLES = frozenset({"py_function", "numpy_function", "from_generator", "cardinality"})
DISTRIBUTE = '.apply({tf}.data.experimental.service.distribute("distributed_epoch", {os}.environ["{variable}"]))'


def distribute_input(source: Source, line: int, function_line: int | None = None) -> list[Edit]:
    """Let workers make the batches of the data set at ``line``: each element once per epoch, in another order.

    The address of the dispatcher comes from the environment. Empty unless workers can run all operations.
    """
    found = dataset_chains.map_calls(source, line, function_line)
    several = dataset_chains.chains_through(source, found[0]) if len(found) == 1 else []
    flow = several[0] if len(several) == 1 else None
    if flow is None or not flow.whole or OBSTACLES & source.words or _asks_for_length(source):
        return []
    shared = flow.names[0] in SPLIT_SOURCES and set(flow.names[1:]) <= SHARED_OPERATIONS
    if not shared or flow.names.count("batch") != 1 or _has_layers(source, flow):
        return []
    last = [call for call in flow.calls if node_lookup.called_name(call) not in LOCAL_OPERATIONS][-1]
    tf, imported = edits.ensure_import(source, "tensorflow", "tf")
    os, more = edits.ensure_import(source, "os", "os")
    text = DISTRIBUTE.format(tf=tf, os=os, variable=ADDRESS_VARIABLE)
    return [*imported, *more, *chain_edits.append_operation(source, last, text)]


def _asks_for_length(source: Source) -> bool:
    """Whether the file calls ``len`` of a data set."""
    calls = call_index.index_of(source).calls_of("len")
    return any(call.args and interpreter.value_at(source, call.args[0]).kind == "dataset" for call in calls)


def _has_layers(source: Source, flow: dataset_chains.DatasetChain) -> bool:
    """Whether a function of the data set calls Keras layers, whose variables are in this process."""
    functions = [whole_pipelines.mapped_function(source, call) for call in flow.calls]
    reached = [s for f in functions if f is not None for s in whole_pipelines.reached_statements(source, f)]
    calls: list[ast.Call] = whole_pipelines.calls_in(reached)
    return any(interpreter.value_at(source, call.func).kind == "keras" for call in calls)
