"""A verdict never contradicts its own parts: over all recorded profiles, and over drawn ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowtrain.checkup import build_checkup
from slowtrain.columns.arrays import Floats
from slowtrain.columns.device import Kernels
from slowtrain.columns.steps import Steps
from slowtrain.diagnose import diagnose_trace
from slowtrain.errors import InputError
from slowtrain.model import Category, Checkup, Signal, VerdictKind
from slowtrain.report import text
from slowtrain.trace import Trace
from slowtrain.trace.loading import profile_trace
from slowtrain.trace.signals.device import step_bound

from .messages import TRACES

HERE = Path(__file__).parent
# The causes that say in general what a verdict says.
GENERAL = {VerdictKind.COMPUTE: "compute/compute-bound", VerdictKind.LAUNCH: "host/launch-bound"}
OF_GROUP = {VerdictKind.LAUNCH: VerdictKind.HOST, VerdictKind.MEMORY: VerdictKind.COMPUTE}


def profiles() -> Iterator[Path]:
    yield from sorted((HERE / "recorded").glob("*.xplane.pb.gz"))
    yield from sorted((HERE / "data").glob("*.xplane.pb"))
    yield from sorted((HERE / "found").glob("*.xplane.pb"))
    yield from sorted(TRACES.glob("**/*.xplane.pb"))


@cache
def read(path: Path) -> tuple[Trace, Checkup] | None:
    try:
        trace = profile_trace.load_profile([path])
    except InputError:
        return None
    return trace, build_checkup(trace, diagnose_trace(trace), folder=path)


def contradictions(trace: Trace, found: Checkup) -> list[str]:
    """What of an answer does not go with its verdict."""
    kind = found.step_verdict
    wrong = []
    if kind is not VerdictKind.INSUFFICIENT:
        spent = step_bound.ms_by_verdict(trace)
        mine = spent[OF_GROUP.get(kind, kind)] + 1e-6
        wrong += [f"{kind}, but more of a step is {other}" for other, ms in spent.items() if ms > mine]
        if trace.mean(Category.UNATTRIBUTED) > mine:
            wrong.append(f"{kind}, but more of a step is unattributed")
    if GENERAL.get(kind) in found.healthy:
        wrong.append(f"{kind}, but {GENERAL[kind]} is called healthy")
    told = {d.cause for d in found.diagnoses}
    if GENERAL[VerdictKind.COMPUTE] in told and kind not in (VerdictKind.COMPUTE, VerdictKind.MEMORY):
        wrong.append(f"{kind}, but the model's computing is said to bound the step")
    return wrong


@pytest.mark.parametrize("path", list(profiles()), ids=lambda path: "/".join(path.parts[-2:]))
def test_no_recorded_profile_is_answered_with_a_contradiction(path: Path) -> None:
    answered = read(path)
    if answered is None:
        pytest.skip("no profile: it is declined")
    assert contradictions(*answered) == []


ON_CPU = [path for path in profiles() if path.name.startswith(("tf-", "host", "jax-")) and "found" not in path.parts]


@pytest.mark.parametrize("path", ON_CPU, ids=lambda path: "/".join(path.parts[-2:]))
def test_no_text_speaks_of_kernels_on_a_cpu(path: Path) -> None:
    answered = read(path)
    assert answered is not None
    assert answered[1].subject.device["kind"] == "CPU"
    said = text.checkup_text(answered[1], width=100, colour=False, unicode=True)
    assert "kernel" not in said.lower().replace(str(path).lower(), "")


MS = st.floats(0.0, 100.0)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Some steps with any division, of a profile or a recording, on a GPU or a CPU."""
    parts = {c: draw(MS) for c in draw(st.sets(st.sampled_from(list(Category)), min_size=1))}
    total = sum(parts.values()) or 1.0
    if sum(parts.values()) == 0:
        parts = {Category.UNATTRIBUTED: 1.0}
    count = draw(st.integers(1, 12))
    start: Floats = np.array([i * total for i in range(count)], dtype=np.float64)
    every = np.ones(count, dtype=bool)
    numbers = np.arange(count)
    device_ms = parts.get(Category.DEVICE, 0.0)
    ops = {"dense/MatMul:MatMul": (device_ms, 4.0)}
    kernels = Kernels(count, total, device_ms, device_ms, draw(st.sampled_from([1.0, 40.0, 500.0])), 0.0, ops, ops)
    signals = {Signal.STEPS, Signal.INPUT, Signal.KERNELS}
    gpu = draw(st.booleans())
    facts = {
        "profile": draw(st.booleans()),
        "told_steps": True,
        "devices": [{"kind": "GPU" if gpu else "CPU"}],
        "usable_cores": 4.0,
        "eager_step": draw(st.booleans()),
    }
    if draw(st.booleans()):
        facts["behind"] = {"ms": draw(MS), "said": "1 ms Python of the script"}
    return Trace(
        signals=frozenset(signals | ({Signal.DEVICE} if gpu else set())),
        steps=Steps("drawn", start, start + total, every, ~every, numbers * 0, numbers * 0),
        facts=facts,
        categories={c: np.full(count, ms) for c, ms in parts.items()},
        kernels=kernels,
    )


@given(traces())
@settings(max_examples=150, deadline=None)
def test_no_drawn_trace_is_answered_with_a_contradiction(trace: Trace) -> None:
    assert contradictions(trace, build_checkup(trace, diagnose_trace(trace), folder=Path("drawn"))) == []
