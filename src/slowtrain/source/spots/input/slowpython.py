"""Python that makes input and is surely slow: samples handed over one by one, loops over single numbers.

Generators behind ``from_generator`` or ``fit``, sequences of batches, and what ``numpy_function`` runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import prod

from slowtrain.source import FUNCTIONS, READERS, Source, edits, trees
from slowtrain.source.reading import finding, index, kinds, objects, scopes, settings, stepping, values, visible
from slowtrain.source.reading.input import chains, elements, pipelines
from slowtrain.source.spots.input import turns
from slowtrain.values import dataclass

WORDS = (
    "from_generator", "numpy_function", "py_function", "PyDataset", "utils.Sequence", "utils import Sequence",
    ", Sequence", "fit_generator", "yield", "__next__", "ImageDataGenerator",
)  # fmt: skip
PASSING = frozenset({"enumerate", "iter", "tqdm", "islice", "cycle"})  # they hand on what they go through
SEQUENCES = frozenset({"PyDataset", "Sequence"})
CALLING = ("numpy_function", "py_function")
FEW_SAMPLES = 1000  # an epoch of fewer, at some 50 µs each, waits less than a tenth of a second for them
SCALAR = frozenset(
    "append abs min max int float round len range sqrt exp log sin cos tanh floor ceil rand random".split()
)
FILLING = frozenset(
    "append extend range zip enumerate len min max int float tuple list dict islice get pop split".split()
)
NUMPY = frozenset("array asarray zeros ones float32 int32 int64 float64 uint8 stack concatenate pad full".split())
KEEPING = (
    FILLING
    | NUMPY
    | frozenset("permutation shuffle arange astype reshape randint integers random searchsorted mean std sum".split())
)


@dataclass(frozen=True)
class Maker:
    """A function that Python runs for each element or batch of a training's input.

    ``single``: for one element of a map; ``each``: for one sample of which batches are made further on, for sure.
    """

    function: ast.FunctionDef | ast.Lambda
    given: ast.expr
    single: bool
    each: bool = False


@dataclass(frozen=True)
class Slow:
    """``says`` what of the Python at ``start`` to ``end`` is slow; ``call``: its ``from_generator``, if it is one's.

    ``instead``: the cure, where it is no generator's.
    """

    start: tuple[int, int]
    end: tuple[int, int]
    says: str
    call: ast.Call | None = None
    instead: str = "replace the loop over elements by array code or TensorFlow ops"


def parts(source: Source) -> Iterator[Slow]:
    """The first slow part of each such function."""
    for call in index.of(source).called("from_generator"):
        found = _by_samples(source, call)
        if found is not None:
            yield found
    seen: set[ast.AST] = set()
    for maker in makers(source):
        if maker.function in seen:
            continue
        seen.add(maker.function)
        slow = _element_loop(source, maker) or _samples_in(source, maker) or _turning(source, maker)
        if slow is not None:
            yield slow


def makers(source: Source) -> Iterator[Maker]:
    """Functions of this file that make input, and whether Python has several processes for them."""
    for call in index.of(source).called("from_generator", *CALLING):
        given = finding.keyword(call, "generator" if finding.called(call) == "from_generator" else "func", 0)
        if finding.called(call) in CALLING:
            outer = finding.keyword(call, "func", 0)
            given = outer if values.qualified(source, call.func).startswith("tensorflow.") else None
        elif not chains.makes(source, call) or any("cache" in f.names for f in pipelines.holding(source, call)):
            continue
        made = _defined(source, given, call)
        if made is not None and given is not None:
            yield Maker(made, given, finding.called(call) in CALLING, _each(source, call))
    for call in index.of(source).called("fit", "fit_generator"):
        given = finding.keyword(call, "x", 0) or finding.keyword(call, "generator")
        if given is not None and finding.keyword(call, "workers") is None:
            yield from _gone_through(source, given, call)
    for steps in stepping.of(source):
        if isinstance(steps.loop, ast.For):
            yield from _gone_through(source, steps.loop.iter, steps.loop)
    yield from _sequences(source)


def _each(source: Source, call: ast.Call) -> bool:
    """Whether what Python is called for here is one sample: batches are made of them further on."""
    places = [call]
    if finding.called(call) in CALLING:
        holder = finding.around(source, call, ast.Lambda) or finding.function(source, call)
        maps = [c for c in index.of(source).called("map") if chains.operates(c)]
        places = [c for c in maps if pipelines.function(source, c) in (holder, _lambda(source, call))]
    several = [(f, c) for c in places for f in pipelines.holding(source, c)]
    return bool(several) and all(pipelines.singly(f, c) for f, c in several)


def _lambda(source: Source, node: ast.AST) -> ast.AST | None:
    above = finding.parents(source)
    found: ast.AST | None = node
    while found is not None and not isinstance(found, (ast.Lambda, ast.stmt)):
        found = above.get(found)
    return found if isinstance(found, ast.Lambda) else None


def _gone_through(source: Source, given: ast.expr, near: ast.AST) -> Iterator[Maker]:
    """The generator of this file behind what training goes through: a function's, a method's, an object's."""
    while isinstance(given, ast.Call) and finding.called(given) in PASSING and given.args:
        given = given.args[0]
    if isinstance(given, ast.Name):
        given = chains.assigned(source, given, near) or chains.argument(source, given) or given
    if not isinstance(given, ast.Call):
        return
    made = finding.defined(source, finding.called(given), near)
    if made is None:
        made = _method(source, given, "__next__") or _method(source, given, "__iter__")
    next_one = made is not None and made.name == "__next__"
    if made is not None and (next_one or any(isinstance(n, ast.Yield) for n in scopes.own(scopes.body(made)))):
        yield Maker(made, given, False)


