"""The names of functions while they run, and their lookup."""

from __future__ import annotations

from dataclasses import dataclass, field

from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.text.source_file import Source


@dataclass(eq=False)
class Scope:
    """The names of one running function, or of the module."""

    above: Scope | None = None
    names: dict[str, Value] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)  # loops around the last plain assignment
    elsewhere: dict[str, Scope] = field(default_factory=dict)  # scopes of names declared global or nonlocal
    returned: list[Value] = field(default_factory=list)
    yielded: list[Value] = field(default_factory=list)
    kind: Value | None = None  # the class whose method runs
    source: Source | None = None  # the file, for a module's scope

    def find(self, name: str) -> Value | None:
        """The value of a name in this scope or an enclosing one; None if it is not bound."""
        at: Scope | None = self.elsewhere.get(name, self)
        while at is not None:
            if name in at.names:
                return at.names[name]
            at = at.above
        return None

    def bind(self, name: str, value: Value, depth: int) -> None:
        """Binds a name; ``depth``: the number of loops around the assignment."""
        at = self.elsewhere.get(name, self)
        at.names[name] = value
        at.depths[name] = depth

    def top(self) -> Scope:
        """The module's scope."""
        return self if self.above is None else self.above.top()
