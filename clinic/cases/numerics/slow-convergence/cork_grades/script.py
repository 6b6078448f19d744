"""Grades of wine corks from forty measurements of their pores."""
import time
import numpy as np
import keras

keras.utils.set_random_seed(4)
rng = np.random.default_rng(4)
centres = rng.normal(size=(8, 40))
grade = rng.integers(0, 8, 12_000)
pores = (centres[grade] + 1.5 * rng.normal(size=(12_000, 40))).astype("float32")

model = keras.Sequential([
    keras.Input((40,)),
    keras.layers.Dense(128, activation="relu"),
    keras.layers.Dense(128, activation="relu"),
    keras.layers.Dense(8),
])
model.compile(
    optimizer=keras.optimizers.Adam(learning_rate=1e-5),  # as for fine-tuning the big model
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
t0 = time.time()
model.fit(pores, grade, batch_size=64, epochs=8, verbose=2)
print("WORK", 8 * len(pores))
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
