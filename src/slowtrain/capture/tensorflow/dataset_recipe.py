"""Describes a data set as the script defines it: operations with lines, functions and sizes, and arrays behind it.

This reads values of tensors. The caller has to disable the wrappers meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slowtrain.capture.core.recorder import Recorder
from slowtrain.capture.inspection import call_signatures, user_code

MAX_NODES = 200
DatasetSites = Mapping[Any, Any]  # data set -> the user's line that made it


def dataset_nodes(dataset: Any, sites: DatasetSites, recorder: Recorder) -> list[dict[str, Any]]:
    """Returns the operations from the sources to ``dataset``, which comes last and has the options of all."""
    found: list[dict[str, Any]] = []
    _append_node(dataset, sites, found, {})
    options = recorder.guard("options", _dataset_options, dataset)
    if options and found:
        found[-1]["options"] = options
    return found


def _append_node(dataset: Any, sites: DatasetSites, nodes: list[dict[str, Any]], seen: dict[int, int]) -> int:
    """Appends the node of ``dataset`` after its inputs. Returns its index, or -1 if there are too many nodes."""
    if id(dataset) in seen:
        return seen[id(dataset)]
    if len(nodes) >= MAX_NODES:
        return -1
    inputs = [_append_node(d, sites, nodes, seen) for d in dataset._inputs()]
    place = sites.get(dataset)
    node: dict[str, Any] = {
        "op": type(dataset).__name__.lstrip("_"),
        "inputs": inputs,
        "site": list(place) if place else None,
    }
    python = getattr(dataset, "_slowtrain_python", None)
    if python:
        node["python"] = python
    for name, attribute in _NODE_ATTRIBUTES.items():
        value = _plain_value(getattr(dataset, attribute, None))
        if value is not None:
            node[name] = value
    node["element"] = _element_parts(dataset.element_spec)
    _add_function(dataset, node)
    node["cardinality"] = _dataset_cardinality(dataset)
    nodes.append(node)
    seen[id(dataset)] = len(nodes) - 1
    return len(nodes) - 1


def _add_function(dataset: Any, node: dict[str, Any]) -> None:
    function = getattr(dataset, "_map_func", None) or getattr(dataset, "_predicate", None)
    if function is None:
        return
    python_function = getattr(function, "_func", None)
    if python_function is not None:
        node["function"] = user_code.describe_function(python_function)
    concrete = getattr(function, "function", None)
    graph = getattr(concrete, "graph", None)
    if graph is not None:
        node["ops"] = _count_op_types(graph)


_NODE_ATTRIBUTES = {
    "parallel": "_num_parallel_calls",
    "buffer_size": "_buffer_size",
    "batch_size": "_batch_size",
    "deterministic": "_deterministic",
    "count": "_count",
    "cycle_length": "_cycle_length",
    "filename": "_filename",
    "reshuffle": "_reshuffle_each_iteration",
}


def _dataset_options(dataset: Any) -> dict[str, Any]:
    """Returns the limits and switches that the user set on the pipeline."""
    options = dataset.options()
    found = {
        "private_threads": options.threading.private_threadpool_size,
        "intra_op": options.threading.max_intra_op_parallelism,
        "autotune": options.autotune.enabled,
    }
    return {key: value for key, value in found.items() if value is not None}


def _plain_value(value: Any) -> Any:
    """Returns a number or text from a constant tensor, or None."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    try:
        value = value.numpy()
        return value.decode(errors="replace") if isinstance(value, bytes) else value.item()
    except Exception:
        return None


def _element_parts(spec: Any) -> list[dict[str, Any]]:
    """Returns shape, dtype and item bytes of each component of an element."""
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


def _dataset_cardinality(dataset: Any) -> int | None:
    try:
        return int(dataset.cardinality().numpy())
    except Exception:
        return None


def _count_op_types(graph: Any, limit: int = 3000) -> dict[str, int]:
    """Returns the number of ops of each type in a graph and the functions it calls."""
    counts: dict[str, int] = {}
    definition = graph.as_graph_def()
    nodes = list(definition.node)
    for function in definition.library.function:
        nodes.extend(function.node_def)
    for node in nodes[:limit]:
        counts[node.op] = counts.get(node.op, 0) + 1
    return counts


def referenced_arrays(function: Any) -> dict[str, Any]:
    """Returns length and bytes of the arrays that a generator (or its function) refers to by name.

    For a method this includes attributes of its object that its code names.
    """
    code = getattr(function, "gi_code", None) or getattr(function, "__code__", None)
    if code is None:
        return {}
    frame = getattr(function, "gi_frame", None)
    scope: dict[str, Any] = dict(frame.f_globals if frame else getattr(function, "__globals__", {}))
    local = dict(frame.f_locals) if frame else {}
    names = (*code.co_names, *code.co_freevars, *code.co_varnames)
    closure = getattr(function, "__closure__", None) or ()
    local.update({n: c.cell_contents for n, c in zip(code.co_freevars, closure, strict=False) if c})
    owner = getattr(function, "__self__", None) or (local.get(code.co_varnames[0]) if code.co_argcount else None)
    attributes = getattr(owner, "__dict__", None)
    scope |= {n: attributes[n] for n in code.co_names if n in attributes} if isinstance(attributes, dict) else {}
    return _array_sizes((name, local.get(name, scope.get(name))) for name in names[:64])


def attribute_arrays(data: Any) -> dict[str, Any]:
    """Returns length and bytes of the arrays and lists that are attributes of an object."""
    return _array_sizes(list(getattr(data, "__dict__", {}).items())[:64])


def _array_sizes(named: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in named:
        shape = getattr(value, "shape", None)
        if isinstance(shape, tuple) and shape:  # a module may have a function of that name
            found[name] = {"length": int(shape[0]), "bytes": int(getattr(value, "nbytes", 0))}
        elif isinstance(value, (list, tuple)):
            found[name] = {"length": len(value), "bytes": call_signatures.host_bytes((value[:1],)) * len(value)}
    return found
