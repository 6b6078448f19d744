"""Lint rules on the interpreter's events about work in each step: saves, pictures, histograms, validations."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import ceil, prod

from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.engine import interpreter, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules.compute import recurrent_layers
from slowtrain.script.lint_rules.host import callback_work, epoch_step_counts
from slowtrain.script.navigation import name_bindings, node_lookup
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

SAVE_METHODS = frozenset({".save", ".save_weights"})
# Calls that write, draw or decompose arrays for longer than a small step.
WRITING_FUNCTIONS = ("matplotlib.pyplot.savefig", "matplotlib.pyplot.figure", "matplotlib.pyplot.plot", "numpy.save",
           "tensorflow.summary.histogram", "tensorflow.summary.image", "keras.utils.plot_model", "numpy.linalg.svd",
           "numpy.linalg.eig", "tensorflow.linalg.svd", "tensorflow.linalg.eigh", "joblib.dump")  # fmt: skip
COSTLY_MODEL_CALLS = frozenset(f".{name}" for name in callback_work.COSTLY_MODEL_METHODS)
SCORING_CALLS = frozenset({"__call__", ".predict_on_batch", ".test_on_batch"})
MAX_STEPS_BETWEEN_PASSES = 10  # steps between two passes. Validation data has more batches than that.
MIN_VALIDATIONS = 3  # validations. Fewer are final evaluations.
MIN_SLOW_TURNS = 50_000  # iterations of Python loops, half of it for pairs. They take a millisecond or more.
_HINT_WORDS = ("Callback", "save", "summary", "pyplot", "svd", "eig", "dump")


def heavy_step_work(source: Source) -> Iterator[callback_work.FrequentWork]:
    """Find costly work of callbacks or hand-written loops in each step, or each of a few."""
    known = list(callback_work.frequent_callback_work(source))
    yield from known
    if known or not any(word in source.text for word in _HINT_WORDS):
        return
    seen: set[ast.AST | None] = set()
    for event in file_events(source):
        function = node_lookup.enclosing_function(source, event.node)
        if function in seen or not (event.begun is not None or _is_costly(event)):
            continue
        loop = step_loops.per_step_loop(source, event)
        hook = loop is not None and isinstance(loop.node, ast.Call)
        if event.begun is not None:
            turns = _nested_turns(source, event, loop) if loop is not None and hook else 0
            if turns >= MIN_SLOW_TURNS:
                seen.add(function)
                yield callback_work.frequent_work_at(
                    event.node, f"Python loops take up to {turns:,} turns after each batch"
                )
            continue
        if loop is None or (event.name in COSTLY_MODEL_CALLS - SAVE_METHODS and not hook):
            continue  # predictions of a loop may be steps; validations are another rule
        seen.add(function)
        yield callback_work.frequent_work_at(
            event.node, f"{event.name.lstrip('.')}() after each batch, or one of a few"
        )


def _nested_turns(source: Source, event: Event, loop: Loop) -> int:
    """Return the known iterations of the loops inside ``loop`` that lead to the event."""
    inside = event.loops[event.loops.index(loop) + 1 :]
    return prod(_loop_turns(source, one) for one in inside if one.number not in event.rare)


def _loop_turns(source: Source, loop: Loop) -> int:
    """Return the iterations of a loop, or the capacity of a queue that it iterates over; 1 if unknown."""
    over = getattr(loop.node, "iter", None)
    if loop.turns is not None or over is None:
        return loop.turns or 1
    asked = [over.value if isinstance(over, ast.Subscript) else over]
    for name in (n for n in syntax_tree.walk(over) if isinstance(n, ast.Name)):
        written = name_bindings.single_assignment(source, name)
        asked += [n.args[0] for n in node_lookup.length_queries(written or name) if isinstance(n, ast.Call) and n.args]
    asked += [n.args[0] for n in node_lookup.length_queries(over) if isinstance(n, ast.Call) and n.args]
    queues = (interpreter.value_at(source, one) for one in asked)
    return max((q.known for q in queues if q.name == "bounded" and isinstance(q.known, int)), default=1)


def _is_costly(event: Event) -> bool:
    if event.name in COSTLY_MODEL_CALLS:
        return (
            event.on is not None and event.on.kind in ("keras", "object") and event.on.name != "numpy.random.Generator"
        )
    return event.name.startswith(WRITING_FUNCTIONS)


def long_validations(source: Source) -> Iterator[tuple[ast.expr, str]]:
    """Find passes over other data that take longer than the steps of a hand-written loop between them."""
    if not any(word in source.text for word in ("GradientTape", "train_on_batch")):
        return
    moved = step_loops.step_events(source)
    seen: set[int] = set()
    for event in file_events(source):
        passed = _scored_batches(source, event)
        found = step_loops.loop_and_period(source, event) if passed is not None else None
        if passed is None or found is None or found[0].number in seen:
            continue
        (loop, every), own = found, event.begun
        if own is not None and (loop is own or any(own in step.loops for step in moved)):
            continue  # it is the training itself
        if event.name == ".predict" and loop.number in event.given.varying_inside:
            continue  # a generator gives other data in each iteration, which is training data
        if (every <= MAX_STEPS_BETWEEN_PASSES if passed == 0 else passed > every) and step_loops.steps_through_data(
            source, loop
        ):
            seen.add(loop.number)
            how = f"{passed:,} batches of other data" if passed else "a pass over other data"
            yield event.node, f"after every {every} steps come {how}" if every > 1 else f"after each step comes {how}"


def _scored_batches(source: Source, event: Event) -> int | None:
    """Return the batches that an event iterates over to score a model; 0 if unknown."""
    if event.graph or event.producer:
        return None
    if event.name in (".evaluate", ".predict") and event.on is not None and event.on.kind in ("keras", "object"):
        data, size = event.given.get("x", 0), event.given.get("batch_size", 2).known
        if data.kind == "dataset":
            return operators.known_length(data) or (0 if event.name == ".evaluate" else None)
        rows = recurrent_layers.sample_count(data)
        if rows is None:
            return 0 if event.name == ".evaluate" else None
        return ceil(rows / (size if isinstance(size, int) and size else recurrent_layers.DEFAULT_BATCH_SIZE))
    loop = event.begun
    if loop is None or loop.items.kind != "dataset":
        return None
    scoring = any(
        loop in e.loops and (e.name in SCORING_CALLS or (e.on is not None and e.on.kind == "graph"))
        for e in file_events(source)
    )
    return (loop.turns or 0) if scoring else None


def long_fit_validations(source: Source) -> Iterator[tuple[ast.expr, str]]:
    """Find ``fit`` whose validation has more samples than its short epochs."""
    for event in file_events(source) if "validation_data" in source.text else ():
        given, held = event.given, event.given.get("validation_data")
        if event.name != ".fit" or held.kind in ("unknown", "none"):
            continue
        epochs, freq = given.get("epochs", 3).known, given.get("validation_freq")
        rows, other = _pass_samples(given.get("x", 0)), _pass_samples(held)
        steps = given.get("steps_per_epoch").known
        batch = (given.get("x", 0).data or {}).get("batch") if given.get("x", 0).kind == "dataset" else None
        if isinstance(steps, int) and isinstance(batch, int):
            rows = steps * batch
        elif "steps_per_epoch" in given.keywords:
            continue
        many = isinstance(epochs, int) and epochs >= MIN_VALIDATIONS and (freq.kind == "unknown" or freq.known == 1)
        if rows and other and many and other > rows:
            yield event.node, f"each epoch of {rows:,} samples is followed by a validation on {other:,} samples"


def _pass_samples(data: Value) -> int | None:
    """Return the samples of one pass over data."""
    if data.kind != "dataset":
        return recurrent_layers.sample_count(data)
    known: dict[str, int | None] = data.data if isinstance(data.data, dict) else {}
    turns, batch = known.get("turns"), known.get("batch")
    return turns * batch if turns and batch else None


def frequent_collections(source: Source) -> Iterator[ast.expr]:
    """Find ``gc.collect()`` after each step, or each of a few."""
    for event in file_events(source) if "gc" in source.text else ():
        if event.name == "gc.collect" and step_loops.per_step_loop(source, event) is not None:
            yield event.node


def _counts_dataset_rows(source: Source, event: Event, steps: Value, data: Value) -> bool:
    """Whether the number of steps is the length of the source of the data set."""
    if not data.stages or data.stages[0].name != "from_tensor_slices" or data.data.get("rows") is not None:
        return False
    cut = [one for given in data.stages[0].given.every for one in given.inside(2) if one.kind in ("array", "list")]
    written = node_lookup.argument_value(event.node, "steps_per_epoch") if isinstance(event.node, ast.Call) else None
    counted = [one.given.get("", 0) for one in file_events(source) if one.name == "len" and one.result is steps]
    if isinstance(written, ast.Subscript) and ast.unparse(written).endswith(".shape[0]"):
        counted.append(interpreter.value_at(source, written.value.value))  # type: ignore[attr-defined]
    return any(one is other for one in counted for other in cut)


def miscounted_epochs(source: Source) -> Iterator[tuple[ast.expr, str]]:
    """Find steps per epoch counted in samples, and data sets that repeat for the epochs of ``fit``."""
    for event in file_events(source):
        data, given = event.given.get("x", 0), event.given
        if event.name != ".fit" or data.kind != "dataset" or not isinstance(data.data, dict):
            continue
        steps, epochs = given.get("steps_per_epoch"), given.get("epochs", 3).known
        rows, batch, repeated = (data.data.get(name) for name in ("rows", "batch", "repeated"))
        if steps.kind == "number" and steps.known == rows and rows and batch and batch > 1:
            yield event.node, f"steps_per_epoch counts {rows:,} samples; a step takes {batch} of them"
        elif batch and batch > 1 and _counts_dataset_rows(source, event, steps, data):
            yield event.node, f"steps_per_epoch counts samples; a step takes {batch} of them"
        elif (
            rows
            and batch
            and isinstance(steps.known, int)
            and epoch_step_counts.smaller_batch_size(steps.known, rows, batch)
        ):
            given_as = (
                node_lookup.argument_value(event.node, "steps_per_epoch") if isinstance(event.node, ast.Call) else None
            )
            if epoch_step_counts.is_quotient(source, given_as):
                says = f"an epoch takes {steps.known * batch:,} of {rows:,} samples: steps_per_epoch counts other"
                yield event.node, f"{says} batches than the {batch} samples of a step"
        elif "steps_per_epoch" not in given.keywords and repeated and repeated > 1 and repeated == epochs:
            yield event.node, f"the data set repeats itself {repeated} times in each epoch of fit()"
