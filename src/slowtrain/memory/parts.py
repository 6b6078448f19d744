"""What holds memory at the peak: parameters, optimizer, gradients, activations by layer, input, workspace."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from slowtrain.memory.bfc import rounded
from slowtrain.memory.record import Request
from slowtrain.memory.replay import Outcome
from slowtrain.memory.scaling import Requests
from slowtrain.model.sizing import Need

PARTS = ("parameters", "optimizer", "gradients", "activations", "input", "workspace", "step", "other")
_CALL = re.compile(r"^(?:.*/)?(?:Stateful)?PartitionedCall(?:_\d+)?/")  # a function in a function
_OPTIMIZER = re.compile(
    r"(^|/)(adam\w*|sgd|rm_?sprop|nadam|lion|adagrad|ftrl|lamb|adafactor|adadelta)(_\d+)?/", re.IGNORECASE
)
_COPY = re.compile(r"_\d+$")


def need(requests: Requests, batch: int, outcome: Outcome, variables: Mapping[str, int]) -> Need:
    """``outcome`` is a replay at that batch with holders; ``variables`` are the probe's bytes by kind."""
    sizes = requests.sizes(batch)
    held: Counter[str] = Counter()
    layers: Counter[str] = Counter()
    lasting = requests.measured.record.before_bytes
    for at in outcome.at_peak:
        request, size = requests.requests[at], rounded(sizes[at])
        if request.released is None and not _of_input(request):
            lasting += size
            continue
        part = part_of(request) if requests.measured.record.named else "step"
        held[part] += size
        if part == "activations":
            layers[layer_of(request.op)] += size
    held["parameters"] = min(variables.get("trained", 0) + variables.get("other", 0), lasting)
    slots = min(variables.get("optimizer", 0), lasting - held["parameters"])
    held["optimizer"] += slots
    held["other"] += lasting - held["parameters"] - slots
    held["other"] += max(outcome.peak_bytes - sum(held.values()), 0)  # pieces are larger than the requests
    return Need(batch, outcome.peak_bytes, {p: held[p] for p in PARTS}, tuple(layers.most_common()))


def part_of(request: Request) -> str:
    """The part to which a request belongs that is released again."""
    op = _CALL.sub("", request.op)
    if _of_input(request):
        return "input"
    if request.kind in ("temp", "persist"):
        return "workspace"
    if "gradient_tape" in op or "Grad" in op.rpartition("/")[2]:
        return "gradients"
    if _OPTIMIZER.search(op):
        return "optimizer"
    return "activations" if "/" in op else "other"


def _of_input(request: Request) -> bool:
    return "Iterator" in request.op or "Dataset" in request.op or request.line.startswith("tf_data")


def layer_of(op: str) -> str:
    """``sequential_1/conv2d_1_2/Relu`` belongs to conv2d_1: without the model's name and the call's number."""
    inner = _CALL.sub("", op).split("/")[:-1]
    inner = inner[1:] if len(inner) > 1 else inner
    name = inner[0] if inner else "other"
    return _COPY.sub("", name) or name
