"""Ops that have a kernel for the device, such as the eigenvalues of a symmetric matrix, or ops outside the step."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from slowtrain.causes.compute.host_placed_ops import HostPlacedFinding
from slowtrain.model import Edit, Effect, Place, Prescription
from slowtrain.script.fixes.models import keras_models
from slowtrain.script.locations import line_roles
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.locations.recorded_sources import edit_project, recorded_source
from slowtrain.script.navigation import name_bindings, node_lookup
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import step_bound

NOT_IN_XLA = frozenset({"Eig", "PyFunc", "EagerPyFunc", "PyFuncStateless"})
GENERAL_OPS = ("tensorflow.linalg.eigvals",)
# The ops around them: eigvalsh returns sorted real numbers, eigvals complex ones in any order.
REAL_OPS = ("tensorflow.abs", "tensorflow.math.abs", "tensorflow.math.real")
REDUCING_OPS = ("reduce_max", "reduce_min", "reduce_sum", "reduce_mean")
MAX_ASSIGNMENTS = 4  # followed back to the product


def find_cures(trace: Trace, finding: HostPlacedFinding) -> Iterable[Prescription]:
    moved = edit_project(trace, keras_models.remove_cpu_device)
    if moved:
        says = 'remove tf.device("/CPU:0") around the training: with tf.device(None) TensorFlow places the ops'
        yield Prescription("edit", Effect.EQUIVALENT, says, edits=moved)
    if trace.on_jax:
        says = "write it in jax.numpy inside the step, or compute it before the step if it needs only the batch"
        yield Prescription("edit", Effect.EQUIVALENT, says)
        return
    yield from _op_cures(trace, finding)
    log = "log where ops are placed: tf.debugging.set_log_device_placement(True)"
    yield Prescription("advice", Effect.EXACT, log)


def _op_cures(trace: Trace, finding: HostPlacedFinding) -> Iterable[Prescription]:
    """What to do with the ops, which depends on what they need."""
    kinds = finding.kinds
    calls = tuple(_calls_making_ops(trace, kinds))
    if calls and all(line_roles.needs_batch_alone(source, call) for source, call in calls):
        yield Prescription("edit", Effect.EXACT, "it needs only the batch: move it into the map of the input pipeline")
        return
    symmetric = recorded_edits.first_applicable(trace, finding.where, symmetric_eigenvalue_edits)
    if symmetric or "Eig" in kinds:
        says = "tf.linalg.eigvalsh (eigh), which has a kernel for the GPU, if the matrix is symmetric"
        yield Prescription("edit" if symmetric else "advice", Effect.EQUIVALENT, says, edits=symmetric)
    if calls:
        says = "it needs results of the step: compute it in every tenth step, or write it with ops that have a kernel"
    else:
        says = "move what needs only the batch into the map of the input pipeline; compute the rest in few of the steps"
    yield Prescription("advice", Effect.CHANGES_TRAINING, says)
    if not NOT_IN_XLA & set(kinds):
        says = "try jit_compile=True on the step: XLA compiles some of these ops for the device"
        yield Prescription("advice", Effect.EQUIVALENT, says)


def find_lines(trace: Trace, finding: HostPlacedFinding) -> Iterable[Place]:
    return (Place(source.file, call.lineno) for source, call in _calls_making_ops(trace, finding.kinds))


def _calls_making_ops(trace: Trace, kinds: Sequence[str]) -> Iterable[tuple[Source, ast.Call]]:
    """Calls in the step's function that make such ops, with their files."""
    function = step_bound.user_step_function(trace)
    source = recorded_source(trace, function.file) if function is not None else None
    if source is not None and function is not None:
        yield from ((source, call) for call in line_roles.calls_making_ops(source, function.line, kinds))


def symmetric_eigenvalue_edits(source: Source, line: int) -> list[Edit]:
    """``tf.linalg.eigvals(m)`` at ``line`` as ``tf.linalg.eigvalsh(m)``, if ``m`` is ``x^T x`` or ``x x^T``."""
    call = node_lookup.single_call(source, line, "eigvals")
    if (
        call is None
        or name_bindings.qualified_name(source, call.func) not in GENERAL_OPS
        or len(call.args) != 1
        or call.keywords
    ):
        return []
    parents = node_lookup.parents_of(source)
    real = parents.get(call)
    outer = parents.get(real) if real is not None else None
    if not isinstance(real, ast.Call) or name_bindings.qualified_name(source, real.func) not in REAL_OPS:
        return []
    if not isinstance(outer, ast.Call) or node_lookup.called_name(outer) not in REDUCING_OPS or len(outer.args) != 1:
        return []
    if not _is_symmetric(source, call.args[0]) or outer.keywords:
        return []
    assert isinstance(call.func, ast.Attribute)
    end = edits.node_end(call.func)
    return [Edit(source.file, (end[0], end[1] - len("eigvals")), end, "eigvalsh")]


def _is_symmetric(source: Source, node: ast.expr | None) -> bool:
    """Whether a matrix is the product of a matrix and its transpose, possibly scaled by a number."""
    for _ in range(MAX_ASSIGNMENTS):
        if isinstance(node, ast.Name):
            node = name_bindings.single_assignment(source, node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
            if not isinstance(node.right, ast.Constant):
                return False
            node = node.left
        else:
            break
    if not isinstance(node, ast.Call) or node_lookup.called_name(node) != "matmul" or len(node.args) != 2:
        return False
    transposed = [k.arg for k in node.keywords if isinstance(k.value, ast.Constant) and k.value.value is True]
    same = all(isinstance(a, ast.Name) for a in node.args) and ast.dump(node.args[0]) == ast.dump(node.args[1])
    return same and len(node.keywords) == 1 and transposed[:1] in (["transpose_a"], ["transpose_b"])
