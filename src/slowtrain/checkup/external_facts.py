"""Joins facts from a ``doctor`` file to a profile of the same computer, so that one report judges both.

A profile names its devices. Facts that contradict it are of another computer and are not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from slowtrain.causes import class_of
from slowtrain.causes.fact_causes import check_facts, machine_facts
from slowtrain.diagnose import Findings
from slowtrain.machine.tables.fact_access import (
    Facts,
    build_label,
    driver_gpus,
    format_bytes,
    framework_builds,
    has_nvidia_gpu,
    number_or_none,
    other_gpu_labels,
)
from slowtrain.model import Signal
from slowtrain.number_text import format_count
from slowtrain.trace import Trace

# Share of the card's memory. NVML counts memory that the driver reserves, CUDA does not. A card of twice the size is a
# different one.
MAX_MEMORY_DIFFERENCE_SHARE = 0.1
AMD_NAME = "AMD"


def join_facts(trace: Trace, facts: Facts, file: str) -> Trace:
    """A profile's trace with the facts of ``file``. If the profile contradicts them, only the contradiction is added.

    Damaged facts may raise any exception (``cli/_answers.py`` prints it in one line).
    """
    name = "jax" if trace.on_jax else "tensorflow"
    # Other frameworks answered as well, but took no part in these steps.
    mine = {
        **facts,
        "frameworks": {n: b for n, b in framework_builds(facts).items() if n == name},
        "keras_backend": name,
    }
    why = next(_find_contradictions(trace, mine), None)
    if why is not None:
        return replace(trace, facts={**trace.facts, "refused": f"the facts describe another computer: {why} ({file})"})
    fact_file = {"file": file, "facts": mine}
    joined = replace(trace, facts={**trace.facts, "given": fact_file}, signals=trace.signals | {Signal.FACTS})
    check_facts(machine_facts(joined))  # damaged facts should fail here, not inside a cause
    return joined


def describe_machine_verdict(trace: Trace, findings: Findings) -> str:
    """What is wrong with the profile's computer and how it was judged, or why it was not."""
    if trace.fact("given"):
        ranks = [(class_of(d.cause).doctor_rank, d.cause) for d in findings.diagnoses]
        wrong = sorted((rank, cause) for rank, cause in ranks if rank is not None)
        says = f"{', '.join(cause for _, cause in wrong)}; " if wrong else ""
        return (
            f"{says}judged from {trace.fact('given', 'file')}, which describes the machine at that time and not "
            "during these steps"
        )
    if trace.fact("refused"):
        return f"not judged; {trace.fact('refused')}"
    return "not judged; run `slowtrain doctor --json FILE` on that machine, then add --facts FILE"


def _find_contradictions(trace: Trace, facts: Facts) -> Iterator[str]:
    """Statements of the profile's devices that the facts contradict."""
    seen = [row for row in trace.fact("hardware", default=()) if row.get("kind") == "GPU"]
    if not seen:
        return  # steps on a processor or a TPU, which the facts do not describe
    shown = driver_gpus(facts)
    if AMD_NAME in str(seen[0].get("device_vendor") or "").upper():
        if (shown or has_nvidia_gpu(facts) is False) and not any(
            AMD_NAME in other for other in other_gpu_labels(facts)
        ):
            yield f"the profile's steps ran on an AMD GPU, and the facts list {_card_names(shown)}"
        return
    if not shown:
        if has_nvidia_gpu(facts) is False:
            yield "the profile's steps ran on a GPU, and the facts list none"
        return
    if len(seen) > len(shown):
        yield f"the profile has {format_count(len(seen), 'GPU')}, and the facts list {len(shown)}"
    for name, build in framework_builds(facts).items():
        if build.get("gpus") == 0:
            yield f"the profile's steps ran on a GPU, and in the facts {build_label(name, build)} sees none"
    yield from _card_contradiction(seen[0], shown)


def _card_contradiction(device: Mapping[str, Any], shown: Sequence[Facts]) -> Iterator[str]:
    """Reports if no card matches the profile's in name, compute capability and memory."""
    name, names = device.get("gpu_device_name"), [gpu.get("name") for gpu in shown]
    if (
        isinstance(name, str)
        and name
        and all(names)
        and _normalise_card_name(name) not in map(_normalise_card_name, names)
    ):
        yield f"the profile's GPU is a {name}, and the facts list {_card_names(shown)}"
    major, minor = device.get("compute_cap_major"), device.get("compute_cap_minor")
    capabilities = [gpu.get("compute_capability") for gpu in shown]
    if (
        isinstance(major, int)
        and isinstance(minor, int)
        and all(capabilities)
        and f"{major}.{minor}" not in map(str, capabilities)
    ):
        says = ", ".join(dict.fromkeys(map(str, capabilities)))
        yield (
            f"the profile's GPU has compute capability {major}.{minor}, and the facts list {_card_names(shown)} "
            f"with {says}"
        )
    size = number_or_none(device.get("memory_size"))
    sizes = [number_or_none(gpu.get("memory_total_bytes")) for gpu in shown]
    if size and all(sizes) and all(abs(size - (other or 0.0)) > MAX_MEMORY_DIFFERENCE_SHARE * size for other in sizes):
        says = ", ".join(dict.fromkeys(format_bytes(other or 0.0) for other in sizes))
        yield (
            f"the profile's GPU has {format_bytes(size)} of memory, and the facts list {_card_names(shown)} with {says}"
        )


def _card_names(shown: Sequence[Facts]) -> str:
    return ", ".join(dict.fromkeys(str(gpu.get("name")) for gpu in shown)) or "no GPU"


def _normalise_card_name(name: Any) -> str:
    """A card's name without the vendor's, which drivers and CUDA versions write differently."""
    return re.sub(r"nvidia|geforce|tesla|[^a-z0-9]", "", str(name).lower())
