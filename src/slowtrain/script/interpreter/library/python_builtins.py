"""Functions of Python and its standard library, and methods of its mappings and texts."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from math import isfinite
from typing import Any

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
    sequence_value,
)
from slowtrain.script.interpreter.domain.run_context import RunContext
from slowtrain.script.interpreter.library import data_calls, user_callbacks
from slowtrain.script.navigation import class_members, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import cache_recent

MAX_UNROLLED_ITEMS = 16
CALLABLE_KINDS = ("function", "method", "graph", "partial")
EMPTY_KINDS = {"list": "list", "dict": "dict", "set": "list"}


@cache_recent(4096)
def is_generator(function: ast.AST) -> bool:
    """Whether a function of the script is a generator function."""
    return any(
        isinstance(n, (ast.Yield, ast.YieldFrom)) for n in scope_names.nodes_in_scope(scope_names.scope_body(function))
    )


def unrolled_items(items: Value, node: ast.For) -> list[Value]:
    """The items of a loop over callables, or over names for ``getattr``, since each does something else.

    Empty for any other loop.
    """
    several = _known_items(items)
    if several and all(one.kind in CALLABLE_KINDS or _is_callable_object(one) for one in several):
        return several
    names = scope_names.bound_names(node.target)
    if several and all(isinstance(one.known, str) for one in several) and names:
        asked = (n for one in node.body for n in syntax_tree.walk(one) if isinstance(n, ast.Call))
        looked_up = (
            scope_names.read_names(n.args[1])
            for n in asked
            if scope_names.dotted_name(n.func) == "getattr" and len(n.args) == 2
        )
        return several if any(names & read for read in looked_up) else []
    return []


def _known_items(items: Value) -> list[Value]:
    """The items if there are several and each is known; else empty."""
    closed = items.kind in ("list", "tuple") and None not in items.items and items.data != "open"
    return list(items.items.values()) if closed and 1 < len(items.items) <= MAX_UNROLLED_ITEMS else []


def _is_callable_object(one: Value) -> bool:
    return one.kind == "object" and operators.find_attribute(one, "__call__") is not None


def partial_value(_: RunContext, call: CallArgs) -> Value:
    """The value of ``functools.partial``."""
    if not call.args:
        return UNKNOWN
    function = call.args[0]
    return Value("partial", name=function.name, of=function, data=CallArgs(call.node, call.args[1:], call.keywords))


def full_arguments(partial: Value, call: CallArgs) -> CallArgs:
    """All arguments of the function behind a ``partial_value``."""
    first: CallArgs = partial.data
    return CallArgs(call.node, [*first.args, *call.args], {**first.keywords, **call.keywords})


def reduce_result(machine: RunContext, call: CallArgs) -> Value:
    """``reduce(f, items, first)`` if the items are known one by one."""
    several = _known_items(call.get("", 1))
    if not several:
        return UNKNOWN
    found, rest = (call.args[2], several) if len(call.args) > 2 else (several[0], several[1:])
    for one in rest:
        found = machine.call(call.args[0], CallArgs(call.node, [found, one]))
    return found


def dict_value(machine: RunContext, call: CallArgs) -> Value:
    """``dict(pairs, name=…)``."""
    items: dict[Any, Value] = dict(call.keywords)
    if call.args:
        first = call.args[0]
        pairs = [one for one in _known_items(first) if one.kind == "tuple"]
        if first.kind == "dict":
            items = {**first.items, **items}
        elif pairs and all(isinstance(operators.item_value(one, 0).known, (str, int)) for one in pairs):
            items = {**{operators.item_value(one, 0).known: operators.item_value(one, 1) for one in pairs}, **items}
        else:
            with machine.enter_loop(call.node, None, first) as loop:
                one = machine.each(first, loop, call.node)
            items[None] = operators.item_value(one, 1) if one.kind == "tuple" else UNKNOWN
    return Value("dict", items=items, born=machine.born())


def defaultdict_value(machine: RunContext, call: CallArgs) -> Value:
    """``defaultdict(list)``: every key exists."""
    factory = call.get("", 0).name
    default = (
        number_value(factory)
        if factory in ("int", "float")
        else Value(EMPTY_KINDS.get(factory, "unknown"), born=machine.born())
    )
    return Value("dict", items={None: default}, born=machine.born())


SAME_LENGTH_METHODS = frozenset({"decode", "encode", "lower", "upper", "swapcase", "translate", "tobytes"})
TEXT_METHODS = frozenset({"strip", "lstrip", "rstrip", "replace", "format", "title", "removeprefix", "removesuffix"})
BYTE_DTYPES = ("S1", "uint8", "int8")  # one byte per item


def mapping_method_value(on: Value, name: str, call: CallArgs, *, perhaps: bool, ahead: bool) -> Value:
    """The result of a mapping's method. ``perhaps``: it may not be called; ``ahead``: this is a dry iteration."""
    inside = join_values(on.items.values()) if on.items else UNKNOWN
    turns = NOT_KNOWN if (least := operators.minimum_length(on)) is None else least
    if name == "items":
        return Value("rows", turns, of=sequence_value("tuple", [Value("text"), inside]))
    if name in ("values", "keys"):
        return Value("rows", turns, of=inside if name == "values" else Value("text"))
    if name in ("get", "pop", "setdefault") and call.args:
        known = call.args[0].known
        found = on.items.get(known, UNKNOWN) if known is not NOT_KNOWN else inside
        if name == "pop" and not ahead:
            on.items.pop(known, None)
        return found
    if name == "update":
        sure = not call.args or (call.args[0].kind == "dict" and None not in call.args[0].items)
        more = {**(call.args[0].items if call.args else {}), **call.keywords}
        if sure or not perhaps:  # what a file may override keeps the script's value, like an argument's default
            on.items.update(more if sure else dict.fromkeys([*on.items, None], UNKNOWN))
    return UNKNOWN


