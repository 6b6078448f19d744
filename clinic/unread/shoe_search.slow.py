"""Metric learning for product search with mined triplets."""
import keras
import numpy as np
import tensorflow as tf

SIZE = 512
CANDIDATES = 16


def catalogue(count=8000, products=400):
    rng = np.random.default_rng(13)
    centers = rng.standard_normal((products, SIZE), dtype=np.float32)
    product = rng.integers(0, products, count)
    return centers[product] + rng.standard_normal((count, SIZE), dtype=np.float32), product


def make_encoder():
    return keras.Sequential(
        [
            keras.Input((SIZE,)),
            keras.layers.Dense(512, activation="relu"),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(64),
            keras.layers.UnitNormalization(),
        ]
    )


def mine(encoder, gallery, product, rng, anchors=4000):
    members = {p: np.flatnonzero(product == p) for p in np.unique(product)}
    embedded = encoder.predict(gallery, batch_size=2048, verbose=0)
    triplets = []
    for a in rng.integers(0, len(gallery), anchors):
        positive = rng.choice(members[product[a]])
        options = rng.integers(0, len(gallery), CANDIDATES)
        options = options[product[options] != product[a]]
        vectors = encoder.predict(gallery[options], verbose=0)
        triplets.append((a, positive, options[np.argmax(vectors @ embedded[a])]))
    return np.array(triplets)


def triplet_model(encoder, margin=0.2):
    inputs = [keras.Input((SIZE,)) for _ in range(3)]
    a, p, n = [encoder(i) for i in inputs]
    near = keras.layers.Dot(axes=1)([a, p])
    far = keras.layers.Dot(axes=1)([a, n])
    gap = keras.layers.Subtract()([far, near])
    model = keras.Model(inputs, gap)
    model.compile(
        optimizer=keras.optimizers.Adam(3e-4),
        loss=lambda _, gap: tf.nn.relu(gap + margin),
    )
    return model


def main():
    rng = np.random.default_rng(1)
    gallery, product = catalogue()
    encoder = make_encoder()
    model = triplet_model(encoder)
    for round_ in range(5):
        index = mine(encoder, gallery, product, rng)
        data = tuple(gallery[index[:, k]] for k in range(3))
        ds = tf.data.Dataset.from_tensor_slices((data, np.zeros((len(index), 1), np.float32)))
        ds = ds.batch(500).cache().prefetch(tf.data.AUTOTUNE)
        history = model.fit(ds, epochs=4, verbose=0)
        print(f"round {round_}: {history.history['loss'][-1]:.4f}")


if __name__ == "__main__":
    main()
