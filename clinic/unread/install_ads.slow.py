"""Install prediction with field interactions."""
import numpy as np
import tensorflow as tf

FIELDS = 40
VALUES = 300
DIM = 16


class Interactions(tf.keras.layers.Layer):
    def __init__(self, fields, **kwargs):
        super().__init__(**kwargs)
        self.fields = fields

    def call(self, embedded):
        terms = []
        for i in range(self.fields):
            for j in range(i + 1, self.fields):
                terms.append(tf.reduce_sum(embedded[:, i] * embedded[:, j], axis=-1))
        return tf.stack(terms, axis=-1)

    def compute_output_shape(self, shape):
        return (shape[0], self.fields * (self.fields - 1) // 2)


def install_model():
    codes = tf.keras.Input((FIELDS,), dtype="int32")
    embedded = tf.keras.layers.Embedding(FIELDS * VALUES, DIM)(codes)
    crossed = Interactions(FIELDS)(embedded)
    x = tf.keras.layers.Concatenate()([tf.keras.layers.Flatten()(embedded), crossed])
    x = tf.keras.layers.Dense(256, activation="relu")(x)
    x = tf.keras.layers.Dense(128, activation="relu")(x)
    return tf.keras.Model(codes, tf.keras.layers.Dense(1)(x))


def events(count):
    rng = np.random.default_rng(60)
    codes = rng.integers(0, VALUES, (count, FIELDS)) + np.arange(FIELDS) * VALUES
    installed = (rng.random((count, 1)) < 0.1).astype(np.float32)
    return codes.astype(np.int32), installed


def main():
    ds = tf.data.Dataset.from_tensor_slices(events(500_000)).shuffle(16_384)
    ds = ds.batch(2048, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    model = install_model()
    model.compile(
        optimizer=tf.keras.optimizers.Adam(1e-3),
        loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[tf.keras.metrics.AUC(from_logits=True)],
    )
    model.fit(ds, epochs=4, verbose=2)


if __name__ == "__main__":
    main()
