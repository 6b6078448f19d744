"""Builds the doctor's sheet from facts about a computer: verdict of each cause, all checks, all sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slowtrain import __version__, diagnose
from slowtrain.causes import Cause, named
from slowtrain.causes.judged import facts_of
from slowtrain.figures import counted
from slowtrain.machine.judging import judge
from slowtrain.machine.reading import (
    NAMES,
    at,
    backend,
    builds,
    called,
    cards,
    figure,
    gib,
    others,
    pictures,
    present,
)
from slowtrain.machine.rules import cited
from slowtrain.model import Signal
from slowtrain.model.sheet import Check, Sheet, State
from slowtrain.trace import Trace

WORST_FIRST = (
    "machine/gpu-unseen", "machine/library-mismatch", "machine/faulty-gpu", "machine/throttled-clock",
    "machine/busy-gpu", "transfer/slow-link", "startup/jit-from-ptx", "machine/slowing-setting", "machine/limited-host",
)  # fmt: skip


def sheet(facts: Mapping[str, Any], given: str | None = None) -> Sheet:
    """Judges facts. ``given`` is the name of the facts file, if any. Damaged facts may raise any exception."""
    trace = bare(facts)
    checks = judge(facts_of(trace))
    found = diagnose.examine(trace, causes())
    states = {d.cause: State.WRONG for d in found.diagnoses}
    states |= dict.fromkeys(found.healthy, State.FINE)
    states |= {u.cause: State.UNCHECKED for u in found.unchecked}
    ordered = {cause: states[cause] for cause in WORST_FIRST}
    wrong = [c for cause in WORST_FIRST for c in checks if c.cause == cause and c.state is State.WRONG]
    rest = [c for c in checks if c.state is not State.WRONG]
    sources = cited(key for check in checks for key in check.sources)
    return Sheet(
        __version__, _headline(wrong, facts), tuple(_about(facts)), (*wrong, *rest), ordered, sources, facts, given
    )


def bare(facts: Mapping[str, Any]) -> Trace:
    """A trace without a run, which holds only facts of a machine, for the causes to examine.

    The checks themselves name what the facts lack: a GPU may be present without reporting everything.
    """
    return Trace(signals=frozenset({Signal.FACTS}), facts={"machine": facts, "doctor": True})


def causes() -> Sequence[Cause]:
    """The causes that facts alone can decide."""
    return [named(name) for name in WORST_FIRST]


def _headline(wrong: Sequence[Check], facts: Mapping[str, Any]) -> str:
    if wrong:
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return f"{counted(len(wrong), 'thing')} wrong: {_first(wrong[0])}{more}"
    if present(facts) is False:
        besides = f", and the {others(facts)[0]} was not looked at" if others(facts) else ""
        return f"nothing wrong was found; there is no NVIDIA GPU here{besides}"
    if present(facts) is None:
        return "nothing wrong was found, but whether there is a GPU could not be seen"
    return "nothing wrong was found"


def _first(check: Check) -> str:
    """The finding up to its first reason, short enough for a headline."""
    says = check.sentence
    for mark in ("; ", ", where ", " (it was built"):
        says = says.partition(mark)[0]
    return says


def _about(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The computer in a few lines."""
    system, machine = at(facts, "platform", "system"), at(facts, "platform", "machine")
    where = " ".join(str(w) for w in (system, at(facts, "platform", "release"), machine) if w)
    inside = [w for w in (at(facts, "platform", "container"), "WSL" if at(facts, "devices", "wsl") else None) if w]
    inside += ["virtual machine"] if at(facts, "cpu", "virtual") else []
    inside += [name] if (name := at(facts, "platform", "distribution", "name")) else []
    said = [("system", (where or "not told") + (f" ({', '.join(map(str, inside))})" if inside else ""))]
    cores, model = figure(at(facts, "cpu", "logical_cores")), at(facts, "cpu", "model")
    memory = figure(at(facts, "memory", "usable_bytes"))
    host = [counted(cores, "core") if cores else None, f"of {model}" if model else None]
    host += [f", {gib(memory)}" if memory else None]
    said.append(("host", " ".join(str(h) for h in host if h).replace(" ,", ",") or "not told"))
    said.append(("GPU", _gpus(facts)))
    asked = [
        f"{called(name, b)}{'' if b.get('error') else _built(b)}"
        if b.get("version")
        else f"{NAMES.get(name, name)}, not asked"
        for name, b in builds(facts).items()
    ]
    said.append(("framework", "; ".join(asked) or "not asked"))
    if backend(facts) != "tensorflow":
        said.append(("Keras on", backend(facts)))
    return said


def _gpus(facts: Mapping[str, Any]) -> str:
    """NVIDIA GPUs first, then other GPUs."""
    shown = cards(facts)
    card = ", ".join(
        f"{gpu.get('name')} ({gib(total)})"
        if (total := figure(gpu.get("memory_total_bytes")))
        else str(gpu.get("name"))
        for gpu in shown[:4]
    )
    none = {False: "none", True: "there, but not shown by its driver", None: "not to be seen"}[present(facts)]
    found = [card + (f" and {len(shown) - 4} more" if len(shown) > 4 else "") if shown else none, *others(facts)]
    if present(facts) is False and len(found) > 1:
        found[0] = "none of NVIDIA"
    return "; ".join([*found, *(f"display of {who}" for who in pictures(facts))])


def _built(build: Mapping[str, Any]) -> str:
    if build.get("cuda_build"):
        return f", CUDA {build.get('cuda_version') or '?'}"
    return ", ROCm" if build.get("rocm_build") else ", CPU build"