def _may_have_sequences(source: Source) -> bool:
    return "__getitem__" in source.words and not source.words.isdisjoint(SEQUENCES)


def _sequences(source: Source) -> Iterator[Maker]:
    """``__getitem__`` of sequences of batches that this file makes without workers."""
    for node in index.nodes(source, ast.ClassDef) if _may_have_sequences(source) else ():
        assert isinstance(node, ast.ClassDef)
        bases = [values.qualified(source, b) for b in node.bases]
        if not any(b.startswith("keras.") and b.rpartition(".")[2] in SEQUENCES for b in bases):
            continue
        made = index.of(source).called(node.name)
        inner = [c for n in node.body for c in pipelines.calls([n])]
        if not made or any(finding.keyword(c, "workers") is not None for c in (*made, *inner)):
            continue
        if any(finding.keyword(c, "workers") is not None for c in index.of(source).called("fit", "fit_generator")):
            continue
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__getitem__":
                yield Maker(method, node.bases[0], False)


def _method(source: Source, given: ast.expr, name: str) -> ast.FunctionDef | None:
    """The method of that name of the object that ``given`` is, where its class is in this file."""
    holder = settings.instance_of(source, given)
    made = objects.method(holder, name) if holder is not None else None
    return made if isinstance(made, ast.FunctionDef) else None


def _defined(
    source: Source, given: ast.expr | None, near: ast.AST, depth: int = turns.DEPTH
) -> ast.FunctionDef | ast.Lambda | None:
    """The function that runs where ``given`` is called: itself, what it only calls, an object's ``__call__``.

    Of a parameter, where all calls give what runs the same.
    """
    if isinstance(given, ast.Lambda):
        inner = given.body.func if isinstance(given.body, ast.Call) else None
        return _named(source, inner, near) or given
    made = _named(source, given, near)
    if made is not None or not depth:
        return made
    if isinstance(given, ast.Call) and finding.called(given) == "partial" and given.args:
        return _defined(source, given.args[0], near, depth - 1)
    if not isinstance(given, ast.Name):
        return None
    function = finding.function(source, given)
    several = [values.assigned(source, given)]
    if function is not None and given.id in scopes.parameters(function):
        several = [*kinds.given_to(source, function, given.id)]
    found = {_defined(source, one, one, depth - 1) for one in several if one is not None}
    return found.pop() if len(found) == 1 else None


