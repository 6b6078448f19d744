"""Edits that let a loop do its periodic work, such as pictures and saves, less often."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.model import Edit
from slowtrain.script.fixes.models import callback_intervals
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names, setting_origins
from slowtrain.script.properties import repeatable_functions
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, RANDOM_CALLS, Source

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
    guards = list(dict.fromkeys(_modulus_guards(source, line)))
    guard = guards[0] if len(guards) == 1 else None
    modulus = modulus_of_test(guard.test) if guard is not None else None
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


def modulus_of_test(test: ast.expr) -> ast.expr | None:
    """Return the ``60`` of ``step % 60 == 0``, ``not step % 60`` or ``step and step % 60 == 0``."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        found = [one for part in test.values if (one := modulus_of_test(part)) is not None]
        return found[0] if len(found) == 1 else None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        rest: ast.expr = test.operand
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        right = test.comparators[0]
        if not isinstance(right, ast.Constant) or right.value != 0 or isinstance(right.value, bool):
            return None
        rest = test.left
    else:
        return None
    return rest.right if isinstance(rest, ast.BinOp) and isinstance(rest.op, ast.Mod) else None


def _modulus_guards(source: Source, line: int, depth: int = 3) -> Iterator[ast.If]:
    """Yield the outermost such ``if`` around a line, or those around the calls of its function."""
    holding = [
        n for n in call_index.nodes_of_kind(source, ast.If)
        if isinstance(n, ast.If) and n.body[0].lineno <= line <= (n.body[-1].end_lineno or 0)
        and modulus_of_test(n.test) is not None
    ]  # fmt: skip
    if holding:
        yield min(holding, key=lambda n: n.lineno)
        return
    function = source.function_at(line)
    name = getattr(function, "name", "")
    if not name or not depth:
        return
    for call in call_index.index_of(source).called(name):
        yield from _modulus_guards(source, call.lineno, depth - 1)


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
        parts += [f for f in source.called(one)[1:] if f not in parts]
    return all(_only_observes(source, part) for part in parts)


def _only_observes(source: Source, part: ast.AST) -> bool:
    """Whether a statement or function only observes its inputs and stores or writes results."""
    own = _own_names(part)
    for node in syntax_tree.walk(part):
        if isinstance(node, (ast.Break, ast.Return, ast.Continue, ast.Raise)) and not isinstance(part, FUNCTION_NODES):
            return False
        if isinstance(node, (ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await, ast.Delete)):
            return False
        if isinstance(node, ast.Attribute) and (
            node.attr in callback_intervals.STEERING_ATTRIBUTES or not isinstance(node.ctx, ast.Load)
        ):
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


def _own_names(part: ast.AST) -> set[str]:
    """Return names whose objects it creates itself."""
    if not isinstance(part, FUNCTION_NODES):
        return set()
    lent = set(scope_names.parameter_names(part))
    for node in scope_names.nodes_in_scope(part.body):
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Name, ast.Attribute, ast.Subscript)):
            lent |= {n for target in node.targets for n in scope_names.bound_names(target)}
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            lent |= scope_names.bound_names(node.target)
    return scope_names.bound_names(part.body) - lent


def _root_name(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
