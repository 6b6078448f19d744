"""The elements of a pipeline, as far as the text shows them: number, shapes, dtypes."""

from __future__ import annotations

import ast
from math import prod

from slowtrain.source import Source, trees
from slowtrain.source.reading import arrays, finding, index, scopes, settings, values, visible
from slowtrain.source.reading.input import chains, pipelines
from slowtrain.values import dataclass

# Functions that draw or make float64 numbers.
DRAWN = frozenset("rand randn random random_sample normal uniform standard_normal linspace".split())
_FILLED = {"zeros": 1, "ones": 1, "empty": 1}  # position of dtype
_CONVERTS = frozenset({"array", "asarray", "ascontiguousarray"})
_KEEPS = frozenset("reshape copy clip transpose repeat squeeze abs sqrt exp sin cos".split())
_PICTURE = {"resize": 1, "resize_with_pad": 1, "Resizing": 0}  # position of the size
_SHAPED = {"ensure_shape": 1, "random_crop": 1, "stateless_random_crop": 1, "reshape": 1, "set_shape": 0}
CHANNELS = 3
DEPTH = 6
GROWING = frozenset("repeat flat_map interleave unbatch apply concatenate".split())  # may add elements


@dataclass(frozen=True)
class Part:
    """A component of an element: its expression, shape and dtype; None if unknown."""

    node: ast.expr
    shape: tuple[int, ...] | None
    dtype: str | None

    @property
    def numbers(self) -> int | None:
        return prod(self.shape) if self.shape is not None else None


def parts(source: Source, maker: ast.Call) -> list[Part]:
    """The components of the elements of ``from_tensor_slices``; empty for other makers."""
    if finding.called(maker) != "from_tensor_slices" or not maker.args:
        return []
    return [Part(node, _rest(source, node), dtype(source, node)) for node in _leaves(source, maker.args[0])]


def _leaves(source: Source, given: ast.expr, depth: int = DEPTH) -> list[ast.expr]:
    """The arrays of a structure literal, also behind a name."""
    held = values.assigned(source, given) if isinstance(given, ast.Name) else None
    if isinstance(held, ast.Dict) and depth and not _put_into(source, given):
        given = held
    if isinstance(given, ast.Dict):
        return [leaf for value in given.values for leaf in _leaves(source, value, depth - 1)]
    if isinstance(given, ast.Tuple):  # a list is one array, a tuple several
        return [leaf for value in given.elts for leaf in _leaves(source, value, depth - 1)]
    return [given]


def _put_into(source: Source, mapping: ast.expr) -> bool:
    """Whether a value is stored under a key of a mapping after its creation."""
    name = scopes.dotted(mapping)
    return any(
        isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and scopes.dotted(n.value) == name
        for n in index.nodes(source, ast.Subscript)
    )


def count(source: Source, flow: chains.Flow) -> int | None:
    """The number of elements that the first operation of a pipeline gives; None if unknown."""
    maker = flow.calls[0]
    name = finding.called(maker)
    if name == "range" and len(maker.args) == 1:
        return number(source, maker.args[0])
    if name == "from_generator":
        return _yields(source, maker)
    if name != "from_tensor_slices" or not maker.args:
        return None
    known = [n for n in (visible.rows(source, e) for e in _leaves(source, maker.args[0])) if n is not None]
    return known[0] if known else None


def most(source: Source, flow: chains.Flow) -> int | None:
    """The maximum number of elements at the end of a pipeline, batches counted as one; None if unknown."""
    if not flow.whole:
        return None
    maker = flow.calls[0]
    known = {"from_tensors": 1, "range": _ranged(source, maker)}.get(finding.called(maker)) or count(source, flow)
    for call in flow.calls[1:]:
        name = finding.called(call)
        if name == "take":
            taken = number(source, finding.keyword(call, "count", 0))
            known = min((n for n in (known, taken) if n is not None and n >= 0), default=None)
        elif name in GROWING:
            known = None
    return known


def _ranged(source: Source, maker: ast.Call) -> int | None:
    ends = [number(source, a) for a in maker.args[:2]]
    if not ends or None in ends or len(maker.args) > 2:
        return None
    return max((ends[-1] or 0) - (ends[0] or 0 if len(ends) > 1 else 0), 1)


