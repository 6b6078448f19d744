"""The PCIe link runs below what card and board can do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause, fact_causes, pcie_link
from slowtrain.machine.tables.rule_table import LANE_GBPS
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.model.answers.doctor_sheet import CheckState
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy


@dataclass(frozen=True)
class Link:
    """A GPU's link as it was at its best during the steps, and as it could be."""

    generation: int
    width: int
    most_generation: int
    most_width: int

    @property
    def now(self) -> float:
        return LANE_GBPS.get(self.generation, 0.0) * self.width

    @property
    def most(self) -> float:
        return LANE_GBPS.get(self.most_generation, 0.0) * self.most_width

    @property
    def slow(self) -> bool:
        return 0 < self.now < self.most


class SlowLink(Cause[Evidence]):
    """Copies to and from the GPU are slow because its PCIe link has trained to fewer lanes or an older generation."""

    title = "The PCIe link is slower than card and board allow"
    machine_topic = "link"
    doctor_rank = 60
    needs = frozenset({Signal.STEPS, Signal.DEVICE, Signal.LINK})

    def wants(self, trace: Trace) -> frozenset[Signal]:
        if trace.fact("doctor"):
            return frozenset({Signal.FACTS}) | fact_causes.missing_fact_signals(trace, self.id)
        if fact_causes.has_given_facts(trace):
            return frozenset({Signal.STEPS, Signal.DEVICE, Signal.FACTS}) | fact_causes.missing_fact_signals(
                trace, self.id
            )
        return super().wants(trace)

    def find(self, trace: Trace) -> Evidence | None:
        if trace.fact("doctor"):
            return fact_causes.wrong_checks_evidence(trace, self.id)
        if fact_causes.has_given_facts(trace):
            return _joined(trace, fact_causes.wrong_checks_evidence(trace, self.id))
        own = _link(trace)
        if own is None or not own.slow:
            return None
        ms = sum(_exposed(trace).values())
        reached = _reached(trace)
        said = f", {format_number(reached, 2)} GB/s reached" if reached else ""
        return Evidence(
            f"under load the link runs as PCIe {own.generation}.0 x{own.width} ({format_number(own.now)} "
            f"GB/s{said}), where "
            f"{own.most_generation}.0 x{own.most_width} ({format_number(own.most)} GB/s) is possible; "
            f"copies that nothing hides take {format_number(ms)} of each step's {format_number(trace.step_ms)} ms",
            {"link_share": own.now / own.most, "copies_ms": ms, "generation": float(own.generation),
             "width": float(own.width)},
        )  # fmt: skip

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        if trace.fact("doctor"):
            return []
        # Copies from ordinary memory may be slower than either link: then less is won.
        won = 1 - evidence.numbers["link_share"]
        # Of several cards a profile does not tell which is which of the facts: perhaps it was another's link.
        least = 0.0 if fact_causes.has_given_facts(trace) and not _all_slow(trace) else 0.4
        return [Drop({c: won * ms for c, ms in _exposed(trace).items()}, 0.0, (least, 1.05))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if trace.fact("doctor") or fact_causes.has_given_facts(trace):
            yield from fact_causes.check_cures(trace, self.id)
            return
        says = "seat the card anew or use another slot; set the slot's PCIe generation to automatic"
        yield Prescription("advice", Effect.EXACT, says)


def _joined(trace: Trace, found: Evidence | None) -> Evidence | None:
    """The link as the doctor saw it, with what the profile's copies over it take."""
    if found is None:
        return None
    ms, numbers = sum(_exposed(trace).values()), found.numbers
    share = numbers["link_gbps"] / numbers["possible_gbps"]
    says = (
        f"{found.says}; copies that nothing hides take {format_number(ms)} of each step's "
        f"{format_number(trace.step_ms)} ms"
    )
    return Evidence(says, {"link_share": share, "copies_ms": ms})


def _all_slow(trace: Trace) -> bool:
    """Whether the facts call the link of every card slow."""
    return all(check.state is CheckState.WRONG for check in fact_causes.cause_checks(trace, SlowLink.id))


def _link(trace: Trace) -> Link | None:
    """Of the GPU that worked, at its best during the steps."""
    inside = pcie_link.samples_in_steps(trace)
    if inside is None:
        return None
    found: list[tuple[float, Link]] = []
    for i, gpu in enumerate(list(trace.fact("machine", "gpu", "devices", default=()) or ())[: pcie_link.MAX_GPUS]):
        now = [pcie_link.max_sample(trace, f"gpu_pcie_{what}_{i}", inside) for what in pcie_link.LINK_COLUMNS]
        most = [gpu.get(f"pcie_{what}_max") for what in pcie_link.LINK_COLUMNS]
        if all(now) and all(most):
            own = Link(*(int(v) for v in (*now, *most)))
            found.append((pcie_link.max_sample(trace, f"gpu_util_share_{i}", inside), own))
    # Other cards of the machine idle, and their links with them.
    return max(found, key=lambda f: f[0])[1] if found else None


def _exposed(trace: Trace) -> dict[Category, float]:
    """Ms a step of copies over the link that no kernel hides, by category."""
    copies = trace.device.copies if trace.device is not None else {}
    kinds = {Category.FEED: "h2d", Category.READBACK: "d2h"}
    return {c: min(copies[k].exposed_ms, trace.mean(c)) for c, k in kinds.items() if k in copies}


def _reached(trace: Trace) -> float:
    """GB/s of copies to the device; 0 where the profile does not tell."""
    copied = trace.device.copies.get("h2d") if trace.device is not None else None
    return copied.bytes / copied.ms / 1e6 if copied is not None and copied.ms and copied.bytes else 0.0