def text_method_value(on: Value, name: str, call: CallArgs) -> Value:
    """The result of a text's method. ``data`` of a text is its minimum length."""
    varies = on.varies | call.varying_inside
    if name in SAME_LENGTH_METHODS:
        return Value("text", varies=varies, data=operators.minimum_length(on))
    if name == "join":
        return Value("text", varies=varies, data=operators.minimum_length(call.get("", 0)))
    return formatted_text(varies, [on, *call.every]) if name in TEXT_METHODS else UNKNOWN.varying_in(varies)


def array_bytes(on: Value) -> Value:
    """The result of an array's ``tobytes``."""
    known = [n for n in on.shape or () if n is not None]
    whole = known[0] if on.dtype in BYTE_DTYPES and len(known) == len(on.shape or ()) == 1 else None
    return Value("text", varies=on.varies, data=whole)


def parsed_text(text: Value, born: tuple[int, ...], parse: Callable[[str], Any]) -> Value:
    """Settings that the script holds as a text of JSON or Python."""
    if not isinstance(text.known, str) or text.varies:
        return UNKNOWN
    try:
        return _settings_value(parse(text.known), born)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return UNKNOWN


def _settings_value(known: Any, born: tuple[int, ...]) -> Value:
    if isinstance(known, dict):
        return Value("dict", items={k: _settings_value(v, born) for k, v in known.items()}, born=born)
    if isinstance(known, (list, tuple)):
        kind = "list" if isinstance(known, list) else "tuple"
        return sequence_value(kind, [_settings_value(v, born) for v in known], born)
    return constant_value(known)


PARSER_NAME = "argparse.ArgumentParser.made"
CLOCK_PREFIXES = ("time.", "uuid.")  # a new number at each call
PYTHON_PREFIXES = (PARSER_NAME, "random.", *CLOCK_PREFIXES, "itertools.")


def python_call(machine: RunContext, name: str, call: CallArgs) -> Value | None:
    """The result of a function or class of Python; None for others."""
    does = _BUILTIN_RULES.get(name)
    if does is not None:
        return does(machine, call)
    if not name.startswith(PYTHON_PREFIXES):
        return None
    if name.startswith(PARSER_NAME):
        parsed = name.endswith(("parse_args", "parse_known_args"))
        return _parsed_options(machine) if parsed else Value("library", name=PARSER_NAME)
    if name.startswith("random."):
        return data_calls.python_draw(machine, name, call)
    if name.startswith(CLOCK_PREFIXES):
        return number_value("float", call.varies | frozenset(machine.depth()))
    if name.startswith("itertools.") and call.args:
        return call.args[0] if name.endswith(("cycle", "islice")) else Value("rows", of=UNKNOWN)
    return None


def _parsed_options(machine: RunContext) -> Value:
    """The options of a command line by their defaults."""
    known = class_members.option_defaults(machine.source)
    found = {name: constant_value(node.value) for name, node in known.items() if isinstance(node, ast.Constant)}
    return Value("object", name="options", items=found, born=machine.born())


def _range_value(machine: RunContext, call: CallArgs) -> Value:  # noqa: ARG001 - as all of _BUILT_IN
    ends = [a.known for a in call.args]
    whole = [e for e in ends if isinstance(e, int)]
    sure = whole and len(whole) == len(ends) and not call.varies and 0 not in whole[2:]
    try:
        many = call.args[0].data if len(ends) == 1 else None  # range(len(rows))
        return Value("range", len(range(*whole)) if sure else NOT_KNOWN, call.varies, data=many)
    except (OverflowError, TypeError):
        return Value("range", varies=call.varies)


def _list_value(machine: RunContext, call: CallArgs) -> Value:
    items = call.args[0] if call.args else None
    if items is None:
        return Value("list", born=machine.born())
    if items.kind not in ("rows", "generator", "range", "array", "tensor"):
        return items
    with machine.enter_loop(call.node, None, items) as loop:
        one = machine.each(items, loop, call.node)
    return Value("list", items={None: one}, born=machine.born(), varies=items.varies)


