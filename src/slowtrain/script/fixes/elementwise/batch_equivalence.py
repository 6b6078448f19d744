"""Proves from the text that a mapped function gives the same results for a whole batch.

The reader follows the function operation by operation with the ranks of its arguments. It gives up at an unknown
operation, or one that depends on the rank in an unknown way.
It collects the small changes that a batch needs, such as ``axis=-1`` and ``x[..., 0]``.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from slowtrain.script.fixes.elementwise import axis_operations
from slowtrain.script.fixes.elementwise import called_functions as functions
from slowtrain.script.fixes.elementwise import literal_keys as keys
from slowtrain.script.fixes.elementwise.known_operations import (
    AXIS_FUNCTIONS,
    BINARY_FUNCTIONS,
    DRAWING_FUNCTIONS,
    IMAGE_FUNCTIONS,
    LIST_FUNCTIONS,
    STRUCTURE_FUNCTIONS,
    UNARY_FUNCTIONS,
    ConstantValue,
    ElementValue,
    NotProvenError,
    ObjectValue,
    ReadFunction,
    StructureValue,
    Value,
)
from slowtrain.script.navigation import name_bindings, scope_names
from slowtrain.script.pipelines import element_sizes
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

SHAPE_LIKE_FUNCTIONS = frozenset({"zeros", "ones", "random.normal", "random.uniform", "random.truncated_normal"})


def changes_for_batches(
    source: Source, call: ast.Call, ranks: Sequence[int | None] = (), results: Sequence[int | None] = ()
) -> ReadFunction | None:
    """Return the changes that let the function of ``call`` (a ``map``) take batches; None if that is not proven.

    ``ranks``: measured rank of each part of the element. ``results``: ranks of the parts of the result.
    """
    if not call.args:
        return None
    found = ReadFunction(source)
    try:
        function, first = functions.mapped_function(source, call.args[0], call)
        returned = _FunctionReader(found).read_function(
            function, [*first, *_element_values(function, ranks, len(first))]
        )
        _check_constant_ranks(found, returned, ranks, results)
        if found.once and not all(functions.is_used_once(source, name) for name in found.entered):
            return None
        if not functions.is_only_mapped(source, found):
            return None
    except (NotProvenError, RecursionError):
        return None
    return found


def _element_values(function: functions.Function, ranks: Sequence[int | None], skipped: int = 0) -> list[Value]:
    given = function.args
    if given.kwonlyargs or given.kwarg or given.posonlyargs or given.defaults:
        raise NotProvenError("its parameters")
    names = scope_names.parameter_names(function)[skipped:]
    if given.vararg and not given.args:
        return [ElementValue(r) for r in ranks] if ranks else [StructureValue(each=ElementValue(None, "each"))]
    if given.vararg:
        raise NotProvenError("its parameters")
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
    if found.lowered or len(flat) != len(results) or None in ranks or not ranks:
        raise NotProvenError("a constant may have more axes than the element")
    if any(
        not isinstance(v, ElementValue) or v.rank is None or v.rank != r for v, r in zip(flat, results, strict=True)
    ):
        raise NotProvenError("a constant may have more axes than the element")


def _flat_values(value: Value | None) -> list[Value | None]:
    if isinstance(value, StructureValue):
        return [v for p in value.parts for v in _flat_values(p)] if value.each is None else [value]
    return [value]


class _FunctionReader:
    """Follows the statements and expressions of a function."""

    def __init__(self, found: ReadFunction, depth: int = 0) -> None:
        self.found, self.source, self.depth = found, found.source, depth
        self.known: dict[str, Value] = {}

    def read_function(self, function: functions.Function, given: Sequence[Value]) -> Value | None:
        if self.depth > 8:
            raise NotProvenError("too deep")
        args = function.args
        if isinstance(function, ast.FunctionDef):
            self.found.entered.append(function.name)
        if args.vararg:
            self.known[args.vararg.arg] = (
                given[0] if len(given) == 1 and _is_open(given[0]) else StructureValue(tuple(given))
            )
        elif len(args.args) != len(given):
            raise NotProvenError("its arguments")
        else:
            self.known.update(zip((a.arg for a in args.args), given, strict=True))
        if isinstance(function, ast.Lambda):
            return self.read_expression(function.body)
        for statement in function.body:
            if isinstance(statement, ast.Return):
                return self.read_expression(statement.value) if statement.value is not None else None
            self.read_statement(statement)
        raise NotProvenError("no return")

    def read_statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            self.bind_target(node.targets[0], self.read_expression(node.value))
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.bind_target(node.target, self.read_expression(node.value))
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            left = self.read_expression(ast.Name(node.target.id, ast.Load()))
            self.known[node.target.id] = self.combine_values([left, self.read_expression(node.value)])
        else:
            raise NotProvenError(f"line {node.lineno}")

    def bind_target(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.known[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, ElementValue) and value.group:
            for one in target.elts:
                self.bind_target(one, ElementValue(value.rank))
        elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, StructureValue):
            if value.each is None and (len(value.parts) != len(target.elts) or value.keys):
                raise NotProvenError("unpacking")
            parts = value.parts or (value.each,) * len(target.elts)
            for one, part in zip(target.elts, parts, strict=True):
                if part is None or isinstance(one, ast.Starred):
                    raise NotProvenError("unpacking")
                self.bind_target(one, part)
        else:
            raise NotProvenError("an assignment")

    def read_expression(self, node: ast.expr) -> Value:
        if isinstance(node, ast.Constant):
            return ConstantValue(0)
        if isinstance(node, ast.Name):
            return self.known.get(node.id) or functions.constant_value(self.source, node)
        if isinstance(node, ast.Attribute):
            return self.read_attribute(node)
        if isinstance(node, (ast.Tuple, ast.List)):
            return self.read_list(node)
        if isinstance(node, ast.Dict) and all(isinstance(k, ast.Constant) for k in node.keys):
            names = tuple(k.value for k in node.keys if isinstance(k, ast.Constant))
            return StructureValue(tuple(self.read_expression(v) for v in node.values), names)
        if isinstance(node, (ast.ListComp, ast.DictComp)):
            return self.read_comprehension(node)
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
            return self.combine_values([self.read_expression(node.left), self.read_expression(node.right)])
        if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
            return self.combine_values([self.read_expression(node.operand)])
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and not isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return self.combine_values([self.read_expression(node.left), self.read_expression(node.comparators[0])])
        if isinstance(node, ast.Subscript):
            return self.read_subscript(node)
        if isinstance(node, ast.Call):
            return self.read_call(node)
        raise NotProvenError(f"line {node.lineno}")

    def read_list(self, node: ast.Tuple | ast.List) -> Value:
        if any(isinstance(e, ast.Starred) for e in node.elts):
            raise NotProvenError("a star")
        parts = tuple(self.read_expression(e) for e in node.elts)
        if parts and all(isinstance(p, ConstantValue) for p in parts):
            ranks = {p.rank for p in parts if isinstance(p, ConstantValue)}
            rank = ranks.pop() if len(ranks) == 1 else None
            return ConstantValue(None if rank is None else rank + 1)
        return StructureValue(parts)

    def read_comprehension(self, node: ast.ListComp | ast.DictComp) -> Value:
        """Follow each iteration of ``[row[f"slot_{i}"] for i in range(8)]``."""
        loop = keys.single_generator(node)
        name, before = scope_names.dotted_name(loop.target), dict(self.known)
        if scope_names.read_names(loop.iter) & set(self.known):
            raise NotProvenError("a loop over what is made of the element")
        parts, names = [], []
        for turn in keys.iterated_literals(self.source, loop.iter):
            self.known[name] = ConstantValue(0, turn)
            parts.append(self.read_expression(node.value if isinstance(node, ast.DictComp) else node.elt))
            names.append(self.literal_key(node.key) if isinstance(node, ast.DictComp) else None)
        self.known = before
        if isinstance(node, ast.DictComp) and None in names:
            raise NotProvenError("a key")
        return StructureValue(tuple(parts), tuple(names) if isinstance(node, ast.DictComp) else ())

    def literal_key(self, node: ast.expr) -> object | None:
        """Return the literal value of a key."""
        counted = {n: v.value for n, v in self.known.items() if isinstance(v, ConstantValue) and v.value is not None}
        return keys.literal_value(node, counted)

    def read_attribute(self, node: ast.Attribute) -> Value:
        if scope_names.dotted_name(node) and scope_names.dotted_name(node).partition(".")[0] not in self.known:
            full = scope_names.resolved_name(self.source, node)
            return ConstantValue(0 if full.startswith(("tensorflow.", "numpy.", "math.")) else None)
        owner = self.read_expression(node.value) if isinstance(node.value, (ast.Name, ast.Attribute)) else None
        if isinstance(owner, ObjectValue):
            return functions.attribute_value(self.source, owner.kind, node.attr)
        if isinstance(owner, ConstantValue):
            return ConstantValue()  # an attribute of a value that is the same for all elements
        if node.attr == "dtype" and isinstance(self.read_expression(node.value), ElementValue):
            return ConstantValue(0)
        raise NotProvenError(f"line {node.lineno}: .{node.attr}")

    def combine_values(self, values: Sequence[Value]) -> Value:
        """Return the result of an elementwise operation."""
        items = [replace(v, group=False) for v in values if isinstance(v, ElementValue)]  # dictionaries are not added
        if any(isinstance(v, (StructureValue, ObjectValue)) for v in values):
            raise NotProvenError("a list in an operation")
        if not items:
            flat = all(isinstance(v, ConstantValue) and v.rank == 0 for v in values)
            return ConstantValue(0 if flat else None)
        first = items[0]
        same = all(i.rank == first.rank and i.rank is not None for i in items) or all(
            i.like == first.like and i.like is not None for i in items
        )
        if not same:
            raise NotProvenError("different axes")
        for one in values:
            if isinstance(one, ConstantValue) and one.rank != 0:
                if first.rank is not None and one.rank is not None and one.rank <= first.rank:
                    continue
                if one.rank is not None:
                    raise NotProvenError("a constant with more axes")
                self.found.doubt = True
        return first

    # -- parts of a value

    def read_subscript(self, node: ast.Subscript) -> Value:
        value = self.read_expression(node.value)
        if isinstance(value, ConstantValue):
            return ConstantValue()
        index = node.slice
        if isinstance(value, StructureValue):
            told = self.literal_key(index)
            return keys.indexed_parts(value, ast.Constant(told) if isinstance(told, (str, int)) else index)
        if isinstance(value, ObjectValue):
            raise NotProvenError("an object's items")
        key = index.value if isinstance(index, ast.Constant) else None
        if isinstance(key, str) or (value.group and value.rank == 0 and isinstance(key, int)):
            if not value.group and not isinstance(value.like, tuple):
                raise NotProvenError("a key of a tensor")
            return ElementValue(value.rank, None if value.rank is not None else (value.like, key))
        if value.group:
            raise NotProvenError("an index of a group")
        listed = index.elts if isinstance(index, ast.Tuple) else [index]
        dots = bool(listed) and isinstance(listed[0], ast.Constant) and listed[0].value is Ellipsis
        taken = listed[1:] if dots else listed
        added = sum(name_bindings.is_new_axis(self.source, i) for i in taken)
        if any(
            isinstance(self.read_expression(i), (ElementValue, StructureValue))
            for i in taken
            if not isinstance(i, ast.Slice)
        ):
            raise NotProvenError("an index that differs")
        if any(isinstance(i, ast.Constant) and i.value is Ellipsis for i in taken):
            raise NotProvenError("an index")
        if not dots:
            if value.rank is None or added or not 0 < len(taken) <= value.rank:
                raise NotProvenError("an index of the first axis")
            self.found.changes.append(edits.insert_text(self.source, edits.node_start(index), "..., "))
            if len(taken) < value.rank:
                more = ", :" * (value.rank - len(taken))
                self.found.changes.append(edits.insert_text(self.source, edits.node_end(index), more))
        gone = sum(not isinstance(i, ast.Slice) and not name_bindings.is_new_axis(self.source, i) for i in taken)
        self.found.lowered |= gone > 0
        return ElementValue(
            None if value.rank is None else value.rank - gone + added, node if value.rank is None else None
        )

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
        everything = [*values, *named.values()]
        if not any(isinstance(v, (ElementValue, StructureValue)) for v in everything):
            if plain.startswith(("random.", "image.", "io.", "py_function", "numpy_function")):
                raise NotProvenError(f"line {node.lineno}: {name}")
            return ConstantValue(
                values[0].rank if plain in ("constant", "cast") and isinstance(values[0], ConstantValue) else None
            )
        if plain in BINARY_FUNCTIONS:
            return self.combine_values(everything)
        if plain in LIST_FUNCTIONS and isinstance(values[0], StructureValue) and not values[0].keys:
            return self.combine_values([*values[0].parts, *everything[1:]])
        if plain in UNARY_FUNCTIONS or plain in IMAGE_FUNCTIONS or plain in DRAWING_FUNCTIONS:
            if not isinstance(values[0], ElementValue) or any(
                isinstance(v, (ElementValue, StructureValue)) for v in everything[1:]
            ):
                raise NotProvenError(f"line {node.lineno}: {name}")
            if plain not in UNARY_FUNCTIONS and values[0].rank != 3:
                raise NotProvenError("not one picture")
            self.found.random |= plain in DRAWING_FUNCTIONS
            return values[0]
        if plain in AXIS_FUNCTIONS or plain in STRUCTURE_FUNCTIONS:
            return axis_operations.operation_result(self.found, node, plain, values, named)
        raise NotProvenError(f"line {node.lineno}: {name}")

    def read_shape_like(self, node: ast.Call, plain: str, like: ast.expr) -> Value:
        """``tf.random.normal(tf.shape(x))`` draws separate numbers for each element of a batch."""
        found = self.read_expression(like)
        others = [*node.args[1:], *(k.value for k in node.keywords if k.arg != "shape")]
        if not isinstance(found, ElementValue) or any(self.read_expression(one) != ConstantValue(0) for one in others):
            raise NotProvenError(f"line {node.lineno}: {plain}")
        self.found.random |= plain.startswith("random.")
        return replace(found, group=False)

    def read_own_call(self, node: ast.Call) -> Value:
        """Follow a function of the file, a Keras layer of it, or a builtin that only rearranges values."""
        rearranged = keys.rearranged_parts(self.source, node, self.read_expression)
        if rearranged is not None:
            return rearranged
        if isinstance(node.func, ast.Attribute) and node.func.attr == "pop" and isinstance(node.func.value, ast.Name):
            return self.read_pop(node.func.value.id, node)
        method = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
        if not method and (not isinstance(node.func, ast.Name) or node.func.id in self.known):
            raise NotProvenError(f"line {node.lineno}")
        values = [self.read_expression(a) for a in node.args]
        layers = functions.layer_kinds(self.source, node.func.id) if isinstance(node.func, ast.Name) else []
        if layers:
            others = [self.read_expression(k.value) for k in node.keywords]
            first = values[0] if len(values) == 1 else None
            if not isinstance(first, ElementValue) or any(not isinstance(v, ConstantValue) for v in others):
                raise NotProvenError("a layer's arguments")
            if any(layer != "Rescaling" for layer in layers) and first.rank != 3:
                raise NotProvenError("not one picture")
            self.found.random |= any(layer.startswith("Random") for layer in layers)
            return first
        function, first_of = functions.mapped_function(self.source, node.func, node)
        if first_of and not isinstance(self.read_expression(node.func.value), ObjectValue):  # type: ignore[attr-defined]
            raise NotProvenError("a method of another object")
        named = {k.arg: self.read_expression(k.value) for k in node.keywords}
        names = [a.arg for a in function.args.args][len(first_of) :]
        defaults: dict[str, Value] = {n: ConstantValue() for n in names[len(names) - len(function.args.defaults) :]}
        given = dict(zip(names, values, strict=False)) | {k: v for k, v in named.items() if k}
        every = defaults | given
        if len(values) > len(names) or set(every) != set(names):
            raise NotProvenError("its arguments")
        found = _FunctionReader(self.found, self.depth + 1).read_function(
            function, [*first_of, *(every[n] for n in names)]
        )
        if found is None:
            raise NotProvenError("no value")
        return found

    def read_pop(self, name: str, node: ast.Call) -> Value:
        group = self.known.get(name)
        key = node.args[0].value if len(node.args) == 1 and isinstance(node.args[0], ast.Constant) else None
        if not isinstance(group, StructureValue) or key not in group.keys:
            raise NotProvenError(".pop()")
        at = group.keys.index(key)
        parts = (*group.parts[:at], *group.parts[at + 1 :])
        self.known[name] = StructureValue(parts, (*group.keys[:at], *group.keys[at + 1 :]))
        return group.parts[at]


def _is_open(value: Value) -> bool:
    return isinstance(value, StructureValue) and value.each is not None
