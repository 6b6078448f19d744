"""A setting that slows training was left on."""

from __future__ import annotations

from slowtrain.causes import Cause
from slowtrain.causes.judged import Judged


class SlowingSetting(Judged, Cause):
    """A setting for finding errors, or for repeatable runs, was left on and slows everything down.

    ## What it means
    Environment variables outlive the day on which they were needed: in a login script, an image, a job
    template. The host waiting for every kernel, logs in hot paths, dumps of every compiled program cost time in
    every step or start.

    ## How it is recognised
    The environment of the process, against a table of variables with the values that slow and the source of
    each. Settings of GPUs count only where there is one; those that are often meant (TF32 off, oneDNN off) are
    noted, not called wrong.

    ## What to do
    `unset` it where it comes from: `env | grep NAME`, then the login script, the image, the job's template.

    ## When it is not worth it
    When it is meant: a run that has to be repeatable needs its deterministic kernels.
    """

    title = "A setting that slows training was left on"
    machine_topic = "settings"
    doctor_rank = 80

    fires = (
        """
        @once
        @fact machine={"environment":{"TF_CPP_MAX_VLOG_LEVEL":"2"},"gpu":{"devices":[]}}
        """,
        """
        @once
        @fact machine={"environment":{"CUDA_LAUNCH_BLOCKING":"1"},"gpu":{"devices":[{"index":0,"name":"Tesla T4"}]}}
        """,
    )
    quiet = (
        """
        @once
        @fact machine={"environment":{"TF_CPP_MAX_VLOG_LEVEL":"0","TF_CPP_MIN_LOG_LEVEL":"3"},"gpu":{"devices":[]}}
        """,
        """
        @once
        @fact machine={"environment":{"CUDA_LAUNCH_BLOCKING":"1"},"gpu":{"devices":[]}}
        """,
    )
