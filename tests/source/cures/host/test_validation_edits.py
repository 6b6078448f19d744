"""Validation is made rarer where nothing depends on how often it runs."""

from __future__ import annotations

import pytest

from slowtrain.script.fixes.loops import periodic_work
from slowtrain.script.fixes.models import keras_calls
from slowtrain.script.text import edits, source_file

FIT = "h = model.fit(x, y, epochs={epochs}, validation_data=(a, b){more}){after}\n"

# What stands in the script: the number that is set when six times rarer is wanted, None where nothing is edited.
FITS: dict[str, tuple[str, int | None]] = {
    "a number by name": ("EPOCHS = 10\n" + FIT.format(epochs="EPOCHS", more="", after=""), 5),
    "every epoch by name": (FIT.format(epochs=12, more=", validation_freq=1", after=""), 6),
    "rarer already": (FIT.format(epochs=12, more=", validation_freq=3", after=""), None),
    "epochs of an argument": (FIT.format(epochs="args.epochs", more="", after=""), None),
    "early stopping": (FIT.format(epochs=12, more=", callbacks=[EarlyStopping()]", after=""), None),
    "the best": (FIT.format(epochs=12, more="", after="\nprint(min(h.history['val_loss']))"), 6),
    "a curve": (FIT.format(epochs=12, more="", after="\nplot(range(12), h.history['val_loss'])"), None),
    "no validation": ("model.fit(x, y, epochs=12)\n", None),
    "a part of the data": ("model.fit(x, y, epochs=12, validation_split=0.1)\n", 6),
    "arguments in a dict": (FIT.format(epochs=12, more=", **more", after=""), None),
}


@pytest.mark.parametrize("name", FITS)
def test_validation_freq(name: str) -> None:
    script, number = FITS[name]
    text = source_file.parse_source("train.py", script)
    assert text is not None
    line = next(i for i, row in enumerate(script.splitlines(), 1) if "fit(" in row)
    found = keras_calls.validate_less_often(text, line, 6)
    assert bool(found) == (number is not None)
    if number is not None:
        assert f"validation_freq={number}" in edits.edited_text(text, found)


TURNS: dict[str, tuple[str, str | None]] = {
    "a name": ("N = 5\nfor i in range(90):\n    if i % N == 0:\n        test()\n", "if i % (6 * N) == 0:"),
    "a number inside": (
        "for i in range(90):\n    if i % 5 == 0:\n        test()\n        if i % 20 == 0:\n            print(i)\n",
        "if i % 20 == 0:\n        test()",
    ),
    "a setting": (
        "cfg = SimpleNamespace(every=5)\nfor i in range(90):\n    if i % cfg.every == 0:\n        test()\n",
        "if i % (6 * cfg.every) == 0:",
    ),
    "a setting of the command line": (
        "cfg = parse()\nfor i in range(90):\n    if i % cfg.every == 0:\n        test()\n",
        None,
    ),
    "in a function that it calls": (
        (
            "def score():\n    for x in val:\n        test()\n"
            "for i in range(90):\n    if i % 5 == 0:\n        print(score())\n"
        ),
        "if i % 30 == 0:",
    ),
    "a function called twice": (
        (
            "def score():\n    for x in val:\n        test()\n"
            "for i in range(90):\n    if i % 5 == 0:\n        print(score())\nscore()\n"
        ),
        None,
    ),
    "a function that draws": (
        (
            "def score():\n    for x in np.random.permutation(val):\n        test()\n"
            "for i in range(90):\n    if i % 5 == 0:\n        print(score())\n"
        ),
        None,
    ),
    "a function that steers": (
        (
            "def score():\n    test()\n    opt.learning_rate.assign(1)\n"
            "for i in range(90):\n    if i % 5 == 0:\n        score()\n"
        ),
        None,
    ),
    "no guard": ("for i in range(90):\n    test()\n", None),
    "an end": ("for i in range(90):\n    if i % 5 == 0:\n        if test() < 1:\n            break\n", None),
    "the best is saved": ("for i in range(90):\n    if i % 5 == 0:\n        test()\n        model.save(p)\n", None),
    "the rate falls": ("for i in range(9):\n    if i % 5 == 0:\n        test()\n        opt.lr.assign(1)\n", None),
}


@pytest.mark.parametrize("name", TURNS)
def test_turns(name: str) -> None:
    script, part = TURNS[name]
    text = source_file.parse_source("train.py", script)
    assert text is not None
    line = next(i for i, row in enumerate(script.splitlines(), 1) if "test()" in row)
    found = periodic_work.enlarge_modulus(text, line, 6)
    assert bool(found) == (part is not None)
    if part is not None:
        assert part in edits.edited_text(text, found)
