"""Limits that a script sets on the threads of its data sets: their own pools, and the one that they share with ops."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.source import Source
from slowtrain.source.reading import finding, index, scopes, values, visible
from slowtrain.source.reading.input import chains, costly, pipelines

SHARED = "set_inter_op_parallelism_threads"
NAMES = frozenset({"private_threadpool_size", "experimental_threading_private_threadpool_size"})


def limited(source: Source) -> Iterator[ast.Assign]:
    """Assignments of one thread to the options of a pipeline that asks for several calls at once."""
    for node in index.nodes(source, ast.Assign):
        assert isinstance(node, ast.Assign)
        target = node.targets[0]
        if not isinstance(target, ast.Attribute) or target.attr not in NAMES or visible.number(source, node.value) != 1:
            continue
        options = scopes.dotted(target).partition(".")[0]
        for flow in pipelines.of(source):
            given = [_options(source, c.args[0]) for c in flow.calls if finding.called(c) == "with_options" and c.args]
            if options in given and any(_several(source, c) for c in flow.calls):
                yield node
                break


def shared(source: Source) -> Iterator[ast.Call]:
    """Where ops that may run beside each other get one thread, on which a parallel map of long work runs as well."""
    for call in index.of(source).called(SHARED):
        given = finding.keyword(call, "num_threads", 0)
        if values.qualified(source, call.func) != f"tensorflow.config.threading.{SHARED}":
            continue
        private = any(name in source.text for name in NAMES)
        if visible.number(source, given) != 1 or private:
            continue
        if any(_works(source, c) for flow in pipelines.of(source) for c in flow.calls):
            yield call


def _works(source: Source, call: ast.Call) -> bool:
    """Whether several calls of a map shall run at once, of work that is worth a thread each."""
    if finding.called(call) != "map" or not chains.operates(call) or not call.args or not _several(source, call):
        return False
    work = costly.work(source, call.args[0], call)
    return work is not None and not work.python


def _options(source: Source, given: ast.expr) -> str:
    """The name of the options, in the function of this file that makes them if one does."""
    made = finding.defined(source, finding.called(given), given) if isinstance(given, ast.Call) else None
    back = [n.value for n in scopes.own(made.body) if isinstance(n, ast.Return)] if made is not None else []
    return scopes.dotted(back[0] if len(back) == 1 and back[0] is not None else given)


def _several(source: Source, call: ast.Call) -> bool:
    asked = finding.keyword(call, "num_parallel_calls", 1)
    if asked is None:
        return False
    return values.qualified(source, asked).endswith(".AUTOTUNE") or (visible.number(source, asked) or 0) > 1
