"""How much a file trains, as far as its text shows, and when a finding about speed matters in that training."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from slowtrain.model import Spot
from slowtrain.number_text import format_number
from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.engine import interpreter, step_loops
from slowtrain.script.interpreter.library import user_callbacks
from slowtrain.script.lint_rules import keras_names, sample_counts
from slowtrain.script.navigation import call_index, node_lookup, scope_names, setting_origins
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source, cache_recent

if TYPE_CHECKING:
    from slowtrain.causes import Cause  # imports NumPy, which a missing path does not need

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
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
TRAINING_METHODS = ("fit", "fit_generator", "train_on_batch", "apply_gradients", "minimize")
MIN_EPOCH_STEPS = 20  # beside so many, a call once in an epoch takes less than 5 %
MIN_LOOP_MS = 10_000.0  # of all turns of a loop outside training
MIN_STEP_SHARE = 0.05  # of a step: less is not worth an edit
MIN_SURE_STEPS = 200  # fewer take less time than to import TensorFlow and to trace the step
INPUT_CONDITION = "making a batch takes longer than a step, which the device computes meanwhile"
LEAST_STEP_MS = 1.0
LARGE_NETWORK_STEP_MS = 20.0  # of a batch through a network that was published for pictures or texts
LARGE_NETWORK = re.compile(
    r"(?<![a-z])(?:(?:ResNet|DenseNet|EfficientNet|Inception|ConvNeXt|NASNet|RegNet|VGG_?1)\w*\d|Xception"
    r"|(?:TF)?(?:Albert|Auto|Bart|Bert|Camembert|Deberta|DistilBert|Electra|GPT2|Roberta|T5|ViT|XLNet)(?:Model|For)\w*"
    r"|(?:Bert|Roberta|Gemma|GPT2|ViT|StableDiffusion)\w*(?:Backbone|Classifier|CausalLM))",
    re.IGNORECASE,
)
DEBUG_MODE = re.compile(r"(?<![a-z])(?:eager|debug)", re.IGNORECASE)
_TEST_NAME = r"(?:^|[/\\])(?:test_[^/\\]*|[^/\\]*_test|conftest)\.py$"

_TEST_SET_NAME = re.compile(r"(?:^|_)test(?:_|$)|^test(?:set|ds|data)", re.IGNORECASE)


def judge_worth(source: Source, cause: Cause[Any], spot: Spot) -> Spot:
    """The finding with what the text shows of its worth in the whole training."""
    if _is_minor(source, cause, spot):
        return replace(spot, minor=True)
    return replace(spot, worth_if=_worth_condition(source, cause, spot))


def _is_minor(source: Source, cause: Cause[Any], spot: Spot) -> bool:
    """Whether the cure of a finding saves little: the file is a test, trains briefly, or runs the line rarely."""
    if cause.family in FAMILIES_AT_ANY_EXTENT:
        return False
    if spot.minor or is_test_file(source) or trains_on_written_rows(source):
        return True
    if cause.family == "input" and _makes_test_set(source, spot):
        return True
    if cause.usual_ms_per_step is not None and (
        cause.usual_ms_per_step < MIN_STEP_SHARE * _least_step_ms(source)
        or _is_once_per_episode(source, spot)
        or _is_outside_training(source, spot, cause.usual_ms_per_step)
    ):
        return True
    if cause.family == "host" and _is_way_to_debug(source, spot):
        return True
    counts = _step_counts(source)
    if not counts and _makes_few_elements(source, spot):
        return True
    steps = _known_sum(counts)
    return steps is not None and steps < step_loops.MIN_LOOP_TURNS


def _worth_condition(source: Source, cause: Cause[Any], spot: Spot) -> str | None:
    """What the worth of a finding depends on and the text does not say; None if its cost is sure."""
    if cause.family in FAMILIES_AT_ANY_EXTENT or spot.worth_if:
        return spot.worth_if or cause.worth_if
    usual_ms = cause.usual_ms_per_step
    calls = None if usual_ms is None else _calls_outside_training(source, spot)
    if calls is not None and usual_ms is not None:
        return _repeated_call_condition(calls, usual_ms)
    steps = _known_sum(_step_counts(source))
    if steps is not None and steps < MIN_SURE_STEPS:
        return f"it trains for more than the {steps} steps of the text"
    if cause.worth_if is None and cause.family == "input":
        return INPUT_CONDITION
    if usual_ms is None or not _may_take_long(source):
        return cause.worth_if
    turns, unit = _turns_after_epoch(source, spot)
    return f"{unit} takes less than {format_number(turns * usual_ms / MIN_STEP_SHARE / 1e3, 2)} s"


def _repeated_call_condition(calls: list[Event], usual_ms: float) -> str:
    number = _run_count(calls)
    if number is None or any(map(_is_uncalled, calls)):
        return f"it runs more than {format_number(MIN_LOOP_MS / usual_ms, 1)} times, each about {usual_ms:g} ms"
    minutes = number * usual_ms / MIN_STEP_SHARE / 60_000
    return f"the whole run takes less than {minutes:.0f} minutes: it runs {number:,} times, each about {usual_ms:g} ms"


def _turns_after_epoch(source: Source, spot: Spot) -> tuple[int, str]:
    """How often the finding's line runs in a unit of time: in a callback's hook an epoch, else a turn of its loop."""
    events = _events_at(source, spot)
    for event in events:
        function = node_lookup.enclosing_function(source, event.node)
        if function is not None and function.name in user_callbacks.EPOCH_HOOKS:
            inside = set(syntax_tree.walk(function))
            return prod(loop.turns or 1 for loop in event.loops if loop.node in inside), "an epoch"
    return 1, "a turn of the loop" if any(event.loops for event in events) else "a step"


def _may_take_long(source: Source) -> bool:
    """Whether the file or one that it runs has layers whose steps may take a device long."""
    files = {source, *(event.source for event in interpreter.project_events(source))}
    names = (*keras_names.CONVOLUTION_LAYERS, *keras_names.LARGE_LAYERS)
    return _names_large_network(files) or any(call_index.index_of(file).calls_of(*names) for file in files)


def _run_count(events: list[Event]) -> int | None:
    """How often a line runs; None if the text does not say it. A line may make several calls in turn."""
    counts: dict[ast.AST, list[int | None]] = {}
    for event in events:
        turns = (None if syntax_tree.nodes_inside(loop.node, ast.Break) else loop.turns for loop in event.loops)
        counts.setdefault(event.node, []).append(_known_product(*turns))
    known = [n for n in map(_known_sum, counts.values()) if n is not None]
    return max(known) if known and len(known) == len(counts) else None


def _names_large_network(files: Iterable[Source]) -> bool:
    """Whether a published large network is named."""
    return any(LARGE_NETWORK.search(word) for file in files for word in file.words)


def _least_step_ms(source: Source) -> float:
    """A lower bound of a training step, by the published networks that the file names."""
    return LARGE_NETWORK_STEP_MS if _names_large_network([source]) else LEAST_STEP_MS


def is_test_file(source: Source) -> bool:
    """Whether the file's name is one that pytest or unittest collects, and it defines a test."""
    if re.search(_TEST_NAME, source.file.replace(os.sep, "/")) is None:
        return False
    return any(
        getattr(one, "name", "").lower().startswith("test") or getattr(one, "name", "").endswith("Test")
        for kind in (ast.FunctionDef, ast.ClassDef)
        for one in call_index.nodes_of_kind(source, kind)
    )


