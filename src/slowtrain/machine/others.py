"""What other processes take of the processors just now."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slowtrain.machine.gpu import Gpus
from slowtrain.machine.sample import Sampler

SECONDS = 0.5  # in which this process does nothing: long against a scheduler's slice, short for who waits


def others(gpus: Gpus, root: Path = Path("/"), sleep: Callable[[float], None] = time.sleep) -> dict[str, Any] | None:
    """``busy_cores`` of ``cores`` over ``seconds``, in which we sleep; None where the system does not tell."""
    looked = Sampler(root, gpus)
    try:
        sleep(SECONDS)
        shares = looked.sample().get("cpu_share")
    finally:
        looked.close()
    if not isinstance(shares, list) or not shares:
        return None
    return {"busy_cores": round(sum(share or 0.0 for share in shares), 3), "cores": len(shares), "seconds": SECONDS}
