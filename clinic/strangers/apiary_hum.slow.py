import atexit
import pathlib
import shutil
import tempfile

import numpy as np
import tensorflow as tf
import keras

WIDTH = 65


class HiveArchive:
    """One short reading per hive visit, as the loggers leave them on the card."""

    def __init__(self, visits):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="hives"))
        atexit.register(shutil.rmtree, self.root, ignore_errors=True)
        rng = np.random.default_rng(30)
        readings = rng.normal(size=(visits, WIDTH)).astype("<f4")
        readings[:, -1] = readings[:, :8].sum(axis=1)
        self.paths = []
        for number, reading in enumerate(readings):
            folder = self.root / f"hive{number % 40:02d}"
            folder.mkdir(exist_ok=True)
            path = folder / f"{number:06d}.raw"
            path.write_bytes(reading.tobytes())
            self.paths.append(str(path))

    def stream(self, batch):
        names = tf.data.Dataset.from_tensor_slices(self.paths)
        visits = names.interleave(
            lambda name: tf.data.FixedLengthRecordDataset(name, WIDTH * 4),
            cycle_length=4, num_parallel_calls=2, deterministic=False)
        return (visits.batch(batch, drop_remainder=True)
                .map(self.unpack, num_parallel_calls=2)
                .prefetch(4))

    @staticmethod
    def unpack(raw):
        table = tf.io.decode_raw(raw, tf.float32)
        table = tf.ensure_shape(table, (None, WIDTH))
        return table[:, :-1], table[:, -1:]


def swarm_model():
    model = keras.Sequential([keras.Input((WIDTH - 1,)), keras.layers.Dense(64, "tanh"), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.SGD(0.02, momentum=0.9), loss="mse")
    return model


keras.utils.set_random_seed(30)
archive = HiveArchive(visits=22_000)
model = swarm_model()
model.fit(archive.stream(128), epochs=1, verbose=2)
