"""Functions of Python and its standard library."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from math import isfinite

from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import (
    NOT_KNOWN,
    UNKNOWN,
    CallArgs,
    Value,
    constant_value,
    formatted_text,
    join_values,
    number_value,
)
from slowtrain.script.interpreter.domain.run_context import RunContext
from slowtrain.script.interpreter.library import data_calls, functional_tools, text_methods, user_callbacks
from slowtrain.script.navigation import class_members

PARSER_NAME = "argparse.ArgumentParser.made"
CLOCK_PREFIXES = ("time.", "uuid.")  # a new number at each call


def python_call(machine: RunContext, name: str, given: CallArgs) -> Value | None:
    """The result of a function or class of Python; None for others."""
    does = _BUILTIN_RULES.get(name)
    if does is not None:
        return does(machine, given)
    if name.startswith(PARSER_NAME):
        parsed = name.endswith(("parse_args", "parse_known_args"))
        return _parsed_options(machine) if parsed else Value("library", name=PARSER_NAME)
    if name.startswith("random."):
        return data_calls.python_draw(machine, name, given)
    if name.startswith(CLOCK_PREFIXES):
        return number_value("float", given.varies | frozenset(machine.depth()))
    if name.startswith("itertools.") and given.args:
        return given.args[0] if name.endswith(("cycle", "islice")) else Value("rows", of=UNKNOWN)
    return None


def _parsed_options(machine: RunContext) -> Value:
    """The options of a command line by their defaults."""
    known = class_members.option_defaults(machine.source)
    found = {name: constant_value(given.value) for name, given in known.items() if isinstance(given, ast.Constant)}
    return Value("object", name="options", items=found, born=machine.born())


def _range_value(machine: RunContext, given: CallArgs) -> Value:  # noqa: ARG001 - as all of _BUILT_IN
    ends = [a.known for a in given.args]
    whole = [e for e in ends if isinstance(e, int)]
    sure = whole and len(whole) == len(ends) and not given.varies and 0 not in whole[2:]
    try:
        many = given.args[0].data if len(ends) == 1 else None  # range(len(rows))
        return Value("range", len(range(*whole)) if sure else NOT_KNOWN, given.varies, data=many)
    except (OverflowError, TypeError):
        return Value("range", varies=given.varies)


def _list_value(machine: RunContext, given: CallArgs) -> Value:
    items = given.args[0] if given.args else None
    if items is None:
        return Value("list", born=machine.born())
    if items.kind not in ("rows", "generator", "range", "array", "tensor"):
        return items
    with machine.enter_loop(given.node, None, items) as loop:
        one = machine.each(items, loop, given.node)
    return Value("list", items={None: one}, born=machine.born(), varies=items.varies)


def _deque_value(machine: RunContext, given: CallArgs) -> Value:
    """A deque as a list, with its maximum length."""
    most, held = given.get("maxlen", 1), _list_value(machine, CallArgs(given.node, given.args[:1]))
    kept = held.with_fields(kind="list", items=dict(held.items), data="open" if held.items else None)
    return kept if most is UNKNOWN or most.kind == "none" else kept.with_fields(name="bounded", known=most.known)


def _conversion_rule(name: str) -> Callable[[RunContext, CallArgs], Value]:
    def does(machine: RunContext, given: CallArgs) -> Value:  # noqa: ARG001
        known = given.args[0].known if given.args and name != "bool" else NOT_KNOWN
        if isinstance(known, str) and known.isdecimal() and len(known) < operators.MAX_INT_DIGITS:
            known = float(known) if name == "float" else int(known)
        known = int(known) if name == "int" and isinstance(known, float) and isfinite(known) else known
        return Value("number", known if isinstance(known, (int, float)) else NOT_KNOWN, given.varies, name=name)

    return does


def _len_value(machine: RunContext, given: CallArgs) -> Value:
    first = given.args[0] if given.args else UNKNOWN
    own = operators.find_attribute(first, "__len__") if first.kind == "object" else None
    if own is not None:
        return machine.call(own, CallArgs(given.node))
    if (sure := operators.known_length(first)) is not None:
        return constant_value(sure)
    loose = first.kind in ("list", "unknown")
    varies = first.varies if loose else first.of.varies if first.of is not None else frozenset[int]()
    return number_value("int", first.ragged | varies).with_fields(data=operators.minimum_length(first))


def _fold_value(machine: RunContext, given: CallArgs) -> Value:  # noqa: ARG001
    """``sum``, ``min``, ``max`` and the like, of several arguments or of an iterable."""
    first = given.args[0] if given.args else UNKNOWN
    if len(given.args) == 1 and first.kind not in ("number", "tensor", "variable", "array"):
        inside = join_values(first.items.values()) if first.items else first.of or UNKNOWN
        known = inside.kind in ("number", "tensor")
        return (inside if known else UNKNOWN).with_fields(known=NOT_KNOWN).varying_in(given.varies)
    if any(a.kind in ("tensor", "variable") for a in given.args):
        return Value("tensor", varies=given.varies)
    kinds = {a.name for a in given.args if a.kind == "number"}
    return number_value("float" if "float" in kinds else "int" if kinds == {"int"} else "", given.varies)


def _extreme_value(machine: RunContext, given: CallArgs, choose: Callable[[list[int]], int]) -> Value:
    """``min`` or ``max``."""
    known = [a.known for a in given.args if isinstance(a.known, int) and not a.varies]
    whole = len(known) == len(given.args) > 1 and not given.keywords
    return constant_value(choose(known)) if whole else _fold_value(machine, given)


def _namespace_value(machine: RunContext, given: CallArgs) -> Value:
    return Value("object", name="namespace", items=dict(given.keywords), born=machine.born())


def _getattr_value(machine: RunContext, given: CallArgs) -> Value:  # noqa: ARG001
    name = given.get("", 1).known
    if not given.args or not isinstance(name, str):
        return UNKNOWN.varying_in(given.varies)
    if given.args[0].kind == "library":
        return Value("library", name=f"{given.args[0].name}.{name}")
    return operators.find_attribute(given.args[0], name) or UNKNOWN.varying_in(given.varies)


def _dataclass_field(machine: RunContext, given: CallArgs) -> Value:  # noqa: ARG001
    """A data class's field: its default, or a "field" with the factory."""
    factory = given.get("default_factory")
    return Value("field", of=factory) if factory is not UNKNOWN else given.get("default")


