"""Edits that let callbacks run less often. The training itself stays the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from slowtrain.model import Edit
from slowtrain.script.navigation import call_index, node_lookup, scope_names, setting_origins
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

BATCH_INTERVAL = 100
EPOCH_INTERVAL = 10
KERAS_SAVERS = ("ModelCheckpoint", "BackupAndRestore")
# Attributes by which a callback may change the training.
STEERING_ATTRIBUTES = frozenset(
    "stop_training learning_rate lr set_weights assign assign_add assign_sub set_value trainable".split()
)
FREE_SETTINGS = {"histogram_freq": "0", "write_images": "False", "write_graph": "False", "profile_batch": "0"}
_BATCH_FIELD = re.compile(r"\{batch")
_BATCH_SETTING = re.compile(r"\b(?:on_\w*batch_\w*|save_freq|update_freq)\s*=")


def run_hook_less_often(source: Source, kind: str, hook: str) -> list[Edit]:
    """Let the method ``hook`` of the class ``kind`` return early, except in every hundredth batch or tenth epoch."""
    classes = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.ClassDef) and n.name == kind]
    if len(classes) != 1:
        return []
    methods = [n for n in classes[0].body if isinstance(n, ast.FunctionDef) and n.name == hook]
    if len(methods) != 1 or not hook.startswith("on_") or not hook.endswith(("batch_end", "batch_begin", "epoch_end")):
        return []
    method = methods[0]
    names = scope_names.parameter_names(method)
    body = [s for s in method.body if not _is_docstring(s)]
    counted = body[: _counting_statements(body)]
    rest = body[len(counted) :]
    later = [one for one in rest[1:] if _counting_statements([one])]  # counters also advance in skipped calls
    if (
        len(names) < 2
        or method.decorator_list
        or _steers_training(source, method)
        or _counts_its_calls(source, classes[0], method, [*counted, *later])
    ):
        return []
    every = EPOCH_INTERVAL if "epoch" in hook else BATCH_INTERVAL
    first = rest[0] if rest else method.body[0]
    if first.lineno == method.lineno or (counted and not rest):
        return []
    unit = edits.indentation_unit(source)
    still = "".join(f"{unit}{edits.node_text(source, one)}\n" for one in later)
    return [edits.insert_before(source, first, f"if {names[1]} % {every}:\n{still}{unit}return")]


def _counting_statements(body: Sequence[ast.stmt]) -> int:
    """Return the number of leading statements that only count, such as ``self.step += 1``."""
    for at, one in enumerate(body):
        calls = [
            n
            for n in syntax_tree.walk(one)
            if isinstance(n, ast.Call) and node_lookup.called_name(n) not in ("len", "int", "float", "get")
        ]
        if not isinstance(one, ast.AugAssign) or calls:
            return at
    return len(body)


def _is_docstring(one: ast.stmt) -> bool:
    return isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)


def _steers_training(source: Source, method: ast.AST) -> bool:
    """Whether the hook, or a method that it calls, changes the model, the optimizer or the end of training."""
    for one in source.called(method):
        for node in syntax_tree.walk(one):
            if isinstance(node, ast.Attribute) and node.attr in STEERING_ATTRIBUTES:
                return True
            if isinstance(node, ast.Call) and node_lookup.called_name(node) in (
                "setattr",
                "fit",
                "train_on_batch",
                "compile",
            ):
                return True
    return False


def _counts_its_calls(source: Source, kind: ast.ClassDef, method: ast.FunctionDef, counted: Sequence[ast.stmt]) -> bool:
    """Whether the hook counts its calls outside ``counted``, or already works periodically."""
    changed = [
        n for n in syntax_tree.walk(method) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Attribute)
    ]
    changed = [n for n in changed if n not in counted]
    modulo = [n for n in syntax_tree.walk(method) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod)]
    numeric = [n for n in modulo if not (isinstance(n.left, ast.Constant) and isinstance(n.left.value, str))]
    return bool(changed or numeric or kind.keywords or _compares_counter(source, method, counted))


def _compares_counter(source: Source, method: ast.AST, counted: Sequence[ast.stmt]) -> bool:
    """Whether the hook compares a counter or branches on it."""
    names = {n.attr for one in counted for n in syntax_tree.walk(one) if isinstance(n, ast.Attribute)}
    inner = [n for f in source.called(method) for n in syntax_tree.walk(f)] if names else []
    asks = [
        n
        for n in inner
        if isinstance(n, (ast.Compare, ast.If)) or (isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod))
    ]
    parts = [n.test if isinstance(n, ast.If) else n for n in asks]
    return any(isinstance(n, ast.Attribute) and n.attr in names for part in parts for n in syntax_tree.walk(part))


def run_lambda_less_often(source: Source) -> list[Edit]:
    """Let the only ``LambdaCallback(on_batch_end=lambda batch, logs: …)`` work in every hundredth batch."""
    calls = call_index.index_of(source).called("LambdaCallback")
    call = calls[0] if len(calls) == 1 else None
    for given in call.keywords if call is not None else ():
        value = given.value
        if isinstance(value, ast.Lambda) and (given.arg or "").endswith(("batch_end", "batch_begin")):
            names = scope_names.parameter_names(value)
            if not names or _steers_training(source, value):
                return []
            text = edits.node_text(source, value.body)
            return [edits.replace_node(source, value.body, f"({text}) if {names[0]} % {BATCH_INTERVAL} == 0 else None")]
    return []


def make_callbacks_lighter(source: Source, kind: str) -> list[Edit]:
    """Remove histograms and saves within epochs from all Keras callbacks of the class ``kind``."""
    found: list[Edit] = []
    for call in call_index.index_of(source).called(kind):
        found += _remove_histograms(source, call) if kind == "TensorBoard" else _save_by_epoch(source, call, kind)
    return found


def _remove_histograms(source: Source, call: ast.Call) -> list[Edit]:
    found = []
    for given in call.keywords:
        if given.arg in FREE_SETTINGS and isinstance(given.value, ast.Constant) and given.value.value:
            found.append(edits.replace_node(source, given.value, FREE_SETTINGS[given.arg]))
        if given.arg == "update_freq" and isinstance(given.value, ast.Constant) and given.value.value != "epoch":
            found.append(edits.replace_node(source, given.value, '"epoch"'))
    return found


def _save_by_epoch(source: Source, call: ast.Call, kind: str) -> list[Edit]:
    """Replace a ``save_freq`` in batches by "epoch", if the file name contains no batch number.

    A value from ``**settings`` is changed at its origin if nothing else reads it, otherwise at the call.
    """
    if kind not in KERAS_SAVERS or _names_file_by_batch(source, call):
        return []
    freq, stars = node_lookup.argument_value(call, "save_freq"), [k for k in call.keywords if k.arg is None]
    if freq is not None:
        return (
            [] if _is_every_epoch(freq) or not _is_batch_count(freq) else [edits.replace_node(source, freq, '"epoch"')]
        )
    found = setting_origins.call_argument(source, call, "save_freq") if len(stars) == 1 else None
    if found is None or _is_every_epoch(found) or not _is_batch_count(found):
        return []
    words = [
        n
        for n in syntax_tree.walk(source.tree)
        if getattr(n, "value", None) == "save_freq" or getattr(n, "arg", None) == "save_freq"
    ]
    if len(words) == 1:
        return [edits.replace_node(source, found, '"epoch"')]
    text = edits.node_text(source, stars[0].value)
    return [edits.replace_node(source, stars[0].value, f'{{**{text}, "save_freq": "epoch"}}')]


def _is_batch_count(freq: ast.expr) -> bool:
    return not (isinstance(freq, ast.Constant) and isinstance(freq.value, str))


def _names_file_by_batch(source: Source, call: ast.Call) -> bool:
    """Whether the file name may contain the batch number."""
    if "{batch" not in source.text:
        return False
    path = node_lookup.argument_value(call, "filepath", 0)
    nodes = list(syntax_tree.walk(path)) if path is not None else []
    if any(isinstance(n, (ast.Name, ast.Attribute)) for n in nodes):
        nodes = call_index.nodes_matching(source, _BATCH_FIELD, ast.Constant)
    return any("{batch" in n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str))


def observes_batches(source: Source) -> bool:
    """Whether a callback observes single batches. Several steps per call would change what it observes."""
    methods = call_index.nodes_of_kind(source, *FUNCTION_NODES)
    if any(m.name.startswith("on_") and "batch" in m.name for m in methods if isinstance(m, FUNCTION_NODES)):
        return True
    for given in call_index.nodes_matching(source, _BATCH_SETTING, ast.keyword):
        name = getattr(given, "arg", None) or ""
        if name.startswith("on_") and "batch_" in name:
            return True
        if name in ("save_freq", "update_freq") and isinstance(given, ast.keyword) and not _is_every_epoch(given.value):
            return True
    return False


def _is_every_epoch(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value == "epoch"
