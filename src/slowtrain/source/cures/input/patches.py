"""Loops that fill a rectangle of an array element by element, written as one assignment to the rectangle."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.navigation import name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.host.overarrays import OPERATORS
from slowtrain.values import dataclass

# NumPy draws as many numbers of these at once in the same order as one by one.
DRAWN = frozenset("random random_sample uniform normal standard_normal".split())
SPREAD = frozenset({"rand", "randn"})  # take the shape's numbers one by one
WHOLE = frozenset({"randint", "integers", "randrange"})


@dataclass(frozen=True)
class Side:
    """One axis of the rectangle: where it begins (nothing: at 0), and how long it is."""

    start: str
    length: int

    @property
    def text(self) -> str:
        return f"{self.start}:{self.start} + {self.length}" if self.start else f":{self.length}"


def filled(source: Source, line: int) -> list[Edit]:
    """The loops around ``line``, or in its function, that do nothing but fill a rectangle."""
    function = source.function_at(line)
    loops = [n for n in syntax_tree.walk(function or source.tree) if isinstance(n, ast.For)]
    found: list[Edit] = []
    within: set[int] = set()
    for loop in sorted(loops, key=edits.node_start):
        made = _rectangle(source, loop) if id(loop) not in within else []
        if made:
            found += made
            within |= {id(n) for n in syntax_tree.walk(loop)}
    return found


def _rectangle(source: Source, outer: ast.For) -> list[Edit]:
    lengths: dict[str, int] = {}
    one: ast.stmt = outer
    while isinstance(one, ast.For):
        counted = _counted(source, one)
        if counted is None or len(one.body) != 1 or counted[0] in lengths:
            return []
        lengths[counted[0]] = counted[1]
        one = one.body[0]
    targets = one.targets if isinstance(one, ast.Assign) else [one.target] if isinstance(one, ast.AugAssign) else []
    target = targets[0] if len(targets) == 1 else None
    if not isinstance(one, (ast.Assign, ast.AugAssign)) or not isinstance(target, ast.Subscript):
        return []
    array = target.value
    sides = _sides(source, target.slice, lengths)
    if not isinstance(array, ast.Name) or not sides or not _array(source, array):
        return []
    if _read_elsewhere(source, outer, lengths):
        return []
    made = _value(source, one.value, {*lengths, array.id}, [side.length for side in sides], array.id)
    operator = ""
    if isinstance(one, ast.AugAssign):
        operator = OPERATORS.get(type(one.op), "")
        if not operator or made != edits.node_text(source, one.value):
            return []
    if made is None:
        return []
    text = f"{array.id}[{', '.join(side.text for side in sides)}] {operator}= {made}"
    return [edits.replace_node(source, outer, text)]


def _counted(source: Source, loop: ast.For) -> tuple[str, int] | None:
    """The index and the number of turns of ``for k in range(6)``."""
    over = loop.iter
    if (
        not isinstance(loop.target, ast.Name)
        or not isinstance(over, ast.Call)
        or scope_names.dotted_name(over.func) != "range"
    ):
        return None
    turns = _whole(source, over.args[0]) if len(over.args) == 1 and not loop.orelse else None
    return (loop.target.id, turns) if turns is not None and turns > 0 else None


def _whole(source: Source, node: ast.expr) -> int | None:
    """A whole number that stands here or is assigned once. A parameter's is not known: libraries call, too."""
    value = name_bindings.single_assignment(source, node) if isinstance(node, ast.Name) else node
    number = value.value if isinstance(value, ast.Constant) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _sides(source: Source, index: ast.expr, lengths: dict[str, int]) -> list[Side]:
    """``y + dy, x + dx``: the axes in the order of the loops, each from a place that is not negative."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    found, used = [], []
    for part in parts:
        start: ast.expr | None = None
        moving = part
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
            right = isinstance(part.right, ast.Name) and part.right.id in lengths
            start, moving = (part.left, part.right) if right else (part.right, part.left)
        if not isinstance(moving, ast.Name) or moving.id not in lengths:
            return []
        if start is not None and not (_simple(start) and _from_zero(source, start)):
            return []
        used.append(moving.id)
        found.append(Side(edits.node_text(source, start) if start is not None else "", lengths[moving.id]))
    return found if used == list(lengths) else []


def _simple(node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Constant))


def _from_zero(source: Source, node: ast.expr, depth: int = 4) -> bool:
    """Whether a place is surely not negative: a negative one would begin a rectangle at the other end."""
    number = _whole(source, node)
    if number is not None:
        return number >= 0
    if isinstance(node, ast.Call):
        name = node_lookup.called_name(node)
        if name in WHOLE and node.args:
            first = _whole(source, node.args[0])
            alone = len(node.args) == 1 and not any(k.arg in ("high", "low") for k in node.keywords)
            return alone or (first is not None and first >= 0)
        if name == "max":
            return any((n := _whole(source, a)) is not None and n >= 0 for a in node.args)
        return name in ("int", "abs", "len") and (name != "int" or _from_zero(source, node.args[0], depth - 1))
    if not isinstance(node, ast.Name) or not depth:
        return False
    bound = list(name_bindings.bindings_of(name_bindings.binding_scope(source, node, node.id), node.id))
    above = node_lookup.parents_of(source)
    holder = above.get(bound[0]) if len(bound) == 1 else None
    if isinstance(holder, (ast.Tuple, ast.List)):
        holder = above.get(holder)
    if isinstance(holder, ast.For):
        over = holder.iter
        if not isinstance(over, ast.Call) or node_lookup.called_name(over) != "range":
            return False
        given = [_whole(source, a) for a in over.args]
        return len(given) == 1 or all(n is not None and n >= 0 for n in given)
    return isinstance(holder, ast.Assign) and _from_zero(source, holder.value, depth - 1)


def _array(source: Source, name: ast.Name) -> bool:
    """Whether a name holds an array: made by NumPy, a copy, or cast."""
    bound = name_bindings.bindings_of(name_bindings.binding_scope(source, name, name.id), name.id)
    above = node_lookup.parents_of(source)
    made = [holder.value for n in bound if isinstance(holder := above.get(n), ast.Assign) and n in holder.targets]
    kinds = {
        isinstance(v, ast.Call)
        and (
            node_lookup.called_name(v) in ("astype", "reshape")
            or name_bindings.qualified_name(source, v.func).startswith("numpy.")
        )
        for v in made
        if not (isinstance(v, ast.Call) and node_lookup.called_name(v) == "copy")
    }
    copied = any(isinstance(v, ast.Call) and node_lookup.called_name(v) == "copy" for v in made)
    return bool(made) and (kinds == {True} or (copied and not kinds))


def _value(source: Source, node: ast.expr, varying: set[str], shape: list[int], array: str) -> str | None:
    """What the whole rectangle is set to: the same number, or as many drawn in the same order."""
    if not any(isinstance(n, ast.Call) for n in syntax_tree.walk(node)):
        return None if varying & scope_names.read_names(node) else edits.node_text(source, node)
    if (
        not isinstance(node, ast.Call)
        or varying & scope_names.read_names(node)
        or not isinstance(node.func, ast.Attribute)
    ):
        return None
    name, owner = node_lookup.called_name(node), node.func.value
    if name_bindings.qualified_name(source, owner) != "numpy.random" and not _generator(source, owner):
        return None
    arguments = [*node.args, *(k.value for k in node.keywords)]
    if any(isinstance(n, ast.Call) for a in arguments for n in syntax_tree.walk(a)):
        return None
    written = ", ".join(map(str, shape))
    called = edits.node_text(source, node.func)
    if name in SPREAD and not arguments:
        drawn = f"{called}({written})"
    elif name in DRAWN and len(node.args) <= 2 and not {k.arg for k in node.keywords} - {"low", "high", "loc", "scale"}:
        given = [edits.node_text(source, a) for a in node.args]
        given += [f"{k.arg}={edits.node_text(source, k.value)}" for k in node.keywords]
        if name in ("random", "random_sample", "standard_normal") and given:
            return None
        drawn = f"{called}({', '.join([*given, f'size=({written},)'])})"
    else:
        return None
    return f"{drawn}.reshape({written}, *[1] * ({array}.ndim - {len(shape)}))"


def _generator(source: Source, owner: ast.expr) -> bool:
    given = name_bindings.single_assignment(source, owner) if isinstance(owner, ast.Name) else None
    made = name_bindings.qualified_name(source, given.func) if isinstance(given, ast.Call) else ""
    return made in ("numpy.random.default_rng", "numpy.random.RandomState")


def _read_elsewhere(source: Source, loop: ast.For, lengths: dict[str, int]) -> bool:
    """Whether an index is used behind the loops, where it would be the last turn's."""
    inside = {id(n) for n in syntax_tree.walk(loop)}
    names = (
        n
        for n in syntax_tree.walk(scope_names.enclosing_scope(source, loop))
        if isinstance(n, ast.Name) and id(n) not in inside
    )
    return any(n.id in lengths and isinstance(n.ctx, ast.Load) for n in names)
