"""The training step runs eagerly, op by op from Python."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from slowtrain.causes import Cause
from slowtrain.causes.host.eager_step import eager, fix
from slowtrain.columns.kernels import Kernels
from slowtrain.model import Category, Edit, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import first_names, format_number
from slowtrain.script.evaluators import setting_origins
from slowtrain.script.locations import recorded_sources, source_locations
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import measured
from slowtrain.source.spots import reached
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import graph_step_ms, ms_per_step
from slowtrain.whatif import Drop, Remedy

# What the same ops take in a graph, of what they take eagerly: the executor runs independent ops on several
# cores, TensorFlow's optimiser fuses and drops some, and results are computed in place. Measured over pairs of
# steps (2 to 1,700 eager ops: dense, convolution, attention, recurrent; custom loops and fit; two cores): 0.23 to 0.85
# on one machine, 0.21 to 0.46 on another.
GRAPH_SHARE = 0.35
GRAPH_SHARE_RANGE = (0.25, 0.85)
OPS_LEFT = 0.7  # of the eager ops have a node in the graph that runs: 603 of 864 in the Adam step of a dense model
OFTEN = 0.1  # of the turns in which the most frequent gradient is taken: what is taken less often is no part of a step
MOST_NAMED = 4
SCALAR_BYTES = 256  # what an operation converts of its own; data is more


class EagerStep(Cause[Evidence]):
    """The training step runs op by op from Python instead of as one graph."""

    title = "the training step runs eagerly, op by op from Python"
    needs = frozenset({Signal.STEPS, Signal.KERNELS})
    words = ("GradientTape", "train_on_batch", "run_eagerly", *fix.SWITCHES)

    def find(self, trace: Trace) -> Evidence | None:
        kernels = trace.kernels
        if not trace.eager or kernels is None or kernels.eager_ops < 10:
            return None
        why, places = _why(trace)
        return Evidence(
            f"Python starts {kernels.eager_ops:.0f} operations in each step of {format_number(trace.step_ms)} ms, "
            f"which compute for {format_number(_work_ms(kernels), 2)} ms ({why})",
            {
                "eager_ops": kernels.eager_ops,
                "work_ms": _work_ms(kernels),
                "graph_step_ms": _after_ms(trace, kernels, GRAPH_SHARE),
            },
            places,
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        kernels = trace.kernels
        if kernels is None:
            return []
        pool = {c: trace.mean(c) for c in (Category.DISPATCH, Category.DEVICE, Category.UNATTRIBUTED)}
        pool[Category.CONVERT] = min(_constants_ms(trace), trace.mean(Category.CONVERT))
        if trace.fact("profile"):
            # Between ops it cannot tell the framework's Python from the script's: no more of it than of the framework.
            pool[Category.PYTHON] = min(trace.mean(Category.PYTHON), trace.mean(Category.DISPATCH))
        now = sum(pool.values())
        after, best, worst = (_after_ms(trace, kernels, share) for share in (GRAPH_SHARE, *GRAPH_SHARE_RANGE))
        saved = now - after
        if saved <= 0:
            return []
        spread = (max((now - worst) / saved, 0.0), (now - best) / saved)
        return [Drop({c: ms * saved / now for c, ms in pool.items()}, spread=spread)]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if trace.on_jax:
            compiled = "put @jax.jit on the function that takes the gradient and applies it"
            yield Prescription("edit", Effect.EQUIVALENT, compiled)
        elif _set_by_compile(trace):
            edits = measured.first(trace, evidence.where, fix.without_eager_compile)
            says = "remove run_eagerly=True from compile()"
            yield Prescription("edit", Effect.EQUIVALENT, says, edits=edits, treatment="no-eager")
        elif trace.fact("functions_eager"):
            edits = measured.first(trace, evidence.where, lambda source, _: fix.without_eager_switch(source))
            edits = edits or recorded_sources.edit_project(trace, fix.without_eager_switch)
            says = "remove tf.config.run_functions_eagerly(True)"
            yield Prescription("edit", Effect.EQUIVALENT, says, edits=edits, treatment="no-eager")
        else:
            made, done, left = _compiled(trace)
            put = "put @tf.function on the function that takes the gradient and applies it"
            if len(done) > 1:
                put = f"put @tf.function on the functions that take the gradients and apply them: {_named(done)}"
            elif not made:
                made = measured.first(trace, evidence.where, fix.compiled_step)
            if made and left:
                put += f"; {_named(left)} as well, by hand: the text does not show that it may be a graph"
            yield Prescription("edit", Effect.EQUIVALENT, put, edits=made)


def _work_ms(kernels: Kernels) -> float:
    """Computing in a step: of eager ops what exceeds the usual op, and ops of graphs that the step calls."""
    return (kernels.eager_work_ms or kernels.eager_ms) + kernels.busy_ms


def _after_ms(trace: Trace, kernels: Kernels, share: float) -> float:
    computing = share * (kernels.eager_work_ms or kernels.eager_ms) + kernels.busy_ms
    around = sum(map(trace.mean, (Category.PYTHON, Category.CALLBACK, Category.READBACK)))
    return graph_step_ms(trace, OPS_LEFT * kernels.eager_ops, computing, around)


def _constants_ms(trace: Trace) -> float:
    """Python numbers that become tensors inside the step's own operations: in a graph they are constants."""
    feeds = trace.lane("feed")
    return ms_per_step(trace, feeds.where(feeds.value <= SCALAR_BYTES)) if len(feeds) else 0.0


