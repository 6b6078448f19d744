"""Edits that replace a data set of one batch by a list that holds the batch."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.causes.input.rebuilt_pipeline import RebuiltPipelineFinding
from slowtrain.model import Edit, Effect, Place, Prescription
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.navigation import call_arguments, class_members, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source
from slowtrain.trace import Trace

STAGES_TO_ONE_BATCH = {"from_tensor_slices": ["batch"], "from_tensors": []}  # to one batch
ITERATING_BUILTINS = frozenset({"iter", "enumerate"})
ONE_ITERATOR = "make the iterator once, before the loop: it = iter(ds.repeat()), and next(it) in each iteration"


def find_cures(trace: Trace, finding: RebuiltPipelineFinding) -> Iterable[Prescription]:
    if not finding.builds_data_sets:
        yield Prescription("edit", Effect.CHANGES_TRAINING, ONE_ITERATOR)
        return
    yield Prescription(
        "edit",
        Effect.EXACT,
        "give the step the arrays as they are: it makes tensors of them",
        edits=_batch_list_edits(trace, finding),
    )
    says = "or build one data set before the loop, from_generator over what each iteration draws, with one iterator"
    yield Prescription("edit", Effect.EXACT, says)


def _batch_list_edits(trace: Trace, finding: RebuiltPipelineFinding) -> tuple[Edit, ...]:
    """A list with the batch in place of the data set of one line, if all data sets seen there had one batch."""

    def edit(source: Source, line: int) -> list[Edit]:
        last = [p.written[-1] for p in trace.pipelines if p.written and p.written[-1].place == Place(source.file, line)]
        parts = {len(w.detail.get("element") or ()) for w in last}
        one_batch = len(parts) == 1 and all(w.detail.get("cardinality") == 1 for w in last)
        return list_one_batch(source, line, max(parts)) if one_batch else []

    return recorded_edits.first_applicable(trace, finding.where, edit)


def list_one_batch(source: Source, line: int, parts: int) -> list[Edit]:
    """``Dataset.from_tensor_slices((x, y)).batch(n)`` at ``line`` as ``[(tf.convert_to_tensor(x), ...)]``.

    No edits if anything but a loop or ``iter`` reads the data set. The caller has to know that it has one batch of
    ``parts`` tensors.
    """
    made = node_lookup.single_call(source, line, *STAGES_TO_ONE_BATCH)
    if made is None or len(made.args) != 1 or made.keywords:
        return []
    if not scope_names.resolved_name(source, made.func).startswith("tensorflow.data.Dataset."):
        return []
    whole = node_lookup.chain_end(source, made)
    calls = [node_lookup.called_name(call) for call in node_lookup.chain_calls(whole)]  # the last first
    passed = [name for name in calls[-2::-1] if name != "prefetch"]
    if passed != STAGES_TO_ONE_BATCH[node_lookup.called_name(made)] or not _is_only_iterated(source, whole):
        return []
    name, also = edits.ensure_import(source, "tensorflow", "tf")
    batch = _batch_text(source, made.args[0], parts, f"{name}.convert_to_tensor")
    return [*also, edits.replace_node(source, whole, f"[{batch}]")] if batch else []


def _batch_text(source: Source, given: ast.expr, parts: int, convert: str) -> str:
    """The text of a batch of tensors, for a tuple or dict of arrays; "" if the text does not show the arrays."""
    if isinstance(given, ast.Tuple) and len(given.elts) == parts and not any(map(_has_parts, given.elts)):
        inner = [f"{convert}({edits.node_text(source, one)})" for one in given.elts]
        return f"({', '.join(inner)}{',' * (parts == 1)})"
    if isinstance(given, ast.Dict) and len(given.keys) == parts and None not in given.keys:
        pairs = [(key, value) for key, value in zip(given.keys, given.values, strict=True) if key is not None]
        if not any(_has_parts(value) for _, value in pairs):
            inner = [f"{edits.node_text(source, k)}: {convert}({edits.node_text(source, v)})" for k, v in pairs]
            return f"{{{', '.join(inner)}}}"
    if isinstance(given, ast.Name) and parts > 1:
        scope = call_arguments.binding_function(source, given)
        found = scope_names.binding_statements(source, given.id, scope) if scope is not None else []
        value = found[0].value if len(found) == 1 and isinstance(found[0], ast.Assign) else None
        flat = isinstance(value, ast.Tuple) and len(value.elts) == parts and not any(map(_has_parts, value.elts))
        if flat or (isinstance(value, ast.Call) and scope_names.resolved_name(source, value.func) == "tuple"):
            return f"tuple(map({convert}, {given.id}))"
    return ""


def _has_parts(part: ast.expr) -> bool:
    """Whether a part has parts itself, or may have any number of them."""
    return isinstance(part, (ast.Tuple, ast.Dict, ast.Starred))


def _is_only_iterated(source: Source, made: ast.expr) -> bool:
    """Whether only loops iterate over it: at its place, by its name, or as the result of a function."""
    above = node_lookup.parents_of(source)
    holder = above.get(made)
    if isinstance(holder, ast.Return):
        function = node_lookup.enclosing_function(source, made)
        plain = isinstance(function, ast.FunctionDef) and above.get(function) is source.tree
        if function is None or not plain or function.decorator_list:
            return False
        calls = class_members.running_calls(source, function)
        return bool(calls) and all(_is_iterated_at(source, call) for call in calls)
    if isinstance(holder, ast.Assign) and len(holder.targets) == 1 and isinstance(holder.targets[0], ast.Name):
        name = holder.targets[0].id
        scope = node_lookup.enclosing_function(source, made) or source.tree
        loads = [
            n
            for n in syntax_tree.walk(scope)
            if isinstance(n, ast.Name) and n.id == name and n is not holder.targets[0]
        ]
        alone = len(scope_names.binding_statements(source, name, scope)) == 1 and not any(
            name in scope_names.declared_outer_names(n)
            for n in syntax_tree.walk(scope)
            if isinstance(n, FUNCTION_NODES)
        )
        return bool(loads) and alone and all(isinstance(n.ctx, ast.Load) and _is_iterated_at(source, n) for n in loads)
    return _is_iterated_at(source, made)


def _is_iterated_at(source: Source, taken: ast.AST) -> bool:
    holder = node_lookup.parents_of(source).get(taken)
    if isinstance(holder, ast.For):
        return holder.iter is taken
    return (
        isinstance(holder, ast.Call)
        and scope_names.resolved_name(source, holder.func) in ITERATING_BUILTINS
        and holder.args[:1] == [taken]
    )
