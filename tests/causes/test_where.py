"""The line to change, which a run does not measure, stands first among the places that the evidence names."""

from __future__ import annotations

import json
import textwrap

import pytest
from msgspec.structs import replace

from slowtrain.causes import all_causes
from slowtrain.model import Effect, Evidence, Place
from slowtrain.script.locations import source_locations, source_places
from slowtrain.script.navigation import node_lookup
from slowtrain.trace import Trace

from ..drawn_trace import DRAWN_FILE, parse_drawing  # noqa: TID252  tests are no package

EAGER = """
step     1111111111
dispatch ddddddddd.
device   .........k
@fact eager_step=true
@kernels busy=0 count=0 eager_ops=600 eager_ms=1.5 step=14
"""
RETRACED = """
step    1111111111
compile ccccccccc.
device  .........k
"""
DENSE = """
step     1111111111
device   kkkkkkkkk.
@event compile name=Model start=0 end=0 data={"site":["train.py",9]}
@event trace name=step data={"training":true,"graph":{"tables":[[200000,32,900]],"weights":6410000}}
@kernels busy=9 ms=9 ops={"adam/Mul_1:Mul": [4, 1], "adam/UnsortedSegmentSum:UnsortedSegmentSum": [4, 1], \
    "m/dense/MatMul:MatMul": [1, 3]}
"""
DOUBLE = """
step     111111
device   kkkkk.
@event trace name=step data={"training": true, "number": 1, "file": "train.py", "line": 20, \
    "graph": {"matrix": {"float64": 8}, "double": [["train.py", 9]]}}
@kernels busy=5 ms=5 ops={"dense/MatMul:MatMul": [4.5, 8], "dense/Relu:Relu": [0.5, 2]}
"""
VALIDATED = """
step     1111111111 11111222222222222222
device   kkkkkkkkkk kkkkk...............
"""
BOUND = """
step    1111111111
device  dddddddddd
@fact usable_cores=1 affinity_cores=1 cpu_ms_per_step=9.5 devices=[{"kind":"CPU"}]
@fact machine={"cpu":{"logical_cores":4,"usable_cores":4}} launch={"argv":["python","train.py"]}
@kernels busy=9 ms=9 count=20 step=10 types={"MatMul":[8,10],"Mul":[1,500]}
"""
CALLED = """
step     1111111111
callback ccccc.....
device   .....kkkkk
"""


def recorded(drawing: str, text: str) -> Trace:
    """A trace whose recording kept the script's text."""
    trace = parse_drawing(drawing)
    return replace(trace, facts={**trace.facts, "sources": {DRAWN_FILE: textwrap.dedent(text).lstrip()}})


def named(cause: str, drawing: str, text: str) -> list[int]:
    """The lines that the evidence names."""
    return [place.line for place in found_evidence(cause, drawing, text).where]


def found_evidence(cause_id: str, drawing: str, text: str) -> Evidence:
    trace = recorded(drawing, text)
    cause = next(c for c in all_causes() if c.id == cause_id)
    finding = cause.find(trace)
    assert finding is not None
    return cause.evidence(trace, finding)


def test_the_switch_that_makes_everything_eager() -> None:
    drawing = EAGER + '@fact functions_eager=true\n@event loop name=fit start=0 end=9 data={"site":["train.py",30]}\n'
    text = """
        import tensorflow as tf
        def same(seed):
            tf.random.set_seed(seed)
            tf.config.run_functions_eagerly({})
        """
    assert named("host/eager-step", drawing, text.format("True")) == [4, 30]
    assert named("host/eager-step", drawing, text.format("False")) == [30]  # another file's, or the environment's


def test_the_setting_that_the_switch_is_given() -> None:
    drawing = EAGER + '@fact functions_eager=true\n@event loop name=fit start=0 end=9 data={"site":["train.py",30]}\n'
    text = """
        import tensorflow as tf
        DEBUG = True

        tf.config.run_functions_eagerly(DEBUG)
        """
    assert named("host/eager-step", drawing, text) == [2, 4, 30]