def number(source: Source, node: ast.expr | None) -> int | None:
    """The int that an expression, or the expression behind a name, is."""
    value = values.assigned(source, node) if isinstance(node, ast.Name) else None
    return visible.number(source, value if isinstance(value, ast.BinOp) else node)


def as_many_as(source: Source, call: ast.Call) -> ast.expr | None:
    """The ``x`` of ``tf.random.normal(shape=tf.shape(x))``, whose shape the result has; else None."""
    shape = finding.keyword(call, "shape", 0)
    plain = isinstance(shape, ast.Call) and len(shape.args) == 1 and not shape.keywords
    named = plain and scopes.full(source, shape.func) == "tensorflow.shape"  # type: ignore[union-attr]
    return shape.args[0] if named else None  # type: ignore[union-attr]


def picture(source: Source, call: ast.Call) -> int | None:
    """The maximum number of numbers that the function of a ``map`` gives per element, by its resizing and reshaping."""
    function = pipelines.function(source, call)
    if function is None:
        return None
    found = []
    for inner in pipelines.calls(pipelines.reached(source, function)):
        name = finding.called(inner)
        at = {**_PICTURE, **_SHAPED}.get(name)
        given = finding.keyword(inner, "size" if name in _PICTURE else "shape", at) if at is not None else None
        if not isinstance(given, (ast.Tuple, ast.List)):
            continue
        sizes = [number(source, e) for e in given.elts]
        whole = [s for s in sizes if s is not None]
        if len(whole) == len(sizes) and min(whole, default=0) > 0:
            found.append(prod(whole) * (CHANNELS if name in _PICTURE else 1))
    return sum(found) or None


def signature(source: Source, maker: ast.Call) -> int | None:
    """The number of numbers in one element of ``from_generator``, by its signature; None if unknown."""
    given = finding.keyword(maker, "output_signature", 4)
    specs = given.elts if isinstance(given, (ast.Tuple, ast.List)) else [given]
    total = 0
    for spec in specs:
        shape = finding.keyword(spec, "shape", 0) if isinstance(spec, ast.Call) else None
        if not isinstance(shape, (ast.Tuple, ast.List)):
            return None
        sizes = [number(source, e) for e in shape.elts]
        if None in sizes:
            return None
        total += prod(s for s in sizes if s is not None)
    return total or None


def dtype(source: Source, node: ast.expr | None, depth: int = DEPTH) -> str | None:
    """NumPy's name of an array's dtype; None if unknown."""
    if node is None or not depth:
        return None
    if isinstance(node, ast.Name):
        value = chains.assigned(source, node, node)
        return dtype(source, value, depth - 1) if value is not None else None
    if isinstance(node, ast.UnaryOp):
        return dtype(source, node.operand, depth - 1)
    if isinstance(node, ast.BinOp):
        return _joined(source, node, depth)
    if isinstance(node, ast.Subscript):
        return dtype(source, node.value, depth - 1)
    return _of_call(source, node, depth) if isinstance(node, ast.Call) else None


def _of_call(source: Source, call: ast.Call, depth: int) -> str | None:
    name, whole = finding.called(call), values.qualified(source, call.func)
    if whole.startswith(("tensorflow.", "keras.")):
        return None
    inner = call.func.value if isinstance(call.func, ast.Attribute) else None
    given = finding.keyword(call, "dtype", _FILLED.get(name))
    if name == "astype":
        given = call.args[0] if call.args else given
    if given is not None:
        return _named(given)
    if name in DRAWN or (name in _FILLED and whole.startswith("numpy.")):
        drawn = whole.startswith("numpy.") or _generator(source, inner)
        return "float64" if drawn else None
    if name in _CONVERTS and call.args:
        return dtype(source, call.args[0], depth - 1)
    if name in _KEEPS:
        of = call.args[0] if whole.startswith("numpy.") and call.args else inner
        return dtype(source, of, depth - 1)
    return None


