import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
ids, y = np.random.randint(300_000, size=(64, 8)), np.random.rand(64, 1)
model = keras.Sequential([
    keras.layers.Embedding(300_000, 32),
    keras.layers.Flatten(),
    keras.layers.Dense(1),
])

class LazyAdam(tf.keras.optimizers.Adam):
    """Adam that updates only those rows of a table that the batch looked up."""

    def update_step(self, gradient, variable, *rate):
        if not isinstance(gradient, tf.IndexedSlices):
            return super().update_step(gradient, variable, *rate)
        rows, group = tf.unique(gradient.indices)
        gradient = tf.math.unsorted_segment_sum(gradient.values, group, tf.size(rows))
        at = self._get_variable_index(variable) if rate else self._index_dict[self._var_key(variable)]
        moments = [m.value if rate else m for m in (self._momentums[at], self._velocities[at])]
        first = self.beta_1 * tf.gather(moments[0], rows) + (1 - self.beta_1) * gradient
        second = self.beta_2 * tf.gather(moments[1], rows) + (1 - self.beta_2) * tf.square(gradient)
        moments[0].scatter_update(tf.IndexedSlices(first, rows))
        moments[1].scatter_update(tf.IndexedSlices(second, rows))
        step = tf.cast(self.iterations + 1, gradient.dtype)
        scale = tf.cast(rate[0] if rate else self.learning_rate, gradient.dtype)
        scale = scale * tf.sqrt(1 - self.beta_2**step) / (1 - self.beta_1**step)
        variable.scatter_sub(tf.IndexedSlices(scale * first / (tf.sqrt(second) + self.epsilon), rows))

model.compile(LazyAdam(), "mse")
history = model.fit(ids, y, batch_size=32)
