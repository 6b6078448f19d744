"""A plan for the data set that a script builds: found in a recording, sampled, priced and proven on the sample."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slowtrain import diagnose
from slowtrain.capture.packing import shard_writer
from slowtrain.causes import class_of
from slowtrain.columns.input_pipeline import Node
from slowtrain.errors import InputError
from slowtrain.model import Effect, Place, Saving, Verdict
from slowtrain.model.packing import ElementForm, PackedFolder, PackingPlan, PackingSample, PackingSource
from slowtrain.pack import packing_run
from slowtrain.pricing import price_remedies
from slowtrain.script.locations.edits import packing_edits
from slowtrain.script.locations.edits.packing_edits import PackingPlace
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace
from slowtrain.trace.signals import input_feed
from slowtrain.verify.measurement import probe_process
from slowtrain.verify.measurement.candidate_proof import MIN_PROOF_S, MIN_PROOF_STEPS
from slowtrain.verify.measurement.edited_files import EditedFiles
from slowtrain.verify.measurement.paired_trial import Bench, run_trial
from slowtrain.verify.measurement.probe_process import Candidate, Rule
from slowtrain.whatif import Supply

DIAGNOSIS_S = 20.0  # of training: two profiler windows
SAMPLING_SHARE = 0.3  # of the time left may go into the sample
SAMPLE_PLAN = "sample"  # in place of a plan's id
NO_PLACE = (
    "packing needs a map, from_generator, interleave or flat_map that is built once and gives the same results in each "
    "epoch; the text shows none in the pipeline of {script} (random ops, files in random order, a data set that is "
    "built in a loop or in another file)"
)


@dataclass(frozen=True)
class SampledPlace:
    """What the sample of a place showed. ``folder``: the packed sample; ``is_whole``: it is all of the data."""

    values: dict[str, Any]
    folder: PackedFolder

    @property
    def sample(self) -> PackingSample:
        return PackingSample(**self.values["sample"])

    @property
    def is_whole(self) -> bool:
        return bool(self.values["is_whole"])


def plan_script(bench: Bench, output: Path, recording: Path | None = None) -> PackingPlan:
    """The plan for the script of ``bench``. ``recording``: of this script; else it is recorded first.

    Raises ``InputError`` if the script does not run, or has nothing that can be packed.
    """
    trace = recording_trace.load_recording(recording) if recording is not None else _record(bench)
    findings = diagnose.diagnose_trace(trace)
    place = packing_edits.find_packing_place(trace, _places(trace, findings))
    if place is None:
        raise InputError(NO_PLACE.format(script=bench.script.target))
    place = replace(place, marked_edits=tuple(_with_full_name(trace, edit) for edit in place.marked_edits))
    bench.say("sampling the elements")
    sampled = _sample_place(bench, place)
    plan = _plan_of(bench, output, place, sampled)
    plan = replace(plan, saving=packing_saving(trace, place.place, plan.sample))
    bench.say("measuring the packed sample")
    verdict, note = _prove_on_sample(bench, plan, sampled, place)
    return replace(plan, proof=verdict, notes=(*plan.notes, *([note] if note else [])))


def _record(bench: Bench) -> Trace:
    bench.say("recording the script")
    folder = bench.folder / "recording"
    rule = Rule(seconds=DIAGNOSIS_S, steps=MIN_PROOF_STEPS, windows=True)
    found = probe_process.run_probe(
        bench.script,
        Candidate("script"),
        rule,
        folder,
        limit_s=max(bench.left_s, 1.0),
        seed=bench.seed,
        tick=bench.tick,
    )
    if found.failed:
        raise InputError(f"the script does not run ({found.failed}); there is nothing to pack")
    return recording_trace.load_recording(folder)


def _places(trace: Trace, findings: diagnose.Findings) -> Iterator[Place]:
    """Lines whose results may be worth packing: of causes that packing cures, then of the slowest stages."""
    for diagnosis in findings.diagnoses:
        if class_of(diagnosis.cause).cured_by_packing:
            yield from diagnosis.evidence.where
    pipe = trace.pipeline
    for node in input_feed.slowest_stage_nodes(pipe) if pipe is not None else ():
        yield from input_feed.user_lines(node)
    for written in pipe.written if pipe is not None else ():
        yield from [written.place] if written.place is not None else []


def _with_full_name(trace: Trace, edit: Any) -> Any:
    return replace(edit, file=os.path.abspath(os.path.join(trace.root, edit.file)))


def _sample_place(bench: Bench, place: PackingPlace) -> SampledPlace:
    output = bench.folder / "sample"
    job = {"output": str(output.absolute()), "plan_id": SAMPLE_PLAN, "shard_bytes": shard_writer.SHARD_BYTES}
    values = packing_run.run_marked_script(
        bench.script,
        place.marked_edits,
        job,
        Rule(seconds=0.1, steps=1),
        (bench.folder / "sampling").absolute(),
        limit_s=max(SAMPLING_SHARE * bench.left_s, 60.0),
        seed=bench.seed,
        tick=bench.tick,
    )
    return SampledPlace(values["sampled"], shard_writer.check_packed_folder(output.absolute()))


def _plan_of(bench: Bench, output: Path, place: PackingPlace, sampled: SampledPlace) -> PackingPlan:
    sample, elements = sampled.sample, sampled.values["elements"]
    script, file = os.path.abspath(bench.script.target), place.marked_edits[0].file
    path = bench.script.target if bench.script.module else script
    source = PackingSource(
        "script",
        path,
        packing_run.file_digests({path, file}),
        os.getcwd(),
        bench.script.arguments,
        bench.script.module,
        file,
        place.place.line,
    )
    output = output.absolute()
    return PackingPlan(
        source,
        str(output),
        ElementForm.from_values(sampled.values["form"]),
        sample,
        elements,
        int(elements * sample.element_bytes) if elements is not None else None,
        elements * (sample.source_us + sample.write_us) / 1e6 if elements is not None else None,
        shard_writer.SHARD_BYTES,
        packing_run.free_bytes(output),
        place.marked_edits,
        notes=() if place.same_order else ("shuffle moves behind the packed elements: another order of random draws",),
    )


def packing_saving(trace: Trace, place: Place, sample: PackingSample) -> Saving | None:
    """What reading packed elements saves of a step, by replaying the recorded pipeline; None if it is unknown there."""
    pipe = trace.pipeline
    node = next((n for n in pipe.nodes if place in input_feed.user_lines(n)), None) if pipe is not None else None
    if pipe is None or node is None:
        return None
    count = input_feed.calls_per_batch(pipe, node)
    upstream: list[Node] = [replace(n, ms=0.0) for n in pipe.upstream_nodes(node)]
    read = replace(node, ms=count * sample.read_us / 1e3, parallelism=1.0)
    supply = Supply(pipeline=pipe.with_nodes(read, *upstream), spread=(0.7, 1.1))
    return price_remedies(trace, [supply], "step")


def _prove_on_sample(
    bench: Bench, plan: PackingPlan, sampled: SampledPlace, place: PackingPlace
) -> tuple[Verdict | None, str]:
    """Runs the script with the sample read as now and read packed, in turn, by the rules of ``fix``."""
    limited = packing_edits.replace_mark(place.marked_edits, f"take({sampled.folder.elements})")
    texts = {} if sampled.is_whole else EditedFiles().with_edits(limited, os.getcwd()).texts()
    candidate = Candidate("packed", packing_run.reading_files(plan, sampled.folder).texts())
    rule = Rule(seconds=MIN_PROOF_S, steps=MIN_PROOF_STEPS)
    trial = run_trial(bench, Candidate("baseline", texts), candidate, rule, "step")
    if trial.failed:
        return None, f"not proven: {trial.failed}"
    effect = Effect.EXACT if place.same_order else Effect.EQUIVALENT
    parity = trial.parity(effect)
    note = f"the losses are not those of the unchanged data set: {parity.says}" if parity.holds is False else ""
    return trial.verdict(effect), note
