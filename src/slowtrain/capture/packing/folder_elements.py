"""A data set of a folder's elements: files with their classes, rows of CSV files, arrays of NPZ files."""

from __future__ import annotations

import contextlib
import csv
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from slowtrain.capture.packing import folder_files, packing_job
from slowtrain.capture.packing.folder_files import FolderFiles
from slowtrain.capture.packing.packing_job import PackingJob, SampledDataset
from slowtrain.capture.packing.shard_writer import SayProgress
from slowtrain.errors import InputError
from slowtrain.model.packing import PackedFolder, PackingPlan, PackingSource

CSV_CHUNK_ROWS = 1024  # rows that are parsed at once
DECODE_S = 2.0  # of decoding, which decides between encoded and decoded images
GROUP_SHARDS = 8  # about, of a group of files, which one process packs


def pack_folder(plan: PackingPlan, plan_id: str, say: SayProgress) -> PackedFolder:
    """Writes all elements of the folder of a plan. Raises ``InputError`` that names the file to blame."""
    files, shape = folder_files.find_files(Path(plan.source.path)), _image_shape(plan)
    with _naming_the_file(files, shape):
        datasets = (folder_dataset(group, plan.source, shape) for group in file_groups(files, plan))
        return packing_job.pack_datasets(datasets, folder_job(plan, plan_id), say)


def folder_job(plan: PackingPlan, plan_id: str) -> PackingJob:
    return PackingJob(plan.output, plan_id, plan.form, plan.elements, plan.shard_bytes)


def file_groups(files: FolderFiles, plan: PackingPlan) -> list[FolderFiles]:
    """The files in groups whose shards can be written independently. The same files and plan give the same groups."""
    shape = _image_shape(plan)
    return files.groups(GROUP_SHARDS * plan.shard_bytes, files.mean_bytes() if shape is None else float(np.prod(shape)))


def pack_group(group: FolderFiles, plan: PackingPlan, job: PackingJob) -> PackedFolder:
    """Writes the elements of a group of files to the folder of ``job``. Raises ``InputError`` that names the file."""
    shape = _image_shape(plan)
    with _naming_the_file(group, shape):
        return packing_job.pack_datasets([folder_dataset(group, plan.source, shape)], job)


def _image_shape(plan: PackingPlan) -> Any:
    """The shape of all images if they are stored as pixels, else None."""
    return plan.form.parts[0].shape if plan.source.decoded else None


def sample_folder(files: FolderFiles, source: PackingSource, image_shape: Any, job: PackingJob) -> SampledDataset:
    """Packs the first elements of a folder. Raises ``InputError`` that names the file to blame."""
    with _naming_the_file(files, image_shape):
        return packing_job.sample_dataset(folder_dataset(files, source, image_shape), job)


@contextlib.contextmanager
def _naming_the_file(files: FolderFiles, image_shape: Any) -> Iterator[None]:
    """Replaces the failure of an element by one that names its file, where elements are files."""
    try:
        yield
    except packing_job.ElementFailure as failure:
        if files.kind == "files":
            _require_readable(files, failure.element, failure.block, image_shape)
        raise


def folder_dataset(files: FolderFiles, source: PackingSource, image_shape: Any = None) -> Any:
    """The data set of all elements. ``image_shape``: of every image, if they are decoded."""
    if files.kind == "files":
        return _dataset_of_files(files, image_shape)
    if files.kind == "csv":
        signature = {name: tf.TensorSpec([None], tf.as_dtype(dtype)) for name, dtype in source.columns}
        chunks = tf.data.Dataset.from_generator(lambda: _csv_chunks(files, source), output_signature=signature)
        return chunks.unbatch()
    first = folder_files.read_arrays(files.folder / files.first)
    signature = {name: _array_spec(array, rows=source.rows) for name, array in first.items()}
    chunks = tf.data.Dataset.from_generator(lambda: _array_chunks(files, signature), output_signature=signature)
    return chunks.unbatch() if source.rows else chunks