def test_the_function_that_wants_the_decorator() -> None:
    text = """
        import tensorflow as tf
        def inner(w):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(w * w)
            return tape.gradient(loss, w)
        def outer(w, opt):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(w * w)
            opt.apply_gradients([(tape.gradient(loss, w), w)])
        for i in range(40):
            outer(w, opt)
        """
    step = "@span gradient gradient start=3 end=5 line=9 times=40 every=10\n"
    assert named("host/eager-step", EAGER + step, text) == [6, 9]
    assert named("host/eager-step", EAGER + step.replace("line=9", "line=5"), text) == [5]  # applied by nobody


def retraced(argument: str, line: int, function: int) -> str:
    """``argument`` is traced for another Python number in each call at ``line``."""
    leaves = f'{{"{argument}":{{"kind":"python","type":"float","value":"%s"}}}}'
    events = "".join(
        f'@event trace name=step start={10 * i} end={10 * i + 9} data={{"nth":{i + 1},"number":1,'
        f'"site":["train.py",{line}],"file":"train.py","line":{function},"signature":{leaves % (i / 10)}}}\n'
        for i in range(40)
    )
    return RETRACED + events


TABLES = """
    import collections
    import tensorflow as tf
    Rate = collections.namedtuple("Rate", "beta tau")
    def rate_at(i):
        share = i / 100
        return Rate(share, 2.0)
    @tf.function
    def step(x, rate):
        return x * rate[0]
    for i in range(40):
        step(x, rate_at(i))
    for i in range(40):
        batch = {}
        batch["beta"] = i / 100
        step(x, batch)
    for i in range(40):
        step(x, i / 100)
    """


@pytest.mark.parametrize(
    ("argument", "line", "found"),
    [("rate[0]", 11, [6, 11, 7]), ("rate['beta']", 15, [14, 15, 7]), ("rate", 17, [17, 7])],
)
def test_where_the_part_of_an_argument_that_changes_is_put_in(argument: str, line: int, found: list[int]) -> None:
    assert named("host/retracing", retraced(argument, line, 7), TABLES) == found


def test_the_op_on_the_whole_table_before_the_start_of_training() -> None:
    text = """
        import tensorflow as tf
        words = tf.Variable(tf.random.normal((200_000, 32)))
        @tf.function
        def step(ids):
            with tf.GradientTape() as tape:
                unit = tf.math.l2_normalize(words, axis=-1)
                loss = tf.reduce_sum(tf.gather(unit, ids))
            return tape.gradient(loss, words)
        """
    assert named("compute/dense-embedding-update", DENSE, text)[:2] == [6, 9]


def test_the_penalty_of_the_whole_table() -> None:
    text = """
        import keras
        from keras import layers, regularizers
        model = keras.Sequential([
            layers.Embedding(200_000, 32, {}),
            layers.Flatten(),
            layers.Dense(1),
        ])
        optimizer = keras.optimizers.SGD(0.1)
        model.compile(optimizer, "mse")
        model.fit(x, y)
        """
    penalty = "embeddings_regularizer=regularizers.L2(1e-6)"
    assert named("compute/dense-embedding-update", DENSE, text.format(penalty)) == [4, 9]
    assert named("compute/dense-embedding-update", DENSE, text.format("name='table'")) == [9]


def test_where_numbers_of_double_precision_are_made() -> None:
    text = """
        import numpy as np
        import tensorflow as tf
        def layer(n, m):
            return tf.Variable(np.random.normal(size=(n, m)))
        first = layer(8, 8)
        """
    assert named("compute/double-precision", DOUBLE, text) == [4, 9, 20]


VALIDATING = """
    class Plan:
        every = 8
    def look():
        return model.evaluate(x, y)
    for step in range(320):
        train()
        if step % {} == 0:
            look()
    """


@pytest.mark.parametrize(("turns", "found"), [("8", [7, 4]), ("Plan.every", [2, 7, 4])])
def test_how_often_a_loop_validates(turns: str, found: list[int]) -> None:
    called = '@event loop name=evaluate start=15 end=29 times=20 every=30 data={"site":["train.py",4],"nested":0}\n'
    assert named("host/frequent-validation", VALIDATED + called, VALIDATING.format(turns)) == found


