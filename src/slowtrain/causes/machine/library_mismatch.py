"""Driver, CUDA, cuDNN, build and card do not go together."""

from __future__ import annotations

from slowtrain.causes import Cause
from slowtrain.causes.judged import Judged


class LibraryMismatch(Judged, Cause):
    """Driver, CUDA, cuDNN, the framework's build and the card do not go together.

    ## What it means
    Each of the five has versions, and a build of a framework takes only some of the others. Where they do not
    fit, the GPU is not used, or ops fail, or a slower path is taken.

    ## How it is recognised
    The framework's own build information (CUDA, cuDNN, compute capabilities) against the driver, the files that
    its process has loaded and the card, by the rules of one table that names its sources; of JAX the plugin against
    jaxlib, too. A version that no rule is known for is unchecked. Libraries that lie there and are not loaded say
    nothing: PyTorch, JAX and TensorFlow take those of their own wheels.

    ## What to do
    Update what is too old: `slowtrain doctor` says which, and to what. Mixed installations (CUDA from wheels
    beside CUDA on `LD_LIBRARY_PATH`) are best made one.

    ## When it is not worth it
    When the GPU works and only a newer driver than needed is there: newer drivers run older builds.
    """

    title = "Driver, CUDA, cuDNN, build and card do not go together"

    fires = (
        """
        step    1111111111
        device  kkkkkkkkkk
        @fact devices=[{"kind":"GPU"}] build={"version":"2.21.0","cuda_build":true,"cuda_version":"12.5.1"}
        @fact machine={"platform":{"system":"Linux"},"gpu":{"driver_version":"470.82.01","cuda_version":"11.4",
        & "devices":[{"index":0,"name":"Tesla T4","compute_capability":"7.5"}]}}
        """,
        """
        step    1111111111
        device  kkkkkkkkkk
        @fact devices=[{"kind":"GPU"}] build={"version":"2.15.0","cuda_build":true,"cuda_version":"12.2",
        & "capabilities":["sm_60","sm_70","compute_80"]}
        @fact machine={"platform":{"system":"Linux"},"gpu":{"driver_version":"550.54.15","cuda_version":"12.4",
        & "devices":[{"index":0,"name":"GeForce GTX 970","compute_capability":"5.2"}]}}
        """,
    )
    quiet = (
        """
        step    1111111111
        device  kkkkkkkkkk
        @fact devices=[{"kind":"GPU"}] build={"version":"2.21.0","cuda_build":true,"cuda_version":"12.5.1",
        & "capabilities":["sm_60","sm_70","sm_80","compute_90"]}
        @fact machine={"platform":{"system":"Linux"},"gpu":{"driver_version":"550.54.15","cuda_version":"12.4",
        & "devices":[{"index":0,"name":"Tesla T4","compute_capability":"7.5"}]}}
        """,
    )
