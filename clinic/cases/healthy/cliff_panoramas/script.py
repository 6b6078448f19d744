# rock fall yes/no on wide panoramas: only 4 fit our idea of memory, every one is large
import time
import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(6)
rng = np.random.default_rng(6)
n = 96
y = rng.integers(0, 2, n)
x = rng.random((n, 96, 256, 3), dtype="float32")
x[y == 1, 40:60, 100:140] += 0.4

net = keras.Sequential([keras.Input((96, 256, 3))])
for filters, stride in ((32, 2), (48, 1), (64, 2), (64, 1)):
    net.add(keras.layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False))
    net.add(keras.layers.GroupNormalization(8))
    net.add(keras.layers.Activation("relu"))
net.add(keras.layers.GlobalMaxPooling2D())
net.add(keras.layers.Dense(1, activation="sigmoid"))
net.compile(keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True), "binary_crossentropy", metrics=["accuracy"])
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(n, seed=6).batch(4).prefetch(2)
t0 = time.time()
net.fit(ds, epochs=3, verbose=2)
print("WORK", 3 * n)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
