"""Batches put together from records one by one: each field of the records as an array, rows taken out of it at once.

``rows = [self.records[i] for i in drawn]`` and ``np.array([r["obs"] for r in rows], "float32")`` become
``rows = drawn`` and ``self.records_obs[rows]``, for records that nothing changes after they were made.
"""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.navigation import call_index, class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.values import dataclass

# Draws of NumPy's that give an array of whole numbers, where they are told how many.
DRAWN = {"integers": 3, "randint": 3, "choice": 2, "permutation": 2}
ARRAYS = ("numpy.array", "numpy.asarray")
FORMATS = frozenset("float32 float64 float16 int8 int16 int32 int64 uint8 bool".split())
# What makes a value of its own, that no later change of an array reaches.
FRESH = frozenset({"tolist", "int", "float", "bool", "item", "copy"})


@dataclass(frozen=True)
class Field:
    """One array made from a field of the rows: the call, the key, its number format as it is written."""

    call: ast.Call
    key: ast.Constant
    format: str

    @property
    def name(self) -> str:
        return str(self.key.value)


def kept(source: Source, line: int) -> list[Edit]:
    """The records that the function at ``line`` picks out, as one array a field."""
    function = source.function_at(line)
    if not isinstance(function, ast.FunctionDef):
        return []
    for statement in function.body:
        made = _picked(source, function, statement) if isinstance(statement, ast.Assign) else []
        if made:
            return made
    return []


def _picked(source: Source, function: ast.FunctionDef, statement: ast.Assign) -> list[Edit]:
    """``rows = [self.records[i] for i in drawn]`` and all that is made of ``rows``."""
    value, target = statement.value, statement.targets[0]
    if not isinstance(value, ast.ListComp) or len(statement.targets) != 1 or not isinstance(target, ast.Name):
        return []
    loop = value.generators[0]
    if len(value.generators) != 1 or loop.ifs or not isinstance(loop.target, ast.Name) or not _drawn(source, loop.iter):
        return []
    taken = value.elt
    if not isinstance(taken, ast.Subscript) or scope_names.dotted_name(taken.slice) != loop.target.id:
        return []
    records = taken.value
    if not isinstance(records, ast.Attribute) or scope_names.dotted_name(records.value) != "self":
        return []
    fields = _fields(source, function, target.id)
    made = _made(source, records, taken)
    if not fields or made is None:
        return []
    names = {f.name: _free(source, f"{records.attr}_{f.name}") for f in fields}
    if None in names.values() or not all(n.isidentifier() for n in names):
        return []
    whole = f"self.{records.attr}"
    lines = []
    for key, one in {f.name: f for f in fields}.items():
        array = edits.node_text(source, one.call.func)
        lines.append(f"self.{names[key]} = {array}([r[{one.key.value!r}] for r in {whole}], {one.format})\n")
    cured = [edits.replace_node(source, f.call, f"self.{names[f.name]}[{target.id}]") for f in fields]
    drawn = edits.replace_node(source, value, edits.node_text(source, loop.iter))
    return [edits.insert_after(source, made, "".join(lines)), drawn, *cured]


def _drawn(source: Source, node: ast.expr) -> bool:
    """Whether places are an array of whole numbers that NumPy drew."""
    if isinstance(node, ast.Name):
        value = name_bindings.single_assignment(source, node)
        return value is not None and not isinstance(value, ast.Name) and _drawn(source, value)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    name = node.func.attr
    sized = node_lookup.argument_value(node, "size", DRAWN.get(name, 9) - 1)
    whole = name != "choice" or (bool(node.args) and _number(node.args[0]))
    return name in DRAWN and sized is not None and not isinstance(sized, (ast.Tuple, ast.List)) and whole


def _number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (
        isinstance(node, ast.Call) and scope_names.dotted_name(node.func) == "len"
    )


def _fields(source: Source, function: ast.FunctionDef, rows: str) -> list[Field]:
    """All uses of ``rows`` in the function, where each is an array of one field with its number format."""
    above, found = node_lookup.parents_of(source), []
    for node in syntax_tree.walk(function):
        if not isinstance(node, ast.Name) or node.id != rows or not isinstance(node.ctx, ast.Load):
            continue
        loop = above.get(node)
        listed = above.get(loop) if isinstance(loop, ast.comprehension) else None
        call = above.get(listed) if isinstance(listed, ast.ListComp) else None
        if not isinstance(listed, ast.ListComp) or not isinstance(call, ast.Call):
            return []
        field = _field(source, call, listed)
        if field is None:
            return []
        found.append(field)
    formats = {(f.name, f.format) for f in found}
    return found if len(formats) == len({f.name for f in found}) else []


def _field(source: Source, call: ast.Call, listed: ast.ListComp) -> Field | None:
    format_ = node_lookup.argument_value(call, "dtype", 1)
    loop, taken = listed.generators[0], listed.elt
    if name_bindings.qualified_name(source, call.func) not in ARRAYS or call.args[:1] != [listed] or format_ is None:
        return None
    if len(call.args) + len(call.keywords) != 2 or len(listed.generators) != 1 or loop.ifs:
        return None
    if not isinstance(taken, ast.Subscript) or scope_names.dotted_name(taken.value) != scope_names.dotted_name(
        loop.target
    ):
        return None
    name = (
        format_.value
        if isinstance(format_, ast.Constant)
        else name_bindings.qualified_name(source, format_).rpartition(".")[2]
    )
    key = taken.slice
    if name not in FORMATS or not isinstance(key, ast.Constant) or not isinstance(key.value, (str, int)):
        return None
    if not isinstance(key.value, str):
        return None
    return Field(call, key, edits.node_text(source, format_))


def _made(source: Source, records: ast.Attribute, taken: ast.Subscript) -> ast.stmt | None:
    """The statement of the constructor that makes the records, if nothing else has hold of them or changes them."""
    above = node_lookup.parents_of(source)
    uses = [
        n
        for n in call_index.nodes_of_kind(source, ast.Attribute)
        if isinstance(n, ast.Attribute) and n.attr == records.attr
    ]
    stores = [n for n in uses if not isinstance(n.ctx, ast.Load)]
    statement = node_lookup.enclosing_statement(source, stores[0]) if len(stores) == 1 else None
    function = node_lookup.enclosing_function(source, stores[0]) if stores else None
    if not isinstance(statement, ast.Assign) or statement.targets != stores or function is None:
        return None
    if (
        function.name != "__init__"
        or statement not in function.body
        or scope_names.dotted_name(stores[0].value) != "self"
    ):
        return None
    if class_members.enclosing_class(source, statement) is not class_members.enclosing_class(source, taken):
        return None
    for node in uses:
        holder = above.get(node)
        length = isinstance(holder, ast.Call) and scope_names.dotted_name(holder.func) == "len"
        if node not in stores and holder is not taken and not length:
            return None
    listed = statement.value
    if not isinstance(listed, ast.ListComp) or not isinstance(listed.elt, ast.Dict):
        return None
    return statement if all(_fresh(v) for v in listed.elt.values) else None


def _fresh(node: ast.expr) -> bool:
    """Whether a value is one that nothing else holds: a number, a text, a list or an array of its own."""
    if isinstance(node, ast.Call):
        return node_lookup.called_name(node) in FRESH
    if isinstance(node, (ast.BinOp, ast.Compare)):
        return True
    return isinstance(node, ast.Constant)


def _free(source: Source, name: str) -> str | None:
    taken = {n.attr for n in call_index.nodes_of_kind(source, ast.Attribute) if isinstance(n, ast.Attribute)}
    return name if name not in taken else None
