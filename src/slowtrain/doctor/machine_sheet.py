"""Builds the doctor's sheet from facts about a computer: verdict of each cause, all checks, all sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slowtrain import __version__, diagnose
from slowtrain.causes import Cause, all_causes
from slowtrain.causes.fact_causes import check_facts, machine_facts
from slowtrain.machine.tables.fact_access import (
    FRAMEWORK_TITLES,
    build_label,
    display_only_makers,
    driver_gpus,
    format_bytes,
    framework_builds,
    has_nvidia_gpu,
    keras_backend_name,
    nested_fact,
    number_or_none,
    other_gpu_labels,
)
from slowtrain.machine.tables.rule_table import find_sources
from slowtrain.model import Signal
from slowtrain.model.inspections import Check, CheckState, Sheet
from slowtrain.number_text import format_count
from slowtrain.trace import Trace


def build_sheet(facts: Mapping[str, Any], facts_file: str | None = None) -> Sheet:
    """Judges facts. ``facts_file`` is the name of the facts file, if any. Damaged facts may raise any exception."""
    trace = trace_of_facts(facts)
    checks = check_facts(machine_facts(trace))
    found = diagnose.diagnose_trace(trace, machine_causes())
    states = {d.cause: CheckState.WRONG for d in found.diagnoses}
    states |= dict.fromkeys(found.healthy, CheckState.FINE)
    states |= {u.cause: CheckState.UNCHECKED for u in found.unchecked}
    ordered = {cause: states[cause] for cause in worst_first()}
    wrong = [c for cause in worst_first() for c in checks if c.cause == cause and c.state is CheckState.WRONG]
    rest = [c for c in checks if c.state is not CheckState.WRONG]
    sources = find_sources(key for check in checks for key in check.sources)
    return Sheet(
        __version__,
        _headline_of(wrong, facts),
        tuple(_describe_machine(facts)),
        (*wrong, *rest),
        ordered,
        sources,
        facts,
        facts_file,
    )


def trace_of_facts(facts: Mapping[str, Any]) -> Trace:
    """A trace without a run, which holds only facts of a machine, for the causes to examine.

    The checks themselves name what the facts lack: a GPU may be present without reporting everything.
    """
    return Trace(signals=frozenset({Signal.FACTS}), facts={"machine": facts, "doctor": True})


def machine_causes() -> Sequence[Cause[Any]]:
    """The causes that facts alone can decide, the worst first."""
    ranked = [(c.doctor_rank, c.id, c) for c in all_causes() if c.doctor_rank is not None]
    return [cause for _, _, cause in sorted(ranked, key=lambda one: one[:2])]


def worst_first() -> tuple[str, ...]:
    """Their ids."""
    return tuple(cause.id for cause in machine_causes())


def _headline_of(wrong: Sequence[Check], facts: Mapping[str, Any]) -> str:
    if wrong:
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return f"{format_count(len(wrong), 'problem')}: {_short_finding(wrong[0])}{more}"
    if has_nvidia_gpu(facts) is False:
        besides = f"; the {other_gpu_labels(facts)[0]} was not checked" if other_gpu_labels(facts) else ""
        return f"no problem found; this machine has no NVIDIA GPU{besides}"
    if has_nvidia_gpu(facts) is None:
        return "no problem found; whether this machine has a GPU is unknown"
    return "no problem found"


def _short_finding(check: Check) -> str:
    """The finding up to its first reason, short enough for a headline."""
    says = check.sentence
    for mark in ("; ", ", where ", " (it was built"):
        says = says.partition(mark)[0]
    return says


def _describe_machine(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The computer in a few lines."""
    system, machine = nested_fact(facts, "platform", "system"), nested_fact(facts, "platform", "machine")
    where = " ".join(str(w) for w in (system, nested_fact(facts, "platform", "release"), machine) if w)
    inside = [
        w
        for w in (nested_fact(facts, "platform", "container"), "WSL" if nested_fact(facts, "devices", "wsl") else None)
        if w
    ]
    inside += ["virtual machine"] if nested_fact(facts, "cpu", "virtual") else []
    inside += [name] if (name := nested_fact(facts, "platform", "distribution", "name")) else []
    rows = [("system", (where or "unknown") + (f" ({', '.join(map(str, inside))})" if inside else ""))]
    cores, model = number_or_none(nested_fact(facts, "cpu", "logical_cores")), nested_fact(facts, "cpu", "model")
    memory = number_or_none(nested_fact(facts, "memory", "usable_bytes"))
    host = [format_count(cores, "core") if cores else None, f"of {model}" if model else None]
    host += [f", {format_bytes(memory)}" if memory else None]
    rows.append(("host", " ".join(str(h) for h in host if h).replace(" ,", ",") or "unknown"))
    rows.append(("GPU", _describe_gpus(facts)))
    asked = [
        f"{build_label(name, b)}{'' if b.get('error') else _describe_build(b)}"
        if b.get("version")
        else f"{FRAMEWORK_TITLES.get(name, name)}, not asked"
        for name, b in framework_builds(facts).items()
    ]
    rows.append(("framework", "; ".join(asked) or "not asked"))
    if keras_backend_name(facts) != "tensorflow":
        rows.append(("Keras on", keras_backend_name(facts)))
    return rows


def _describe_gpus(facts: Mapping[str, Any]) -> str:
    """NVIDIA GPUs first, then other GPUs."""
    shown = driver_gpus(facts)
    card = ", ".join(
        f"{gpu.get('name')} ({format_bytes(total)})"
        if (total := number_or_none(gpu.get("memory_total_bytes")))
        else str(gpu.get("name"))
        for gpu in shown[:4]
    )
    none = {False: "none", True: "present, but not shown by its driver", None: "unknown"}[has_nvidia_gpu(facts)]
    found = [
        card + (f" and {len(shown) - 4} more" if len(shown) > 4 else "") if shown else none,
        *other_gpu_labels(facts),
    ]
    if has_nvidia_gpu(facts) is False and len(found) > 1:
        found[0] = "none from NVIDIA"
    return "; ".join([*found, *(f"display of {who}" for who in display_only_makers(facts))])


def _describe_build(build: Mapping[str, Any]) -> str:
    if build.get("cuda_build"):
        return f", CUDA {build.get('cuda_version') or '?'}"
    return ", ROCm" if build.get("rocm_build") else ", CPU build"
