"""The learning rate as a script writes it, and edits that multiply it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeGuard

from slowtrain.model import Edit, Place
from slowtrain.script.fixes.models import keras_models
from slowtrain.script.navigation import call_index, name_bindings, setting_origins
from slowtrain.script.navigation import node_lookup as find
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

# Of Keras, with the rate that each has by default (keras.io/api/optimizers).
OPTIMIZERS = {
    "SGD": 0.01, "Adam": 0.001, "AdamW": 0.001, "RMSprop": 0.001, "Adagrad": 0.001, "Adadelta": 0.001, "Adamax": 0.001,
    "Nadam": 0.001, "Ftrl": 0.001, "Lion": 0.001, "Adafactor": 0.001, "Lamb": 0.001, "Muon": 0.001,
}  # fmt: skip
NAMED_OPTIMIZERS = {name.lower(): name for name in OPTIMIZERS}  # as compile() takes them
OPTAX_OPTIMIZERS = frozenset("sgd adam adamw rmsprop adagrad adamax nadam lion lamb lars adafactor amsgrad".split())
# Schedules of Keras and of Optax: the arguments that are rates, and the position of the first of them.
SCHEDULES = {
    "ExponentialDecay": ("initial_learning_rate",),
    "CosineDecay": ("initial_learning_rate", "warmup_target"),
    "CosineDecayRestarts": ("initial_learning_rate",),
    "InverseTimeDecay": ("initial_learning_rate",),
    "PolynomialDecay": ("initial_learning_rate", "end_learning_rate"),
    "cosine_decay_schedule": ("init_value",),
    "exponential_decay": ("init_value", "end_value"),
    "constant_schedule": ("value",),
    "warmup_cosine_decay_schedule": ("init_value", "peak_value", "end_value"),
}
RATE_KEYWORDS = ("learning_rate", "lr")
RATE_NAME = re.compile(r"(?:base_|init_|initial_|max_|peak_)?(?:lr|learning_?rate)", re.IGNORECASE)


@dataclass(frozen=True)
class WrittenRate:
    """The rate of the only optimizer of a file: its number (the largest of a schedule), and where it is written."""

    value: float
    place: Place
    numbers: tuple[ast.Constant, ...]  # every number that has to be multiplied; empty if the rate is the default
    optimizer: ast.expr | None = None  # the call without a rate, or the name that compile() gets

    def edits_for(self, source: Source, factor: float) -> tuple[Edit, ...]:
        """The edits that multiply the rate by ``factor``."""
        if self.numbers:
            return tuple(
                edits.replace_node(source, node, rate_literal(_number(node) * factor)) for node in self.numbers
            )
        rate = rate_literal(self.value * factor)
        if isinstance(self.optimizer, ast.Call):
            return (edits.set_keyword(source, self.optimizer, RATE_KEYWORDS[0], rate),)
        if isinstance(self.optimizer, ast.Constant):
            keras, more = keras_models.keras_reference(source)
            kind = NAMED_OPTIMIZERS[str(self.optimizer.value).lower()]
            text = f"{keras}.optimizers.{kind}(learning_rate={rate})"
            return (edits.replace_node(source, self.optimizer, text), *more)
        return ()


def rate_literal(rate: float) -> str:
    """A rate as a literal with three significant digits: ``0.003``, ``1e-05``."""
    return repr(float(f"{rate:.3g}"))


def find_rate(sources: Iterable[Source]) -> tuple[Source, WrittenRate] | None:
    """The one rate of a project's files; None if there is none, or if several optimizers have one."""
    found = [(source, rate) for source in sources for rate in written_rates(source)]
    return found[0] if len(found) == 1 else None


def written_rates(source: Source) -> list[WrittenRate]:
    """The rates of a file, each number once; those of optimizers, else those that only a name shows."""
    optimizers = [*_optimizer_calls(source), *_named_optimizers(source)]
    if not optimizers:
        return _rates_by_name(source)
    found: dict[object, WrittenRate] = {}
    for node in optimizers:
        rate = _rate_of(source, node)
        if rate is None:
            return []  # with one of several rates unknown, the other is not the rate of the training
        found.setdefault(rate.numbers or id(rate.optimizer), rate)
    return list(found.values())


