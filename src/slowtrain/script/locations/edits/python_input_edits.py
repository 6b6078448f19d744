"""Edits and advice for Python code that makes input, by the kind of work."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from slowtrain.model import Edit, Effect, Place
from slowtrain.script.fixes.input import batched_generators, worker_threads
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.navigation import node_lookup
from slowtrain.script.text.source_file import FUNCTION_NODES, Source
from slowtrain.trace import Trace
from slowtrain.trace.signals.input.input_feed import MIN_SAMPLE_CALLS

# Advice by the kind of work.
ADVICE_BY_KIND = {
    "loop": (Effect.EQUIVALENT, "replace the loop over elements{where} by array code or TensorFlow ops"),
    "once": (Effect.EXACT, "do this work{where} once, before the loop, or keep it with .cache()"),
    "drawn": (Effect.CHANGES_TRAINING, "draw the data once, before the loop"),
    "beside": (Effect.EXACT, "make the next batch in a background thread, or with from_generator and prefetch"),
    "work": (Effect.EQUIVALENT, "write {what} in TensorFlow ops in a parallel map, or use worker processes"),
    "waits": (Effect.EXACT, "let several calls wait at once (PyDataset(workers=8), a map with num_parallel_calls=8)"),
}
JAX_ADVICE_BY_KIND = {  # tf.data may not be installed
    "loop": "replace the loop over elements{where} by array code",
    "once": "do this work{where} once, before the loop",
    "beside": "make the next batch in a background thread",
    "work": "write {what} for whole batches in array code, or use PyDataset(workers=8, use_multiprocessing=True)",
    "waits": "let several calls wait at once: PyDataset(workers=8)",
}

WORKERS_TEXT = f"let {worker_threads.WORKER_COUNT} worker threads make the batches of the PyDataset, beside one another"
Fix = Callable[[Source, int], Sequence[Edit]]


def python_input_fixes(calls: float, kind: str) -> Iterator[tuple[Effect, str, Fix]]:
    """Yield the effect, text and edit of each fix for Python of a kind (:data:`WORDS`).

    ``calls``: calls per batch. A Python loop holds the interpreter lock, so that threads do not help.
    """
    exact = Effect.EXACT
    if calls >= MIN_SAMPLE_CALLS and kind != "samples":
        yield exact, "hand whole batches of the generator's samples to TensorFlow", batched_generators.yield_batches
    if kind == "loop":
        return
    yield exact, WORKERS_TEXT, worker_threads.add_workers
    yield (
        Effect.EQUIVALENT,
        f"{WORKERS_TEXT}; its random draws fall to other batches",
        worker_threads.add_workers_to_drawing,
    )


def advice_for_kind(kind: str, name: str, *, on_jax: bool = False) -> tuple[Effect, str]:
    """Return the effect and the advice for a kind, with the name of the function if known."""
    effect, says = ADVICE_BY_KIND[kind]
    says = JAX_ADVICE_BY_KIND.get(kind, says) if on_jax else says
    return effect, says.format(where=f" in {name}" if name else "", what=name or "it")


def hottest_function(trace: Trace, where: Sequence[Place]) -> str:
    """Return the label of the function at the first of ``where``."""
    return function_label(recorded_source(trace, where[0].file), where[0].line) if where else ""


def function_label(source: Source | None, line: int) -> str:
    """Return ``Jitter.apply (line 32)`` for the function that contains a line."""
    function = source.function_at(line) if source is not None else None
    if source is None or not isinstance(function, FUNCTION_NODES):
        return ""
    owner = node_lookup.parents_of(source).get(function)
    first = f"{owner.name}." if isinstance(owner, ast.ClassDef) else ""
    return f"`{first}{function.name}` (line {function.lineno})"
