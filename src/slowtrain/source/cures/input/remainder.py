"""The last, smaller batch of an epoch left out, so that every step has the same shapes."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.source import Source, edits
from slowtrain.source.reading import finding, index
from slowtrain.source.reading.input import chains, consumed

# The position of ``drop_remainder`` among the arguments of each operation.
POSITIONS = {"batch": 1, "padded_batch": 3, "ragged_batch": 1}
ENDLESS = ("repeat", "random", "counter")  # before the batch: there is no last one
JUDGED = ("evaluate", "predict")  # a batch that is left out there changes the result


def drop_remainder(source: Source, line: int) -> list[Edit]:
    """``drop_remainder=True`` on the ``.batch(n)`` that makes the training batches.

    ``line`` holds the ``batch`` itself, the ``fit``, or the loop over the data set. Samples that do not fill a batch
    are left out of each epoch: this changes training. Nothing where the data set also serves validation.
    """
    call = _batch(source, line)
    if call is None or any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        return []
    before = chains.upstream(source, call).names
    if any(name in ENDLESS for name in before) or _serves_validation(source, call):
        return []
    given = finding.keyword(call, "drop_remainder", POSITIONS[finding.called(call)])
    if given is None:
        return [edits.keyword(source, call, "drop_remainder", "True")]
    if isinstance(given, ast.Constant) and given.value in (False, None):
        return [edits.replace(source, given, "True")]
    return []


def _batch(source: Source, line: int) -> ast.Call | None:
    """The one call that makes batches: at ``line``, or last on the way to the ``fit`` or the loop there."""
    here = [c for c in finding.calls(source, line, *POSITIONS) if chains.operates(c)]
    if len(here) == 1 and chains.may_be(chains.upstream(source, here[0])):
        return here[0]
    given: list[tuple[ast.expr | None, ast.AST]] = []
    fit = finding.only(source, line, "fit")
    if fit is not None:
        given.append((finding.keyword(fit, "x", 0), fit))
    given += [(n.iter, n) for n in index.nodes(source, ast.For) if isinstance(n, ast.For) and n.lineno == line]
    found = [flow for one, place in given for flow in consumed.flow_of(source, one, place)]
    batches = [c for flow in found[:1] for c in flow.calls if finding.called(c) in POSITIONS]
    return batches[-1] if len(found) == 1 and batches else None


def _serves_validation(source: Source, call: ast.Call) -> bool:
    """Whether something that judges the model takes batches of ``call`` as well."""
    calls = index.of(source)
    taken = [(finding.keyword(fit, "validation_data"), fit) for fit in calls.called("fit")]
    taken += [(finding.keyword(judge, "x", 0), judge) for judge in calls.called(*JUDGED)]
    if any(call in flow.calls for one, place in taken for flow in consumed.flow_of(source, one, place)):
        return True
    function = finding.function(source, call)  # a function that makes several data sets may make one for validation
    return function is not None and len(index.of(source).called(function.name)) > 1
