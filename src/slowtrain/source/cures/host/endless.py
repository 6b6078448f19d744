"""``fit`` that goes on with one iterator over its data, instead of a new one for each epoch."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.source import Source, edits
from slowtrain.source.reading import finding, kinds

# What Keras takes of arrays alone, or counts by the batch that it makes itself.
OF_ARRAYS = ("validation_split", "sample_weight", "shuffle")
KERAS_BATCH = "32"


def repeated(source: Source, line: int) -> list[Edit]:
    """``fit(ds)`` at ``line`` as ``fit(ds.repeat(), steps_per_epoch=len(ds))``; arrays become a data set first."""
    call = finding.only(source, line, "fit")
    if call is None or any(k.arg is None for k in call.keywords) or finding.keyword(call, "steps_per_epoch"):
        return []
    x, y = finding.keyword(call, "x", 0), finding.keyword(call, "y", 1)
    if y is not None:
        return _of_arrays(source, call, x, y)
    if x is None or not isinstance(x, ast.Name) or not kinds.dataset(source, x):
        return []
    return [*edits.chained(source, x, ".repeat()"), edits.keyword(source, call, "steps_per_epoch", f"len({x.id})")]


def _of_arrays(source: Source, call: ast.Call, x: ast.expr | None, y: ast.expr) -> list[Edit]:
    """Arrays that have names; their lengths must be one, and neither may be a list of several inputs."""
    if not isinstance(x, ast.Name) or not isinstance(y, ast.Name) or len(call.args) not in (0, 2):
        return []
    if kinds.of(source, x) != kinds.ARRAY or kinds.of(source, y) != kinds.ARRAY:
        return []
    if any(finding.keyword(call, name) is not None for name in OF_ARRAYS):
        return []
    batch = finding.keyword(call, "batch_size")
    if batch is not None and not isinstance(batch, (ast.Constant, ast.Name, ast.Attribute)):
        return []
    size = edits.written(source, batch) if batch is not None else KERAS_BATCH
    tf, imports = edits.imported(source, "tensorflow", "tf")
    made = f"{tf}.data.Dataset.from_tensor_slices(({x.id}, {y.id})).shuffle(len({x.id})).batch({size}).repeat()"
    steps = edits.keyword(source, call, "steps_per_epoch", f"-(-len({x.id}) // {size})")
    given = {k.value: k for k in call.keywords}
    if y in given or x in given:
        if not (x in given and y in given):
            return []
        first = [edits.replace(source, x, made), *edits.without_keyword(source, call, "y")]
    else:
        first = [Edit(source.file, edits.start(x), edits.end(y), made)]
    dropped = edits.without_keyword(source, call, "batch_size") if batch is not None else []
    return [*imports, *first, *dropped, steps]
