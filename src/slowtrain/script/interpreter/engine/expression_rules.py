"""The interpreter's expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from slowtrain.script.interpreter.domain import operators, shape_rules
from slowtrain.script.interpreter.domain.abstract_values import (
    EACH_ITEM,
    MAX_ITEMS,
    NO_VALUE,
    NOT_KNOWN,
    UNKNOWN,
    CallArgs,
    Value,
    constant_value,
    formatted_text,
    join_two,
    join_values,
    sequence_value,
)
from slowtrain.script.interpreter.domain.call_events import Loop
from slowtrain.script.interpreter.engine import branch_conditions, call_resolution, project_modules
from slowtrain.script.interpreter.library import framework_calls, pandas_tables, random_draws
from slowtrain.script.navigation import name_bindings, node_lookup, scope_names

if TYPE_CHECKING:
    from slowtrain.script.interpreter.domain.name_scope import Scope
    from slowtrain.script.interpreter.engine.interpreter import Interpreter


def expression_result(machine: Interpreter, node: ast.expr, scope: Scope) -> Value:
    does = _EXPRESSION_RULES.get(node.__class__)
    if does is not None:
        found: Value = does(machine, node, scope)
        return found
    return join_values([UNKNOWN.varying_in(machine.value(n, scope).varies) for n in ast.iter_child_nodes(node)
                   if isinstance(n, ast.expr)])  # fmt: skip


def _attribute_value(machine: Interpreter, node: ast.Attribute, scope: Scope) -> Value:
    written = scope_names.dotted_name(node)
    if written and scope.find(written.partition(".")[0]) is None:
        own = project_modules.imported_value(machine, written)
        if own is not None:
            return own
        full = name_bindings.qualified_name(machine.source, node)
        if full and project_modules.imported_value(machine, scope_names.dotted_name(node.value)) is None:
            return Value("library", name=full)
    on = machine.value(node.value, scope)
    if on.kind == "library":
        return Value("library", name=f"{on.name}.{node.attr}")
    found = operators.find_attribute(on, node.attr) if on.kind in ("object", "class") else on.items.get(node.attr)
    if found is not None and on.kind in ("object", "class", "keras"):
        if found.kind == "method" and found.of is not None and found.of.dtype in ("property", "cached_property"):
            made = machine.call(found, CallArgs(node))
            if found.of.dtype == "cached_property":
                on.items[node.attr] = made
            return made
        return found
    return framework_calls.library_attribute(on, node.attr)


def _name_value(machine: Interpreter, node: ast.Name, scope: Scope) -> Value:
    found = scope.find(node.id)
    if found is not None:
        return found
    own = project_modules.imported_value(machine, node.id) if node.id not in framework_calls.BUILTIN_NAMES else None
    if own is not None:
        return own
    full = name_bindings.qualified_name(machine.source, node)
    if full:
        return Value("library", name=full)
    if node.id == "__name__":
        return constant_value("__main__")
    return Value("library", name=node.id) if node.id in framework_calls.BUILTIN_NAMES else UNKNOWN


def _call_value(machine: Interpreter, node: ast.Call, scope: Scope) -> Value:
    name = ""
    if isinstance(node.func, ast.Attribute):
        callee = _attribute_value(machine, node.func, scope)
        if callee.kind == "unknown":
            name = f".{node.func.attr}"
    else:
        callee = machine.value(node.func, scope)
    if callee.name == "super" and callee.kind == "library":
        return _super_object(scope)
    args: list[Value] = []
    for one in node.args:
        given = machine.value(one.value if isinstance(one, ast.Starred) else one, scope)
        if isinstance(one, ast.Starred):
            args += (
                given.items.values()
                if given.kind in ("list", "tuple", "dict")
                else [operators.item_value(given, NOT_KNOWN)]
            )
        else:
            args.append(given)
    del args[MAX_ITEMS:]
    keywords: dict[str, Value] = {}
    for key in node.keywords:
        given = machine.value(key.value, scope)
        keywords |= {key.arg: given} if key.arg else {str(k): v for k, v in given.items.items()}
    if name and isinstance(node.func, ast.Attribute):
        on = machine.value(node.func.value, scope) if not isinstance(node.func.value, ast.Call) else UNKNOWN
        made = CallArgs(node, args, keywords)
        if name == ".update" and on.kind == "unknown" and keywords and not args:
            call_resolution.assume_mapping(machine, node.func.value, on, scope).items.update(keywords)
        call_resolution.run_handed_functions(machine, made)
        drawn = node.func.attr in random_draws.NUMPY_ONLY_DRAWS
        gives = lambda: random_draws.numpy_draw(machine, name[1:], made) if drawn else UNKNOWN.varying_in(on.varies)  # noqa: E731
        return call_resolution.recorded_result(machine, name, on, made, gives)
    return machine.call(callee, CallArgs(node, args, keywords))


def _super_object(scope: Scope) -> Value:
    """The object of a method as its base class sees it."""
    me = scope.find("self")
    kind = scope.kind
    if me is None or kind is None or kind.kind != "class":
        return UNKNOWN
    base = next((b for b in kind.data if b.kind == "class"), None)
    return Value("object", items=me.items, of=base or Value("class", data=kind.data), born=me.born)


# The other expressions.


def _subscript_value(machine: Interpreter, node: ast.Subscript, scope: Scope) -> Value:
    held = machine.value(node.value, scope)
    cut = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if not any(isinstance(one, ast.Slice) or _adds_axis(one, held) for one in cut):
        key = machine.value(node.slice, scope)
        part = pandas_tables.table_subscript(held, key) if pandas_tables.is_pandas(held) else None
        if part is not None:
            return part.varying_in(v for one in key.inside(1) for v in one.varies)
        found = operators.item_value(held, NOT_KNOWN if key.varies else key.known)
        if held.kind == "array" and key.kind == "array":  # rows by index, or by a mask
            masked = key.dtype == "bool"
            rows = (None,) if masked or key.shape is None else key.shape
            shape = (*rows, *held.shape[1:]) if held.shape else None
            found = found.with_fields(ragged=key.varies if masked else key.ragged, shape=shape)
        elif (
            found.shape is not None and held.kind != "dict" and key.kind != "number"
        ):  # a slice under a name, or indices on several axes
            single = key.kind == "tuple" and all(one.kind == "number" for one in key.items.values())
            found = found.with_fields(shape=held.shape[len(cut) :] if single and held.shape else None)
        ended = found.ragged - set(machine.depth()) if held.kind in ("list", "tuple") else frozenset[int]()
        if not all(map(machine.has_few_turns, ended)):  # made in turns of a loop that has ended
            found = found.with_fields(ragged=found.ragged | key.varies)
        return found.varying_in(v for one in key.inside(1) for v in one.varies)
    parts = [machine.value(p, scope) for one in cut if isinstance(one, ast.Slice)
             for p in (one.lower, one.upper, one.step) if p is not None]  # fmt: skip
    varies = frozenset(v for p in parts for v in p.varies)
    if held.kind in ("list", "tuple"):
        whole = (operators.known_length(held),)
        shape = shape_rules.sliced_shape(whole, cut, lambda one, rows: _sliced_rows(machine, one, rows, scope))
        return held.with_fields(known=NOT_KNOWN, data="open", shape=None if shape == (None,) else shape).varying_in(
            varies
        )
    ragged = frozenset(v for one in cut if isinstance(one, ast.Slice) for v in _uneven_loops(machine, one, scope))
    shape = shape_rules.sliced_shape(held.shape, cut, lambda one, rows: _sliced_rows(machine, one, rows, scope))
    column = len(cut) > 1 and any(isinstance(one, (ast.Constant, ast.UnaryOp)) for one in cut[1:])
    kept = held.ragged - {EACH_ITEM} if column else held.ragged  # a column of padded rows
    return operators.item_value(held, NOT_KNOWN).varying_in(varies).with_fields(ragged=kept | ragged, shape=shape)


def _adds_axis(one: ast.expr, held: Value) -> bool:
    """Whether it is ``...``, or ``None`` as a new axis; no key."""
    plain = isinstance(one, ast.Constant) and one.value is None and held.kind in ("array", "tensor", "variable")
    return plain or (isinstance(one, ast.Constant) and one.value is ...)


def _sliced_rows(machine: Interpreter, cut: ast.Slice, rows: int | None, scope: Scope) -> int | None:
    """The number of rows that a slice takes of ``rows``; None if unknown."""
    low, high = cut.lower, cut.upper
    if low is None and high is None and cut.step is None:
        return rows
    apart = _window_length_node(low, high) if cut.step is None else None
    if apart is not None:
        wide = machine.value(apart, scope)
        return wide.known if isinstance(wide.known, int) and not wide.varies else None
    ends = [machine.value(one, scope) if one is not None else NO_VALUE for one in (low, high, cut.step)]
    known = [one.known for one in ends]
    if any(one.varies or not isinstance(one.known, int | None) for one in ends) or known[2] == 0:
        return None
    if rows is None:  # an upper bound
        ahead = known[2] is None and isinstance(known[1], int) and known[1] > 0 <= (known[0] or 0)
        return max(known[1] - (known[0] or 0), 0) if ahead else None
    return len(range(rows)[slice(*known)])


def _window_length_node(low: ast.expr | None, high: ast.expr | None) -> ast.expr | None:
    """The length of a slice whose ends move together: ``n`` of ``x[i : i + n]`` and ``x[i * n : (i + 1) * n]``."""
    if low is None or not isinstance(high, ast.BinOp):
        return None
    if isinstance(high.op, ast.Add) and ast.dump(high.left) == ast.dump(low):
        return high.right
    if not isinstance(high.op, ast.Mult) or not isinstance(low, ast.BinOp) or not isinstance(low.op, ast.Mult):
        return None
    next_ = high.left if isinstance(high.left, ast.BinOp) and isinstance(high.left.op, ast.Add) else None
    one = next_ is not None and isinstance(next_.right, ast.Constant) and next_.right.value == 1
    if next_ is None or not one or ast.dump(next_.left) != ast.dump(low.left):
        return None
    return high.right if ast.dump(high.right) == ast.dump(low.right) else None


def _uneven_loops(machine: Interpreter, cut: ast.Slice, scope: Scope) -> frozenset[int]:
    """The loops in whose turns a slice's length changes, since its ends do not move together."""
    low = machine.value(cut.lower, scope).varies if cut.lower is not None else frozenset()
    high = machine.value(cut.upper, scope).varies if cut.upper is not None else frozenset()
    if cut.upper is None or not high:
        return frozenset()  # the remainder: one turn in many, as with batches
    if cut.lower is None:
        return high
    apart = isinstance(cut.lower, ast.Subscript) and isinstance(cut.upper, ast.Subscript)  # x[ends[i] : ends[i + 1]]
    return high if apart and low & high else frozenset()