def _set_by_compile(trace: Trace) -> bool:
    return any(e.data.get("run_eagerly") is True for e in trace.events if e.lane in ("loop", "compile"))


def _why(trace: Trace) -> tuple[str, tuple[Place, ...]]:
    fits = [e.place for e in trace.events_of("loop") if e.name == "fit" and e.place is not None]
    if trace.on_jax:
        return "without jax.jit", _gradients(trace)
    if trace.fact("functions_eager"):
        ran = _gradients(trace) or tuple(fits[:1])
        return "tf.config.run_functions_eagerly(True)", source_locations.merge_places(
            source_locations.project_places(trace, _switches), ran
        )
    if _set_by_compile(trace):
        places = [e.place for e in trace.events_of("compile") if e.data.get("run_eagerly") and e.place is not None]
        return "run_eagerly=True", tuple(dict.fromkeys((*places, *fits)))[:3]
    return "the gradient is taken outside any tf.function", source_locations.merge_places(
        _steps(trace), _gradients(trace)
    )


def _switches(source: Source) -> Iterable[int]:
    """Where all functions are made eager, and before that the True itself where it stands elsewhere."""
    for call in call_index.index_of(source).called(*fix.SWITCHES):
        given = node_lookup.argument_value(call, "run_eagerly", 0)
        if isinstance(given, ast.Constant) and not given.value:
            continue
        literal = setting_origins.literal_origin(source, given) if given is not None else None
        if given is not None and literal is not None and literal.value:  # else the command line switched it on
            yield from source_locations.literal_line(source, given)
        yield call.lineno


def _steps(trace: Trace) -> tuple[Place, ...]:
    """The functions that take and apply the gradient, of those that took one here: they want the decorator."""
    taken = set(_gradients(trace))

    def named(source: Source) -> Iterable[int]:
        within = [source.function_at(place.line) for place in taken if place.file == source.file]
        for tape in reached.eager(source):
            function = node_lookup.enclosing_function(source, tape)
            if function is not None and function in within:
                yield eager.named(source, tape)[0][0]

    return source_locations.project_places(trace, named)


def _compiled(trace: Trace) -> tuple[tuple[Edit, ...], list[str], list[str]]:
    """Each step that took gradients as a graph, where it may be one: the edits, what they are of, and what is left."""
    edited: list[Edit] = []
    done: list[str] = []
    left: list[str] = []
    lines: dict[str, list[int]] = {}
    for place in _taken(trace):
        lines.setdefault(place.file, []).append(place.line)
    for file, several in lines.items():
        source = recorded_sources.recorded_source(trace, file)
        made = fix.compiled_steps(source, several) if source is not None else {}
        if source is None or not measured.parses(source, (e for one in made.values() for e in one)):
            continue
        edited += dict.fromkeys(e for one in made.values() for e in one)
        for line in several:
            function = source.function_at(line)
            name = f"line {line}" if function is None else getattr(function, "name", "")
            whole = len(made.get(line, ())) < 2
            (done if line in made else left).append(name if whole else f"lines of {name}")
    return tuple(edited), [*dict.fromkeys(done)], [*dict.fromkeys(n for n in left if n not in done)]


def _taken(trace: Trace) -> Iterator[Place]:
    """Where gradients are taken in the steps, and not by the way, the most frequent first."""
    times = Counter(trace.lane("gradient").name.tolist()).most_common()
    for name, count in times:
        place = trace.names[int(name)].place
        if place is not None and count >= OFTEN * times[0][1]:
            yield place


def _named(several: Sequence[str]) -> str:
    return ", ".join(first_names(several, MOST_NAMED))


def _gradients(trace: Trace) -> tuple[Place, ...]:
    """Lines that take gradients, then the lines of the step that cost most."""
    spans = trace.lane("gradient")
    places = [trace.names[int(n)].place for n in dict.fromkeys(spans.name.tolist())]
    lines = [line.place for line in trace.loop_lines if line.share > 0.1]
    found = [p for p in places if p is not None]
    # The step's own function is what wants the decorator: its lines come first, then who calls it.
    return tuple(dict.fromkeys((*found, *lines)))[:4]