def _optimizer_calls(source: Source) -> Iterator[ast.Call]:
    for call in call_index.index_of(source).calls_of(*OPTIMIZERS, *OPTAX_OPTIMIZERS):
        name, full = find.called_name(call), name_bindings.qualified_name(source, call.func)
        is_keras = name in OPTIMIZERS and ".optimizers." in f".{full}"
        if is_keras or (name in OPTAX_OPTIMIZERS and full.startswith("optax.")):
            yield call


def _named_optimizers(source: Source) -> Iterator[ast.Constant]:
    """Yield the names of optimizers that ``compile()`` gets."""
    for call in keras_models.compile_calls(source):
        given = find.argument_value(call, "optimizer", 0)
        node = setting_origins.written_value(source, given) if given is not None else None
        if isinstance(node, ast.Constant) and str(node.value).lower() in NAMED_OPTIMIZERS:
            yield node


def _rate_of(source: Source, optimizer: ast.expr) -> WrittenRate | None:
    place = Place(source.file, optimizer.lineno)
    if isinstance(optimizer, ast.Constant):
        return WrittenRate(OPTIMIZERS[NAMED_OPTIMIZERS[str(optimizer.value).lower()]], place, (), optimizer)
    if not isinstance(optimizer, ast.Call) or any(k.arg is None for k in optimizer.keywords):
        return None
    given = next((v for k in RATE_KEYWORDS if (v := find.argument_value(optimizer, k)) is not None), None)
    given = given if given is not None or not optimizer.args else optimizer.args[0]
    if given is None:
        default = OPTIMIZERS.get(find.called_name(optimizer))
        return WrittenRate(default, place, (), optimizer) if default is not None else None
    numbers = _rate_numbers(source, given)
    return _number_rate(source, numbers) if numbers else None


def _rate_numbers(source: Source, node: ast.expr) -> tuple[ast.Constant, ...]:
    """The numbers behind a rate: a literal, or the rates of a schedule. Empty if one of them is not written."""
    found = setting_origins.written_value(source, node)
    if _is_rate(found):
        return (found,)
    if not isinstance(found, ast.Call):
        return ()
    name = find.called_name(found)
    if name == "PiecewiseConstantDecay":
        values = find.argument_value(found, "values", 1)
        items = values.elts if isinstance(values, (ast.List, ast.Tuple)) else []
        return _all_numbers(source, items)
    names = SCHEDULES.get(name, ())
    given = [find.argument_value(found, one, position) for position, one in zip((0, None, None), names, strict=False)]
    return _all_numbers(source, [one for one in given if one is not None])


def _all_numbers(source: Source, nodes: Iterable[ast.expr]) -> tuple[ast.Constant, ...]:
    found = [setting_origins.written_value(source, node) for node in nodes]
    rates = tuple(one for one in found if _is_rate(one))
    zero = [one for one in found if isinstance(one, ast.Constant) and one.value == 0]  # stays zero
    return rates if len(rates) + len(zero) == len(found) else ()


def _is_rate(node: ast.expr | None) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and _number(node) > 0


def _number(node: ast.Constant) -> float:
    """The number of a literal; 0 if it is none."""
    value = node.value
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0


def _number_rate(source: Source, numbers: tuple[ast.Constant, ...]) -> WrittenRate:
    largest = max(numbers, key=_number)
    return WrittenRate(_number(largest), Place(source.file, largest.lineno), numbers)


def _rates_by_name(source: Source) -> list[WrittenRate]:
    """Rates of updates that the script writes itself: ``LR = 0.1``, ``w.assign_sub(LR * g)``."""
    found: list[WrittenRate] = []
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
            if RATE_NAME.fullmatch(name) and isinstance(value, ast.Constant) and _is_rate(value):
                found.append(_number_rate(source, (value,)))
    return found
