"""Models that nobody trains are not built."""

from __future__ import annotations

import pytest

from slowtrain.script.text import edits, source_file
from slowtrain.source.cures.host import building

ZOO = """\
def trunks(size):
    shape = (size, size, 3)
    return {{
        "plain": plain(shape),{more}
        "large": applications.ResNet50V2(
            input_shape=shape,
        ),
    }}


{uses}
"""
CHOSEN: dict[str, tuple[str, bool]] = {
    "one is looked up": (ZOO.format(more="", uses="trunk = trunks(80)[args.trunk]"), True),
    "in two places": (ZOO.format(more="", uses="a = trunks(80)['plain']\nb = trunks(9)['large']"), True),
    "all are used": (ZOO.format(more="", uses="for t in trunks(80).values():\n    fit(t)"), False),
    "kept for later": (ZOO.format(more="", uses="every = trunks(80)\nfit(every['plain'])"), False),
    "something else is among them": (ZOO.format(more='\n        "none": None,', uses="t = trunks(80)[k]"), False),
    "handed on": (ZOO.format(more="", uses="t = trunks(80)[k]\nrun(trunks)"), False),
    "never called": (ZOO.format(more="", uses=""), False),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_only_the_chosen(name: str) -> None:
    script, may = CHOSEN[name]
    text = source_file.parse_source("train.py", script)
    assert text is not None
    found = building.only_the_chosen(text, 4)
    assert bool(found) == may
    if may:
        after = edits.edited_text(text, found)
        assert '"plain": lambda: plain(shape),' in after
        assert '"large": lambda: applications.ResNet50V2(\n' in after
        assert script.count("trunks(") - 1 == after.count("]()")


TABLE = """\
def main(size, name):
    models = {{"small": small(size), "large": large(size)}}
    {uses}
"""
NAMED = {
    "one is looked up": (TABLE.format(uses="fit(models[name])"), True),
    "looked up again and again": (TABLE.format(uses="for n in names:\n        fit(models[n])"), False),
    "in two places": (TABLE.format(uses="fit(models[name])\n    save(models[name])"), False),
    "something that it needs changes": (TABLE.format(uses="size = 9\n    fit(models[name], size)"), False),
    "handed on": (TABLE.format(uses="fit(models)"), False),
    "looked up when somebody calls": (TABLE.format(uses="return lambda n: models[n]"), False),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_table_with_a_name(name: str) -> None:
    script, may = NAMED[name]
    text = source_file.parse_source("train.py", script)
    assert text is not None
    found = building.only_the_chosen(text, 2)
    assert bool(found) == may
    if may:
        after = edits.edited_text(text, found)
        assert '{"small": lambda: small(size), "large": lambda: large(size)}\n    fit(models[name]())\n' in after


COPIES = """\
kept = [clone_model(model) for _ in range(9)]
for one in kept:
    model.fit(x, y)
    {put}
{read}
"""
WEIGHTS: dict[str, tuple[str, bool]] = {
    "set, then read": (
        COPIES.format(put="one.set_weights(model.get_weights())", read="w = [k.get_weights() for k in kept]"),
        True,
    ),
    "used as models": (
        COPIES.format(put="one.set_weights(model.get_weights())", read="p = [k.predict(x) for k in kept]"),
        False,
    ),
    "one by its number": (
        COPIES.format(put="one.set_weights(model.get_weights())", read="w = kept[0].get_weights()"),
        False,
    ),
    "not all are set": (
        COPIES.format(
            put="if good(model):\n        one.set_weights(model.get_weights())",
            read="w = [k.get_weights() for k in kept]",
        ),
        False,
    ),
    "the loop may end": (
        COPIES.format(
            put="one.set_weights(model.get_weights())\n    if good(model):\n        break",
            read="w = [k.get_weights() for k in kept]",
        ),
        False,
    ),
    "read first": ("w = 0\n" + COPIES.format(put="use(one.get_weights())", read=""), False),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_copies_as_weights(name: str) -> None:
    script, may = WEIGHTS[name]
    text = source_file.parse_source("train.py", script)
    assert text is not None
    line = next(i for i, row in enumerate(script.split("\n"), 1) if "clone_model" in row)
    found = building.as_weights(text, line)
    assert bool(found) == may
    if may:
        after = edits.edited_text(text, found)
        assert "kept = [[] for _ in range(9)]\n" in after
        assert "    one[:] = model.get_weights()\nw = [k for k in kept]\n" in after
