"""Generators of single samples, which a data set batches afterwards."""

from __future__ import annotations

import ast
from math import prod

from slowtrain.causes.input.python_input import input_functions
from slowtrain.causes.input.python_input.fix import WHOLE_BATCHES
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.input import generator_edits
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine import queries, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import dataset_stages, spots
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names, setting_origins
from slowtrain.script.pipelines import dataset_chains, element_sizes, interpreted_datasets, whole_pipelines
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

# Calls that take no longer than yielding a sample (about 50 µs), or run once per pass.
CUTTING_FUNCTIONS = frozenset(
    "loop len range zip enumerate min max int float list tuple arange permutation shuffle default_rng integers randint "
    "choice astype copy reshape array asarray float32 int32 int64 uint8 stack concatenate seed".split()
)
READING_FUNCTIONS = frozenset({"load", "fromfile", "loadtxt", "memmap"})
MIN_TENSOR_OPS = 3  # TensorFlow ops per sample, about 0.1 ms each when they run op by op
MIN_NUMPY_CALLS = 2  # NumPy calls per sample, some microseconds each
FILE_MAPPING_WORDS = ("memmap", "mmap_mode", "h5py")  # arrays that read a file when a row is taken
ITERATING_BUILTINS = frozenset("range zip enumerate len list reversed sorted".split())
MEMORY_NODES = (
    ast.Constant, ast.List, ast.ListComp, ast.Dict, ast.DictComp, ast.BinOp, ast.UnaryOp, ast.Compare,
)  # fmt: skip
MIN_SAMPLES = 1000  # per epoch. At about 50 µs each, fewer take less than 0.1 s.
ARRAY_FUNCTIONS = frozenset(
    "append extend range zip enumerate len min max int float tuple list dict islice get pop split".split()
)
NUMPY_CONVERSIONS = frozenset(
    "array asarray zeros ones float32 int32 int64 float64 uint8 stack concatenate pad full".split()
)
KEEPING_METHODS = (
    ARRAY_FUNCTIONS
    | NUMPY_CONVERSIONS
    | frozenset("permutation shuffle arange astype reshape randint integers random searchsorted mean std sum".split())
)


def sample_generators(source: Source) -> tuple[list[Spot], list[Spot]]:
    """Find each ``from_generator`` of single small samples that are batched afterwards.

    First those that only cut arrays in memory, then those that make each sample.
    """
    cut: dict[ast.Call, Spot] = {}
    made: dict[ast.Call, Spot] = {}
    for written in call_index.index_of(source).calls_of("from_generator"):
        text = _cutting_text(source, written)
        if text is not None:
            cut[written] = _generator_spot(source, written, text)
    mapped = any(word in source.text for word in FILE_MAPPING_WORDS)
    for one in interpreted_datasets.datasets_of(source) if "from_generator" in source.text and not mapped else ():
        first = interpreted_datasets.stage_call(source, one.stages[0])
        if first is None or first in cut or first in made or one.names[0] != "from_generator" or "cache" in one.names:
            continue
        inside = [e for e in file_events(source) if e.producer == "generator" and any(p.node is first for p in e.loops)]
        if not inside or not _gives_single_samples(one) or _has_few_samples(inside, first):
            continue
        ops = {e.node for e in inside if e.name.startswith("tensorflow.") and not e.name.startswith("tensorflow.io.")}
        if len(ops) >= MIN_TENSOR_OPS:
            made[first] = _generator_spot(source, first, f"{len(ops)} TensorFlow ops run op by op for each sample")
            continue
        if not _has_small_samples(one):
            continue
        said = next(interpreted_datasets.element_leaves(one.stages[0].after)).name == "said"
        if all(map(_is_cutting_call, inside)) and not said:  # the source of a declared element is unknown
            says = "this generator hands over one sample at a time out of arrays that are in memory"
            cut[first] = _generator_spot(source, first, says)
        elif not said or len({e.node for e in inside if _is_numpy_work(e)}) >= MIN_NUMPY_CALLS:
            says = "Python makes one small sample after the other, and hands over each by itself"
            made[first] = _generator_spot(source, first, says)
    return list(cut.values()), list(made.values())


def _generator_spot(source: Source, call: ast.Call, says: str) -> Spot:
    given = node_lookup.argument_value(call, "generator", 0) or call
    edited = tuple(generator_edits.use_tensor_slices(source, edits.node_end(call.func)[0]))
    exact = not step_loops.fits_several_epochs(source)  # see input_feed.is_asked_beyond_end
    effect = Effect.EXACT if exact else Effect.EQUIVALENT
    return spots.node_spot(given, says, Prescription("edit", effect, WHOLE_BATCHES, edits=edited))


def _gives_single_samples(one: interpreted_datasets.ConsumedDataset) -> bool:
    """Whether its elements are batched, without an operation before that splits them."""
    at = next((i for i, name in enumerate(one.names) if name in interpreted_datasets.BATCHING_STAGES), None)
    return at is not None and set(one.names[1:at]) <= interpreted_datasets.SAME_ELEMENT_STAGES | {"take", "skip"}


