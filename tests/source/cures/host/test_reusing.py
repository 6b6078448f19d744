"""A model that each call builds, and gives other weights at once, is built by the first call alone."""

from __future__ import annotations

from textwrap import dedent

import pytest

from slowtrain.causes.host.compile_in_loop import model_reuse, optimizer_reset
from slowtrain.script.text import edits, source_file

WARDS = """
import keras

def build(n):
    return keras.Sequential([keras.Input((n,)), keras.layers.Dense(1)])

def work(weights, ward, cfg):
    local = build(cfg.width)
    local.compile(keras.optimizers.SGD(cfg.lr), "mse")
    local.set_weights(weights)
    seen = local.fit(ward.x, ward.y, verbose=0)
    return local.get_weights(), seen.history["loss"][-1]

cfg = Settings()
server = build(cfg.width)
for turn in range(9):
    weights = server.get_weights()
    server.set_weights(mean([work(weights, ward, cfg) for ward in wards]))
"""


def reused(text: str, word: str = "local = build") -> str | None:
    read = source_file.parse_source("train.py", text)
    assert read is not None
    line = next(i for i, row in enumerate(text.splitlines(), 1) if word in row)
    found = model_reuse.reuse_model(read, line)
    return edits.edited_text(read, found) if found else None


def test_it_is_built_once() -> None:
    old = dedent("""\
        def work(weights, ward, cfg):
            local = build(cfg.width)
            local.compile(keras.optimizers.SGD(cfg.lr), "mse")
        """)
    new = dedent("""\
        kept_local = []  # the model once it is built, and how its optimizer begins


        def work(weights, ward, cfg):
            if not kept_local:
                local = build(cfg.width)
                local.compile(keras.optimizers.SGD(cfg.lr), "mse")
                local.optimizer.build(local.trainable_variables)
                kept_local.append((local, [v.numpy() for v in local.optimizer.variables]))
            local, start_state = kept_local[0]
            for variable, value in zip(local.optimizer.variables, start_state):
                variable.assign(value)
        """)
    assert reused(WARDS) == WARDS.replace(old, new)


def test_one_that_is_compiled_where_it_is_made() -> None:
    made = 'def client():\n    m = build(4)\n    m.compile("sgd", "mse")\n    return m\n\ndef work'
    text = WARDS.replace("def work", made)
    text = text.replace('build(cfg.width)\n    local.compile(keras.optimizers.SGD(cfg.lr), "mse")', "client()")
    after = reused(text, 'm.compile("sgd"')  # the line that was measured is that of the function it calls
    assert after is not None
    assert "    if not kept_local:\n        local = client()\n        local.optimizer.build(" in after


def test_a_copy_of_one_that_stays() -> None:
    text = WARDS.replace("build(cfg.width)\n    local.c", "keras.models.clone_model(server)\n    local.c")
    after = reused(text, "clone_model")
    assert after is not None
    assert "        local = keras.models.clone_model(server)\n" in after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    local.set_weights(weights)\n", ""),  # its own first weights are used
        ("local.set_weights(weights)", "local.set_weights(local.get_weights())"),
        ("return local.get_weights()", "return local"),  # a model for each ward
        ("return local.get_weights()", "kept.append(local); return 0"),
        ("    seen = local", "    local.trainable = False\n    seen = local"),
        ("build(cfg.width)\n    local.c", "build(ward.width)\n    local.c"),  # another one for each ward
        ("    weights = server", "    cfg.lr *= 0.9\n    weights = server"),
        ("    weights = server", "    keras.backend.clear_session()\n    weights = server"),
        ("mean([work(weights, ward, cfg) for ward in wards])", "mean(pool.map(work, wards))"),
        ("for ward in wards]))", "for ward in wards])); work(weights, wards[0], other)"),
        ("def work(weights, ward, cfg):", "def work(weights, ward, cfg):\n    cfg = wider(cfg)"),
    ],
)
def test_left_alone(old: str, new: str) -> None:
    text = WARDS.replace(old, new)
    assert text != WARDS
    assert reused(text, "local = ") is None


def test_what_is_compiled_where_it_is_made_has_no_optimizer_to_begin_anew() -> None:
    read = source_file.parse_source("train.py", WARDS)
    assert read is not None
    assert optimizer_reset.reset_optimizer(read, WARDS[: WARDS.index("local.compile")].count("\n") + 1) == []
