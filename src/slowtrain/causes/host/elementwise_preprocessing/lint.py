"""Finds the cause host/elementwise-preprocessing in a script's text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from math import prod

from slowtrain.causes.host.elementwise_preprocessing import scatter_loops
from slowtrain.causes.host.elementwise_preprocessing.fix import VECTORISE
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.loops import array_loops
from slowtrain.script.interpreter.domain.call_events import Loop
from slowtrain.script.interpreter.engine import interpreter, queries
from slowtrain.script.interpreter.library import framework_calls
from slowtrain.script.lint_rules import keras_names, spots, step_code
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names, setting_origins
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

# The simplest iteration takes 0.1 µs, one with a call of NumPy 1 µs or more. This many iterations, over all nested
# loops, take some tenths of a second or more.
MIN_TURNS = 100_000
MIN_SLOW_TURNS = 1_000_000  # if no equivalent over arrays is known
ASSUMED_ROWS = 1000  # assumed number of rows of training data
MIN_LAYER_CALLS = 1000  # of a layer, about 1 ms each
PREPARING_LAYERS = frozenset(
    "TextVectorization StringLookup IntegerLookup Hashing Normalization Discretization CategoryEncoding Resizing "
    "Rescaling CenterCrop".split()
)
NUMBER_BUILTINS = frozenset("min max abs float int round pow bool".split())
# NumPy has no equivalent over arrays of these.
EXCLUDED_NODES = (ast.For, ast.While, ast.Subscript, ast.Try, ast.Yield, ast.Global, ast.Nonlocal, ast.Starred)
_FOR = re.compile(call_index.whole_word_pattern("for"))
TRANSFORM_METHODS = frozenset({".apply_transform", ".random_transform"})
TRANSFORM_TEXT = "a Python loop has SciPy transform one picture after the other"
TRANSFORM_PRESCRIPTION = Prescription(
    "edit",
    Effect.CHANGES_TRAINING,
    "let layers (RandomRotation, RandomBrightness) do it for whole batches, in the pipeline",
)
APPENDING_FUNCTIONS = frozenset({"numpy.append", "numpy.concatenate", "numpy.vstack", "numpy.hstack"})
MIN_APPENDED_ROWS = 1000


def find_spots(source: Source) -> Iterable[Spot]:
    """Loops over at least a hundred thousand elements that NumPy can do in one call."""
    if call_index.takes_training_steps(source):
        yield from elementwise_loops(source)
        yield from single_sample_calls(source)
        yield from vectorize_calls(source)
        yield from parsed_lines(source)
    yield from reread_stop_words(source)
    yield from transforms_in_loop(source)
    yield from growing_arrays(source)


def elementwise_loops(source: Source) -> Iterator[Spot]:
    """Find outermost loops and calls that build an array of a comprehension."""
    stepping = {loop for loop, _ in step_code.loops_between_steps(source)}  # host/python-in-step
    for loop in _outermost_loops(source) if "numpy" in source.text else ():
        if loop in stepping:
            continue
        turns, fills = _total_turns(source, loop)
        covers = isinstance(loop, ast.For) and fills and _covers_all_rows(source, loop)
        if turns < MIN_TURNS and not covers:
            continue
        found = array_loops.vectorise_loop(source, loop.lineno)
        if found is None and (MIN_TURNS <= turns < MIN_SLOW_TURNS or not (fills or _fills_elements(source, loop))):
            continue
        says = f"a Python loop does work that NumPy can do for {f'{turns:,}' if turns >= MIN_TURNS else 'all'} elements"
        effect = Effect.EXACT if found is not None and found.exact else Effect.EQUIVALENT
        made = found.edits if found is not None else ()
        yield spots.node_spot(loop, says, Prescription("edit", effect, VECTORISE, edits=made))


def _total_turns(source: Source, loop: step_code.ElementLoop) -> tuple[int, bool]:
    """Return the known iterations, and whether the loop is known to fill an array by elements."""
    own = _loop_turns(source, loop)
    turns = own * _calls_in_loops(source, loop) if own is not None else 0
    fills = turns < MIN_SLOW_TURNS and _fills_elements(source, loop)
    return max(turns, _interpreted_turns(source, loop)) if fills else turns, fills


def single_sample_calls(source: Source) -> Iterator[Spot]:
    """Find Keras layers that are called for each sample: ``[vectorize([text]) for text in texts]``."""
    if source.words.isdisjoint(PREPARING_LAYERS):
        return
    for made in call_index.nodes_matching(source, _FOR, ast.ListComp):
        match made:
            case ast.ListComp(generators=[ast.comprehension(target=ast.Name(id=name)) as one], elt=elt):
                turns = queries.loop_turns(source, one)
            case _:
                continue
        if isinstance(one.iter, (ast.List, ast.Tuple)) or (turns is not None and turns < MIN_LAYER_CALLS):
            continue
        for call in syntax_tree.nodes_inside(elt, ast.Call):
            if _passes_one_sample(call, name) and _has_preparing_layer(source, call.func):
                says = f"{ast.unparse(call.func)} is called for each sample by itself, and takes a whole list at once"
                once = "call the layer once for all samples, outside the loop"
                yield spots.node_spot(call, says, Prescription("edit", Effect.EXACT, once))


def _passes_one_sample(call: ast.Call, name: str) -> bool:
    """Whether the call is ``f([x])`` or ``f(x[None])``."""
    match call:
        case ast.Call(args=[ast.List(elts=[ast.Name(id=given)])], keywords=[]):
            return given == name
        case ast.Call(args=[ast.Subscript(value=ast.Name(id=given), slice=ast.Constant(value=None))], keywords=[]):
            return given == name
    return False


def _has_preparing_layer(source: Source, node: ast.expr) -> bool:
    """Whether it holds a preprocessing layer."""
    made = setting_origins.written_value(source, node)
    name = name_bindings.qualified_name(source, made.func) if isinstance(made, ast.Call) else ""
    return name.startswith("keras.layers.") and name.rpartition(".")[2] in PREPARING_LAYERS


def vectorize_calls(source: Source) -> Iterator[Spot]:
    """Find calls of ``np.vectorize`` functions for very many numbers. They call the function for each number."""
    seen: set[ast.AST] = set()
    for event in interpreter.file_events(source) if "vectorize" in source.text else ():
        if event.name != framework_calls.VECTORIZED_NAME or event.graph or event.producer or event.node in seen:
            continue
        function = event.on.of.node if event.on is not None and event.on.of is not None else None
        times = queries.least_turns(one for one in event.loops if one.number not in event.rare)
        elements = prod(n or 1 for n in event.result.shape or ()) * times
        if elements >= MIN_TURNS and function is not None and _is_arithmetic(source, function):
            seen.add(event.node)
            says = f"np.vectorize calls a Python function for each of {elements:,} elements, or more"
            whole = "write the function with np.where, np.clip and NumPy's own functions, and call it for whole arrays"
            yield spots.node_spot(event.node, says, Prescription("edit", Effect.EQUIVALENT, whole))


def _is_arithmetic(source: Source, function: ast.AST) -> bool:
    """Whether a function only contains arithmetic and branches, which NumPy has for whole arrays."""
    body = scope_names.scope_body(function)
    documented = body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    inside = [n for one in body[1 if documented else 0 :] for n in syntax_tree.walk(one)]
    if any(isinstance(n, EXCLUDED_NODES) or isinstance(getattr(n, "value", None), str) for n in inside):
        return False
    called = [n.func for n in inside if isinstance(n, ast.Call)]
    others = [f for f in called if not (isinstance(f, ast.Name) and f.id in NUMBER_BUILTINS)]
    return all(name_bindings.qualified_name(source, f).startswith(("math.", "numpy.")) for f in others)


def _outermost_loops(source: Source) -> Iterator[step_code.ElementLoop]:
    for loop in call_index.nodes_of_class(source, ast.For):
        if not scope_names.enclosing_loops(source, loop) and step_code.only_stores_results(source, loop):
            yield loop
    for call in call_index.index_of(source).calls_of("array", "asarray", "stack"):
        listed = call.args and isinstance(call.args[0], (ast.ListComp, ast.GeneratorExp))
        if listed and name_bindings.qualified_name(source, call.func).startswith("numpy."):
            yield call


def _loop_turns(source: Source, loop: step_code.ElementLoop, depth: int = 3) -> int | None:
    """Return the iterations of a loop times those of inner loops, also in called functions; None if not visible."""
    body: list[ast.AST]
    if isinstance(loop, ast.Call):
        made = loop.args[0]
        assert isinstance(made, (ast.ListComp, ast.GeneratorExp))
        own, body = queries.loop_turns(source, made.generators[0]), [made.elt]
    else:
        own, body = queries.loop_turns(source, loop) or _filled_rows(source, loop), list(loop.body)
    parts = [p for one in body for p in source.reachable_functions(one)[: depth + 1]]
    inner = syntax_tree.nodes_inside(parts, ast.For)
    outer = [n for n in inner if not any(n is not o and n in syntax_tree.walk(o) for o in inner)]
    factors = [_loop_turns(source, n, depth - 1) for n in outer] if depth else []
    inside = max([f for f in factors if f is not None], default=None)
    return inside if own is None else own * (inside or 1)  # at least one iteration of a loop of unknown length


def _interpreted_turns(source: Source, loop: step_code.ElementLoop) -> int:
    """Return the known iterations of a loop times those of inner loops and of loops around its calls."""
    of = loop if isinstance(loop, ast.For) else loop.args[0].generators[0]  # type: ignore[attr-defined]
    return max(
        (
            queries.least_turns(one for one in event.loops if one.number not in event.rare)
            for event in interpreter.file_events(source)
            if event.begun is not None and not event.graph and not event.producer
            if any(one.node is of for one in event.loops)
        ),
        default=0,
    )


def _calls_in_loops(source: Source, loop: step_code.ElementLoop, depth: int = 3) -> int:
    """Return how often loops call the function that contains the loop, as far as visible."""
    function = node_lookup.enclosing_function(source, loop)
    most = 1
    for call in call_index.index_of(source).calls_of(function.name) if function is not None and depth else ():
        outside = node_lookup.enclosing_function(source, call) is not function
        times = _calls_in_loops(source, call, depth - 1) if outside else 1
        turns = (queries.loop_turns(source, outer) or 1 for outer in scope_names.loops_and_comprehensions(source, call))
        most = max(most, times * prod(turns))
    return most


def _covers_all_rows(source: Source, loop: ast.For) -> bool:
    """Whether the loop covers all rows of an array of unknown size, with a loop over each row."""
    if not _queries_length(source, loop.iter) or queries.loop_turns(source, loop) is not None:
        return False
    row_turns = _loop_turns(source, loop)
    if row_turns is not None and row_turns < MIN_TURNS // ASSUMED_ROWS:
        return False
    function = node_lookup.enclosing_function(source, loop)
    return function is None or bool(call_index.index_of(source).calls_of(function.name))


def _queries_length(source: Source, over: ast.expr) -> bool:
    """Whether it is ``range(len(x) - 1)`` or ``range(x.shape[0])``, also through a name."""
    if not isinstance(over, ast.Call) or node_lookup.called_name(over) != "range" or not over.args:
        return False
    bound: ast.expr | None = over.args[min(len(over.args), 2) - 1]
    if isinstance(bound, ast.Name):
        bound = name_bindings.single_assignment(source, bound)
    return bound is not None and any(node_lookup.length_queries(bound))


def _filled_rows(source: Source, loop: ast.For) -> int | None:
    """Return the rows of the array that a loop ``for i, x in enumerate(...)`` fills by its index."""
    match loop:
        case ast.For(target=ast.Tuple(elts=[ast.Name(id=name), *_]) | ast.Name(id=name), iter=ast.Call() as over):
            if node_lookup.called_name(over) != "enumerate":
                return None
        case _:
            return None
    stored = [n for n in syntax_tree.nodes_inside(loop.body, ast.Subscript) if isinstance(n.ctx, ast.Store)]
    sizes = {queries.row_count_at(source, n.value) for n in stored if _is_indexed_by(n, name)}
    return sizes.pop() if len(sizes) == 1 else None


def _is_indexed_by(stored: ast.Subscript, name: str) -> bool:
    at = stored.slice.elts[0] if isinstance(stored.slice, ast.Tuple) and stored.slice.elts else stored.slice
    return isinstance(at, ast.Name) and at.id == name


def _fills_elements(source: Source, loop: step_code.ElementLoop) -> bool:
    """Whether nested loops set single elements of an array by their indices.

    Also a loop in a function that a loop calls for each sample, and a loop that adds each element to a place that the
    element names.
    """
    if isinstance(loop, ast.Call) and isinstance(loop.args[0], (ast.ListComp, ast.GeneratorExp)):
        made = (n for part in source.reachable_functions(loop.args[0].elt)[1:] for n in syntax_tree.walk(part))
        return any(isinstance(n, ast.For) and _filled_rows(source, n) is not None for n in made)
    if isinstance(loop, ast.For) and scatter_loops.is_scatter_loop(source, loop):
        return True
    inner = syntax_tree.nodes_inside(loop, ast.For)
    counted = {n.id for one in inner for n in syntax_tree.nodes_inside(one.target, ast.Name)}
    stored = [n.slice for n in syntax_tree.nodes_inside(loop, ast.Subscript) if isinstance(n.ctx, ast.Store)]
    by = [{e.id for e in at.elts if isinstance(e, ast.Name)} & counted for at in stored if isinstance(at, ast.Tuple)]
    return len(inner) > 1 and any(len(names) > 1 for names in by)


def parsed_lines(source: Source) -> Iterator[Spot]:
    """Find loops that split each line of a file and convert its words to numbers, as for tables of word vectors."""
    for call in call_index.index_of(source).calls_of("array", "asarray") if "split(" in source.text else ():
        if _converts_words(source, call) and name_bindings.qualified_name(source, call.func).startswith("numpy."):
            says = "Python splits each line of this table, and NumPy converts its words one by one"
            once = 'parse the numbers of a line with np.fromstring(rest, sep=" "), or keep the table as an .npy file'
            long = f"the table has more than {MIN_TURNS:,} lines"
            yield spots.node_spot(call, says, Prescription("edit", Effect.EXACT, once), long)


def _converts_words(source: Source, call: ast.Call) -> bool:
    """Whether an array is made of the words of a line: ``words[1:]`` in a loop, or ``f(*line.split())``."""
    match call.args[:1]:
        case [ast.Subscript(value=ast.Name(id=name), slice=ast.Slice(lower=ast.Constant()))]:
            loop = next(iter(scope_names.enclosing_loops(source, call)), None)
            if not isinstance(loop, ast.For):
                return False
            made = (n for n in syntax_tree.nodes_inside(loop.body, ast.Assign) if name in scope_names.bound_names(n))
            lines = scope_names.bound_names(loop)
            return any(_is_split(one.value) and lines & scope_names.read_names(one.value) for one in made)
        case [ast.Name(id=name)]:
            function = node_lookup.enclosing_function(source, call)
            if function is None or function.args.vararg is None or function.args.vararg.arg != name:
                return False
            given = (arg for one in call_index.index_of(source).calls_of(function.name) for arg in one.args)
            return any(isinstance(arg, ast.Starred) and _is_split(arg.value) for arg in given)
    return False


def _is_split(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and node_lookup.called_name(node) in ("split", "rsplit")


def reread_stop_words(source: Source) -> Iterator[Spot]:
    """Find ``[word for word in text if word not in stopwords.words("english")]``, which reads a file for each word."""
    for call in call_index.index_of(source).calls_of("words") if "stopwords" in source.words else ():
        if scope_names.dotted_name(call.func) != "stopwords.words":
            continue
        test = node_lookup.enclosing_node(source, call, ast.Compare)
        if test is not None and any(scope_names.loops_and_comprehensions(source, test)):
            says = "the list of stop words is read from its file again for each word"
            once = "read it once before the loop: stops = set(stopwords.words(...))"
            yield spots.node_spot(call, says, Prescription("edit", Effect.EXACT, once))


def transforms_in_loop(source: Source) -> Iterator[Spot]:
    """Find loops of the script that transform single images."""
    for event in interpreter.file_events(source) if "ImageDataGenerator" in source.words else ():
        of_generator = queries.is_keras_object(event.on, keras_names.GENERATOR_CLASS)
        if event.name in TRANSFORM_METHODS and of_generator and event.regular_loops() and not event.producer:
            yield spots.operation_spot(event.node, TRANSFORM_TEXT, TRANSFORM_PRESCRIPTION)


def growing_arrays(source: Source) -> Iterator[Spot]:
    """Find arrays that a long loop extends by a row, which copies the array in each iteration."""
    for event in interpreter.file_events(source):
        if event.name not in APPENDING_FUNCTIONS or event.producer or event.graph or not event.loops:
            continue
        statement, loop = node_lookup.enclosing_statement(source, event.node), event.loops[-1]
        if not isinstance(statement, ast.Assign) or not isinstance(event.node, ast.Call):
            continue
        read = {scope_names.dotted_name(n) for a in event.node.args for n in syntax_tree.walk(a)}
        names = read & {scope_names.dotted_name(one) for one in statement.targets} - {""}
        long = (loop.turns or 0) >= MIN_APPENDED_ROWS or _loops_over_all_rows(loop)
        if names and long and not _is_rebound_first(loop.node, names):
            says = "each iteration of a long loop copies all rows of this array to add some"
            once = "collect the rows in a list or in an array of the full size, and join them once"
            yield spots.node_spot(event.node, says, Prescription("edit", Effect.EXACT, once))


def _is_rebound_first(loop: ast.AST, names: set[str]) -> bool:
    """Whether each iteration of a loop first rebinds one of these names."""
    body = scope_names.nodes_in_scope(list(getattr(loop, "body", [])))
    bindings = [n for n in body if isinstance(n, ast.Assign) and names & scope_names.bound_names(n)]
    return any(not names & scope_names.read_names(one.value) for one in bindings)


def _loops_over_all_rows(loop: Loop) -> bool:
    """Whether a loop like ``for i in range(len(x) - 24)`` has an iteration for each of an unknown number of rows."""
    over = loop.node.iter if isinstance(loop.node, ast.For) else None
    if loop.turns is not None or loop.items.kind != "range" or over is None:
        return False
    return any(node_lookup.length_queries(over))
