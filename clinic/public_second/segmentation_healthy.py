import tensorflow as tf

AUTOTUNE = tf.data.AUTOTUNE


def parse(image_path):
    image = tf.io.decode_jpeg(tf.io.read_file(image_path), channels=3)
    mask = tf.io.decode_png(tf.io.read_file(tf.strings.regex_replace(image_path, "jpg", "png")), channels=1)
    return {"image": tf.image.resize(image, (128, 128)), "mask": tf.image.resize(mask, (128, 128), method="nearest")}


@tf.function
def augment(point):
    image, mask = point["image"], point["mask"]
    if tf.random.uniform(()) > 0.5:
        image, mask = tf.image.flip_left_right(image), tf.image.flip_left_right(mask)
    return tf.cast(image, tf.float32) / 255.0, mask


files = tf.data.Dataset.list_files("ade20k/*.jpg", seed=1)
train = files.shuffle(1000).map(parse, num_parallel_calls=AUTOTUNE).map(augment, num_parallel_calls=AUTOTUNE)
train = train.repeat().batch(32).prefetch(AUTOTUNE)
inputs = tf.keras.Input((128, 128, 3))
x = tf.keras.layers.Conv2D(64, 3, padding="same", activation="relu")(inputs)
model = tf.keras.Model(inputs, tf.keras.layers.Conv2D(150, 1)(x))
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(train, epochs=20, steps_per_epoch=500)
