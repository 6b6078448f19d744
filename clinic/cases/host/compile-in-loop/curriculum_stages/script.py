"""Curriculum training: the learning rate is lowered and the data get harder from stage to stage."""
import time
import numpy as np
import keras

rng = np.random.default_rng(3)
x = rng.normal(size=(2000, 60)).astype("float32")
w = rng.normal(size=(60,))
y = (x @ w > 0).astype("float32")
hardness = np.argsort(-np.abs(x @ w))

model = keras.Sequential([keras.Input((60,))])
for _ in range(6):
    model.add(keras.layers.Dense(48, activation="relu"))
    model.add(keras.layers.LayerNormalization())
model.add(keras.layers.Dense(1, activation="sigmoid"))
model.compile(keras.optimizers.SGD(0.1), "binary_crossentropy", metrics=["accuracy"])

begin, seen = time.time(), 0
for stage in range(10):
    rate = 0.1 * 0.8 ** stage
    model.compile(keras.optimizers.SGD(rate), "binary_crossentropy", metrics=["accuracy"])
    part = hardness[:800 + 120 * stage]
    part = part[:len(part) // 40 * 40]
    hist = model.fit(x[part], y[part], batch_size=40, epochs=1, verbose=0)
    seen += len(part)
    print("stage", stage, "lr %.4f" % rate, "loss %.4f" % hist.history["loss"][0])
print("WORK", seen)
print("TRAIN_SECONDS %.3f" % (time.time() - begin))
