"""Packs a folder in the processes of an Apache Beam pipeline, on this machine or on many.

Each element of the pipeline is a group of files. A worker writes the shards of a group as :mod:`folder_elements` does
for a folder that one process packs. Then this process gives all shards their names. So the result has the same bytes.
The data and the output have to be in folders that all workers see under the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from slowtrain.capture.packing import folder_files, shard_writer
from slowtrain.capture.packing.folder_files import FolderFiles
from slowtrain.errors import EnvironmentMissing, InputError
from slowtrain.model.packing import PackedFolder, PackingPlan

LOCAL_RUNNER = "direct"
LOCAL_RUNNER_CLASS = "FnApiRunner"  # Beam's DirectRunner would download another program that runs the pipeline
MAX_MESSAGE_CHARACTERS = 300
ERROR_SUFFIX = ".error"  # of the file in which a worker says why it cannot pack its group


def require_beam(plan: PackingPlan) -> None:
    """Raises ``InputError`` for a plan that Beam cannot pack, and ``EnvironmentMissing`` without Beam."""
    if plan.source.kind == "script":
        raise InputError("--runner is for the plan of a folder: the data set of a script is packed in its own process")
    if find_spec("apache_beam") is None:
        raise EnvironmentMissing("--runner needs Apache Beam: pip install 'slowtrain[beam]'")


def pack_folder(plan: PackingPlan, plan_id: str, options: Sequence[str]) -> PackedFolder:
    """Writes all elements of the folder of a plan; continues where an earlier process stopped.

    ``options``: of Beam, such as ``--runner=direct``. Raises ``InputError`` that names the file to blame.
    """
    from slowtrain.capture.packing import folder_elements, packing_job  # import TensorFlow

    groups = folder_elements.file_groups(folder_files.find_files(Path(plan.source.path)), plan)
    job = folder_elements.folder_job(plan, plan_id)
    with packing_job.shard_writer_for(job, plan.form) as writer:
        if not writer.is_complete:
            left = list(enumerate(groups))[len(writer.groups) :]
            for path in writer.part.glob(f"*{ERROR_SUFFIX}"):
                path.unlink()
            _run_pipeline(left, plan, plan_id, writer.part, options)
            for number, _ in left:
                folder = group_folder(writer.part, number)
                if not shard_writer.is_packed_by(folder, group_id(plan_id, number)):
                    raise InputError(_failure_of(folder))
                writer.adopt_group(folder)
        return packing_job.finish_packing(writer, plan.elements)


def _run_pipeline(
    groups: Sequence[tuple[int, FolderFiles]], plan: PackingPlan, plan_id: str, part: Path, options: Sequence[str]
) -> None:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    names = [LOCAL_RUNNER_CLASS if one == LOCAL_RUNNER else one for one in options]
    try:
        with beam.Pipeline(options=PipelineOptions(names)) as pipeline:
            left = pipeline | "groups" >> beam.Create(groups) | beam.Reshuffle()
            left | "pack" >> beam.Map(pack_numbered_group, plan, plan_id, str(part))
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[-1][:MAX_MESSAGE_CHARACTERS]
        raise InputError(f"the Beam pipeline failed ({said}); finished groups are kept") from error


def pack_numbered_group(numbered: tuple[int, FolderFiles], plan: PackingPlan, plan_id: str, part: str) -> None:
    """Writes the shards of one group of files into its folder below ``part``; called by Beam in a worker.

    If that cannot be done, a file beside that folder says why.
    """
    from dataclasses import replace

    from slowtrain.capture.packing import folder_elements  # imports TensorFlow

    number, group = numbered
    folder, own_id = group_folder(Path(part), number), group_id(plan_id, number)
    if shard_writer.is_packed_by(folder, own_id):
        return
    job = replace(folder_elements.folder_job(plan, own_id), output=str(folder), elements=None)
    try:
        folder_elements.pack_group(group, plan, job)
    except InputError as error:
        folder.with_suffix(ERROR_SUFFIX).write_text(str(error), encoding="utf-8")


def group_folder(part: Path, number: int) -> Path:
    return part / f"{shard_writer.GROUP_PREFIX}{number:05d}"


def group_id(plan_id: str, number: int) -> str:
    return f"{plan_id}-group-{number}"


def _failure_of(folder: Path) -> str:
    try:
        return folder.with_suffix(ERROR_SUFFIX).read_text(encoding="utf-8")
    except OSError:
        return f"the Beam pipeline ended without {folder}; run the same command again"
