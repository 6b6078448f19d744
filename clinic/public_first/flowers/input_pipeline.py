import tensorflow as tf

AUTOTUNE = tf.data.AUTOTUNE


def decode(path):
    parts = tf.strings.split(path, "/")
    image = tf.image.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, [180, 180]), parts[-2] == ["daisy", "roses", "tulips"]


def get_dataset(pattern, batch_size, training):
    ds = tf.data.Dataset.list_files(pattern, shuffle=training)
    ds = ds.map(decode)
    if training:
        ds = ds.shuffle(1000)
    ds = ds.batch(batch_size)
    return ds
