"""Arguments of a ``tf.function`` that a loop changes in a way that traces it again, as far as the text tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from slowtrain.source import Source, trees
from slowtrain.source.reading import (
    finding,
    following,
    graphable,
    index,
    kinds,
    objects,
    scopes,
    settings,
    values,
    visible,
)
from slowtrain.source.spots.host import evolving, items

DRAWN = frozenset("integers randint randrange random_integers".split())
MADE = frozenset(
    "zeros ones empty full random rand randn normal uniform standard_normal random_sample integers randint".split()
)
PASSED = frozenset("constant convert_to_tensor array asarray astype cast Variable".split())
OF_PYTHON = frozenset({"dict", "defaultdict", "OrderedDict", "Counter", "set", "list", "deque", "tqdm"})
NUMBERS = ("float", "int", "number")
# With one of these, numbers become tensors or shapes are left open.
SETTLED = frozenset({"input_signature", "reduce_retracing", "experimental_relax_shapes", "jit_compile"})


@dataclass(frozen=True)
class Graph:
    """A ``tf.function`` of the file. ``names`` it is called by; ``open``: nothing is said of its arguments."""

    function: ast.FunctionDef
    names: tuple[str, ...]
    open: bool


@dataclass(frozen=True)
class Changing:
    """An argument of a call: ``number`` ("float", "int", "number": either) by its kind, "list", or "" for a shape.

    "held": a dictionary, tuple or list that holds such a number.
    """

    graph: Graph
    call: ast.Call
    parameter: str
    given: ast.expr
    number: str


def may_graph(source: Source) -> bool:
    """Whether there may be any, by the text alone."""
    named = ".function" in source.text or "import function" in source.text
    return named and values.reaches(source, "tensorflow.function")


def graphs(source: Source) -> Iterator[Graph]:
    if not may_graph(source):
        return
    for node in index.nodes(source, ast.FunctionDef):
        assert isinstance(node, ast.FunctionDef)
        for one in node.decorator_list:
            plain = one.func if isinstance(one, ast.Call) else one
            if values.qualified(source, plain) == "tensorflow.function":
                yield Graph(node, (node.name,), _open(one))
    for call in index.of(source).called("function"):
        if values.qualified(source, call.func) != "tensorflow.function" or not call.args:
            continue
        given, holder = call.args[0], finding.parents(source).get(call)
        made = finding.defined(source, given.id, call) if isinstance(given, ast.Name) else None
        target = holder.targets[0] if isinstance(holder, ast.Assign) else None
        if made is not None and isinstance(target, ast.Name):
            yield Graph(made, (target.id,), _open(call))
        elif isinstance(given, ast.Attribute) and objects.of_self(given) and isinstance(target, ast.Attribute):
            own = finding.defined(source, given.attr)  # self.update = tf.function(self._update)
            if own is not None and objects.of_self(target):
                yield Graph(own, (target.attr,), _open(call))


def _open(made: ast.expr) -> bool:
    if not isinstance(made, ast.Call):
        return True
    return not any(k.arg in SETTLED or k.arg is None for k in made.keywords) and len(made.args) < 2


def changing(source: Source) -> Iterator[Changing]:
    """Arguments in loops that are another Python number, list or shape in each turn."""
    for graph in graphs(source):
        if not graph.open or not _only(source, graph):
            continue
        for call in index.of(source).called(*graph.names):
            loops = scopes.loops(source, call)
            if _graphed(source, call) or (loops and visible.few(source, loops[0])) or _of_another(source, graph, call):
                continue
            if not loops and not _repeated(source, call):
                continue
            for one in evolving.arguments(source, graph.function, call):
                if one.parameter not in scopes.parameters(graph.function) or _typed(graph.function, one.parameter):
                    continue
                kind = _kind(source, one, loops, call)
                if kind is not None:
                    yield Changing(graph, call, one.parameter, one.place, kind)
                    continue
                for inside in items.held(source, one.place, loops[0] if loops else finding.function(source, call)):
                    if _kind(source, evolving.Given(one.parameter, inside, inside), loops, call) in NUMBERS:
                        yield Changing(graph, call, one.parameter, inside, "held")


def _repeated(source: Source, call: ast.Call) -> bool:
    """Whether a method around a call is called in a loop that may take many turns."""
    loop = visible.repeated(source, call, visible.FEW + 1)
    return loop is not None and not (isinstance(loop, ast.For) and visible.written_out(loop))


def _kind(source: Source, one: evolving.Given, loops: list[ast.For | ast.While], call: ast.Call) -> str | None:
    """How an argument changes from turn to turn of the loop, of an outer one that is long, or from call to call."""
    if isinstance(one.value, ast.Starred) or items.of_few(source, one.value):
        return None
    found = _changes(source, one.value, loops[0]) if loops and one.value is one.place else None
    if found is not None:
        return found
    long = [at for at in loops if at is loops[0] or (visible.turns(source, at) or 0) > visible.FEW]
    moving = {name for loop in long for name in _bound_in(source, loop, one)}
    if one.value is one.place:
        around = (at for at in visible.around(source, call) if isinstance(at, ast.comprehension))
        moving |= {n for at in around if not visible.few(source, at) for n in scopes.bound(at.target)}
        moving |= evolving.moved_parameters(source, finding.function(source, call)) if not loops else set()
    found = evolving.kind(source, one.value, moving)
    return "number" if found == "float" and evolving.either(source, one.value) else found


def _bound_in(source: Source, loop: ast.For | ast.While, one: evolving.Given) -> set[str]:
    """Names that a loop binds; where the argument is made in another function, the parameters that it is given."""
    bound = scopes.bound(loop)
    if one.value is one.place:
        return bound
    made = finding.function(source, one.value)
    if made is None:
        return set()
    return {n for n in scopes.parameters(made) for g in kinds.given_to(source, made, n) if scopes.read(g) & bound}


def _only(source: Source, graph: Graph) -> bool:
    """Whether a call by the name can mean nothing else in this file."""
    named = [n for n in index.nodes(source, ast.FunctionDef) if getattr(n, "name", "") in graph.names]
    return len(named) <= 1


def _of_another(source: Source, graph: Graph, call: ast.Call) -> bool:
    """Whether it may be a method of Python's own objects: ``logs.update(step=3)`` where a graph is named so too."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in following.COMMON:
        return False
    made = settings.written(source, call.func.value)
    own = isinstance(made, ast.Call) and scopes.dotted(made.func).rpartition(".")[2] in OF_PYTHON
    if own or isinstance(made, (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp)):
        return True
    mapping = len(call.args) == 1 and isinstance(call.args[0], ast.Dict)
    return mapping and following.function(source, call) is not graph.function