def _comprehension_value(machine: Interpreter, node: Any, scope: Scope) -> Value:
    made: list[Value] = []
    turns: list[int | None] = []  # minimum numbers of turns
    _run_generators(machine, node, node.generators, scope, made, turns)
    kind = "dict" if isinstance(node, ast.DictComp) else "rows" if isinstance(node, ast.GeneratorExp) else "list"
    one = join_values(made) if made else UNKNOWN
    known = turns[0] if len(turns) == 1 and turns[0] is not None and not node.generators[0].ifs else NOT_KNOWN
    if kind == "rows":
        return Value("rows", known, of=one, born=machine.born())
    least = known if known is not NOT_KNOWN else None
    varies = one.varies & frozenset(machine.depth())
    return Value(kind, items={None: one}, born=machine.born(), varies=varies, data=least)


def _run_generators(
    machine: Interpreter,
    node: Any,
    left: Sequence[ast.comprehension],
    scope: Scope,
    made: list[Value],
    turns: list[int | None],
) -> None:
    """Runs the remaining generators of a comprehension; appends the items made, and the minimum turns of each loop."""
    if not left:
        if isinstance(node, ast.DictComp):
            machine.value(node.key, scope)
        made.append(machine.value(node.value if isinstance(node, ast.DictComp) else node.elt, scope))
        return
    one = left[0]
    items = machine.value(one.iter, scope)
    turns.append(operators.minimum_length(items))

    def turn(loop: Loop) -> None:
        machine.store(one.target, machine.each(items, loop, one), scope)
        for test in one.ifs:
            machine.value(test, scope)
        _run_generators(machine, node, left[1:], scope, made, turns)

    machine.loop(one, operators.known_length(items), items, turn, scope)


