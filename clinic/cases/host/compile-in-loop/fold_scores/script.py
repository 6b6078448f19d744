"""Cross-validation by patient with a custom training loop."""
import time
import numpy as np
import tensorflow as tf

rng = np.random.RandomState(1)
X = rng.randn(1000, 32).astype("float32")
y = (X[:, :3].sum(1) > 0).astype("float32")[:, None]
folds = np.array_split(rng.permutation(1000), 25)


def build():
    return tf.keras.Sequential(
        [tf.keras.layers.Input((32,))]
        + [tf.keras.layers.Dense(32, activation="elu") for _ in range(7)]
        + [tf.keras.layers.Dense(1)]
    )


def make_step(model, opt):
    @tf.function
    def step(a, b):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(b, model(a)))
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        return loss
    return step


model = build()
start_weights = model.get_weights()
opt = tf.keras.optimizers.SGD(0.1)
opt.build(model.trainable_variables)
step = make_step(model, opt)

t0, scores = time.perf_counter(), []
for k, test in enumerate(folds):
    train = np.concatenate([f for i, f in enumerate(folds) if i != k])
    model = build()
    model.set_weights(start_weights)
    opt = tf.keras.optimizers.SGD(0.1)
    step = make_step(model, opt)
    for lo in range(0, 960, 60):
        rows = train[lo:lo + 60]
        step(tf.constant(X[rows]), tf.constant(y[rows]))
    guess = model(X[test]).numpy() > 0
    scores.append(float((guess == y[test]).mean()))
    print("fold", k, "accuracy", scores[-1])
print("WORK", 25 * 960)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