def _deque_value(machine: RunContext, call: CallArgs) -> Value:
    """A deque as a list, with its maximum length."""
    most, items = call.get("maxlen", 1), _list_value(machine, CallArgs(call.node, call.args[:1]))
    deque = items.with_fields(kind="list", items=dict(items.items), data="open" if items.items else None)
    return deque if most is UNKNOWN or most.kind == "none" else deque.with_fields(name="bounded", known=most.known)


def _conversion_rule(name: str) -> Callable[[RunContext, CallArgs], Value]:
    def does(machine: RunContext, call: CallArgs) -> Value:  # noqa: ARG001
        known = call.args[0].known if call.args and name != "bool" else NOT_KNOWN
        if isinstance(known, str) and known.isdecimal() and len(known) < operators.MAX_INT_DIGITS:
            known = float(known) if name == "float" else int(known)
        known = int(known) if name == "int" and isinstance(known, float) and isfinite(known) else known
        return Value("number", known if isinstance(known, (int, float)) else NOT_KNOWN, call.varies, name=name)

    return does


def _len_value(machine: RunContext, call: CallArgs) -> Value:
    first = call.args[0] if call.args else UNKNOWN
    own = operators.find_attribute(first, "__len__") if first.kind == "object" else None
    if own is not None:
        return machine.call(own, CallArgs(call.node))
    if (sure := operators.known_length(first)) is not None:
        return constant_value(sure)
    loose = first.kind in ("list", "unknown")
    varies = first.varies if loose else first.of.varies if first.of is not None else frozenset[int]()
    return number_value("int", first.ragged | varies).with_fields(data=operators.minimum_length(first))


def _fold_value(machine: RunContext, call: CallArgs) -> Value:  # noqa: ARG001
    """``sum``, ``min``, ``max`` and the like, of several arguments or of an iterable."""
    first = call.args[0] if call.args else UNKNOWN
    if len(call.args) == 1 and first.kind not in ("number", "tensor", "variable", "array"):
        inside = join_values(first.items.values()) if first.items else first.of or UNKNOWN
        known = inside.kind in ("number", "tensor")
        return (inside if known else UNKNOWN).with_fields(known=NOT_KNOWN).varying_in(call.varies)
    if any(a.kind in ("tensor", "variable") for a in call.args):
        return Value("tensor", varies=call.varies)
    kinds = {a.name for a in call.args if a.kind == "number"}
    return number_value("float" if "float" in kinds else "int" if kinds == {"int"} else "", call.varies)


def _extreme_value(machine: RunContext, call: CallArgs, choose: Callable[[list[int]], int]) -> Value:
    """``min`` or ``max``."""
    known = [a.known for a in call.args if isinstance(a.known, int) and not a.varies]
    whole = len(known) == len(call.args) > 1 and not call.keywords
    return constant_value(choose(known)) if whole else _fold_value(machine, call)


def _namespace_value(machine: RunContext, call: CallArgs) -> Value:
    return Value("object", name="namespace", items=dict(call.keywords), born=machine.born())


def _getattr_value(machine: RunContext, call: CallArgs) -> Value:  # noqa: ARG001
    name = call.get("", 1).known
    if not call.args or not isinstance(name, str):
        return UNKNOWN.varying_in(call.varies)
    if call.args[0].kind == "library":
        return Value("library", name=f"{call.args[0].name}.{name}")
    return operators.find_attribute(call.args[0], name) or UNKNOWN.varying_in(call.varies)


def _dataclass_field(machine: RunContext, call: CallArgs) -> Value:  # noqa: ARG001
    """A data class's field: its default, or a "field" with the factory."""
    factory = call.get("default_factory")
    return Value("field", of=factory) if factory is not UNKNOWN else call.get("default")


def _setattr_value(machine: RunContext, call: CallArgs) -> Value:  # noqa: ARG001
    """``setattr``: after an unknown name every attribute may have changed."""
    if len(call.args) == 3 and call.args[0].kind in ("object", "class", "keras"):
        name = call.args[1].known
        call.args[0].items[name if isinstance(name, str) and not call.args[1].varies else None] = call.args[2]
    return UNKNOWN


def _first_argument(machine: RunContext, call: CallArgs) -> Value:  # noqa: ARG001
    return call.args[0] if call.args else UNKNOWN


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
    "json.loads": lambda machine, given: parsed_text(given.get("s", 0), machine.born(), json.loads),
    "ast.literal_eval": lambda machine, given: parsed_text(given.get("", 0), machine.born(), ast.literal_eval),
    "dict": dict_value,
    "collections.OrderedDict": dict_value,
    "collections.defaultdict": defaultdict_value,
    "dataclasses.field": _dataclass_field,
    "functools.partial": partial_value,
    "functools.reduce": reduce_result,
}