def _named(source: Source, given: ast.expr | None, near: ast.AST) -> ast.FunctionDef | None:
    made: ast.FunctionDef | None = None
    if isinstance(given, ast.Name):
        made = finding.defined(source, given.id, near)
    elif isinstance(given, ast.Attribute):
        made = finding.defined(source, given.attr, near) or _method(source, given.value, given.attr)
    if made is None and given is not None and "__call__" in source.text:
        made = _method(source, given, "__call__")
    return made


# -- samples one by one


def _by_samples(source: Source, call: ast.Call) -> Slow | None:
    """A generator that cuts single samples out of what is in memory, and batches made of them afterwards."""
    given = finding.keyword(call, "generator", 0)
    made = _defined(source, given, call) if chains.makes(source, call) else None
    several = pipelines.holding(source, call)
    if given is None or not isinstance(made, ast.FunctionDef) or not several:
        return None
    if any("cache" in f.names or not pipelines.singly(f, call) for f in several):
        return None
    if (elements.count(source, several[0]) or FEW_SAMPLES) < FEW_SAMPLES:
        return None
    statements = pipelines.reached(source, made)
    yields = [n for s in statements for n in trees.walk(s) if isinstance(n, ast.Yield)]
    if not yields or not all(scopes.loops(source, y) for y in yields) or not _in_memory(source, made, statements):
        return None
    name = f"{made.name}()" if isinstance(given, (ast.Name, ast.Lambda)) else "this generator"
    says = f"{name} hands over one sample at a time out of data that is in memory"
    return Slow(edits.start(given), edits.end(given), says, call)


def _in_memory(source: Source, made: ast.FunctionDef, statements: list[ast.AST]) -> bool:
    """Whether all that a generator goes through is data of this file, and it only cuts, pads and converts."""
    for call in pipelines.calls(statements):
        name, whole = finding.called(call), values.qualified(source, call.func)
        known = finding.defined(source, name, call) is not None or whole.startswith("numpy.random.")
        if not known and name not in KEEPING:
            return False
    for node in (n for s in statements for n in trees.walk(s)):
        over = node.iter if isinstance(node, ast.For) else None
        names = {n.id for n in trees.walk(over) if isinstance(n, ast.Name)} if over is not None else set()
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            names = {node.value.id}
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
            held = settings.written(source, node.value)
            if held is None or not _written(source, held):
                return False
        for name in names:
            if not _held(source, name, made):
                return False
    return True


def _held(source: Source, name: str, made: ast.FunctionDef) -> bool:
    """Whether a name that a generator reads is bound in itself, a number, or data written or drawn in this file."""
    inner = (g.target for n in trees.walk(made) for g in getattr(n, "generators", ()))
    own = scopes.bound(made.body) | {n.id for t in inner for n in trees.walk(t) if isinstance(n, ast.Name)}
    if name in own or name in ("range", "zip", "enumerate", "len", "list", "reversed", "sorted", "np", "numpy"):
        return True
    if name in scopes.parameters(made) or name in scopes.aliases(source):
        return name in scopes.aliases(source)
    binders = scopes.binders(source, name, source.tree)
    given = [b.value for b in binders if isinstance(b, ast.Assign)]
    return bool(given) and len(given) == len(binders) and all(_written(source, v) for v in given)


