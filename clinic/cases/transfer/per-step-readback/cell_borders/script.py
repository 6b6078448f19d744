"""Border probability maps for microscopy fields; the per-field error ranks fields for relabelling."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import jax.numpy as jnp
import keras
import numpy as np
from keras import layers

SMALL = os.environ.get("SMALL") == "1"
SIDE, BATCH, FIELDS = (64, 4, 8) if SMALL else (512, 32, 192)
STEPS = 12 if SMALL else 400

keras.mixed_precision.set_global_policy("mixed_bfloat16")
rng = np.random.default_rng(0)
fields = jax.device_put(rng.integers(0, 255, (FIELDS, SIDE, SIDE, 1), dtype=np.uint8))
borders = jax.device_put(rng.integers(0, 2, (FIELDS, SIDE, SIDE, 1), dtype=np.uint8))

model = keras.Sequential([
    keras.Input((SIDE, SIDE, 1)),
    layers.Conv2D(32, 4, strides=4, activation="relu"),
    layers.Conv2D(64, 3, padding="same", activation="relu"),
    layers.Conv2D(64, 3, padding="same", activation="relu"),
    layers.Conv2DTranspose(1, 4, strides=4, dtype="float32"),
])
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)


def objective(tv, ntv, x, y):
    z, ntv = model.stateless_call(tv, ntv, x, training=True)
    err = jnp.maximum(z, 0) - z * y + jnp.log1p(jnp.exp(-jnp.abs(z)))
    return err.mean(), (err, ntv)


@jax.jit
def step(tv, ntv, ov, where):
    x = fields[where].astype("float32") / 255.0
    y = borders[where].astype("float32")
    (loss, (err, ntv)), grads = jax.value_and_grad(objective, has_aux=True)(tv, ntv, x, y)
    tv, ov = optimizer.stateless_apply(ov, grads, tv)
    return tv, ntv, ov, loss, err


tv = [v.value for v in model.trainable_variables]
ntv = [v.value for v in model.non_trainable_variables]
ov = [v.value for v in optimizer.variables]
order = [rng.integers(0, FIELDS, BATCH).astype("int32") for _ in range(STEPS)]
ranking, losses, marks = [], [], []
for where in order:
    tv, ntv, ov, loss, err = step(tv, ntv, ov, where)
    ranking.append(np.asarray(err).mean(axis=(1, 2, 3)))
    losses.append(loss)
    marks.append(time.perf_counter())
jax.block_until_ready(losses[-1])
end = time.perf_counter()

score = np.zeros(FIELDS)
for where, mean in zip(order, jax.device_get(ranking)):
    score[where] = mean
print("hardest fields", np.argsort(-score)[:5], "loss", float(losses[-1]))
print(f"steady_ms={(end - marks[3]) / (STEPS - 4) * 1e3:.3f}")
