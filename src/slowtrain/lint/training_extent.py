"""How much a file trains, as far as its text shows, and whether that is enough for a finding about speed."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

from slowtrain.model import Spot
from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.engine import interpreter, step_loops
from slowtrain.script.lint_rules import sample_counts
from slowtrain.script.navigation import call_index, node_lookup, scope_names, setting_origins
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

if TYPE_CHECKING:
    from slowtrain.causes import Cause  # imports NumPy, which a missing path does not need

MIN_ELEMENTS = 10  # of an input that nothing here trains on: fewer are shown or predicted once
MAX_WRITTEN_ROWS = 100  # samples that are written in the script itself: an example, trained in a few seconds
# What they say matters whatever the length of the run: a loss that is no number, the start, a setup that does not work.
FAMILIES_AT_ANY_EXTENT = frozenset({"numerics", "startup", "machine"})
FIT_EVENTS = frozenset({".fit", ".fit_generator"})
# Each of these calls of a model has the same large fixed cost.
MODEL_CALLS = frozenset({".predict", ".fit", ".fit_generator", ".train_on_batch"})
# These train as well, but no text says how many steps.
UNCOUNTED_TRAINING = frozenset(
    "Session InteractiveSession MonitoredTrainingSession Estimator search value_and_grad".split()
)
ARRAY_FUNCTIONS = frozenset("array asarray constant convert_to_tensor".split())
MIN_STEP_SHARE = 0.05  # of a step: less is not worth an edit
LEAST_STEP_MS = 1.0
LARGE_NETWORK_STEP_MS = 20.0  # of a batch through a network that was published for pictures or texts
LARGE_NETWORK = re.compile(
    r"(?:ResNet|DenseNet|EfficientNet|Inception|ConvNeXt|NASNet|RegNet|VGG1)\w*\d|Xception"
    r"|(?:TF)?(?:Albert|Auto|Bart|Bert|Camembert|Deberta|DistilBert|Electra|GPT2|Roberta|T5|ViT|XLNet)(?:Model|For)\w*"
    r"|(?:Bert|Roberta|Gemma|GPT2|ViT|StableDiffusion)\w*(?:Backbone|Classifier|CausalLM)"
)
_TEST_NAME = re.compile(r"(?:^|[/\\])(?:test_[^/\\]*|[^/\\]*_test|conftest)\.py$")

_TEST_SET_NAME = re.compile(r"(?:^|_)test(?:_|$)|^test(?:set|ds|data)", re.IGNORECASE)


def is_worth_an_edit(source: Source, cause: Cause[Any], spot: Spot) -> bool:
    """Whether a finding can save a person's time: the file trains long enough, and is no test."""
    if cause.family in FAMILIES_AT_ANY_EXTENT:
        return True
    if is_test_file(source) or trains_on_written_rows(source):
        return False
    if cause.family == "input" and _makes_test_set(source, spot):
        return False
    if cause.usual_ms_per_step is not None and (
        cause.usual_ms_per_step < MIN_STEP_SHARE * _least_step_ms(source) or _is_once_per_episode(source, spot)
    ):
        return False
    counts = list(_step_counts(source))
    if not counts and _makes_few_elements(source, spot):
        return False
    steps = _known_sum(counts)
    return steps is None or steps >= step_loops.MIN_LOOP_TURNS


def _least_step_ms(source: Source) -> float:
    """A lower bound of a training step, by the published networks that the file names."""
    return LARGE_NETWORK_STEP_MS if any(map(LARGE_NETWORK.fullmatch, source.words)) else LEAST_STEP_MS


def is_test_file(source: Source) -> bool:
    """Whether the file's name is one that pytest or unittest collects, and it defines a test."""
    if _TEST_NAME.search(source.file.replace(os.sep, "/")) is None:
        return False
    return any(
        getattr(one, "name", "").lower().startswith("test") or getattr(one, "name", "").endswith("Test")
        for kind in (ast.FunctionDef, ast.ClassDef)
        for one in call_index.nodes_of_kind(source, kind)
    )


def _step_counts(source: Source) -> Iterator[int | None]:
    """The most steps that each call that trains takes in a run; None for a number that the text does not say."""
    if not source.words.isdisjoint(UNCOUNTED_TRAINING):
        yield None
    for event in _fits(source):
        yield _known_product(_repetitions(event), _epochs(event), sample_counts.fit_epoch_steps(event))
    for event in step_loops.step_events(source):
        yield _repetitions(event)


def _fits(source: Source) -> list[Event]:
    """The calls of ``fit`` of a model, by this file and those that it runs."""
    every = interpreter.project_events(source)
    return [e for e in every if e.name in FIT_EVENTS and e.on is not None and e.on.kind in ("keras", "object")]


