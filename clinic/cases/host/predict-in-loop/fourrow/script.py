"""Connect Four by greedy self-play: a value network looks one move ahead, its games feed the next generation."""
import time
from collections import deque

import keras
import numpy as np

ROWS, COLS = 6, 7


class Game:
    def __init__(self):
        self.board = np.zeros((ROWS, COLS), "int8")
        self.player, self.winner, self.over = 1, 0, False

    def moves(self):
        return np.flatnonzero(self.board[0] == 0)

    def after(self, col):
        board = self.board.copy()
        row = np.flatnonzero(board[:, col] == 0)[-1]
        board[row, col] = self.player
        return board, row

    def play(self, col):
        self.board, row = self.after(col)
        if self.connects(row, col):
            self.winner, self.over = self.player, True
        elif not len(self.moves()):
            self.over = True
        self.player = -self.player

    def connects(self, row, col):
        who = self.board[row, col]
        for dr, dc in ((0, 1), (1, 0), (1, 1), (1, -1)):
            run = 1
            for sign in (1, -1):
                r, c = row + sign * dr, col + sign * dc
                while 0 <= r < ROWS and 0 <= c < COLS and self.board[r, c] == who:
                    run, r, c = run + 1, r + sign * dr, c + sign * dc
            if run >= 4:
                return True
        return False


def planes(boards, player):
    boards = np.asarray(boards) * player
    return np.stack([boards == 1, boards == -1], axis=-1).astype("float32")


def build():
    model = keras.Sequential([
        keras.Input((ROWS, COLS, 2)),
        keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
        keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
        keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(1, activation="tanh"),
    ])
    model.compile(optimizer=keras.optimizers.Adam(5e-4), loss="mse")
    return model


class Player:
    def __init__(self, model, rng, explore=0.15):
        self.model, self.rng, self.explore = model, rng, explore

    def values(self, candidates):
        return self.model.predict(candidates, verbose=0)[:, 0]

    def choose(self, game):
        moves = game.moves()
        candidates = planes([game.after(c)[0] for c in moves], game.player)
        values = self.values(candidates)
        pick = self.rng.integers(len(moves)) if self.rng.random() < self.explore else int(np.argmax(values))
        return moves[pick], candidates[pick]


def finish(game, choose, store):
    track = []
    while not game.over:
        mover = game.player
        col, seen = choose(game)
        track.append((seen, mover))
        game.play(col)
    store.extend((seen, float(game.winner * mover)) for seen, mover in track)
    return len(track)


def random_games(store, rng):
    def choose(game):
        col = rng.choice(game.moves())
        return col, planes(game.after(col)[0], game.player)

    while len(store) < store.maxlen:
        finish(Game(), choose, store)


def main(generations=4, games=3, memory=4096):
    keras.utils.set_random_seed(4)
    rng = np.random.default_rng(4)
    store = deque(maxlen=memory)
    random_games(store, rng)
    model = build()
    player = Player(model, rng)
    trained, began = 0, time.perf_counter()
    for g in range(generations):
        plies = [finish(Game(), player.choose, store) for _ in range(games)]
        x, y = (np.array(a, "float32") for a in zip(*store))
        logs = model.fit(x, y, batch_size=256, epochs=1, verbose=0).history
        trained += len(x)
        print(f"generation {g}: games of {plies} plies, loss {logs['loss'][0]:.4f}", flush=True)
    seconds = time.perf_counter() - began
    print("WORK", trained)
    print("TRAIN_SECONDS", seconds)


if __name__ == "__main__":
    main()
