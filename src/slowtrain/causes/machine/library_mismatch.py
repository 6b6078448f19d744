"""Driver, libraries, build and card do not go together."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes import Cause
from slowtrain.causes.judged import Judged
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.spots.machine import strategies


class LibraryMismatch(Judged, Cause):
    """Driver, CUDA, cuDNN, the framework's build, Keras and the card do not go together.

    ## What it means
    Each of the five has versions, and a build of a framework takes only some of the others. Where they do not
    fit, the GPU is not used, or ops fail, or a slower path is taken.

    ## How it is recognised
    The framework's own build information (CUDA, cuDNN, compute capabilities) against the driver, the files that
    its process has loaded and the card, by the rules of one table that names its sources; of JAX the plugin against
    jaxlib, too. A version that no rule is known for is unchecked. Libraries that lie there and are not loaded say
    nothing: PyTorch, JAX and TensorFlow take those of their own wheels.

    Keras 3 is the Keras of TensorFlow from 2.16 on, and its `fit` does not work under
    `tf.distribute.MultiWorkerMirroredStrategy` with more than one worker (keras issue 20585). `slowtrain lint` and
    `slowtrain run` see that in the script; `slowtrain doctor` notes it where `TF_CONFIG` names several workers.

    ## What to do
    Update what is too old: `slowtrain doctor` says which, and to what. Mixed installations (CUDA from wheels
    beside CUDA on `LD_LIBRARY_PATH`) are best made one.

    ## When it is not worth it
    When the GPU works and only a newer driver than needed is there: newer drivers run older builds.
    """

    title = "Driver, libraries, build and card do not go together"
    machine_topic = "versions"
    doctor_rank = 20
    words = (strategies.NAME,)

    def spot(self, source: Source) -> Iterable[Spot]:
        """A strategy of several workers in a script that trains by ``fit``."""
        for call in strategies.failing(source):
            cure = Prescription("advice", Effect.EQUIVALENT, strategies.CURE)
            yield Spot(edits.node_start(call), edits.node_end(call), strategies.SAYS, cure)

    fixes = (
        (
            """
        import keras
        import numpy as np
        import tensorflow as tf

        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        with strategy.scope():
            model = keras.Sequential([keras.layers.Dense(1)])
            model.compile("sgd", "mse")
        history = model.fit(np.ones((256, 4)), np.ones((256, 1)), epochs=1)
        """,
            """
        import numpy as np
        import tensorflow as tf
        import tf_keras as keras

        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        with strategy.scope():
            model = keras.Sequential([keras.layers.Dense(1)])
            model.compile("sgd", "mse")
        history = model.fit(np.ones((256, 4)), np.ones((256, 1)), epochs=1)
        """,
        ),
    )

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
