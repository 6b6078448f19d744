"""Patterns that wait for their first use find what the standard library's find."""

from __future__ import annotations

import re
from unittest.mock import Mock

import pytest

from slowtrain.patterns import late


def test_a_pattern_is_compiled_once_and_only_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_ = Mock(wraps=re.compile)
    monkeypatch.setattr(re, "compile", compile_)
    pattern = late(r"a(\d+)")
    assert not hasattr(pattern, "__len__")
    assert compile_.call_count == 0
    assert [found[1] for text in ("a1", "b", "a23") if (found := pattern.search(text))] == ["1", "23"]
    assert compile_.call_count == 1


def test_flags_bytes_and_attributes() -> None:
    assert late("A", re.IGNORECASE).fullmatch("a")
    assert not late("A").fullmatch("a")
    assert late(rb"\x80").sub(b"-", b"a\x80") == b"a-"
    assert late("(?P<kind>b)").groupindex == {"kind": 1}


def test_a_faulty_pattern_is_told_when_it_is_used() -> None:
    pattern = late("(")
    with pytest.raises(re.error):
        pattern.search("")