def _joined(source: Source, node: ast.BinOp, depth: int) -> str | None:
    """The dtype of arithmetic. A Python number does not change an array's dtype."""
    left, right = (dtype(source, side, depth - 1) for side in (node.left, node.right))
    if any(settings.literal(source, side) is not None for side in (node.left, node.right)):
        return left or right
    return "float64" if "float64" in (left, right) else left if left == right else None


def _named(node: ast.expr) -> str | None:
    text = node.value if isinstance(node, ast.Constant) else node.attr if isinstance(node, ast.Attribute) else None
    if isinstance(node, ast.Name) and node.id == "float":
        return "float64"
    return text if isinstance(text, str) else None


def _generator(source: Source, node: ast.expr | None) -> bool:
    """Whether ``node`` is a NumPy random generator."""
    if isinstance(node, ast.Name):
        value = values.assigned(source, node)
        return value is not None and not isinstance(value, ast.Name) and _generator(source, value)
    made = values.qualified(source, node.func) if isinstance(node, ast.Call) else ""
    return made in ("numpy.random.default_rng", "numpy.random.RandomState")


def _rest(source: Source, node: ast.expr) -> tuple[int, ...] | None:
    """The shape of one row of an array."""
    known = _of_set(source, node)
    if known is not None:
        return known
    found = visible.shape(source, node)
    rest = [n for n in found[1:] if n is not None] if found else []
    return tuple(rest) if found and len(rest) == len(found) - 1 else None


def _of_set(source: Source, node: ast.expr, depth: int = DEPTH) -> tuple[int, ...] | None:
    """The row shape of ``x`` or ``y`` of ``(x, y), _ = mnist.load_data()``, scaled or not."""
    if isinstance(node, ast.BinOp):
        node = node.left
    if isinstance(node, ast.Call) and finding.called(node) == "astype" and isinstance(node.func, ast.Attribute):
        node = node.func.value
    if not isinstance(node, ast.Name) or not depth:
        return None
    above = finding.parents(source)
    where = values.scope(source, node, node.id)
    shapes = set()
    for store in values.stores(where, node.id):
        holder = above.get(store)
        outer = above.get(holder) if isinstance(holder, ast.Tuple) else None
        whole = above.get(outer) if isinstance(outer, ast.Tuple) else None
        if isinstance(holder, ast.Tuple) and isinstance(whole, ast.Assign) and isinstance(whole.value, ast.Call):
            name = values.qualified(source, whole.value.func).split(".")
            shape = arrays.ROWS.get(name[2]) if name[:2] == ["keras", "datasets"] and len(name) > 2 else None
            shapes.add((shape if holder.elts.index(store) == 0 else ()) if shape is not None else None)  # type: ignore[arg-type]
        elif isinstance(holder, ast.Assign) and _scaled(holder.value, node.id):
            continue
        elif not isinstance(holder, ast.AugAssign):
            return None
    return shapes.pop() if len(shapes) == 1 else None


def _scaled(value: ast.expr, name: str) -> bool:
    """Whether it is ``x / 255`` or ``x.astype("float32") / 255``, which keep the shape."""
    while True:
        if isinstance(value, ast.BinOp) and isinstance(value.right, ast.Constant):
            value = value.left
        elif (
            isinstance(value, ast.Call) and finding.called(value) == "astype" and isinstance(value.func, ast.Attribute)
        ):
            value = value.func.value
        else:
            return isinstance(value, ast.Name) and value.id == name


def _yields(source: Source, maker: ast.Call) -> int | None:
    """The number of items of a generator that yields once per turn of one loop of known length."""
    given = finding.keyword(maker, "generator", 0)
    made = finding.defined(source, given.id, maker) if isinstance(given, ast.Name) else None
    if made is None:
        return None
    yields = [n for n in trees.walk(made) if isinstance(n, (ast.Yield, ast.YieldFrom))]
    above = finding.parents(source)
    statement = finding.statement(source, yields[0]) if len(yields) == 1 else None
    loop = above.get(statement) if statement is not None else None
    if not isinstance(loop, ast.For) or above.get(loop) is not made:
        return None
    over = loop.iter
    if isinstance(over, ast.Call) and finding.called(over) == "zip":
        known = [n for n in (visible.rows(source, a) for a in over.args) if n is not None]
        return min(known, default=None)
    return visible.turns(source, loop)
