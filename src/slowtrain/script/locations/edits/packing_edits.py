"""Where a script's elements can be packed, and the edits that pack them, limit them or read them packed.

Packed results of an operation replace a data set where a cache would give the same elements in every epoch. So the
place and the proof are those of a cache. Packed contents of files replace the reading in a map, whatever else its
function does. In both kinds of edits ``cache()`` marks what is packed.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from slowtrain.model import Edit, Effect, Place, Prescription
from slowtrain.script.fixes.input import dataset_edits, packed_contents
from slowtrain.script.fixes.input.grain_reading import MODULES, USUAL_NAMES
from slowtrain.script.fixes.input.packed_reading import READER_NAME
from slowtrain.script.locations.edits.recorded_edits import are_valid_edits
from slowtrain.script.locations.recorded_sources import recorded_source, recorded_sources
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.pipelines import chain_edits
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace

MARK = "cache()"  # in the marked edits
OPERATIONS = ((), ("from_generator",), ("interleave",), ("flat_map",))  # () is map
MAX_CALL_DEPTH = 6  # functions around the data set
MAX_DATASETS = 4  # of one line: training, validation, test


@dataclass(frozen=True)
class PackingPlace:
    """What can be packed: the results of an operation, or the contents of the files that its function reads.

    ``same_order``: False if a shuffle has to move behind it. ``datasets``: how many the script builds there.
    ``content_of``: for contents, the number of the part of
    an element that names its file. ``function_edits``: they let the function take the content in place of the file.
    ``is_batches``: the batches of a ``PyDataset``, which the marked edit hands to the mark. ``equal_shapes``: the
    script makes batches of the results.
    """

    place: Place
    marked_edits: tuple[Edit, ...]
    same_order: bool = True
    content_of: int | None = None
    datasets: int = 1
    function_edits: tuple[Edit, ...] = ()
    is_batches: bool = False
    equal_shapes: bool = False


def find_packed_results(trace: Trace, places: Iterable[Place]) -> PackingPlace | None:
    """The first of ``places`` whose operation gives the same elements in each epoch, as its text shows."""
    for place, source in _sources_at(trace, places):
        for names in OPERATIONS:
            found, same = dataset_edits.add_cache(source, place.line, None, *names)
            at = _marked_node(source, found)
            count = _run_count(trace, source, at) if at is not None and are_valid_edits(source, found) else 0
            if count:
                return PackingPlace(place, tuple(found), same, datasets=count)
    return None


def find_packed_contents(trace: Trace, places: Iterable[Place]) -> PackingPlace | None:
    """The first of ``places`` with a map whose function reads the file that a part of the element names."""
    for place, source in _sources_at(trace, places):
        found = packed_contents.find_file_reading(source, place.line)
        count = _run_count(trace, source, found.maker) if found is not None else 0
        if found is None or not count:
            continue
        marked, function_edits = tuple(found.marked_edits), tuple(found.function_edits)
        if are_valid_edits(source, [*marked, *function_edits]):
            return PackingPlace(place, marked, True, found.position, count, function_edits)
    return None


def named_results(trace: Trace, place: Place) -> PackingPlace | None:
    """The results of the only operation of :data:`OPERATIONS` at ``place``, which the user names.

    The user is responsible for their being the same in every epoch, where the text does not tell.
    """
    proven = find_packed_results(trace, [place])
    if proven is not None:
        return proven
    for _, source in _sources_at(trace, [place]):
        names = ("map", *(name for names in OPERATIONS for name in names))
        calls = node_lookup.calls_at_line(source, place.line, *names)
        found = chain_edits.append_operation(source, calls[0], f".{MARK}") if len(calls) == 1 else []
        count = _run_count(trace, source, calls[0]) if found and are_valid_edits(source, found) else 0
        if count:
            return PackingPlace(place, tuple(found), datasets=count)
    return None


def find_packed_batches(source: Source, line: int | None) -> PackingPlace | None:
    """The data of the only call of ``fit`` at ``line``, or in the file: one that runs once and gets no arrays."""
    calls = [
        call
        for call in call_index.index_of(source).calls_of("fit")
        if line in (None, call.lineno) and READER_NAME not in source.text and _run_count(None, source, call) == 1
    ]
    data = [one for call in calls if (one := node_lookup.argument_value(call, "x", 0)) is not None]
    if len(calls) != 1 or not data or isinstance(data[0], ast.Starred):
        return None
    marked = edits.replace_node(source, data[0], f"{MARK}({edits.node_text(source, data[0])})")
    return PackingPlace(Place(source.file, calls[0].lineno), (marked,), is_batches=True)


def packing_advice(trace: Trace, places: Iterable[Place]) -> list[Prescription]:
    """The advice to pack what one of ``places`` makes, if its text shows that packed elements are the same."""
    places = tuple(places)
    place = find_packed_results(trace, places) or find_packed_contents(trace, places)
    if place is None:
        return []
    command = shlex.join(str(word) for word in trace.fact("launch", "argv") or ("SCRIPT",))
    what = "results" if place.content_of is None else "files"
    says = f"or write the {what} of line {place.place.line} once: slowtrain pack --plan pack.json {command}"
    return [Prescription("advice", Effect.EXACT if place.same_order else Effect.EQUIVALENT, says)]


def _sources_at(trace: Trace, places: Iterable[Place]) -> Iterator[tuple[Place, Source]]:
    """The places with their sources, without those that read packed elements already."""
    for place in dict.fromkeys(places):
        source = recorded_source(trace, place.file)
        if source is not None and READER_NAME not in source.text:
            yield place, source


def _marked_node(source: Source, found: Sequence[Edit]) -> ast.AST | None:
    """The statement that the only mark of these edits is in; None if there are several marks or none."""
    marked = [edit for edit in found if MARK in edit.text]
    if len(marked) != 1 or marked[0].text.count(MARK) != 1:
        return None
    around = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.stmt) and _is_inside(n, marked[0])]
    return max(around, key=edits.node_start, default=None)


def _run_count(trace: Trace | None, source: Source, node: ast.AST, depth: int = MAX_CALL_DEPTH) -> int:
    """How often the project runs ``node``, one that is in no loop: once for each place that calls its function.

    Without a trace, the project is this file. 0 if the text does not tell. Each run builds a data set, and each data
    set needs packed elements of its own.
    """
    if scope_names.enclosing_loops(source, node):
        return 0
    function = node_lookup.enclosing_function(source, node)
    if function is None:
        return 1
    project = recorded_sources(trace) if trace is not None else ()
    sources = {one.text: one for one in (source, *project)}.values()
    calls = [(one, call) for one in sources for call in call_index.index_of(one).calls_of(function.name)]
    counts = [_run_count(trace, *one, depth - 1) for one in calls] if depth and len(calls) <= MAX_DATASETS else []
    return sum(counts) if counts and all(counts) else 0


def replace_mark(marked_edits: Iterable[Edit], text: str) -> list[Edit]:
    """The edits with ``text``, such as ``take(100)``, in place of the mark."""
    return [replace(edit, text=edit.text.replace(MARK, text)) for edit in marked_edits]


def reading_edits(source: Source, place: PackingPlace, function: str) -> list[Edit]:
    """The edits that read packed elements: ``function``, the text of the reader, and its use at the mark."""
    at = next(one for one in place.marked_edits if MARK in one.text)
    used = [at, *place.function_edits]
    statement = next(s for s in source.tree.body if any(_is_inside(s, edit) for edit in used))
    above = source.text.split("\n")[: edits.node_start(statement)[0] - 1]
    gap = "" if not above or not above[-1].strip() else "\n\n"
    reader = edits.insert_before(source, statement, f"{gap}{function}\n\n")
    if place.is_batches:
        return [reader, replace(at, text=f"{READER_NAME}()")]
    return [reader, *replace_mark(place.marked_edits, f"apply({READER_NAME})"), *place.function_edits]


def _is_inside(statement: ast.stmt, edit: Edit) -> bool:
    return edits.node_start(statement) <= edit.start <= edits.node_end(statement)


def tensorflow_name(source: Source) -> tuple[str, list[Edit]]:
    """How the file refers to TensorFlow, and the edits for a missing import."""
    return edits.ensure_import(source, "tensorflow", "tf")


def reader_names(source: Source) -> tuple[dict[str, str], list[Edit]]:
    """How the file refers to the modules that read batches, and the edits for missing imports."""
    found = {name: edits.ensure_import(source, name, USUAL_NAMES.get(name, name)) for name in MODULES}
    return {name: used for name, (used, _) in found.items()}, [edit for _, made in found.values() for edit in made]
