"""Lists handed to TensorFlow, which goes through them element by element: made arrays by NumPy first."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from slowtrain.model import Edit
from slowtrain.source import Source, edits, trees
from slowtrain.source.cures import extracting
from slowtrain.source.reading import finding, graphable, index, kinds, objects, scopes
from slowtrain.values import dataclass

CONVERSIONS = ("tensorflow.constant", "tensorflow.convert_to_tensor")
TYPES = {"tensorflow.float32": "float32", "tensorflow.float64": "float64"}
WHOLE = {**TYPES, "tensorflow.int32": "int32", "tensorflow.int64": "int64"}
MADE_LISTS = (ast.List, ast.ListComp)


def made_there(source: Source, line: int) -> bool:
    """Whether ``line`` makes a list and converts it: ``tf.constant([rows[i] for i in chosen])``."""
    given = [finding.keyword(c, "value", 0) for c in _calls(source, line) if scopes.full(source, c.func) in CONVERSIONS]
    return any(isinstance(one, MADE_LISTS) for one in given)


def as_array_first(source: Source, line: int) -> list[Edit]:
    """``tf.constant(rows, tf.float32)`` at ``line`` of ``np.asarray(rows, "float32")`` where ``rows`` is a list.

    Where the text does not tell, the script asks: what is no list is handed on as it was.
    """
    found: list[Edit] = []
    numpy, importing = edits.imported(source, "numpy", "np")
    for call in _calls(source, line):
        given = finding.keyword(call, "value", 0)
        dtype = _dtype(source, call)
        if scopes.full(source, call.func) not in CONVERSIONS or given is None or dtype is None or _traced(source, call):
            continue
        array = f'{numpy}.asarray({edits.written(source, given)}, "{dtype}")'
        known = _listed(source, given)
        if known is None and isinstance(given, ast.Name):
            array = f"{array} if isinstance({given.id}, (list, tuple)) else {given.id}"
        elif not known:
            continue
        found.append(edits.replace(source, given, array))
    return [*importing, *found] if found else []


def as_array_once(source: Source, line: int) -> list[Edit]:
    """``tf.constant([rows[i] for i in chosen], tf.float32)`` at ``line`` in a loop, of an array made before the loop.

    Of ``rows[i].x`` and ``rows[i]["x"]`` as well. Where ``rows`` is made before it too, and nothing changes ``rows``.
    """
    every = [(c, taken) for c in _calls(source, line) if (taken := _rows_taken(source, c)) is not None]
    if len(every) != 1:
        return []
    call, taken = every[0]
    dtype, given, loops = _dtype(source, call, WHOLE), finding.keyword(call, "value", 0), scopes.loops(source, call)
    if dtype is None or not loops or not isinstance(given, ast.ListComp) or not _stays(source, taken, loops[-1]):
        return []
    rows = edits.written(source, taken.rows)
    last = rows.rpartition(".")[2]
    numpy, importing = edits.imported(source, "numpy", "np")
    name = extracting.free_name(source, f"{last}_{taken.parts[-1]}" if taken.parts else f"{last}_array")
    whole = f"[one{taken.tail} for one in {rows}]" if taken.tail else rows
    place = edits.written(source, taken.item)[len(rows) :]
    each = edits.written(source, taken.over)[len(edits.written(source, taken.over.elt)) + 1 :]
    return [
        *importing,
        edits.before(source, loops[-1], f'{name} = {numpy}.asarray({whole}, "{dtype}")'),
        edits.replace(source, given, f"{numpy}.stack([{name}{place}{each})"),
    ]


@dataclass(frozen=True)
class _Taken:
    """``item`` is ``rows[i]`` in the list ``over``; ``tail`` is what is asked of it, ``.x`` or ``["x"]``: ``parts``."""

    rows: ast.Name | ast.Attribute
    over: ast.ListComp
    item: ast.Subscript
    tail: str
    parts: tuple[str, ...]


def _rows_taken(source: Source, call: ast.Call) -> _Taken | None:
    """What is taken by ``tf.constant([rows[a:b] for a in starts])``, where all that is taken are rows of it."""
    given = finding.keyword(call, "value", 0)
    if scopes.full(source, call.func) not in CONVERSIONS or not isinstance(given, ast.ListComp):
        return None
    item, parts, over = given.elt, [], given
    while isinstance(item, (ast.Attribute, ast.Subscript)):
        key = item.slice.value if isinstance(item, ast.Subscript) and isinstance(item.slice, ast.Constant) else None
        if isinstance(item, ast.Subscript) and not isinstance(key, str):
            break
        parts.append(item.attr if isinstance(item, ast.Attribute) else str(key))
        item = item.value
    tail = edits.written(source, given.elt)[len(edits.written(source, item)) :]
    if isinstance(item, ast.Name) and (group := _group(source, given, item)) is not None:
        item, over = group.elt, group
    own = {n.id for g in over.generators for n in trees.walk(g.target) if isinstance(n, ast.Name)}
    if not isinstance(item, ast.Subscript) or isinstance(item.slice, ast.Tuple) or _traced(source, call):
        return None
    rows = item.value
    named = isinstance(rows, ast.Name) or scopes.dotted(rows).startswith("self.")
    if not isinstance(rows, (ast.Name, ast.Attribute)) or not named or scopes.dotted(rows) in own:
        return None
    if kinds.of(source, rows) in (kinds.TENSOR, kinds.CONSTANT):
        return None
    return _Taken(rows, over, item, tail, tuple(parts[::-1]))


def _group(source: Source, given: ast.ListComp, row: ast.Name) -> ast.ListComp | None:
    """``[rows[i] for i in chosen]``, which ``group`` is, of ``[row.x for row in group]``."""
    each = given.generators[0]
    if (
        len(given.generators) != 1
        or each.ifs
        or not isinstance(each.iter, ast.Name)
        or scopes.dotted(each.target) != row.id
    ):
        return None
    made = scopes.binders(source, each.iter.id, scopes.scope(source, given))
    value = made[0].value if len(made) == 1 and isinstance(made[0], ast.Assign) else None
    beside = value is not None and scopes.loops(source, made[0]) == scopes.loops(source, given)
    if not isinstance(value, ast.ListComp) or len(value.generators) != 1 or value.generators[0].ifs or not beside:
        return None
    # It is worked out once more for each list: a draw would give others.
    called = {finding.called(n) for n in trees.walk(value.generators[0].iter) if isinstance(n, ast.Call)}
    return value if called <= {"range", "len"} else None


def _stays(source: Source, taken: _Taken, loop: ast.stmt) -> bool:
    """Whether the rows are made before ``loop``, and neither they nor what is asked of them changes anywhere."""
    rows = taken.rows
    if isinstance(rows, ast.Name):
        scope = kinds.where_bound(source, rows)
        made = [getattr(n, "lineno", 0) for n in scopes.binders(source, rows.id, scope)] if scope is not None else []
        made += [0] if scope is not None and rows.id in scopes.parameters(scope) else []
        if scope is not scopes.scope(source, loop) or len(made) != 1 or made[0] >= loop.lineno:
            return False
        if not all(_only_looked_at(source, n) for n in trees.walk(loop) if getattr(n, "id", "") == rows.id):
            return False
    names = {*taken.parts, *([rows.attr] if isinstance(rows, ast.Attribute) else [])}
    if objects.stored_later(source, names):
        return False
    return not any(_changed(source, name) for name in names)


def _only_looked_at(source: Source, node: ast.AST) -> bool:
    """``rows`` of ``rows[i]`` and of ``len(rows)``."""
    holder = finding.parents(source).get(node)
    length = isinstance(holder, ast.Call) and scopes.dotted(holder.func) == "len"
    return length or (isinstance(holder, ast.Subscript) and holder.value is node and isinstance(holder.ctx, ast.Load))


def _changed(source: Source, name: str) -> bool:
    """Whether something is put into a list, or it is made longer, anywhere."""
    if name in objects.longer(source) or name in objects.shorter(source):
        return True
    for node in index.nodes(source, ast.Subscript):
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if name in (scopes.dotted(node.value).rpartition(".")[2], key):
                return True
    return False


def _dtype(source: Source, call: ast.Call, types: Mapping[str, str] = TYPES) -> str | None:
    """The name of the type that the call asks for, of those to which NumPy and TensorFlow round alike."""
    given = finding.keyword(call, "dtype", 1)
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        return given.value if given.value in types.values() else None
    return types.get(scopes.full(source, given)) if given is not None else None


def _calls(source: Source, line: int) -> list[ast.Call]:
    return [n for n in index.nodes(source, ast.Call) if isinstance(n, ast.Call) and n.lineno == line]


def _listed(source: Source, given: ast.expr, depth: int = 4) -> bool | None:
    """Whether it is a list of data; None where the text does not tell, or not of what."""
    if isinstance(given, MADE_LISTS):
        inner = given.elts if isinstance(given, ast.List) else [given.elt]
        if any(kinds.of(source, e) == kinds.TENSOR for e in inner):
            return False
        return True if all(kinds.of(source, e) in (kinds.ARRAY, kinds.NUMBER) for e in inner) else None
    if kinds.of(source, given) in (kinds.TENSOR, kinds.ARRAY, kinds.NUMBER, kinds.CONSTANT):
        return False
    if not isinstance(given, ast.Name) or not depth:
        return None
    scope = kinds.where_bound(source, given)
    found = scopes.binders(source, given.id, scope) if scope is not None else []
    values = [n.value for n in found if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]
    known = {_listed(source, v, depth - 1) for v in values} if len(values) == len(found) else set()
    return known.pop() if len(known) == 1 else None


def _traced(source: Source, call: ast.Call, depth: int = 3) -> bool:
    """Whether it may run in a graph or under a tape: there NumPy would cut what is followed."""
    if any(
        isinstance(n, ast.With) and finding.is_tape(n) and call in trees.walk(n) for n in index.nodes(source, ast.With)
    ):
        return True
    function = finding.function(source, call)
    if function is None:
        return False
    if graphable.graphed(source, function) or function.name in ("call", "train_step", "test_step") or not depth:
        return True
    return any(_traced(source, one, depth - 1) for one in index.of(source).called(function.name) if one is not call)
