"""Where the script's own text says what a recording measured: the line to change, which need not be one that ran long.

A measurement names lines that were at work: the call of the step, the start of training. What has to be written
otherwise may stand far from them: a switch in a helper, a number among the settings, the layer that has the table.
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

MOST = 4  # places that one finding names
WRAPPERS = ("numpy_function", "py_function", "py_func")  # of TensorFlow: a Python function as an op
DEPTH = 3  # functions and names on the way to where a value is made


def lines(trace: Trace, seen: Callable[[Source], Iterable[int]]) -> tuple[Place, ...]:
    """What ``seen`` finds in the project's files."""
    found: dict[Place, None] = {}
    for text in texts_of(trace):
        with contextlib.suppress(RecursionError):  # nested too deeply: it shows nothing
            found.update((Place(text.file, line), None) for line in seen(text))
    return tuple(found)


def changed(edits: Iterable[Edit]) -> tuple[Place, ...]:
    """The lines that edits begin on, in the order of the text."""
    return tuple(dict.fromkeys(Place(e.file, e.start[0]) for e in sorted(edits, key=lambda e: (e.file, e.start))))


def together(*several: Iterable[Place]) -> tuple[Place, ...]:
    """Each place once, the first ones first."""
    return tuple(dict.fromkeys(place for places in several for place in places))[:MOST]


def at(trace: Trace, place: Place, seen: Callable[[Source, int], Iterable[int]]) -> tuple[Place, ...]:
    """Lines of the same file as ``place``."""
    text = text_of(trace, place.file)
    return tuple(dict.fromkeys(Place(place.file, line) for line in seen(text, place.line))) if text else ()


def number(source: Source, node: ast.expr) -> Iterator[int]:
    """The line of the literal that a name or an entry of settings stands for; nothing of what is written in place."""
    found = None if isinstance(node, ast.Constant) else settings.literal(source, node)
    if found is not None:
        yield found.node.lineno


def limiting(source: Source, call: ast.Call) -> Iterator[int]:
    """Where a call's arguments are decided on: a literal elsewhere; calls of the function that stands around it."""
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
    """Names that a function reads to make what it calls ``name``."""
    found: set[str] = set()
    for one in scopes.own(scopes.body(function)) if depth else ():
        if isinstance(one, ast.Assign) and name in scopes.bound(one.targets):
            found |= scopes.read(one.value)
    return found.union(*(_made_of(function, other, depth - 1) for other in found - {name}))


def part(source: Source, line: int, function: str, argument: tuple[str, int], inside: str) -> Iterator[int]:
    """Where a part of what ``function`` is given at ``line`` gets its value.

    ``argument``: its name and its place. ``inside``: the part as signatures call it, ``['beta']``, ``[0]``, ``.rate``.
    """
    call = finding.only(source, line, function)
    given = finding.keyword(call, argument[0], argument[1]) if call is not None else None
    if given is None or any(isinstance(a, ast.Starred) for a in getattr(call, "args", ())):
        return
    yield from _part(source, given, inside, line, DEPTH)


def _part(source: Source, node: ast.expr, inside: str, line: int, depth: int) -> Iterator[int]:
    """Lines that put ``inside`` into what ``node`` is, where that is not the line of the call itself."""
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
    """Entries and attributes that are assigned and end alike."""
    kind: type[ast.expr] = ast.Subscript if inside.endswith("]") else ast.Attribute
    every = index.nodes(source, kind)
    return [n for n in every if isinstance(n, kind) and isinstance(getattr(n, "ctx", None), ast.Store)]


def receiver(source: Source, line: int, method: str) -> Iterator[int]:
    """Where the object is made whose ``method`` is called at ``line``, in the same turn of the same loop."""
    call = finding.only(source, line, method)
    owner = call.func.value if call is not None and isinstance(call.func, ast.Attribute) else None
    made = values.assigned(source, owner) if isinstance(owner, ast.Name) else None
    if call is None or not isinstance(made, ast.Call) or made.lineno == line:
        return
    same = finding.function(source, made) is finding.function(source, call)
    if same and scopes.loops(source, made) == scopes.loops(source, call):
        yield made.lineno


def loop(source: Source, line: int) -> Iterator[int]:
    """The head of the innermost loop around a line, of many turns as far as the text tells."""
    every = [n for n in index.nodes(source, ast.For) if isinstance(n, ast.For)]
    inner = max((n for n in every if n.lineno < line <= (n.end_lineno or 0)), key=lambda n: n.lineno, default=None)
    if inner is not None and not visible.few(source, inner):
        yield inner.lineno


def wrapping(trace: Trace, places: Iterable[Place]) -> tuple[Place, ...]:
    """Where the functions that hold ``places`` are made ops of a graph: they stay Python's there."""

    def wrapped(source: Source, line: int) -> Iterator[int]:
        name = getattr(source.function_at(line), "name", "")
        for call in index.of(source).called(*WRAPPERS) if name else ():
            given = finding.keyword(call, "func", 0)
            if given is not None and scopes.dotted(given).rpartition(".")[2] == name:
                yield call.lineno

    return tuple(found for place in places for found in at(trace, place, wrapped))


def batch(source: Source, line: int) -> Iterator[int]:
    """Where the number of samples is written that ``fit`` or ``batch`` at a line is given, if that is elsewhere."""
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
