import tensorflow as tf
from augment import two_views

(x, _), _ = tf.keras.datasets.cifar10.load_data()
x = x.astype("float32") / 255.0
dataset = tf.data.Dataset.from_tensor_slices(x).shuffle(50000).batch(512, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
encoder = tf.keras.applications.ResNet50V2(include_top=False, weights=None, pooling="avg", input_shape=(32, 32, 3))
optimizer = tf.keras.optimizers.Adam()


@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        logits = tf.matmul(encoder(a), encoder(b), transpose_b=True)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(512), logits))
    optimizer.apply_gradients(zip(tape.gradient(loss, encoder.trainable_variables), encoder.trainable_variables))
    return loss


for epoch in range(200):
    for batch in dataset:
        a, b = two_views(batch)
        loss = step(a, b)
    print(epoch, loss.numpy())
