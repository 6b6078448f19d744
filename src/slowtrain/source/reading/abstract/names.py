"""The names of functions while they run, and where each is looked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from slowtrain.source import Source
from slowtrain.source.reading.abstract.values import Value


@dataclass(eq=False)
class Scope:
    """The names of one function while it runs, or of the module."""

    above: Scope | None = None
    names: dict[str, Value] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)  # loops around the last plain assignment
    elsewhere: dict[str, Scope] = field(default_factory=dict)  # of names declared global or nonlocal
    returned: list[Value] = field(default_factory=list)
    yielded: list[Value] = field(default_factory=list)
    kind: Value | None = None  # the class whose method runs
    source: Source | None = None  # of a module's names: its file

    def find(self, name: str) -> Value | None:
        at: Scope | None = self.elsewhere.get(name, self)
        while at is not None:
            if name in at.names:
                return at.names[name]
            at = at.above
        return None

    def bind(self, name: str, value: Value, depth: int) -> None:
        at = self.elsewhere.get(name, self)
        at.names[name] = value
        at.depths[name] = depth

    def top(self) -> Scope:
        return self if self.above is None else self.above.top()