def _graphed(source: Source, call: ast.AST) -> bool:
    """Whether the call stands in a graph itself, where its numbers are traced once."""
    function: ast.AST | None = finding.function(source, call)
    while function is not None:
        if graphable.graphed(source, function):
            return True
        function = finding.function(source, function)
    return False


def _typed(function: ast.FunctionDef, parameter: str) -> bool:
    """Whether the parameter is said to be a tensor: ``experimental_follow_type_hints`` makes one of a number."""
    every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    given = next((a.annotation for a in every if a.arg == parameter), None)
    return parameter in ("self", "cls", "training") or (given is not None and "Tensor" in ast.unparse(given))


def _changes(source: Source, given: ast.expr, loop: ast.For | ast.While) -> str | None:
    inside = scopes.bound(loop)
    if not scopes.read(given) & inside:
        return None
    if _number(source, given, inside):
        return "float" if _real(source, given, loop) else "int"
    made = _made(given, loop)
    if isinstance(made, ast.Call) and finding.called(made) == "tolist" and not made.args:
        return "list"
    return "" if _varies(source, given, loop) else None


def _number(source: Source, given: ast.expr, inside: set[str]) -> bool:
    if any(isinstance(n, ast.Call) and values.qualified(source, n.func) for n in trees.walk(given)):
        return False  # of NumPy or TensorFlow: an array or a tensor
    if kinds.of(source, given) != kinds.NUMBER:
        return False
    for name in (n for n in trees.walk(given) if isinstance(n, ast.Name) and n.id in inside):
        if not _python(source, name):
            return False
    return True


def _python(source: Source, name: ast.Name) -> bool:
    """Whether every value of a name is Python's own: no ``tf.range``, no element of an array."""
    scope = kinds.where_bound(source, name)
    if scope is None:
        return False
    for one in scopes.binders(source, name.id, scope):
        value = one.iter if isinstance(one, ast.For) else getattr(one, "value", None)
        calls = [n for n in trees.walk(value) if isinstance(n, ast.Call)] if value is not None else []
        if any(values.qualified(source, c.func).startswith(("tensorflow.", "numpy.", "keras.")) for c in calls):
            return isinstance(one, ast.For) and finding.called(calls[0]) == "enumerate"
    return True


def _real(source: Source, given: ast.expr, loop: ast.For | ast.While) -> bool:
    """Whether the number is a float: whole ones are counted, or come of ``range`` and ``enumerate``."""
    if isinstance(given, ast.Name):
        binders = scopes.binders(source, given.id, kinds.where_bound(source, given) or loop)
        whole = all(
            isinstance(one, ast.For) or (isinstance(one, (ast.Assign, ast.AugAssign)) and _integers(one.value))
            for one in binders
        )
        return not whole
    return not _integers(given)


def _integers(node: ast.expr) -> bool:
    plain = (ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context)
    return all(isinstance(n, plain) and not isinstance(n, (ast.Div, ast.Pow)) for n in trees.walk(node)) and all(
        isinstance(n.value, int) for n in trees.walk(node) if isinstance(n, ast.Constant)
    )