def _epochs(event: Event) -> int | None:
    arguments = event.given
    if isinstance(event.node, ast.Call) and any(k.arg is None for k in event.node.keywords):
        return None  # fit(x, **options)
    if not {"epochs", "nb_epoch"} & set(arguments.keywords) and len(arguments.args) <= 2:
        return 1
    known = arguments.get("epochs", 3 if event.name == ".fit" else 2).known
    return known if isinstance(known, int) else None


def _repetitions(event: Event) -> int | None:
    """The turns of all loops around a call; None if they are unknown, or if another file may make the call."""
    outermost, file = (event.path[0], event.files[0]) if event.path else (event.node, event.source)
    if node_lookup.enclosing_function(file, outermost) is not None:
        return None
    return _known_product(*(loop.turns for loop in event.loops))


def _known_product(*factors: int | None) -> int | None:
    known = [n for n in factors if n is not None]
    return prod(known) if len(known) == len(factors) else None


def _known_sum(counts: list[int | None]) -> int | None:
    known = [n for n in counts if n is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _makes_few_elements(source: Source, spot: Spot) -> bool:
    """Whether the finding's lines are in a generator whose loops say that it makes a handful of elements."""
    inside = [
        event
        for event in interpreter.file_events(source)
        if event.producer == "generator" and spot.start[0] <= event.node.lineno <= spot.end[0]
    ]
    numbers = [_known_product(*(loop.turns for loop in _loops_of_generator(event))) for event in inside]
    return bool(numbers) and all(n is not None and n < MIN_ELEMENTS for n in numbers)


def _loops_of_generator(event: Event) -> list[Loop]:
    """The loops inside the function that makes the elements."""
    generator_at = max((i for i, loop in enumerate(event.loops) if isinstance(loop.node, ast.Call)), default=-1)
    return list(event.loops[generator_at + 1 :])


def _is_once_per_episode(source: Source, spot: Spot) -> bool:
    """Whether the finding's loop also contains a ``while`` loop that calls models, as for the steps of an episode.

    The many steps of an episode take the time, not the statement that runs once after them.
    """
    lines = range(spot.start[0], spot.end[0] + 1)
    events = [e for e in interpreter.file_events(source) if e.loops and e.on is not None]
    around = {event.loops[-1].number for event in events if event.node.lineno in lines}
    with_episode = {
        outer.number
        for event in events
        if event.name in MODEL_CALLS
        for outer, inner in pairwise(event.loops)
        if isinstance(inner.node, ast.While) and inner.turns is None
    }
    return bool(around) and around <= with_episode


def _makes_test_set(source: Source, spot: Spot) -> bool:
    """Whether the statement makes a data set that is named as a test set, and that no ``fit`` gets.

    A test set is read once, after training.
    """
    found = [
        one
        for one in call_index.nodes_of_kind(source, ast.Assign)
        if isinstance(one, ast.Assign) and one.lineno <= spot.start[0] <= (one.end_lineno or one.lineno)
    ]
    names = {scope_names.dotted_name(target) for one in found for target in one.targets}
    if not names or not all(_TEST_SET_NAME.search(name.rpartition(".")[2]) for name in names):
        return False
    fits = call_index.index_of(source).calls_of("fit", "fit_generator")
    fitted_names = {
        scope_names.dotted_name(node) for call in fits for part in _arguments(call) for node in syntax_tree.walk(part)
    }
    return not names & fitted_names


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def trains_on_written_rows(source: Source) -> bool:
    """Whether the data of every ``fit`` is a short list of numbers in the script's own text."""
    fits = _fits(source)
    if not fits or step_loops.step_events(source) or not source.words.isdisjoint(UNCOUNTED_TRAINING):
        return False
    data = [node_lookup.argument_value(e.node, "x", 0) if isinstance(e.node, ast.Call) else None for e in fits]
    return all(one is not None and _is_written_array(event.source, one) for event, one in zip(fits, data, strict=True))


def _is_written_array(source: Source, node: ast.expr) -> bool:
    value = setting_origins.written_value(source, node)
    if isinstance(value, ast.Call) and node_lookup.called_name(value) in ARRAY_FUNCTIONS and value.args:
        value = setting_origins.written_value(source, value.args[0])
    if not isinstance(value, ast.List) or not 0 < len(value.elts) <= MAX_WRITTEN_ROWS:
        return False
    return not any(isinstance(n, (ast.Call, ast.Name, ast.Starred, ast.comprehension)) for n in syntax_tree.walk(value))
