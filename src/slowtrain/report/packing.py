"""What ``slowtrain pack`` plans and what it wrote, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slowtrain.model.packing import ARRAY_RECORD, TFRECORD, ElementForm, PackedFolder, PackingPlan
from slowtrain.number_text import format_count, format_number, format_speedup
from slowtrain.report import wording
from slowtrain.report.terminal import Terminal, joined_lines, readable_width

MAX_PARTS = 6
FORMAT_WORDS = {TFRECORD: "TFRecord", ARRAY_RECORD: "ArrayRecord"}
SOURCE_WORDS = {
    "files": "one element for each file",
    "csv": "one element for each row",
    "npz": "one element for each row of the arrays",
}


def plan_text(plan: PackingPlan, *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    return joined_lines(_plan_lines(plan, Terminal(readable_width(width), colour, unicode)))


def packed_text(packed: Sequence[PackedFolder], *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    out = Terminal(readable_width(width), colour, unicode)
    return joined_lines(line for one in packed for line in _packed_lines(one, out))


def plan_headline(plan: PackingPlan) -> str:
    """``packing makes an element 8.1x as fast: 810 µs now, 100 µs packed``."""
    sample = plan.sample
    gain = format_speedup(sample.source_us / max(sample.ready_us, 1e-3))
    now, packed = (f"{format_number(us)} µs" for us in (sample.source_us, sample.ready_us))
    return f"an element is ready {gain} as fast: {now} now, {packed} packed"


def price_text(size: int | None, seconds: float | None) -> str:
    """What packing costs, in bytes and seconds: ``282 MiB, about 36.1 s``."""
    if size is None or seconds is None:
        return "size and time are unknown"
    return f"{wording.bytes_text(size)}, about {wording.duration_text(1e3 * seconds)}"


def _plan_lines(plan: PackingPlan, out: Terminal) -> Iterator[str]:
    source, sample = plan.source, plan.sample
    yield from out.hanging("", plan_headline(plan), style="bold")
    yield ""
    what = f"{source.file}:{source.line}" if source.kind == "script" else source.path
    sets = len(plan.lengths)
    built = "the data set built there" if sets == 1 else f"the {sets} data sets built there"
    words = built if source.kind == "script" else SOURCE_WORDS[source.kind]
    if source.kind == "npz" and not source.rows:
        words = "one element for each file"
    count = "unknown length" if plan.elements is None else format_count(plan.elements, "element")
    yield from out.hanging("reads:  ", f"{what}: {words}, {count}")
    kind = FORMAT_WORDS[plan.form.file_format]
    images = " as pixels" if source.decoded else " as they are encoded" if source.kind == "files" else ""
    yield from out.hanging("writes: ", f"{', '.join(plan.outputs)}: {kind} shards{images}, {_form_text(plan.form)}")
    yield from out.hanging("disk:   ", _disk_text(plan))
    time = "unknown" if plan.seconds is None else f"about {wording.duration_text(1e3 * plan.seconds)}"
    yield from out.hanging("time:   ", time)
    if plan.saving is not None:
        yield from out.hanging("gain:   ", f"a step is predicted to be {format_speedup(plan.saving.speedup)} as fast")
    if plan.proof is not None:
        found = plan.proof
        measured = f"{format_number(found.speedup)}x ({found.low:.2f} to {found.high:.2f}), {found.outcome}"
        yield from out.hanging("proof:  ", f"steps with the packed sample: {measured}, {found.runs} runs")
    checked = f"{format_count(sample.verified, 'element')} of the sample read back, equal bit for bit and in order"
    yield from out.hanging("sample: ", checked)
    for one in plan.rejected:
        yield from out.hanging("not:    ", one)
    for note in plan.notes:
        yield from out.hanging("note:   ", note)


def _form_text(form: ElementForm) -> str:
    shown = [f"{one.key} {one.dtype} {_shape_text(one.shape)}" for one in form.parts[:MAX_PARTS]]
    more = [f"{len(form.parts) - MAX_PARTS} more"] if len(form.parts) > MAX_PARTS else []
    block = f", {form.block} elements in a record" if form.block > 1 else ""
    return f"elements of {', '.join([*shown, *more])}{block}"


def _shape_text(shape: tuple[int | None, ...] | None) -> str:
    return "of any shape" if shape is None else str([n if n is not None else "?" for n in shape]).replace("'", "")


def _disk_text(plan: PackingPlan) -> str:
    free = f"{wording.bytes_text(plan.free_bytes)} are free"
    if plan.bytes is None:
        return f"{wording.bytes_text(round(plan.sample.element_bytes))} for each element; {free}"
    return f"{wording.bytes_text(plan.bytes)}; {free}"


def _packed_lines(packed: PackedFolder, out: Terminal) -> Iterator[str]:
    what = (
        f"{format_count(packed.elements, 'element')} in {format_count(len(packed.shards), 'file')}, "
        f"{wording.bytes_text(packed.bytes)}"
    )
    if packed.already_complete:
        yield from out.hanging("packed: ", f"{packed.folder} was complete: {what}; all checksums are right")
        return
    yield from out.hanging("packed: ", f"{packed.folder}: {what}, in {wording.duration_text(1e3 * packed.seconds)}")
    if packed.resumed:
        yield from out.hanging("        ", f"{format_count(packed.resumed, 'element')} were there already")