def _sequence_literal(machine: Interpreter, node: Any, scope: Scope) -> Value:
    parts = [machine.value(n.value if isinstance(n, ast.Starred) else n, scope) for n in node.elts]
    kind = "tuple" if isinstance(node, ast.Tuple) else "list"
    return sequence_value(kind, parts, machine.born())


def _dict_literal(machine: Interpreter, node: ast.Dict, scope: Scope) -> Value:
    items: dict[Any, Value] = {}
    for key, one in zip(node.keys, node.values, strict=True):
        held = machine.value(one, scope)
        if len(items) > MAX_ITEMS:
            items = {None: join_values([*items.values(), held])}
            continue
        if key is None:
            items = {k: join_two(v, held.items[None]) for k, v in items.items()} if None in held.items else items
            items |= {k: v for k, v in held.items.items() if k is not None or None not in items}
            continue
        name = machine.value(key, scope).known
        items[name if isinstance(name, (str, int, float)) else None] = held
    return Value("dict", items=items, born=machine.born())


def _comparison_value(machine: Interpreter, node: ast.Compare, scope: Scope) -> Value:
    sides = [machine.value(n, scope) for n in (node.left, *node.comparators)]
    varies = frozenset(v for s in sides for v in s.varies)
    op = node.ops[0]
    if isinstance(op, (ast.Is, ast.IsNot)) and len(sides) == 2 and sides[1].kind == "none":
        left = sides[0]
        sure = left.kind not in ("unknown", "none") or (left.kind == "none" and not left.varies)
        return Value("number", (left.kind == "none") == isinstance(op, ast.Is) if sure else NOT_KNOWN, name="bool")
    for kind in ("tensor", "variable", "array"):
        if any(s.kind == kind for s in sides) and not isinstance(op, (ast.In, ast.NotIn, ast.Is, ast.IsNot)):
            known = [s.shape for s in sides if s.shape is not None]
            return Value("array" if kind == "array" else "tensor", varies=varies, dtype="bool",
                         shape=operators.broadcast_shape(known) if known else None)  # fmt: skip
    known = NOT_KNOWN
    if isinstance(op, (ast.Eq, ast.NotEq)) and len(sides) == 2 and NOT_KNOWN not in (sides[0].known, sides[1].known):
        known = (sides[0].known == sides[1].known) == isinstance(op, ast.Eq)
    # ``return len(self.rows) > 64`` of a buffer holds in most turns once it does.
    more = len(sides) == 2 and isinstance(op, (ast.Gt, ast.GtE)) and sides[0].kind == "number"
    usual = branch_conditions.USUALLY_TRUE if more and sides[0].name == "int" else None
    return Value("number", known, varies, name="bool", data=usual)


