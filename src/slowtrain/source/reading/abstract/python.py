"""Functions of Python and its standard library."""

from __future__ import annotations

import ast
from collections.abc import Callable
from math import isfinite
from typing import TYPE_CHECKING

from slowtrain.source.reading import objects
from slowtrain.source.reading.abstract import drawing, functional, running, things
from slowtrain.source.reading.abstract.values import NOTHING, UNKNOWN, Given, Value, constant, formatted, joined, number

if TYPE_CHECKING:
    from slowtrain.source.reading.abstract.machine import Machine

PARSER = "argparse.ArgumentParser.made"
CLOCKS = ("time.", "uuid.")  # a new number at each call


def call(machine: Machine, name: str, given: Given) -> Value | None:
    """The result of a function or class of Python; None for others."""
    does = _BUILT_IN.get(name)
    if does is not None:
        return does(machine, given)
    if name.startswith(PARSER):
        parsed = name.endswith(("parse_args", "parse_known_args"))
        return _options(machine) if parsed else Value("library", name=PARSER)
    if name.startswith("random."):
        return drawing.by_python(machine, name, given)
    if name.startswith(CLOCKS):
        return number("float", given.varies | frozenset(machine.depth()))
    if name.startswith("itertools.") and given.args:
        return given.args[0] if name.endswith(("cycle", "islice")) else Value("rows", of=UNKNOWN)
    return None


def _options(machine: Machine) -> Value:
    """The options of a command line by their defaults."""
    known = objects.options(machine.source)
    found = {name: constant(given.value) for name, given in known.items() if isinstance(given, ast.Constant)}
    return Value("object", name="options", items=found, born=machine.born())


def _range(machine: Machine, given: Given) -> Value:  # noqa: ARG001 - as all of _BUILT_IN
    ends = [a.known for a in given.args]
    whole = [e for e in ends if isinstance(e, int)]
    sure = whole and len(whole) == len(ends) and not given.varies and 0 not in whole[2:]
    try:
        many = given.args[0].data if len(ends) == 1 else None  # range(len(rows))
        return Value("range", len(range(*whole)) if sure else NOTHING, given.varies, data=many)
    except (OverflowError, TypeError):
        return Value("range", varies=given.varies)


def _listed(machine: Machine, given: Given) -> Value:
    items = given.args[0] if given.args else None
    if items is None:
        return Value("list", born=machine.born())
    if items.kind not in ("rows", "generator", "range", "array", "tensor"):
        return items
    with machine.looping(given.node, None, items) as loop:
        one = machine.each(items, loop, given.node)
    return Value("list", items={None: one}, born=machine.born(), varies=items.varies)


def _queue(machine: Machine, given: Given) -> Value:
    """A deque as a list, with its maximum length."""
    most, held = given.get("maxlen", 1), _listed(machine, Given(given.node, given.args[:1]))
    kept = held.with_(kind="list", items=dict(held.items), data="open" if held.items else None)
    return kept if most is UNKNOWN or most.kind == "none" else kept.with_(name="bounded", known=most.known)


def _converted(name: str) -> Callable[[Machine, Given], Value]:
    def does(machine: Machine, given: Given) -> Value:  # noqa: ARG001
        known = given.args[0].known if given.args and name != "bool" else NOTHING
        if isinstance(known, str) and known.isdecimal() and len(known) < things.MOST_TEXT:
            known = float(known) if name == "float" else int(known)
        known = int(known) if name == "int" and isinstance(known, float) and isfinite(known) else known
        return Value("number", known if isinstance(known, (int, float)) else NOTHING, given.varies, name=name)

    return does


def _length(machine: Machine, given: Given) -> Value:
    first = given.args[0] if given.args else UNKNOWN
    own = things.attribute_of(first, "__len__") if first.kind == "object" else None
    if own is not None:
        return machine.call(own, Given(given.node))
    if (sure := things.length(first)) is not None:
        return constant(sure)
    loose = first.kind in ("list", "unknown")
    varies = first.varies if loose else first.of.varies if first.of is not None else frozenset[int]()
    return number("int", first.ragged | varies).with_(data=things.least(first))


