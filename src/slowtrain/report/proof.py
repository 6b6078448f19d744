"""Measured changes: cures that were tried, as text and as ``fix`` of the JSON contract, and two runs as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace

from slowtrain.model import Checkup, Diagnosis, Effect, Verdict, VerdictKind
from slowtrain.model.measurements import Attempt, Change, Comparison, ManualCure, PlannedPacking, Proof
from slowtrain.number_text import format_count, format_number
from slowtrain.report import documents, wording
from slowtrain.report.documents import at
from slowtrain.report.packing import price_text
from slowtrain.report.terminal import Terminal, joined_lines, readable_width

FIGURES_COLUMNS = 54  # of a row, behind the cause's name
MIN_NAME_COLUMNS = 20
MAX_DIFF_LINES = 40
MAX_KNOWN_SPEEDUP = 1e6  # an interval that reaches further says nothing


class DroppedCure(Struct):
    name: str = field(name="cause")
    why: str


class AttemptDocument(Struct):
    name: str = field(name="cause")
    says: str
    effect: Effect | None
    scope: Annotated[documents.Scope | None, at("predicted.scope")]
    predicted: Annotated[float | None, at("predicted.speedup")]
    verdict: documents.VerdictDocument | None
    kept: bool
    why: str
    remark: str
    diff: str
    planned: bool | UnsetType = UNSET


class ManualDocument(Struct):
    cause: str
    says: str
    effect: Effect
    needs: str | None
    where: tuple[str, ...]


class PackingDocument(Struct):
    """Packing that was proven on a sample; ``pack``, ``verify`` and ``apply`` are the commands that follow."""

    plan: str
    output: str
    bytes: documents.Count | None
    seconds: float | None
    predicted: Annotated[float | None, at("predicted.speedup")]
    measured: documents.VerdictDocument
    pack: str
    verify: str
    apply: str


class AfterDocument(Struct):
    attribution: documents.StepDivision


class FixDocument(Struct):
    """What ``slowtrain fix`` and ``verify`` add to a checkup: the cures tried, and all that were kept together."""

    outcome: Literal["better", "no better", "cannot tell", "nothing kept"]
    speedup: Annotated[float | None, at("together.speedup")]
    low: Annotated[float | None, at("together.low")]
    high: Annotated[float | None, at("together.high")]
    runs: documents.Count
    loss: Annotated[str | None, at("together.loss")]
    scope: Annotated[documents.Scope | None, at("together.scope")]
    first_step_s: Annotated[documents.FirstStep | None, at("together.first_step_s")]
    kept: tuple[str, ...]
    dropped: tuple[DroppedCure, ...]
    attempts: tuple[AttemptDocument, ...]
    by_hand: tuple[ManualDocument, ...]
    after: AfterDocument | None
    limits: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float
    diff: str
    written: bool
    apply: str | None
    undo: str | None
    packing: PackingDocument | UnsetType = UNSET


def proof_text(proof: Proof, *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    """The answer first, then each attempt, the cures left to a person, and the patch."""
    return joined_lines(_text_lines(proof, Terminal(readable_width(width), colour, unicode)))


def proof_headline(proof: Proof) -> str:
    packing = f"packing proven on a sample: {_gain_text(proof.packing.measured)}" if proof.packing is not None else ""
    if packing and not any(a.kept for a in proof.attempts):
        return packing
    return _edits_headline(proof) + (f"; on top of it, {packing}" if packing else "")


def _gain_text(gain: Verdict) -> str:
    speedup = wording.speedup_text(gain.speedup, gain.low, gain.high)
    return f"{speedup} as fast, measured in {gain.runs} runs"


def _edits_headline(proof: Proof) -> str:
    kept_attempts = [a for a in proof.attempts if a.kept]
    if kept_attempts and proof.together is not None:
        return f"{format_count(len(kept_attempts), 'cure')} kept: {_gain_text(proof.together)}"
    if kept_attempts:
        return f"{len(kept_attempts)} cures kept, each measured beside those before it; not measured together"
    if proof.before is not None and proof.before.verdict is VerdictKind.INSUFFICIENT:
        return f"cannot tell: {proof.before.headline}"
    if proof.attempts:
        return "nothing kept: " + ("; ".join(dict.fromkeys(a.why for a in proof.attempts)) or "nothing helped")
    if proof.by_hand:
        return "no cure can be applied safely; what you can do is below"
    return f"nothing to cure: {proof.before.headline}" if proof.before is not None else "nothing to cure"


def _text_lines(proof: Proof, out: Terminal) -> Iterator[str]:
    tone = "green" if any(a.kept or a.planned for a in proof.attempts) else "yellow"
    yield from out.hanging("", proof_headline(proof), style=f"bold {tone}")
    if proof.attempts:
        yield ""
        yield _attempt_row(out, "cause", "predicted", "measured (95 %)", "loss", "")
    for attempt in proof.attempts:
        yield from _attempt_lines(attempt, out)
    if proof.by_hand:
        yield from out.section("For you to do")
    for one in proof.by_hand:
        yield from out.hanging("  ", manual_remedy(one), indent=4)
    for note in proof_notes(proof):
        yield from out.hanging("Note: ", note)
    if proof.diff:
        yield ""
        rows = proof.diff.rstrip("\n").split("\n")
        for row in rows[:MAX_DIFF_LINES]:
            tone = "green" if row.startswith("+") else "red" if row.startswith("-") else "dim"
            yield out.style(out.code(row, out.width), tone)
        if len(rows) > MAX_DIFF_LINES:
            yield f"(+{len(rows) - MAX_DIFF_LINES} more lines, in the patch)"


def packing_text(packing: PlannedPacking) -> str:
    """What packing will write: ``writes /data/packed-train: 282 MiB, about 36.1 s``."""
    return f"writes {packing.output}: {price_text(packing.bytes, packing.seconds)}"


def packing_commands(packing: PlannedPacking) -> dict[str, str]:
    """The commands that pack, prove and read the packed data, by name, in their order."""
    return {"pack": packing.pack, "verify": packing.verify, "apply": packing.apply}


def manual_remedy(one: ManualCure) -> str:
    """A cure left to a person in one line: cause, words, effect on training, place."""
    needs = f"; needs {one.needs}" if one.needs else ""
    place = f" ({', '.join(one.where)})" if one.where else ""
    return f"{one.cause}: {one.says} [{wording.effect_words(one.effect)}{needs}]{place}"


def proof_notes(proof: Proof) -> list[str]:
    return [*(f"a probe cannot keep this to itself: {one}" for one in proof.limits), *proof.notes]


def is_interval_known(verdict: Verdict) -> bool:
    return verdict.low > 0 and verdict.high < MAX_KNOWN_SPEEDUP


def attempt_outcome(attempt: Attempt) -> str:
    return "kept" if attempt.kept else "plan" if attempt.planned else "no"


def attempt_remarks(attempt: Attempt) -> list[str]:
    """What the table leaves out: the time before the steady steps, and what the loss was compared with."""
    times = attempt.verdict.first_step_s if attempt.verdict is not None else None
    first = f"first step done after {times[0]:.1f} s, with it after {times[1]:.1f} s" if times else ""
    return [line for line in (first, attempt.remark) if line]


def _attempt_row(out: Terminal, cause: str, predicted: str, measured: str, loss: str, kept_text: str) -> str:
    end = f" {predicted:>9} {measured:>22}  {out.column(loss, 13)} {kept_text}"
    if out.width < FIGURES_COLUMNS + MIN_NAME_COLUMNS:  # the figures on a line of their own
        return out.fit(cause) + "\n" + out.fit(end)
    return out.column(cause, out.width - FIGURES_COLUMNS) + end


def _attempt_lines(attempt: Attempt, out: Terminal) -> Iterator[str]:
    predicted = f"{attempt.predicted.speedup:.2f}x" if attempt.predicted is not None else "-"
    verdict = attempt.verdict
    measured = _measured_speedup(verdict) if verdict is not None else wording.UNKNOWN
    loss = verdict.loss if verdict is not None else "-"
    yield _attempt_row(out, attempt.name, predicted, measured, loss, attempt_outcome(attempt))
    effect = f" [{wording.effect_words(attempt.effect)}]" if attempt.effect is not None else ""
    for line in (f"{attempt.says}{effect}", *attempt_remarks(attempt)):
        yield from out.hanging("  ", line)
    if attempt.why:
        yield from out.hanging("  ", f"dropped: {attempt.why}", style="yellow")


def _measured_speedup(verdict: Verdict) -> str:
    low, high = (f"{v:.2f}" if 0 < v < 1e6 else "?" for v in (verdict.low, verdict.high))
    return f"{verdict.speedup:.2f}x ({low} to {high})"


def proof_document(proof: Proof, *, written: bool) -> dict[str, Any]:
    """The checkup of the original script with the verdicts of its cures, and the key ``fix``."""
    in_order = sorted(proof.attempts, key=lambda a: (a.kept, a.planned))  # of several with one cause the best is last
    verdicts = {a.name: a.verdict for a in in_order if a.verdict is not None}
    found = documents.checkup_document(_with_verdicts(proof.before, verdicts)) if proof.before is not None else {}
    unknown = "cannot tell" if any(a.kept for a in proof.attempts) else "nothing kept"
    found["fix"] = documents.build_document(
        FixDocument,
        proof,
        outcome=proof.together.outcome if proof.together is not None else unknown,
        runs=proof.together.runs if proof.together is not None else 0,
        kept=[a.name for a in proof.attempts if a.kept],
        dropped=[a for a in proof.attempts if not (a.kept or a.planned)],
        written=written,
    )
    return found


def proof_json(proof: Proof, *, written: bool) -> str:
    return documents.json_text(proof_document(proof, written=written))


def _with_verdicts(checkup: Checkup, verdicts: dict[str, Verdict]) -> Checkup:
    def with_verdict(diagnosis: Diagnosis) -> Diagnosis:
        return replace(diagnosis, verdict=verdicts.get(diagnosis.cause))

    return replace(checkup, diagnoses=tuple(map(with_verdict, checkup.diagnoses)))


MIN_PART_SHARE = 1e-3  # of the longer step: smaller parts are not shown
MIN_NOISE_SHARE = 1e-4  # of the figure: three digits of it do not show less
MIN_PHASE_SHARE = 0.01  # of the longer run: smaller phases are one row


def comparison_text(comparison: Comparison) -> str:
    """The step, each category, and the phases of the runs. A change within the noise is shown as noise."""
    first, second = comparison.names
    unit = "ms per 1,000 samples" if comparison.samples else "ms a step"
    lines = [
        _verdict_line(comparison),
        "",
        f"A {first}",
        f"B {second}",
        *_script_names(comparison),
        "",
        f"{unit:<20}{'A':>18}{'B':>18}{'B - A':>10}",
    ]
    least = MIN_PART_SHARE * max(comparison.step.before_ms, comparison.step.after_ms)
    shown = [c for c in comparison.rows if max(c.before_ms, c.after_ms) >= least]
    lines += [_change_row(change) for change in (comparison.step, *shown)]
    lines += _run_table(comparison)
    return "\n".join(lines) + "\n"


def _script_names(comparison: Comparison) -> list[str]:
    if comparison.scripts is None:
        return []
    return [
        "",
        "These are runs of two scripts, {} and {}: what differs need not be one change.".format(*comparison.scripts),
    ]


def _verdict_line(comparison: Comparison) -> str:
    step = comparison.step
    if not step.before_ms or not step.after_ms:
        return "cannot tell: one of the runs has no steady steps"
    if not math.isfinite(step.before_noise_ms + step.after_noise_ms):
        return "cannot tell: too few steady steps to know their noise"
    sizes = comparison.samples
    each = (
        f", sample by sample (a step of A takes {format_number(sizes[0])} samples, one of B {format_number(sizes[1])})"
        if sizes
        else ""
    )
    if not step.real:
        return f"a step of B differs from one of A by no more than the noise of the two runs{each}"
    ratio = step.before_ms / step.after_ms
    words = f"{ratio:.2f}x as fast as" if ratio > 1 else f"slower: it takes {1 / ratio:.2f}x as long as"
    return f"a step of B is {words} one of A{each}"


def _change_row(change: Change) -> str:
    sign = "+" if change.difference_ms > 0 else ""
    words = f"{sign}{format_number(change.difference_ms)}" if change.real else "noise"
    before = _figure_with_noise(change.before_ms, change.before_noise_ms)
    after = _figure_with_noise(change.after_ms, change.after_noise_ms)
    return f"{wording.category_words(change.name)[0]:<20}{before:>18}{after:>18}{words:>10}"


def _figure_with_noise(ms: float, noise: float) -> str:
    noise = 0.0 if noise < MIN_NOISE_SHARE * ms else noise
    return f"{format_number(ms)} ± {format_number(noise, 2)}" if math.isfinite(noise) else f"{format_number(ms)}"


def _run_table(comparison: Comparison) -> list[str]:
    """The whole runs in seconds. Empty if neither was timed."""
    whole = _sum_row("whole run", comparison.run)
    if not max(whole[1:]):
        return []
    large = [r for r in comparison.run if max(r[1], r[2]) >= MIN_PHASE_SHARE * max(whole[1:])]
    rest = [r for r in comparison.run if r not in large]
    rows = [whole, *((wording.phase_words(name)[0], a, b) for name, a, b in large)]
    if rest:
        rows.append(_sum_row("all others", rest))
    lines = ["", f"{'s of the run':<20}{'A':>18}{'B':>18}{'B - A':>10}"]
    lines += [f"{n:<20}{a / 1e3:>18.2f}{b / 1e3:>18.2f}{(b - a) / 1e3:>+10.2f}" for n, a, b in rows]
    return [*lines, "", "Each run was timed once: how much of its phases is noise cannot be told."]


def _sum_row(name: str, rows: Sequence[tuple[str, float, float]]) -> tuple[str, float, float]:
    return name, sum(r[1] for r in rows), sum(r[2] for r in rows)