def _choice_value(machine: Interpreter, node: Any, scope: Scope) -> Value:
    if isinstance(node, ast.BoolOp):
        parts = branch_conditions.boolean_parts(machine, node, scope)
        return join_values(parts).with_fields(known=NOT_KNOWN)
    test = branch_conditions.condition_value(machine, node.test, scope)
    sure = branch_conditions.constant_truth(test)
    if sure is not None:
        return machine.value(node.body if sure else node.orelse, scope)
    return join_two(machine.value(node.body, scope), machine.value(node.orelse, scope)).varying_in(test.varies)


def _unary_value(machine: Interpreter, node: ast.UnaryOp, scope: Scope) -> Value:
    if isinstance(node.op, ast.Not):
        found = branch_conditions.condition_value(machine, node.operand, scope)
        known = branch_conditions.constant_truth(found)
        return Value("number", NOT_KNOWN if known is None else not known, found.varies, name="bool")
    found = machine.value(node.operand, scope)
    if isinstance(node.op, ast.USub) and isinstance(found.known, (int, float)):
        return found.with_fields(known=-found.known)
    return (
        found.with_fields(known=NOT_KNOWN)
        if found.kind != "variable"
        else found.with_fields(kind="tensor", known=NOT_KNOWN)
    )


def _yield_value(machine: Interpreter, node: Any, scope: Scope) -> Value:
    found = machine.value(node.value, scope) if node.value is not None else UNKNOWN
    if isinstance(node, ast.YieldFrom):
        found = call_resolution.any_item(machine, found, node)
    scope.yielded.append(found)
    return UNKNOWN


