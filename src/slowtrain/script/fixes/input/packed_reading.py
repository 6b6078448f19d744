"""The text that reads packed elements: a function for the script, made for the form of its elements."""

from __future__ import annotations

import json
from collections.abc import Sequence

from slowtrain.model.packing import ElementForm, PackedFolder, PackedPart

READER_NAME = "read_packed"
FOLDERS_NAME = "packed_folders"
READ_BUFFER_BYTES = 8 << 20
# Elements below this size are decoded together: a call takes about as long as copying so many bytes.
MAX_BLOCK_BYTES, MAX_BLOCK_ELEMENTS = 64 << 10, 1024


def elements_together(element_bytes: float) -> int:
    """How many elements of this size are decoded in one call; at least one."""
    return int(max(min(MAX_BLOCK_BYTES // max(element_bytes, 1), MAX_BLOCK_ELEMENTS), 1))


def records_together(form: ElementForm, packed: Sequence[PackedFolder]) -> int:
    """How many records the reading text decodes in one call: several if each holds one small element."""
    if form.block > 1 or any(part.storage == "tensor" for part in form.parts):
        return 1
    return elements_together(sum(one.bytes for one in packed) / max(sum(one.elements for one in packed), 1))


def reading_function(form: ElementForm, packed: Sequence[PackedFolder], tensorflow: str = "tf") -> str:
    """A function of a data set that returns the same elements in the same order from ``packed``.

    Of several folders, the first call reads the first one and so on: they have the order in which the script builds its
    data sets. ``tensorflow`` is the script's name of that module. The function checks the number of elements if the
    data set knows it. Otherwise the length stays unknown: ``fit`` then counts its end as a step of the optimizer.
    """
    tf, together = tensorflow, records_together(form, packed)
    rows, parse = form.block > 1 or together > 1, "parse_example" if together > 1 else "parse_single_example"
    parts = [f"        part_{n} = {_decoded(part, tf, rows=rows)}" for n, part in enumerate(form.parts)]
    values = form.structure.format(*(f"part_{n}" for n in range(len(form.parts))))
    batched = f".batch({together})" if together > 1 else ""
    keys = ", ".join(f"{_quoted(part.key)}: {tf}.io.FixedLenFeature([], {tf}.string)" for part in form.parts)
    figures = [f"({_quoted(one.folder)}, {len(one.shards)}, {one.elements})" for one in packed]
    several = [] if len(packed) == 1 else [
        f"{FOLDERS_NAME} = iter([  # in the order in which the data sets are built",
        *(f"    {one}," for one in figures),
        "])",
        "",
        "",
    ]  # fmt: skip
    lines = [
        *several,
        f"def {READER_NAME}(dataset=None):",
        '    """The elements of the data set, in their order, from the files that slowtrain pack wrote."""',
        f"    folder, shards, elements = {figures[0] if len(packed) == 1 else f'next({FOLDERS_NAME})'}",
        '    files = [f"{folder}/elements-{n:05d}.tfrecord" for n in range(shards)]',
        f"    keys = {{{keys}}}",
        "",
        "    def decode(record):",
        f"        found = {tf}.io.{parse}(record, keys)",
        *parts,
        f"        return {values}",
        "",
        f"    records = {tf}.data.TFRecordDataset(files, buffer_size={READ_BUFFER_BYTES}){batched}",
        f"    packed = records.map(decode, num_parallel_calls={tf}.data.AUTOTUNE){'.unbatch()' if rows else ''}",
        "    if dataset is not None and dataset.cardinality() < 0:",
        "        return packed  # fit counts the end of a data set of unknown length as a step of the optimizer",
        f"    return packed.apply({tf}.data.experimental.assert_cardinality(elements))",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """The text as a literal with double quotes, as formatters write it."""
    return json.dumps(text, ensure_ascii=False)


def _decoded(part: PackedPart, tf: str, *, rows: bool) -> str:
    value = f"found[{_quoted(part.key)}]"
    if part.storage == "string":
        return value
    if part.storage == "tensor":
        parsed = f"{tf}.io.parse_tensor({value}, {tf}.{part.dtype})"
        return parsed if part.shape is None else f"{tf}.ensure_shape({parsed}, {_shape_text(part.shape)})"
    raw = f"{tf}.io.decode_raw({value}, {tf}.{part.dtype})"
    shape = (-1, *(part.shape or ())) if rows else part.shape or ()
    return f"{tf}.reshape({raw}, {_shape_text(shape)})"


def _shape_text(shape: Sequence[int | None]) -> str:
    return repr(list(shape))
