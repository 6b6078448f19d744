"""Replaces a ``fit`` of one step whose loss is read by ``train_on_batch`` with the same result."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

import numpy as np

from slowtrain.causes.host.predict_in_loop import CallGroup, RepeatedCallFinding
from slowtrain.model import Edit, Effect, Prescription
from slowtrain.script.fixes.models import keras_calls
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.navigation import call_arguments, call_index, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace

CALL_MODEL = "call model(x, training=False) in a tf.function, or predict all inputs at once"
PREDICT_ON_BATCH = "call predict_on_batch, which creates no data set and no iterator for its input"
TRAIN_ON_BATCH = "call train_on_batch for each chunk, or fit once over all of them"
STATEMENTS_WITH_CALL = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
CONDITIONAL_OR_LATER = (*node_lookup.SCOPE_NODES, *scope_names.COMPREHENSIONS, ast.IfExp, ast.BoolOp)
RATE_KEYS = frozenset({"lr", "learning_rate"})  # added to the history by callbacks of fit
DROPPED_ARGUMENTS = ("verbose", "batch_size", "epochs", "shuffle")


def find_cures(trace: Trace, finding: RepeatedCallFinding) -> Iterable[Prescription]:
    worst = finding.groups[0]
    if worst.loop == "fit":
        edits: tuple[Edit, ...] = ()
        if _takes_one_step(trace, worst):
            edits = _group_edits(trace, worst, keras_calls.use_train_on_batch)
            edits = edits or _group_edits(trace, worst, replace_fit_with_history)
        yield Prescription("edit", Effect.EQUIVALENT, TRAIN_ON_BATCH, edits=edits)
    else:
        predicts = (g for g in finding.groups if g.loop == "predict")
        found = (e for g in predicts for e in _group_edits(trace, g, keras_calls.use_predict_on_batch))
        if edits := tuple(dict.fromkeys(found)):
            yield Prescription("edit", Effect.EQUIVALENT, PREDICT_ON_BATCH, edits=edits)
        yield Prescription("edit", Effect.EQUIVALENT, CALL_MODEL)


def _group_edits(trace: Trace, group: CallGroup, cure: Callable[[Source, int], list[Edit]]) -> tuple[Edit, ...]:
    return recorded_edits.first_applicable(trace, [group.place] if group.place is not None else [], cure)


def _takes_one_step(trace: Trace, group: CallGroup) -> bool:
    """Whether each call takes one step, so that a chunk is one batch."""
    inside = np.searchsorted(group.calls.start_ms, trace.steps.start_ms, side="right") - 1
    known = inside[inside >= 0]
    taken = trace.steps.start_ms[inside >= 0] < group.calls.end_ms[known]
    counts = np.bincount(known[taken], minlength=len(group.calls))
    return bool(len(counts) and counts.max() == 1)


def replace_fit_with_history(source: Source, line: int) -> list[Edit]:
    """Edits for ``model.fit(x, y)`` at ``line``, which takes one step and whose history is read for numbers only.

    ``fit`` resets the metrics and ``train_on_batch`` does not, so the edit resets them.
    """
    call = node_lookup.single_call(source, line, "fit")
    statement = node_lookup.enclosing_statement(source, call) if call is not None else None
    if (
        call is None
        or not isinstance(statement, STATEMENTS_WITH_CALL)
        or not keras_calls.is_single_epoch_fit(source, call)
    ):
        return []
    assert isinstance(call.func, ast.Attribute)
    owner, read = scope_names.dotted_name(call.func.value), _history_reads(source, call, statement)
    if not owner or not read or _may_not_run_once(source, call, statement):
        return []
    kept = [edits.node_text(source, a) for a in call.args]
    kept += [f"{k.arg}={edits.node_text(source, k.value)}" for k in call.keywords if k.arg not in DROPPED_ARGUMENTS]
    taken = f"{owner}.train_on_batch({', '.join(kept)}, return_dict=True)"
    before = edits.insert_before(source, statement, f"{owner}.reset_metrics()")
    inline = [n for n in read if call in syntax_tree.walk(n)]
    if inline:
        return [before, edits.replace_node(source, inline[0], f"float({taken}[{_metric_key(source, inline[0])}])")]
    assert isinstance(statement, ast.Assign)
    name = scope_names.dotted_name(statement.targets[0])
    changed = [edits.replace_node(source, n, f"float({name}[{_metric_key(source, n)}])") for n in read]
    return [before, edits.replace_node(source, call, taken), *changed]


def _history_reads(source: Source, call: ast.Call, statement: ast.stmt) -> list[ast.Subscript]:
    """Every ``h.history["loss"][0]`` of the call's result; empty if the result is used in any other way."""
    direct = _history_value(source, call)
    if direct is not None:
        return [direct]
    if not isinstance(statement, ast.Assign) or statement.value is not call or len(statement.targets) != 1:
        return []
    target = statement.targets[0]
    if not isinstance(target, ast.Name):
        return []
    scope = call_arguments.binding_function(source, target)
    if scope is None or len(scope_names.binding_statements(source, target.id, scope)) != 1:
        return []
    every = [n for n in call_index.nodes_of_class(source, ast.Name) if n.id == target.id]
    uses = [n for n in every if isinstance(n.ctx, ast.Load) and call_arguments.binding_function(source, n) is scope]
    found = [_history_value(source, n) for n in uses]
    return [n for n in found if n is not None] if all(n is not None for n in found) else []


def _history_value(source: Source, history: ast.expr) -> ast.Subscript | None:
    """The ``h.history["loss"][0]`` around ``h``. After one epoch, index 0 and index -1 are the same value."""
    above = node_lookup.parents_of(source)
    series = above.get(history)
    named = above.get(series) if isinstance(series, ast.Attribute) and series.attr == "history" else None
    one = above.get(named) if isinstance(named, ast.Subscript) and named.value is series else None
    if not isinstance(named, ast.Subscript) or not isinstance(one, ast.Subscript) or one.value is not named:
        return None
    key = named.slice.value if isinstance(named.slice, ast.Constant) else None
    plain = isinstance(key, str) and not key.startswith("val_") and key not in RATE_KEYS
    return one if plain and ast.unparse(one.slice) in ("0", "-1") and isinstance(one.ctx, ast.Load) else None


def _metric_key(source: Source, number: ast.Subscript) -> str:
    assert isinstance(number.value, ast.Subscript)
    return edits.node_text(source, number.value.slice)


def _may_not_run_once(source: Source, call: ast.Call, statement: ast.stmt) -> bool:
    """Whether the call may run later than its statement, more than once in it, or not at all."""
    above = node_lookup.parents_of(source)
    node: ast.AST | None = call
    while node is not None and node is not statement:
        if isinstance(node, CONDITIONAL_OR_LATER):
            return True
        node = above.get(node)
    return False
