"""Does it run at all on this machine? One short pass over a small table."""
import time

import numpy as np
import keras

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(1600, 30)).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("int32")
model = keras.Sequential([keras.Input((30,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(2, "softmax")])
model.compile("adam", "sparse_categorical_crossentropy")
t0 = time.time()
model.fit(x, y, batch_size=64, epochs=1, verbose=2)
print("WORK 1600")
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
