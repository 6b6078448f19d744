"""A plan for the data set that a script builds: found in a recording, sampled, priced and proven on the sample."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from slowtrain import diagnose
from slowtrain.capture.packing import record_files, shard_writer
from slowtrain.causes import class_of
from slowtrain.columns.input_pipeline import Node
from slowtrain.errors import InputError
from slowtrain.model import Edit, Effect, Place, Saving
from slowtrain.model.measurements import Attempt
from slowtrain.model.packing import ARRAY_RECORD, ElementForm, PackedFolder, PackingPlan, PackingSample, PackingSource
from slowtrain.number_text import format_count, format_number
from slowtrain.pack import packing_run
from slowtrain.pricing import price_remedies
from slowtrain.report.packing import price_text
from slowtrain.script.locations.edits import packing_edits
from slowtrain.script.locations.edits.packing_edits import PackingPlace
from slowtrain.script.text.source_file import parse_source
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace
from slowtrain.trace.signals import input_feed
from slowtrain.verify.measurement import probe_process
from slowtrain.verify.measurement.candidate_proof import MIN_PAIRS, MIN_PROOF_S, MIN_PROOF_STEPS, judge_trial
from slowtrain.verify.measurement.edited_files import EditedFiles
from slowtrain.verify.measurement.paired_trial import Bench, run_trial
from slowtrain.verify.measurement.probe_process import Candidate, Rule
from slowtrain.whatif import Supply

DIAGNOSIS_S = 20.0  # of training: two profiler windows
SAMPLING_SHARE = 0.3  # of the time left may go into the sample
MAKING_FAMILIES = frozenset({"Map", "FlatMap", "Interleave", "Generator"})
PASSING_FAMILIES = frozenset({"Shuffle", "Repeat", "Take", "Skip", "Cache", "Prefetch", "Options"})
NOT_PROVEN = "the gain of a step is not proven, because the sample is not all of the data; prove the patch with verify"
READING_NODE = "ParallelMapV2"  # of the text that reads packed elements
SAMPLE_PLAN = "sample"  # in place of a plan's id
NO_ROOM = "the disk has too little room for the packed data"
NO_PLACE = (
    "packing needs a map, from_generator, interleave or flat_map that is built once and gives the same results in each "
    "epoch; the text shows none in the pipeline of {script}; if you know that one is, name it with --at {at}"
)
NO_NAMED_PLACE = (
    "--at {at}: name a line of {script} with one call of map, from_generator, interleave or flat_map, outside loops "
    "and in no function that a loop calls"
)

NO_BATCHES = (
    "{file} needs one call of fit, outside loops and in no function that is called several times, whose data is a "
    "PyDataset; if there are several calls, name the line of one with --at FILE:LINE"
)


class NothingToPack(InputError):
    """The text of the script shows nothing that can be packed.

    ``named``: ``FILE:LINE`` of a line that could be packed if the user knows its results to be the same; or empty.
    """

    def __init__(self, script: str, named: str) -> None:
        super().__init__(NO_PLACE.format(script=script, at=named or "FILE:LINE"))
        self.named = named


@dataclass(frozen=True)
class SampledPlace:
    """What the sample of a place showed: the ``values`` of each data set, and its packed elements in ``folders``."""

    values: Sequence[Mapping[str, Any]]
    folders: tuple[PackedFolder, ...]
    work_us: float = 0.0

    @property
    def sample(self) -> PackingSample:
        """Of the first data set, which is the one for training as a rule."""
        return PackingSample(**{**self.values[0]["sample"], "work_us": self.work_us})

    @property
    def lengths(self) -> tuple[int | None, ...]:
        return tuple(one["elements"] for one in self.values)

    @property
    def elements(self) -> int | None:
        return sum(n or 0 for n in self.lengths) if None not in self.lengths else None

    @property
    def total_bytes(self) -> int | None:
        """Of all elements; None if their number is unknown."""
        return int(self.elements * self.sample.element_bytes) if self.elements is not None else None

    @property
    def is_whole(self) -> bool:
        """Whether the sample is all of the data."""
        return all(one["is_whole"] for one in self.values)


def plan_script(bench: Bench, output: Path, recording: Path | None = None, at: Place | None = None) -> PackingPlan:
    """The plan for the script of ``bench``. ``recording``: of this script; else it is recorded first.

    ``at``: the line whose results are packed; else one whose text shows that they are the same in every epoch.

    Raises ``InputError`` if the script does not run, and ``NothingToPack`` if it has nothing that can be packed.
    """
    return try_packing(bench, output, recording, at)[0]


def try_packing(
    bench: Bench,
    output: Path,
    recording: Path | None = None,
    at: Place | None = None,
    files: EditedFiles | None = None,
) -> tuple[PackingPlan, Attempt]:
    """The plan of :func:`plan_script`, and the attempt with the sample, ``kept`` if it was proven.

    ``files``: edits of the script that ``recording`` has already. The plan is for the script with these edits.
    """
    files = files or EditedFiles()
    trace = recording_trace.load_recording(recording) if recording is not None else _record(bench)
    found = [_completed_place(trace, one) for one in _packing_places(bench, trace, at)]
    node = _node_at(trace, found[0].place)
    parallelism = max(node.parallelism or 1.0, 1.0) if node else 1.0
    place, sampled, rejected = _faster_place(bench, output, found, parallelism, files)
    plan = replace(_plan_of(bench, output, place, sampled, files), rejected=rejected)
    together = packing_run.elements_per_call(plan.form, sampled.folders)
    plan = replace(plan, saving=packing_saving(trace, place.place, plan.sample, together))
    attempt = _try_sample(bench, plan, sampled, place, files)
    return _with_proof(plan, attempt), attempt


def _with_proof(plan: PackingPlan, attempt: Attempt) -> PackingPlan:
    verdict = attempt.verdict
    notes = [f"not proven: {attempt.why}"] if verdict is None or verdict.loss == "differs" else []
    return replace(plan, proof=verdict, notes=(*plan.notes, *notes))


def plan_batches(bench: Bench, output: Path, at: Place | None) -> PackingPlan:
    """The plan for the ``PyDataset`` that the script of ``bench`` gives to ``fit``; ``at``: the line of that call.

    Its batches become records of ArrayRecord files, which a script without TensorFlow reads.

    Raises ``InputError`` if there is no such data, or it cannot be packed; ``EnvironmentMissing`` without Grain.
    """
    record_files.require_packages(ARRAY_RECORD)
    path = Path(at.file if at is not None else bench.script.target).absolute()
    source = parse_source(str(path), path.read_text(encoding="utf-8")) if path.is_file() else None
    place = packing_edits.find_packed_batches(source, at.line if at else None) if source is not None else None
    if place is None:
        raise InputError(NO_BATCHES.format(file=path.name))
    bench.say("sampling the batches")
    unchanged = EditedFiles()
    sampled = _sample_place(bench, place, "sample-batches", unchanged)
    plan = _plan_of(bench, output, place, sampled, unchanged)
    if not sampled.is_whole:
        return replace(plan, notes=(*plan.notes, NOT_PROVEN))
    return _with_proof(plan, _try_sample(bench, plan, sampled, place, unchanged))


def _packing_places(bench: Bench, trace: Trace, at: Place | None) -> list[PackingPlace]:
    """What can be packed: results, contents of files, or both. Raises ``InputError`` if there is nothing."""
    if at is not None:
        named = packing_edits.named_results(trace, at)
        if named is None:
            raise InputError(NO_NAMED_PLACE.format(at=f"{at.file}:{at.line}", script=bench.script.target))
        return [named]
    places = list(_places(trace, diagnose.diagnose_trace(trace)))
    found = [packing_edits.find_packed_results(trace, places), packing_edits.find_packed_contents(trace, places)]
    if not any(found):
        drawn = {one.place for pipe in trace.pipelines for one in pipe.written if one.random}
        known = [one for one in places if one not in drawn and packing_edits.named_results(trace, one) is not None][:1]
        lines = [f"{os.path.relpath(os.path.join(trace.root, one.file))}:{one.line}" for one in known]
        raise NothingToPack(bench.script.target, "".join(lines))
    return [one for one in found if one is not None]


def _faster_place(
    bench: Bench, output: Path, places: list[PackingPlace], parallelism: float, files: EditedFiles
) -> tuple[PackingPlace, SampledPlace, tuple[str, ...]]:
    """The place whose packed elements are ready sooner, its sample, and why not the other one.

    ``parallelism``: elements that the operation makes at once. Raises ``InputError`` with the reasons if none can be
    sampled.
    """
    sampled: list[tuple[PackingPlace, SampledPlace]] = []
    reasons: list[str] = []
    for place in places:
        bench.say(f"sampling the {_words_of(place)}")
        try:
            sampled.append((place, _sample_place(bench, place, f"sample-{_words_of(place).split()[0]}", files)))
        except InputError as error:
            reasons.append(f"{_words_of(place)}: {error}")
    if not sampled:
        raise InputError("; ".join(reasons))
    sampled = _with_work(sampled, parallelism)
    free = packing_run.free_bytes(output.absolute())
    fitting = [one for one in sampled if (one[1].total_bytes or 0) < free] or sampled
    enough_us = packing_run.MIN_LARGER_FORM_GAIN * min(one[1].sample.ready_us for one in fitting)
    fast = [one for one in fitting if one[1].sample.ready_us <= enough_us]
    best = min(fast, key=lambda one: one[1].sample.element_bytes)
    for other in sampled:
        if other is not best:
            slow = "are ready later" if other not in fast else "are larger and hardly faster"
            why = slow if other in fitting else "do not fit on the disk"
            figures = f"{format_number(other[1].sample.ready_us)} µs and {other[1].sample.element_bytes:,.0f} bytes"
            reasons.append(f"the {_words_of(other[0])} {why}: {figures} an element")
    return (*best, tuple(reasons))


def _with_work(
    sampled: list[tuple[PackingPlace, SampledPlace]], parallelism: float
) -> list[tuple[PackingPlace, SampledPlace]]:
    """With the work that is left for contents of files: the processor time of the results beyond that of reading."""
    made = {place.content_of is None: one.sample.source_cpu_us for place, one in sampled}
    left_us = max(made.get(True, 0.0) - made.get(False, 0.0), 0.0) / parallelism
    return [(place, one if place.content_of is None else replace(one, work_us=left_us)) for place, one in sampled]


def _words_of(place: PackingPlace) -> str:
    return f"{'results' if place.content_of is None else 'files'} of line {place.place.line}"


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


def _completed_place(trace: Trace, place: PackingPlace) -> PackingPlace:
    """With full names of files, and whether the script makes batches of what is packed."""

    def full(edits: Iterable[Edit]) -> tuple[Edit, ...]:
        return tuple(structs.replace(edit, file=os.path.abspath(os.path.join(trace.root, edit.file))) for edit in edits)

    return replace(
        place,
        marked_edits=full(place.marked_edits),
        function_edits=full(place.function_edits),
        equal_shapes=place.content_of is None and _is_batched(trace, place.place),
    )


def _is_batched(trace: Trace, place: Place) -> bool:
    """Whether the script only passes on the elements made at ``place``, and makes batches of them."""
    written = trace.pipeline.written if trace.pipeline is not None else ()
    at = next((n for n, one in enumerate(written) if one.place == place and one.family in MAKING_FAMILIES), None)
    while at is not None:
        consumers = [n for n, one in enumerate(written) if at in one.inputs]
        at = consumers[0] if len(consumers) == 1 else None
        if at is not None and written[at].family not in PASSING_FAMILIES:
            return written[at].family == "Batch"
    return False


def _sample_place(bench: Bench, place: PackingPlace, name: str, files: EditedFiles) -> SampledPlace:
    outputs = [str((bench.folder / f"{name}-{n}").absolute()) for n in range(place.datasets)]
    job = {
        "outputs": outputs, "plan_id": SAMPLE_PLAN, "form": None, "lengths": [None] * len(outputs),
        "shard_bytes": shard_writer.SHARD_BYTES, "equal_shapes": place.equal_shapes,
    }  # fmt: skip
    values = packing_run.run_marked_script(
        bench.script,
        place,
        job,
        Rule(seconds=0.1, steps=1),
        (bench.folder / f"{name}-run").absolute(),
        files,
        limit_s=max(SAMPLING_SHARE * bench.left_s, 60.0),
        seed=bench.seed,
        tick=bench.tick,
    )
    return SampledPlace(values, tuple(shard_writer.check_packed_folder(Path(one)) for one in outputs))


def _plan_of(bench: Bench, output: Path, place: PackingPlace, sampled: SampledPlace, files: EditedFiles) -> PackingPlan:
    sample, elements = sampled.sample, sampled.elements
    script, file = os.path.abspath(bench.script.target), place.marked_edits[0].file
    path = bench.script.target if bench.script.module else script
    source = PackingSource(
        "script",
        path,
        packing_run.file_digests({path, file}, files),
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
        ElementForm.from_values(sampled.values[0]["form"]),
        sample,
        sampled.lengths,
        sampled.total_bytes,
        elements * (sample.source_us + sample.write_us) / 1e6 if elements is not None else None,
        shard_writer.SHARD_BYTES,
        packing_run.free_bytes(output),
        place.marked_edits,
        place.content_of,
        place.function_edits,
        notes=() if place.same_order else ("shuffle moves behind the packed elements: another order of random draws",),
    )


def packing_saving(trace: Trace, place: Place, sample: PackingSample, together: int = 1) -> Saving | None:
    """What reading packed elements saves of a step, by replaying the recorded pipeline; None if it is unknown there.

    The text that reads them is a parallel map, which is called once for ``together`` elements.
    """
    pipe = trace.pipeline
    node = _node_at(trace, place)
    if pipe is None or node is None:
        return None
    upstream, count = pipe.upstream_nodes(node), input_feed.calls_per_batch(pipe, node)
    gone = {node.id, *(n.id for n in upstream)}
    new = max(n.id for n in pipe.nodes) + 1  # not the node's own: what the recording says of that does not hold for it
    read = structs.replace(
        node, id=new, name=READING_NODE, inputs=(), ms=count * sample.ready_us / 1e3, elements=count / together,
        parallelism=1.0,
    )  # fmt: skip
    stay = [
        structs.replace(n, inputs=tuple(new if i == node.id else i for i in n.inputs))
        for n in pipe.nodes
        if n.id not in gone
    ]
    changed = structs.replace(pipe, nodes=(read, *stay))
    nested = any(input_feed.find_nested_datasets(trace, of_files=files) is not None for files in (True, False))
    held = any(n.name == "Generator" for n in (node, *upstream))  # by Python, under its lock
    supply = Supply(
        pipeline=changed,
        nested=nested and node.family in input_feed.NESTING_FAMILIES,
        lock=held,
        reads=True,
        spread=(0.7, 1.1),
    )
    return price_remedies(trace, [supply], "step")


def _node_at(trace: Trace, place: Place) -> Node | None:
    """The node of the recorded pipeline that makes the elements at ``place``."""
    nodes = trace.pipeline.nodes if trace.pipeline is not None else ()
    found = [n for n in nodes if n.family in MAKING_FAMILIES and place in input_feed.user_lines(n)]
    return found[-1] if found else None


def _try_sample(
    bench: Bench, plan: PackingPlan, sampled: SampledPlace, place: PackingPlace, files: EditedFiles
) -> Attempt:
    """Runs the script with the sample read as now and read packed, in turn, by the rules of ``fix``."""
    effect = Effect.EXACT if place.same_order else Effect.EQUIVALENT
    price = price_text(plan.bytes, plan.seconds)
    says = f"write the {_words_of(place)} once, in a form that reads fast ({price})"
    if not plan.has_room:
        return Attempt("packing", says, effect, plan.saving, None, False, NO_ROOM)
    bench.say(f"{says}: measuring a sample")
    limited = packing_edits.replace_mark(place.marked_edits, f"take({sampled.folders[0].elements})")
    now = files if sampled.is_whole else files.with_edits(limited, os.getcwd())
    candidate = Candidate("packed", packing_run.reading_files(plan, sampled.folders, files).texts())
    rule = Rule(seconds=MIN_PROOF_S, steps=MIN_PROOF_STEPS)
    trial = run_trial(bench, Candidate("baseline", now.texts()), candidate, rule, "step")
    attempt = judge_trial("packing", says, effect, plan.saving, trial)
    if trial.failed:
        return replace(attempt, verdict=None)
    if len(trial.pairs) < MIN_PAIRS:
        too_few = f"{format_count(len(trial.pairs), 'pair')} of runs fit into the time; give a longer --budget"
        return replace(attempt, verdict=None, why=too_few)
    return attempt
