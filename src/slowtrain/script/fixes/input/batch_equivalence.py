"""Proves from the text that a mapped function gives the same results for a whole batch.

The reader follows the function operation by operation with the ranks of its arguments. It gives up at an unknown
operation, or one that depends on the rank in an unknown way. It collects the small changes that a batch needs, such
as ``axis=-1``.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from msgspec.structs import replace

from slowtrain.script.fixes.input.tensor_operations import (
    BATCH_SAFE_LAYERS,
    BINARY_FUNCTIONS,
    IMAGE_FUNCTIONS,
    REDUCTION_FUNCTIONS,
    SHAPE_LIKE_FUNCTIONS,
    UNARY_FUNCTIONS,
    ConstantValue,
    ElementValue,
    NotProvenError,
    ReadFunction,
    StructureValue,
    Value,
    are_constant,
    element_of_rank,
    have_equal_ranks,
    indexed_parts,
    literal_int,
)
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names, setting_origins
from slowtrain.script.pipelines import element_sizes
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

Function = ast.FunctionDef | ast.Lambda
NUMBER_EXPRESSIONS = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)


def changes_for_batches(
    source: Source, call: ast.Call, ranks: Sequence[int | None] = (), results: Sequence[int | None] = ()
) -> ReadFunction | None:
    """Return the changes that let the function of ``call`` (a ``map``) take batches; None if that is not proven.

    ``ranks``: measured rank of each part of the element. ``results``: ranks of the parts of the result.
    """
    found = ReadFunction(source)
    try:
        function = _mapped_function(source, call)
        returned = _FunctionReader(found).read_function(function, _element_values(function, ranks))
        _check_constant_ranks(found, returned, ranks, results)
    except (NotProvenError, RecursionError):
        return None
    return found if not found.changes or _is_only_mapped(source, function) else None


def _mapped_function(source: Source, call: ast.Call) -> Function:
    function = call.args[0] if call.args else None
    if isinstance(function, ast.Lambda):
        return function
    found = node_lookup.function_named(source, function.id, call) if isinstance(function, ast.Name) else None
    if found is None or isinstance(node_lookup.parents_of(source).get(found), ast.ClassDef):
        raise NotProvenError("not a function of this file")
    if {scope_names.dotted_name(d) for d in found.decorator_list} - {"tf.function"}:
        raise NotProvenError("a decorated function")
    return found


def _is_only_mapped(source: Source, function: Function) -> bool:
    """Whether only ``map`` uses the function."""
    above = node_lookup.parents_of(source)
    users = [(n, above.get(n)) for n in name_bindings.reads_of(source, getattr(function, "name", ""))]
    return all(isinstance(u, ast.Call) and u.func is not n and node_lookup.called_name(u) == "map" for n, u in users)


def _element_values(function: Function, ranks: Sequence[int | None]) -> list[Value]:
    args, names = function.args, scope_names.parameter_names(function)
    if args.kwonlyargs or args.kwarg or args.posonlyargs or args.defaults or (args.vararg and args.args):
        raise NotProvenError("its parameters")
    if args.vararg:
        return [StructureValue(tuple(ElementValue(r) for r in ranks))]
    if len(ranks) > len(names) and len(set(ranks)) == 1:  # dictionaries or tuples whose parts have equal ranks
        return [ElementValue(ranks[0], ("parameter", n), group=True) for n in range(len(names))]
    known = ranks if len(ranks) == len(names) else [None] * len(names)
    return [ElementValue(rank, ("parameter", n)) for n, rank in enumerate(known)]


def _check_constant_ranks(
    found: ReadFunction, returned: Value | None, ranks: Sequence[int | None], results: Sequence[int | None]
) -> None:
    """Raise unless the measured ranks show that constants of unknown rank added no axis."""
    if not found.doubt:
        return
    flat = list(_flat_values(returned))
    same = len(flat) == len(results) and all(
        isinstance(v, ElementValue) and v.rank is not None and v.rank == r for v, r in zip(flat, results, strict=True)
    )
    if found.lowered or None in ranks or not ranks or not same:
        raise NotProvenError("a constant may have more axes than the element")


def _flat_values(value: Value | None) -> list[Value | None]:
    if isinstance(value, StructureValue) and value.each is None:
        return [v for p in value.parts for v in _flat_values(p)]
    return [value]


class _FunctionReader:
    """Follows the statements and expressions of a function."""

    def __init__(self, found: ReadFunction) -> None:
        self.found, self.source = found, found.source
        self.known: dict[str, Value] = {}

    def read_function(self, function: Function, arguments: Sequence[Value]) -> Value | None:
        self.known.update(zip(scope_names.parameter_names(function), arguments, strict=True))
        if isinstance(function, ast.Lambda):
            return self.read_expression(function.body)
        for statement in function.body:
            if isinstance(statement, ast.Return):
                return self.read_expression(statement.value) if statement.value is not None else None
            self.read_statement(statement)
        raise NotProvenError("no return")

    def read_statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            self.bind_target(node.targets[0], self.read_expression(node.value))
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            raise NotProvenError(f"line {node.lineno}")

    def bind_target(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.known[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, StructureValue) and not value.keys:
            parts = value.parts if value.each is None else (value.each,) * len(target.elts)
            if len(parts) != len(target.elts):
                raise NotProvenError("unpacking")
            for one, part in zip(target.elts, parts, strict=True):
                self.bind_target(one, part)
        else:
            raise NotProvenError("an assignment")

    def read_expression(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant():
                return ConstantValue(0)
            case ast.Name():
                return self.known.get(node.id) or _constant_value(self.source, node)
            case ast.Attribute():
                return self.read_attribute(node)
            case ast.Tuple() | ast.List():
                return self.read_list(node)
            case ast.Dict() if all(isinstance(k, ast.Constant) for k in node.keys):
                names = tuple(k.value for k in node.keys if isinstance(k, ast.Constant))
                return StructureValue(tuple(self.read_expression(v) for v in node.values), names)
            case ast.BinOp() if not isinstance(node.op, ast.MatMult):
                return self.combine_values([self.read_expression(node.left), self.read_expression(node.right)])
            case ast.UnaryOp() if not isinstance(node.op, ast.Not):
                return self.combine_values([self.read_expression(node.operand)])
            case ast.Subscript():
                return self.read_subscript(node)
            case ast.Call():
                return self.read_call(node)
        raise NotProvenError(f"line {node.lineno}")

    def read_list(self, node: ast.Tuple | ast.List) -> Value:
        parts = tuple(self.read_expression(e) for e in node.elts)
        ranks = {p.rank for p in parts if isinstance(p, ConstantValue)}
        if parts and are_constant(parts):
            rank = ranks.pop() if len(ranks) == 1 else None
            return ConstantValue(None if rank is None else rank + 1)
        return StructureValue(parts)

    def read_attribute(self, node: ast.Attribute) -> Value:
        name = scope_names.dotted_name(node)
        if not name or name.partition(".")[0] in self.known:
            raise NotProvenError(f"line {node.lineno}: .{node.attr}")
        full = scope_names.resolved_name(self.source, node)
        return ConstantValue(0 if full.startswith(("tensorflow.", "numpy.", "math.")) else None)

    def combine_values(self, values: Sequence[Value]) -> Value:
        """Return the result of an elementwise operation."""
        items = [replace(v, group=False) for v in values if isinstance(v, ElementValue)]  # dictionaries are not added
        if any(isinstance(v, StructureValue) for v in values):
            raise NotProvenError("a list in an operation")
        constants = [v for v in values if isinstance(v, ConstantValue)]
        if not items:
            return ConstantValue(0 if all(v.rank == 0 for v in constants) else None)
        if not have_equal_ranks(items):
            raise NotProvenError("different axes")
        rank = items[0].rank
        for one in constants:
            if one.rank is None:
                self.found.doubt = True
            elif one.rank and (rank is None or one.rank > rank):
                raise NotProvenError("a constant with more axes")
        return items[0]

    def read_subscript(self, node: ast.Subscript) -> Value:
        value, index = self.read_expression(node.value), node.slice
        if isinstance(value, StructureValue):
            return indexed_parts(value, index)
        if isinstance(value, ConstantValue):
            raise NotProvenError("an item of a constant")
        key = index.value if isinstance(index, ast.Constant) else None
        if not isinstance(key, str) and not (value.group and value.rank == 0 and isinstance(key, int)):
            raise NotProvenError("an index of a tensor")
        if not value.group and not isinstance(value.like, tuple):
            raise NotProvenError("a key of a tensor")
        return ElementValue(value.rank, None if value.rank is not None else (value.like, key))

    # -- calls

    def read_call(self, node: ast.Call) -> Value:
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            raise NotProvenError("a star")
        name = scope_names.resolved_name(self.source, node.func)
        plain = name.removeprefix("tensorflow.").removeprefix("compat.v1.").removeprefix("math.")
        if not name.startswith("tensorflow."):
            return self.read_own_call(node)
        if plain in SHAPE_LIKE_FUNCTIONS and (like := element_sizes.shape_source(self.source, node)) is not None:
            return self.read_shape_like(node, plain, like)
        values = [self.read_expression(a) for a in node.args]
        named = {k.arg: self.read_expression(k.value) for k in node.keywords if k.arg}
        if plain in BINARY_FUNCTIONS:
            return self.combine_values([*values, *named.values()])
        first = values[0] if values else None
        if plain in ("stack", "concat"):
            return self.join_tensors(node, plain, first)
        if not isinstance(first, ElementValue) or not are_constant([*values[1:], *named.values()]):
            raise NotProvenError(f"line {node.lineno}: {name}")
        if plain in UNARY_FUNCTIONS:
            return first
        if plain in IMAGE_FUNCTIONS and first.rank == 3:
            self.found.random |= plain.startswith("image.random")
            return first
        return self.change_axes(node, plain, first)

    def change_axes(self, node: ast.Call, plain: str, first: ElementValue) -> Value:
        """Return the result of an operation that adds or removes an axis."""
        if plain == "io.decode_csv":
            return StructureValue(each=first)
        if plain == "one_hot" and node_lookup.argument_value(node, "axis", 4) is None:
            return element_of_rank(node, first.rank, 1)
        if plain == "unstack":
            _require_axis_from_end(node, 2)
            self.found.lowered = True
            return StructureValue(each=element_of_rank(node, first.rank, -1))
        if plain in REDUCTION_FUNCTIONS:
            _require_axis_from_end(node, 1)
            keep_axes = node_lookup.argument_value(node, "keepdims")
            if keep_axes is not None and not isinstance(keep_axes, ast.Constant):
                raise NotProvenError("keepdims")
            self.found.lowered = True
            return element_of_rank(node, first.rank, 0 if keep_axes is not None and keep_axes.value else -1)
        raise NotProvenError(f"line {node.lineno}: {plain}")

    def join_tensors(self, node: ast.Call, plain: str, group: Value | None) -> Value:
        if not isinstance(group, StructureValue) or group.keys:
            raise NotProvenError(f"line {node.lineno}: {plain}")
        parts = [p for p in (*group.parts, group.each) if p is not None]
        items = [p for p in parts if isinstance(p, ElementValue)]
        if len(items) != len(parts) or not items or not have_equal_ranks(items):
            raise NotProvenError("different axes")
        joined = element_of_rank(node, items[0].rank, plain == "stack")
        if node_lookup.argument_value(node, "axis", 1) is not None or plain == "concat":
            _require_axis_from_end(node, 1)
        elif joined.rank is None:
            raise NotProvenError("an axis from the front")
        else:
            self.found.changes.append(edits.set_keyword(self.source, node, "axis", str(-joined.rank)))
        return joined

    def read_shape_like(self, node: ast.Call, plain: str, like: ast.expr) -> Value:
        """``tf.random.normal(tf.shape(x))`` draws separate numbers for each element of a batch."""
        found = self.read_expression(like)
        others = [*node.args[1:], *(k.value for k in node.keywords if k.arg != "shape")]
        if not isinstance(found, ElementValue) or any(self.read_expression(one) != ConstantValue(0) for one in others):
            raise NotProvenError(f"line {node.lineno}: {plain}")
        self.found.random |= plain.startswith("random.")
        return replace(found, group=False)

    def read_own_call(self, node: ast.Call) -> Value:
        """Follow a Keras layer of the file, or a call that only rearranges values."""
        if node_lookup.function_named(self.source, node_lookup.called_name(node)) is not None:
            raise NotProvenError("a function of the file")
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="pop"), args=[ast.Constant(value=key)]):
                return self.pop_part(name, key)
            case ast.Call(func=ast.Attribute(value=owner, attr="values"), args=[]):
                value = self.read_expression(owner)
                if isinstance(value, StructureValue) and value.keys:
                    return StructureValue(value.parts)
            case ast.Call(func=ast.Name(id="list" | "tuple"), args=[given]):
                value = self.read_expression(given)
                if isinstance(value, StructureValue) and not value.keys:
                    return value
            case ast.Call(
                func=ast.Name(id="dict"), args=[ast.Call(func=ast.Name(id="zip"), args=[ast.Name() as names, given])]
            ):
                return _named_parts(_literal_names(self.source, names), self.read_expression(given))
            case ast.Call(func=ast.Name(id="len"), args=[given]):
                if isinstance(self.read_expression(given), ConstantValue):
                    return ConstantValue(0)
            case ast.Call(func=ast.Name(id=name), args=[given], keywords=named) if name not in self.known:
                if not are_constant([self.read_expression(one.value) for one in named]):
                    raise NotProvenError("a layer's arguments")
                return self.apply_layer(_layer_class(self.source, name), self.read_expression(given))
        raise NotProvenError(f"line {node.lineno}")

    def apply_layer(self, layer: str, value: Value) -> Value:
        if layer not in BATCH_SAFE_LAYERS or not isinstance(value, ElementValue):
            raise NotProvenError("a layer")
        if layer != "Rescaling" and value.rank != 3:
            raise NotProvenError("not one picture")
        self.found.random |= layer.startswith("Random")
        return value

    def pop_part(self, name: str, key: object) -> Value:
        group = self.known.get(name)
        if not isinstance(group, StructureValue) or key not in group.keys:
            raise NotProvenError(".pop()")
        at = group.keys.index(key)
        rest = (*group.parts[:at], *group.parts[at + 1 :])
        self.known[name] = StructureValue(rest, (*group.keys[:at], *group.keys[at + 1 :]))
        return group.parts[at]


def _require_axis_from_end(call: ast.Call, position: int) -> None:
    axis = literal_int(node_lookup.argument_value(call, "axis", position))
    if axis is None or axis >= 0:
        raise NotProvenError("an axis from the front")


def _named_parts(names: Sequence[object], value: Value) -> Value:
    """Return the parts of ``dict(zip(names, parts))``."""
    if not isinstance(value, StructureValue) or value.keys:
        raise NotProvenError("a dictionary")
    parts = value.parts if value.each is None else (value.each,) * len(names)
    if len(parts) != len(names):
        raise NotProvenError("a dictionary")
    return StructureValue(parts, tuple(names))


def _literal_names(source: Source, name: ast.Name) -> list[object]:
    """Return the items of a list of literals that the file does not change."""
    listed = setting_origins.written_value(source, name)
    above = node_lookup.parents_of(source)
    holders = [above.get(n) for n in call_index.nodes_of_class(source, ast.Name) if n.id == name.id]
    changed = any(isinstance(h, (ast.Attribute, ast.AugAssign, ast.Subscript)) for h in holders)
    if changed or not isinstance(listed, (ast.List, ast.Tuple)):
        raise NotProvenError("names")
    if not all(isinstance(e, ast.Constant) for e in listed.elts):
        raise NotProvenError("names")
    return [e.value for e in listed.elts if isinstance(e, ast.Constant)]


def _module_value(source: Source, name: str) -> ast.expr | None:
    """Return the only value that the module assigns to a name."""
    found = scope_names.binding_statements(source, name, source.tree)
    only = found[0] if len(found) == 1 else None
    plain = isinstance(only, ast.Assign) and isinstance(only.targets[0], ast.Name)
    return only.value if plain and isinstance(only, ast.Assign) else None


def _constant_value(source: Source, name: ast.Name) -> Value:
    """Return the value of a global name: a number if the file assigns one."""
    value = _module_value(source, name.id)
    number = value is not None and all(isinstance(n, NUMBER_EXPRESSIONS) for n in syntax_tree.walk(value))
    return ConstantValue(0 if number else None)


def _layer_class(source: Source, name: str) -> str:
    """Return the class of the Keras layer that a global name holds; "" for another value."""
    layer = _module_value(source, name)
    whole = scope_names.resolved_name(source, layer.func) if isinstance(layer, ast.Call) else ""
    return whole.rpartition(".")[2] if ".layers." in f".{whole}" else ""
