"""Tensors, arrays and data sets that each turn of a training loop makes longer, and nothing makes shorter."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.source import Source
from slowtrain.source.reading import finding, following, index, kinds, objects, scopes, values, visible
from slowtrain.source.reading.input import chains
from slowtrain.source.spots.compute import turns
from slowtrain.source.spots.host import callbacks, fits

JOINED = ("concat", "concatenate", "append", "vstack", "hstack")
READING = frozenset({"numpy", "value", "read_value"})
FRAMEWORKS = ("tensorflow.", "numpy.", "keras.ops.")
STAGES = frozenset({"map", "filter", "concatenate", "flat_map", "interleave", "shuffle"})
FEW = 4  # turns, of a data set that gets a stage in each


def longer(source: Source) -> Iterator[tuple[ast.stmt, ast.expr, str]]:
    """``all = tf.concat([all, new], 0)`` and ``ds = ds.map(f)`` in the turns of a loop that trains; what is seen.

    The statement, what it makes longer, and the words.
    """
    if not visible.trains(source):
        return
    yield from _joined(source)
    if not chains.may_make(source):
        return
    for call in index.of(source).called(*sorted(STAGES)):
        last = finding.outermost(source, call)
        holder = finding.parents(source).get(last)
        name = _target(holder) if isinstance(holder, ast.Assign) and holder.value is last else ""
        if not isinstance(holder, ast.Assign) or not name or not _on_itself(last, name):
            continue
        if _grows(source, holder, name, FEW):
            says = f"each turn of the loop puts .{finding.called(call)}() on top of the stages that {name} has"
            yield holder, holder.targets[0], says


def _joined(source: Source) -> Iterator[tuple[ast.stmt, ast.expr, str]]:
    """What is put together with new parts under its old name, or assigned to the variable that it was."""
    for call in index.of(source).called(*JOINED):
        holder = finding.parents(source).get(call)
        if not values.qualified(source, call.func).startswith(FRAMEWORKS):
            continue
        variable = _assigned(source, call)
        if variable is not None and _stays(source, variable) and _each_step(source, variable):
            statement, name = finding.statement(source, variable), scopes.dotted(variable.func.value)  # type: ignore[attr-defined]
            if statement is not None:
                yield statement, variable.func, f"{name} gets longer in each step, which works on all of it"
            continue
        yield from _handed_back(source, call)
        if not isinstance(holder, ast.Assign):
            continue
        name = _target(holder)
        if not name or name not in _parts(call):
            continue
        if _grows(source, holder, name, visible.FEW) or _hooked(source, holder, name):
            says = f"{name} gets longer in each turn of the training loop, which works on all of it"
            yield holder, holder.targets[0], says


def _handed_back(source: Source, call: ast.Call) -> Iterator[tuple[ast.stmt, ast.expr, str]]:
    """``bank = step(x, bank)`` in a loop, of a function that gives its parameter back with new parts."""
    function = finding.function(source, call)
    given = set(_parts(call)) & set(scopes.parameters(function)) if function is not None else set()
    if function is None or not given:
        return
    holder, (parameter, *_) = finding.parents(source).get(call), sorted(given)
    target = _target(holder) if isinstance(holder, ast.Assign) else ""
    for name in {target, parameter} - {""}:
        if [n for n in scopes.binders(source, name, function) if n is not holder and n is not function]:
            return  # cut again, maybe
    several = following.returned(function)
    parts = (several[0].elts if isinstance(several[0], ast.Tuple) else several) if len(several) == 1 else []
    at = [i for i, one in enumerate(parts) if one is call or (isinstance(one, ast.Name) and one.id == target)]
    for made in following.callers(source, function) if len(at) == 1 else ():
        kept = finding.parents(source).get(made)
        goes_in = kinds.given_in(function, made, parameter)
        if not isinstance(kept, ast.Assign) or not isinstance(goes_in, ast.Name) or len(kept.targets) != 1:
            continue
        first = kept.targets[0]
        back = first if len(parts) == 1 else first.elts[at[0]] if _unpacks(first, len(parts)) else None  # type: ignore[attr-defined]
        if isinstance(back, ast.Name) and back.id == goes_in.id and _grows(source, kept, back.id, visible.FEW):
            says = f"{back.id} comes back longer from each turn of the training loop, which works on all of it"
            yield kept, first, says


def _unpacks(target: ast.expr, count: int) -> bool:
    return isinstance(target, ast.Tuple) and len(target.elts) == count


def _target(one: ast.Assign) -> str:
    return scopes.dotted(one.targets[0]) if len(one.targets) == 1 else ""


def _parts(call: ast.Call) -> list[str]:
    given = call.args[0] if call.args else finding.keyword(call, "values")
    several = given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given]
    return [_read(one) for one in several if one is not None]


def _read(one: ast.expr) -> str:
    """``self.bank`` of ``self.bank.numpy()`` as well."""
    if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in READING:
        return scopes.dotted(one.func.value)
    return scopes.dotted(one)


def _assigned(source: Source, joined: ast.Call) -> ast.Call | None:
    """``bank.assign(tf.concat([bank, new], 0))``, by a name in between as well: the call of ``assign``."""
    holder = finding.parents(source).get(joined)
    given: list[ast.expr] = [joined]
    if isinstance(holder, ast.Assign) and len(holder.targets) == 1 and isinstance(holder.targets[0], ast.Name):
        function = finding.function(source, holder)
        read = [n for n in values.loads(source, holder.targets[0].id) if finding.function(source, n) is function]
        given = [n for n in read if values.assigned(source, n) is joined]
    for one in given:
        call = finding.parents(source).get(one)
        owner = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
        given_first = isinstance(call, ast.Call) and one in call.args[:1] and finding.called(call) == "assign"
        if given_first and owner is not None and scopes.dotted(owner) in set(_parts(joined)) - {""}:
            return call  # type: ignore[return-value]
    return None


def _stays(source: Source, assign: ast.Call) -> bool:
    """Whether nothing else in the file gives the variable something: it may well be a shorter one."""
    name = scopes.dotted(assign.func.value) if isinstance(assign.func, ast.Attribute) else ""
    last = name.rpartition(".")[2]
    for other in index.of(source).called("assign"):
        owner = other.func.value if isinstance(other.func, ast.Attribute) else None
        if other is not assign and owner is not None and scopes.dotted(owner).rpartition(".")[2] == last:
            return False
    made = [finding.function(source, s) for s in objects.stores(source, last)] if "." in name else []
    return all(f is not None and f.name in ("__init__", "build") for f in made)


def _each_step(source: Source, call: ast.Call) -> bool:
    """Whether a step runs it, or a loop that takes steps, in each turn: no test and no loop decides."""
    function, above = finding.function(source, call), finding.parents(source)
    at = above.get(call)
    while at is not None and at is not function:
        if isinstance(at, (ast.If, ast.For, ast.While, ast.IfExp)):
            function = None
            break
        at = above.get(at)
    if function is not None and (turns.in_step(source, call) or _is_hook(source, function)):
        return True
    return any(
        not visible.few(source, loop) and not visible.written_out(loop) and _trains(source, loop, inside)
        for loop, inside in following.repeated_by(source, call)
    )


def _is_hook(source: Source, function: objects.Function) -> bool:
    """Whether Keras calls it for each batch."""
    kind = finding.parents(source).get(function)
    return (
        function.name in callbacks.HOOKS
        and isinstance(kind, ast.ClassDef)
        and any(scopes.dotted(base).endswith("Callback") for base in kind.bases)
    )


def _hooked(source: Source, one: ast.Assign, name: str) -> bool:
    """``self.seen = np.concatenate([self.seen, new])`` in a hook of each batch."""
    function = finding.function(source, one)
    hook = function is not None and one in function.body and _is_hook(source, function)
    return hook and not _set_elsewhere(source, one, name, source.tree)


def _on_itself(last: ast.Call, name: str) -> bool:
    """Whether the chain begins with the name, and makes no fresh data set."""
    first = list(finding.chain(last))[-1]
    return isinstance(first.func, ast.Attribute) and scopes.dotted(first.func.value) == name


def _grows(source: Source, one: ast.Assign, name: str, few: int) -> bool:
    """Whether a loop that takes steps runs it in each of many turns, and nothing else in there assigns the name."""
    for loop, inside in following.repeated_by(source, one):
        count = visible.turns(source, loop)
        if (count is not None and count <= few) or visible.written_out(loop):
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
