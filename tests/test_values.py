"""Ours are the standard library's frozen dataclasses, but for when their ``__init__`` is compiled."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any

import pytest

from slowtrain import values
from slowtrain.values import dataclass


class Plain:
    """The bodies of which each test makes one class of ours and one of the standard library's."""

    class Point:
        x: float
        y: float = 2.0
        tags: list[str] = field(default_factory=list)
        seen: int = field(default=0, compare=False, repr=False)
        _made: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

        @property
        def sum(self) -> float:
            return self.x + self.y

    class One:
        only: float

    class Empty:
        pass


def both(name: str, *, base: bool = False, **options: bool) -> list[type[Any]]:
    made: list[Callable[[type[Any]], type[Any]]] = [values.dataclass(frozen=True, **options)]
    made.append(dataclasses.dataclass(frozen=True, **options))
    found = []
    for decorate in made:
        body = vars(getattr(Plain, name))
        cls: type[Any] = type(name, (), {k: v for k, v in body.items() if k not in ("__dict__", "__weakref__")})
        cls.__qualname__ = name
        found.append(decorate(cls))
        if base:
            more = {"__annotations__": {"z": "int"}, "z": 7, "__module__": __name__, "__qualname__": "More"}
            found[-1] = decorate(type("More", (found[-1],), more))
    return found


@pytest.mark.parametrize("base", [False, True])
def test_an_instance_is_the_same(base: bool) -> None:
    ours, theirs = (cls(1.0, tags=["a"], seen=3) for cls in both("Point", base=base))
    assert vars(ours) == vars(theirs)
    assert (repr(ours), ours.sum, asdict(ours)) == (repr(theirs), theirs.sum, asdict(theirs))
    assert [f.name for f in fields(ours)] == [f.name for f in fields(theirs)]
    assert type(ours).__match_args__ == type(theirs).__match_args__


def test_fields_are_known_before_the_first_instance() -> None:
    ours, theirs = both("Point")
    assert [f.name for f in fields(ours)] == [f.name for f in fields(theirs)]


@pytest.mark.parametrize("name", ["Point", "One", "Empty"])
def test_equality_and_hash(name: str) -> None:
    nan = float("nan")
    given: tuple[float, ...] = () if name == "Empty" else (nan,)
    for cls in both(name):
        one, same = cls(*given), cls(*given)
        assert one == same  # as of tuples: what is the same object is equal
        assert one != given
        if name != "Point":  # with a list in it
            assert hash(one) == hash(same) == hash(given)
            assert len({one, same}) == 1
        else:
            assert one == replace(one, seen=9)
            with pytest.raises(TypeError, match="unhashable"):
                hash(one)


def test_equality_by_identity() -> None:
    for cls in both("One", eq=False):
        one = cls(1.0)
        assert one != cls(1.0)
        assert hash(one) == object.__hash__(one)


def test_another_class_with_the_same_fields_is_not_equal() -> None:
    ours, theirs = both("One")
    assert ours(1.0) != theirs(1.0)
    assert ours(1.0) != both("One")[0](1.0)


def test_it_is_frozen() -> None:
    for cls in both("Point"):
        one = cls(1.0)
        with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
            one.x = 3.0
        with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
            del one.x
        assert one.x == 1.0


def test_a_factory_is_asked_each_time() -> None:
    for cls in both("Point"):
        assert cls(1.0).tags is not cls(1.0).tags


@pytest.mark.parametrize("given", [{}, {"x": 1.0, "w": 2}, {"x": 1.0, "_made": {}}])
def test_wrong_arguments_are_told_in_the_same_words(given: dict[str, Any]) -> None:
    said = []
    for cls in both("Point"):
        for _ in range(2):  # the second is of the compiled __init__
            with pytest.raises(TypeError) as told:
                cls(**given)
            said.append(str(told.value))
    assert len(set(said)) == 1


@dataclass(frozen=True)
class Kept:
    """Found by pickle under its name."""

    name: str
    parts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Written:
    """Its own methods stay."""

    name: str

    def __repr__(self) -> str:
        return "written"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Written)

    def __hash__(self) -> int:
        return 5


def test_what_a_class_says_itself_stays() -> None:
    assert (repr(Written("a")), Written("a") == Written("b"), hash(Written("a"))) == ("written", True, 5)


def test_copies_and_pickles() -> None:
    one = Kept("a", (1, 2))
    assert pickle.loads(pickle.dumps(one)) == copy.copy(one) == copy.deepcopy(one) == one
    assert hash(pickle.loads(pickle.dumps(one))) == hash(one)


def test_threads_that_make_the_first_instance_at_once() -> None:
    for _ in range(20):
        cls = both("Point")[0]
        start = threading.Barrier(8)
        made: list[Any] = []

        def make(cls: type[Any] = cls, start: threading.Barrier = start, made: list[Any] = made) -> None:
            start.wait()
            made.append(cls(1.0, 3.0, ["a"]))

        threads = [threading.Thread(target=make) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [cls(1.0, 3.0, ["a"])] * 8


def test_init_is_compiled_once_and_only_when_it_is_needed() -> None:
    cls = both("Point")[0]
    before = cls.__init__
    cls(1.0)
    compiled = cls.__init__
    assert compiled is not before
    cls(2.0)
    assert cls.__init__ is compiled


@pytest.mark.parametrize(
    "options", [{}, {"frozen": False}, {"frozen": True, "slots": True}, {"frozen": True, "order": True}]
)
def test_other_kinds_are_refused(options: dict[str, bool]) -> None:
    with pytest.raises(TypeError, match="standard library's dataclass is meant"):
        values.dataclass(**options)


def test_a_class_that_ends_its_init_itself_is_refused() -> None:
    with pytest.raises(TypeError, match="standard library's dataclass is meant"):

        @dataclass(frozen=True)
        class _Ended:
            x: int

            def __post_init__(self) -> None: ...
