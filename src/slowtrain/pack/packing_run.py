"""Does what a plan says: checks that it still holds, writes the folder, and makes the edit that reads it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from slowtrain.capture.packing import TAKE_CONTENTS, TAKE_RESULTS, folder_files, shard_writer
from slowtrain.errors import InputError
from slowtrain.model import Place
from slowtrain.model.measurements import ChangedFile
from slowtrain.model.packing import ElementForm, PackedFolder, PackedShard, PackingPlan
from slowtrain.pack.plan_file import plan_id
from slowtrain.script.fixes.input import packed_reading
from slowtrain.script.locations.edits import packing_edits
from slowtrain.script.locations.edits.packing_edits import PackingPlace
from slowtrain.script.text.source_file import parse_source
from slowtrain.verify.measurement import probe_process
from slowtrain.verify.measurement.edited_files import EditedFiles
from slowtrain.verify.measurement.probe_process import Candidate, Probe, Rule, Script, Treatment

MIN_FREE_BYTES = 64 << 20  # that packing leaves on the disk
RESULT_FILE = "result.json"

SayProgress = Callable[[int, int], None]  # elements and bytes


def run_plan(plan: PackingPlan, say: SayProgress) -> PackedFolder:
    """Writes the folder of a plan, or checks it if it is complete. Raises ``InputError`` before it writes anything if
    the plan no longer holds, the disk has too little room, or the folder holds something else.
    """
    folder = Path(plan.output)
    if shard_writer.is_packed_by(folder, plan_id(plan)):
        return shard_writer.check_packed_folder(folder)
    shard_writer.require_free_name(folder, plan_id(plan))
    require_same_source(plan)
    require_room(plan)
    if plan.source.kind == "script":
        return _pack_script(plan, say)
    from slowtrain.capture.packing import folder_elements  # imports TensorFlow

    return folder_elements.pack_folder(plan, plan_id(plan), say)


def require_room(plan: PackingPlan) -> None:
    """Raises ``InputError`` if the disk of the output has too little space for what is still to be written."""
    if plan.bytes is None:
        return
    part = Path(plan.output + ".part")
    written = sum(one.stat().st_size for one in part.iterdir()) if part.is_dir() else 0
    needed, free = plan.bytes - written + MIN_FREE_BYTES, free_bytes(Path(plan.output))
    if needed > free:
        raise InputError(
            f"{plan.output} needs {needed / 2**20:,.0f} MiB and its disk has {free / 2**20:,.0f} MiB; nothing was "
            "written: make room, or make a plan with another --to"
        )


def free_bytes(output: Path) -> int:
    """Free bytes on the disk where ``output`` will be."""
    parent = next(one for one in output.absolute().parents if one.is_dir())
    disk = os.statvfs(parent)
    return disk.f_bavail * disk.f_frsize


def require_same_source(plan: PackingPlan) -> None:
    """Raises ``InputError`` if the script or the folder has changed since the plan was made."""
    source = plan.source
    if source.kind == "script":
        if os.path.realpath(source.folder) != os.path.realpath(os.getcwd()):
            raise InputError(f"the plan's script ran in {source.folder}; run this command there")
        digest, what = file_digests({source.path, source.file}), " or ".join(sorted({source.path, source.file}))
    else:
        digest, what = folder_files.folder_digest(Path(source.path)), source.path
    if digest != source.digest:
        raise InputError(f"{what} has changed since the plan was made; nothing was written: make the plan again")


def file_digests(paths: Iterable[str]) -> str:
    """SHA-256 of the contents of files; a name that is no file, such as a module's, counts by itself."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.encode() + b"\0")
        if os.path.isfile(path):
            digest.update(Path(path).read_bytes())
    return digest.hexdigest()


# -- a script's data set


def script_of(plan: PackingPlan) -> Script:
    return Script(plan.source.path, plan.source.arguments, plan.source.module)


def place_of(plan: PackingPlan) -> PackingPlace:
    place = Place(plan.source.file, plan.source.line)
    return PackingPlace(place, plan.marked_edits, True, plan.content_of, plan.function_edits)


def run_marked_script(
    script: Script, place: PackingPlace, job: Mapping[str, Any], rule: Rule, folder: Path, **limits: Any
) -> Mapping[str, Any]:
    """Runs the script with our call at the mark, and returns the result that it leaves.

    Raises ``InputError`` with the reason if it leaves none. ``limits``: as for ``run_probe``.
    """
    take = TAKE_RESULTS if place.content_of is None else f"{TAKE_CONTENTS}({place.content_of})"
    edits = packing_edits.replace_mark(place.marked_edits, f"apply({take})")
    texts = EditedFiles().with_edits(edits, os.getcwd()).texts()
    result = folder / RESULT_FILE
    output = str(job["output"])
    packing = {**job, "result": str(result), "folders": [output, output + ".part"]}
    folder.mkdir(parents=True, exist_ok=True)
    found = probe_process.run_probe(
        script, Candidate("pack", texts, Treatment(packing=packing)), rule, folder / "probe", **limits
    )
    values = read_result(result)
    if "error" in values:
        raise InputError(str(values["error"]))
    if "packed" not in values and "sampled" not in values:
        raise InputError(_missing_result_reason(found))
    return values


def read_result(path: Path) -> Mapping[str, Any]:
    """The result or the progress of a packing process; empty if there is none yet."""
    try:
        found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _missing_result_reason(probe: Probe) -> str:
    if probe.failed and not probe.failed.startswith(("no recording", "it recorded")):
        return f"the script does not come to the data set ({probe.failed}); finished shards are kept"
    return "the script ended without building the data set of the plan; make the plan again"


def _pack_script(plan: PackingPlan, say: SayProgress) -> PackedFolder:
    Path(plan.output).parent.mkdir(parents=True, exist_ok=True)
    job = {
        "output": plan.output, "plan_id": plan_id(plan), "form": dataclasses.asdict(plan.form),
        "elements": plan.elements, "shard_bytes": plan.shard_bytes,
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="slowtrain-pack-") as temporary:
        folder = Path(temporary)

        def tick(_seconds: float) -> None:
            progress = read_result(folder / RESULT_FILE)
            if "bytes" in progress:
                say(int(progress["elements"]), int(progress["bytes"]))

        found = run_marked_script(script_of(plan), place_of(plan), job, Rule(), folder, limit_s=math.inf, tick=tick)
    return packed_from_values(found["packed"])


def packed_from_values(values: Mapping[str, Any]) -> PackedFolder:
    return PackedFolder(**{**values, "shards": tuple(PackedShard(**one) for one in values["shards"])})


# -- reading it


def reading_text(form: ElementForm, packed: PackedFolder, tensorflow: str = "tf") -> str:
    """The function that reads a packed folder."""
    files = [shard.file for shard in packed.shards]
    return packed_reading.reading_function(form, packed.folder, files, packed.elements, tensorflow)


def reading_files(plan: PackingPlan, packed: PackedFolder) -> EditedFiles:
    """The script's files with the edit that reads ``packed``; for a plan of a script."""
    path = Path(plan.source.file)
    source = parse_source(str(path), path.read_text(encoding="utf-8"))
    if source is None:
        raise InputError(f"cannot parse {path} to edit it")
    name, imports = packing_edits.tensorflow_name(source)
    found = packing_edits.reading_edits(source, place_of(plan), reading_text(plan.form, packed, name))
    return EditedFiles().with_edits([*imports, *found], os.getcwd())


def changed_files(plan: PackingPlan, packed: PackedFolder) -> tuple[ChangedFile, ...]:
    return reading_files(plan, packed).changed_files()