@cache_recent(4)
def _step_counts(source: Source) -> tuple[int | None, ...]:
    """The most steps that each call that trains takes in a run; None for a number that the text does not say."""
    return (
        *(() if source.words.isdisjoint(UNCOUNTED_TRAINING) else (None,)),
        *(
            _known_product(_repetitions(event), _epochs(event), sample_counts.fit_epoch_steps(event))
            for event in _fits(source)
        ),
        *map(_repetitions, step_loops.step_events(source)),
    )


def _training_calls(source: Source) -> list[Event]:
    return [*_fits(source), *step_loops.step_events(source)]


def _fits(source: Source) -> list[Event]:
    """The calls of ``fit`` of a model, by this file and those that it runs."""
    return [
        event
        for event in interpreter.project_events(source)
        if event.name in FIT_EVENTS and event.on is not None
        # ``fit`` of other libraries has no epochs.
        if event.on.kind in ("keras", "object") or "epochs" in event.given.keywords
    ]


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
    if _is_uncalled(event):
        return None
    return _known_product(*(loop.turns for loop in event.loops))


def _is_uncalled(event: Event) -> bool:
    """Whether the function that leads to the event is called by no statement of a module, so that anybody may."""
    outermost, file = (event.path[0], event.files[0]) if event.path else (event.node, event.source)
    return node_lookup.enclosing_function(file, outermost) is not None


def _known_product(*factors: int | None) -> int | None:
    known = [n for n in factors if n is not None]
    return prod(known) if len(known) == len(factors) else None


