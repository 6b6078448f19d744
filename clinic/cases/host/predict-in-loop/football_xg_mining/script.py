"""Expected goals from freeze-frames, trained on the shots the net finds hardest."""
import time

import numpy as np
import keras
from keras import layers

SEED = 8
POOL, KEEP, ROUNDS = 1024, 256, 120


def shots(n, players=22):
    rng = np.random.default_rng(SEED)
    pitch = rng.uniform(0, 1, size=(n, players, 2)).astype("float32")
    ball = rng.uniform(0.6, 1, size=(n, 1, 2)).astype("float32")
    distance = np.linalg.norm(pitch - ball, axis=-1)
    goal_dist = np.hypot(1 - ball[:, 0, 0], 0.5 - ball[:, 0, 1])
    blockers = (distance < 0.15).sum(1)
    logit = 1.2 - 6 * goal_dist - 0.4 * blockers
    scored = rng.uniform(size=n) < 1 / (1 + np.exp(-logit))
    feats = np.concatenate([pitch.reshape(n, -1), ball.reshape(n, -1), distance], axis=1)
    return feats.astype("float32"), scored.astype("float32")[:, None]


def make_model(width):
    model = keras.Sequential([
        layers.Input((width,)),
        layers.Dense(512, activation="relu"),
        layers.Dense(512, activation="relu"),
        layers.Dense(256, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ])
    model.compile(optimizer=keras.optimizers.Adam(3e-4), loss="binary_crossentropy")
    return model


def hardest(model, x, y, keep):
    p = np.clip(model.predict(x, batch_size=len(x), verbose=0), 1e-6, 1 - 1e-6)
    nll = -(y * np.log(p) + (1 - y) * np.log(1 - p))
    return np.argsort(-nll[:, 0])[:keep]


def main():
    keras.utils.set_random_seed(SEED)
    x, y = shots(30000)
    model = make_model(x.shape[1])
    rng = np.random.default_rng(SEED + 1)

    model.fit(x[:2048], y[:2048], batch_size=256, epochs=1, verbose=0)

    begin = time.perf_counter()
    losses = []
    for r in range(ROUNDS):
        pool = rng.integers(0, len(x), POOL)
        pick = pool[hardest(model, x[pool], y[pool], KEEP)]
        losses.append(model.train_on_batch(x[pick], y[pick]))
        if (r + 1) % 40 == 0:
            print(f"round {r + 1}: loss on hard shots {np.mean(losses[-40:]):.4f}")
    spent = time.perf_counter() - begin

    print("WORK", ROUNDS * KEEP)
    print("TRAIN_SECONDS %.3f" % spent)


if __name__ == "__main__":
    main()
