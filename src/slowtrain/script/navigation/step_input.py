"""The lines of a hand-written loop that make the input of its step, by the text alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import (
    FILE_READERS,
    FUNCTION_NODES,
    RANDOM_CALLS,
    Source,
    cache_recent,
    holds_line,
    names_in,
)

FILE_MODULES = frozenset(
    {"h5py", "zarr", "netCDF4", "tables", "rasterio", "lmdb", "sqlite3", "pandas", "PIL", "Image", "cv2", "imageio"}
)
BLOCK_STATEMENTS = (ast.For, ast.While, ast.With, ast.If, ast.Try)
FILLING_METHODS = frozenset({"append", "appendleft", "extend", "insert", "add", "update"})
ITERATION_METHODS = ("__iter__", "__next__", "__getitem__")
MAX_ASSIGNMENTS = 3  # followed from a name to the library that opens a file


class InputLines(Struct, frozen=True):
    """The lines of a hand-written loop that make the step's input.

    ``mixed``: lines that also take the step. ``random``: something is drawn at random. ``data``: some of the input
    comes from data that existed before. ``reads``: a file or a store is read. ``repeated``: a loop of epochs is around.
    """

    lines: frozenset[int]
    mixed: frozenset[int]
    random: bool
    data: bool
    reads: bool
    repeated: bool


@cache_recent(64)
def input_lines(source: Source, step_line: int) -> InputLines | None:
    """The lines of the loop around ``step_line``, and of functions they call, that make the step's input."""
    loops = [n for n in source.loops if holds_line(n, step_line)]
    if not loops:
        return None
    loop = max(loops, key=lambda n: n.lineno)
    before = [s for s in _loop_statements(loop) if s.lineno <= step_line and not isinstance(s, BLOCK_STATEMENTS)]
    step = next((s for s in reversed(before) if holds_line(s, step_line)), None)
    if step is None:
        return None
    wanted, making = set(_loaded_names(step)), []
    for statement in reversed([s for s in before if s is not step]):
        if wanted & set(_stored_names(statement)):
            making.append(statement)
            wanted |= set(_loaded_names(statement))
    header: list[ast.AST] = []
    if isinstance(loop, ast.For) and wanted & set(_stored_names(loop.target)):
        header = [loop.iter]
        wanted |= set(_loaded_names(loop.iter))
    taking = [c for c in syntax_tree.walk(step) if isinstance(c, ast.Call) and holds_line(c, step_line)]
    arguments = [a for c in taking for a in (*c.args, *(k.value for k in c.keywords))]
    worked = [a for a in arguments if any(isinstance(n, (ast.Subscript, ast.Call)) for n in syntax_tree.walk(a))]
    functions = [
        f
        for n in (*making, *header, *worked)
        for f in source.reachable_functions(n)[1:]
        if not _takes_step(f, step_line)
    ]
    functions += _iteration_methods(source) if header else ()
    functions += _generators_behind(source, wanted)
    lines = {n for one in (*making, *header, *functions) for n in _line_range(one)}
    nodes = [n for one in (*making, *header, *worked, *functions) for n in syntax_tree.walk(one)]
    names = {n.id if isinstance(n, ast.Name) else n.attr for n in nodes if isinstance(n, (ast.Name, ast.Attribute))}
    names |= wanted
    mixed = frozenset(_line_range(step)) if worked else frozenset()
    reads = bool(FILE_READERS & names) or _comes_from_file(source, names)
    data = bool(functions) or any(isinstance(n, ast.Subscript) for n in nodes)
    return InputLines(frozenset(lines) - mixed, mixed, bool(RANDOM_CALLS & names), data, reads, len(loops) > 1)


