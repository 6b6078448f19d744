"""Where the cause input/python-input shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from math import prod

from slowtrain.causes.input.python_input import input_functions, sample_generators, sample_loops
from slowtrain.causes.input.python_input.input_functions import InputFunction
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.engine import interpreter, queries, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import graph_code, keras_names, spots, step_code
from slowtrain.script.navigation import assumed_uses, node_lookup, scope_names
from slowtrain.script.pipelines import whole_pipelines
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

# Each takes 1 ms or more for a typical training file.
DECODING_FUNCTIONS = frozenset(
    "cv2.imread cv2.imdecode PIL.Image.open keras.utils.load_img keras.preprocessing.image.load_img imageio.imread "
    "imageio.v2.imread imageio.v3.imread skimage.io.imread matplotlib.pyplot.imread matplotlib.image.imread "
    "librosa.load soundfile.read scipy.io.wavfile.read pydicom.dcmread pydicom.read_file nibabel.load tifffile.imread "
    "rasterio.open SimpleITK.ReadImage".split()
)
# A file may hold many samples. Only a sequence that opens several files per batch has one file per sample.
LOADING_FUNCTIONS = frozenset(
    {"numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "scipy.io.loadmat", "pandas.read_csv"}
)
_LIBRARIES = frozenset(
    "cv2 PIL load_img imageio skimage imread librosa soundfile wavfile pydicom nibabel tifffile rasterio load loadtxt "
    "genfromtxt SimpleITK loadmat read_csv".split()
)
MIN_FILES_PER_BATCH = 4  # files per batch
ARRAY_CODE = "replace the loop over elements by array code or TensorFlow ops"
WORKERS_ADVICE = "give it workers (workers=4, use_multiprocessing=True), or decode in a parallel map of tf.data"
FILE_METHODS = frozenset({".flow_from_directory", ".flow_from_dataframe"})  # Python opens and decodes each image
FLOW_METHODS = FILE_METHODS | {".flow"}
# Each lets SciPy transform all pixels of an image, which takes 1 ms for 64 x 64 pixels.
MOVING_ARGUMENTS = frozenset("rotation_range width_shift_range height_shift_range shear_range zoom_range".split())
READ_PRESCRIPTION = Prescription(
    "edit",
    Effect.CHANGES_TRAINING,
    "read the pictures with tf.data (keras.utils.image_dataset_from_directory) and augment by layers, or give fit more "
    "workers",
)
FIT_METHODS = frozenset({".fit", ".fit_generator"})
SCALAR_FUNCTIONS = frozenset(
    "append abs min max int float round len range sqrt exp log sin cos tanh floor ceil rand random".split()
)
MIN_INPUT_LOOP_TURNS = 6  # iterations of a loop in input code. Fewer are channels or coordinates.
MIN_NESTED_LOOPS = {"generator": 3, "sequence": 2, "py_function": 2}  # nested loops that visit each element


def find_spots(source: Source) -> Iterable[Spot]:
    """Samples in memory that are returned one by one; loops over numbers or samples in code that makes input."""
    yield from _input_spots(source)
    for call, says in single_threaded_generators(source):
        yield spots.operation_spot(call, says, READ_PRESCRIPTION)


def _input_spots(source: Source) -> Iterator[Spot]:
    """Find slow Python in input code, and loops over the elements of each batch."""
    cut, made = sample_generators.sample_generators(source)
    known = [*cut, *slow_functions(source)]
    yield from known
    lines = [spot.start[0] for spot in known]
    inner = [spot for spot, (low, high) in element_loops(source) if not any(low <= line <= high for line in lines)]
    yield from inner
    if not known and not inner:
        yield from made or sequential_decoding(source)


def _python_spot(node: ast.expr | ast.stmt, says: str, cure: str = ARRAY_CODE) -> Spot:
    return spots.node_spot(node, says, Prescription("edit", Effect.EQUIVALENT, cure))


def sequential_decoding(source: Source) -> Iterator[Spot]:
    """Find files that each input function decodes one after the other, unless there are workers or a cache."""
    if source.words.isdisjoint(_LIBRARIES) or not assumed_uses.uses_no_workers(source) or ".cache(" in source.text:
        return
    seen: set[ast.AST | None] = set()
    for event in file_events(source):
        loads = event.name in LOADING_FUNCTIONS and "mmap_mode" not in event.given.keywords
        decodes = event.name in DECODING_FUNCTIONS and event.producer == "generator"
        if not decodes and not (event.producer == "sequence" and (loads or event.name in DECODING_FUNCTIONS)):
            continue
        if _is_read_by_workers(source, event) or _fills_a_cache(source, event.node):
            continue
        inner, function = event.loops[-1] if event.loops else None, node_lookup.enclosing_function(source, event.node)
        if inner is None or isinstance(inner.node, ast.Call) or function in seen:
            continue
        if (inner.turns or MIN_FILES_PER_BATCH) >= MIN_FILES_PER_BATCH:
            seen.add(function)
            says = "Python decodes one file after the other here, in the process that trains"
            yield _python_spot(event.node, says, WORKERS_ADVICE)


def _fills_a_cache(source: Source, node: ast.expr) -> bool:
    """Whether a file is read only if it is not in memory yet: ``if name not in self.cache:``, ``is None``."""
    above = node_lookup.enclosing_node(source, node, ast.If)
    test = above.test if isinstance(above, ast.If) else None
    return isinstance(test, ast.Compare) and any(
        isinstance(op, ast.NotIn) or (isinstance(op, ast.Is) and isinstance(test.left, (ast.Subscript, ast.Call)))
        for op in test.ops
    )


def _is_read_by_workers(source: Source, event: Event) -> bool:
    """Whether the ``fit`` that reads the input gets more than one worker, perhaps in another file."""
    reading = {one.node for one in event.loops if isinstance(one.node, ast.Call)}
    fits = (one for one in interpreter.project_events(source) if one.name in FIT_METHODS and one.node in reading)
    return any(one.given.keywords["workers"].known != 1 for one in fits if "workers" in one.given.keywords)


def single_threaded_generators(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """Find generators that training reads in one thread, with a description of their work."""
    if "ImageDataGenerator" not in source.words:
        return
    every = interpreter.project_events(source)
    fed = [e for e in every if e.name in FIT_METHODS and "workers" not in e.given.keywords]
    fitted = {e.given.get(name, place).node for e in fed for name, place in (("x", 0), ("generator", None))}
    drawn = {e.given.get("", 0).node for e in every if e.name == "next" and step_loops.step_loop_of(source, e)}
    drawn |= {loop.items.node for loop in step_loops.loops_by_number(source).values()}
    taken = (fitted | drawn) - {None}
    read = _read_iterators(source, every)
    for event in file_events(source):
        if event.name not in FLOW_METHODS or not isinstance(event.node, ast.Call):
            continue
        if event.on is None or not queries.is_keras_object(event.on, keras_names.GENERATOR_CLASS):
            continue
        moving, reads = not MOVING_ARGUMENTS.isdisjoint(event.on.items), event.name in FILE_METHODS
        # Only training augments. If this file does not train, another one does.
        if event.node not in taken and (read is None or event.node in read or not moving):
            continue
        does = " and ".join(["decodes"] * reads + ["augments"] * moving)
        if does:
            where = "in one thread beside the training" if event.node not in drawn else "in each training step"
            yield event.node, f"Python {does} every picture of this iterator, {where}"


def _read_iterators(source: Source, every: Iterable[Event]) -> set[ast.AST | None] | None:
    """What a file that does not train iterates or hands on, by the call that makes it; None if the file trains."""
    if step_loops.step_events(source) or not assumed_uses.uses_no_workers(source):
        return None
    if any(event.name in FIT_METHODS for event in every):
        return None
    used = (one for e in every for one in (*e.given.every, *(loop.items for loop in e.loops), e.on) if one is not None)
    return {one.node for one in used if one.kind == "rows"}


def slow_functions(source: Source) -> Iterator[Spot]:
    """Find the first slow part of each input function."""
    seen: set[ast.AST] = set()
    for maker in input_functions.input_functions(source):
        if maker.function in seen:
            continue
        seen.add(maker.function)
        slow = _nested_element_loop(source, maker) or _sample_comprehension(source, maker) or _slow_loop(source, maker)
        if slow is not None:
            yield _python_spot(*slow)


def _nested_element_loop(source: Source, maker: InputFunction) -> tuple[ast.For, str] | None:
    """Find nested loops over positions whose innermost body only computes with elements at these positions."""
    statements = whole_pipelines.reached_statements(source, maker.function)
    for loop in syntax_tree.nodes_inside(statements, ast.For):
        nest = [loop, *(o for o in scope_names.enclosing_loops(source, loop) if isinstance(o, ast.For))]
        if len(nest) < sample_loops.MIN_NESTED_LOOPS or syntax_tree.nodes_inside(loop.body, ast.For, ast.While):
            continue
        known = [queries.loop_turns(source, o) for o in nest]
        small = None not in known and prod(t for t in known if t is not None) < sample_loops.MIN_NESTED_TURNS
        if not small and _counts_positions(loop) and _computes_at_positions(loop):
            return loop, "Python goes through single numbers of the input in this loop, under the interpreter lock"
    return None


def _counts_positions(loop: ast.For) -> bool:
    return isinstance(loop.iter, ast.Call) and node_lookup.called_name(loop.iter) in ("range", "ndindex", "ndenumerate")


def _computes_at_positions(loop: ast.For) -> bool:
    """Whether the body only computes with elements at positions given by the loop index."""
    counted = scope_names.bound_names(loop.target)
    found = False
    for node in (n for s in loop.body for n in syntax_tree.walk(s)):
        if isinstance(node, ast.Call) and node_lookup.called_name(node) not in SCALAR_FUNCTIONS:
            return False
        if isinstance(node, ast.Subscript):
            if any(isinstance(n, ast.Slice) for n in syntax_tree.walk(node.slice)):
                return False
            found |= bool(counted & {n.id for n in syntax_tree.nodes_inside(node.slice, ast.Name)})
        if isinstance(node, (ast.Yield, ast.Await, ast.Try)):
            return False
    return found


def _slow_loop(source: Source, maker: InputFunction) -> tuple[ast.expr | ast.stmt, str] | None:
    """Find slow loops over the parts of a sample, or a slow function that a map runs for each sample."""
    found = sample_loops.slow_sample_loop(source, maker.function, maker.each)
    if found is not None:
        return found.loop, found.says
    several = sample_loops.numpy_calls_per_sample(source, maker.function) if maker.single and maker.each else 0
    if several < sample_loops.MIN_NUMPY_CALLS:
        return None
    return maker.given, f"Python calls NumPy {several} times for each sample, one sample after the other"


def _sample_comprehension(source: Source, maker: InputFunction) -> tuple[ast.ListComp, str] | None:
    """Find ``[transform(v) for v in batch]`` of a function that calls NumPy many times per sample."""
    statements = whole_pipelines.reached_statements(source, maker.function) if not maker.single else []
    for node in syntax_tree.nodes_inside(statements, ast.ListComp):
        name = node_lookup.called_name(node.elt) if isinstance(node.elt, ast.Call) else ""
        made = node_lookup.function_named(source, name, node) if name else None
        calls = sample_loops.numpy_calls_per_sample(source, made) if made is not None else 0
        if made is not None and calls >= sample_loops.MIN_NUMPY_CALLS:
            return node, f"{made.name}() calls NumPy {calls} times for each sample, one sample after the other"
    return None


def element_loops(source: Source) -> Iterator[tuple[Spot, tuple[int, int]]]:
    """Find nested loops in input code, by the interpreter's events, each with the lines of its function."""
    seen: set[ast.AST | None] = set()
    for event in file_events(source):
        if event.begun is None or not event.producer or _is_read_by_workers(source, event):
            continue
        if step_code.python_call_in_step(source, event) is not None:
            continue  # it belongs to host/python-in-step
        inside, function = _loops_inside_input(event.loops), node_lookup.enclosing_function(source, event.node)
        if function in seen or not inside or inside[-1] is not event.begun:
            continue
        if len(inside) >= MIN_NESTED_LOOPS[event.producer] or _loops_over_rows(source, event, inside[-1]):
            seen.add(function)
            lines = (function.lineno, function.end_lineno or 0) if function is not None else (0, 0)
            yield _python_spot(event.node, "Python goes through each batch element by element"), lines


