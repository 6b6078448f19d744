"""There is a GPU, and the framework does not see it."""

from __future__ import annotations

from slowtrain.causes import Cause
from slowtrain.causes.judged import Judged


class GpuUnseen(Judged, Cause):
    """A GPU is there, and the framework trains on the CPU because it does not see it.

    ## What it means
    The framework falls back to the CPU with a line in its log at most. Everything works, and many times
    slower for a model that a GPU suits.

    ## How it is recognised
    The PCI bus, the device files and the driver show an NVIDIA GPU; the framework, asked in a process of its
    own, shows none. The reason is looked for in this order: no driver, no device files in a container, one that has
    lost its GPUs, no permission, native Windows, `CUDA_VISIBLE_DEVICES`, a build for the CPU, MIG without an
    instance, a library that the loader does not find (by name), a driver older than the build's CUDA, a plugin of
    JAX of another version, a card that the build has no code for. Where none of them holds, its own words are
    shown; a run tries no libraries, and sends to `slowtrain doctor` then. GPUs of other makers are named and not
    judged.

    ## What to do
    What `slowtrain doctor` says beside the reason: the command for this system. Then run it again.

    ## When it is not worth it
    When the work is small: then the CPU may be the faster one (`slowtrain explain faster-on-cpu`).
    """

    title = "There is a GPU, and the framework does not see it"
    machine_topic = "gpu visibility"
    doctor_rank = 10

    fires = (
        """
        step    1111111111
        device  dddddddddd
        @fact devices=[{"kind":"CPU"}] build={"version":"2.21.0","cuda_build":false,"rocm_build":false}
        @fact machine={"platform":{"system":"Linux"},"devices":{"pci_gpus":[{"address":"0000:3b:00.0"}],
        & "kernel_driver":"550.54.15"},"gpu":{"driver_version":"550.54.15","devices":[{"index":0,"name":"Tesla T4"}]}}
        """,
        """
        step    1111111111
        device  dddddddddd
        @fact devices=[{"kind":"CPU"}]
        @fact machine={"platform":{"system":"Linux","container":"docker"},"devices":{"files":[],
        & "pci_gpus":[{"address":"0000:3b:00.0"}]},"gpu":{"unmeasured":"NVML Shared Library Not Found","devices":[]}}
        """,
    )
    quiet = (
        """
        step    1111111111
        device  dddddddddd
        @fact devices=[{"kind":"CPU"}] build={"version":"2.21.0","cuda_build":false,"rocm_build":false}
        @fact machine={"platform":{"system":"Linux"},"devices":{"pci_gpus":[]},"gpu":{"devices":[]}}
        """,
        """
        step    1111111111
        device  dddddddddd
        @fact devices=[{"kind":"CPU"},{"kind":"GPU"}] build={"version":"2.21.0","cuda_build":true}
        @fact machine={"platform":{"system":"Linux"},"devices":{"pci_gpus":[{"address":"0000:3b:00.0"}]},
        & "gpu":{"driver_version":"550.54.15","devices":[{"index":0,"name":"Tesla T4"}]}}
        """,
    )
