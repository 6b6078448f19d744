"""Evaluates keys and loops of literals: ``f"slot_{i}"`` for ``i in range(10)``, and dictionaries filled by them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from slowtrain.script.fixes.elementwise.known_operations import ConstantValue, NotProvenError, StructureValue, Value
from slowtrain.script.navigation import name_bindings, node_lookup, scope_names, setting_origins
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

MAX_ITERATIONS = 1000  # iterations of a comprehension


def literal_value(node: ast.expr, known: Mapping[str, object]) -> object | None:
    """Return the string or number of ``node``, with ``known`` values of names; None if unknown."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, int)):
        return node.value
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = literal_value(node.left, known), literal_value(node.right, known)
        if isinstance(left, int) and isinstance(right, int):
            return left + right
        return left + right if isinstance(left, str) and isinstance(right, str) else None
    if isinstance(node, ast.Call) and scope_names.dotted_name(node.func) == "str" and len(node.args) == 1:
        found = literal_value(node.args[0], known)
        return None if found is None else str(found)
    return _formatted_text(node, known) if isinstance(node, ast.JoinedStr) else None


def _formatted_text(node: ast.JoinedStr, known: Mapping[str, object]) -> str | None:
    parts = []
    for one in node.values:
        if isinstance(one, ast.Constant):
            parts.append(str(one.value))
            continue
        told = isinstance(one, ast.FormattedValue) and one.conversion == -1
        found = literal_value(one.value, known) if isinstance(one, ast.FormattedValue) and told else None
        spec = literal_value(one.format_spec, known) if isinstance(one, ast.FormattedValue) and one.format_spec else ""
        if found is None or not isinstance(spec, str):
            return None
        try:
            parts.append(format(found, spec))
        except ValueError:
            return None
    return "".join(parts)


def iterated_literals(source: Source, over: ast.expr) -> list[object]:
    """Return the items of ``range(10)`` or of a list of literals."""
    if isinstance(over, ast.Call) and scope_names.dotted_name(over.func) == "range" and not over.keywords:
        bounds = [setting_origins.literal_int(source, a) for a in over.args]
        whole = [b for b in bounds if b is not None]
        if len(whole) != len(bounds) or (len(whole) == 3 and whole[2] == 0):
            raise NotProvenError("a range")
        turns = range(*whole)
        if len(turns) > MAX_ITERATIONS:
            raise NotProvenError("many turns")
        return list(turns)
    listed = setting_origins.written_value(source, over) if isinstance(over, ast.Name) else over
    if not isinstance(listed, (ast.List, ast.Tuple)) or (isinstance(over, ast.Name) and _may_change(source, over)):
        raise NotProvenError("a loop")
    found = [literal_value(e, {}) for e in listed.elts]
    if any(f is None for f in found):
        raise NotProvenError("a loop")
    return found


def rearranged_parts(source: Source, node: ast.Call, value: Callable[[ast.expr], Value]) -> Value | None:
    """Return the parts of ``dict(zip(names, parts))``, ``list(parts)`` or ``d.values()``.

    Also ``len`` of a value that is the same for all elements. None for other calls. ``value`` evaluates an expression.
    """
    if isinstance(node.func, ast.Attribute) and node.func.attr == "values" and not node.args:
        held = value(node.func.value)
        return StructureValue(held.parts) if isinstance(held, StructureValue) and held.keys else None
    name = scope_names.dotted_name(node.func)
    given = node.args[0] if len(node.args) == 1 and not node.keywords else None
    if (
        given is None
        or name not in ("dict", "list", "tuple", "len")
        or node_lookup.function_named(source, name) is not None
    ):
        return None
    if name == "len":
        return ConstantValue(0) if isinstance(value(given), ConstantValue) else None
    if name != "dict":
        held = value(given)
        return held if isinstance(held, StructureValue) and not held.keys else None
    if not isinstance(given, ast.Call) or scope_names.dotted_name(given.func) != "zip" or len(given.args) != 2:
        return None
    names, held = iterated_literals(source, given.args[0]), value(given.args[1])
    if not isinstance(held, StructureValue) or held.keys:
        return None
    parts = held.parts if held.each is None else (held.each,) * len(names)
    return StructureValue(parts, tuple(names)) if len(parts) == len(names) else None


def single_generator(node: ast.ListComp | ast.DictComp) -> ast.comprehension:
    """Return the only loop of a comprehension. It has a plain name as target and no condition."""
    only = node.generators[0]
    if len(node.generators) != 1 or only.ifs or only.is_async or not isinstance(only.target, ast.Name):
        raise NotProvenError("a comprehension")
    return only