def _known_sum(counts: Sequence[int | None]) -> int | None:
    known = [n for n in counts if n is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _events_at(source: Source, spot: Spot) -> list[Event]:
    """The calls on the lines of the finding. A call that the interpreter assumes has no line."""
    events = (e for e in interpreter.file_events(source) if hasattr(e.node, "lineno"))
    return [e for e in events if spot.start[0] <= e.node.lineno <= spot.end[0]]


def _makes_few_elements(source: Source, spot: Spot) -> bool:
    """Whether the finding's lines are in a generator whose loops say that it makes a handful of elements."""
    inside = [event for event in _events_at(source, spot) if event.producer == "generator"]
    numbers = [_known_product(*(loop.turns for loop in _loops_of_generator(event))) for event in inside]
    return bool(numbers) and all(n is not None and n < MIN_ELEMENTS for n in numbers)


def _loops_of_generator(event: Event) -> list[Loop]:
    """The loops inside the function that makes the elements."""
    generator_at = max((i for i, loop in enumerate(event.loops) if isinstance(loop.node, ast.Call)), default=-1)
    return list(event.loops[generator_at + 1 :])


def _is_once_per_episode(source: Source, spot: Spot) -> bool:
    """Whether the finding's loop also contains a loop with the steps of an episode, or of an epoch of training.

    These many steps take the time, not the statement that runs once beside them.
    """
    events = [event for event in _events_at(source, spot) if event.on is not None]
    regular = [[loop.number for loop in event.loops if loop.number not in event.rare] for event in events]
    around = {numbers[-1] for numbers in regular if numbers}
    with_steps = {
        outer.number
        for event in interpreter.file_events(source)
        if event.on is not None and event.name in MODEL_CALLS | step_loops.UPDATE_CALLS
        for outer, inner in pairwise(event.loops)
        if _is_episode(inner) or (event.name in step_loops.UPDATE_CALLS and _is_epoch(inner))
    }
    return bool(around) and around <= with_steps


def _is_epoch(loop: Loop) -> bool:
    return isinstance(loop.node, ast.For) and (loop.turns or MIN_EPOCH_STEPS) >= MIN_EPOCH_STEPS


def _is_episode(loop: Loop) -> bool:
    """Whether it is a ``while`` loop, or a ``for`` loop that calls the ``step`` of an environment."""
    if loop.turns is not None:
        return False
    calls = syntax_tree.nodes_inside(loop.node, ast.Call) if isinstance(loop.node, ast.For) else []
    return isinstance(loop.node, ast.While) or any(
        isinstance(call.func, ast.Attribute) and call.func.attr == "step" for call in calls
    )


def _calls_outside_training(source: Source, spot: Spot) -> list[Event] | None:
    """The calls of the finding, if loops contain them and the file trains in none of these; else None."""
    trains = _training_calls(source)
    if not trains and source.words.isdisjoint(UNCOUNTED_TRAINING):
        return None
    events = _events_at(source, spot)
    if events and not any(event.loops for event in events):
        return None
    training_loops = {loop.number for event in trains for loop in event.loops}
    for event in events:
        numbers = {loop.number for loop in event.loops if not isinstance(loop.node, ast.Call)}
        if event.graph or event.producer or len(numbers) < len(event.loops) or not numbers.isdisjoint(training_loops):
            return None
    return events


def _is_outside_training(source: Source, spot: Spot, usual_ms: float) -> bool:
    """Whether the file trains, but in none of the loops around the finding, which take seconds or go on until an event.

    A loop over data of unknown length may take minutes, as when all pictures are predicted one by one.
    """
    events = _calls_outside_training(source, spot)
    if events is None:
        return False
    training_functions = {node_lookup.enclosing_function(e.source, e.node) for e in _training_calls(source)}
    is_beside_training = all(node_lookup.enclosing_function(source, e.node) in training_functions for e in events)
    if not events or (all(_is_uncalled(event) for event in events) and not is_beside_training):
        return _is_in_loop_without_training(source, spot)
    calls = _run_count(events)
    endless = any(isinstance(loop.node, ast.While) and loop.turns is None for e in events for loop in e.loops)
    return endless if calls is None else calls * usual_ms < MIN_LOOP_MS


def _is_way_to_debug(source: Source, spot: Spot) -> bool:
    """Whether the finding is in a branch that the script itself calls its eager or debug mode."""
    for one in call_index.nodes_of_class(source, ast.If):
        inside = one.body[0].lineno <= spot.start[0] <= (one.body[-1].end_lineno or 0)
        negated = isinstance(one.test, ast.UnaryOp) or "!=" in ast.unparse(one.test)
        if inside and not negated and DEBUG_MODE.search(ast.unparse(one.test)):
            return True
    return False


def _is_in_loop_without_training(source: Source, spot: Spot) -> bool:
    """Whether the finding's loop is in a class or function that neither trains nor is passed on, as a callback is."""
    loops = [*call_index.nodes_of_class(source, ast.For), *call_index.nodes_of_class(source, ast.While)]
    around = [n for n in loops if n.lineno <= spot.start[0] <= (n.end_lineno or n.lineno)]
    holder = _outermost_definition(source, around[0]) if around else None
    if holder is None or _is_passed_on(source, holder):
        return False
    calls = call_index.index_of(source).calls_of(*TRAINING_METHODS)
    return not any(_outermost_definition(source, call) is holder for call in calls)


def _is_passed_on(source: Source, holder: Definition) -> bool:
    """Whether it is a Keras callback, or its name is used in another way than to call it."""
    if isinstance(holder, ast.ClassDef) and any("Callback" in ast.unparse(base) for base in holder.bases):
        return True
    uses = (n for n in call_index.nodes_of_class(source, ast.Name) if n.id == holder.name)
    above = node_lookup.parents_of(source)
    return any(not isinstance(call := above.get(n), ast.Call) or call.func is not n for n in uses)


def _outermost_definition(source: Source, node: ast.AST) -> Definition | None:
    """The class or function around a node that no other one contains."""
    above = node_lookup.parents_of(source)
    found: Definition | None = None
    at = above.get(node)
    while at is not None:
        found = at if isinstance(at, (ast.ClassDef, *FUNCTION_NODES)) else found
        at = above.get(at)
    return found


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
