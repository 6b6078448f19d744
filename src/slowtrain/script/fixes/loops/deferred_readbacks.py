"""Edits that defer readbacks of a loop to its end, or to every hundredth iteration."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

REPORT_INTERVAL = 100
READ_METHODS = frozenset({"numpy", "item"})
REPORT_FUNCTIONS = frozenset(
    "print info debug warning error write flush log set_postfix set_description scalar add_scalar".split()
)
CONTROL_FLOW_NODES = (
    ast.Break, ast.Continue, ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal,
)  # fmt: skip


def defer_readbacks(source: Source, line: int) -> list[Edit]:
    """Remove the readbacks of each iteration from the innermost step loop around ``line``. Empty if not proven."""
    name = scope_names.module_alias(source, "tensorflow")
    loop = _innermost_step_loop(source, line)
    if not name or loop is None:
        return []
    found: list[Edit] = []
    seen: set[str] = set()
    for one in loop.body:
        appended = _append_tensors(source, loop, one, name)
        if appended is not None:
            if appended[0] in seen:
                return []
            seen.add(appended[0])
            found += appended[1]
    return [*found, *_report_less_often(source, loop)]


def _innermost_step_loop(source: Source, line: int) -> ast.For | ast.While | None:
    """Return the innermost loop around the line that does more than read values back."""
    around = [
        n
        for n in syntax_tree.walk(source.tree)
        if isinstance(n, (ast.For, ast.While)) and n.lineno <= line <= (n.end_lineno or n.lineno)
    ]
    around.sort(key=lambda n: -n.lineno)
    if around and isinstance(around[0], ast.For) and _unpacking_append(around[0]) is not None:
        around = around[1:]
    if not around or around[0].orelse or any(_contains_step_loop(one) for one in around[0].body):
        return None
    return around[0]


def _contains_step_loop(one: ast.stmt) -> bool:
    """Whether a statement contains a loop of steps. The iterations around it are epochs."""
    if not isinstance(one, (ast.For, ast.While)):
        return any(_contains_step_loop(inner) for field in ("body", "orelse") for inner in getattr(one, field, []))
    paired = isinstance(one, ast.For) and isinstance(one.iter, ast.Call) and node_lookup.called_name(one.iter) == "zip"
    return not paired and _unpacking_append(one) is None


# -- a list of values


def _append_tensors(source: Source, loop: ast.For | ast.While, one: ast.stmt, tf: str) -> tuple[str, list[Edit]] | None:
    """Replace ``for value in tensor: values.append(float(value))`` by ``values.append(tensor)``.

    The list is converted after the loop. Return its name and the edits.
    """
    call = _unpacking_append(one)
    owner = call.func.value if call is not None and isinstance(call.func, ast.Attribute) else None
    if call is None or not isinstance(one, ast.For) or not isinstance(owner, ast.Name):
        return None
    name, outer = owner.id, _conversion_loop(source, loop, call, owner.id)
    if outer is None:
        return None
    put = edits.replace_node(source, one, f"{name}.append({edits.node_text(source, one.iter)})")
    joined = f"{name} = {tf}.concat({name}, 0).numpy().tolist() if {name} else []"
    return name, [put, edits.insert_after(source, outer, joined)]


def _unpacking_append(one: ast.stmt) -> ast.Call | None:
    """Return the call of ``append`` in ``for value in tensor: values.append(float(value))``."""
    match one:
        case ast.For(
            target=ast.Name(id=item),
            iter=ast.Name(),
            body=[
                ast.Expr(
                    value=ast.Call(
                        func=ast.Attribute(attr="append"),
                        args=[ast.Call(func=ast.Name(id="float"), args=[ast.Name(id=read)])],
                    ) as call
                )
            ],
            orelse=[],
        ) if item == read:
            return call
    return None


def _conversion_loop(source: Source, loop: ast.stmt, call: ast.Call, name: str) -> ast.stmt | None:
    """Return the outermost loop after the creation of the list in which only ``call`` uses the list."""
    scope = scope_names.enclosing_scope(source, loop)
    binders = scope_names.binding_statements(source, name, scope)
    if (
        len(binders) != 1
        or not isinstance(binders[0], ast.Assign)
        or ast.unparse(binders[0].value) not in ("[]", "list()")
    ):
        return None
    if len(binders[0].targets) != 1 or any(
        isinstance(n, FUNCTION_NODES) and name in scope_names.read_names(n) for n in scope_names.nodes_in_scope(scope)
    ):
        return None
    found = None
    inside = {id(n) for n in syntax_tree.walk(call)}
    for one in [loop, *scope_names.enclosing_loops(source, loop)]:
        if any(n is binders[0] for n in syntax_tree.walk(one)):
            break
        others = (n for n in syntax_tree.walk(one) if isinstance(n, ast.Name) and n.id == name and id(n) not in inside)
        if next(others, None) is not None:
            break
        found = one
    return found


# -- reports


def _report_less_often(source: Source, loop: ast.For | ast.While) -> list[Edit]:
    """Run statements that only report values in every hundredth iteration."""
    runs = [r for r in _report_runs(source, loop) if any(_is_readback(s) and not _is_periodic(s) for s in r)]
    if len(runs) != 1:
        return []
    run = runs[0]
    rows = source.text.split("\n")
    first, last = run[0], run[-1]
    start, stop = first.lineno, last.end_lineno or last.lineno
    indent = rows[start - 1][: first.col_offset]
    if moved_statements.edits_cross_strings(run) or not moved_statements.own_their_lines(source, run):
        return []
    counted, counting = _iteration_counter(source, loop, first)
    unit = edits.indentation_unit(source)
    shifts = [edits.insert_text(source, (n, 0), unit) for n in range(start + 1, stop + 1) if rows[n - 1].strip()]
    head = edits.insert_text(source, (start, 0), f"{indent}if {counted} % {REPORT_INTERVAL} == 0:\n{unit}")
    return [*counting, head, *shifts]


def _is_periodic(one: ast.stmt) -> bool:
    """``if step % 200 == 0:``"""
    return isinstance(one, ast.If) and any(isinstance(n, ast.Mod) for n in ast.walk(one.test))


def _report_runs(source: Source, loop: ast.For | ast.While) -> list[list[ast.stmt]]:
    """Return runs of consecutive statements that report values or only prepare a report."""
    runs: list[list[ast.stmt]] = []
    current: list[ast.stmt] = []
    for one in [*loop.body, None]:
        if one is not None and (_is_report(one) or _prepares_report(one)):
            current.append(one)
            continue
        while current and not _is_report(current[-1]):
            current.pop()
        if current and _is_self_contained(source, loop, current):
            runs.append(current)
        current = []
    return runs


def _is_report(one: ast.stmt) -> bool:
    """Whether the statement prints or logs, or is an ``if`` that only raises."""
    if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call):
        return node_lookup.called_name(one.value) in REPORT_FUNCTIONS
    if isinstance(one, ast.If) and not one.orelse and len(one.body) == 1:
        return isinstance(one.body[0], ast.Raise) or _is_report(one.body[0])
    return False


def _prepares_report(one: ast.stmt) -> bool:
    """Whether the statement assigns a value that is read back, for a report."""
    if not isinstance(one, ast.Assign) or not all(isinstance(t, ast.Name) for t in one.targets):
        return False
    calls = {node_lookup.called_name(n) for n in syntax_tree.walk(one.value) if isinstance(n, ast.Call)}
    return _is_readback(one) and not calls & {"train_on_batch", "fit", "next", "gradient", "append", "pop"}


def _is_self_contained(source: Source, loop: ast.stmt, run: list[ast.stmt]) -> bool:
    """Whether no other code reads names bound by the statements, and none of them leaves the iteration."""
    inside = {id(n) for one in run for n in syntax_tree.walk(one)}
    if any(isinstance(n, (*CONTROL_FLOW_NODES, ast.NamedExpr)) for one in run for n in syntax_tree.walk(one)):
        return False
    bound = scope_names.bound_names(run)
    for one in scope_names.scope_body(scope_names.enclosing_scope(source, loop)):
        for node in syntax_tree.walk(one):
            if isinstance(node, ast.Name) and node.id in bound and id(node) not in inside:
                return False
    return bool(run)


def _is_readback(one: ast.stmt) -> bool:
    """Whether the statement converts tensors to Python numbers or text: ``.numpy()``, ``float(t)``, ``{t:.3f}``."""
    for node in syntax_tree.walk(one):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in (*READ_METHODS, "result"):
                return True
            if isinstance(node.func, ast.Name) and node.func.id == "float":
                return True
    return _is_report(one) and any(isinstance(n, ast.Name) and "loss" in n.id for n in syntax_tree.walk(one))


def _iteration_counter(source: Source, loop: ast.For | ast.While, first: ast.stmt) -> tuple[str, list[Edit]]:
    """Return a name that counts the iterations, and the edits that add it if it is new."""
    if isinstance(loop, ast.For):
        over, target = loop.iter, loop.target
        name = node_lookup.called_name(over) if isinstance(over, ast.Call) else ""
        if isinstance(over, ast.Call) and name == "range" and isinstance(target, ast.Name) and len(over.args) < 3:
            return target.id, []
        if name == "enumerate" and isinstance(target, ast.Tuple) and isinstance(target.elts[0], ast.Name):
            return target.elts[0].id, []
    for one in loop.body:
        if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name) and isinstance(one.op, ast.Add):
            by_one = isinstance(one.value, ast.Constant) and one.value.value == 1
            if by_one and one.lineno < first.lineno:
                return one.target.id, []
    name = moved_statements.free_name(source, "turn", "turn_number")
    outermost = [loop, *scope_names.enclosing_loops(source, loop)][-1]
    return name, [
        edits.insert_before(source, outermost, f"{name} = -1"),
        edits.insert_before(source, loop.body[0], f"{name} += 1"),
    ]
