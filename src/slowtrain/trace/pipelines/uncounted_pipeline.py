"""An input pipeline without counters (TensorFlow before 2.16, or autotuning off): as written, with profiled times.

The time of its functions comes from their ops in the deep window and from calls of the user's Python. It does not
include the cost of calling them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slowtrain.columns.input_pipeline import RANDOM_OP_PREFIXES, Node, Pipeline, WrittenDataset
from slowtrain.columns.kernels import Kernels, Producer

STATEFUL_OPS = ("Random", "Stateful", "Variable", "HashTable", "LookupTable", "ReadVariable")


def with_profiled_times(
    pipe: Pipeline, deep: Kernels | None, producers: Sequence[Producer], steps: int, epochs: int, cores: float
) -> Pipeline:
    """Return ``pipe`` with a node for each of its data sets; unchanged if nothing of its work was measured."""
    functions = [w for w in pipe.written if w.ops]
    python = sum(p.ms_per_step for p in producers)
    if pipe.nodes or not pipe.written or not ((deep is not None and deep.by_input) or python):
        return pipe
    options = pipe.written[-1].detail.get("options") or {}
    tuned = options.get("autotune") is not False
    elements = _elements_per_batch(pipe.written)
    nodes = []
    for i, one in enumerate(pipe.written):
        ms = _function_op_ms(one, functions, deep.by_input) if deep is not None else 0.0
        runs_python = one.python or "python" in one.detail
        if runs_python and python:
            ms = max(ms, python / max(sum(w.python or "python" in w.detail for w in pipe.written), 1))
        name, width = _running_name(one, tuned, cores)
        nodes.append(
            Node(i, name, tuple(n for n in one.inputs if n >= 0), ms, elements[i], width, False, None, 0.0, 0.0, one)
        )
    return replace(pipe, nodes=tuple(nodes), batches=steps, epochs=max(epochs, 1), counted=False)


def _function_op_ms(
    one: WrittenDataset, functions: Sequence[WrittenDataset], profiled: Mapping[str, tuple[float, float]]
) -> float:
    """Return ms per step of a function's ops; ops of a type that several functions have are divided by their counts."""
    total = 0.0
    for kind, count in one.ops.items():
        if kind in profiled:
            total += profiled[kind][0] * count / sum(w.ops.get(kind, 0) for w in functions)
    return total


def _elements_per_batch(written: Sequence[WrittenDataset]) -> list[float]:
    """Return elements per batch of each data set, from the last one (which gives one) to the sources."""
    found = [0.0] * len(written)
    found[-1] = 1.0
    for i in range(len(written) - 1, -1, -1):
        per = float(written[i].detail.get("batch_size") or 1) if written[i].family == "Batch" else 1.0
        for source in written[i].inputs:
            if 0 <= source < len(written) and written[i].family != "FlatMap":
                found[source] = found[i] * per
    return found


def _running_name(one: WrittenDataset, tuned: bool, cores: float) -> tuple[str, float | None]:
    """Return the name and parallelism with which TensorFlow runs it; stateless maps become parallel with autotuning."""
    name = one.op.removesuffix("V2").removesuffix("Dataset")
    asked = one.detail.get("parallel")
    stateless = not one.python and not any(op.startswith((*RANDOM_OP_PREFIXES, *STATEFUL_OPS)) for op in one.ops)
    if asked is not None:
        return name if name.startswith("Parallel") else f"Parallel{name}", cores if int(asked) < 0 else float(asked)
    if name == "Map" and tuned and stateless:
        return "ParallelMap", cores
    return name, None
