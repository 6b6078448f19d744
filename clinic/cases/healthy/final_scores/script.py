"""Train, then evaluate and predict once on the test set."""
import time
import numpy as np
import tensorflow as tf

x = np.random.rand(6000, 300).astype("float32")
y = np.random.randint(0, 5, 6000)
x_test = np.random.rand(2000, 300).astype("float32")
y_test = np.random.randint(0, 5, 2000)
model = tf.keras.Sequential([
    tf.keras.layers.Input((300,)),
    tf.keras.layers.Dense(600, activation="relu"),
    tf.keras.layers.Dense(600, activation="relu"),
    tf.keras.layers.Dense(5, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, batch_size=100, epochs=1, verbose=2)
t0 = time.time()
model.fit(x, y, batch_size=100, epochs=6, initial_epoch=1, verbose=2)
t1 = time.time()
print(model.evaluate(x_test, y_test, batch_size=500, verbose=0))
print(np.bincount(model.predict(x_test, batch_size=500, verbose=0).argmax(1)))
print("WORK", 5 * len(x))
print("TRAIN_SECONDS %.3f" % (t1 - t0))
