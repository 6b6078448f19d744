"""Contextual bandit: the network scores the arms, one is picked, the reward trains it."""
import time
import numpy as np
import keras

rng = np.random.default_rng(2)
ARMS, DIM = 6, 16
truth = rng.normal(size=(DIM, ARMS))

model = keras.Sequential([
    keras.Input((DIM,)),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(ARMS),
])
model.compile("adam", "mse")

model.predict(np.zeros((1, DIM)), verbose=0)
model.train_on_batch(np.zeros((10, DIM), "float32"), np.zeros((10, ARMS), "float32"))

t0 = time.perf_counter()
contexts, wanted, total = [], [], 0.0
for turn in range(150):
    c = rng.normal(size=(1, DIM)).astype("float32")
    scores = model.predict(c, verbose=0)[0]
    arm = rng.integers(ARMS) if rng.random() < 0.1 else int(np.argmax(scores))
    reward = float((c @ truth)[0, arm])
    total += reward
    goal = np.array(scores)
    goal[arm] = reward
    contexts.append(c[0])
    wanted.append(goal)
    if len(contexts) == 10:
        model.train_on_batch(np.array(contexts), np.array(wanted))
        contexts, wanted = [], []
seconds = time.perf_counter() - t0
print("mean reward %.3f" % (total / 150))
print("WORK", 150)
print("TRAIN_SECONDS %.3f" % seconds)