def _made(given: ast.expr, loop: ast.AST) -> ast.expr | None:
    """What the loop assigns to a name; other expressions themselves."""
    if not isinstance(given, ast.Name):
        return given
    found = [
        n.value for n in scopes.own(list(getattr(loop, "body", [])))
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == given.id for t in n.targets)
    ]  # fmt: skip
    return found[0] if len(found) == 1 else None


def _varies(source: Source, given: ast.expr, loop: ast.AST, depth: int = 6) -> bool:
    """Whether an array's shape is another one in each turn."""
    if not depth:
        return False
    if isinstance(given, ast.Name):
        made = _made(given, loop)
        if made is None and isinstance(loop, ast.For) and given.id in scopes.bound(loop.target):
            return _yields(source, given, loop, depth)
        if made is None:
            return _handed(source, given, loop, depth)
        return _varies(source, made, loop, depth - 1)
    if isinstance(given, ast.ListComp):
        return _varies(source, given.elt, loop, depth - 1)
    if not isinstance(given, ast.Call):
        return False
    name = finding.called(given)
    if name in PASSED:
        method = isinstance(given.func, ast.Attribute) and not values.qualified(source, given.func)
        inner = [given.func.value] if method and isinstance(given.func, ast.Attribute) else given.args[:1]
        return bool(inner) and _varies(source, inner[0], loop, depth - 1)
    if name in MADE:
        shape = finding.keyword(given, "size") or finding.keyword(given, "shape", 0)
        sizes = shape.elts if isinstance(shape, (ast.Tuple, ast.List)) else given.args if name[:4] == "rand" else []
        return any(_extent(size, loop) for size in sizes)
    return name == "pad_sequences" and finding.keyword(given, "maxlen", 1) is None


def _handed(source: Source, given: ast.Name, loop: ast.AST, depth: int) -> bool:
    """Whether a function of this file, whose several results the loop takes apart, makes another shape each time."""
    bound = [n for n in scopes.own(list(getattr(loop, "body", []))) if isinstance(n, ast.Assign)]
    for one in bound:
        path = evolving.place_of(source, given.id, one.targets[0])
        if path:
            found = evolving.element(source, one.value, path)
            return found is not None and found[1] is not None and _varies(source, found[0], found[1], depth - 1)
    return False


def _yields(source: Source, given: ast.Name, loop: ast.For, depth: int) -> bool:
    """Whether the generator of this file that the loop runs over yields another shape each time."""
    path = evolving.place_of(source, given.id, loop.target)
    found = evolving.element(source, loop.iter, path) if path is not None else None
    if found is not None and found[1] is not None and _varies(source, found[0], found[1], depth - 1):
        return True
    value = visible.element(source, loop, given)
    inner = next(iter(scopes.loops(source, value)), None) if value is not None else None
    return value is not None and inner is not None and _varies(source, value, inner, depth - 1)


def _extent(node: ast.expr, loop: ast.AST, depth: int = 3) -> bool:
    """Whether a size is another one in each turn: the longest of a batch, or drawn."""
    if isinstance(node, ast.Name) and depth:
        made = _made(node, loop)
        return made is not None and _extent(made, loop, depth - 1)
    if isinstance(node, ast.BinOp):
        if any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.FloorDiv) for n in trees.walk(node)):
            return False  # rounded: few sizes are left
        return _extent(node.left, loop, depth) or _extent(node.right, loop, depth)
    if not isinstance(node, ast.Call):
        return False
    name = finding.called(node)
    if name == "int" and node.args:
        return _extent(node.args[0], loop, depth)
    if name in DRAWN:
        return finding.keyword(node, "size", 2) is None and bool(node.args)
    if name != "max" or len(node.args) != 1:
        return False
    inside = node.args[0]
    if isinstance(inside, (ast.GeneratorExp, ast.ListComp)):
        return isinstance(inside.elt, ast.Call) and finding.called(inside.elt) == "len"
    mapped = isinstance(inside, ast.Call) and finding.called(inside) == "map" and len(inside.args) == 2
    return (
        mapped and isinstance(inside, ast.Call) and isinstance(inside.args[0], ast.Name) and inside.args[0].id == "len"
    )


def fresh(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """Calls of a class's own ``tf.function`` on an object that the loop makes anew, with the class's name."""
    above = finding.parents(source)
    for graph in graphs(source):
        holder = above.get(graph.function)
        if not isinstance(holder, ast.ClassDef) or graph.function.name in ("call", "__call__"):
            continue
        for call in index.of(source).called(graph.function.name):
            loops = scopes.loops(source, call)
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if not loops or owner is None or visible.written_out(loops[0]) or visible.few(source, loops[0]):
                continue
            made = _made(owner, loops[0])
            if isinstance(made, ast.Call) and finding.called(made) == holder.name:
                yield call, holder.name