def lines_beside_step(source: Source, step_line: int) -> tuple[frozenset[int], frozenset[int]]:
    """Lines of functions that the loop around ``step_line`` calls before the step, and only after it."""
    loop, line = source.loop_at_line(step_line)
    if loop is None:
        return frozenset(), frozenset()
    ahead, behind = set[int](), set[int]()
    parts: list[ast.expr | ast.stmt] = [*_block_heads(loop), *_loop_statements(loop)]
    for one in parts:
        side = behind if one.lineno > line else ahead
        for part in _block_heads(one) if isinstance(one, BLOCK_STATEMENTS) else [one]:
            handing = _iteration_methods(source) if part is getattr(loop, "iter", None) else ()
            for function in (*source.reachable_functions(part)[1:], *handing):
                side.update(() if _takes_step(function, step_line) else _line_range(function))
    return frozenset(ahead), frozenset(behind - ahead)


@cache_recent(4)
def _iteration_methods(source: Source) -> tuple[ast.AST, ...]:
    """The iteration methods of the file's classes, and the functions that they call."""
    classes = [n for n in syntax_tree.walk_statements(source.tree) if isinstance(n, ast.ClassDef)]
    methods = [m for c in classes for m in c.body if isinstance(m, FUNCTION_NODES) and m.name in ITERATION_METHODS]
    return tuple(dict.fromkeys(f for m in methods for f in source.reachable_functions(m)))


class _Assignment(Struct, frozen=True):
    """The names that an assignment stores, and those that its value reads or mentions."""

    value: ast.expr
    stored: frozenset[str]
    loaded: frozenset[str]
    mentioned: frozenset[str]


@cache_recent(4)
def _assignments(source: Source) -> tuple[_Assignment, ...]:
    """The assignments of the file."""
    found = [n for n in syntax_tree.walk_statements(source.tree) if isinstance(n, ast.Assign)]
    return tuple(
        _Assignment(
            n.value, frozenset(_stored_names(n)), frozenset(_loaded_names(n.value)), frozenset(names_in(n.value))
        )
        for n in found
    )


def _generators_behind(source: Source, names: set[str]) -> list[ast.AST]:
    """Generators of the file assigned to one of ``names`` (``feed = iter(batches(x))``), and what they call.

    Their code runs when the loop takes the next item.
    """
    values = [one.value for one in _assignments(source) if names & one.stored]
    generators = [f for value in values for f in source.reachable_functions(value, 1)[1:] if _is_generator(f)]
    return list(dict.fromkeys(f for one in generators for f in source.reachable_functions(one)))


def _comes_from_file(source: Source, names: set[str]) -> bool:
    """Whether one of ``names`` was assigned from a library that opens files or archives."""
    for _ in range(MAX_ASSIGNMENTS):
        for one in _assignments(source):
            if names & one.stored:
                if FILE_MODULES & one.mentioned:
                    return True
                names = names | one.loaded
    return False


def _line_range(node: ast.AST) -> range:
    return range(getattr(node, "lineno", 0), (getattr(node, "end_lineno", 0) or 0) + 1)


def _loop_statements(loop: ast.For | ast.While) -> Iterator[ast.stmt]:
    """All statements inside a loop in order, nested blocks included, bodies of functions excluded."""
    todo: list[ast.stmt] = list(loop.body)
    while todo:
        one = todo.pop(0)
        yield one
        if isinstance(one, BLOCK_STATEMENTS):
            todo = [*one.body, *getattr(one, "orelse", []), *todo]


def _block_heads(block: ast.AST) -> list[ast.expr]:
    """The expressions in the head of a block: what a loop iterates, what a condition tests, what a ``with`` opens."""
    items = [item.context_expr for item in getattr(block, "items", ())]
    return [part for part in (getattr(block, "iter", None), getattr(block, "test", None), *items) if part is not None]


def _loaded_names(node: ast.AST) -> Iterator[str]:
    return (n.id for n in syntax_tree.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))


def _stored_names(node: ast.AST) -> Iterator[str]:
    """Names that are assigned, or into which something is put."""
    for one in syntax_tree.walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            yield one.id
        elif isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in FILLING_METHODS:
            yield from _loaded_names(one.func.value)


def _is_generator(function: ast.AST) -> bool:
    return any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in syntax_tree.walk(function))


def _takes_step(function: ast.AST, line: int) -> bool:
    """Whether a function is the training step, or contains it."""
    return holds_line(function, line) or "GradientTape" in set(names_in(function))
