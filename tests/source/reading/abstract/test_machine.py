"""A script is gone through as Python would: what a call is given, in which loops, what changes in their turns."""

from __future__ import annotations

import ast
import time
from textwrap import dedent

import numpy as np
import pytest

from slowtrain.script.interpreter.domain.abstract_values import NOT_KNOWN, Value
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.text import source_file

# With a function that trains: other files are not gone through.
HEAD = "import numpy as np\nimport tensorflow as tf\nimport keras\ndef train(model): model.fit(0)\n"


def gone_through(script: str) -> tuple[Event, ...]:
    text = source_file.parse_source("train.py", HEAD + dedent(script))
    assert text is not None
    return file_events(text)


def asked(script: str) -> list[Event]:
    """The calls of ``ask``, a function of the script that does nothing."""
    made = gone_through("def ask(*given, **named): pass\n" + dedent(script))
    return [one for one in made if one.name == "ask"]


def given(script: str) -> Value:
    """What the script's one call of ``ask`` is given."""
    (event,) = asked(script)
    return event.given.args[0]


KNOWN = {
    "arithmetic": ("n = 7\nask((n * 2 + 1) // 4)", 3),
    "through a function": ("def half(n):\n    return n // 2\nask(half(8))", 4),
    "a default": ("def f(n=5):\n    return n\nask(f())", 5),
    "by keyword": ("def f(a, b):\n    return b\nask(f(b=2, a=1))", 2),
    "of an object": ("class C:\n    def __init__(self, n):\n        self.n = n\nask(C(9).n)", 9),
    "of a data class": ("class C:\n    n: int = 4\n    m: int = 6\nask(C(m=8).m)", 8),
    "of a class that it derives from": ("class A:\n    k = 3\nclass B(A):\n    pass\nask(B().k)", 3),
    "a property": ("class C:\n    @property\n    def n(self):\n        return 2\nask(C().n)", 2),
    "a mapping": ("d = {'a': 1, 'b': 5}\nask(d['b'])", 5),
    "stars": ("def f(a, b):\n    return a\nask(f(*(6, 7)))", 6),
    "a closure": ("def make(n):\n    def inner():\n        return n\n    return inner\nask(make(3)())", 3),
    "a lambda": ("ask((lambda n: n + 1)(4))", 5),
    "the taken side": ("debug = False\nif debug:\n    n = 1\nelse:\n    n = 2\nask(n)", 2),
    "of an array's shape": ("x = np.zeros((30, 4))\nask(len(x))", 30),
    "of a command line": (
        ("import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', type=int, default=3)\n"
        "ask(p.parse_args().n)"), 3,
    ),
    "of the environment": ("import os\nask(int(os.environ.get('N', '12')))", 12),
    "global": ("n = 1\ndef f():\n    global n\n    n = 2\nf()\nask(n)", 2),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_known(name: str) -> None:
    script, number = KNOWN[name]
    assert given(script).known == number


UNKNOWN = {
    "one side or the other": "if load():\n    n = 1\nelse:\n    n = 2\nask(n)",
    "changed by a loop": "n = 0\nfor x in load():\n    n += 1\nask(n)",
    "by nothing": "ask(7 // 0)",
    "of a loop": "for n in range(3):\n    ask(n)",
    "set by a name that is worked out": "class C:\n    n = 1\nc = C()\nsetattr(c, load(), 2)\nask(c.n)",
    "a function that calls itself": "def f(n):\n    return f(n)\nask(f(1))",
    "a range that is too long": "for n in range(10 ** 30):\n    ask(n)",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known(name: str) -> None:
    assert given(UNKNOWN[name]).known is NOT_KNOWN


# A script in which ``ask`` is given a number, and whether it is another one in each turn of the innermost loop.
TURNS = {
    "the loop's own": ("for i in range(9):\n    ask(i)", True),
    "worked out of it": ("for i in range(9):\n    rate = 0.1 * i\n    ask(rate)", True),
    "through a function": ("def at(i):\n    return i / 2\nfor i in range(9):\n    ask(at(i))", True),
    "added to": ("n = 0\nfor x in load():\n    n += 1\n    ask(n)", True),
    "asked before it is changed": ("r = 0.1\nfor x in load():\n    ask(r)\n    r = r * 0.9", True),
    "an attribute": (
        ("class S:\n    def __init__(self):\n        self.r = 0.1\n    def step(self):\n        ask(self.r)\n"
        "        self.r = max(0.01, self.r * 0.9)\ns = S()\nfor x in load():\n    s.step()"), True,
    ),
    "in an object": ("class A:\n    r: float\nfor i in range(9):\n    ask(A(i * 0.1).r)", True),
    "of a generator": ("def g():\n    for i in range(9):\n        yield i * 0.5\nfor r in g():\n    ask(r)", True),
    "of enumerate": ("for i, x in enumerate(load()):\n    ask(i)", True),
    "drawn": ("import random\nfor x in load():\n    ask(random.random())", True),
    "the clock": ("import time\nfor x in load():\n    ask(time.time())", True),
    "of an iterator": ("it = iter(range(9))\nwhile True:\n    ask(next(it))", True),
    "the same": ("r = 0.1\nfor x in load():\n    ask(r)", False),
    "set to the same again": ("for x in load():\n    r = 0.1\n    ask(r)", False),
    "of an outer loop": ("for e in range(9):\n    for x in load():\n        ask(e)", False),
    "set anew for each epoch": ("for e in range(9):\n    n = 0\n    for x in load():\n        pass\n    ask(n)", False),
}  # fmt: skip


@pytest.mark.parametrize("name", TURNS)
def test_what_is_another_one_in_each_turn(name: str) -> None:
    script, another = TURNS[name]
    (event,) = asked(script)
    assert (event.loops[-1].number in event.given.args[0].varies) is another


SHAPES = {
    "as long as the longest": ("for b in load():\n    ask(np.zeros((4, max(len(r) for r in b))))", True),
    "padded to no length": ("for b in load():\n    ask(keras.utils.pad_sequences(b))", True),
    "cut to a length that moves": ("x = np.zeros((9, 9))\nfor i in range(9):\n    ask(x[:i])", True),
    "rows that a mask leaves": ("x = np.zeros(9)\nfor i in range(9):\n    ask(x[x > i])", True),
    "a ragged batch": (("ds = tf.data.Dataset.from_tensor_slices(1).map(lambda r: r.to_tensor())\n"
                       "for x in ds:\n    ask(x)"), True),
    "padded batches": ("for x in tf.data.Dataset.range(9).padded_batch(4):\n    ask(x)", True),
    "padded to one length": ("for b in load():\n    ask(keras.utils.pad_sequences(b, maxlen=9))", False),
    "a window": ("x = np.zeros((9, 9))\nfor i in range(9):\n    ask(x[i : i + 4])", False),
    "rows by their numbers": (("rng = np.random.default_rng()\nx = np.zeros((9, 9))\nfor i in range(9):\n"
                              "    ask(x[rng.integers(0, 9, 4)])"), False),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_what_has_another_shape_in_each_turn(name: str) -> None:
    script, another = SHAPES[name]
    (event,) = asked(script)
    assert (event.loops[-1].number in event.given.args[0].ragged) is another


DTYPES = {
    "drawn": ("ask(np.random.default_rng(0).normal(size=(3, 3)))", "float64"),
    "made narrower": ("ask(np.zeros(3).astype('float32'))", "float32"),
    "a weight of it": ("ask(tf.Variable(np.zeros((3, 3))))", "float64"),
    "a weight of numbers": ("ask(tf.Variable(0.5))", "float32"),
    "said": ("ask(tf.constant(np.zeros(3), tf.float32))", "float32"),
    "the wider of two": ("ask(np.zeros(3) * np.zeros(3, dtype=np.float32))", "float64"),
}


@pytest.mark.parametrize("name", DTYPES)
def test_number_formats(name: str) -> None:
    script, expected = DTYPES[name]
    assert given(script).dtype == expected


PROMOTED = [
    "x * i", "x * b", "x * 0.5", "i * 2", "i * 0.5", "i / 2", "b + b", "b / 255.0", "i * b", "x + np.zeros(3)",
    "np.sqrt(i)", "np.exp(x)", "i.mean()", "x.mean()", "i.std()", "np.isnan(x)", "np.array([1, 2])",
    "np.array([1, 2.5])", "np.array([True, False])", "np.full(3, 7)", "np.full(3, 0.5)", "np.column_stack([x, x])",
    "np.zeros(3, 'f4')", "np.zeros(3, float)", "x.astype('f8')", "np.random.default_rng(0).poisson(2, 3)",
]  # fmt: skip


@pytest.mark.parametrize("expression", PROMOTED)
def test_dtypes_are_those_that_numpy_gives(expression: str) -> None:
    makers = {"x": "np.zeros(3, np.float32)", "i": "np.arange(3)", "b": "np.zeros(3, np.uint8)"}
    names = {name: eval(maker, {"np": np}) for name, maker in makers.items()}
    script = "".join(f"{name} = {maker}\n" for name, maker in makers.items())
    assert given(f"{script}ask({expression})").dtype == eval(expression, {"np": np, **names}).dtype.name


def test_an_array_that_is_changed_in_place_keeps_its_dtype() -> None:
    assert given("x = np.zeros(3, np.float32)\nx += np.ones(3)\nask(x)").dtype == "float32"
    assert given("x = np.zeros(3, np.float32)\nx = x + np.ones(3)\nask(x)").dtype == "float64"


AXES = [
    "x.mean(axis=1)", "x.std(axis=0, keepdims=True)", "x.sum()", "np.max(x, axis=-1)", "np.sum(x, axis=(0, 2))",
    "np.argmax(x, axis=2)", "np.linalg.norm(x, axis=0)", "np.expand_dims(x, 0)", "np.expand_dims(x, axis=-1)",
    "np.squeeze(x)", "np.squeeze(x, axis=1)", "x.squeeze()", "np.transpose(x, (2, 0, 1))", "np.transpose(x)", "x.T",
    "np.tile(x, (1, 3, 2))", "np.repeat(x, 5, axis=1)", "x.repeat(2, axis=0)", "np.pad(x, ((1, 2), (0, 0), (3, 0)))",
    "np.take(x, np.arange(3), axis=0)", "np.fft.rfft(x)", "np.flip(x, axis=0)", "np.isnan(x)", "np.sort(x, axis=0)",
    "x[None]", "x[:, None]", "x[..., None]", "x[1, None]", "np.not_equal(x, 3)", "np.arctan2(x, x)",
    "np.zeros((x.size, x.ndim))",
]  # fmt: skip


@pytest.mark.parametrize("expression", AXES)
def test_shapes_are_those_that_numpy_gives(expression: str) -> None:
    known = given(f"x = np.zeros((4, 1, 6))\nask({expression})").shape
    assert known == eval(expression, {"np": np, "x": np.zeros((4, 1, 6))}).shape


OF_TENSORS = {
    "ds.map(tf.image.per_image_standardization)": (8, 9, 3),
    "ds.map(lambda p: tf.image.rgb_to_grayscale(p))": (8, 9, 1),
    "ds.map(lambda p: tf.image.crop_to_bounding_box(p, 0, 0, 4, 5))": (4, 5, 3),
    "ds.map(lambda p: tf.gather(p, tf.zeros((2,), tf.int32)))": (2, 9, 3),
    "ds.map(lambda p: tf.reduce_mean(p, axis=-1, keepdims=True))": (8, 9, 1),
    "ds.map(told)": (7, 7),
    "tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec((2, 5)))": (2, 5),
}


@pytest.mark.parametrize("made", OF_TENSORS)
def test_shapes_of_elements(made: str) -> None:
    told = "def told(p):\n    q = tf.io.decode_raw(p, tf.uint8)\n    q.set_shape((7, 7))\n    return q\n"
    rows = "def rows():\n    a = np.zeros((9, width()))\n    for i in range(4):\n        yield a[i : i + 2]\n"
    ds = "ds = tf.data.Dataset.from_tensor_slices(np.zeros((50, 8, 9, 3)))\n"
    found = given(f"{told}{rows}{ds}for one in {made}:\n    ask(one)").shape
    assert found == OF_TENSORS[made]


def test_an_optimizer_of_another_rate_is_the_same() -> None:
    same, other = asked(
        "for i in range(9):\n    ask(keras.optimizers.SGD(0.1 / (i + 1)))\n"
        "    ask(keras.optimizers.SGD(learning_rate=0.1, momentum=i))"
    )
    assert not same.given.args[0].varies
    assert other.given.args[0].varies


def test_loops_on_the_way_are_known() -> None:
    script = """
    def inner(x):
        for part in range(4):
            ask(part)

    for epoch in range(3):
        for x in load():
            inner(x)
    """
    (event,) = asked(script)
    assert [one.turns for one in event.loops] == [3, None, 4]
    assert len(event.path) == 1


def test_what_only_some_turns_do_is_rare() -> None:
    (event,) = asked("for e in range(3):\n    for i in range(900):\n        if i % 100 == 0:\n            ask(i)")
    assert [one.turns for one in event.regular_loops(1)] == [3]
    (event,) = asked("for i in range(900):\n    if i >= 50 and i % 4 == 0:\n        ask(i)")
    assert [one.turns for one in event.regular_loops(1)] == [900]


def test_a_tf_function_runs_its_python_once_and_in_a_graph() -> None:
    script = """
    @tf.function
    def step(x):
        ask(x)
        return x

    for i in range(9):
        step(np.zeros(3))
    """
    (event,) = asked(script)
    assert event.graph
    assert event.given.args[0].kind == "tensor"


GRAPHS = {
    "decorated": "@tf.function\ndef f(x):\n    return x\nfor i in range(9):\n    f(i)",
    "with settings": "@tf.function(jit_compile=True)\ndef f(x):\n    return x\nfor i in range(9):\n    f(i)",
    "made of one": "def g(x):\n    return x\nf = tf.function(g)\nfor i in range(9):\n    f(i)",
    "a method": "class C:\n    @tf.function\n    def f(self, x):\n        return x\nc = C()\n"
    "for i in range(9):\n    c.f(i)",
    "made in a constructor": (
        "class C:\n    def __init__(self):\n        self.f = tf.function(self._f)\n"
        "    def _f(self, x):\n        return x\n"
        "c = C()\nfor i in range(9):\n    c.f(i)"
    ),
    "made once when it is needed": (
        "class C:\n    f = None\n    def run(self, x):\n        if self.f is None:\n"
        "            self.f = tf.function(abs)\n"
        "        return self.f(x)\nc = C()\nfor i in range(9):\n    c.run(i)"
    ),
    "made by a function": "def make():\n    return tf.function(lambda x: x)\nf = make()\nfor i in range(9):\n    f(i)",
}


@pytest.mark.parametrize("name", GRAPHS)
def test_calls_of_graphs_made_before_the_loop(name: str) -> None:
    called = [e for e in gone_through(GRAPHS[name]) if e.on is not None and e.on.kind == "graph"]
    assert len(called) == 1
    assert called[0].on is not None
    assert not set(called[0].on.born) & {one.number for one in called[0].loops}


def test_a_graph_made_in_each_turn_is_born_there() -> None:
    (made,) = [
        e
        for e in gone_through("for i in range(9):\n    tf.function(lambda x: x)(i)")
        if e.on is not None and e.on.kind == "graph"
    ]
    assert made.on is not None
    assert made.on.born == (made.loops[0].number,)


PRODUCERS = {
    "generator": "def g():\n    for i in range(9):\n        ask(i)\n        yield i\ntf.data.Dataset.from_generator(g)",
    "py_function": "ds.map(lambda x: tf.py_function(ask, [x], tf.float32))",
    "sequence": (
        "class S(keras.utils.PyDataset):\n    def __getitem__(self, i):\n        ask(i)\n        return i\n"
        "keras.Sequential([]).fit(S())"
    ),
}


@pytest.mark.parametrize("name", PRODUCERS)
def test_what_makes_the_input_is_known_as_that(name: str) -> None:
    (event,) = asked("ds = tf.data.Dataset.range(9)\n" + PRODUCERS[name])
    assert event.producer == name
    assert not event.graph


def test_callbacks_run_in_epochs_and_steps() -> None:
    script = """
    class C(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            ask("epoch")

        def on_train_batch_end(self, batch, logs=None):
            ask("step")

    keras.Sequential([]).fit(np.zeros(9), epochs=5, callbacks=[C()])
    """
    assert [(e.given.args[0].known, [one.turns for one in e.loops]) for e in asked(script)] == [
        ("epoch", [5]), ("step", [5, None]),
    ]  # fmt: skip


FIRST_SIZES = {
    "of a list that append made": ("a = []\nfor i in range(6):\n    a.append(np.zeros(3))\nask(np.array(a))", (6, 3)),
    "a stack of a comprehension": ("ask(np.stack([np.zeros(3) for _ in range(7)]))", (7, 3)),
    "of what is filtered nothing": ("ask(np.stack([np.zeros(3) for i in range(7) if load(i)]))", (None, 3)),
    "of what was removed nothing": ("a = [np.zeros(3) for _ in range(7)]\na.pop()\nask(np.stack(a))", (None, 3)),
    "a range of tensors": ("ask(tf.range(2, 12, 3))", (4,)),
    "a range with an unknown end": ("ask(np.arange(load()))", (None,)),
    "images": ("(x, y), (a, b) = keras.datasets.mnist.load_data()\nask(x)", (60_000, 28, 28)),
    "their classes": ("(x, y), (a, b) = tf.keras.datasets.cifar10.load_data()\nask(b)", (10_000, 1)),
    "texts": ("from keras.datasets import imdb\n(x, y), _ = imdb.load_data(num_words=9)\nask(x)", (25_000,)),
    "a part that a setting decides": ("ask(keras.datasets.reuters.load_data(test_split=load())[0][1])", (None,)),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST_SIZES)
def test_first_sizes(name: str) -> None:
    script, shape = FIRST_SIZES[name]
    assert given(script).shape == shape


LENGTHS = {
    "a comprehension": ("a = [load(i) for i in range(9)]\nask(len(a))", 9),
    "one of a comprehension": ("a = [load(i) for i in range(9)]\nask(len([f(x) for x in a]))", 9),
}
LOOSE_LENGTHS = {
    "added to": "a = [load(i) for i in range(9)]\na.append(1)\nask(len(a))",
    "a set": "ask(len({load(i) for i in range(9)}))",
    "of two loops": "ask(len([load(i) for i in range(9) for j in range(2)]))",
    "of an unknown number": "ask(len([load(i) for i in load()]))",
}


@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_of_comprehensions(name: str) -> None:
    script, number = LENGTHS[name]
    assert given(script).known == number


@pytest.mark.parametrize("name", LOOSE_LENGTHS)
def test_lengths_that_are_not_known(name: str) -> None:
    assert given(LOOSE_LENGTHS[name]).known is NOT_KNOWN


def test_what_trains_and_is_not_called_is_interpreted_without_a_loop() -> None:
    assert len(asked("def step(x):\n    with tf.GradientTape() as tape:\n        ask(x)")) == 1
    assert asked("def helper(x):\n    ask(x)") == []


def test_what_nobody_calls_is_gone_through_too() -> None:
    (event,) = asked("def train(data):\n    for x in data:\n        ask(x)")
    assert len(event.loops) == 1


HOSTILE = {
    "deep": "ask(" + "(" * 90 + "1" + ")" * 90 + ")",
    "lists that double": "a = [1]\n" + "a = a + a\n" * 60 + "ask(a)",
    "arguments that double": "def f(*a):\n    return f(*a, *a)\nf(1)",
    "loops in loops": "".join(f"{' ' * i}for x{i} in range(9):\n" for i in range(18)) + " " * 18 + "ask(1)",
    "functions that call each other": "".join(f"def f{i}():\n    f{i + 1}()\n    f{i + 1}()\n" for i in range(40))
    + "f0()",
    "numbers that square": "n = 9\n" + "n = n * n\n" * 200 + "ask(n)",
    "a class of itself": "class A(A): pass\nask(A().x)",
    "a long list": "ask([" + "1, " * 50_000 + "])",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_scripts_end(name: str) -> None:
    gone_through(HOSTILE[name])


@pytest.mark.bench
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_scripts_end_within_seconds(name: str) -> None:
    start = time.process_time()
    gone_through(HOSTILE[name])
    assert time.process_time() - start < 10


def test_a_file_that_does_not_train_is_not_gone_through() -> None:
    text = source_file.parse_source("library.py", "def f(x):\n    for y in x:\n        print(y)\nf([1])\n")
    assert text is not None
    assert file_events(text) == ()


def test_every_event_stands_in_the_text() -> None:
    for event in gone_through("for i in range(9):\n    print(f'{i} {np.zeros(3)}')\n"):
        assert isinstance(event.node, ast.expr)
        assert event.node.lineno >= 4
