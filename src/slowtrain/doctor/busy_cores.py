"""The processor time that other processes use at the moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slowtrain.machine.host.gpu_devices import Gpus
from slowtrain.machine.samples.sampler import Sampler

SAMPLE_S = 0.5  # during which this process sleeps: long against a scheduler's time slice, short for the user


def sample_busy_cores(
    gpus: Gpus, root: Path = Path("/"), sleep: Callable[[float], None] = time.sleep
) -> dict[str, Any] | None:
    """``busy_cores`` of ``cores`` over ``seconds`` of sleep; None if the system does not report it."""
    looked = Sampler(root, gpus)
    try:
        sleep(SAMPLE_S)
        shares = looked.sample().get("cpu_share")
    finally:
        looked.close()
    if not isinstance(shares, list) or not shares:
        return None
    return {"busy_cores": round(sum(share or 0.0 for share in shares), 3), "cores": len(shares), "seconds": SAMPLE_S}
