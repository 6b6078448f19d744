"""Random numbers of NumPy and Python."""

from __future__ import annotations

from slowtrain.script.interpreter.domain import operators, shape_rules
from slowtrain.script.interpreter.domain.abstract_values import (
    NO_LOOPS,
    NOT_KNOWN,
    UNKNOWN,
    CallArgs,
    Value,
    dtype_name,
    number_value,
)
from slowtrain.script.interpreter.domain.run_context import RunContext
from slowtrain.script.interpreter.library import text_methods

INTEGER_DRAWS = frozenset({"integers", "randint", "permutation", "choice"})
PYTHON_INTEGER_DRAWS = frozenset({"randint", "randrange", "getrandbits"})
SCALAR_DRAWS = frozenset(
    "random uniform normal standard_normal gamma beta exponential lognormal".split()
)  # Python floats
NUMPY_ONLY_DRAWS = frozenset(
    {"integers", "standard_normal", "permutation", "permuted", "lognormal", "standard_gamma"}
)  # NumPy only
MANY_VALUES = "many"  # the ``name`` of an integer array with many distinct values
# Position of the shape argument.
SIZE_POSITIONS = {
    **dict.fromkeys(("random", "random_sample", "standard_normal", "permutation"), 0),
    **dict.fromkeys(("choice", "exponential", "geometric", "poisson", "standard_gamma", "weibull"), 1),
    **dict.fromkeys(("integers", "randint", "normal", "uniform", "gamma", "beta", "binomial", "lognormal"), 2),
}


def numpy_draw(machine: RunContext, last: str, given: CallArgs) -> Value:
    """The result of a NumPy draw, with new content at each call."""
    if last in ("shuffle", "seed"):
        return UNKNOWN
    loops = frozenset(machine.depth())
    first = given.args[0] if given.args else UNKNOWN
    if last in ("permutation", "permuted") and first.kind == "array":
        return first.varying_in(loops)
    if last == "choice" and first.kind == "array" and len(given.args) == 1 and "size" not in given.keywords:
        return operators.item_value(first, NOT_KNOWN).with_fields(ragged=NO_LOOPS).varying_in(loops)
    place = 1 if last == "choice" else SIZE_POSITIONS.get(last)
    if last in SCALAR_DRAWS and "size" not in given.keywords and place is not None and len(given.args) <= place:
        return number_value("float", loops)
    size = given.get("size", place)
    ragged = given.varies if last in ("rand", "randn") else frozenset(v for one in size.inside(2) for v in one.varies)
    named = dtype_name(given.get("dtype")) or ("int64" if last in INTEGER_DRAWS else "float64")
    named = first.dtype if last == "choice" and first.kind == "array" else named
    return Value("array", varies=loops, ragged=ragged, dtype=named, shape=shape_rules.drawn_shape(last, size, given),
                 name=MANY_VALUES if _draws_many_values(last, given) else "", born=machine.born())  # fmt: skip


def python_draw(machine: RunContext, name: str, given: CallArgs) -> Value:
    """The result of a function of Python's ``random``, or of a generator object."""
    last, loops = name.rpartition(".")[2], given.varies | frozenset(machine.depth())
    if last in ("Random", "SystemRandom"):
        return Value("library", name="random", born=machine.born())
    if last in ("choices", "sample"):
        return text_methods.random_list(given, loops)
    if last == "choice":
        return operators.item_value(given.get("seq", 0), NOT_KNOWN).with_fields(known=NOT_KNOWN).varying_in(loops)
    if last in ("shuffle", "seed", "setstate"):
        return UNKNOWN
    return number_value("few" if last in PYTHON_INTEGER_DRAWS else "float", loops)


def _draws_many_values(last: str, given: CallArgs) -> bool:
    """Whether integers are drawn from more than a few values."""
    bounds = [one.known for one in given.args[: 1 if last == "permutation" else 2]]
    whole = [n for n in bounds if isinstance(n, int)]
    return (
        last in ("integers", "randint", "permutation")
        and len(whole) == len(bounds) > 0
        and max(whole) > operators.MAX_FEW_NUMBERS
    )
