"""A model that is compiled for each new rate is compiled once."""

from __future__ import annotations

import pytest

from slowtrain.causes.host.compile_in_loop import optimizer_reset
from slowtrain.script.text import edits, source_file

SESSION = """\
import keras
import numpy as np


class Session:
    def use_rate(self, lr):
        self.model.compile(
            optimizer=keras.optimizers.{optimizer},
            loss="mse",
            metrics=[{metrics}],
        )

    def run(self, x, y):
        for epoch in range(9):
            self.use_rate(rate(epoch))
            self.model.fit(x, y)
{more}
"""
AFTER = """\
        if getattr(self.model, "optimizer", None) is None:
            self.model.compile(
                optimizer=keras.optimizers.Adam(lr),
                loss="mse",
                metrics=["mae"],
            )
        else:
            for variable in self.model.optimizer.variables:
                variable.assign(np.zeros_like(variable.numpy()))
            self.model.optimizer.learning_rate = lr
"""


def script(optimizer: str = "Adam(lr)", metrics: str = '"mae"', more: str = "") -> str:
    return SESSION.format(optimizer=optimizer, metrics=metrics, more=more)


CASES: dict[str, tuple[str, bool]] = {
    "a method": (script(), True),
    "a rate by keyword": (script("RMSprop(learning_rate=lr, rho=0.8)"), True),
    "a metric of Keras's": (script(metrics="keras.metrics.MeanSquaredError()"), True),
    "state that does not begin at zero": (script("Nadam(lr)"), False),
    "a rate that stays": (script("Adam(0.1)"), False),
    "another setting that changes": (script("Adam(lr, beta_1=self.beta)"), False),
    "a metric of one's own": (script(metrics="Mine()"), False),
    "layers are switched": (script(more="model.layers[0].trainable = False"), False),
    "compiled elsewhere too": (script(more="model.compile('sgd', 'mse')"), False),
    "a model that was compiled before": (script(more="model = keras.models.load_model('a.keras')"), False),
    "metrics that go on": (script(more="model.train_on_batch(x, y)"), False),
    "a schedule": (script(more="s = keras.optimizers.schedules.CosineDecay(1, 2)"), False),
}


@pytest.mark.parametrize("name", CASES)
def test_compiled_once(name: str) -> None:
    before, may = CASES[name]
    text = source_file.parse_source("train.py", before)
    assert text is not None
    found = optimizer_reset.reset_optimizer(text, 7)
    assert bool(found) == may
    if may:
        after = edits.edited_text(text, found)
        wanted = AFTER if name == "a method" else "self.model.optimizer.learning_rate = lr\n"
        assert wanted in after
