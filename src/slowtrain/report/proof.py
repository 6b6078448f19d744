"""What was tried and what it gave, as text and as the JSON contract's ``fix``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from slowtrain.model import Checkup, Diagnosis, Verdict, VerdictKind
from slowtrain.model.answers.cure_proof import Attempt, ManualCure, Proof
from slowtrain.report import json as documents
from slowtrain.report import wording
from slowtrain.report.terminal import Paper

WIDEST, NARROWEST = 110, 40
ROW = 54  # columns of a row behind the cause's name
NARROW = ROW + 20
DIFF_LINES = 40


def render(proof: Proof, *, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    """The answer first, then each attempt, what is left to a person, and the patch."""
    paper = Paper(max(min(width, WIDEST), NARROWEST), colour, unicode)
    return "\n".join(line.rstrip() for line in _lines(proof, paper)) + "\n"


def headline(proof: Proof) -> str:
    kept = [a for a in proof.attempts if a.kept]
    if kept and proof.together is not None:
        gain = proof.together
        said = wording.times(gain.speedup, gain.low, gain.high)
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


def _lines(proof: Proof, paper: Paper) -> Iterator[str]:
    for line in paper.wrap(headline(proof), paper.width):
        yield paper.style(line, "bold", "green" if any(a.kept for a in proof.attempts) else "yellow")
    if proof.attempts:
        yield ""
        yield _row(paper, "cause", "predicted", "measured (95 %)", "loss", "")
        for attempt in proof.attempts:
            yield from _attempt(attempt, paper)
    if proof.by_hand:
        yield ""
        yield paper.style("For a person", "bold")
        for one in proof.by_hand:
            yield from (("  " if i == 0 else "    ") + row for i, row in _wrapped(paper, by_hand(one)))
    for note in (*[f"a probe cannot keep this to itself: {one}" for one in proof.limits], *proof.notes):
        yield from (("Note: " if i == 0 else "      ") + row for i, row in _wrapped(paper, note, 6))
    if proof.diff:
        yield ""
        rows = proof.diff.rstrip("\n").split("\n")
        for row in rows[:DIFF_LINES]:
            tone = "green" if row.startswith("+") else "red" if row.startswith("-") else "dim"
            yield paper.style(paper.code(row, paper.width), tone)
        if len(rows) > DIFF_LINES:
            yield f"(+{len(rows) - DIFF_LINES} more lines, in the patch)"


def by_hand(one: ManualCure) -> str:
    """What is left to a person, in one line: the cause, the words, what they do to training, and where."""
    needs = f"; needs {one.needs}" if one.needs else ""
    place = f" ({', '.join(one.where)})" if one.where else ""
    return f"{one.cause}: {one.says} [{wording.effect(one.effect)}{needs}]{place}"


def beside(attempt: Attempt) -> list[str]:
    """What the table's figures leave out: the time before the steady steps, and what the loss was held against."""
    first = wording.first_step(attempt.verdict) if attempt.verdict is not None else ""
    return [line for line in (first, attempt.remark) if line]


def _wrapped(paper: Paper, text: str, indent: int = 4) -> Iterator[tuple[int, str]]:
    return enumerate(paper.wrap(text, paper.width - indent))


def _row(paper: Paper, cause: str, predicted: str, measured: str, loss: str, kept: str) -> str:
    end = f" {predicted:>9} {measured:>22}  {paper.pad(paper.fit(loss, 13), 13)} {kept}"
    if paper.width < NARROW:  # the figures on a line of their own
        return paper.fit(cause, paper.width) + "\n" + paper.fit(end, paper.width)
    room = paper.width - ROW
    return paper.pad(paper.fit(cause, room), room) + end


def _attempt(attempt: Attempt, paper: Paper) -> Iterator[str]:
    predicted = f"{attempt.predicted.speedup:.2f}x" if attempt.predicted is not None else "-"
    verdict = attempt.verdict
    measured = _measured(verdict) if verdict is not None else "not measured"
    loss = verdict.loss if verdict is not None else "-"
    yield _row(paper, attempt.name, predicted, measured, loss, "kept" if attempt.kept else "no")
    effect = f" [{wording.effect(attempt.effect)}]" if attempt.effect is not None else ""
    yield from ("  " + row for _, row in _wrapped(paper, f"{attempt.says}{effect}"))
    for line in beside(attempt):
        yield from ("  " + row for _, row in _wrapped(paper, line))
    if attempt.why:
        yield from (paper.style("  " + row, "yellow") for _, row in _wrapped(paper, f"dropped: {attempt.why}"))


def _measured(verdict: Verdict) -> str:
    low, high = (f"{v:.2f}" if 0 < v < 1e6 else "?" for v in (verdict.low, verdict.high))
    return f"{verdict.speedup:.2f}x ({low} to {high})"


def document(proof: Proof, *, written: bool) -> dict[str, Any]:
    """The checkup of the script as it was, with what measuring its cures showed, and the key ``fix``."""
    verdicts = {a.name: a.verdict for a in proof.attempts if a.verdict is not None}
    found = documents.document(_with(proof.before, verdicts)) if proof.before is not None else {}
    together = proof.together
    unknown = "cannot tell" if any(a.kept for a in proof.attempts) else "nothing kept"
    outcome = together.outcome if together is not None else unknown
    found["fix"] = documents.plain(
        {
            "outcome": outcome,
            "speedup": together.speedup if together is not None else None,
            "low": together.low if together is not None else None,
            "high": together.high if together is not None else None,
            "runs": together.runs if together is not None else 0,
            "loss": together.loss if together is not None else None,
            "scope": together.scope if together is not None else None,
            "first_step_s": documents.first_step_s(together) if together is not None else None,
            "kept": [a.name for a in proof.attempts if a.kept],
            "dropped": [{"cause": a.name, "why": a.why} for a in proof.attempts if not a.kept],
            "attempts": [_entry(a) for a in proof.attempts],
            "by_hand": [_left(one) for one in proof.by_hand],
            "after": {"attribution": documents.attribution(proof.after.attribution)} if proof.after else None,
            "limits": proof.limits,
            "notes": proof.notes,
            "seconds": proof.seconds,
            "diff": proof.diff,
            "written": written,
            "apply": proof.apply or None,
            "undo": proof.undo or None,
        }
    )
    return found


def render_json(proof: Proof, *, written: bool) -> str:
    return json.dumps(document(proof, written=written), indent=2, allow_nan=False) + "\n"


def _left(one: ManualCure) -> dict[str, Any]:
    return {"cause": one.cause, "says": one.says, "effect": one.effect, "needs": one.needs, "where": one.where}


def _entry(attempt: Attempt) -> dict[str, Any]:
    predicted, verdict = attempt.predicted, attempt.verdict
    return {
        "cause": attempt.name,
        "says": attempt.says,
        "effect": attempt.effect,
        "scope": predicted.scope if predicted is not None else None,
        "predicted": predicted.speedup if predicted is not None else None,
        "verdict": documents.verdict(verdict),
        "kept": attempt.kept,
        "why": attempt.why,
        "remark": attempt.remark,
        "diff": attempt.diff,
    }


def _with(checkup: Checkup, verdicts: dict[str, Verdict]) -> Checkup:
    def measured(diagnosis: Diagnosis) -> Diagnosis:
        return replace(diagnosis, verdict=verdicts.get(diagnosis.cause))

    return replace(checkup, diagnoses=tuple(map(measured, checkup.diagnoses)))
