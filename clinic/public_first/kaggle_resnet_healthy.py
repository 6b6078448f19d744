import pandas as pd
import tensorflow as tf

AUTO = tf.data.AUTOTUNE
df = pd.read_csv("train.csv")
paths, labels = "images/" + df.image_id.values + ".jpg", df.label.values


def decode_image(path, label):
    image = tf.image.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(tf.cast(image, tf.float32) / 255.0, (512, 512)), label


def augment(image, label):
    return tf.image.random_flip_up_down(tf.image.random_flip_left_right(image)), label


train_dataset = (
    tf.data.Dataset.from_tensor_slices((paths, labels))
    .repeat()
    .shuffle(2048)
    .map(decode_image, num_parallel_calls=AUTO)
    .map(augment, num_parallel_calls=AUTO)
    .batch(16)
    .prefetch(AUTO)
)
base = tf.keras.applications.EfficientNetB3(include_top=False, pooling="avg", input_shape=(512, 512, 3))
model = tf.keras.Sequential([base, tf.keras.layers.Dense(5, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train_dataset, steps_per_epoch=len(paths) // 16, epochs=20)
