# coding: utf-8
# notebook export: 04_click_model.ipynb

# In[1]:
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers, ops

keras.utils.set_random_seed(11)
rng = np.random.default_rng(11)

# In[2]: a day of impressions
N = 180_000
log = {
    'user': rng.integers(0, 40_000, N).astype('int32'),
    'item': rng.zipf(1.3, N).clip(max=9_999).astype('int32'),
    'cat': rng.integers(0, 60, N).astype('int32'),
    'second': rng.integers(0, 86_400, N).astype('int32'),
    'price': rng.gamma(2., 15., N).astype('float32'),
}
clicked = (rng.random(N) < 0.1 + 0.2 * (log['item'] % 7 == 0)).astype('float32')


# In[3]: features
class Featurizer:
    user_buckets = 2000
    cross_buckets = 4000

    def time_of_day(self, second):
        angle = tf.cast(second, tf.float32) * (2 * np.pi / 86_400)
        return tf.stack([tf.sin(angle), tf.cos(angle)], -1)

    def cross(self, a, b):
        key = tf.strings.join([tf.strings.as_string(a), tf.strings.as_string(b)], separator='_x_')
        return tf.strings.to_hash_bucket_fast(key, self.cross_buckets)

    def row(self, row, click):
        price = tf.math.log1p(row['price'])
        return {
            'user': row['user'] % self.user_buckets,
            'item': tf.minimum(row['item'], 1999),
            'user_x_cat': self.cross(row['user'] % 500, row['cat']),
            'clock': self.time_of_day(row['second']),
            'price': tf.stack([price, tf.square(price)], -1),
        }, click


def impressions(batch_size):
    ds = tf.data.Dataset.from_tensor_slices((log, clicked)).shuffle(8192)
    ds = ds.map(Featurizer().row, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


# In[4]: model
class Ranker(keras.Model):
    def __init__(self, f, dim=16):
        super().__init__()
        self.user = layers.Embedding(f.user_buckets, dim)
        self.item = layers.Embedding(2000, dim)
        self.pair = layers.Embedding(f.cross_buckets, 8)
        self.head = keras.Sequential([layers.Dense(64, activation='relu'), layers.Dense(1)])

    def call(self, x):
        parts = [self.user(x['user']), self.item(x['item']), self.pair(x['user_x_cat']), x['clock'], x['price']]
        return self.head(ops.concatenate(parts, -1))


model = Ranker(Featurizer)
model.compile(keras.optimizers.Adam(2e-3), keras.losses.BinaryCrossentropy(from_logits=True))

# In[5]:
start = time.time()
model.fit(impressions(512), epochs=1, verbose=2)
print('TRAIN_SECONDS %.2f' % (time.time() - start))
