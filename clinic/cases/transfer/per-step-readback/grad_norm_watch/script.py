"""Speech-command MLP; prints loss and weight norms so that a diverging layer is seen early."""
import time
import tensorflow as tf

N, DIM, CLASSES, BATCH = 3200, 40, 12, 16
feats = tf.random.normal((N, DIM))
words = tf.random.uniform((N,), 0, CLASSES, tf.int32)
data = tf.data.Dataset.from_tensor_slices((feats, words)).batch(BATCH).cache().prefetch(4)

layers = [tf.keras.layers.Dense(48, activation="relu") for _ in range(6)] + [tf.keras.layers.Dense(CLASSES)]
model = tf.keras.Sequential([tf.keras.layers.Input((DIM,))] + layers)
opt = tf.keras.optimizers.SGD(0.05)


@tf.function
def train(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x)))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss, [tf.norm(g) for g in grads], [tf.norm(v) for v in model.trainable_variables]


for x, y in data.take(3):
    train(x, y)

log = open("/dev/null", "w")
begin, step = time.time(), 0
for epoch in range(16):
    for x, y in data:
        loss, gnorms, wnorms = train(x, y)
        step += 1
        text = " ".join("%.3f/%.3f" % (g.numpy(), w.numpy()) for g, w in zip(gnorms, wnorms))
        print("step", step, "loss", loss.numpy(), text, file=log, flush=True)
        worst = max(tf.reduce_max(tf.abs(v)).numpy() for v in model.trainable_variables)
        if worst > 1e4:
            raise SystemExit("diverged")
    print("epoch", epoch, "loss %.4f" % loss.numpy())
print("WORK", step * BATCH)
print("TRAIN_SECONDS %.3f" % (time.time() - begin))
