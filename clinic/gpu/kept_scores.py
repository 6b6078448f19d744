"""A loop by hand that keeps every step's scores, to look at them later; nobody does."""
import sys

import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
x = jnp.asarray(rng.random((512, 256), dtype="float32"))
y = jnp.asarray(rng.integers(0, 64, 512))
weights = jnp.asarray(rng.random((256, 64), dtype="float32"))


def loss_of(weights, x, y):
    scores = x @ weights
    loss = -jnp.take_along_axis(jax.nn.log_softmax(scores), y[:, None], 1).mean()
    return loss, scores


@jax.jit
def step(weights, x, y):
    (loss, scores), slope = jax.value_and_grad(loss_of, has_aux=True)(weights, x, y)
    return weights - 0.1 * slope, loss, scores


history = []
for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 12000):
    weights, loss, scores = step(weights, x, y)
    history.append(scores)
    if number % 10000 == 0:
        print(number, float(loss))
