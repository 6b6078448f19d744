"""Online fitting of a snowpack density model: every probe site is a few steps with its own anchor."""
import numpy as np
import tensorflow as tf
import keras

rng = np.random.default_rng(40)
keras.utils.set_random_seed(40)


def probe_site(number):
    depth = rng.normal(size=(3, 48, 20)).astype(np.float32)
    density = depth[..., :3].sum(axis=-1, keepdims=True) + 0.01 * number
    return list(zip(depth, density))


def network():
    layer_input = keras.Input((20,))
    hidden = keras.layers.Dense(48, activation="elu")(layer_input)
    hidden = keras.layers.Dense(48, activation="elu")(hidden)
    return keras.Model(layer_input, keras.layers.Dense(1)(hidden))


def settle(model, optimizer, site, pull=1e-3):
    anchors = [tf.identity(w) for w in model.trainable_variables]

    @tf.function(reduce_retracing=True)
    def settle_once(depth, density):
        with tf.GradientTape() as tape:
            fit = tf.reduce_mean(keras.losses.log_cosh(density, model(depth, training=True)))
            drift = tf.add_n([tf.reduce_sum(tf.square(w - a))
                              for w, a in zip(model.trainable_variables, anchors)])
            loss = fit + pull * drift
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return fit

    return [settle_once(tf.convert_to_tensor(d), tf.convert_to_tensor(y)) for d, y in site][-1]


model = network()
optimizer = keras.optimizers.Nadam(2e-3)
optimizer.build(model.trainable_variables)
fits = []
for number in range(32):
    fits.append(settle(model, optimizer, probe_site(number)))
print("fit", float(fits[-1]))
