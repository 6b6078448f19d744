import tensorflow as tf
from tqdm import tqdm

paths = tf.io.gfile.glob("stl10/unlabeled/*.png")


def load(path):
    return tf.image.convert_image_dtype(tf.image.decode_png(tf.io.read_file(path), channels=3), tf.float32)


def random_augment(images):
    images = tf.image.random_flip_left_right(images)
    images = tf.image.random_crop(images, [tf.shape(images)[0], 64, 64, 3])
    images = tf.image.random_brightness(images, 0.4)
    return tf.image.random_saturation(images, 0.6, 1.4)


dataset = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths)).map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(256, drop_remainder=True).prefetch(2)
model = tf.keras.applications.ResNet50(include_top=False, weights=None, pooling="avg", input_shape=(64, 64, 3))
optimizer = tf.keras.optimizers.Adam(1e-3)


@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        za, zb = tf.math.l2_normalize(model(a, training=True), 1), tf.math.l2_normalize(model(b, training=True), 1)
        logits = tf.matmul(za, zb, transpose_b=True) / 0.1
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(256), logits))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


for epoch in range(100):
    for batch in tqdm(dataset):
        loss = step(random_augment(batch), random_augment(batch))
    print(epoch, float(loss))
