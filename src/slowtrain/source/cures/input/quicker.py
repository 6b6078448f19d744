"""Edits and advice for Python that makes input, by what the Python does."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from slowtrain.model import Edit, Effect, Place
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.navigation import node_lookup
from slowtrain.script.text.source_file import FUNCTION_NODES, Source
from slowtrain.source.cures.input import chunks, workers
from slowtrain.trace import Trace

# What a person has to do, by what the Python does.
WORDS = {
    "loop": (Effect.EQUIVALENT, "replace the loop over elements{where} by array code or TensorFlow ops"),
    "once": (Effect.EXACT, "do this work{where} once, before the loop, or keep it with .cache()"),
    "drawn": (Effect.CHANGES_TRAINING, "draw the data once, before the loop"),
    "beside": (Effect.EXACT, "make the next batch in a background thread, or with from_generator and prefetch"),
    "work": (Effect.EQUIVALENT, "write {what} in TensorFlow ops in a parallel map, or use worker processes"),
    "waits": (Effect.EXACT, "let several calls wait at once (PyDataset(workers=8), a map with num_parallel_calls=8)"),
}
ON_JAX = {  # where these are others: tf.data may not even be installed
    "loop": "replace the loop over elements{where} by array code",
    "once": "do this work{where} once, before the loop",
    "beside": "make the next batch in a background thread",
    "work": "write {what} for whole batches in array code, or use PyDataset(workers=8, use_multiprocessing=True)",
    "waits": "let several calls wait at once: PyDataset(workers=8)",
}

WORKERS = f"let {workers.WORKERS} worker threads make the batches of the PyDataset, beside one another"
Cure = Callable[[Source, int], Sequence[Edit]]
SAMPLES = 8.0  # calls a batch: samples are handed over one by one


def cures(calls: float, kind: str) -> Iterator[tuple[Effect, str, Cure]]:
    """Edits of Python of a kind (:data:`WORDS`) that is called so often for a batch, each with its effect and words.

    Samples have an edit of their own. A loop in bytecode holds the interpreter's lock, so threads would not help.
    """
    exact = Effect.EXACT
    if calls >= SAMPLES and kind != "samples":
        yield exact, "hand whole batches of the generator's samples to TensorFlow", chunks.handed_over
    if kind == "loop":
        return
    yield exact, WORKERS, workers.same
    yield Effect.EQUIVALENT, f"{WORKERS}; its random draws fall to other batches", workers.drawn


def in_words(kind: str, name: str, *, on_jax: bool = False) -> tuple[Effect, str]:
    """What is left to a person, with the function it is about where that is known."""
    effect, says = WORDS[kind]
    says = ON_JAX.get(kind, says) if on_jax else says
    return effect, says.format(where=f" in {name}" if name else "", what=name or "it")


def hottest(trace: Trace, where: Sequence[Place]) -> str:
    """The function that holds the first of ``where``."""
    return named(recorded_source(trace, where[0].file), where[0].line) if where else ""


def named(source: Source | None, line: int) -> str:
    """``Jitter.apply (line 32)`` of the function that holds a line."""
    function = source.function_at(line) if source is not None else None
    if source is None or not isinstance(function, FUNCTION_NODES):
        return ""
    owner = node_lookup.parents_of(source).get(function)
    first = f"{owner.name}." if isinstance(owner, ast.ClassDef) else ""
    return f"`{first}{function.name}` (line {function.lineno})"