def _setattr_value(machine: RunContext, given: CallArgs) -> Value:  # noqa: ARG001
    """``setattr``: after an unknown name every attribute may have changed."""
    if len(given.args) == 3 and given.args[0].kind in ("object", "class", "keras"):
        name = given.args[1].known
        given.args[0].items[name if isinstance(name, str) and not given.args[1].varies else None] = given.args[2]
    return UNKNOWN


def _first_argument(machine: RunContext, given: CallArgs) -> Value:  # noqa: ARG001
    return given.args[0] if given.args else UNKNOWN


_BUILTIN_RULES: dict[str, Callable[[RunContext, CallArgs], Value]] = {
    **dict.fromkeys(("list", "tuple", "set", "sorted"), _list_value),
    **dict.fromkeys(("iter", "reversed", "tqdm.tqdm", "tqdm.auto.tqdm"), _first_argument),
    **dict.fromkeys(("sum", "abs", "round", "pow"), _fold_value),
    "min": lambda machine, given: _extreme_value(machine, given, min),
    "max": lambda machine, given: _extreme_value(machine, given, max),
    **dict.fromkeys(("types.SimpleNamespace", "argparse.Namespace"), _namespace_value),
    **dict.fromkeys(("str", "repr", "format", "input"), lambda _, given: formatted_text(given.varies, given.args)),
    **{name: _conversion_rule(name) for name in ("float", "int", "bool")},
    "functools.wraps": lambda *_: Value("library", name="functools.wraps"),
    "functools.lru_cache": lambda *_: Value("library", name="functools.lru_cache"),
    "collections.deque": _deque_value,
    "range": _range_value,
    "tqdm.trange": _range_value,
    "len": _len_value,
    "getattr": _getattr_value,
    "os.environ.get": lambda _, given: given.get("default", 1),
    "os.getenv": lambda _, given: given.get("default", 1),
    "argparse.ArgumentParser": lambda _, given: Value("library", name=PARSER_NAME, node=given.node),
    "vars": lambda _, given: Value("dict", items=given.get("", 0).items),
    "setattr": _setattr_value,
    "os.sched_getaffinity": lambda machine, _: Value("list", born=machine.born()),
    "filter": lambda _, given: given.get("", 1),
    "enumerate": lambda machine, given: user_callbacks.zip_value(
        machine, [Value("range"), *given.args[:1]], given.node
    ),
    "zip": lambda machine, given: user_callbacks.zip_value(machine, given.args, given.node),
    "map": lambda machine, given: user_callbacks.map_value(machine, given) if len(given.args) > 1 else UNKNOWN,
    "next": lambda machine, given: user_callbacks.next_item(machine, given.get("", 0), given.node),
    "json.loads": lambda machine, given: text_methods.parsed_text(given.get("s", 0), machine.born(), json.loads),
    "ast.literal_eval": lambda machine, given: text_methods.parsed_text(
        given.get("", 0), machine.born(), ast.literal_eval
    ),
    "dict": functional_tools.dict_value,
    "collections.OrderedDict": functional_tools.dict_value,
    "collections.defaultdict": functional_tools.defaultdict_value,
    "dataclasses.field": _dataclass_field,
    "functools.partial": functional_tools.partial_value,
    "functools.reduce": functional_tools.reduce_result,
}
