"""The PCIe link runs below what card and board can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from slowtrain.causes import Cause, fact_causes, pcie_link
from slowtrain.machine.tables.rule_table import LANE_GBPS
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.model.inspections import CheckState
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.whatif import Drop, Remedy


class GpuLink(Struct, frozen=True):
    """A GPU's link at its best during the steps, and at the best that card and board can do."""

    generation: int
    width: int
    max_generation: int
    max_width: int

    @property
    def rate_gbps(self) -> float:
        return LANE_GBPS.get(self.generation, 0.0) * self.width

    @property
    def max_gbps(self) -> float:
        return LANE_GBPS.get(self.max_generation, 0.0) * self.max_width

    @property
    def is_slow(self) -> bool:
        return 0 < self.rate_gbps < self.max_gbps


class SlowLinkFinding(Struct, frozen=True):
    """The evidence, the link's rate as a share of the possible rate, and ms of copies over it that nothing hides."""

    evidence: Evidence
    rate_share: float
    exposed_ms: Mapping[Category, float]


class SlowLink(Cause[SlowLinkFinding]):
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

    def find(self, trace: Trace) -> SlowLinkFinding | None:
        if trace.fact("doctor"):
            evidence = fact_causes.wrong_checks_evidence(trace, self.id)
            return SlowLinkFinding(evidence, 1.0, {}) if evidence is not None else None
        if fact_causes.has_given_facts(trace):
            return _finding_of_facts(trace)
        link_of_gpu = _busiest_gpu_link(trace)
        return _finding_of_link(trace, link_of_gpu) if link_of_gpu is not None and link_of_gpu.is_slow else None

    def evidence(self, trace: Trace, finding: SlowLinkFinding) -> Evidence:
        return finding.evidence

    def remedies(self, trace: Trace, finding: SlowLinkFinding) -> Sequence[Remedy]:
        if trace.fact("doctor"):
            return []
        # Copies from ordinary memory may be slower than either link: then less is gained.
        gain = 1 - finding.rate_share
        # A profile does not show which of several cards the facts belong to: the slow link may be another card's.
        least = 0.0 if fact_causes.has_given_facts(trace) and not _all_links_slow(trace) else 0.4
        return [Drop({c: gain * ms for c, ms in finding.exposed_ms.items()}, 0.0, (least, 1.05))]

    def cures(self, trace: Trace, finding: SlowLinkFinding) -> Iterable[Prescription]:
        if trace.fact("doctor") or fact_causes.has_given_facts(trace):
            yield from fact_causes.check_cures(trace, self.id)
            return
        says = "reseat the card or use another slot; set the slot's PCIe generation to automatic"
        yield Prescription("advice", Effect.EXACT, says)


def _finding_of_link(trace: Trace, own: GpuLink) -> SlowLinkFinding:
    """The link as it was sampled during the steps."""
    exposed = _exposed_copies_ms(trace)
    ms, share = sum(exposed.values()), own.rate_gbps / own.max_gbps
    reached = _reached_gbps(trace)
    reached_text = f", {format_number(reached, 2)} GB/s reached" if reached else ""
    evidence = Evidence(
        f"under load the link runs as PCIe {own.generation}.0 x{own.width} ({format_number(own.rate_gbps)} "
        f"GB/s{reached_text}), but {own.max_generation}.0 x{own.max_width} ({format_number(own.max_gbps)} GB/s) is "
        f"possible; copies that nothing hides take {format_number(ms)} of each step's "
        f"{format_number(trace.step_ms)} ms",
        {"link_share": share, "copies_ms": ms, "generation": float(own.generation), "width": float(own.width)},
    )
    return SlowLinkFinding(evidence, share, exposed)


def _finding_of_facts(trace: Trace) -> SlowLinkFinding | None:
    """The link as the doctor saw it, with the time of the profile's copies over it."""
    checked = fact_causes.wrong_checks_evidence(trace, SlowLink.id)
    if checked is None:
        return None
    exposed = _exposed_copies_ms(trace)
    ms, share = sum(exposed.values()), checked.numbers["link_gbps"] / checked.numbers["possible_gbps"]
    says = (
        f"{checked.says}; copies that nothing hides take {format_number(ms)} of each step's "
        f"{format_number(trace.step_ms)} ms"
    )
    return SlowLinkFinding(Evidence(says, {"link_share": share, "copies_ms": ms}), share, exposed)


def _all_links_slow(trace: Trace) -> bool:
    """Whether the link of every card is slow by the facts."""
    return all(check.state is CheckState.WRONG for check in fact_causes.cause_checks(trace, SlowLink.id))


def _busiest_gpu_link(trace: Trace) -> GpuLink | None:
    """The link of the GPU that worked, at its best during the steps."""
    inside = pcie_link.samples_in_steps(trace)
    if inside is None:
        return None
    found: list[tuple[float, GpuLink]] = []
    for i, gpu in enumerate(list(trace.fact("machine", "gpu", "devices", default=()) or ())[: pcie_link.MAX_GPUS]):
        now = [pcie_link.max_sample(trace, f"gpu_pcie_{what}_{i}", inside) for what in pcie_link.LINK_COLUMNS]
        most = [gpu.get(f"pcie_{what}_max") for what in pcie_link.LINK_COLUMNS]
        if all(now) and all(most):
            own = GpuLink(*(int(v) for v in (*now, *most)))
            found.append((pcie_link.max_sample(trace, f"gpu_util_share_{i}", inside), own))
    # The other cards of the machine idle, and so do their links.
    return max(found, key=lambda f: f[0])[1] if found else None


def _exposed_copies_ms(trace: Trace) -> dict[Category, float]:
    """Ms a step of copies over the link that no kernel hides, by category."""
    copies = trace.device.copies if trace.device is not None else {}
    kinds = {Category.FEED: "h2d", Category.READBACK: "d2h"}
    return {c: min(copies[k].exposed_ms, trace.mean(c)) for c, k in kinds.items() if k in copies}


def _reached_gbps(trace: Trace) -> float:
    """GB/s of copies to the device; 0 if the profile has neither bytes nor times."""
    copied = trace.device.copies.get("h2d") if trace.device is not None else None
    return copied.bytes / copied.ms / 1e6 if copied is not None and copied.ms and copied.bytes else 0.0
