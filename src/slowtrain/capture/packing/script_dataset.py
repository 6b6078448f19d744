"""Packs or samples the data set that a script builds: the script runs, with one call of ours in its text.

``slowtrain pack`` puts ``.apply(take_results)`` behind the operation whose results are packed, or
``.apply(take_contents(n))`` behind the names of files. The call takes the data set from the running script. To pack all
of it, the process ends then; training does not begin. After a sample the script goes on, because a second data set at
the same place shows itself only when it is built.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import tensorflow as tf

from slowtrain.capture.packing import packing_job
from slowtrain.capture.packing.packing_job import PackingJob
from slowtrain.capture.sandbox import probe
from slowtrain.errors import InputError
from slowtrain.model.packing import ElementForm

SEVERAL_DATASETS = (
    "the script builds several data sets at the line whose results would be packed; "
    "build the one to pack at a line of its own"
)

_sampled: list[Any] = []


def take_contents(position: int) -> Callable[[Any], Any]:
    """Returns the function for ``apply`` that takes elements with the content of the file that a part names."""

    def add_content(*element: Any) -> tuple[Any, ...]:
        return (*element, tf.io.read_file(element[position]))

    def take(dataset: Any) -> Any:
        take_results(dataset.map(add_content, num_parallel_calls=tf.data.AUTOTUNE))
        return dataset

    return take


def take_results(dataset: Any) -> Any:
    """Samples or packs the data set, and leaves the result; called by the edited script."""
    values = probe.packing_values()
    if values is None:
        return dataset
    job = job_from_values(values)
    if job.form is not None:
        _leave_result(job, lambda: {"packed": asdict(packing_job.pack_dataset(dataset, job, _progress_writer(job)))})
        probe.exit_at_once()
    if _sampled:
        packing_job.write_result(job, {"error": SEVERAL_DATASETS})
        probe.exit_at_once()
    _sampled.append(dataset)
    if not _leave_result(job, lambda: {"sampled": asdict(packing_job.sample_dataset(dataset, job))}):
        probe.exit_at_once()
    return dataset


def job_from_values(values: dict[str, Any]) -> PackingJob:
    """The job from its JSON values."""
    form = values.get("form")
    return PackingJob(**{**values, "form": ElementForm.from_values(form) if form is not None else None})


def _leave_result(job: PackingJob, work: Callable[[], dict[str, Any]]) -> bool:
    """Does the work and leaves its result, or the reason why there is none. Returns whether it was done."""
    try:
        if not tf.executing_eagerly():
            raise InputError("the data set is built inside a tf.function; build it outside to pack it")
        packing_job.write_result(job, work())
        return True
    except InputError as error:
        packing_job.write_result(job, {"error": str(error)})
        return False


def _progress_writer(job: PackingJob) -> packing_job.SayProgress:
    begun = time.monotonic()

    def say(elements: int, size: int) -> None:
        seconds = time.monotonic() - begun
        packing_job.write_result(job, {"elements": elements, "bytes": size, "seconds": seconds})

    return say