def _written(source: Source, value: ast.expr) -> bool:
    """A number, a list, an array that NumPy draws or makes; nothing that reads as it goes."""
    if isinstance(value, (ast.Constant, ast.List, ast.ListComp, ast.Dict, ast.DictComp)):
        return True
    if isinstance(value, ast.Tuple):
        return all(_written(source, e) for e in value.elts)
    if isinstance(value, (ast.BinOp, ast.UnaryOp, ast.Compare)):
        return True
    if not isinstance(value, ast.Call):
        return False
    whole = values.qualified(source, value.func)
    if whole.startswith("numpy."):
        return whole.rpartition(".")[2] not in ("load", "memmap", "open_memmap")
    return finding.called(value) in ("len", "load_data", "list", "astype", "tolist") or (
        visible.shape(source, value) is not None
    )


# -- loops over single numbers


def _element_loop(source: Source, maker: Maker) -> Slow | None:
    """Nested loops over positions, of which the innermost only computes with what stands at them."""
    for statement in pipelines.reached(source, maker.function):
        for loop in (n for n in trees.walk(statement) if isinstance(n, ast.For)):
            if any(isinstance(n, (ast.For, ast.While)) for s in loop.body for n in trees.walk(s)):
                continue
            nest = [loop, *(o for o in scopes.loops(source, loop) if isinstance(o, ast.For))]
            known = [visible.turns(source, o) for o in nest]
            small = None not in known and prod(t for t in known if t is not None) < turns.LEAST_TURNS
            if len(nest) > 1 and not small and _counts(loop) and _at_positions(loop):
                says = "Python goes through single numbers of the input in this loop, under the interpreter lock"
                return Slow(edits.start(loop), edits.end(loop.iter), says)
    return None


def _counts(loop: ast.For) -> bool:
    return isinstance(loop.iter, ast.Call) and finding.called(loop.iter) in ("range", "ndindex", "ndenumerate")


def _at_positions(loop: ast.For) -> bool:
    """Whether the body computes with elements at positions that the loop counts, and does nothing else."""
    counted = scopes.bound(loop.target)
    found = False
    for node in (n for s in loop.body for n in trees.walk(s)):
        if isinstance(node, ast.Call) and finding.called(node) not in SCALAR:
            return False
        if isinstance(node, ast.Subscript):
            if any(isinstance(n, ast.Slice) for n in trees.walk(node.slice)):
                return False
            found |= bool(counted & {n.id for n in trees.walk(node.slice) if isinstance(n, ast.Name)})
        if isinstance(node, (ast.Yield, ast.Await, ast.Try)):
            return False
    return found


# -- work for one sample after the other


def _turning(source: Source, maker: Maker) -> Slow | None:
    """Loops over what a sample is made of; a function of many calls that a map makes Python run for each sample."""
    found = turns.slow(source, maker.function, maker.each)
    if found is not None:
        head = found.loop.iter if isinstance(found.loop, ast.For) else found.loop  # a comprehension stands as a whole
        return Slow(edits.start(found.loop), edits.end(head), found.says)
    several = turns.calls_for_each(source, maker.function) if maker.single and maker.each else 0
    if several < turns.SEVERAL:
        return None
    says = f"Python calls NumPy {several} times for each sample, one sample after the other"
    return Slow(edits.start(maker.given), edits.end(maker.given), says)


def _samples_in(source: Source, maker: Maker) -> Slow | None:
    """``[transform(v) for v in batch]`` of a function that calls NumPy many times for one sample."""
    if maker.single:
        return None
    for statement in pipelines.reached(source, maker.function):
        for node in trees.walk(statement):
            if not isinstance(node, ast.ListComp) or not isinstance(node.elt, ast.Call):
                continue
            made = finding.defined(source, finding.called(node.elt), node)
            if made is None or isinstance(made, FUNCTIONS[1]):
                continue
            inner = pipelines.calls(pipelines.reached(source, made))
            if any(finding.called(c) in READERS for c in inner):
                continue
            ours = [c for c in inner if values.qualified(source, c.func).startswith("numpy.")]
            if len(ours) >= turns.SEVERAL:
                says = f"{made.name}() calls NumPy {len(ours)} times for each sample, one sample after the other"
                return Slow(edits.start(node), edits.end(node), says)
    return None
