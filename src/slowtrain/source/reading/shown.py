"""The lines of the script behind a measurement: the line to change, which need not be one that ran long.

A measurement names the lines that were running: the call of the step, the start of training. The cause may be
elsewhere: a flag in a helper, a number among the settings, the layer that has the table.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterable, Iterator

from slowtrain.model import Edit, Place
from slowtrain.source import Source
from slowtrain.source.reading import finding, following, index, scopes, settings, values, visible
from slowtrain.source.reading.recorded import text_of, texts_of
from slowtrain.trace import Trace

MOST = 4  # places per finding
WRAPPERS = ("numpy_function", "py_function", "py_func")  # make a Python function an op
DEPTH = 3  # functions and names followed to a value


def lines(trace: Trace, seen: Callable[[Source], Iterable[int]]) -> tuple[Place, ...]:
    """The places that ``seen`` finds in the project's files."""
    found: dict[Place, None] = {}
    for text in texts_of(trace):
        with contextlib.suppress(RecursionError):  # nested too deeply
            found.update((Place(text.file, line), None) for line in seen(text))
    return tuple(found)


def changed(edits: Iterable[Edit]) -> tuple[Place, ...]:
    """The lines on which edits begin, in the order of the text."""
    return tuple(dict.fromkeys(Place(e.file, e.start[0]) for e in sorted(edits, key=lambda e: (e.file, e.start))))


def together(*several: Iterable[Place]) -> tuple[Place, ...]:
    """The first few distinct places."""
    return tuple(dict.fromkeys(place for places in several for place in places))[:MOST]


def at(trace: Trace, place: Place, seen: Callable[[Source, int], Iterable[int]]) -> tuple[Place, ...]:
    """Places that ``seen`` finds in the file of ``place``."""
    text = text_of(trace, place.file)
    return tuple(dict.fromkeys(Place(place.file, line) for line in seen(text, place.line))) if text else ()


def number(source: Source, node: ast.expr) -> Iterator[int]:
    """The line of the literal behind a name or a settings entry; none for a literal in place."""
    found = None if isinstance(node, ast.Constant) else settings.literal(source, node)
    if found is not None:
        yield found.node.lineno


def limiting(source: Source, call: ast.Call) -> Iterator[int]:
    """Where a call's arguments come from: a literal elsewhere, or calls of the function around it."""
    given = [*call.args, *(k.value for k in call.keywords)]
    for one in given:
        yield from number(source, one)
    function = finding.function(source, call)
    if function is None:
        return
    read = {name for one in given for name in scopes.read(one)}
    parameters = set(scopes.parameters(function)) - {"self", "cls"}
    for name in [*read]:
        read |= _made_of(function, name, DEPTH)
    if not read & parameters:
        return
    for caller in following.callers(source, function):
        given = [*caller.args, *(k.value for k in caller.keywords)]
        found = [line for one in given for line in number(source, one)]
        yield from found or [caller.lineno]


def _made_of(function: ast.AST, name: str, depth: int) -> set[str]:
    """Names that a function reads to compute the name."""
    found: set[str] = set()
    for one in scopes.own(scopes.body(function)) if depth else ():
        if isinstance(one, ast.Assign) and name in scopes.bound(one.targets):
            found |= scopes.read(one.value)
    return found.union(*(_made_of(function, other, depth - 1) for other in found - {name}))


def part(source: Source, line: int, function: str, argument: tuple[str, int], inside: str) -> Iterator[int]:
    """The lines that give a part of an argument of ``function`` at ``line`` its value.

    ``argument``: its name and position. ``inside``: the part as signatures write it, ``['beta']``, ``[0]``, ``.rate``.
    """
    call = finding.only(source, line, function)
    given = finding.keyword(call, argument[0], argument[1]) if call is not None else None
    if given is None or any(isinstance(a, ast.Starred) for a in getattr(call, "args", ())):
        return
    yield from _part(source, given, inside, line, DEPTH)


