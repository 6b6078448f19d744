"""How often the line that takes a step runs in total, as far as the script's text shows.

Only number literals count, and names that are assigned one once. Command lines, files and objects are unknown. If
something may leave a loop early or skip a step, the number is a maximum.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from math import inf, prod

from msgspec import Struct

from slowtrain.script.navigation import call_index, class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source, cache_recent
from slowtrain.trace.signals.host.source_lines import calls_at

MAX_DEPTH = 8  # nested names and expressions
MAX_CALLER_DEPTH = 4  # nested functions around the step
MAX_CALLS = 8  # calls of one function
MAX_STEPS = 10**12  # more steps than any run takes
TRANSPARENT_CALLS = frozenset({"enumerate", "tqdm", "list", "reversed", "sorted"})  # keep the number of items
EXIT_CALLS = frozenset({"exit", "quit", "_exit", "abort", "kill"})
GRADIENT_CALLS = ("gradient", "minimize")
BATCH_CALL = "train_on_batch"
FUNCTION_PREFIX = "function "  # prefix of the source of steps that are function calls
# Nodes that may skip their parts.
CONDITIONAL_NODES = (ast.IfExp, ast.BoolOp, ast.Match, ast.ExceptHandler, ast.Assert)
UNCOUNTABLE_NODES = (ast.While, ast.AsyncFor, ast.Lambda, ast.AsyncFunctionDef, *scope_names.COMPREHENSIONS)


class StepCount(Struct, frozen=True):
    """``turns``: the iterations of the loops whose heads say their number. Without ``head`` each iteration is a step.

    Else each iteration runs the loop at the lines ``head`` (first and last), whose number of iterations is unknown.
    ``line``: the outermost loop. ``at_most``: something may end a loop early or skip a step.
    """

    turns: int
    at_most: bool
    line: int
    head: tuple[int, int] | None = None


@cache_recent(8)
def static_step_count(source: Source, step: str, line: int) -> StepCount | None:
    """The total count of a step at ``line``; None if the text does not say it.

    ``step``: the source of the steps: ``gradient``, ``train_on_batch``, ``function train_step``.
    """
    if "slowtrain" in source.words:
        return None  # it may record a part of itself, and the text does not say which iterations come before
    sites = _step_calls(source, step, line)
    return (
        _summed_counts(_count_at(source, site, MAX_CALLER_DEPTH) for site in sites) if len(sites) <= MAX_CALLS else None
    )


def _summed_counts(several: Iterable[StepCount | None]) -> StepCount | None:
    """The sum of several counts; None if one is unknown. With a loop of unknown length all must be that loop."""
    every: list[StepCount] = []
    for one in several:
        if one is None:
            return None  # the others need not be computed
        every.append(one)
    if not every:
        return None
    first, at_most = every[0], any(one.at_most for one in every)
    if any(one.head is not None for one in every):
        same = all((one.turns, one.head) == (first.turns, first.head) for one in every)
        return StepCount(first.turns, at_most, first.line, first.head) if same else None
    total = sum(one.turns for one in every)
    return StepCount(total, at_most, first.line) if total <= MAX_STEPS else None


def _step_calls(source: Source, step: str, line: int) -> list[ast.Call]:
    """The calls each of which is a step; empty if this is not certain."""
    if step == "gradient":
        here = [c for c in calls_at(source.tree, line) if node_lookup.called_name(c) in GRADIENT_CALLS]
        return here if len(here) == 1 else []
    name = step.removeprefix(FUNCTION_PREFIX)
    if step == BATCH_CALL:
        names, wrapped = {name}, set[ast.expr]()
    elif (
        name != step
        and sum(getattr(f, "name", "") == name for f in call_index.nodes_of_kind(source, ast.FunctionDef)) < 2
    ):
        names, wrapped = _function_aliases(source, name)
    else:
        return []
    calls = call_index.index_of(source).calls_of(*names)
    if not any(c.lineno <= line <= (c.end_lineno or c.lineno) for c in calls):
        return []
    if step != BATCH_CALL and len({ast.dump(c.func) for c in calls}) > 1:
        return []  # several objects may have a method of that name
    return calls if _is_only_called(source, names, {*wrapped, *(c.func for c in calls)}) else []


def _function_aliases(source: Source, name: str) -> tuple[set[str], set[ast.expr]]:
    """``step`` of ``step = tf.function(train_step)`` besides the name itself, and the nodes that wrap it."""
    names, wrapped = {name}, set[ast.expr]()
    for node in call_index.nodes_of_kind(source, ast.Assign):
        value = node.value if isinstance(node, ast.Assign) else None
        if (
            not isinstance(node, ast.Assign)
            or not isinstance(value, ast.Call)
            or node_lookup.called_name(value) != "function"
        ):
            continue
        if value.args and scope_names.dotted_name(value.args[0]).rpartition(".")[2] == name:
            wrapped.add(value.args[0])
            names |= {scope_names.dotted_name(target).rpartition(".")[2] for target in node.targets}
    return names - {""}, wrapped


def _is_only_called(source: Source, names: set[str], known: set[ast.expr]) -> bool:
    """Whether one of these names is read nowhere else; a function that is passed on may be called elsewhere."""
    return all(node in known for name in names for node in _reads_by_name(source).get(name, ()))


@cache_recent(4)
def _reads_by_name(source: Source) -> dict[str, list[ast.expr]]:
    """Where each name is read, as a name or as an attribute."""
    found: dict[str, list[ast.expr]] = {}
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            found.setdefault(node.id if isinstance(node, ast.Name) else node.attr, []).append(node)
    return found


# -- the loops around a call, and around the calls of its function


def _count_at(source: Source, node: ast.AST, depth: int) -> StepCount | None:
    loops: list[ast.For] = []
    at_most = False
    above = node_lookup.parents_of(source)
    child, at = node, above.get(node)
    while at is not None and not (isinstance(at, ast.FunctionDef) and child in at.body):
        if isinstance(at, UNCOUNTABLE_NODES):
            return None
        if isinstance(at, ast.For) and child in at.body:
            loops.append(at)
            at_most |= _may_skip_step(source, at, node)
        else:
            at_most |= _may_be_skipped(at, child)
        child, at = at, above.get(at)
    outer = (
        StepCount(1, False, getattr(child, "lineno", 1)) if at is None else _count_of_callers(source, at, child, depth)
    )
    return _count_in_loops(source, loops, at_most, outer) if outer is not None else None


def _count_in_loops(source: Source, loops: Sequence[ast.For], at_most: bool, outer: StepCount) -> StepCount | None:
    """The count of ``loops``, the innermost first, in each iteration of ``outer``."""
    at_most |= outer.at_most
    if outer.head is not None:
        return StepCount(outer.turns, at_most, outer.line, outer.head)
    known: list[int] = [outer.turns]
    head = None
    for loop in reversed(loops):
        length = _literal_turns(source, loop.iter, MAX_DEPTH)
        if length is None:
            if not _iterates_one_object(source, loop.iter):
                return None
            head = (loop.lineno, loop.iter.end_lineno or loop.lineno)
            break
        known.append(length)
    line = outer.line if outer.turns > 1 or not loops else loops[-1].lineno
    total = prod(known)
    return StepCount(total, at_most, line, head) if total <= MAX_STEPS else None


def _count_of_callers(source: Source, function: ast.AST, statement: ast.AST, depth: int) -> StepCount | None:
    """The count of all calls of a function. ``statement``: the one in its body that takes the step."""
    if not isinstance(function, ast.FunctionDef) or not depth:
        return None
    own = list(scope_names.nodes_in_scope(function.body))
    if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in own):
        return None
    calls = _calls_of_function(source, function)
    found = _summed_counts(_count_at(source, call, depth - 1) for call in calls)
    if found is None:
        return None
    before = getattr(statement, "lineno", 0)
    leaves = any(isinstance(n, (ast.Return, ast.Raise)) and n.lineno < before for n in own)
    return StepCount(found.turns, found.at_most or leaves, found.line, found.head)


@cache_recent(64)
def _calls_of_function(source: Source, function: ast.FunctionDef) -> list[ast.Call]:
    """All calls of a function; empty if it may be called in other ways too."""
    if node_lookup.function_named(source, function.name) is not function:
        return []
    if any(
        scope_names.dotted_name(one).rpartition(".")[2] != "function"
        for one in map(_decorator_callee, function.decorator_list)
    ):
        return []  # a decorator may call it as often as it likes
    method = class_members.is_method(source, function)
    kind = ast.Attribute if method else ast.Name
    calls = [call for call in call_index.index_of(source).calls_of(function.name) if isinstance(call.func, kind)]
    known = {call.func for call in calls}
    if len(calls) > (1 if method else MAX_CALLS) or not _is_only_called(source, {function.name}, known):
        return []
    return [] if function.name in _stored_names(source) else calls


def _decorator_callee(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


@cache_recent(4)
def _stored_names(source: Source) -> frozenset[str]:
    """All names that are assigned anywhere."""
    names = (n for n in call_index.nodes_of_class(source, ast.Name) if not isinstance(n.ctx, ast.Load))
    return frozenset(n.id for n in names)


def _may_be_skipped(at: ast.AST, child: ast.AST) -> bool:
    """Whether its parent, or an exception in it, may skip ``child``."""
    if isinstance(at, ast.If):
        return child is not at.test and not (_is_main_test(at.test) and child in at.body)
    if isinstance(at, ast.Try):
        return bool(at.handlers) or child in at.orelse
    if isinstance(at, ast.With):
        opened = (one.context_expr for one in at.items)
        return any(isinstance(one, ast.Call) and node_lookup.called_name(one) == "suppress" for one in opened)
    if isinstance(at, ast.For):
        return child in at.orelse
    return isinstance(at, CONDITIONAL_NODES) or at.__class__.__name__ == "TryStar"


def _is_main_test(test: ast.expr) -> bool:
    """Whether it is ``__name__ == "__main__"``, which holds in the recorded script."""
    return ast.unparse(test) in ("__name__ == '__main__'", "'__main__' == __name__")


def _may_skip_step(source: Source, loop: ast.For, step: ast.AST) -> bool:
    """Whether something in a loop may end it early, or start the next iteration without the step."""
    ends, next_turn = _early_exits(source, loop)
    return ends or next_turn < getattr(step, "lineno", 0)


@cache_recent(512)
def _early_exits(source: Source, loop: ast.For) -> tuple[bool, float]:
    """Whether something in a loop may end it early, and the first line that may start its next iteration."""
    nodes = list(scope_names.nodes_in_scope(loop.body))
    mine = [n for n in nodes if isinstance(n, (ast.Break, ast.Continue)) and _enclosing_loop(source, n) is loop]
    next_turn = min((n.lineno for n in mine if isinstance(n, ast.Continue)), default=inf)
    if any(isinstance(n, (ast.Return, ast.Raise)) or _is_exit_call(n) for n in nodes):
        return True, next_turn
    inside = (n for function in source.reachable_functions(loop)[1:] for n in syntax_tree.walk(function))
    ends = any(isinstance(n, ast.Break) for n in mine) or any(
        isinstance(n, ast.Raise) or _is_exit_call(n) for n in inside
    )
    return ends, next_turn


def _is_exit_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and node_lookup.called_name(node) in EXIT_CALLS


def _enclosing_loop(source: Source, node: ast.AST) -> ast.AST | None:
    """The loop that a ``break`` or ``continue`` belongs to."""
    above = node_lookup.parents_of(source)
    child, at = node, above.get(node)
    while at is not None and not (isinstance(at, scope_names.LOOP_NODES) and child in at.body):
        child, at = at, above.get(at)
    return at


def _iterates_one_object(source: Source, over: ast.expr) -> bool:
    """Whether a loop iterates one object, so that each pass over a data set makes one iterator at its head.

    ``zip`` makes several at once, ``chain`` one after the other.
    """
    method = False
    while isinstance(over, ast.Call):
        if node_lookup.called_name(over) in (*TRANSPARENT_CALLS, "iter") and over.args:
            over = over.args[0]
        elif isinstance(over.func, ast.Attribute):  # data.map(f)
            over, method = over.func.value, True
        else:
            return node_lookup.function_named(source, node_lookup.called_name(over)) is not None
    while isinstance(over, (ast.Attribute, ast.Subscript)):
        over = over.value
    if not isinstance(over, ast.Name):
        return False
    imported = any(
        isinstance(one, ast.alias)
        for one in name_bindings.bindings_of(name_bindings.binding_scope(source, over, over.id), over.id)
    )
    module = scope_names.import_aliases(source).get(over.id, over.id)
    return not (method and imported) or module.partition(".")[0] == "tensorflow"  # itertools.chain(a, b)


# -- number literals


def _literal_turns(source: Source, over: ast.expr, depth: int) -> int | None:
    """The number of iterations of a loop over this; None if unknown."""
    if isinstance(over, (ast.List, ast.Tuple)):
        return None if any(isinstance(e, ast.Starred) for e in over.elts) else len(over.elts)
    if not isinstance(over, ast.Call) or not depth:
        return None
    name = node_lookup.called_name(over)
    if node_lookup.function_named(source, name) is not None or any(isinstance(a, ast.Starred) for a in over.args):
        return None
    if isinstance(over.func, ast.Attribute) and name not in ("tqdm", "trange"):
        return None
    if name in TRANSPARENT_CALLS:
        return _literal_turns(source, over.args[0], depth - 1) if over.args else None
    if name not in ("range", "trange") or not 1 <= len(over.args) <= 3:
        return None
    bounds = [_literal_int(source, one, depth - 1) for one in over.args]
    known = [one for one in bounds if one is not None]
    if len(known) < len(bounds) or (len(known) == 3 and not known[2]):
        return None
    return len(range(*known))


def _literal_int(source: Source, node: ast.expr | None, depth: int) -> int | None:
    """An int of limited size, as are all intermediate results; else None."""
    found = _int_of_node(source, node, depth) if node is not None and depth else None
    return found if found is not None and abs(found) <= MAX_STEPS else None


def _int_of_node(source: Source, node: ast.expr, depth: int) -> int | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int) and not isinstance(node.value, bool) else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _literal_int(source, node.operand, depth - 1)
        return None if value is None else -value
    if isinstance(node, ast.BinOp):
        left, right = _literal_int(source, node.left, depth - 1), _literal_int(source, node.right, depth - 1)
        return _int_operation(node.op, left, right) if left is not None and right is not None else None
    return _int_of_name(source, node, depth) if isinstance(node, ast.Name) else None


def _int_operation(op: ast.operator, left: int, right: int) -> int | None:
    if isinstance(op, ast.FloorDiv):
        return left // right if right else None
    plain = {ast.Add: left + right, ast.Sub: left - right, ast.Mult: left * right}
    return plain.get(type(op))


@cache_recent(512)
def _int_of_name(source: Source, node: ast.Name, depth: int) -> int | None:
    """The int of a name's only assignment, or of a parameter to which all calls give the same."""
    where = name_bindings.binding_scope(source, node, node.id)
    bound = list(name_bindings.bindings_of(where, node.id))
    elsewhere = {name for n in call_index.nodes_of_kind(source, ast.Nonlocal) for name in getattr(n, "names", ())}
    if len(bound) != 1 or node.id in elsewhere:
        return None
    if not isinstance(bound[0], ast.arg) or not isinstance(where, FUNCTION_NODES):
        return _literal_int(source, name_bindings.single_assignment(source, node), depth - 1)
    calls = _calls_of_function(source, where) if isinstance(where, ast.FunctionDef) else []
    first = _literal_int(source, _argument_for(source, where, calls[0], node.id), depth - 1) if calls else None
    same = first is not None and all(
        _literal_int(source, _argument_for(source, where, call, node.id), depth - 1) == first for call in calls[1:]
    )
    return first if same else None


def _argument_for(source: Source, function: class_members.Function, call: ast.Call, name: str) -> ast.expr | None:
    """The argument that a call gives a parameter, or its default."""
    if any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    places = class_members.positional_parameters(source, function)
    value = node_lookup.argument_value(call, name, places.index(name) if name in places else None)
    return value if value is not None else class_members.parameter_defaults(function).get(name)