def test_who_asks_for_fewer_cores() -> None:
    text = """
        import os
        def claim(rank, cores):
            mine = sorted(os.sched_getaffinity(0))
            first = (rank * cores) % len(mine)
            os.sched_setaffinity(0, {})
        claim(0, cores=1)
        """
    assert named("machine/limited-host", BOUND, text.format("mine[first:first + cores]")) == [6, 5]
    assert named("machine/limited-host", BOUND, text.format("mine[:1]")) == [5]  # no caller can change it


def test_where_a_function_is_made_a_callback_of_each_batch() -> None:
    text = """
        import keras
        def watch(batch, logs):
            print(sum(w.sum() for w in model.get_weights()))
        hooks = [
            keras.callbacks.LambdaCallback(
                on_train_end=watch,
                on_train_batch_end=watch,
            ),
        ]
        """
    called = "@span callback {}.on_train_batch_end start=0 end=5 times=40 every=10 line=2\n"
    assert named("host/heavy-callback", CALLED + called.format("LambdaCallback"), text) == [7, 2]
    assert named("host/heavy-callback", CALLED + called.format("Watch"), text) == [2]


def test_what_gets_longer_in_the_step() -> None:
    text = """
        import tensorflow as tf
        bank = tf.Variable(tf.zeros((9, 4)), shape=(None, 4))
        @tf.function
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(x @ tf.transpose(bank))
            bank.assign(tf.concat([x, bank], 0))
            return loss
        for x in ds:
            step(x)
        """
    drawing = "step    11111\ndevice  .kkkk\n@repeat 400\n@more device=0.2\n"
    assert named("drift/growing-step", drawing, text)[0] == 7


def test_a_text_that_is_nested_too_deeply_shows_nothing() -> None:
    def lost(_: object) -> list[int]:
        raise RecursionError

    assert source_places.project_places(recorded(EAGER, "x = 1\n"), lost) == ()


def test_each_place_once_and_not_too_many() -> None:
    several = [Place(DRAWN_FILE, line) for line in (3, 1, 3, 2, 4, 5)]
    assert [p.line for p in source_places.merge_places(several[:2], several)] == [3, 1, 2, 4]


def test_a_literal_in_its_place_is_no_other_line() -> None:
    trace = recorded(EAGER, "n = 8\nf(8)\nf(n)\n")

    def given(source: object) -> list[int]:
        calls = [c for line in (2, 3) for c in node_lookup.calls_at_line(source, line, "f")]  # type: ignore[arg-type]
        return [line for call in calls for line in source_locations.literal_line(source, call.args[0])]  # type: ignore[arg-type]

    assert [p.line for p in source_places.project_places(trace, given)] == [1]


UNROLLED = """
step    1111111111
device  kkkkkkkkkk
@phase import=1800 compile=6000
@event trace name=step start=0 end=6000 data={"nth":1,"training":true,"trace_ns":5000000000,"site":["train.py",9],\
"graph":{"ops":9000,"types":{"ReadVariableOp":802,"AssignVariableOp":34},"lines":[["train.py",2,5000,4000]]}}
"""


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("def f(s):\n return s * g(s)\n\ndef loss(s):\n for _ in days:\n  s = f(s)\n return s\n", [5, 9]),
        ("for _ in days:\n s = s * g(s)\n", [1, 9]),
        ("s = f(s)\ns = s * g(s)\n", [9]),
    ],
)
def test_a_loop_that_is_written_out_into_the_graph_is_named_at_its_head(text: str, lines: list[int]) -> None:
    drawing = f"{UNROLLED}@fact source={json.dumps({DRAWN_FILE: text})}\n"
    assert named("startup/slow-startup", drawing, text) == lines


def test_where_the_model_is_made_that_each_turn_compiles() -> None:
    text = """
        import keras
        def local(start):
            model = keras.models.clone_model(start)
            model.compile("sgd", "mse")
            model.fit(x, y)
        same = keras.Sequential()
        for _ in range(9):
            same.compile("sgd", "mse")
        """
    trace = recorded(EAGER, text)
    made = [
        source_places.file_places(
            trace, Place(DRAWN_FILE, n), lambda s, line: source_locations.receiver_line(s, line, "compile")
        )
        for n in (4, 8)
    ]
    assert [[p.line for p in places] for places in made] == [[3], []]  # of the other one there is no more than one


