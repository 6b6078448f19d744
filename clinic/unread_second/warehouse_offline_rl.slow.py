"""Offline Q-learning from logged warehouse-robot episodes."""
import gc
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf
from keras import layers


@dataclass
class Move:
    robot: int
    action: int
    reward: float
    done: bool
    meta: dict


@dataclass
class Episode:
    states: np.ndarray
    moves: list


OBS, ACTIONS, GAMMA = 20, 5, 0.97


def read_log(episodes=4000, length=60, seed=0):
    rng = np.random.default_rng(seed)
    log = []
    for e in range(episodes):
        states = rng.normal(size=(length + 1, OBS)).astype("float32")
        actions = rng.integers(0, ACTIONS, length)
        moves = [
            Move(e % 30, int(a), float(states[t, a]), t == length - 1, {"aisle": t % 9, "load": [e, t]})
            for t, a in enumerate(actions)
        ]
        log.append(Episode(states, moves))
    return log


def flatten(log):
    s = np.concatenate([e.states[:-1] for e in log])
    s2 = np.concatenate([e.states[1:] for e in log])
    a = np.array([m.action for e in log for m in e.moves], "int32")
    r = np.array([m.reward for e in log for m in e.moves], "float32")
    d = np.array([m.done for e in log for m in e.moves], "float32")
    return s, a, r, s2, d


def q_network():
    return keras.Sequential([
        keras.Input((OBS,)),
        layers.Dense(128, activation="relu"),
        layers.Dense(128, activation="relu"),
        layers.Dense(ACTIONS),
    ])


online, target = q_network(), q_network()
target.set_weights(online.get_weights())
optimizer = keras.optimizers.Adam(3e-4)
optimizer.build(online.trainable_variables)


@tf.function
def update(s, a, r, s2, d):
    best = tf.reduce_max(target(s2), axis=1)
    goal = r + GAMMA * (1.0 - d) * best
    with tf.GradientTape() as tape:
        q = tf.gather(online(s, training=True), a, axis=1, batch_dims=1)
        loss = tf.reduce_mean(tf.square(goal - q))
    grads = tape.gradient(loss, online.trainable_variables)
    optimizer.apply_gradients(zip(grads, online.trainable_variables))
    return loss


def main(epochs=4, batch=512):
    log = read_log()
    ds = tf.data.Dataset.from_tensor_slices(flatten(log)).shuffle(10_000)
    ds = ds.batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    for epoch in range(epochs):
        for batch_data in ds:
            loss = update(*batch_data)
            gc.collect()
        target.set_weights(online.get_weights())
        print(f"epoch {epoch} td {float(loss):.4f}")
    returns = [sum(m.reward for m in e.moves) for e in log]
    print("behaviour return", np.mean(returns))


if __name__ == "__main__":
    main()
