import argparse, time
import numpy as np
import tensorflow as tf

# fare = f(where from, where to, when); columns as they come out of the CSV
parser = argparse.ArgumentParser()
parser.add_argument('--rows', type=int, default=50000)
parser.add_argument('--epochs', type=int, default=4)
parser.add_argument('--batch_size', type=int, default=512)
FLAGS = parser.parse_args()

tf.keras.utils.set_random_seed(42)
rng = np.random.RandomState(42)
n = FLAGS.rows
cols = {
    'pickup_lon': rng.uniform(-74.02, -73.90, n).astype('float32'),
    'pickup_lat': rng.uniform(40.68, 40.82, n).astype('float32'),
    'dropoff_lon': rng.uniform(-74.02, -73.90, n).astype('float32'),
    'dropoff_lat': rng.uniform(40.68, 40.82, n).astype('float32'),
    'hour': rng.randint(0, 24, n).astype('float32'),
    'passengers': rng.randint(1, 6, n).astype('float32'),
}
dist = 111 * np.hypot((cols['pickup_lon'] - cols['dropoff_lon']) * 0.76, cols['pickup_lat'] - cols['dropoff_lat'])
fare = (2.5 + 1.9 * dist + (np.abs(cols['hour'] - 17) < 2) * 1.0 + rng.normal(0, 0.5, n)).astype('float32')


def engineer(row, target):
    dx = (row['dropoff_lon'] - row['pickup_lon']) * 84.0
    dy = (row['dropoff_lat'] - row['pickup_lat']) * 111.0
    angle = row['hour'] * (2 * np.pi / 24)
    feats = tf.stack([
        dx, dy,
        tf.sqrt(dx * dx + dy * dy),
        tf.abs(dx) + tf.abs(dy),
        tf.sin(angle), tf.cos(angle),
        row['passengers'] / 6.0,
    ], axis=-1)
    return feats, target


def make_dataset(columns, y, training):
    ds = tf.data.Dataset.from_tensor_slices((columns, y))
    if training:
        ds = ds.shuffle(10000, seed=1)
    ds = ds.map(engineer, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(FLAGS.batch_size)
    return ds.prefetch(tf.data.AUTOTUNE)


def make_model():
    inp = tf.keras.Input(shape=(7,))
    x = tf.keras.layers.Dense(64, activation='relu')(inp)
    x = tf.keras.layers.Dense(32, activation='relu')(x)
    return tf.keras.Model(inp, tf.keras.layers.Dense(1)(x))


split = int(n * 0.9)
train = make_dataset({k: v[:split] for k, v in cols.items()}, fare[:split], True)
test = make_dataset({k: v[split:] for k, v in cols.items()}, fare[split:], False)

model = make_model()
model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss='mae')

start = time.time()
model.fit(train, epochs=FLAGS.epochs, verbose=2)
elapsed = time.time() - start
print('test mae', model.evaluate(test, verbose=0))
print('WORK', split * FLAGS.epochs)
print('TRAIN_SECONDS %.2f' % elapsed)
