"""Finds Python loops over single numbers in code that runs for each sample or batch.

It follows calls into functions and objects of the file, and multiplies the iterations of the loops on the way.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.evaluators import setting_origins
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import whole_pipelines
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FILE_READERS, Source
from slowtrain.values import dataclass

DEPTH = 4  # calls that are followed
NESTED = 2  # loops, over the samples and over the parts of a sample
LEAST_TURNS = 64  # iterations of nested loops. Fewer are channels or corners.
LEAST_BATCH = 8  # samples, assumed if they are made sequentially
SEVERAL = 8  # NumPy calls per sample that make the interpreter the bottleneck
CALLS = 2  # NumPy calls per iteration. One may be a lookup.
FEW = 8  # items of ``text[i:i + 3]``. A loop with such slices counts as a loop over single items.
# Array functions. An iteration that calls one does not process single numbers.
WHOLE = frozenset(
    "mean sum std var dot reshape astype transpose numpy cumsum argmax argmin argsort squeeze flatten ravel "
    "repeat clip tolist copy nonzero all any matmul resize".split()
)
FILLS = frozenset({"append", "extend", "add"})
LIBRARIES = ("numpy.", "tensorflow.", "keras.", "scipy.", "pandas.", "cv2.", "PIL.", "librosa.")


GOES = "Python goes through the numbers of each sample in this loop, under the interpreter lock"
Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


@dataclass(frozen=True)
class Turns:
    """A slow loop, and the reason."""

    loop: ast.For | ast.While | Comprehension
    says: str


@dataclass(frozen=True)
class _Path:
    """The loops that lead to a place: ``depth`` of them per batch, with ``known`` iterations in total."""

    depth: int
    known: int | None
    calls: int = 0

    def inside(self, turns: int | None) -> _Path:
        known = None if self.known is None or turns is None else self.known * turns
        return _Path(self.depth + 1, known, self.calls)


def slow(source: Source, function: ast.AST, each: bool) -> Turns | None:
    """Return the first slow loop of an input function. ``each``: the function runs for one sample, not for a batch."""
    seen: set[ast.AST] = {function}
    start = _Path(1, LEAST_BATCH) if each else _Path(0, 1)
    return next(_followed(source, turning(function), start, seen), None)


def calls_for_each(source: Source, function: ast.AST) -> int:
    """Return the NumPy calls of one call of ``function``; 0 if it reads files, because it then mostly waits."""
    found = whole_pipelines.calls_in(whole_pipelines.reached_statements(source, function))
    if any(node_lookup.called_name(c) in FILE_READERS for c in found):
        return 0
    return sum(name_bindings.qualified_name(source, c.func).startswith("numpy.") for c in found)


def turning(function: ast.AST) -> list[ast.AST]:
    """Return the nodes that run per call; for a generator, those between two ``yield`` expressions."""
    body = scope_names.scope_body(function)
    found: list[ast.AST] = []
    todo = list(body)
    while todo:
        one = todo.pop(0)
        if isinstance(one, (ast.For, ast.While)):
            inner = [n for s in one.body for n in scope_names.nodes_in_scope(s)]
            if any(isinstance(n, ast.Yield) for n in inner):
                nested = [s for s in one.body if isinstance(s, (ast.For, ast.While)) and _yields(s)]
                found += [] if nested else one.body
                todo = [*nested, *todo]
        elif isinstance(one, (ast.With, ast.If, ast.Try)) and _yields(one):
            todo = [*one.body, *todo]
    return found if found or any(_yields(s) for s in body) else whole_pipelines.live_statements(function)


def _yields(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Yield) for n in scope_names.nodes_in_scope(node))


def _followed(source: Source, nodes: list[ast.AST], path: _Path, seen: set[ast.AST]) -> Iterator[Turns]:
    for node in nodes:
        if isinstance(node, node_lookup.SCOPE_NODES):
            continue
        if isinstance(node, (ast.For, ast.While)):
            inner = path.inside(_turns(source, node))
            says = _judged(source, node, inner)
            if says is not None:
                yield Turns(node, says)
            yield from _followed(source, list(node.body), inner, seen)
            continue
        if isinstance(node, scope_names.COMPREHENSIONS):
            elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            turns = [queries.loop_turns(source, g) for g in node.generators]
            inner = path
            for one in turns:
                inner = inner.inside(one)
            if _counted(source, node, elements, inner):
                yield Turns(node, GOES)
            yield from _followed(source, list(elements), inner, seen)
            continue
        made = _entered(source, node) if path.calls < DEPTH else None
        if made is not None and made not in seen:
            seen.add(made)
            entered = _Path(path.depth, path.known, path.calls + 1)
            yield from _followed(source, whole_pipelines.live_statements(made), entered, seen)
        yield from _followed(source, syntax_tree.child_nodes(node), path, seen)


def _entered(source: Source, node: ast.AST) -> ast.FunctionDef | None:
    """Return the function of the file that ``node`` runs: of a call, or ``__getitem__`` of an object."""
    if isinstance(node, ast.Call):
        called = node_lookup.function_named(source, node_lookup.called_name(node), node)
        method = called is not None and isinstance(node_lookup.parents_of(source).get(called), ast.ClassDef)
        return called if called is not None and method == isinstance(node.func, ast.Attribute) else None
    if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load) or "__getitem__" not in source.text:
        return None
    holder = (
        setting_origins.instance_class(source, node.value)
        if isinstance(node.value, (ast.Name, ast.Attribute))
        else None
    )
    made = class_members.own_method(holder, "__getitem__") if holder is not None else None
    return made if isinstance(made, ast.FunctionDef) else None


def _turns(source: Source, loop: ast.For | ast.While) -> int | None:
    wanted = _wanted(loop) if isinstance(loop, ast.While) else None
    return queries.loop_turns(source, loop) if wanted is None else queries.int_at(source, wanted)


def _wanted(loop: ast.While) -> ast.expr | None:
    """Return the target count of ``while len(others) < count: ... others.append(j)``."""
    test = loop.test
    if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Call) or not isinstance(test.ops[0], ast.Lt):
        return None
    if node_lookup.called_name(test.left) != "len" or len(test.left.args) != 1:
        return None
    name = scope_names.dotted_name(test.left.args[0])
    calls = [
        n
        for s in loop.body
        for n in syntax_tree.walk(s)
        if isinstance(n, ast.Call) and node_lookup.called_name(n) in FILLS
    ]
    grows = any(isinstance(c.func, ast.Attribute) and scope_names.dotted_name(c.func.value) == name for c in calls)
    return test.comparators[0] if name and grows else None


def _judged(source: Source, loop: ast.For | ast.While, path: _Path) -> str | None:
    if path.depth < NESTED or (path.known is not None and path.known < LEAST_TURNS):
        return None
    if isinstance(loop, ast.While) and _wanted(loop) is None:
        return None
    inside = [n for s in loop.body for n in syntax_tree.walk(s)]
    if any(isinstance(n, (ast.For, ast.While, ast.Yield, ast.Await, ast.Try, ast.With)) for n in inside):
        return None
    calls = [n for n in inside if isinstance(n, ast.Call)]
    if any(node_lookup.called_name(c) in FILE_READERS for c in calls):
        return None
    ours = [c for c in calls if name_bindings.qualified_name(source, c.func).startswith("numpy.")]
    if len(ours) >= CALLS and _stores(inside):
        return f"Python calls NumPy {len(ours)} times in every turn of this loop, for one sample after the other"
    if any(_whole(source, c) for c in calls) or any(_part(source, n) for n in inside):
        return None
    if not _stores(inside) and not _adds_up(inside) and not any(node_lookup.called_name(c) in FILLS for c in calls):
        return None
    return GOES if any(_of_one(n) for n in inside) else None


def _counted(source: Source, node: Comprehension, elements: list[ast.expr], path: _Path) -> bool:
    """Whether a comprehension counts, compares or splits single numbers or letters."""
    if path.depth < NESTED or (path.known is not None and path.known < LEAST_TURNS):
        return False
    inside = [n for e in (*elements, *(i for g in node.generators for i in g.ifs)) for n in syntax_tree.walk(e)]
    calls = [n for n in inside if isinstance(n, ast.Call)]
    if any(isinstance(n, scope_names.COMPREHENSIONS) or _part(source, n) for n in inside):
        return False
    if any(
        node_lookup.called_name(c) in FILE_READERS or _whole(source, c) or _entered(source, c) is not None
        for c in calls
    ):
        return False
    counts = isinstance(node, ast.GeneratorExp) and isinstance(node.elt, ast.Constant)  # sum(1 for ... if ...)
    return (counts and any(g.ifs for g in node.generators)) or any(
        _of_one(n) for e in elements for n in syntax_tree.walk(e)
    )


def _adds_up(inside: list[ast.AST]) -> bool:
    """Whether the nodes contain a sum over single numbers, such as ``count += 1``."""
    added = [n for n in inside if isinstance(n, ast.AugAssign)]
    return any(isinstance(n.target, ast.Name) and isinstance(n.value, ast.Constant) for n in added)


def _stores(inside: list[ast.AST]) -> bool:
    return any(isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) for n in inside)


def _part(source: Source, node: ast.AST) -> bool:
    """Whether it is a part of an array, such as ``x[:, i]``, and not a short slice such as ``text[i:i + 3]``."""
    if isinstance(node, ast.Slice):
        end, alone = node.upper, isinstance(node_lookup.parents_of(source).get(node), ast.Subscript)
        if alone and isinstance(end, ast.BinOp) and isinstance(end.op, ast.Add) and node.lower is not None:
            few = queries.int_at(source, end.right)
            return few is None or few > FEW or ast.dump(end.left) != ast.dump(node.lower)
        return True
    return isinstance(node, ast.Constant) and node.value is ...


def _of_one(node: ast.AST) -> bool:
    """Whether it is an operation on a single number: ``x[i] = 1.0``, ``x[i] += 1``, ``if x: ...``, ``float(x)``."""
    if isinstance(node, (ast.If, ast.IfExp)):
        return True
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        return isinstance(target, ast.Subscript) and isinstance(node.value, ast.Constant)
    if not isinstance(node, ast.Call):
        return False
    filled = node_lookup.called_name(node) in FILLS and bool(node.args) and isinstance(node.args[0], ast.Constant)
    return filled or scope_names.dotted_name(node.func) in ("float", "int", "ord", "hash")


def _whole(source: Source, call: ast.Call) -> bool:
    """Whether a call processes a whole array."""
    full = name_bindings.qualified_name(source, call.func)
    if full.startswith("numpy.random.") or not full.startswith(LIBRARIES):
        return isinstance(call.func, ast.Attribute) and call.func.attr in WHOLE
    return True