def _part(source: Source, node: ast.expr, inside: str, line: int, depth: int) -> Iterator[int]:
    """Lines that store ``inside`` into the value of ``node``, other than the line of the call."""
    if not depth:
        return
    if isinstance(node, ast.Name):
        stored = [n for n in _stores(source, inside) if ast.unparse(n) == f"{node.id}{inside}"]
        near = [n for n in stored if finding.function(source, n) is finding.function(source, node)]
        if near:
            yield from (n.lineno for n in near if n.lineno != line)
            return
        value = values.assigned(source, node)
        if value is not None:
            yield from _part(source, value, inside, line, depth - 1)
        return
    if isinstance(node, ast.Call):
        made = following.function(source, node)
        if made is not None:
            for back in following.returned(made):
                yield from _part(source, back, inside, line, depth - 1)
            return
    if isinstance(node, (ast.Call, ast.Dict, ast.Tuple, ast.List)) and node.lineno != line:
        yield node.lineno


def _stores(source: Source, inside: str) -> list[ast.expr]:
    """Subscripts or attributes that are stored to, by the form of ``inside``."""
    kind: type[ast.expr] = ast.Subscript if inside.endswith("]") else ast.Attribute
    every = index.nodes(source, kind)
    return [n for n in every if isinstance(n, kind) and isinstance(getattr(n, "ctx", None), ast.Store)]


def receiver(source: Source, line: int, method: str) -> Iterator[int]:
    """The line that creates the object whose ``method`` is called at ``line``, in the same turn of the same loop."""
    call = finding.only(source, line, method)
    owner = call.func.value if call is not None and isinstance(call.func, ast.Attribute) else None
    made = values.assigned(source, owner) if isinstance(owner, ast.Name) else None
    if call is None or not isinstance(made, ast.Call) or made.lineno == line:
        return
    same = finding.function(source, made) is finding.function(source, call)
    if same and scopes.loops(source, made) == scopes.loops(source, call):
        yield made.lineno


def loop(source: Source, line: int) -> Iterator[int]:
    """The head of the innermost loop around a line, unless it has few turns."""
    every = [n for n in index.nodes(source, ast.For) if isinstance(n, ast.For)]
    inner = max((n for n in every if n.lineno < line <= (n.end_lineno or 0)), key=lambda n: n.lineno, default=None)
    if inner is not None and not visible.few(source, inner):
        yield inner.lineno


def wrapping(trace: Trace, places: Iterable[Place]) -> tuple[Place, ...]:
    """Where the functions that contain ``places`` are made graph ops, in which they still run as Python."""

    def wrapped(source: Source, line: int) -> Iterator[int]:
        name = getattr(source.function_at(line), "name", "")
        for call in index.of(source).called(*WRAPPERS) if name else ():
            given = finding.keyword(call, "func", 0)
            if given is not None and scopes.dotted(given).rpartition(".")[2] == name:
                yield call.lineno

    return tuple(found for place in places for found in at(trace, place, wrapped))


def batch(source: Source, line: int) -> Iterator[int]:
    """Where the batch size of ``fit`` or ``batch`` at a line is written, if it is elsewhere."""
    for call in finding.calls(source, line, "fit", "batch"):
        given = settings.forwarded(source, call, "batch_size")
        if given is None and finding.called(call) == "batch" and call.args:
            given = settings.written(source, call.args[0])
        if isinstance(given, ast.Constant) and not call.lineno <= given.lineno <= (call.end_lineno or call.lineno):
            yield given.lineno


def definition(source: Source, line: int) -> ast.FunctionDef | None:
    """The function whose definition, decorators included, begins on a line."""
    for one in index.nodes(source, ast.FunctionDef):
        if isinstance(one, ast.FunctionDef) and line in (one.lineno, *(d.lineno for d in one.decorator_list)):
            return one
    return None