def dictionary_entries(source: Source, node: ast.expr) -> list[tuple[object, ast.expr]]:
    """Return the entries of a dictionary: literal, comprehended, or assigned in the same block."""
    if isinstance(node, ast.Name):
        where = name_bindings.binding_scope(source, node, node.id)
        value = name_bindings.single_assignment(source, node)
        if value is None or not _is_only_read(source, node):
            raise NotProvenError("a dictionary")
        return [*dictionary_entries(source, value), *_stored_entries(source, where, node.id)]
    if isinstance(node, ast.Dict):
        keys = [literal_value(k, {}) if k is not None else None for k in node.keys]
        if any(k is None for k in keys):
            raise NotProvenError("keys")
        return list(zip(keys, node.values, strict=True))
    if isinstance(node, ast.DictComp):
        loop = single_generator(node)
        name = scope_names.dotted_name(loop.target)
        return [_literal_entry(node.key, node.value, {name: turn}) for turn in iterated_literals(source, loop.iter)]
    raise NotProvenError("a dictionary")


def _literal_entry(key: ast.expr, value: ast.expr, known: Mapping[str, object]) -> tuple[object, ast.expr]:
    found = literal_value(key, known)
    if found is None:
        raise NotProvenError("a key")
    return found, value


def _stored_entries(source: Source, where: ast.AST, name: str) -> list[tuple[object, ast.expr]]:
    """Return entries of ``spec[key] = value`` in the block of the dictionary, or in a loop there."""
    above, found = node_lookup.parents_of(source), []
    for node in syntax_tree.walk(source.tree):
        if not (isinstance(node, ast.Subscript) and scope_names.dotted_name(node.value) == name):
            continue
        if isinstance(node.ctx, ast.Load):
            continue
        assign = above.get(node)
        if not isinstance(assign, ast.Assign) or assign.targets != [node]:
            raise NotProvenError("a dictionary that changes")
        holder = above.get(assign)
        known: list[dict[str, object]] = [{}]
        if isinstance(holder, ast.For) and isinstance(holder.target, ast.Name) and not holder.orelse:
            known = [{holder.target.id: turn} for turn in iterated_literals(source, holder.iter)]
            holder = above.get(holder)
        if holder is not where:
            raise NotProvenError("a dictionary that changes")
        found += [_literal_entry(node.slice, assign.value, one) for one in known]
    return found


def _is_only_read(source: Source, name: ast.Name) -> bool:
    """Whether only ``spec[key] = value`` changes the dictionary."""
    above = node_lookup.parents_of(source)
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.Name) and node.id == name.id and isinstance(node.ctx, ast.Load):
            holder = above.get(node)
            if isinstance(holder, ast.Attribute) and holder.attr not in ("keys", "values", "items", "get", "copy"):
                return False
            if isinstance(holder, ast.AugAssign) and holder.target is node:
                return False
    return True


def _may_change(source: Source, name: ast.Name) -> bool:
    """Whether a list may change after its creation."""
    above = node_lookup.parents_of(source)
    holders = [above.get(n) for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Name) and n.id == name.id]
    return any(
        isinstance(h, (ast.Attribute, ast.AugAssign))
        or (isinstance(h, ast.Subscript) and not isinstance(h.ctx, ast.Load))
        for h in holders
    )


def indexed_parts(value: StructureValue, index: ast.expr) -> Value:
    """Return the part, or parts, at an index."""
    if isinstance(index, ast.Slice):
        if value.keys:
            raise NotProvenError("a slice of a dictionary")
        if value.each is not None:
            return value
        bounds = [literal_number(b) for b in (index.lower, index.upper, index.step)]
        return StructureValue(value.parts[slice(*bounds)])
    place = index.value if isinstance(index, ast.Constant) else literal_number(index)
    if value.keys:
        if place not in value.keys:
            raise NotProvenError("a key")
        return value.parts[value.keys.index(place)]
    if value.each is not None:
        return value.each
    if not isinstance(place, int) or not -len(value.parts) <= place < len(value.parts):
        raise NotProvenError("an index")
    return value.parts[place]


def literal_number(node: ast.expr | None) -> int | None:
    if node is None:
        return None
    try:
        found = ast.literal_eval(node)
    except ValueError as error:
        raise NotProvenError("an index") from error
    if not isinstance(found, int):
        raise NotProvenError("an index")
    return found
