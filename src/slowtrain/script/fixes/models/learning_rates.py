"""The learning rate as a script writes it, and edits that multiply it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
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
# With plain gradients twice the batch allows twice the rate; where they are divided by their size, about 1.4 times
# (Malladi and others, "On the SDEs and scaling rules for adaptive gradient algorithms", 2022). "": the script's own.
LINEAR_OPTIMIZERS = frozenset({"SGD", "sgd", "lars", ""})
RATE_KEYWORDS = ("learning_rate", "lr")
MAX_WRITTEN_CHARACTERS = 60  # of a rate's expression in a message
RATE_NAME = re.compile(r"(?:base_|init_|initial_|max_|peak_)?(?:lr|learning_?rate)", re.IGNORECASE)


@dataclass(frozen=True)
class WrittenRate:
    """The rate of the only optimizer of a file: its number (the largest of a schedule), and where it is written.

    ``kind``: the optimizer's class, or Optax's function; empty if the script updates its weights itself. ``argument``:
    what the optimizer gets as its rate, if that is a number; None if it is the default or a schedule, or if several
    optimizers get the number.
    """

    value: float
    place: Place
    numbers: tuple[ast.Constant, ...]  # every number that has to be multiplied; empty if the rate is the default
    optimizer: ast.expr | None = None  # the call, or the name that compile() gets
    kind: str = ""
    argument: ast.expr | None = None

    def edits_for(self, source: Source, factor: float, warm_up_steps: int = 0) -> tuple[Edit, ...]:
        """The edits that multiply the rate by ``factor``, to which it rises in ``warm_up_steps`` first steps.

        With a warm-up, empty if ``can_warm_up`` is False.
        """
        if warm_up_steps and not self.can_warm_up:
            return ()
        before, after, more = self._warm_up_text(source, warm_up_steps) if warm_up_steps else ("", "", [])
        rate = f"{before}{rate_literal(self.value * factor)}{after}"
        if self.numbers:
            for node in self.numbers:
                more.append(edits.replace_node(source, node, rate_literal(_number(node) * factor)))
            if warm_up_steps and self.argument is not None:
                more.append(edits.insert_text(source, edits.node_start(self.argument), before))
                more.append(edits.insert_text(source, edits.node_end(self.argument), after))
        elif isinstance(self.optimizer, ast.Call):
            more.append(edits.set_keyword(source, self.optimizer, RATE_KEYWORDS[0], rate))
        elif isinstance(self.optimizer, ast.Constant):
            keras, imported = keras_models.keras_reference(source)
            text = f"{keras}.optimizers.{self.kind}(learning_rate={rate})"
            more = [edits.replace_node(source, self.optimizer, text), *imported]
        return tuple(more)

    @property
    def can_warm_up(self) -> bool:
        """Whether a schedule can be put around the rate."""
        if isinstance(self.optimizer, ast.Call) and self.kind in OPTAX_OPTIMIZERS:
            return self.argument is not None and isinstance(self.optimizer.func, ast.Attribute)
        return self.optimizer is not None and (self.argument is not None or not self.numbers)

    @property
    def scales_linearly(self) -> bool:
        """Whether the rate is multiplied like the batch, and not by the square root of that."""
        return self.kind in LINEAR_OPTIMIZERS

    def warm_up_call(self, source: Source, steps: int) -> str:
        """The schedule to write in place of the rate."""
        before, after, _ = self._warm_up_text(source, steps)
        return f"{before}{rate_literal(self.value)}{after}"

    def _warm_up_text(self, source: Source, steps: int) -> tuple[str, str, list[Edit]]:
        """What stands before and after the rate in a schedule that rises to it, and the edits for an import."""
        if isinstance(self.optimizer, ast.Call) and self.kind in OPTAX_OPTIMIZERS:
            optax = ast.unparse(self.optimizer.func).rpartition(".")[0]
            return f"{optax}.linear_schedule(0.0, ", f", {steps})", []
        keras, imported = keras_models.keras_reference(source)
        return f"{keras}.optimizers.schedules.PolynomialDecay(0.0, {steps}, ", ")", imported


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
        key = rate.numbers or id(rate.optimizer)
        found[key] = replace(found[key], argument=None) if key in found else rate
    return list(found.values())


def unfound_rate_reason(sources: Iterable[Source]) -> str:
    """Why ``find_rate`` finds none in these files."""
    known: list[WrittenRate] = []
    for source in sources:
        known += written_rates(source)
        for node in (*_optimizer_calls(source), *_named_optimizers(source)):
            if _rate_of(source, node) is None:
                given = _given_rate(node) if isinstance(node, ast.Call) else None
                written = (
                    ast.unparse(given)[:MAX_WRITTEN_CHARACTERS] if given is not None else "not an argument of its own"
                )
                return (
                    f"the learning rate in {Place(source.file, node.lineno).short} is {written}, and its number was "
                    "not found; it has to be a number in the text, the default of an option, or a schedule of Keras "
                    "or Optax with such numbers"
                )
    if len(known) < 2:
        return "no optimizer of Keras or Optax was found, nor a number that is called learning_rate"
    several = ", ".join(f"{rate_literal(rate.value)} in {rate.place.short}" for rate in known)
    return f"several learning rates were found ({several}), and one can be measured"


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
        kind = NAMED_OPTIMIZERS[str(optimizer.value).lower()]
        return WrittenRate(OPTIMIZERS[kind], place, (), optimizer, kind)
    if not isinstance(optimizer, ast.Call) or any(k.arg is None for k in optimizer.keywords):
        return None
    kind, given = find.called_name(optimizer), _given_rate(optimizer)
    if given is None:
        default = OPTIMIZERS.get(kind)
        return WrittenRate(default, place, (), optimizer, kind) if default is not None else None
    numbers = _rate_numbers(source, given)
    if not numbers:
        return None
    is_number = _is_rate(setting_origins.written_value(source, given))
    return replace(_number_rate(source, numbers), optimizer=optimizer, kind=kind, argument=given if is_number else None)


def _given_rate(optimizer: ast.Call) -> ast.expr | None:
    given = next((v for k in RATE_KEYWORDS if (v := find.argument_value(optimizer, k)) is not None), None)
    return given if given is not None or not optimizer.args else optimizer.args[0]


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
