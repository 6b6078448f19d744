import time

import keras
import numpy as np

keras.utils.set_random_seed(1001)

rng = np.random.default_rng(1)
curves = rng.normal(size=(1280, 48, 5)).cumsum(1).astype("float32") * 0.1
cracked = (curves[:, -1, 0] > curves[:, 24, 1]).astype("float32")


def kiln_model():
    x = inp = keras.Input((48, 5))
    for filters in (16, 16, 32, 32):
        x = keras.layers.Conv1D(filters, 3, padding="same", activation="relu")(x)
        x = keras.layers.LayerNormalization()(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    x = keras.layers.Dense(16, activation="relu")(x)
    return keras.Model(inp, keras.layers.Dense(1, activation="sigmoid")(x))


def rate_for(round_no):
    return 0.05 * 0.8**round_no


model = kiln_model()
model.compile(optimizer=keras.optimizers.SGD(rate_for(0)), loss="binary_crossentropy", metrics=["accuracy"])
history = []
began = time.time()
for round_no in range(12):
    lr = rate_for(round_no)
    model.compile(optimizer=keras.optimizers.SGD(lr), loss="binary_crossentropy", metrics=["accuracy"])
    h = model.fit(curves, cracked, batch_size=128, epochs=1, shuffle=False, verbose=0)
    history.append(h.history["loss"][0])
    print("round", round_no, "lr %.4f" % lr, "loss %.4f" % history[-1])
print("%.1f seconds" % (time.time() - began))