def _folded(machine: Machine, given: Given) -> Value:  # noqa: ARG001
    """``sum``, ``min``, ``max`` and the like, of several arguments or of an iterable."""
    first = given.args[0] if given.args else UNKNOWN
    if len(given.args) == 1 and first.kind not in ("number", "tensor", "variable", "array"):
        inside = joined(first.items.values()) if first.items else first.of or UNKNOWN
        known = inside.kind in ("number", "tensor")
        return (inside if known else UNKNOWN).with_(known=NOTHING).moving(given.varies)
    if any(a.kind in ("tensor", "variable") for a in given.args):
        return Value("tensor", varies=given.varies)
    kinds = {a.name for a in given.args if a.kind == "number"}
    return number("float" if "float" in kinds else "int" if kinds == {"int"} else "", given.varies)


def _gotten(machine: Machine, given: Given) -> Value:  # noqa: ARG001
    name = given.get("", 1).known
    if not given.args or not isinstance(name, str):
        return UNKNOWN.moving(given.varies)
    if given.args[0].kind == "library":
        return Value("library", name=f"{given.args[0].name}.{name}")
    return things.attribute_of(given.args[0], name) or UNKNOWN.moving(given.varies)


def _field(machine: Machine, given: Given) -> Value:  # noqa: ARG001
    """A data class's field: its default, or a "field" with the factory."""
    factory = given.get("default_factory")
    return Value("field", of=factory) if factory is not UNKNOWN else given.get("default")


def _set(machine: Machine, given: Given) -> Value:  # noqa: ARG001
    """``setattr``: after an unknown name every attribute may have changed."""
    if len(given.args) == 3 and given.args[0].kind in ("object", "class", "keras"):
        name = given.args[1].known
        given.args[0].items[name if isinstance(name, str) and not given.args[1].varies else None] = given.args[2]
    return UNKNOWN


def _first(machine: Machine, given: Given) -> Value:  # noqa: ARG001
    return given.args[0] if given.args else UNKNOWN


_BUILT_IN: dict[str, Callable[[Machine, Given], Value]] = {
    **dict.fromkeys(("list", "tuple", "set", "sorted"), _listed),
    **dict.fromkeys(("iter", "reversed", "tqdm.tqdm", "tqdm.auto.tqdm"), _first),
    **dict.fromkeys(("sum", "min", "max", "abs", "round", "pow"), _folded),
    **dict.fromkeys(("str", "repr", "format", "input"), lambda _, given: formatted(given.varies, given.args)),
    **{name: _converted(name) for name in ("float", "int", "bool")},
    "functools.wraps": lambda *_: Value("library", name="functools.wraps"),
    "functools.lru_cache": lambda *_: Value("library", name="functools.lru_cache"),
    "collections.deque": _queue,
    "range": _range,
    "tqdm.trange": _range,
    "len": _length,
    "getattr": _gotten,
    "os.environ.get": lambda _, given: given.get("default", 1),
    "os.getenv": lambda _, given: given.get("default", 1),
    "argparse.ArgumentParser": lambda _, given: Value("library", name=PARSER, node=given.node),
    "vars": lambda _, given: Value("dict", items=given.get("", 0).items),
    "setattr": _set,
    "os.sched_getaffinity": lambda machine, _: Value("list", born=machine.born()),
    "filter": lambda _, given: given.get("", 1),
    "enumerate": lambda machine, given: running.zipped(machine, [Value("range"), *given.args[:1]], given.node),
    "zip": lambda machine, given: running.zipped(machine, given.args, given.node),
    "map": lambda machine, given: running.mapped(machine, given) if len(given.args) > 1 else UNKNOWN,
    "next": lambda machine, given: running.next_of(machine, given.get("", 0), given.node),
    "dict": functional.mapping,
    "collections.OrderedDict": functional.mapping,
    "collections.defaultdict": functional.defaulting,
    "dataclasses.field": _field,
    "functools.partial": functional.partial,
    "functools.reduce": functional.reduced,
}
