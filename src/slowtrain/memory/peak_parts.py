"""What holds memory at the peak: parameters, optimizer, gradients, activations by layer, input, workspace."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from slowtrain.memory.allocation_record import AllocationRequest
from slowtrain.memory.allocation_replay import ReplayOutcome
from slowtrain.memory.batch_scaling import ScaledRequests
from slowtrain.memory.bfc_allocator import round_up_size
from slowtrain.model.answers.batch_sizing import Need

PEAK_PARTS = ("parameters", "optimizer", "gradients", "activations", "input", "workspace", "step", "other")
_CALL = re.compile(r"^(?:.*/)?(?:Stateful)?PartitionedCall(?:_\d+)?/")  # a function in a function
_OPTIMIZER = re.compile(
    r"(^|/)(adam\w*|sgd|rm_?sprop|nadam|lion|adagrad|ftrl|lamb|adafactor|adadelta)(_\d+)?/", re.IGNORECASE
)
_COPY = re.compile(r"_\d+$")


def peak_need(requests: ScaledRequests, batch: int, outcome: ReplayOutcome, variables: Mapping[str, int]) -> Need:
    """``outcome`` is a replay at that batch with holders; ``variables`` are the probe's bytes by kind."""
    sizes = requests.sizes(batch)
    held: Counter[str] = Counter()
    layers: Counter[str] = Counter()
    lasting = requests.measured.record.before_bytes
    for at in outcome.at_peak:
        request, size = requests.requests[at], round_up_size(sizes[at])
        if request.released is None and not _is_input(request):
            lasting += size
            continue
        part = temporary_part(request) if requests.measured.record.named else "step"
        held[part] += size
        if part == "activations":
            layers[layer_name(request.op)] += size
    held["parameters"] = min(variables.get("trained", 0) + variables.get("other", 0), lasting)
    slots = min(variables.get("optimizer", 0), lasting - held["parameters"])
    held["optimizer"] += slots
    held["other"] += lasting - held["parameters"] - slots
    held["other"] += max(outcome.peak_bytes - sum(held.values()), 0)  # pieces are larger than the requests
    return Need(batch, outcome.peak_bytes, {p: held[p] for p in PEAK_PARTS}, tuple(layers.most_common()))


def temporary_part(request: AllocationRequest) -> str:
    """The part to which a request belongs that is released again."""
    op = _CALL.sub("", request.op)
    if _is_input(request):
        return "input"
    if request.kind in ("temp", "persist"):
        return "workspace"
    if "gradient_tape" in op or "Grad" in op.rpartition("/")[2]:
        return "gradients"
    if _OPTIMIZER.search(op):
        return "optimizer"
    return "activations" if "/" in op else "other"


def _is_input(request: AllocationRequest) -> bool:
    return "Iterator" in request.op or "Dataset" in request.op or request.line.startswith("tf_data")


def layer_name(op: str) -> str:
    """``sequential_1/conv2d_1_2/Relu`` belongs to conv2d_1: without the model's name and the call's number."""
    inner = _CALL.sub("", op).split("/")[:-1]
    inner = inner[1:] if len(inner) > 1 else inner
    name = inner[0] if inner else "other"
    return _COPY.sub("", name) or name