def _dataset_of_files(files: FolderFiles, image_shape: Any) -> Any:
    paths = [str(files.folder / one) for one in files.files]
    labels = np.array(files.labels, np.int64)
    columns = (paths, labels) if files.labels else (paths,)

    def read(path: Any, *label: Any) -> Any:
        content = tf.io.read_file(path)
        value = content if image_shape is None else _decoded_image(content, image_shape)
        return (value, *label) if label else value

    return tf.data.Dataset.from_tensor_slices(columns).map(read, num_parallel_calls=tf.data.AUTOTUNE)


def _decoded_image(content: Any, shape: Any) -> Any:
    return tf.ensure_shape(tf.io.decode_image(content, expand_animations=False), shape)


def _require_readable(files: FolderFiles, first: int, count: int, image_shape: Any) -> None:
    """Raises ``InputError`` for the first file, of ``count`` from ``first`` on, that cannot be read or decoded."""
    for name in files.files[first : first + count]:
        path = files.folder / name
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(f"cannot read {path} ({error.strerror}); finished shards are kept") from None
        if image_shape is None:
            continue
        try:
            shape = tuple(tf.io.decode_image(content, expand_animations=False).shape)
        except tf.errors.OpError:
            raise InputError(f"{path} is not an image that TensorFlow decodes; finished shards are kept") from None
        if shape != tuple(image_shape):
            raise InputError(f"{path} has the shape {shape} and others {tuple(image_shape)}: ragged data; pack encoded")


# -- rows


def _csv_chunks(files: FolderFiles, source: PackingSource) -> Iterator[dict[str, Any]]:
    """The columns of up to ``CSV_CHUNK_ROWS`` rows at a time."""
    for name in files.files:
        path = files.folder / name
        names = [column for column, _ in folder_files.csv_columns(path)]
        if names != [column for column, _ in source.columns]:
            raise InputError(f"{path} has other columns than the first file")
        line = 2
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            next(rows)
            while chunk := list(itertools.islice(rows, CSV_CHUNK_ROWS)):
                folder_files.require_equal_lengths(path, len(source.columns), chunk, line)
                yield {
                    name: _column_values(path, line, [row[n] for row in chunk], dtype)
                    for n, (name, dtype) in enumerate(source.columns)
                }
                line += len(chunk)


def _column_values(path: Path, line: int, values: list[str], dtype: str) -> Any:
    if dtype == "string":
        return np.array([one.encode() for one in values], np.object_)
    try:
        return np.array([int(one) for one in values], np.int64) if dtype == "int64" else np.array(values, np.float32)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path}, from line {line} on: {error}; the first rows have {dtype} in this column") from None


def _array_spec(array: Any, *, rows: bool) -> Any:
    return tf.TensorSpec([None, *array.shape[1:]] if rows else array.shape, array.dtype)


def _array_chunks(files: FolderFiles, signature: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in files.files:
        path = files.folder / name
        arrays = folder_files.read_arrays(path)
        for key, spec in signature.items():
            if key not in arrays:
                raise InputError(f"{path} has no array {key}")
            if not spec.is_compatible_with(tf.TensorSpec(arrays[key].shape, arrays[key].dtype)):
                raise InputError(
                    f"{path}: {key} has the shape {arrays[key].shape} and others {tuple(spec.shape)}: ragged data"
                )
        yield {key: arrays[key] for key in signature}


# -- encoded or decoded


def first_image_shape(files: FolderFiles) -> tuple[int, ...]:
    """The shape of the first image. Raises ``InputError`` if it is none."""
    _require_readable(files, 0, 1, None)
    path = files.folder / files.files[0]
    try:
        return tuple(tf.io.decode_image(path.read_bytes(), expand_animations=False).shape)
    except tf.errors.OpError:
        raise InputError(f"{path} is not an image that TensorFlow decodes") from None


def decoding_us(files: FolderFiles) -> float:
    """µs to decode an image of the folder with all cores, without reading it."""
    contents = [(files.folder / one).read_bytes() for one in files.files[:256]]

    def decode(content: Any) -> Any:
        return tf.reduce_sum(tf.cast(tf.shape(tf.io.decode_image(content, expand_animations=False)), tf.int64))

    dataset = tf.data.Dataset.from_tensor_slices(contents).repeat().map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    rows = iter(dataset.batch(16))
    next(rows)
    begun, count = time.perf_counter(), 0
    while time.perf_counter() - begun < DECODE_S:
        next(rows)
        count += 16
    return 1e6 * (time.perf_counter() - begun) / count
