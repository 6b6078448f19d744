"""Proves one candidate against the unchanged script: for each cure of ``fix``, and for ``verify``."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from slowtrain.capture.treatments import PLACED, TREATMENTS
from slowtrain.errors import InputError
from slowtrain.figures import counted
from slowtrain.model import Effect, Saving, Verdict
from slowtrain.model.proof import Attempt, Proof
from slowtrain.source import Source, parse
from slowtrain.source.reading import modules
from slowtrain.source.reading.input import chains
from slowtrain.source.reading.writing import beyond, project
from slowtrain.trace import build
from slowtrain.verify.files import Files, diff
from slowtrain.verify.pairs import Bench, Trial, compare
from slowtrain.verify.parity import Parity
from slowtrain.verify.probes import MOST_S, Candidate, Rule, Script, Treatment
from slowtrain.verify.statistics import BETTER, UNKNOWN

STEADY_S = 3.0  # of training in each process, and at least as many steps:
STEPS = 30
MOST_DIGITS = 9  # of a line's number


def prove(
    bench: Bench, files: Files, name: str, scope: str, effect: Effect | None, cures: tuple[str, ...] = ()
) -> Proof:
    """Runs baseline and candidate alternately. Raises ``InputError`` if the unchanged script does not run."""
    begun = time.monotonic()
    limits = foretold(bench, files)
    placed = _placed(cures)
    usual = Rule(seconds=MOST_S, later=True) if placed else Rule(seconds=STEADY_S, steps=STEPS)
    rule = Rule() if scope == "run" else usual
    trial = compare(bench, Candidate("baseline"), Candidate(name, files.texts(), Treatment(cures)), rule, scope)
    if trial.failed and trial.failed.startswith("baseline: "):
        raise InputError(f"the script does not run as it is ({trial.failed[10:]}); nothing to compare with")
    attempt = judged(name, "a treatment, no edit" if cures else "your own change", effect, None, trial)
    attempt = attempt if trial.alike else replace(attempt, why=f"{attempt.why} (--scope run)")
    changed = diff(files.changed(), Path.cwd())
    said = trial.pairs and not attempt.remark
    notes = (
        f"a run is {trial.per_process}",
        *((f"loss: {trial.parity(effect).says}",) if said else ()),
        *differing(trial, effect),
        *_missed(trial, placed),
    )
    command = (bench.script.target, *bench.script.arguments)
    seconds = time.monotonic() - begun
    return Proof(command, (attempt,), attempt.verdict, changed, (), limits=limits, notes=notes, seconds=seconds)


def own(script: Script) -> Iterator[Source]:
    """The sources of the script and of its own modules."""
    file = modules.main(script.target) if script.module else None
    return project(str(file or script.target))


def foretold(bench: Bench, files: Files | None = None) -> tuple[str, ...]:
    """Side effects of the script, or of a candidate, that no probe can prevent; reported before anything runs."""
    sources = list(own(bench.script))
    sources += [s for file, text in (files.texts() if files else {}).items() if (s := parse(file, text)) is not None]
    found = {f"{os.path.relpath(s.file)}:{line} {words}": None for s in sources for line, words in beyond(s)}
    for one in found:
        bench.warn(f"cannot be kept from happening in each probe: {one}")
    return tuple(found)


def judged(name: str, says: str, effect: Effect | None, predicted: Saving | None, trial: Trial) -> Attempt:
    """An attempt that is kept if the candidate is faster and keeps its promise about the loss."""
    verdict, parity = trial.verdict(effect), trial.parity(effect)
    kept, why = False, trial.failed or ""
    if verdict is not None and not trial.failed:
        kept = verdict.outcome == BETTER and parity.holds is not False
        why = _why(verdict, parity, effect)
    remark = _remark(parity) if kept else ""
    return Attempt(name, says, effect, predicted, verdict, kept, "" if kept else why, remark=remark)


def differing(trial: Trial, effect: Effect | None) -> Iterator[str]:
    """Says that the baselines of ``trial`` differ from each other, if they are the unchanged script."""
    if trial.pairs and (own := trial.parity(effect).own):
        yield f"two runs of the script as it is differ: {own}"


def _remark(parity: Parity) -> str:
    if parity.holds is None:
        return f"loss could not be compared: {parity.says}"
    return f"loss {parity.says}" if parity.loss != "same" else ""


def _why(verdict: Verdict, parity: Parity, effect: Effect | None) -> str:
    if parity.holds is False:
        return f"promised to be {effect}, but the loss {parity.says}"
    if verdict.outcome == UNKNOWN:
        return f"{counted(verdict.runs // 2, 'pair')} cannot tell it from noise"
    return "it does not help"


def treatments(says: str) -> tuple[str, ...]:
    """Parses names separated by commas. Raises ``InputError`` for an unknown one, or one whose line has no map."""
    names = tuple(dict.fromkeys(n.strip() for n in says.split(",") if n.strip()))
    unknown = [n for n in names if n not in TREATMENTS and n.partition("@")[0] not in PLACED]
    if unknown or not names:
        known = ", ".join((*TREATMENTS, *(f"{n}@FILE:LINE" for n in PLACED)))
        raise InputError(f"--treat {says}: no such treatment; choose among {known}")
    for one in names:
        name, _, at = one.partition("@")
        if name in PLACED and (why := _misplaced(at)):
            raise InputError(f"--treat {one}: {why}; give {name}@FILE:LINE, the line of one map in a file of yours")
    return names


def _misplaced(at: str) -> str:
    """Why ``at``, ``FILE:LINE``, is not the place of exactly one ``map``; empty if it is."""
    file, _, line = at.rpartition(":")
    if not file or not line.isascii() or not line.isdigit() or len(line) > MOST_DIGITS:
        return "no line is named"
    try:
        source = parse(file, Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return f"{file} cannot be read"
    count = len(chains.maps(source, int(line))) if source is not None else 0
    return "" if count == 1 else f"{count or 'no'} calls of map are there"


def _placed(cures: Sequence[str]) -> list[str]:
    """Treatments of a line. They are caches, whose gain does not show in the first pass over the data."""
    return [c for c in cures if c.partition("@")[0] in PLACED]


def _missed(trial: Trial, placed: Sequence[str]) -> Iterator[str]:
    """Treatments of a line that the candidate never reached, so that the unchanged script was measured."""
    if placed and trial.pairs:
        trace = build.load(trial.pairs[-1][1].folder)
        missed = [one for one in placed if not trace.fact(f"treated {one}")]
        yield from (f"{one}: no map was called on that line, so that nothing was changed" for one in missed)
