"""The pipelines from which training takes its batches: given to ``fit``, or iterated by a training loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.navigation import call_index, imported_functions, node_lookup
from slowtrain.script.pipelines import dataset_chains
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source, cache_recent

WORKING_OPERATIONS = frozenset("map interleave flat_map filter from_generator".split())
STEP_CALLS = frozenset({"GradientTape", "train_on_batch"})
TRANSPARENT_CALLS = frozenset({"enumerate", "iter", "tqdm", "experimental_distribute_dataset"})


@cache_recent(4)
def training_chains(source: Source) -> tuple[dataset_chains.DatasetChain, ...]:
    """The pipelines whose operations are known, once per place that takes from them."""
    return tuple(_find_training_chains(source))


def _find_training_chains(source: Source) -> Iterator[dataset_chains.DatasetChain]:
    if not dataset_chains.may_make_dataset(source) and not imported_functions.may_import_project_files(source):
        return
    for call in call_index.index_of(source).called("fit"):
        given = node_lookup.argument_value(call, "x", 0)
        yield from chains_behind(source, given, call)
    if not any(name in source.text for name in STEP_CALLS):  # saves following the loops of most files
        return
    for loop in call_index.nodes_of_kind(source, ast.For):
        assert isinstance(loop, ast.For)
        for flow in chains_behind(source, loop.iter, loop):
            if any(_takes_step(part) for one in loop.body for part in source.called(one)):
                yield flow


def _takes_step(part: ast.AST) -> bool:
    return any(isinstance(n, ast.Call) and node_lookup.called_name(n) in STEP_CALLS for n in syntax_tree.walk(part))


def chains_behind(source: Source, given: ast.expr | None, place: ast.AST) -> Iterator[dataset_chains.DatasetChain]:
    """The pipeline behind an expression, through names and ``enumerate``; none if its source is unknown."""
    for _ in range(dataset_chains.MAX_LINKS):
        if isinstance(given, ast.Name):
            given = dataset_chains.last_assignment(source, given, place) or dataset_chains.parameter_argument(
                source, given
            )
            place = given if given is not None else place
        elif isinstance(given, ast.Call) and node_lookup.called_name(given) in TRANSPARENT_CALLS and given.args:
            given = given.args[0]
        else:
            break
    if isinstance(given, ast.Call):
        flow = dataset_chains.upstream_chain(source, given)
        if flow.known:
            yield flow
