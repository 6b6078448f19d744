"""The first op that made a number that is not finite, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slowtrain.number_text import format_number


def describe_origin(origin: Mapping[str, Any]) -> str:
    """The op, its layer and its inputs."""
    output = origin.get("output") or {}
    made = "NaN" if output.get("nan") else "an infinity"
    layer = f" in layer {origin['layer']}" if origin.get("layer") else ""
    if origin.get("kind") == "data":
        bad = int(output.get("nan") or 0) + int(output.get("inf") or 0)
        return f"{bad:,} of {int(output.get('count') or 0):,} numbers of {origin.get('name')} were NaN or infinite"
    if origin.get("kind") == "weights":
        return f"{origin.get('name')} held {made} before the step began"
    if origin.get("kind") != "op":
        return f"{origin.get('type') or 'an op'}{layer} was given {made} from outside the step"
    if origin.get("variable"):
        update = f"the update {origin['type']}" if origin.get("type") else "the optimizer's update"
        return f"{update} of {origin['variable']} made {made} from finite numbers{_describe_inputs(origin)}"
    of = f" (gradient of {origin.get('of')})" if origin.get("gradient") else ""
    return f"{origin.get('type')}{of}{layer} made {made} from finite numbers{_describe_inputs(origin)}"


def _describe_inputs(origin: Mapping[str, Any]) -> str:
    """The ranges of the first two inputs."""
    ranges = [
        f"{format_number(i['least'])} to {format_number(i['most'])}"
        + (f" ({i['zero']:,} of {i['count']:,} are 0)" if i.get("zero") else "")
        for i in origin.get("inputs") or ()
        if i.get("least") is not None
    ]
    return f"; its input was {' and '.join(ranges[:2])}" if ranges else ""