def _fstring_value(machine: Interpreter, node: ast.JoinedStr, scope: Scope) -> Value:
    shown = [machine.value(n.value, scope) for n in node.values if isinstance(n, ast.FormattedValue)]
    given = CallArgs(node, shown)
    made = formatted_text(given.varies, shown)
    plain = all(n.format_spec is None and n.conversion == -1 for n in node.values if isinstance(n, ast.FormattedValue))
    if plain and not given.varies and all(isinstance(one.known, (str, int)) for one in shown):
        held = iter(shown)
        said = (n.value if isinstance(n, ast.Constant) else next(held).known for n in node.values)
        made = Value("text", "".join(map(str, said)))
    return call_resolution.recorded_result(machine, "format", None, given, lambda: made)


def _arithmetic_value(machine: Interpreter, node: ast.BinOp, scope: Scope) -> Value:
    left, right = machine.value(node.left, scope), machine.value(node.right, scope)
    if left.kind == "text" and isinstance(node.op, ast.Mod):
        given = CallArgs(node, [right])
        return call_resolution.recorded_result(
            machine, "format", None, given, lambda: formatted_text(left.varies | right.varies, [left, right])
        )
    found = operators.arithmetic_result(node.op, left, right)
    rounded = isinstance(node.op, ast.Mult) and (_is_rounded_division(node.left) or _is_rounded_division(node.right))
    return found.with_fields(name="few") if rounded and found.kind in ("number", "unknown") else found


def _is_rounded_division(node: ast.expr) -> bool:
    """Whether it is a rounded division, which has few values: ``-(-x // 64)``, ``math.ceil(x / 64)``."""
    while isinstance(node, ast.UnaryOp):
        node = node.operand
    if isinstance(node, ast.Call) and node.args:
        return node_lookup.called_name(node) == "ceil" and isinstance(node.args[0], ast.BinOp)
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv)


def _assignment_expression(machine: Interpreter, node: ast.NamedExpr, scope: Scope) -> Value:
    found = machine.value(node.value, scope)
    machine.store(node.target, found, scope)
    return found


def as_load(target: Any) -> ast.expr:
    """An assignment target as an expression that reads it."""
    fields = {name: getattr(target, name) for name in target._fields} | {"ctx": ast.Load()}
    made: ast.expr = ast.copy_location(type(target)(**fields), target)
    return made


_EXPRESSION_RULES: dict[type[ast.AST], Callable[[Interpreter, Any, Scope], Value]] = {
    ast.Constant: lambda _machine, node, _scope: constant_value(node.value),
    ast.Name: _name_value,
    ast.Attribute: _attribute_value,
    ast.Call: _call_value,
    ast.Subscript: _subscript_value,
    ast.BinOp: _arithmetic_value,
    ast.Compare: _comparison_value,
    ast.BoolOp: _choice_value,
    ast.IfExp: _choice_value,
    ast.UnaryOp: _unary_value,
    ast.Tuple: _sequence_literal,
    ast.List: _sequence_literal,
    ast.Set: _sequence_literal,
    ast.Dict: _dict_literal,
    ast.ListComp: _comprehension_value,
    ast.SetComp: _comprehension_value,
    ast.GeneratorExp: _comprehension_value,
    ast.DictComp: _comprehension_value,
    ast.Lambda: lambda machine, node, scope: Value("function", node=node, data=scope, born=machine.born()),
    ast.JoinedStr: _fstring_value,
    ast.Yield: _yield_value,
    ast.YieldFrom: _yield_value,
    ast.Await: lambda machine, node, scope: machine.value(node.value, scope),
    ast.NamedExpr: _assignment_expression,
    ast.Starred: lambda machine, node, scope: machine.value(node.value, scope),
}
