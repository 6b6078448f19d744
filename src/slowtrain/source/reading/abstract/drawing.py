"""Random numbers of NumPy and Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slowtrain.source.reading.abstract import shapes, texts, things
from slowtrain.source.reading.abstract.values import NONE, NOTHING, UNKNOWN, Given, Value, dtype, number

if TYPE_CHECKING:
    from slowtrain.source.reading.abstract.machine import Machine

WHOLE = frozenset({"integers", "randint", "permutation", "choice"})
OF_PYTHON = frozenset({"randint", "randrange", "getrandbits"})
SINGLE = frozenset("random uniform normal standard_normal gamma beta exponential lognormal".split())  # Python floats
OWN = frozenset({"integers", "standard_normal", "permutation", "permuted", "lognormal", "standard_gamma"})  # NumPy only
MANY = "many"  # the ``name`` of an integer array with many distinct values
# Position of the shape argument.
SIZED = {
    **dict.fromkeys(("random", "random_sample", "standard_normal", "permutation"), 0),
    **dict.fromkeys(("choice", "exponential", "poisson", "standard_gamma"), 1),
    **dict.fromkeys(("integers", "randint", "normal", "uniform", "gamma", "beta", "binomial", "lognormal"), 2),
}


def drawn(machine: Machine, last: str, given: Given) -> Value:
    """The result of a NumPy draw, with new content at each call."""
    if last in ("shuffle", "seed"):
        return UNKNOWN
    loops = frozenset(machine.depth())
    first = given.args[0] if given.args else UNKNOWN
    if last in ("permutation", "permuted") and first.kind == "array":
        return first.moving(loops)
    if last == "choice" and first.kind == "array" and len(given.args) == 1 and "size" not in given.keywords:
        return things.item(first, NOTHING).with_(ragged=NONE).moving(loops)
    place = 1 if last == "choice" else SIZED.get(last)
    if last in SINGLE and "size" not in given.keywords and place is not None and len(given.args) <= place:
        return number("float", loops)
    size = given.get("size", place)
    ragged = frozenset(v for one in size.inside(2) for v in one.varies)
    named = dtype(given.get("dtype")) or ("int64" if last in WHOLE else "float64")
    named = first.dtype if last == "choice" and first.kind == "array" else named
    return Value("array", varies=loops, ragged=ragged, dtype=named, shape=shapes.drawn(last, size, given),
                 name=MANY if _many(last, given) else "", born=machine.born())  # fmt: skip


def by_python(machine: Machine, name: str, given: Given) -> Value:
    """The result of a function of Python's ``random``, or of a generator object."""
    last, loops = name.rpartition(".")[2], given.varies | frozenset(machine.depth())
    if last in ("Random", "SystemRandom"):
        return Value("library", name="random", born=machine.born())
    if last in ("choices", "sample"):
        return texts.drawn_list(given, loops)
    if last == "choice":
        return things.item(given.get("seq", 0), NOTHING).with_(known=NOTHING).moving(loops)
    if last in ("shuffle", "seed", "setstate"):
        return UNKNOWN
    return number("few" if last in OF_PYTHON else "float", loops)


def _many(last: str, given: Given) -> bool:
    """Whether integers are drawn from more than a few values."""
    bounds = [one.known for one in given.args[: 1 if last == "permutation" else 2]]
    whole = [n for n in bounds if isinstance(n, int)]
    return last in ("integers", "randint", "permutation") and len(whole) == len(bounds) > 0 and max(whole) > things.FEW
