"""Methods of mappings and texts."""

from __future__ import annotations

from collections.abc import Callable
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
    sequence_value,
)

SAME_LENGTH_METHODS = frozenset({"decode", "encode", "lower", "upper", "swapcase", "translate", "tobytes"})
TEXT_METHODS = frozenset({"strip", "lstrip", "rstrip", "replace", "format", "title", "removeprefix", "removesuffix"})
BYTE_DTYPES = ("S1", "uint8", "int8")  # one byte per item


def mapping_method_value(on: Value, name: str, given: CallArgs, *, perhaps: bool, ahead: bool) -> Value:
    """The result of a mapping's method. ``perhaps``: it may not be called; ``ahead``: this is a dry turn."""
    inside = join_values(on.items.values()) if on.items else UNKNOWN
    turns = NOT_KNOWN if (least := operators.minimum_length(on)) is None else least
    if name == "items":
        return Value("rows", turns, of=sequence_value("tuple", [Value("text"), inside]))
    if name in ("values", "keys"):
        return Value("rows", turns, of=inside if name == "values" else Value("text"))
    if name in ("get", "pop", "setdefault") and given.args:
        known = given.args[0].known
        found = on.items.get(known, UNKNOWN) if known is not NOT_KNOWN else inside
        if name == "pop" and not ahead:
            on.items.pop(known, None)
        return found
    if name == "update":
        sure = not given.args or (given.args[0].kind == "dict" and None not in given.args[0].items)
        more = {**(given.args[0].items if given.args else {}), **given.keywords}
        if sure or not perhaps:  # what a file may override keeps the script's value, like an argument's default
            on.items.update(more if sure else dict.fromkeys([*on.items, None], UNKNOWN))
    return UNKNOWN


def text_method_value(on: Value, name: str, given: CallArgs) -> Value:
    """The result of a text's method. ``data`` of a text is its minimum length."""
    varies = on.varies | given.varying_inside
    if name in SAME_LENGTH_METHODS:
        return Value("text", varies=varies, data=operators.minimum_length(on))
    if name == "join":
        return Value("text", varies=varies, data=operators.minimum_length(given.get("", 0)))
    return formatted_text(varies, [on, *given.every]) if name in TEXT_METHODS else UNKNOWN.varying_in(varies)


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
