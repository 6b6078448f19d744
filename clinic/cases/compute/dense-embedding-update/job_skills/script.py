"""Job/skill matching project: two-tower style scorer over hashed skill tags, trained on simulated application logs."""
import argparse
import json
import logging
import pathlib
import tempfile
import time
from dataclasses import asdict, dataclass

import keras
import numpy as np
import tensorflow as tf

LOGGER = logging.getLogger("jobskills")


@dataclass
class LogSim:
    rows: int = 40_960
    tags: int = 300_000
    tags_per_person: int = 8
    jobs: int = 2_000
    zipf: float = 1.3
    seed: int = 4


@dataclass
class Net:
    dim: int = 32
    tower: int = 64
    l2: float = 1e-6
    dropout: float = 0.1


@dataclass
class Fit:
    batch: int = 512
    epochs: int = 3
    lr: float = 0.5
    val_rows: int = 4_096
    patience: int = 3


@dataclass
class Settings:
    sim: LogSim
    net: Net
    fit: Fit
    folder: pathlib.Path

    def dump(self):
        d = {k: asdict(getattr(self, k)) for k in ("sim", "net", "fit")}
        (self.folder / "settings.json").write_text(json.dumps(d, indent=2))


# -------------------------------------------------------------------- simulated logs
class ApplicationLog:
    """People carry hashed skill tags; whether they apply depends on a hidden direction of tags and jobs."""

    def __init__(self, sim: LogSim):
        g = np.random.default_rng(sim.seed)
        raw = g.zipf(sim.zipf, size=(sim.rows, sim.tags_per_person)).astype(np.int64)
        self.tags = ((raw * 2654435761) % sim.tags).astype(np.int32)
        self.jobs = g.integers(0, sim.jobs, sim.rows).astype(np.int32)
        hidden_tag = g.normal(size=(sim.tags, 4)).astype(np.float32)
        hidden_job = g.normal(size=(sim.jobs, 4)).astype(np.float32)
        affinity = (hidden_tag[self.tags].mean(1) * hidden_job[self.jobs]).sum(-1)
        self.applied = (affinity + 0.2 * g.normal(size=sim.rows) > 0).astype(np.float32)[:, None]

    def split(self, val_rows):
        def part(sl):
            return {"tags": self.tags[sl], "job": self.jobs[sl]}, self.applied[sl]
        return part(slice(val_rows, None)), part(slice(0, val_rows))


def pipeline(part, batch, training):
    x, y = part
    ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch, drop_remainder=training).cache()
    if training:
        ds = ds.shuffle(128)
    return ds.prefetch(tf.data.AUTOTUNE)


# -------------------------------------------------------------------- model
class TagBag(keras.layers.Layer):
    """Mean of the embeddings of a person's tags."""

    def __init__(self, tags, dim, l2, **kw):
        super().__init__(**kw)
        self.table = keras.layers.Embedding(
            tags, dim, embeddings_initializer=keras.initializers.RandomUniform(-0.05, 0.05),
            embeddings_regularizer=keras.regularizers.L2(l2))

    def call(self, tags):
        return keras.ops.mean(self.table(tags), axis=1)


class Tower(keras.layers.Layer):
    def __init__(self, width, dim, dropout, **kw):
        super().__init__(**kw)
        self.hidden = keras.layers.Dense(width, activation="relu")
        self.drop = keras.layers.Dropout(dropout)
        self.out = keras.layers.Dense(dim)

    def call(self, x, training=None):
        return self.out(self.drop(self.hidden(x), training=training))


class Matcher(keras.Model):
    def __init__(self, sim: LogSim, net: Net):
        super().__init__()
        self.person_bag = TagBag(sim.tags, net.dim, net.l2)
        self.job_table = keras.layers.Embedding(sim.jobs, net.dim)
        self.person_tower = Tower(net.tower, net.dim, net.dropout)
        self.job_tower = Tower(net.tower, net.dim, net.dropout)
        self.bias = keras.layers.Dense(1)

    def call(self, inputs, training=None):
        p = self.person_tower(self.person_bag(inputs["tags"]), training=training)
        j = self.job_tower(self.job_table(inputs["job"]), training=training)
        return self.bias(p * j)


# -------------------------------------------------------------------- project glue
class EpochReport(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.path = path
        self.rows = []

    def on_epoch_begin(self, epoch, logs=None):
        self.t0 = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        row = {"epoch": epoch, "seconds": time.perf_counter() - self.t0}
        row.update({k: float(v) for k, v in logs.items()})
        self.rows.append(row)
        self.path.write_text(json.dumps(self.rows))
        LOGGER.info(" ".join(f"{k}={v:.4f}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()))


class Project:
    def __init__(self, settings: Settings):
        self.s = settings
        settings.dump()
        log = ApplicationLog(settings.sim)
        train, val = log.split(settings.fit.val_rows)
        self.train = pipeline(train, settings.fit.batch, True)
        self.val = pipeline(val, settings.fit.batch * 2, False)
        self.model = self.make_model()

    def make_model(self):
        model = Matcher(self.s.sim, self.s.net)
        model.compile(
            optimizer=keras.optimizers.SGD(self.s.fit.lr),
            loss=keras.losses.BinaryCrossentropy(from_logits=True),
            metrics=[keras.metrics.BinaryAccuracy(threshold=0.0, name="acc")],
        )
        return model

    def callbacks(self):
        return [
            EpochReport(self.s.folder / "epochs.json"),
            keras.callbacks.EarlyStopping("val_loss", patience=self.s.fit.patience),
        ]

    def run(self):
        history = self.model.fit(self.train, validation_data=self.val, epochs=self.s.fit.epochs,
                                 callbacks=self.callbacks(), verbose=0)
        self.model.save_weights(str(self.s.folder / "final.weights.h5"))
        return history.history


def settings_from_args():
    p = argparse.ArgumentParser(description="train the matcher")
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--folder", type=pathlib.Path, default=None)
    a = p.parse_args()
    folder = a.folder or pathlib.Path(tempfile.mkdtemp(prefix="jobskills_"))
    folder.mkdir(parents=True, exist_ok=True)
    return Settings(LogSim(), Net(), Fit(batch=a.batch, epochs=a.epochs), folder)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    keras.utils.set_random_seed(9)
    result = Project(settings_from_args()).run()
    LOGGER.info("best val_loss %.4f", min(result["val_loss"]))
