"""Gene expression to phenotype, wide dense layers."""
import time
import numpy as np
import tensorflow as tf

genes = np.random.rand(2560, 2000).astype("float32")
trait = np.random.rand(2560, 5).astype("float32")
model = tf.keras.Sequential([
    tf.keras.layers.Input((2000,)),
    tf.keras.layers.Dense(1024, activation="relu"),
    tf.keras.layers.Dense(1024, activation="relu"),
    tf.keras.layers.Dense(5),
])
model.compile(optimizer=tf.keras.optimizers.SGD(0.01), loss="mse")
model.fit(genes, trait, batch_size=128, epochs=1, verbose=2)
start = time.time()
model.fit(genes, trait, batch_size=128, epochs=15, initial_epoch=1, verbose=2)
print("WORK", 14 * len(genes))
print("TRAIN_SECONDS %.3f" % (time.time() - start))
