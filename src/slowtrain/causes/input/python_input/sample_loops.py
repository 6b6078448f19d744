"""Python loops over single numbers in code that runs for each sample or batch.

The search follows calls into functions and objects of the file, and multiplies the iterations of the loops on the way.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_arguments, class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.pipelines import whole_pipelines
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FILE_READERS, Source

MAX_CALL_DEPTH = 4  # calls that are followed
MIN_NESTED_LOOPS = 2  # loops, over the samples and over the parts of a sample
MIN_NESTED_TURNS = 64  # iterations of nested loops. Fewer are channels or corners.
ASSUMED_BATCH = 8  # samples, assumed if they are made sequentially
MIN_NUMPY_CALLS = 8  # NumPy calls per sample that make the interpreter the bottleneck
MIN_CALLS_PER_TURN = 2  # NumPy calls per iteration. One may be a lookup.
MAX_SLICE_LENGTH = 8  # items of ``text[i:i + 3]``. A loop with such slices counts as a loop over single items.
# Array functions. An iteration that calls one does not process single numbers.
ARRAY_FUNCTIONS = frozenset(
    "mean sum std var dot reshape astype transpose numpy cumsum argmax argmin argsort squeeze flatten ravel "
    "repeat clip tolist copy nonzero all any matmul resize".split()
)
APPENDING_METHODS = frozenset({"append", "extend", "add"})
ARRAY_LIBRARIES = ("numpy.", "tensorflow.", "keras.", "scipy.", "pandas.", "cv2.", "PIL.", "librosa.")
SLOW_LOOP_TEXT = "Python goes through the numbers of each sample in this loop, under the interpreter lock"
Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


class SlowLoop(Struct, frozen=True):
    """A slow loop, and the reason."""

    loop: ast.For | ast.While | Comprehension
    says: str


class _Path(Struct, frozen=True):
    """The loops that lead to a place: ``depth`` of them per batch, with ``known`` iterations in total."""

    depth: int
    known: int | None
    calls: int = 0

    def inside_loop(self, turns: int | None) -> _Path:
        known = None if self.known is None or turns is None else self.known * turns
        return _Path(self.depth + 1, known, self.calls)


def slow_sample_loop(source: Source, function: ast.AST, each: bool) -> SlowLoop | None:
    """Return the first slow loop of an input function. ``each``: the function runs for one sample, not for a batch."""
    seen: set[ast.AST] = {function}
    start = _Path(1, ASSUMED_BATCH) if each else _Path(0, 1)
    return next(_slow_loops(source, per_call_nodes(function), start, seen), None)


def numpy_calls_per_sample(source: Source, function: ast.AST) -> int:
    """Return the NumPy calls of one call of ``function``; 0 if it reads files, because it then mostly waits."""
    found = whole_pipelines.calls_in(whole_pipelines.reached_statements(source, function))
    if any(node_lookup.called_name(c) in FILE_READERS for c in found):
        return 0
    return sum(name_bindings.qualified_name(source, c.func).startswith("numpy.") for c in found)


def per_call_nodes(function: ast.AST) -> list[ast.AST]:
    """Return the nodes that run per call; for a generator, those between two ``yield`` expressions."""
    body = scope_names.scope_body(function)
    found: list[ast.AST] = []
    todo = list(body)
    while todo:
        one = todo.pop(0)
        if isinstance(one, (ast.For, ast.While)):
            inner = [n for s in one.body for n in scope_names.nodes_in_scope(s)]
            if any(isinstance(n, ast.Yield) for n in inner):
                nested = [s for s in one.body if isinstance(s, (ast.For, ast.While)) and _has_yield(s)]
                found += [] if nested else one.body
                todo = [*nested, *todo]
        elif isinstance(one, (ast.With, ast.If, ast.Try)) and _has_yield(one):
            todo = [*one.body, *todo]
    return found if found or any(_has_yield(s) for s in body) else whole_pipelines.live_statements(function)


def _has_yield(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Yield) for n in scope_names.nodes_in_scope(node))


def _slow_loops(source: Source, nodes: list[ast.AST], path: _Path, seen: set[ast.AST]) -> Iterator[SlowLoop]:
    for node in nodes:
        if isinstance(node, node_lookup.SCOPE_NODES):
            continue
        if isinstance(node, (ast.For, ast.While)):
            inner = path.inside_loop(_loop_turns(source, node))
            says = _slow_loop_text(source, node, inner)
            if says is not None:
                yield SlowLoop(node, says)
            yield from _slow_loops(source, list(node.body), inner, seen)
            continue
        if isinstance(node, scope_names.COMPREHENSIONS):
            elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            turns = [queries.loop_turns(source, g) for g in node.generators]
            inner = path
            for one in turns:
                inner = inner.inside_loop(one)
            if _makes_single_numbers(source, node, elements, inner):
                yield SlowLoop(node, SLOW_LOOP_TEXT)
            yield from _slow_loops(source, list(elements), inner, seen)
            continue
        made = _entered_function(source, node) if path.calls < MAX_CALL_DEPTH else None
        if made is not None and made not in seen:
            seen.add(made)
            entered = _Path(path.depth, path.known, path.calls + 1)
            yield from _slow_loops(source, _statements_of_call(made, node), entered, seen)
        yield from _slow_loops(source, syntax_tree.child_nodes(node), path, seen)


def _statements_of_call(function: ast.FunctionDef, node: ast.AST) -> list[ast.AST]:
    """The statements of ``function`` that ``node`` runs, without branches ``if flag:`` for a flag that is off."""
    found: list[ast.AST] = []
    for one in whole_pipelines.live_statements(function):
        off = isinstance(node, ast.Call) and isinstance(one, ast.If) and _is_off(function, node, one.test)
        found += one.orelse if off and isinstance(one, ast.If) else [one]
    return found


def _is_off(function: ast.FunctionDef, call: ast.Call, test: ast.expr) -> bool:
    """Whether ``test`` is a parameter for which the call gives False or None, or has such a default."""
    if not isinstance(test, ast.Name) or test.id not in scope_names.parameter_names(function):
        return False
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return False
    given = call_arguments.argument_in(function, call, test.id) or _default_of(function, test.id)
    return isinstance(given, ast.Constant) and given.value in (False, None)


def _default_of(function: ast.FunctionDef, name: str) -> ast.expr | None:
    places = [*function.args.posonlyargs, *function.args.args]
    known = dict(zip([a.arg for a in reversed(places)], reversed(function.args.defaults), strict=False))
    only = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    known |= {a.arg: value for a, value in only if value is not None}
    return known.get(name)


def _entered_function(source: Source, node: ast.AST) -> ast.FunctionDef | None:
    """Return the function of the file that ``node`` runs: of a call, or ``__getitem__`` of an object."""
    if isinstance(node, ast.Call):
        called = node_lookup.function_named(source, node_lookup.called_name(node), node)
        method = called is not None and isinstance(node_lookup.parents_of(source).get(called), ast.ClassDef)
        return called if called is not None and method == isinstance(node.func, ast.Attribute) else None
    if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load) or "__getitem__" not in source.text:
        return None
    holder = queries.object_class_at(source, node.value) if isinstance(node.value, (ast.Name, ast.Attribute)) else None
    made = class_members.own_method(holder, "__getitem__") if holder is not None else None
    return made if isinstance(made, ast.FunctionDef) else None


def _loop_turns(source: Source, loop: ast.For | ast.While) -> int | None:
    wanted = _target_count(loop) if isinstance(loop, ast.While) else None
    return queries.loop_turns(source, loop) if wanted is None else queries.int_at(source, wanted)


def _target_count(loop: ast.While) -> ast.expr | None:
    """Return the target count of ``while len(others) < count: ... others.append(j)``."""
    test = loop.test
    if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Call) or not isinstance(test.ops[0], ast.Lt):
        return None
    if node_lookup.called_name(test.left) != "len" or len(test.left.args) != 1:
        return None
    name = scope_names.dotted_name(test.left.args[0])
    calls = [
        n for n in syntax_tree.nodes_inside(loop.body, ast.Call) if node_lookup.called_name(n) in APPENDING_METHODS
    ]
    grows = any(isinstance(c.func, ast.Attribute) and scope_names.dotted_name(c.func.value) == name for c in calls)
    return test.comparators[0] if name and grows else None


def _slow_loop_text(source: Source, loop: ast.For | ast.While, path: _Path) -> str | None:
    if path.depth < MIN_NESTED_LOOPS or (path.known is not None and path.known < MIN_NESTED_TURNS):
        return None
    if isinstance(loop, ast.While) and _target_count(loop) is None:
        return None
    inside = [n for s in loop.body for n in syntax_tree.walk(s)]
    if any(isinstance(n, (ast.For, ast.While, ast.Yield, ast.Await, ast.Try, ast.With)) for n in inside):
        return None
    calls = [n for n in inside if isinstance(n, ast.Call)]
    if any(node_lookup.called_name(c) in FILE_READERS for c in calls):
        return None
    ours = [c for c in calls if name_bindings.qualified_name(source, c.func).startswith("numpy.")]
    if len(ours) >= MIN_CALLS_PER_TURN and _stores_elements(inside):
        return f"Python calls NumPy {len(ours)} times in every turn of this loop, for one sample after the other"
    if any(_is_array_call(source, c) for c in calls) or any(_is_array_part(source, n) for n in inside):
        return None
    if (
        not _stores_elements(inside)
        and not _adds_numbers(inside)
        and not any(node_lookup.called_name(c) in APPENDING_METHODS for c in calls)
    ):
        return None
    return SLOW_LOOP_TEXT if any(_is_scalar_operation(n) for n in inside) else None


def _makes_single_numbers(source: Source, node: Comprehension, elements: list[ast.expr], path: _Path) -> bool:
    """Whether a comprehension counts, compares or splits single numbers or letters."""
    if path.depth < MIN_NESTED_LOOPS or (path.known is not None and path.known < MIN_NESTED_TURNS):
        return False
    inside = [n for e in (*elements, *(i for g in node.generators for i in g.ifs)) for n in syntax_tree.walk(e)]
    calls = [n for n in inside if isinstance(n, ast.Call)]
    if any(isinstance(n, scope_names.COMPREHENSIONS) or _is_array_part(source, n) for n in inside):
        return False
    if any(
        node_lookup.called_name(c) in FILE_READERS
        or _is_array_call(source, c)
        or _entered_function(source, c) is not None
        for c in calls
    ):
        return False
    counts = isinstance(node, ast.GeneratorExp) and isinstance(node.elt, ast.Constant)  # sum(1 for ... if ...)
    return (counts and any(g.ifs for g in node.generators)) or any(
        _is_scalar_operation(n) for e in elements for n in syntax_tree.walk(e)
    )


def _adds_numbers(inside: list[ast.AST]) -> bool:
    """Whether the nodes contain a sum over single numbers, such as ``count += 1``."""
    added = [n for n in inside if isinstance(n, ast.AugAssign)]
    return any(isinstance(n.target, ast.Name) and isinstance(n.value, ast.Constant) for n in added)


def _stores_elements(inside: list[ast.AST]) -> bool:
    return any(isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) for n in inside)


def _is_array_part(source: Source, node: ast.AST) -> bool:
    """Whether it is a part of an array, such as ``x[:, i]``, and not a short slice such as ``text[i:i + 3]``."""
    if isinstance(node, ast.Slice):
        end, alone = node.upper, isinstance(node_lookup.parents_of(source).get(node), ast.Subscript)
        if alone and isinstance(end, ast.BinOp) and isinstance(end.op, ast.Add) and node.lower is not None:
            few = queries.int_at(source, end.right)
            return few is None or few > MAX_SLICE_LENGTH or ast.dump(end.left) != ast.dump(node.lower)
        return True
    return isinstance(node, ast.Constant) and node.value is ...


def _is_scalar_operation(node: ast.AST) -> bool:
    """Whether it is an operation on a single number: ``x[i] = 1.0``, ``x[i] += 1``, ``if x: ...``, ``float(x)``."""
    if isinstance(node, (ast.If, ast.IfExp)):
        return True
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        return isinstance(target, ast.Subscript) and isinstance(node.value, ast.Constant)
    if not isinstance(node, ast.Call):
        return False
    filled = (
        node_lookup.called_name(node) in APPENDING_METHODS
        and bool(node.args)
        and isinstance(node.args[0], ast.Constant)
    )
    return filled or scope_names.dotted_name(node.func) in ("float", "int", "ord", "hash")


def _is_array_call(source: Source, call: ast.Call) -> bool:
    """Whether a call processes a whole array."""
    full = name_bindings.qualified_name(source, call.func)
    if full.startswith("numpy.random.") or not full.startswith(ARRAY_LIBRARIES):
        return isinstance(call.func, ast.Attribute) and call.func.attr in ARRAY_FUNCTIONS
    return True
