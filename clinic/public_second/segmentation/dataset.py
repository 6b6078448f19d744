import tensorflow as tf


class DataLoader:
    def __init__(self, images, masks, size=(512, 512), batch=4):
        self.images, self.masks, self.size, self.batch = images, masks, size, batch

    def _parse(self, image, mask):
        image = tf.image.decode_jpeg(tf.io.read_file(image), channels=3)
        mask = tf.image.decode_png(tf.io.read_file(mask), channels=1)
        image, mask = tf.image.resize(image, self.size), tf.image.resize(mask, self.size)
        return tf.cast(image, tf.float32) / 255.0, mask

    def get(self, shuffle):
        data = tf.data.Dataset.from_tensor_slices((self.images, self.masks))
        data = data.map(self._parse)
        if shuffle:
            data = data.shuffle(200)
        return data.batch(self.batch).prefetch(tf.data.AUTOTUNE)
