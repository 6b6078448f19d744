"""Fuel consumption model, trained depot after depot."""
import numpy as np
import tensorflow as tf

FEATURES = 48
DEPOTS = 120
ROWS = 6000


def depot_rows(depot):
    rng = np.random.default_rng(depot)
    x = rng.standard_normal((ROWS, FEATURES), dtype=np.float32)
    y = x[:, :1] * 2.0 + 0.1 * rng.standard_normal((ROWS, 1), dtype=np.float32)
    return x, y


def depot_data(depot):
    ds = tf.data.Dataset.from_tensor_slices(depot_rows(depot)).shuffle(ROWS)
    return ds.batch(250).prefetch(tf.data.AUTOTUNE)


def consumption_model():
    inputs = tf.keras.Input((FEATURES,))
    x = inputs
    for _ in range(6):
        h = tf.keras.layers.Dense(128, activation="gelu")(x)
        h = tf.keras.layers.LayerNormalization()(h)
        x = tf.keras.layers.Concatenate()([inputs, h])
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1)(x))


def build_step(model, optimizer, criterion):
    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = criterion(y, model(x, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    return step


def run_depot(model, optimizer, huber, data):
    step = build_step(model, optimizer, huber)
    for x, y in data:
        loss = step(x, y)
    return loss


def main():
    model = consumption_model()
    optimizer = tf.keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    huber = tf.keras.losses.Huber()
    for round_ in range(3):
        for depot in range(DEPOTS):
            loss = run_depot(model, optimizer, huber, depot_data(depot))
        print(f"round {round_}: {float(loss):.4f}")


if __name__ == "__main__":
    main()
