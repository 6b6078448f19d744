import tensorflow as tf


def prepare(ds, training, cache=None):
    ds = ds.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    if cache:
        ds = ds.cache(cache)
    else:
        ds = ds.cache()
    if training:
        ds = ds.shuffle(2000).repeat()
    return ds.batch(64).prefetch(tf.data.AUTOTUNE)


def decode(path):
    return tf.image.resize(tf.image.decode_png(tf.io.read_file(path), channels=3), (96, 96)), tf.strings.length(path)


files = tf.data.Dataset.list_files("stl/*.png")
model = tf.keras.applications.ResNet50(weights=None, classes=10, input_shape=(96, 96, 3))
model.compile("sgd", "sparse_categorical_crossentropy")
model.fit(prepare(files, True), steps_per_epoch=300, epochs=30)
