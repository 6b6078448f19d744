"""The cures that were tried and what they gained, as text and as ``fix`` of the JSON contract."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal

from msgspec import Struct, field

from slowtrain.model import Checkup, Diagnosis, Effect, Verdict, VerdictKind
from slowtrain.model.answers.cure_proof import Attempt, ManualCure, Proof
from slowtrain.report import documents, wording
from slowtrain.report.documents import at
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


class ManualDocument(Struct):
    cause: str
    says: str
    effect: Effect
    needs: str | None
    where: tuple[str, ...]


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


def proof_text(proof: Proof, *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    """The answer first, then each attempt, the cures left to a person, and the patch."""
    return joined_lines(_text_lines(proof, Terminal(readable_width(width), colour, unicode)))


def proof_headline(proof: Proof) -> str:
    kept = [a for a in proof.attempts if a.kept]
    if kept and proof.together is not None:
        gain = proof.together
        said = wording.speedup_text(gain.speedup, gain.low, gain.high)
        return f"{len(kept)} {'cure' if len(kept) == 1 else 'cures'} kept: {said} as fast, measured in {gain.runs} runs"
    if kept:
        return f"{len(kept)} cures kept, each measured beside those before it; not measured together"
    if proof.before is not None and proof.before.verdict is VerdictKind.INSUFFICIENT:
        return f"cannot tell: {proof.before.headline}"
    if proof.attempts:
        return "nothing kept: " + ("; ".join(dict.fromkeys(a.why for a in proof.attempts)) or "nothing helped")
    if proof.by_hand:
        return "nothing that a machine can cure safely; what a person can do is below"
    return f"nothing to cure: {proof.before.headline}" if proof.before is not None else "nothing to cure"


def _text_lines(proof: Proof, out: Terminal) -> Iterator[str]:
    tone = "green" if any(a.kept for a in proof.attempts) else "yellow"
    yield from out.hanging("", proof_headline(proof), style=f"bold {tone}")
    if proof.attempts:
        yield ""
        yield _attempt_row(out, "cause", "predicted", "measured (95 %)", "loss", "")
    for attempt in proof.attempts:
        yield from _attempt_lines(attempt, out)
    if proof.by_hand:
        yield from out.section("For a person")
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


def manual_remedy(one: ManualCure) -> str:
    """A cure left to a person in one line: cause, words, effect on training, place."""
    needs = f"; needs {one.needs}" if one.needs else ""
    place = f" ({', '.join(one.where)})" if one.where else ""
    return f"{one.cause}: {one.says} [{wording.effect_words(one.effect)}{needs}]{place}"


def proof_notes(proof: Proof) -> list[str]:
    return [*(f"a probe cannot keep this to itself: {one}" for one in proof.limits), *proof.notes]


def is_interval_known(verdict: Verdict) -> bool:
    return verdict.low > 0 and verdict.high < MAX_KNOWN_SPEEDUP


def attempt_remarks(attempt: Attempt) -> list[str]:
    """What the table leaves out: the time before the steady steps, and what the loss was compared with."""
    first = wording.first_step_text(attempt.verdict) if attempt.verdict is not None else ""
    return [line for line in (first, attempt.remark) if line]


def _attempt_row(out: Terminal, cause: str, predicted: str, measured: str, loss: str, kept: str) -> str:
    end = f" {predicted:>9} {measured:>22}  {out.column(loss, 13)} {kept}"
    if out.width < FIGURES_COLUMNS + MIN_NAME_COLUMNS:  # the figures on a line of their own
        return out.fit(cause) + "\n" + out.fit(end)
    return out.column(cause, out.width - FIGURES_COLUMNS) + end


def _attempt_lines(attempt: Attempt, out: Terminal) -> Iterator[str]:
    predicted = f"{attempt.predicted.speedup:.2f}x" if attempt.predicted is not None else "-"
    verdict = attempt.verdict
    measured = _measured_speedup(verdict) if verdict is not None else wording.UNKNOWN
    loss = verdict.loss if verdict is not None else "-"
    yield _attempt_row(out, attempt.name, predicted, measured, loss, "kept" if attempt.kept else "no")
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
    verdicts = {a.name: a.verdict for a in proof.attempts if a.verdict is not None}
    found = documents.checkup_document(_with_verdicts(proof.before, verdicts)) if proof.before is not None else {}
    unknown = "cannot tell" if any(a.kept for a in proof.attempts) else "nothing kept"
    found["fix"] = documents.build_document(
        FixDocument,
        proof,
        outcome=proof.together.outcome if proof.together is not None else unknown,
        runs=proof.together.runs if proof.together is not None else 0,
        kept=[a.name for a in proof.attempts if a.kept],
        dropped=[a for a in proof.attempts if not a.kept],
        written=written,
    )
    return found


def proof_json(proof: Proof, *, written: bool) -> str:
    return documents.json_text(proof_document(proof, written=written))


def _with_verdicts(checkup: Checkup, verdicts: dict[str, Verdict]) -> Checkup:
    def measured(diagnosis: Diagnosis) -> Diagnosis:
        return replace(diagnosis, verdict=verdicts.get(diagnosis.cause))

    return replace(checkup, diagnoses=tuple(map(measured, checkup.diagnoses)))
