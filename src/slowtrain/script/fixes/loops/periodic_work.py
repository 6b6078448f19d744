"""Edits that let callbacks and periodic work of a loop run less often. The training itself stays the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from slowtrain.model import Edit
from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names, setting_origins
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, RANDOM_CALLS, Source

BATCH_INTERVAL = 100
EPOCH_INTERVAL = 10
KERAS_SAVERS = ("ModelCheckpoint", "BackupAndRestore")
# Attributes by which a callback may change the training.
STEERING_ATTRIBUTES = frozenset(
    "stop_training learning_rate lr set_weights assign assign_add assign_sub set_value trainable".split()
)
FREE_SETTINGS = {"histogram_freq": "0", "write_images": "False", "write_graph": "False", "profile_batch": "0"}
_BATCH_SETTING = re.compile(r"\b(?:on_\w*batch_\w*|save_freq|update_freq)\s*=")


def run_hook_less_often(source: Source, kind: str, hook: str) -> list[Edit]:
    """Let the method ``hook`` of the class ``kind`` return early, except in every hundredth batch or tenth epoch."""
    classes = [n for n in call_index.nodes_of_class(source, ast.ClassDef) if n.name == kind]
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
    for one in source.reachable_functions(method):
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
    inner = [n for f in source.reachable_functions(method) for n in syntax_tree.walk(f)] if names else []
    asks = [
        n
        for n in inner
        if isinstance(n, (ast.Compare, ast.If)) or (isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod))
    ]
    parts = [n.test if isinstance(n, ast.If) else n for n in asks]
    return any(isinstance(n, ast.Attribute) and n.attr in names for part in parts for n in syntax_tree.walk(part))


def make_callbacks_lighter(source: Source, kind: str) -> list[Edit]:
    """Remove histograms and saves within epochs from all Keras callbacks of the class ``kind``."""
    found: list[Edit] = []
    for call in call_index.index_of(source).calls_of(kind):
        found += _remove_histograms(source, call) if kind == "TensorBoard" else _save_by_epoch(source, call, kind)
    return found


def _remove_histograms(source: Source, call: ast.Call) -> list[Edit]:
    found = []
    for keyword in call.keywords:
        if keyword.arg in FREE_SETTINGS and isinstance(keyword.value, ast.Constant) and keyword.value.value:
            found.append(edits.replace_node(source, keyword.value, FREE_SETTINGS[keyword.arg]))
        if keyword.arg == "update_freq" and isinstance(keyword.value, ast.Constant) and keyword.value.value != "epoch":
            found.append(edits.replace_node(source, keyword.value, '"epoch"'))
    return found


def _save_by_epoch(source: Source, call: ast.Call, kind: str) -> list[Edit]:
    """Replace a ``save_freq`` in batches by "epoch", if no file name contains a batch number."""
    freq = node_lookup.argument_value(call, "save_freq")
    if kind not in KERAS_SAVERS or freq is None or "{batch" in source.text:
        return []
    text = isinstance(freq, ast.Constant) and isinstance(freq.value, str)
    return [] if text else [edits.replace_node(source, freq, '"epoch"')]


def observes_batches(source: Source) -> bool:
    """Whether a callback observes single batches. Several steps per call would change what it observes."""
    methods = call_index.nodes_of_kind(source, *FUNCTION_NODES)
    if any(m.name.startswith("on_") and "batch" in m.name for m in methods if isinstance(m, FUNCTION_NODES)):
        return True
    for keyword in call_index.nodes_matching(source, _BATCH_SETTING, ast.keyword):
        name = getattr(keyword, "arg", None) or ""
        if name.startswith("on_") and "batch_" in name:
            return True
        if (
            name in ("save_freq", "update_freq")
            and isinstance(keyword, ast.keyword)
            and not _is_every_epoch(keyword.value)
        ):
            return True
    return False


def _is_every_epoch(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value == "epoch"


# Methods that do not affect the training: reports, files, pictures, copies.
OBSERVING_METHODS = frozenset(
    "append write writelines flush close fileno print info debug warning error log log_metrics scalar add_scalar "
    "numpy item copy tolist astype reshape transpose mean std min max sum ptp clip round tobytes items keys values get "
    "get_weights save save_weights savez dump dumps savefig imshow plot scatter hist bar set_title set_xlabel "
    "set_ylabel legend subplots figure tight_layout join format encode decode split strip getvalue result mkdir exists "
    "summary commit execute image histogram rename replace".split()
)
TRAINING_METHODS = frozenset(
    "fit train_on_batch train_step compile apply_gradients apply gradient next shuffle seed set_seed "
    "clear_session setattr exec eval reset_state reset_states".split()
)


def run_guarded_less_often(source: Source, line: int, rarer: int, period: float | None = None) -> list[Edit]:
    """Multiply the number of ``if step % 60 == 0:`` around ``line``, or around the call of its function, by ``rarer``.

    The guarded code must not affect the training, its data or its random numbers. ``period``: measured steps between
    two runs of the work. A known number must match it.
    """
    guard = modulus_guard(source, line)
    modulus = modulus_of_guard(guard) if guard is not None else None
    if guard is None or modulus is None or rarer < 2 or not _is_independent_of_steps(source, guard):
        return []
    now = setting_origins.literal_int(source, modulus)
    if (now is None and not isinstance(modulus, (ast.Name, ast.Attribute))) or (now is not None and now < 1):
        return []
    if period is not None and now is not None and abs(now - period) > 0.1 * period:
        return []
    if isinstance(modulus, ast.Constant):
        return [edits.replace_node(source, modulus, str((now or 1) * rarer))]
    return [edits.replace_node(source, modulus, f"({rarer} * {edits.node_text(source, modulus)})")]


def enlarge_modulus(source: Source, line: int, rarer: int) -> list[Edit]:
    """Enlarge the number of ``if step % 5 == 0:`` around ``line``. Inner periods stay multiples of it."""
    outer = modulus_guard(source, line)
    modulus = modulus_of_guard(outer) if outer is not None else None
    now = setting_origins.literal_int(source, modulus) if modulus is not None else None
    if (
        outer is None
        or modulus is None
        or not now
        or rarer < 2
        or _decides_on_training(outer)
        or _affects_training(source, outer)
    ):
        return []
    inner = [
        setting_origins.literal_int(source, m)
        for n in syntax_tree.walk(outer)
        if n is not outer and (m := modulus_of_guard(n)) is not None
    ]
    fits = [k for k in range(2, 10 * rarer) if all(i is not None and i % (now * k) == 0 for i in inner)]
    best = min(fits, key=lambda k: abs(k - rarer), default=None)
    if best is None:
        return []
    if isinstance(modulus, ast.Constant):
        return [edits.replace_node(source, modulus, str(now * best))]
    text = edits.node_text(source, modulus)
    return [edits.replace_node(source, modulus, f"({best} * {text})")]


def modulus_guard(source: Source, line: int, depth: int = 3) -> ast.If | None:
    """Return the outermost ``if step % 5 == 0:`` around ``line``, or around the only call of its function."""
    tests = [
        n
        for n in call_index.nodes_of_kind(source, ast.If)
        if isinstance(n, ast.If) and n.lineno <= line <= (n.end_lineno or 0) and modulus_of_guard(n) is not None
    ]
    if tests or not depth:
        return min(tests, key=lambda n: n.lineno, default=None)
    name = getattr(source.function_at(line), "name", "")
    calls = call_index.index_of(source).calls_of(name) if name else []
    return modulus_guard(source, calls[0].lineno, depth - 1) if len(calls) == 1 else None


def modulus_of_guard(node: ast.AST) -> ast.expr | None:
    """Return the ``5`` of ``if step % 5 == 0``."""
    match node:
        case ast.If(
            test=ast.Compare(
                left=ast.BinOp(
                    op=ast.Mod(), right=ast.Constant() | ast.Name() | ast.Attribute() | ast.Subscript() as modulus
                ),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value=0)],
            )
        ):
            return modulus
    return None


def _affects_training(source: Source, guard: ast.If) -> bool:
    """Whether a periodically called function draws random numbers, steers the training or keeps results.

    A metric that only this function uses does not count.
    """
    for function in [f for one in guard.body for f in source.reachable_functions(one)[1:]]:
        if repeatable_functions.draws_or_mutates(source, function) or _steers_or_saves(function):
            return True
        called = {node_lookup.called_name(n) for n in syntax_tree.walk(function) if isinstance(n, ast.Call)}
        if called & {"append", "fit", "train_on_batch", "apply_gradients", "gradient"}:
            return True
    return False


def _decides_on_training(node: ast.AST) -> bool:
    """Whether periodic work decides about the training, or keeps the best result."""
    ends = (ast.Break, ast.Return, ast.Continue, ast.Raise)
    return any(isinstance(n, ends) for n in syntax_tree.walk(node)) or _steers_or_saves(node)


def _steers_or_saves(node: ast.AST) -> bool:
    """Whether it steers the training or saves."""
    named = [n.attr for n in syntax_tree.walk(node) if isinstance(n, ast.Attribute)]
    return any(name in STEERING_ATTRIBUTES or name.startswith("save") for name in named)


def _is_independent_of_steps(source: Source, guard: ast.If) -> bool:
    """Whether the steps need nothing that the periodic work produces."""
    loops = scope_names.enclosing_loops(source, guard)
    around = loops[-1] if loops else node_lookup.enclosing_function(source, guard)  # a function that the loop calls
    if guard.orelse or around is None:
        return False
    inside = {id(n) for one in guard.body for n in syntax_tree.walk(one)}
    bound = scope_names.bound_names(guard.body)
    for node in syntax_tree.walk(around):
        if isinstance(node, ast.Name) and node.id in bound and id(node) not in inside:
            return False
    for one in guard.body:  # the best value so far is also checked less often
        asked = [n.test for n in syntax_tree.walk(one) if isinstance(n, (ast.If, ast.IfExp))]
        if any(scope_names.read_names(test) & bound for test in asked):
            return False
    parts: list[ast.AST] = [*guard.body]
    for one in guard.body:
        parts += [f for f in source.reachable_functions(one)[1:] if f not in parts]
    return all(_only_observes(source, part) for part in parts)


def _only_observes(source: Source, part: ast.AST) -> bool:
    """Whether a statement or function only observes its inputs and stores or writes results."""
    own = moved_statements.own_names(part) if isinstance(part, FUNCTION_NODES) else set()
    for node in syntax_tree.walk(part):
        if isinstance(node, (ast.Break, ast.Return, ast.Continue, ast.Raise)) and not isinstance(part, FUNCTION_NODES):
            return False
        if isinstance(node, (ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await, ast.Delete)):
            return False
        if isinstance(node, ast.Attribute) and (node.attr in STEERING_ATTRIBUTES or not isinstance(node.ctx, ast.Load)):
            return False
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and _root_name(node) not in own:
            return False
        if isinstance(node, ast.Call) and not _is_harmless_call(source, node, own):
            return False
    return True


def _is_harmless_call(source: Source, call: ast.Call, own: set[str]) -> bool:
    name, whole = node_lookup.called_name(call), name_bindings.qualified_name(source, call.func)
    if name in TRAINING_METHODS or name in RANDOM_CALLS or name.startswith(("random", "stateless_random")):
        return False
    if (
        whole or node_lookup.function_named(source, name) is not None
    ):  # a library function, or one that is checked separately
        return True
    if isinstance(call.func, ast.Name):
        return name in repeatable_functions.DETERMINISTIC_BUILTINS or name == "vars"
    return name in OBSERVING_METHODS or _root_name(call.func) in own


def _root_name(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
