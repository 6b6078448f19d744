#!/usr/bin/env python
"""Neural collaborative filtering on implicit feedback (played / not played)."""
import argparse
import time

import numpy as np
import keras
from keras import layers


def synth_plays(users, items, count, seed):
    rng = np.random.default_rng(seed)
    keys = rng.choice(users * items, count, replace=False)
    u, i = keys // items, keys % items
    i = np.minimum(i, (i * rng.random(count)).astype('int64'))      # skewed towards the low ids
    keys = np.unique(u * items + i)
    return np.stack([keys // items, keys % items], 1)


class PlaySequence(keras.utils.PyDataset):
    def __init__(self, plays, num_items, positives, negatives, seed, **kwargs):
        super().__init__(**kwargs)
        self.plays = plays
        self.num_items = num_items
        self.positives, self.negatives = positives, negatives
        self.rng = np.random.default_rng(seed)
        self.seen = set(map(tuple, plays.tolist()))
        freq = np.bincount(plays[:, 1], minlength=num_items) + 1.
        self.pop = freq ** .75 / (freq ** .75).sum()

    def __len__(self):
        return len(self.plays) // self.positives

    def on_epoch_end(self):
        self.rng.shuffle(self.plays)

    def unplayed(self, user):
        while True:
            item = int(self.rng.choice(self.num_items, p=self.pop))
            if (user, item) not in self.seen:
                return item

    def __getitem__(self, idx):
        users, items, target = [], [], []
        for u, i in self.plays[idx * self.positives:(idx + 1) * self.positives].tolist():
            users.append(u)
            items.append(i)
            target.append(1.)
            for _ in range(self.negatives):
                users.append(u)
                items.append(self.unplayed(u))
                target.append(0.)
        x = {'user': np.array(users, 'int32')[:, None], 'item': np.array(items, 'int32')[:, None]}
        return x, np.array(target, 'float32')[:, None]


def ncf(users, items, dim=16):
    u = keras.Input((1,), name='user', dtype='int32')
    i = keras.Input((1,), name='item', dtype='int32')
    eu = layers.Flatten()(layers.Embedding(users, dim)(u))
    ei = layers.Flatten()(layers.Embedding(items, dim)(i))
    gmf = layers.Multiply()([eu, ei])
    mlp = layers.Dense(32, activation='relu')(layers.Concatenate()([eu, ei]))
    out = layers.Dense(1)(layers.Concatenate()([gmf, mlp]))
    return keras.Model({'user': u, 'item': i}, out)


def main(args):
    keras.utils.set_random_seed(args.seed)
    plays = synth_plays(args.users, args.items, args.plays, args.seed)
    train = PlaySequence(plays, args.items, args.positives, args.negatives, args.seed)
    model = ncf(args.users, args.items)
    model.compile(keras.optimizers.Adam(1e-3), keras.losses.BinaryCrossentropy(from_logits=True))
    t0 = time.time()
    model.fit(train, epochs=args.epochs, verbose=2)
    print('TRAIN_SECONDS %.2f' % (time.time() - t0))


if __name__ == '__main__':
    p = argparse.ArgumentParser()
    for name, value in dict(users=1500, items=2000, plays=31_000, positives=256, negatives=4,
                            epochs=2, seed=21).items():
        p.add_argument('--' + name, type=int, default=value)
    main(p.parse_args())
