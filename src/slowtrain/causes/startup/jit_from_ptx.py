"""The build has no machine code for this card, so that the driver compiles it at start."""

from __future__ import annotations

from slowtrain.causes import Cause
from slowtrain.causes.judged import Judged
from slowtrain.model import VerdictKind


class JitFromPtx(Judged, Cause):
    """The build has no machine code for this card: the driver compiles all of it at the first start.

    ## What it means
    A framework carries machine code for the cards that were there when it was built, and PTX, from which the
    driver can make code for newer ones. It does so at the first start, for minutes (TensorFlow's own warning
    says half an hour and more), and again whenever its cache was lost: a new container, a cache too small.

    ## How it is recognised
    The compute capabilities in the framework's own build information against that of the card. Machine code
    serves cards of its own major version from its minor version on; what has none of it, but older PTX, is
    compiled.

    ## What to do
    A newer release of the framework, or NVIDIA's container image, whose list has the card. Until then a cache
    that lasts and is large enough: `CUDA_CACHE_MAXSIZE`, and `CUDA_CACHE_PATH` on a disk that outlives the
    container.

    ## When it is not worth it
    When the same machine trains for days: it is paid once.
    """

    title = "The driver compiles the framework's GPU code at start"
    verdict_word = VerdictKind.STARTUP
    machine_topic = "compiled code"
    doctor_rank = 70

    fires = (
        """
        @once
        @fact devices=[{"kind":"GPU"}] build={"version":"2.19.0","cuda_build":true,"cuda_version":"12.5.1",
        & "capabilities":["sm_60","sm_70","sm_80","sm_89","compute_90"]}
        @fact machine={"platform":{"system":"Linux"},"gpu":{"driver_version":"570.86.10","cuda_version":"12.8",
        & "devices":[{"index":0,"name":"GeForce RTX 5090","compute_capability":"12.0"}]}}
        """,
    )
    quiet = (
        """
        @once
        @fact devices=[{"kind":"GPU"}] build={"version":"2.19.0","cuda_build":true,"cuda_version":"12.5.1",
        & "capabilities":["sm_60","sm_70","sm_80","sm_89","compute_90"]}
        @fact machine={"platform":{"system":"Linux"},"gpu":{"driver_version":"570.86.10","cuda_version":"12.8",
        & "devices":[{"index":0,"name":"H100","compute_capability":"9.0"}]}}
        """,
        """
        @once
        @fact devices=[{"kind":"GPU"}] build={"version":"2.19.0","cuda_build":true,"cuda_version":"12.5.1",
        & "capabilities":["sm_60","sm_70","sm_80","sm_89","compute_90"]}
        @fact machine={"platform":{"system":"Linux"},"gpu":{"driver_version":"550.54.15","cuda_version":"12.4",
        & "devices":[{"index":0,"name":"Tesla T4","compute_capability":"7.5"}]}}
        """,
    )
