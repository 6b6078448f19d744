"""A plan for a folder: images or other files with their classes, CSV files, NPZ files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from slowtrain.capture.packing import folder_files, record_files, shard_writer
from slowtrain.capture.packing.folder_files import FolderFiles
from slowtrain.errors import InputError
from slowtrain.model.packing import TFRECORD, PackingPlan, PackingSource
from slowtrain.number_text import format_number
from slowtrain.pack import packing_run

SAMPLE_PLAN = "sample"  # in place of a plan's id


def plan_folder(folder: Path, output: Path, work: Path, file_format: str = TFRECORD) -> PackingPlan:
    """The plan for ``folder``; samples are packed in ``work``. Raises ``InputError`` if it cannot be packed.

    ``file_format``: of the files that are written; raises ``EnvironmentMissing`` if this Python lacks its packages.
    """
    record_files.require_packages(file_format)
    files = folder_files.find_files(folder)
    digest = folder_files.folder_digest(folder)
    source = PackingSource(files.kind, str(folder.absolute()), digest, os.getcwd(), class_names=files.class_names)
    first = folder / files.files[0]
    if files.kind == "csv":
        source = replace(source, columns=folder_files.csv_columns(first))
    elif files.kind == "npz":
        source = replace(source, rows=folder_files.has_rows(first))
    plan = _sampled_plan(files, source, output, work / "encoded", file_format)
    return _faster_image_plan(files, plan, output, work / "decoded") if files.are_images else plan


def _sampled_plan(
    files: FolderFiles,
    source: PackingSource,
    output: Path,
    work: Path,
    file_format: str,
    image_shape: tuple[int, ...] | None = None,
) -> PackingPlan:
    from slowtrain.capture.packing import folder_elements, packing_job  # import TensorFlow

    job = packing_job.PackingJob(str(work.absolute()), SAMPLE_PLAN, file_format=file_format)
    found = folder_elements.sample_folder(files, source, image_shape, job)
    elements, sample, target = found.elements, found.sample, output.absolute()
    return PackingPlan(
        source,
        str(target),
        found.form,
        sample,
        (elements,),
        int(elements * sample.element_bytes) if elements is not None else None,
        elements * (sample.source_us + sample.write_us) / 1e6 if elements is not None else None,
        shard_writer.SHARD_BYTES,
        packing_run.free_bytes(target),
    )


def _faster_image_plan(files: FolderFiles, encoded: PackingPlan, output: Path, work: Path) -> PackingPlan:
    """The plan whose images are ready sooner: encoded and decoded again in each epoch, or stored as pixels."""
    from slowtrain.capture.packing import folder_elements  # imports TensorFlow

    shape = folder_elements.first_image_shape(files)
    decoding_us = folder_elements.decoding_us(files)
    encoded = replace(encoded, sample=replace(encoded.sample, work_us=decoding_us))
    ready_us = encoded.sample.ready_us
    figures = f"encoded images are ready in {format_number(ready_us)} µs each"
    try:
        source = replace(encoded.source, decoded=True)
        decoded = _sampled_plan(files, source, output, work, encoded.form.file_format, shape)
    except InputError as error:
        return replace(encoded, rejected=(f"decoded: {error}",))
    pixels = f"{format_number(decoded.sample.read_us)} µs each, {format_number(decoded.sample.element_bytes)} bytes"
    is_faster = packing_run.MIN_LARGER_FORM_GAIN * decoded.sample.read_us < ready_us
    if is_faster and (decoded.bytes or 0) < decoded.free_bytes:
        return replace(decoded, rejected=(f"encoded: {figures}, pixels in {pixels}",))
    why = "the disk has no room for pixels" if is_faster else "pixels are hardly faster"
    return replace(encoded, rejected=(f"decoded: {why}: {pixels}; {figures}",))
