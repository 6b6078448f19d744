"""The text that reads ArrayRecord files, without TensorFlow: as a data set of Grain, or as batches for Keras."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import numpy as np

from slowtrain.model.packing import ElementForm, PackedFolder, PackedPart
from slowtrain.script.fixes.input.packed_reading import READER_NAME

LENGTH_COMMENT = "  # in place of a string: the number of its bytes"
MODULES = ("grain", "keras", "numpy")  # that the text refers to
USUAL_NAMES = {"numpy": "np"}


def fields_type(form: ElementForm) -> np.dtype:
    """The type of the fixed part of a record. The field of a string has the number of its bytes."""
    return np.dtype([_field(part) for part in form.parts])


def reading_text(form: ElementForm, packed: PackedFolder) -> str:
    """The lines that read ``packed``, with their imports."""
    is_batches = form.block > 1
    names = {name: USUAL_NAMES.get(name, name) for name in MODULES if is_batches or name != "keras"}
    lines = [f"import {name}" if name == used else f"import {name} as {used}" for name, used in names.items()]
    function = batches_function(form, packed, names) if is_batches else _elements_function(form, packed)
    return "\n".join([*lines, "", "", function])


def batches_function(form: ElementForm, packed: PackedFolder, names: Mapping[str, str]) -> str:
    """A function that returns a ``PyDataset`` with the batches of ``packed``; ``names``: of :data:`MODULES`."""
    values = form.structure.format(*(f"fields[{_quoted(part.key)}]" for part in form.parts))
    lines = [
        f"def {READER_NAME}():",
        '    """The batches, in their order, from the files that slowtrain pack wrote."""',
        *_file_lines(packed),
        f"    fields_type = {names['numpy']}.dtype({_fields_text(form)})",
        "",
        f"    class PackedBatches({names['keras']}.utils.PyDataset):",
        "        def __init__(self):",
        "            super().__init__()",
        f"            self.records = {names['grain']}.sources.ArrayRecordDataSource(files)",
        "",
        "        def __len__(self):",
        "            return len(self.records)",
        "",
        "        def __getitem__(self, index):",
        f"            fields = {names['numpy']}.frombuffer(self.records[index], fields_type)",
        f"            return {values}",
        "",
        "    return PackedBatches()",
    ]
    return "\n".join(lines) + "\n"


def _elements_function(form: ElementForm, packed: PackedFolder) -> str:
    strings = any(part.storage == "string" for part in form.parts)
    values = form.structure.format(*(f"part_{n}" for n in range(len(form.parts))))
    lines = [
        f"def {READER_NAME}():",
        '    """The elements, in their order, from the files that slowtrain pack wrote."""',
        *_file_lines(packed),
        f"    fields_type = np.dtype({_fields_text(form)}){LENGTH_COMMENT if strings else ''}",
        "",
        "    def decode(record):",
        "        fields = np.frombuffer(record, fields_type, 1)[0]",
        *(["        end = fields_type.itemsize"] if strings else []),
        *(line for n, part in enumerate(form.parts) for line in _decoding_lines(n, part)),
        f"        return {values}",
        "",
        "    return grain.MapDataset.source(grain.sources.ArrayRecordDataSource(files)).map(decode)",
    ]
    return "\n".join(lines) + "\n"


def _file_lines(packed: PackedFolder) -> list[str]:
    return [
        f"    folder, shards = {_quoted(packed.folder)}, {len(packed.shards)}",
        '    files = [f"{folder}/elements-{n:05d}.array_record" for n in range(shards)]',
    ]


def _fields_text(form: ElementForm) -> str:
    fields = [
        ", ".join(_quoted(one) if isinstance(one, str) else repr(one) for one in _field(part)) for part in form.parts
    ]
    return f"[{', '.join(f'({one})' for one in fields)}]"


def _field(part: PackedPart) -> tuple[str, str] | tuple[str, str, tuple[int | None, ...]]:
    if part.storage == "string":
        return part.key, "<u4"
    kind = np.dtype(part.dtype).newbyteorder("<").str
    return (part.key, kind, part.shape) if part.shape else (part.key, kind)


def _decoding_lines(number: int, part: PackedPart) -> Iterator[str]:
    field = f"fields[{_quoted(part.key)}]"
    if part.storage == "string":
        yield f"        start, end = end, end + int({field})"
        yield f"        part_{number} = record[start:end]"
    else:
        yield f"        part_{number} = {field}"


def _quoted(text: str) -> str:
    """The text as a literal with double quotes, as formatters write it."""
    return json.dumps(text, ensure_ascii=False)
