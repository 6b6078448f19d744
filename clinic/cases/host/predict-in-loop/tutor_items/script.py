"""Adaptive tutoring: every round each pupil gets the question that the model is least sure about."""
import time
from dataclasses import dataclass, field

import numpy as np
import keras
from keras import layers


@dataclass
class Config:
    pupils: int = 50
    questions: int = 400
    candidates: int = 40
    rounds: int = 4
    skill_dims: int = 16
    epochs: int = 2
    history: list = field(default_factory=list)


class School:
    def __init__(self, cfg, seed=0):
        self.rng = np.random.default_rng(seed)
        self.skill = self.rng.normal(size=(cfg.pupils, cfg.skill_dims)).astype("float32")
        self.need = self.rng.normal(size=(cfg.questions, cfg.skill_dims)).astype("float32")

    def features(self, pupil, questions):
        s = np.repeat(self.skill[pupil][None], len(questions), axis=0)
        return np.concatenate([s, self.need[questions]], axis=1)

    def answer(self, pupil, question):
        p = 1 / (1 + np.exp(-self.skill[pupil] @ self.need[question]))
        return float(self.rng.random() < p)


def build(cfg):
    x = keras.Input((2 * cfg.skill_dims,))
    h = layers.Dense(128, activation="relu")(x)
    h = layers.Dense(128, activation="relu")(h)
    model = keras.Model(x, layers.Dense(1, activation="sigmoid")(h))
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy")
    return model


def choose(model, school, cfg):
    chosen = []
    for pupil in range(cfg.pupils):
        options = school.rng.choice(cfg.questions, cfg.candidates, replace=False)
        p = model.predict(school.features(pupil, options), verbose=0)[:, 0]
        chosen.append((pupil, int(options[np.argmin(np.abs(p - 0.5))])))
    return chosen


def main():
    keras.utils.set_random_seed(1)
    cfg = Config()
    school = School(cfg)
    model = build(cfg)

    rows, answers = [], []
    for pupil in range(cfg.pupils):
        for q in school.rng.choice(cfg.questions, 120, replace=False):
            rows.append(school.features(pupil, [q])[0])
            answers.append(school.answer(pupil, q))

    work = 0
    t0 = time.perf_counter()
    for rnd in range(cfg.rounds):
        x, y = np.stack(rows), np.array(answers, dtype="float32")
        hist = model.fit(x, y, batch_size=128, epochs=cfg.epochs, verbose=0)
        work += len(x) * cfg.epochs
        for pupil, q in choose(model, school, cfg):
            rows.append(school.features(pupil, [q])[0])
            answers.append(school.answer(pupil, q))
        cfg.history.append(hist.history["loss"][-1])
        print(f"round {rnd}: loss {cfg.history[-1]:.4f}, {len(rows)} answers")
    seconds = time.perf_counter() - t0
    print("WORK %d" % work)
    print("TRAIN_SECONDS %.2f" % seconds)


main()
