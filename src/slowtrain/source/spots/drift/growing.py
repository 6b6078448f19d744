"""Tensors, arrays and data sets that each turn of a training loop makes longer, and nothing makes shorter."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.source import Source
from slowtrain.source.reading import finding, following, index, objects, scopes, values, visible
from slowtrain.source.reading.input import chains
from slowtrain.source.spots.host import fits

JOINED = ("concat", "concatenate", "append", "vstack", "hstack")
STAGES = frozenset({"map", "filter", "concatenate", "flat_map", "interleave", "shuffle"})
FEW = 4  # turns, of a data set that gets a stage in each


def longer(source: Source) -> Iterator[tuple[ast.Assign, str]]:
    """``all = tf.concat([all, new], 0)`` and ``ds = ds.map(f)`` in the turns of a loop that trains; what is seen."""
    if not visible.trains(source):
        return
    for call in index.of(source).called(*JOINED):
        holder = finding.parents(source).get(call)
        whole = values.qualified(source, call.func)
        if not isinstance(holder, ast.Assign) or not whole.startswith(("tensorflow.", "numpy.", "keras.ops.")):
            continue
        name = _target(holder)
        if name and name in _parts(call) and _grows(source, holder, name, visible.FEW):
            yield holder, f"{name} gets longer in each turn of the training loop, which works on all of it"
    if not chains.may_make(source):
        return
    for call in index.of(source).called(*sorted(STAGES)):
        last = finding.outermost(source, call)
        holder = finding.parents(source).get(last)
        name = _target(holder) if isinstance(holder, ast.Assign) and holder.value is last else ""
        if not isinstance(holder, ast.Assign) or not name or not _on_itself(last, name):
            continue
        if _grows(source, holder, name, FEW):
            yield holder, f"each turn of the loop puts .{finding.called(call)}() on top of the stages that {name} has"


def _target(one: ast.Assign) -> str:
    return scopes.dotted(one.targets[0]) if len(one.targets) == 1 else ""


def _parts(call: ast.Call) -> list[str]:
    given = call.args[0] if call.args else finding.keyword(call, "values")
    several = given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given]
    return [scopes.dotted(one) for one in several if one is not None]


def _on_itself(last: ast.Call, name: str) -> bool:
    """Whether the chain begins with the name, and makes no fresh data set."""
    first = list(finding.chain(last))[-1]
    return isinstance(first.func, ast.Attribute) and scopes.dotted(first.func.value) == name


def _grows(source: Source, one: ast.Assign, name: str, few: int) -> bool:
    """Whether a loop that takes steps runs it in each of many turns, and nothing else in there assigns the name."""
    for loop, inside in following.repeated_by(source, one):
        turns = visible.turns(source, loop)
        if (turns is not None and turns <= few) or visible.written_out(loop):
            continue
        if _set_elsewhere(source, one, name, loop) or not _trains(source, loop, inside):
            continue
        return True
    return False


def _set_elsewhere(source: Source, one: ast.Assign, name: str, loop: ast.AST) -> bool:
    if "." not in name:
        scope = scopes.scope(source, one)
        function = finding.function(source, one)
        if function is not None and name not in scopes.outer(function) and function is not scopes.scope(source, loop):
            return True  # a function's own name, made anew in each call
        others = [n for n in scopes.binders(source, name, scope) if n is not one]
        begin, end = getattr(loop, "lineno", 0), getattr(loop, "end_lineno", 0)
        return any(begin <= getattr(n, "lineno", 0) <= end for n in others)
    if not name.startswith("self.") or name.count(".") > 1:
        return True
    stored = [s for s in objects.stores(source, name.partition(".")[2]) if finding.statement(source, s) is not one]
    made = [finding.function(source, s) for s in stored]
    return any(f is None or f.name != "__init__" for f in made) or not stored


def _trains(source: Source, loop: ast.For | ast.While, inside: ast.stmt) -> bool:
    fit = any(scopes.loops(source, c)[:1] == [loop] for c in index.of(source).called("fit"))
    return fit or fits.takes_step(source, [inside, *loop.body])
