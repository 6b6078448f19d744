"""Work beside the steps is done less often only where the steps need nothing of it."""

from __future__ import annotations

import pytest

from slowtrain.script.fixes.loops import periodic_work
from slowtrain.script.text import edits, source_file

HEAD = "import os\nimport pickle\nimport numpy as np\nimport random\n"
LOOP = "for x in ds:\n    loss = step(x)\n    n += 1\n    if {test}:\n        {work}\n"
STORE = (
    "def store(n, folder):\n    state = [v.numpy() for v in net.variables]\n"
    "    with open(os.path.join(folder, 'state'), 'wb') as f:\n        pickle.dump((n, state), f)  # here\n"
)
GUARDS = {
    "n % 50 == 0": "n % 500 == 0",
    "not n % 50": "not n % 500",
    "n and n % 50 == 0": "n and n % 500 == 0",
    "n % EVERY == 0": "n % (10 * EVERY) == 0",
    "n % args.every == 0": "n % (10 * args.every) == 0",
}
HARMLESS = {
    "a function that writes": (STORE, "store(n, folder)"),
    "a list that is kept": ("", "frames.append(net.layers[0].kernel.numpy())  # here"),
    "the last ones": ("", "frames = frames[-3:] + [net.weights[0].numpy()]  # here"),
    "a picture": ("", "np.save('w.npy', net.get_weights()[0])  # here"),
}
NEEDED = {
    "new data for the steps": ("", "ds = load(n)  # here"),
    "what the step is given": ("def load(k):\n    return np.load(k)  # here\n", "x = load(n)"),
    "weights of another model": ("", "target.set_weights(net.get_weights())  # here"),
    "a buffer of an unknown kind": ("", "buffer.refill()  # here"),
    "numbers drawn": ("", "frames.append(random.random())  # here"),
    "a generator's numbers": ("", "frames.append(rng.normal(size=3))  # here"),
    "the end": ("", "break  # here"),
    "an attribute": ("", "net.rate = 0.5  # here"),
    "the best so far": ("", "v = float(loss)\n        if v < best:\n            best = v  # here"),
    "elements of what was there": ("def f(a):\n    a[0] = 1  # here\n", "f(weights)"),
    "training": ("", "net.fit(x)  # here"),
    "a function of elsewhere": ("", "report(n)  # here"),
}


def edited(text: str, period: float | None = None) -> str | None:
    parsed = source_file.parse_source("train.py", text)
    assert parsed is not None
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "# here" in row)
    made = periodic_work.run_guarded_less_often(parsed, line, 10, period)
    return edits.edited_text(parsed, made) if made else None


@pytest.mark.parametrize("name", HARMLESS)
@pytest.mark.parametrize("test", GUARDS)
def test_the_number_of_steps_grows(test: str, name: str) -> None:
    before, work = HARMLESS[name]
    text = HEAD + "EVERY = 50\n" + before + LOOP.format(test=test, work=work)
    assert edited(text) == text.replace(f"if {test}:", f"if {GUARDS[test]}:")


@pytest.mark.parametrize("name", NEEDED)
def test_what_the_steps_need_stays(name: str) -> None:
    before, work = NEEDED[name]
    assert edited(HEAD + before + LOOP.format(test="n % 50 == 0", work=work)) is None


def test_another_branch_stays() -> None:
    work = LOOP.format(test="n % 50 == 0", work="print(n)  # here")
    assert edited(HEAD + work) is not None
    assert edited(HEAD + work + "    else:\n        train(x)\n") is None


def test_of_two_numbers_the_one_that_was_seen() -> None:
    text = HEAD + LOOP.format(test="n % 50 == 0", work="print(n)  # here")
    assert edited(text, 50.0) is not None
    assert edited(text, 7.0) is None


def test_a_function_that_two_conditions_call_stays() -> None:
    call = "    if n % 50 == 0:\n        store(n, a)\n"
    assert edited(HEAD + STORE + "for x in ds:\n    n += 1\n" + call) is not None
    assert edited(HEAD + STORE + "for x in ds:\n    n += 1\n" + call + call.replace("50", "60")) is None
