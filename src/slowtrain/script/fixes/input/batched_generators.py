"""Edits that let a generator behind ``from_generator`` yield batches instead of single samples."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.navigation import name_bindings, node_lookup
from slowtrain.script.pipelines import chain_edits, dataset_chains
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

HELPER_NAME = "batched_generator"
CHUNK_SAMPLES = 32  # samples per yield if an operation stands between the generator and ``batch``
HELPER_CODE = '''
def {name}(generator, spec, size, drop_remainder=False):
    """The samples of ``generator`` in the same order, handed to TensorFlow a batch at a time."""

    def parts(sample, spec):
        if isinstance(spec, dict):
            return [part for key in sorted(spec) for part in parts(sample[key], spec[key])]
        if isinstance(spec, tuple):
            return [part for one, inner in zip(sample, spec) for part in parts(one, inner)]
        return [{np}.array(sample, spec.dtype.as_numpy_dtype)]

    def batches():
        samples = iter(generator())
        while chunk := [parts(one, spec) for one in {itertools}.islice(samples, size)]:
            if len(chunk) == size or not drop_remainder:
                yield {tf}.nest.pack_sequence_as(spec, [{np}.stack(part) for part in zip(*chunk)])

    first = [size if drop_remainder else None]
    whole = {tf}.nest.map_structure(lambda part: {tf}.TensorSpec(first + part.shape.as_list(), part.dtype), spec)
    return {tf}.data.Dataset.from_generator(batches, output_signature=whole)

'''


def yield_batches(source: Source, line: int) -> list[Edit]:
    """Let the generator of ``from_generator(f, output_signature=s).batch(n)`` at ``line`` yield batches.

    Without ``batch`` directly behind it, ``unbatch()`` follows. Samples, order and random draws stay the same.
    """
    call = node_lookup.single_call(source, line, "from_generator")
    if call is None or HELPER_NAME in source.text or not dataset_chains.makes_dataset(source, call):
        return []
    taken = {k.arg for k in call.keywords}
    generator, spec = (
        node_lookup.argument_value(call, "generator", 0),
        node_lookup.argument_value(call, "output_signature", 4),
    )
    if generator is None or spec is None or len(call.args) > 1 or not taken <= {"generator", "output_signature"}:
        return []
    top: ast.AST | None = call
    above = node_lookup.parents_of(source)
    while top is not None and not isinstance(above.get(top), ast.Module):
        top = above.get(top)
    if not has_known_shapes(source, spec, call) or not isinstance(top, ast.stmt):
        return []
    several = dataset_chains.chains_through(source, call)
    after = several[0].after(call) if len(several) == 1 else ()
    size, drop, gone = _batch_after(source, call, after[0]) if after else ("", "", [])
    given = [
        edits.node_text(source, generator),
        edits.node_text(source, spec),
        size or str(CHUNK_SAMPLES),
        *([drop] if drop else []),
    ]
    made = f"{HELPER_NAME}({', '.join(given)})" + ("" if size else ".unbatch()")
    names, more = {}, []
    for module, usual in (("tensorflow", "tf"), ("numpy", "np"), ("itertools", "itertools")):
        names[usual], also = edits.ensure_import(source, module, usual)
        more += also
    return [
        *more,
        edits.insert_before(source, top, HELPER_CODE.format(name=HELPER_NAME, **names)),
        edits.replace_node(source, call, made),
        *gone,
    ]


def _batch_after(source: Source, call: ast.Call, batch: ast.Call) -> tuple[str, str, list[Edit]]:
    """Return the batch size, the text of the chain without ``batch``, and further edits."""
    nothing: tuple[str, str, list[Edit]] = ("", "", [])
    if node_lookup.called_name(batch) != "batch" or not isinstance(batch.func, ast.Attribute):
        return nothing
    size, drop = (
        node_lookup.argument_value(batch, "batch_size", 0),
        node_lookup.argument_value(batch, "drop_remainder", 1),
    )
    if size is None or len(batch.args) > 2 or not {k.arg for k in batch.keywords} <= {"batch_size", "drop_remainder"}:
        return nothing
    if not chain_edits.are_movable(source, [call, batch]):
        return nothing
    without = Edit(source.file, edits.node_end(batch.func.value), edits.node_end(batch), "")
    return edits.node_text(source, size), edits.node_text(source, drop) if drop is not None else "", [without]


def has_known_shapes(source: Source, spec: ast.expr, near: ast.AST) -> bool:
    """Whether every part of a signature is a tensor with a fully known shape."""
    if isinstance(spec, ast.Name):
        value = dataset_chains.last_assignment(source, spec, near)
        return value is not None and not isinstance(value, ast.Name) and has_known_shapes(source, value, value)
    if isinstance(spec, ast.Tuple):
        return bool(spec.elts) and all(has_known_shapes(source, e, near) for e in spec.elts)
    if isinstance(spec, ast.Dict):
        return (
            bool(spec.values) and None not in spec.keys and all(has_known_shapes(source, v, near) for v in spec.values)
        )
    if not isinstance(spec, ast.Call) or name_bindings.qualified_name(source, spec.func) != "tensorflow.TensorSpec":
        return False
    shape = node_lookup.argument_value(spec, "shape", 0)
    dims = shape.elts if isinstance(shape, (ast.Tuple, ast.List)) else [shape]
    open_ = (d is None or isinstance(d, ast.Starred) or (isinstance(d, ast.Constant) and d.value is None) for d in dims)
    return isinstance(shape, (ast.Tuple, ast.List)) and not any(open_)
