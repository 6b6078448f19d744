"""Scripts written from the catalogue alone: what no text tells is not guessed, and no clean script is accused."""

from __future__ import annotations

import re

import pytest

from . import spotted

pytestmark = pytest.mark.skipif(not spotted.CLINIC.is_dir(), reason="the clinic is not here")
SCRIPTS = list(spotted.strangers())


@pytest.mark.parametrize("script", [s for s in SCRIPTS if s.name in spotted.HIDDEN], ids=lambda s: s.name)
def test_what_is_called_hidden_is(script: spotted.Script) -> None:
    assert spotted.seen(script.slow, script.causes) == []


def without_numbers(one: spotted.Seen) -> str:
    return re.sub(r"\d[\d,.]*", "", one.says)


def test_what_an_edit_cures_is_not_found_again() -> None:
    """A finding of the same kind is gone; another kind of the same cause may become visible only then."""
    again = []
    for script in SCRIPTS:
        before = spotted.seen(script.slow)
        for one in (one for one in before if one.cured is not None):
            says = without_numbers(one)
            alike = sum(other.cause == one.cause and without_numbers(other) == says for other in before)
            left = sum(without_numbers(other) == says for other in spotted.seen(one.cured or "", [one.cause]))
            if left >= alike:  # a second step of a GAN stays
                again.append((script.name, one.cause, one.line))
    assert again == []


def test_nothing_in_a_cured_or_healthy_form() -> None:
    assert spotted.findings_in_cured_and_healthy_scripts() == {}
