"""Methods of mappings and texts, and random lists."""

from __future__ import annotations

from slowtrain.source.reading.abstract import things
from slowtrain.source.reading.abstract.values import NOTHING, UNKNOWN, Given, Value, formatted, joined, number, sequence

AS_LONG = frozenset({"decode", "encode", "lower", "upper", "swapcase", "translate", "tobytes"})
TEXTS = frozenset({"strip", "lstrip", "rstrip", "replace", "format", "title", "removeprefix", "removesuffix"})
BYTES = ("S1", "uint8", "int8")  # one byte per item


def of_mapping(on: Value, name: str, given: Given, *, perhaps: bool, ahead: bool) -> Value:
    """The result of a mapping's method. ``perhaps``: it may not be called; ``ahead``: this is a dry turn."""
    inside = joined(on.items.values()) if on.items else UNKNOWN
    turns = NOTHING if (least := things.least(on)) is None else least
    if name == "items":
        return Value("rows", turns, of=sequence("tuple", [Value("text"), inside]))
    if name in ("values", "keys"):
        return Value("rows", turns, of=inside if name == "values" else Value("text"))
    if name in ("get", "pop", "setdefault") and given.args:
        known = given.args[0].known
        found = on.items.get(known, UNKNOWN) if known is not NOTHING else inside
        if name == "pop" and not ahead:
            on.items.pop(known, None)
        return found
    if name == "update":
        sure = not given.args or (given.args[0].kind == "dict" and None not in given.args[0].items)
        more = {**(given.args[0].items if given.args else {}), **given.keywords}
        if sure or not perhaps:  # what a file may override keeps the script's value, like an argument's default
            on.items.update(more if sure else dict.fromkeys([*on.items, None], UNKNOWN))
    return UNKNOWN


def of_text(on: Value, name: str, given: Given) -> Value:
    """The result of a text's method. ``data`` of a text is its minimum length."""
    varies = on.varies | given.deep
    if name in AS_LONG:
        return Value("text", varies=varies, data=things.least(on))
    if name == "join":
        return Value("text", varies=varies, data=things.least(given.get("", 0)))
    return formatted(varies, [on, *given.every]) if name in TEXTS else UNKNOWN.moving(varies)


def as_bytes(on: Value) -> Value:
    """The result of an array's ``tobytes``."""
    known = [n for n in on.shape or () if n is not None]
    whole = known[0] if on.dtype in BYTES and len(known) == len(on.shape or ()) == 1 else None
    return Value("text", varies=on.varies, data=whole)


def drawn_list(given: Given, loops: frozenset[int]) -> Value:
    """The result of ``random.choices("ACGT", k=600)``."""
    several, count = given.get("population", 0), given.get("k", 2 if len(given.args) > 2 else 1).known
    one = number("few", loops) if several.kind == "range" else Value(varies=loops)
    wide = (count,) if isinstance(count, int) else None
    return Value("list", items={None: one}, shape=wide, varies=loops)
