"""What of the objects and lines that were seen is told of memory that grows."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from slowtrain.causes.memory.host_leak import HostLeak
from slowtrain.model import Evidence, Place
from slowtrain.trace import Trace
from slowtrain.trace.signals import growth_suspects
from slowtrain.trace.signals.memory_growth import GrowthUnit

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

LOOK = '@event window name=objects start=2000 end=2060 data={"tracked":400000,"collects":true,"steps":100,"types":%s}'
ONE_LOOK = '@event window name=objects start=2000 end=2060 data={"tracked":400000,"collects":true}'
TRACED = '@event window name=allocations start=2100 end=2400 data={"steps":20,"lines":%s}'
NODES = '[["dict",90000,2600],["__main__.Node",9000,2500],["cell",70,60]]'
THOUSAND = GrowthUnit("thousand steps", 1000.0)


def leak_evidence(trace: Trace) -> Evidence | None:
    finding = HostLeak().find(trace)
    return HostLeak().evidence(trace, finding) if finding is not None else None


def run(*notes: str, by: int = 3_000_000, collected: bool = True) -> Trace:
    """400 steps of 10 ms, each of which keeps a quarter of ``by`` bytes."""
    grows = [f"@grow memory anonymous from=600000000 by={by} every=40"]
    if collected:
        grows.append("@span gc generation_2 start=3000 end=3010")
    trace = parse_drawing("\n".join(["step    1111111111", "device  ....kkkkkk", "@repeat 400", *grows, *notes]))
    return replace(trace, names=tuple(replace(n, text=n.text.replace("_", " ")) for n in trace.names))


def test_types_that_grew_most_are_told_with_the_line_that_makes_them() -> None:
    found = growth_suspects.find_kept_objects(
        run(LOOK % NODES, TRACED % '[["/x/train.py",9,true,14000000,400]]'), 750_000
    )
    assert found is not None
    assert [(k.name, k.per_step) for k in found.kinds] == [("__main__.Node", 25.0), ("dict", 26.0)], "cells grew slower"
    assert [(m.place, m.bytes_per_step, m.users) for m in found.lines] == [(Place("/x/train.py", 9), 700_000.0, True)]
    said = found.describe(THOUSAND)
    assert said.startswith("`Node`: 9,000 objects, 25 a step more; `dict`: 90,000 objects, 26 a step more; ")
    assert "700 kB a step allocated and kept at train.py:9 (in 20 steps, " in said
    assert found.numbers() == {growth_suspects.OBJECTS_KEY: 25.0, growth_suspects.MADE_KEY: 700_000.0}


@pytest.mark.parametrize(
    ("notes", "told"),
    [
        ((LOOK % '[["dict",90000,200]]',), False),  # two a step: of 750 kB each they would have to be
        ((LOOK % '[["dict",90000,400]]',), True),
        ((TRACED % '[["/x/train.py",9,true,4000000,400]]',), False),  # a quarter of it
        ((TRACED % '[["/x/train.py",9,true,5000000,400]]',), True),
        ((TRACED % '[["/x/a.py",9,true,3000000,40],["/x/b.py",9,false,2000000,40]]',), True),  # together
        ((TRACED % "[]",), False),
        (
            ('@event window name=objects start=2000 end=2060 data={"tracked":400000,"collects":true}',),
            False,
        ),  # one look
        (('@event window name=allocations start=2100 end=2400 data={"steps":0,"lines":[]}',), False),  # ended by others
    ],
)
def test_what_is_too_little_for_the_growth_is_not_told(notes: tuple[str, ...], told: bool) -> None:
    assert (growth_suspects.find_kept_objects(run(LOOK % "[]", *notes), 750_000) is not None) is told


def test_a_librarys_line_is_told_and_is_no_place_of_the_scripts() -> None:
    found = growth_suspects.find_kept_objects(
        run(LOOK % "[]", TRACED % '[["/lib/parts.py",40,false,14000000,400]]'), 750_000
    )
    assert found is not None
    assert found.places == ()
    assert "at parts.py:40 " in found.describe(THOUSAND)


def test_host_leak_names_what_no_name_leads_to() -> None:
    trace = run(LOOK % NODES, TRACED % '[["train.py",9,true,14000000,400]]')
    finding = HostLeak().find(trace)
    assert finding is not None
    evidence = HostLeak().evidence(trace, finding)
    assert (
        "none of the script's own names leads to what keeps it: `Node`: 9,000 objects, 25 a step more; "
        in evidence.says
    )
    assert evidence.where == (Place("train.py", 9),)
    (cure,) = HostLeak().cures(trace, finding)
    assert "gc.get_referrers()" in cure.says


def test_what_a_container_explains_is_not_told_by_type() -> None:
    held = (
        '@grow held kept from=400 by=40 every=40 detail={"path":"kept","kind":"list","element":"ndarray",'
        '"element_bytes":75000,"file":"train.py","named":"kept"}'
    )
    evidence = leak_evidence(run(held, LOOK % NODES))
    assert evidence is not None
    assert "`kept` holds" in evidence.says
    assert "Node" not in evidence.says


@pytest.mark.parametrize(
    ("collected", "off", "told"), [(True, False, True), (False, False, False), (False, True, True)]
)
def test_circles_count_once_the_collector_came_by_or_never_will(collected: bool, off: bool, told: bool) -> None:
    look = (LOOK % NODES).replace('"collects":true', '"collects":false') if off else LOOK % NODES
    evidence = leak_evidence(run(look, collected=collected))
    assert (evidence is not None) is told
    assert evidence is None or ("collector is off" in evidence.says) is off


def test_nothing_is_said_of_functions_where_none_was_traced_again() -> None:
    evidence = leak_evidence(run())
    assert evidence is not None
    assert "traced again" not in evidence.says
    assert "none of the script's own names leads to" in evidence.says
