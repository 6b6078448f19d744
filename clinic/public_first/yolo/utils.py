import tensorflow as tf


def parse_tfrecord(record, size):
    x = tf.io.parse_single_example(record, {"image/encoded": tf.io.FixedLenFeature([], tf.string), "image/boxes": tf.io.VarLenFeature(tf.float32)})
    image = tf.image.resize(tf.image.decode_jpeg(x["image/encoded"], channels=3), (size, size))
    boxes = tf.sparse.to_dense(x["image/boxes"])
    return image / 255.0, tf.pad(boxes, [[0, 400 - tf.shape(boxes)[0]]])


def load_tfrecord_dataset(pattern, size=416):
    files = tf.data.Dataset.list_files(pattern)
    dataset = files.flat_map(tf.data.TFRecordDataset)
    return dataset.map(lambda x: parse_tfrecord(x, size))