def test_the_loop_whose_turns_are_ops_of_a_graph() -> None:
    text = """
        for _ in range(2):
            tf.abs(x)
        for i in range(64):
            for j in (1, 2):
                y = x[i] * j
            total += tf.reduce_sum(y)
        """
    trace = recorded(EAGER, text)
    assert [
        [p.line for p in source_places.file_places(trace, Place(DRAWN_FILE, n), source_locations.loop_line)]
        for n in (2, 5, 6)
    ] == [[], [], [3]]


def test_where_a_python_function_becomes_an_op() -> None:
    text = """
        def count(batch):
            return len(batch)
        def other(batch):
            return 0
        def features(x):
            return tf.numpy_function(count, [x], tf.int64)
        """
    trace = recorded(EAGER, text)
    assert [[p.line for p in source_places.wrapping_places(trace, [Place(DRAWN_FILE, n)])] for n in (2, 4)] == [[6], []]


def test_where_the_batch_is_written() -> None:
    text = """
        FIT = {
            "batch_size": 4,
        }
        rows = 8
        model.fit(x, y, **FIT)
        model.fit(x, y, batch_size=4)
        model.fit(ds.batch(rows))
        """
    trace = recorded(EAGER, text)
    assert [
        [p.line for p in source_places.file_places(trace, Place(DRAWN_FILE, n), source_locations.batch_size_line)]
        for n in (5, 6, 7)
    ] == [[2], [], [4]]


HAND_MADE = """
step    1111111111
device  kkkkkkkkkk
@fact devices=[{"kind":"GPU"}]
@device busy=5 ms=5 kernels=90 matrix={"float64":4,"float32":0.2} precision={"float64":4.5,"float32":0.4}
"""


def test_a_loop_by_hand_on_jax_is_told_by_its_kernels_and_names_the_switch() -> None:
    text = 'import jax\njax.config.update("jax_enable_x64", True)\njax.config.update("jax_debug_nans", True)\n'
    assert named("compute/double-precision", HAND_MADE, text) == [2]
    off = text.replace('64", True', '64", False')
    assert named("compute/double-precision", HAND_MADE, off) == []


STARVED = """
step    1111111111
input   iiiiiiiii.
device  .........k
@fact cpu_ms_per_step=11 usable_cores=4
@pipeline Slices ms=0.1 > ParallelMapV2 ms=9 elements=16 parallelism=4 line=3 > Batch ms=0.1 line=3 > Prefetch
"""


def test_elements_may_overtake_each_other_where_nothing_limits_the_threads() -> None:
    text = """
    import tensorflow as tf
    ds = tf.data.Dataset.from_tensor_slices(names)
    ds = ds.map(load, num_parallel_calls=4).batch(16).prefetch(2)
    """
    trace = recorded(STARVED, text)
    cause = next(c for c in all_causes() if c.id == "input/starved-host")
    evidence = cause.find(trace)
    assert evidence is not None
    edited = [p for p in cause.cures(trace, evidence) if p.edits]
    assert [(p.effect, p.edits[0].text) for p in edited] == [(Effect.CHANGES_TRAINING, ", deterministic=False")]
    limited = text.rstrip(" ") + "    options = tf.data.Options()\n    options.threading.private_threadpool_size = 1\n"
    limited += "    ds = ds.with_options(options)\n"
    # Of numbers that a map draws it is open which element they are for, once several calls draw beside each other.
    for ops, effect in (
        ({"DecodePng": 1}, Effect.EXACT),
        ({"RandomUniformInt": 1}, Effect.EQUIVALENT),
        ({}, Effect.EQUIVALENT),
    ):
        drawing = STARVED.replace("> Batch", f"detail={json.dumps({'ops': ops}, separators=(',', ':'))} > Batch")
        several = list(cause.cures(recorded(drawing, limited), evidence))
        assert [p.effect for p in several if p.edits] == [effect]


