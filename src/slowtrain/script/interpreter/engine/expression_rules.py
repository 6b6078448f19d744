"""The interpreter's expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import (
    MAX_ITEMS,
    NO_LOOPS,
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
from slowtrain.script.interpreter.domain.run_context import RunContext, Scope
from slowtrain.script.interpreter.engine import call_resolution, project_modules, statement_rules
from slowtrain.script.interpreter.library import data_calls, framework_calls
from slowtrain.script.navigation import name_bindings, node_lookup, scope_names


def other_expression(machine: RunContext, node: ast.expr, scope: Scope) -> Value:
    """The value of an expression that has no rule."""
    return join_values([UNKNOWN.varying_in(machine.value(n, scope).varies) for n in ast.iter_child_nodes(node)
                   if isinstance(n, ast.expr)])  # fmt: skip


def _attribute_value(machine: RunContext, node: ast.Attribute, scope: Scope) -> Value:
    root = node.value
    while isinstance(root, ast.Attribute):
        root = root.value
    if isinstance(root, ast.Name) and scope.find(root.id) is None:
        found = machine.library_values.get(node) or _unbound_attribute(machine, node)
        if found is not None:
            return found
    on = machine.value(node.value, scope)
    if on.kind == "library":
        return Value("library", name=f"{on.name}.{node.attr}")
    found = operators.find_attribute(on, node.attr) if on.kind in ("object", "class") else on.items.get(node.attr)
    if found is not None and on.kind in ("object", "class", "keras"):
        if found.kind == "method" and found.of is not None and found.of.dtype in ("property", "cached_property"):
            value = machine.call(found, CallArgs(node))
            if found.of.dtype == "cached_property":
                on.items[node.attr] = value
            return value
        return found
    return framework_calls.library_attribute(on, node.attr)


def _unbound_attribute(machine: RunContext, node: ast.Attribute) -> Value | None:
    """The value of ``tf.nn.relu`` as written, if no scope binds its first name; None if only that has a value."""
    written = scope_names.dotted_name(node)
    own = project_modules.imported_value(machine, written)
    if own is not None:
        return own
    full, before = name_bindings.qualified_name(machine.source, node), written.rpartition(".")[0]
    if not full or project_modules.imported_value(machine, before) is not None:
        return None
    found = Value("library", name=full)
    if machine.origins[machine.source, written] is None and machine.origins[machine.source, before] is None:
        machine.library_values[node] = found  # no file of the project will bind it
    return found


def _name_value(machine: RunContext, node: ast.Name, scope: Scope) -> Value:
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


def _call_value(machine: RunContext, node: ast.Call, scope: Scope) -> Value:
    method = node.func if isinstance(node.func, ast.Attribute) else None
    callee = _attribute_value(machine, method, scope) if method is not None else machine.value(node.func, scope)
    if callee.name == "super" and callee.kind == "library":
        return _super_object(scope)
    call = _call_arguments(machine, node, scope)
    if method is not None and callee.kind == "unknown":
        return _unknown_method_value(machine, method, call, scope)
    if not machine.silent and machine.source is machine.main:
        runs = call_resolution.function_run_by(callee)
        if runs is not None:
            machine.called.setdefault(node, set()).add(runs)
    return machine.call(callee, call)


def _call_arguments(machine: RunContext, node: ast.Call, scope: Scope) -> CallArgs:
    args: list[Value] = []
    for one in node.args:
        if isinstance(one, ast.Starred):
            several = machine.value(one.value, scope)
            known = several.kind in ("list", "tuple", "dict")
            args += several.items.values() if known else [operators.item_value(several, NOT_KNOWN)]
        else:
            args.append(machine.value(one, scope))
    del args[MAX_ITEMS:]
    keywords: dict[str, Value] = {}
    for key in node.keywords:
        argument = machine.value(key.value, scope)
        if key.arg:
            keywords[key.arg] = argument
        else:
            keywords |= {str(k): v for k, v in argument.items.items()}
    return CallArgs(node, args, keywords)


def _unknown_method_value(machine: RunContext, method: ast.Attribute, call: CallArgs, scope: Scope) -> Value:
    """The result of a method that is not known, because its object is not."""
    name = method.attr
    on = machine.value(method.value, scope) if not isinstance(method.value, ast.Call) else UNKNOWN
    if name == "update" and on.kind == "unknown" and call.keywords and not call.args:
        call_resolution.assume_mapping(machine, method.value, on, scope).items.update(call.keywords)
    call_resolution.run_handed_functions(machine, call)
    drawn = name in data_calls.NUMPY_ONLY_DRAWS
    result = data_calls.numpy_draw(machine, name, call) if drawn else UNKNOWN.varying_in(on.varies)
    machine.note(f".{name}", on, call, result)
    return result


def _super_object(scope: Scope) -> Value:
    """The object of a method as its base class sees it."""
    me = scope.find("self")
    kind = scope.kind
    if me is None or kind is None or kind.kind != "class":
        return UNKNOWN
    base = next((b for b in kind.data if b.kind == "class"), None)
    return Value("object", items=me.items, of=base or Value("class", data=kind.data), born=me.born)


# The other expressions.


def _comprehension_value(machine: RunContext, node: Any, scope: Scope) -> Value:
    items: list[Value] = []
    turns: list[int | None] = []  # minimum numbers of iterations
    exact = _run_generators(machine, node, node.generators, scope, items, turns)
    kind = "dict" if isinstance(node, ast.DictComp) else "rows" if isinstance(node, ast.GeneratorExp) else "list"
    one = join_values(items) if items else UNKNOWN
    known = turns[0] if len(turns) == 1 and turns[0] is not None and not node.generators[0].ifs else NOT_KNOWN
    if kind == "rows":
        return Value("rows", known, of=one, born=machine.born())
    least = known if known is not NOT_KNOWN else None
    varies = one.varies & frozenset(machine.depth())
    shape = (exact,) if isinstance(node, ast.ListComp) and least is not None and exact is not None else None
    return Value(kind, items={None: one}, born=machine.born(), varies=varies, data=least, shape=shape)


def _run_generators(
    machine: RunContext,
    node: Any,
    left: Sequence[ast.comprehension],
    scope: Scope,
    items: list[Value],
    turns: list[int | None],
) -> int | None:
    """Runs the remaining generators of a comprehension; appends the items, and the minimum iterations of each loop.

    Returns the number of iterations of the first of them; None if unknown.
    """
    if not left:
        if isinstance(node, ast.DictComp):
            machine.value(node.key, scope)
        items.append(machine.value(node.value if isinstance(node, ast.DictComp) else node.elt, scope))
        return None
    one = left[0]
    iterable = machine.value(one.iter, scope)
    count = operators.known_length(iterable)
    turns.append(operators.minimum_length(iterable))

    def turn(loop: Loop) -> None:
        machine.store(one.target, machine.each(iterable, loop, one), scope)
        for test in one.ifs:
            machine.value(test, scope)
        _run_generators(machine, node, left[1:], scope, items, turns)

    machine.loop(one, count, iterable, turn, scope)
    return count


def _sequence_literal(machine: RunContext, node: Any, scope: Scope) -> Value:
    parts = [machine.value(n.value if isinstance(n, ast.Starred) else n, scope) for n in node.elts]
    kind = "tuple" if isinstance(node, ast.Tuple) else "list"
    return sequence_value(kind, parts, machine.born())


def _dict_literal(machine: RunContext, node: ast.Dict, scope: Scope) -> Value:
    items: dict[Any, Value] = {}
    for key, one in zip(node.keys, node.values, strict=True):
        value = machine.value(one, scope)
        if len(items) > MAX_ITEMS:
            items = {None: join_values([*items.values(), value])}
            continue
        if key is None:
            items = {k: join_two(v, value.items[None]) for k, v in items.items()} if None in value.items else items
            items |= {k: v for k, v in value.items.items() if k is not None or None not in items}
            continue
        name = machine.value(key, scope).known
        items[name if isinstance(name, (str, int, float)) else None] = value
    return Value("dict", items=items, born=machine.born())


def _comparison_value(machine: RunContext, node: ast.Compare, scope: Scope) -> Value:
    sides = [machine.value(n, scope) for n in (node.left, *node.comparators)]
    varies = NO_LOOPS.union(*[one.varies for one in sides])
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
    # ``return len(self.rows) > 64`` of a buffer holds in most iterations once it does.
    more = len(sides) == 2 and isinstance(op, (ast.Gt, ast.GtE)) and sides[0].kind == "number"
    usual = statement_rules.USUALLY_TRUE if more and sides[0].name == "int" else None
    return Value("number", known, varies, name="bool", data=usual)


def _choice_value(machine: RunContext, node: Any, scope: Scope) -> Value:
    if isinstance(node, ast.BoolOp):
        parts = statement_rules.boolean_parts(machine, node, scope)
        return join_values(parts).with_fields(known=NOT_KNOWN)
    test = statement_rules.condition_value(machine, node.test, scope)
    sure = statement_rules.constant_truth(test)
    if sure is not None:
        return machine.value(node.body if sure else node.orelse, scope)
    return join_two(machine.value(node.body, scope), machine.value(node.orelse, scope)).varying_in(test.varies)


def _unary_value(machine: RunContext, node: ast.UnaryOp, scope: Scope) -> Value:
    if isinstance(node.op, ast.Not):
        found = statement_rules.condition_value(machine, node.operand, scope)
        known = statement_rules.constant_truth(found)
        return Value("number", NOT_KNOWN if known is None else not known, found.varies, name="bool")
    found = machine.value(node.operand, scope)
    if isinstance(node.op, ast.USub) and isinstance(found.known, (int, float)):
        return found.with_fields(known=-found.known)
    return (
        found.with_fields(known=NOT_KNOWN)
        if found.kind != "variable"
        else found.with_fields(kind="tensor", known=NOT_KNOWN)
    )


def _yield_value(machine: RunContext, node: Any, scope: Scope) -> Value:
    found = machine.value(node.value, scope) if node.value is not None else UNKNOWN
    if isinstance(node, ast.YieldFrom):
        found = call_resolution.any_item(machine, found, node)
    scope.yielded.append(found)
    return UNKNOWN


def _fstring_value(machine: RunContext, node: ast.JoinedStr, scope: Scope) -> Value:
    shown = [machine.value(n.value, scope) for n in node.values if isinstance(n, ast.FormattedValue)]
    call = CallArgs(node, shown)
    text = formatted_text(call.varies, shown)
    plain = all(n.format_spec is None and n.conversion == -1 for n in node.values if isinstance(n, ast.FormattedValue))
    if plain and not call.varies and all(isinstance(one.known, (str, int)) for one in shown):
        parts = iter(shown)
        words = (n.value if isinstance(n, ast.Constant) else next(parts).known for n in node.values)
        text = Value("text", "".join(map(str, words)))
    machine.note("format", None, call, text)
    return text


def _arithmetic_value(machine: RunContext, node: ast.BinOp, scope: Scope) -> Value:
    left, right = machine.value(node.left, scope), machine.value(node.right, scope)
    if left.kind == "text" and isinstance(node.op, ast.Mod):
        text = formatted_text(left.varies | right.varies, [left, right])
        machine.note("format", None, CallArgs(node, [right]), text)
        return text
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


def _assignment_expression(machine: RunContext, node: ast.NamedExpr, scope: Scope) -> Value:
    found = machine.value(node.value, scope)
    machine.store(node.target, found, scope)
    return found


EXPRESSION_RULES: dict[type[ast.AST], Callable[[RunContext, Any, Scope], Value]] = {
    ast.Constant: lambda _machine, node, _scope: constant_value(node.value),
    ast.Name: _name_value,
    ast.Attribute: _attribute_value,
    ast.Call: _call_value,
    ast.Subscript: call_resolution.subscript_value,
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