def _loops_over_rows(source: Source, event: Event, loop: Loop) -> bool:
    """Whether a loop iterates over the rows of a batch and calls NumPy several times per row."""
    if event.producer != "py_function" or loop.items.kind not in ("array", "rows"):
        return False
    if loop.turns is not None and loop.turns < graph_code.MIN_UNROLLED_TURNS:
        return False
    inner = (e for e in file_events(source) if e.loops[-1:] == (loop,))
    each = {e.node for e in inner if e.name.startswith("numpy.") or (e.on is not None and e.on.kind == "array")}
    return len(each) >= sample_loops.MIN_NUMPY_CALLS


def _loops_inside_input(loops: tuple[Loop, ...]) -> list[Loop]:
    """Return the loops inside the one that makes the input, without loops of few iterations."""
    made_by = max((i for i, one in enumerate(loops) if isinstance(one.node, ast.Call)), default=-1)
    # ``while True`` repeats the whole input.
    below = [one for one in loops[made_by + 1 :] if not isinstance(one.node, ast.While)]
    return [one for one in below if (n := _visible_turns(one)) is None or n >= MIN_INPUT_LOOP_TURNS]


def _visible_turns(loop: Loop) -> int | None:
    """Return the visible number of iterations, or of items that a loop adds to a list."""
    filled = loop.items.kind == "list" and isinstance(loop.items.data, int)
    return loop.items.data if loop.turns is None and filled else loop.turns
