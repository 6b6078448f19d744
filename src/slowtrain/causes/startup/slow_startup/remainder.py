"""Leaves out the last, smaller batch of an epoch, so that every step has the same shapes."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.pipelines import dataset_chains, whole_pipelines
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

# The position of ``drop_remainder`` among the arguments of each operation.
REMAINDER_POSITIONS = {"batch": 1, "padded_batch": 3, "ragged_batch": 1}
ENDLESS_STAGES = ("repeat", "random", "counter")  # before the batch: there is no last one
VALIDATION_METHODS = ("evaluate", "predict")  # a batch that is left out there changes the result


def drop_remainder(source: Source, line: int) -> list[Edit]:
    """``drop_remainder=True`` on the ``.batch(n)`` that makes the training batches.

    ``line`` has the ``batch`` itself, the ``fit``, or the loop over the data set. Samples that do not fill a batch
    are left out of each epoch, which changes training. Empty if the data set also serves validation.
    """
    call = _batch_call(source, line)
    if call is None or any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        return []
    before = dataset_chains.upstream_chain(source, call).names
    if any(name in ENDLESS_STAGES for name in before) or _serves_validation(source, call):
        return []
    given = node_lookup.argument_value(call, "drop_remainder", REMAINDER_POSITIONS[node_lookup.called_name(call)])
    if given is None:
        return [edits.set_keyword(source, call, "drop_remainder", "True")]
    if isinstance(given, ast.Constant) and given.value in (False, None):
        return [edits.replace_node(source, given, "True")]
    return []


def _batch_call(source: Source, line: int) -> ast.Call | None:
    """The one call that makes batches: at ``line``, or last on the way to the ``fit`` or the loop there."""
    here = [c for c in node_lookup.calls_at_line(source, line, *REMAINDER_POSITIONS) if dataset_chains.is_operation(c)]
    if len(here) == 1 and dataset_chains.may_be_dataset(dataset_chains.upstream_chain(source, here[0])):
        return here[0]
    given: list[tuple[ast.expr | None, ast.AST]] = []
    fit = node_lookup.single_call(source, line, "fit")
    if fit is not None:
        given.append((node_lookup.argument_value(fit, "x", 0), fit))
    given += [
        (n.iter, n) for n in call_index.nodes_of_kind(source, ast.For) if isinstance(n, ast.For) and n.lineno == line
    ]
    found = [flow for one, place in given for flow in whole_pipelines.chains_behind(source, one, place)]
    batches = [c for flow in found[:1] for c in flow.calls if node_lookup.called_name(c) in REMAINDER_POSITIONS]
    return batches[-1] if len(found) == 1 and batches else None


def _serves_validation(source: Source, call: ast.Call) -> bool:
    """Whether something that judges the model takes batches of ``call`` as well."""
    calls = call_index.index_of(source)
    taken = [(node_lookup.argument_value(fit, "validation_data"), fit) for fit in calls.called("fit")]
    taken += [(node_lookup.argument_value(judge, "x", 0), judge) for judge in calls.called(*VALIDATION_METHODS)]
    if any(call in flow.calls for one, place in taken for flow in whole_pipelines.chains_behind(source, one, place)):
        return True
    function = node_lookup.enclosing_function(
        source, call
    )  # a function that makes several data sets may make one for validation
    return function is not None and len(call_index.index_of(source).called(function.name)) > 1
