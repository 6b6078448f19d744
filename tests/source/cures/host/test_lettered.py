"""Letters are compared with an alphabet all at once."""

from __future__ import annotations

import numpy as np
import pytest

from slowtrain.script.text import edits, source_file
from slowtrain.source.cures.host import lettered

ONE = """\
import numpy as np
LETTERS = "ACGT"
texts = {texts}
marked = np.zeros((len(texts), 5, 4))
for n, text in enumerate(texts):
{extra}    for place, letter in enumerate(text):
        for k in range(4):
            if {test}:
                marked[n, {index}] = {value}
{after}
"""


def script(
    texts: str = '["".join(t) for t in ("ACGTA", "CC", "")]',
    extra: str = "",
    test: str = "LETTERS[k] == letter",
    index: str = "place, k",
    value: str = "1.0",
    after: str = "",
) -> str:
    return ONE.format(texts=texts, extra=extra, test=test, index=index, value=value, after=after)


ALIKE = {
    "all texts": (script(), "for n,"),
    "the other way round": (script(test="letter == LETTERS[k]"), "for n,"),
    "texts of which little is known": (script(texts='list(map(str, ["ACGTA", "NN"]))'), "for place,"),
    "something beside": (script(extra="    assert n < 3\n"), "for place,"),
}


@pytest.mark.parametrize("name", ALIKE)
def test_marks_stay_the_same(name: str) -> None:
    before, gone = ALIKE[name]
    text = source_file.parse_source("train.py", before)
    assert text is not None
    found = lettered.at_once(text, next(i for i, r in enumerate(before.split("\n"), 1) if "marked[n" in r))
    after = edits.edited_text(text, found)
    assert gone in before
    assert gone not in after
    results: list[dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]] = [{}, {}]
    for code, names in zip((before, after), results, strict=True):
        exec(code, names)  # the test's own text
    assert results[0]["marked"].any()
    assert np.array_equal(results[0]["marked"], results[1]["marked"])


OTHER = {
    "another comparison": script(test="LETTERS[k] <= letter"),
    "another order of places": script(index="k, place"),
    "a value by letter": script(value="k"),
    "the last letter is used": script(after="print(letter)"),
    "an alphabet that is read": script().replace('"ACGT"', "open(path).read()"),
    "a list to put it in": script().replace("np.zeros((len(texts), 5, 4))", "made(texts)"),
}


@pytest.mark.parametrize("name", OTHER)
def test_others_stay(name: str) -> None:
    text = source_file.parse_source("train.py", OTHER[name])
    assert text is not None
    line = next(i for i, r in enumerate(OTHER[name].split("\n"), 1) if "marked[n" in r)
    assert lettered.at_once(text, line) == []
