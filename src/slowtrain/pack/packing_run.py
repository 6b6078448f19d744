"""Does what a plan says: checks that it still holds, writes the folder, and makes the edit that reads it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import shlex
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slowtrain.capture.packing import (
    TAKE_BATCHES,
    TAKE_CONTENTS,
    TAKE_RESULTS,
    folder_files,
    record_files,
    shard_writer,
)
from slowtrain.errors import InputError
from slowtrain.model import Place
from slowtrain.model.packing import ARRAY_RECORD, ElementForm, PackedFolder, PackedShard, PackingPlan
from slowtrain.number_text import format_count
from slowtrain.pack import beam_packing
from slowtrain.pack.plan_file import plan_id
from slowtrain.script.fixes.input import grain_reading, packed_reading
from slowtrain.script.locations.edits import packing_edits
from slowtrain.script.locations.edits.packing_edits import PackingPlace
from slowtrain.script.text.source_file import parse_source
from slowtrain.verify.measurement import probe_process
from slowtrain.verify.measurement.edited_files import EditedFiles, patch_root
from slowtrain.verify.measurement.probe_process import Candidate, Probe, Rule, Script, Treatment

MIN_LARGER_FORM_GAIN = 1.2  # times as fast: a form with more bytes has to be, because it fills disks and page caches
MIN_FREE_BYTES = 64 << 20  # that packing leaves on the disk
RESULT_FILE = "result.json"

SayProgress = Callable[[int, int], None]  # elements and bytes


def run_plan(
    plan: PackingPlan, say: SayProgress, beam_options: Sequence[str] | None = None
) -> tuple[PackedFolder, ...]:
    """Writes the folders of a plan, one for each data set, or checks them if they are complete.

    ``beam_options``: of the Apache Beam pipeline that writes them; without, this process does.

    Raises ``InputError`` before it writes anything if the plan no longer holds, the disk has too little room, or a
    folder holds something else; ``EnvironmentMissing`` if a package is missing.
    """
    record_files.require_packages(plan.form.file_format)
    if beam_options is not None:
        beam_packing.require_beam(plan)
    folders = [Path(output) for output in plan.outputs]
    packed = [shard_writer.is_packed_by(folder, part_id(plan, n)) for n, folder in enumerate(folders)]
    if all(packed):
        return tuple(shard_writer.check_packed_folder(folder) for folder in folders)
    for number, folder in enumerate(folders):
        if not packed[number]:
            shard_writer.require_free_name(folder, part_id(plan, number))
    require_same_source(plan)
    require_room(plan)
    folders[0].parent.mkdir(parents=True, exist_ok=True)
    if plan.source.kind == "script":
        return _pack_script(plan, say)
    if beam_options is not None:
        return (beam_packing.pack_folder(plan, part_id(plan, 0), beam_options),)
    from slowtrain.capture.packing import folder_elements  # imports TensorFlow

    return (folder_elements.pack_folder(plan, part_id(plan, 0), say),)


def default_output(target: str, *, module: bool) -> Path:
    """The folder that is written if the user names none."""
    return Path(f"packed-{target if module else Path(target).stem}")


def part_id(plan: PackingPlan, number: int) -> str:
    """Identifies the elements of one data set of a plan."""
    return f"{plan_id(plan)}-{number}"


def require_room(plan: PackingPlan) -> None:
    """Raises ``InputError`` if the disk of the output has too little space for what is still to be written."""
    if plan.bytes is None:
        return
    folders = [Path(name) for output in plan.outputs for name in (output, output + ".part")]
    files = (one for folder in folders for one in folder.rglob("*") if one.is_file())
    written = sum(one.stat().st_size for one in files)
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
        hint = f"apply {plan.patch} first, or make" if plan.patch else "make"
        raise InputError(f"{what} has changed since the plan was made; nothing was written: {hint} the plan again")


def file_digests(paths: Iterable[str], files: EditedFiles | None = None) -> str:
    """SHA-256 of the contents of files; a name that is no file, such as a module's, counts by itself.

    ``files``: contents in place of those on the disk.
    """
    digest, edited = hashlib.sha256(), files.current if files is not None else {}
    for path in sorted(paths):
        digest.update(path.encode() + b"\0")
        if os.path.isfile(path):
            digest.update(edited.get(Path(path)) or Path(path).read_bytes())
    return digest.hexdigest()


# -- a script's data set


def script_of(plan: PackingPlan) -> Script:
    return Script(plan.source.path, plan.source.arguments, plan.source.module)


def place_of(plan: PackingPlan) -> PackingPlace:
    place = Place(plan.source.file, plan.source.line)
    is_batches = plan.form.file_format == ARRAY_RECORD
    return PackingPlace(
        place, plan.marked_edits, True, plan.content_of, len(plan.lengths), plan.function_edits, is_batches
    )


def run_marked_script(
    script: Script,
    place: PackingPlace,
    job: Mapping[str, Any],
    rule: Rule,
    folder: Path,
    files: EditedFiles | None = None,
    **limits: Any,
) -> list[Mapping[str, Any]]:
    """Runs the script with our call at the mark, and returns the result of each data set that it builds there.

    Raises ``InputError`` with the reason if there are not as many as there are outputs in ``job``. ``folder`` and
    ``limits``: as for ``run_probe``. ``files``: edits that the script has already.
    """
    take = TAKE_RESULTS if place.content_of is None else f"{TAKE_CONTENTS}({place.content_of})"
    call = TAKE_BATCHES if place.is_batches else f"apply({take})"
    edits = packing_edits.replace_mark(place.marked_edits, call)
    texts = (files or EditedFiles()).with_edits(edits, os.getcwd()).texts()
    result = folder / RESULT_FILE
    own = [name for output in job["outputs"] for name in (output, output + ".part")]
    candidate = Candidate("pack", texts, Treatment(packing={**job, "result": str(result), "folders": own}))
    found = probe_process.run_probe(script, candidate, rule, folder, **limits)
    values = read_result(result)
    if "error" in values:
        raise InputError(str(values["error"]))
    results: list[Mapping[str, Any]] = values.get("results", [])
    if len(results) < len(job["outputs"]):
        raise InputError(_missing_result_reason(found, len(job["outputs"]), len(results)))
    return results


def read_result(path: Path) -> Mapping[str, Any]:
    """The result or the progress of a packing process; empty if there is none yet."""
    try:
        found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _missing_result_reason(probe: Probe, wanted: int, found: int) -> str:
    if probe.failed and not probe.stopped:
        return f"the script does not come to the data set ({probe.failed}); finished shards are kept"
    built = f"{found} of {format_count(wanted, 'data set')}"
    return f"the script builds {built} at this line before it trains; build all of them first to pack them"


def _pack_script(plan: PackingPlan, say: SayProgress) -> tuple[PackedFolder, ...]:
    job = {
        "outputs": plan.outputs, "plan_id": plan_id(plan), "form": dataclasses.asdict(plan.form),
        "lengths": plan.lengths, "shard_bytes": plan.shard_bytes,
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="slowtrain-pack-") as temporary:
        folder = Path(temporary, "probe")

        def tick(_seconds: float) -> None:
            progress = read_result(folder / RESULT_FILE)
            if "bytes" in progress:
                say(int(progress["elements"]), int(progress["bytes"]))

        found = run_marked_script(script_of(plan), place_of(plan), job, Rule(), folder, limit_s=math.inf, tick=tick)
    return tuple(packed_from_values(one) for one in found)


def packed_from_values(values: Mapping[str, Any]) -> PackedFolder:
    return PackedFolder(**{**values, "shards": tuple(PackedShard(**one) for one in values["shards"])})


# -- reading it


def reading_text(form: ElementForm, packed: Sequence[PackedFolder], tensorflow: str = "tf") -> str:
    """The function that reads packed folders."""
    if form.file_format == ARRAY_RECORD:
        return grain_reading.reading_text(form, packed[0])
    return packed_reading.reading_function(form, packed, tensorflow)


def elements_per_call(form: ElementForm, packed: Sequence[PackedFolder]) -> int:
    """How many elements the text that reads packed folders decodes in one call."""
    return max(form.block, packed_reading.records_together(form, packed))


def reading_files(plan: PackingPlan, packed: Sequence[PackedFolder], files: EditedFiles | None = None) -> EditedFiles:
    """The script's files with the edit that reads ``packed``; for a plan of a script.

    ``files``: edits that the script has already.
    """
    path, files = Path(plan.source.file), files or EditedFiles()
    source = parse_source(str(path), files.text_of(path))
    if source is None:
        raise InputError(f"cannot parse {path} to edit it")
    if plan.form.file_format == ARRAY_RECORD:
        names, imports = packing_edits.reader_names(source)
        function = grain_reading.batches_function(plan.form, packed[0], names)
    else:
        name, imports = packing_edits.tensorflow_name(source)
        function = reading_text(plan.form, packed, name)
    found = packing_edits.reading_edits(source, place_of(plan), function)
    return files.with_edits([*imports, *found], os.getcwd())


def reading_commands(plan: PackingPlan, patch: Path) -> tuple[str, str]:
    """The commands that prove and that apply ``patch``, the one that reads the packed data of ``plan``."""
    script = [*(["-m"] if plan.source.module else []), plan.source.path, *plan.source.arguments]
    top = patch_root([Path(plan.source.file)], Path.cwd())
    verify = ["slowtrain", "verify", "--patch", str(patch), *script]
    return shlex.join(verify), shlex.join(["git", "-C", str(top), "apply", str(patch.resolve())])