def _is_cutting_call(event: Event) -> bool:
    """Whether a call does no work on a sample. Functions of the script are judged by their own calls."""
    if event.on is not None and event.on.kind in ("function", "method", "generator") and event.name[:1] != ".":
        return True
    return event.name.rpartition(".")[2] in CUTTING_FUNCTIONS and not event.name.startswith("tensorflow.")


def _is_numpy_work(event: Event) -> bool:
    """Whether a NumPy call works on a sample."""
    return event.name.startswith("numpy.") and event.name.rpartition(".")[2] not in READING_FUNCTIONS


def _has_few_samples(inside: list[Event], call: ast.Call) -> bool:
    """Whether the loops certainly end after few samples."""
    counts = []
    for event in inside:
        if event.begun is not None:
            depth = next(i for i, one in enumerate(event.loops) if one.node is call)
            turns = [one.turns for one in event.loops[depth + 1 :]]
            counts.append(prod(n or MIN_SAMPLES for n in turns))
    return not counts or max(counts) < MIN_SAMPLES


def _has_small_samples(one: interpreted_datasets.ConsumedDataset) -> bool:
    """Whether its first part is known to be a few thousand numbers. The other parts are mostly labels."""
    first = next(interpreted_datasets.element_leaves(one.stages[0].after))
    count = interpreted_datasets.element_numbers(first, batched=False)
    return count is not None and bool(first.shape) and dataset_stages.MIN_NUMBERS <= count <= dataset_stages.MAX_NUMBERS


def _cutting_text(source: Source, call: ast.Call) -> str | None:
    """Return what a generator does that slices single samples from memory, which are batched afterwards."""
    given = node_lookup.argument_value(call, "generator", 0)
    made = input_functions.called_function(source, given, call) if dataset_chains.makes_dataset(source, call) else None
    several = whole_pipelines.pipelines_with(source, call)
    if not isinstance(made, ast.FunctionDef) or not several:
        return None
    if any("cache" in f.names or not whole_pipelines.is_element_wise(f, call) for f in several):
        return None
    if (element_sizes.element_count(source, several[0]) or MIN_SAMPLES) < MIN_SAMPLES:
        return None
    statements = whole_pipelines.reached_statements(source, made)
    yields = syntax_tree.nodes_inside(statements, ast.Yield)
    looped = bool(yields) and all(scope_names.enclosing_loops(source, one) for one in yields)
    if not looped or not _reads_memory_only(source, made, statements):
        return None
    name = f"{made.name}()" if isinstance(given, (ast.Name, ast.Lambda)) else "this generator"
    return f"{name} hands over one sample at a time out of data that is in memory"


def _reads_memory_only(source: Source, made: ast.FunctionDef, statements: list[ast.AST]) -> bool:
    """Whether a generator only iterates over data of this file, and only slices, pads and converts it."""
    for call in whole_pipelines.calls_in(statements):
        name, whole = node_lookup.called_name(call), name_bindings.qualified_name(source, call.func)
        known = node_lookup.function_named(source, name, call) is not None or whole.startswith("numpy.random.")
        if not known and name not in KEEPING_METHODS:
            return False
    names: set[str] = set()
    for node in (n for s in statements for n in syntax_tree.walk(s)):
        match node:
            case ast.For(iter=over):
                names |= {n.id for n in syntax_tree.nodes_inside(over, ast.Name)}
            case ast.Subscript(value=ast.Name(id=name)):
                names.add(name)
            case ast.Subscript(value=ast.Attribute() as attribute):
                held = setting_origins.written_value(source, attribute)
                if held is None or not _is_memory_value(source, held):
                    return False
    return all(_is_memory_name(source, name, made) for name in names)


def _is_memory_name(source: Source, name: str, made: ast.FunctionDef) -> bool:
    """Whether a name that a generator reads is local, a number, or data created in this file."""
    inner = (g.target for n in syntax_tree.walk(made) for g in getattr(n, "generators", ()))
    own = scope_names.bound_names(made.body) | {n.id for n in syntax_tree.nodes_inside(inner, ast.Name)}
    if name in own or name in ITERATING_BUILTINS or name in scope_names.import_aliases(source):
        return True
    binders = scope_names.binding_statements(source, name, source.tree)
    given = [b.value for b in binders if isinstance(b, ast.Assign)]
    known = name not in scope_names.parameter_names(made) and 0 < len(given) == len(binders)
    return known and all(_is_memory_value(source, v) for v in given)


def _is_memory_value(source: Source, value: ast.expr) -> bool:
    """Whether a value is a number, a list, or an array that NumPy creates in memory."""
    match value:
        case ast.Tuple(elts=elts):
            return all(_is_memory_value(source, e) for e in elts)
        case ast.Call(func=func):
            whole = name_bindings.qualified_name(source, func)
            if whole.startswith("numpy."):
                return whole.rpartition(".")[2] not in ("load", "memmap", "open_memmap")
            made = node_lookup.called_name(value) in ("len", "load_data", "list", "astype", "tolist")
            return made or queries.shape_at(source, value) is not None
    return isinstance(value, MEMORY_NODES)