PADDED = """
    import tensorflow as tf
    @tf.function
    def step(x, rate):
        return tf.reduce_sum(model(x)) * rate / x.shape[-1]
    for x, rate in batches:
        step(x, rate)
    """


def reshaped(shape: str, rate: str) -> str:
    """Traces of a step for ``shape`` and ``rate``, in which # is the trace's number."""
    leaves = f'{{"x":{{"kind":"tensor","shape":{shape},"dtype":"float32"}},"rate":{rate}}}'
    return RETRACED + "".join(
        f'@event trace name=step start={10 * i} end={10 * i + 9} data={{"nth":{i + 1},"number":1,'
        f'"site":["train.py",6],"file":"train.py","line":2,"signature":{leaves.replace("#", str(i + 3))}}}\n'
        for i in range(40)
    )


def opened(drawing: str, text: str = PADDED) -> list[list[str]]:
    trace = recorded(drawing, text)
    cause = next(c for c in all_causes() if c.id == "host/retracing")
    evidence = cause.find(trace)
    assert evidence is not None
    return [[e.text for e in p.edits] for p in cause.cures(trace, evidence) if p.edits]


FIXED_RATE = '{"kind":"python","type":"float","value":"0.1"}'
RATE = '{"kind":"python","type":"float","value":"0.#"}'


def test_shapes_are_left_open_where_the_sizes_that_are_asked_for_stay() -> None:
    assert opened(reshaped("[8,#,40]", FIXED_RATE)) == [["(reduce_retracing=True)"]]
    assert opened(reshaped("[8,40,#]", FIXED_RATE)) == []
    ranks = reshaped("[8,#,40]", FIXED_RATE).replace("[8,7,40]", "[8,40]")
    assert opened(ranks) == []


def test_numbers_and_shapes_that_change_have_one_cure() -> None:
    assert opened(reshaped("[8,#,40]", RATE)) == [["tf.constant(", ", tf.float32)", "(reduce_retracing=True)"]]
    assert opened(reshaped("[8,40,#]", RATE)) == []


JOINED = """
step    1111111111
device  ....kkkkkk
@repeat 400
@more device=0.2
@grow memory anonymous from=600000000 by=1000000 every=200 last=20000
@grow held seen from=400000 by=900000 every=200 last=20000 detail={"path":"PATH","kind":"ndarray","element":"", \
    "element_bytes":1,"array":true,"file":"train.py","named":"seen","owner":"OWNER"}
"""


@pytest.mark.parametrize(
    ("path", "owner", "line"),
    [
        ("seen", "", "seen = np.concatenate([seen, batch])"),
        ("seen", "", "seen = np.append(seen, batch, axis=0)"),
        ("seen", "", "seen = tf.concat(values=[seen, batch], axis=0)"),
        ("seen", "", "seen, count = np.vstack((seen, batch)), count + 1"),
        ("seen", "", "seen = pd.concat([seen, batch], ignore_index=True)"),
        ("seen", "", "seen = seen.append(batch)"),
        ("seen", "", "seen = batch if seen is None else np.hstack([seen, batch])"),
        ("seen", "", "seen = np.r_[seen, batch]"),
        ("seen", "", "seen = longer(seen, batch)"),
        ("agent.seen", "Agent", "agent.seen = np.concatenate([agent.seen, batch])[-9:]"),
        ("kept['seen']", "", "seen['rows'] = np.concatenate([seen['rows'], batch])"),
    ],
)
def test_an_array_that_is_joined_to_itself(path: str, owner: str, line: str) -> None:
    text = f"""
        import numpy as np
        seen = np.zeros((0, 4))
        other = np.concatenate([np.zeros(3), np.ones(3)])
        for batch in data:
            step(batch)
            {line}
        plot(np.concatenate([seen, other]))
    """
    drawing = JOINED.replace("PATH", path).replace("OWNER", owner)
    assert named("memory/host-leak", drawing, text) == [6]
    assert named("drift/growing-step", drawing, text)[0] == 6
    assert found_evidence("drift/growing-step", drawing, text).says.endswith(f"; `{path}` grew from 400 kB to 89.5 MB")
