"""Packs or samples the data set that a script builds: the script runs, with one call of ours in its text.

``slowtrain pack`` puts ``.apply(take_results)`` behind the operation whose results are packed, or
``.apply(take_contents(n))`` behind the names of files. The call takes the data set from the running script. The
script goes on until it has built all of its data sets there; then the process ends. Training does not begin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import tensorflow as tf

from slowtrain.capture.packing import packing_job, shard_writer
from slowtrain.capture.packing.packing_job import PackingJob
from slowtrain.capture.packing.shard_writer import SayProgress
from slowtrain.capture.sandbox import probe
from slowtrain.errors import InputError
from slowtrain.model.packing import ARRAY_RECORD, ElementForm
from slowtrain.number_text import format_count

# One for each data set that was taken: asdict of a SampledDataset, or of a PackedFolder.
_results: list[dict[str, Any]] = []


def take_contents(position: int) -> Callable[[Any], Any]:
    """Returns the function for ``apply`` that takes elements with the content of the file that a part names."""

    def add_content(*element: Any) -> tuple[Any, ...]:
        return (*element, tf.io.read_file(element[position]))

    def take(dataset: Any) -> Any:
        take_results(dataset.map(add_content, num_parallel_calls=tf.data.AUTOTUNE))
        return dataset

    return take


def take_results(dataset: Any, batch: int = 0) -> Any:
    """Samples or packs the data set, and leaves the results so far; called by the edited script.

    ``batch``: rows of a batch of the script, if the data set has the rows of such batches.
    """
    values = probe.packing_values()
    if values is None:
        return dataset
    try:
        job = _next_job(values)
        job = replace(job, file_format=ARRAY_RECORD, block=batch) if batch else job
        _results.append(_packed(dataset, job) if job.form is not None else _sampled(dataset, job))
    except InputError as error:
        end_with_error(error)
    packing_job.write_result(values["result"], {"results": _results})
    if values["form"] is not None and len(_results) == len(values["outputs"]):
        probe.exit_at_once()
    return dataset


def end_with_error(error: InputError) -> None:
    """Leaves the error for the process that started this one, and ends."""
    packing_job.write_result((probe.packing_values() or {})["result"], {"error": str(error)})
    probe.exit_at_once()


def _next_job(values: dict[str, Any]) -> PackingJob:
    """The job for the next data set. Raises ``InputError`` if there is none for it."""
    number, outputs, form = len(_results), values["outputs"], values["form"]
    if not tf.executing_eagerly():
        raise InputError("the data set is built inside a tf.function; build it outside to pack it")
    if number >= len(outputs):
        count = format_count(len(outputs), "data set")
        raise InputError(f"the script builds more than {count} at the line whose results would be packed")
    return PackingJob(
        outputs[number],
        f"{values['plan_id']}-{number}",
        ElementForm.from_values(form) if form is not None else None,
        values["lengths"][number],
        values["shard_bytes"],
        _results[0]["sample"]["elements"] if form is None and _results else None,
        equal_shapes=values.get("equal_shapes", False),
    )


def _packed(dataset: Any, job: PackingJob) -> dict[str, Any]:
    if shard_writer.is_packed_by(Path(job.output), job.plan_id):  # by an earlier process
        return asdict(shard_writer.check_packed_folder(Path(job.output)))
    return asdict(packing_job.pack_datasets([dataset], job, _progress_writer()))


def _sampled(dataset: Any, job: PackingJob) -> dict[str, Any]:
    found = packing_job.sample_dataset(dataset, job)
    if _results and asdict(found.form) != _results[0]["form"]:
        raise InputError("the data sets that the script builds at this line have elements of different kinds")
    return asdict(found)


def _progress_writer() -> SayProgress:
    result = (probe.packing_values() or {})["result"]
    before = sum(one["elements"] for one in _results)
    before_bytes = sum(shard["bytes"] for one in _results for shard in one["shards"])

    def say(elements: int, size: int) -> None:
        packing_job.write_result(result, {"elements": before + elements, "bytes": before_bytes + size})

    return say
