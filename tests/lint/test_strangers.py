"""Scripts written from the catalogue alone: what a reader would see is found, and nothing in their cured forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import spotted

SCRIPTS = list(spotted.strangers())


PLAIN = [s for s in SCRIPTS if s.name not in spotted.HIDDEN and s.name not in spotted.MISSED]


@pytest.mark.parametrize("script", PLAIN, ids=lambda s: s.name)
def test_a_cause_in_plain_sight_is_found(script: spotted.Script) -> None:
    assert spotted.seen(script.slow, script.causes)


@pytest.mark.parametrize("script", [s for s in SCRIPTS if s.name in spotted.HIDDEN], ids=lambda s: s.name)
def test_what_is_called_hidden_is(script: spotted.Script) -> None:
    assert spotted.seen(script.slow, script.causes) == []


@pytest.mark.parametrize("script", [s for s in SCRIPTS if s.name in spotted.MISSED], ids=lambda s: s.name)
def test_what_is_missed_is(script: spotted.Script) -> None:
    """Whoever teaches lint to see one takes it off the list."""
    assert spotted.seen(script.slow, script.causes) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda s: s.name)
def test_what_an_edit_cures_is_not_found_again(script: spotted.Script) -> None:
    before = spotted.seen(script.slow)
    for one in before:
        if one.cured is not None:
            elsewhere = sum(other.cause == one.cause for other in before) - 1  # a second step of a GAN
            assert len(spotted.seen(one.cured, [one.cause])) <= elsewhere


@pytest.mark.parametrize("path", spotted.unsuspicious(), ids=lambda p: p.name)
def test_nothing_in_a_cured_or_healthy_form(path: Path) -> None:
    left = spotted.LEFT.get(path.stem)
    assert [one for one in spotted.seen(path.read_text()) if one.cause != left] == []
