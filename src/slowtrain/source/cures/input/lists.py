"""Lists handed to TensorFlow, which goes through them element by element: made arrays by NumPy first."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from slowtrain.model import Edit
from slowtrain.source import Source, edits, trees
from slowtrain.source.cures import extracting
from slowtrain.source.reading import finding, graphable, index, kinds, objects, scopes

CONVERSIONS = ("tensorflow.constant", "tensorflow.convert_to_tensor")
TYPES = {"tensorflow.float32": "float32", "tensorflow.float64": "float64"}
WHOLE = {**TYPES, "tensorflow.int32": "int32", "tensorflow.int64": "int64"}
MADE_LISTS = (ast.List, ast.ListComp)


def as_array_first(source: Source, line: int) -> list[Edit]:
    """``tf.constant(rows, tf.float32)`` at ``line`` of ``np.asarray(rows, "float32")`` where ``rows`` is a list.

    Where the text does not tell, the script asks: what is no list is handed on as it was.
    """
    calls = [n for n in index.nodes(source, ast.Call) if isinstance(n, ast.Call) and n.lineno == line]
    found: list[Edit] = []
    numpy, importing = edits.imported(source, "numpy", "np")
    for call in calls:
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

    Where ``rows`` is made before it too, and nothing in it changes ``rows``.
    """
    calls = [n for n in index.nodes(source, ast.Call) if isinstance(n, ast.Call) and n.lineno == line]
    taken = [(c, rows) for c in calls if (rows := _rows_taken(source, c)) is not None]
    if len(taken) != 1:
        return []
    call, rows = taken[0]
    dtype, given = _dtype(source, call, WHOLE), finding.keyword(call, "value", 0)
    loops, scope = scopes.loops(source, call), kinds.where_bound(source, rows)
    if dtype is None or not loops or scope is None or scope is not scopes.scope(source, call) or given is None:
        return []
    outermost = loops[-1]
    made = scopes.binders(source, rows.id, scope)
    if len(made) != 1 or getattr(made[0], "lineno", 0) >= outermost.lineno or _changed(source, rows.id):
        return []
    numpy, importing = edits.imported(source, "numpy", "np")
    name = extracting.free_name(source, f"{rows.id}_array")
    return [
        *importing,
        edits.before(source, outermost, f'{name} = {numpy}.asarray({rows.id}, "{dtype}")'),
        edits.replace(source, rows, name),
        edits.insert(source, edits.start(given), f"{numpy}.stack("),
        edits.insert(source, edits.end(given), ")"),
    ]


def _rows_taken(source: Source, call: ast.Call) -> ast.Name | None:
    """``rows`` of ``tf.constant([rows[a:b] for a in starts])``, where all that is taken are rows of it."""
    given = finding.keyword(call, "value", 0)
    if scopes.full(source, call.func) not in CONVERSIONS or not isinstance(given, ast.ListComp):
        return None
    taken = given.elt
    own = {n.id for g in given.generators for n in trees.walk(g.target) if isinstance(n, ast.Name)}
    if not isinstance(taken, ast.Subscript) or not isinstance(taken.value, ast.Name) or taken.value.id in own:
        return None
    tensor = kinds.of(source, taken.value) in (kinds.TENSOR, kinds.CONSTANT)
    return None if tensor or isinstance(taken.slice, ast.Tuple) or _traced(source, call) else taken.value


def _changed(source: Source, name: str) -> bool:
    """Whether something is put into a list, or it is made longer, anywhere."""
    if name in objects.longer(source) or name in objects.shorter(source):
        return True
    stores = (n for n in index.nodes(source, ast.Subscript) if not isinstance(getattr(n, "ctx", None), ast.Load))
    return any(isinstance(n, ast.Subscript) and scopes.dotted(n.value) == name for n in stores)


def _dtype(source: Source, call: ast.Call, types: Mapping[str, str] = TYPES) -> str | None:
    """The name of the type that the call asks for, of those to which NumPy and TensorFlow round alike."""
    given = finding.keyword(call, "dtype", 1)
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        return given.value if given.value in types.values() else None
    return types.get(scopes.full(source, given)) if given is not None else None


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
    if any(isinstance(n, ast.With) and _tape(n) and call in trees.walk(n) for n in index.nodes(source, ast.With)):
        return True
    function = finding.function(source, call)
    if function is None:
        return False
    if graphable.graphed(source, function) or function.name in ("call", "train_step", "test_step") or not depth:
        return True
    return any(_traced(source, one, depth - 1) for one in index.of(source).called(function.name) if one is not call)


def _tape(block: ast.With) -> bool:
    made = (i.context_expr for i in block.items)
    return any(isinstance(c, ast.Call) and finding.called(c) == "GradientTape" for c in made)
