"""``dataclass(frozen=True)`` with the standard library's behaviour, but a tenth of its cost before the first instance.

There are some three hundred frozen dataclasses here, and most commands create instances of fewer than half of them. The
standard library compiles six methods per class at its definition, half a millisecond in total. Here five of them are
the same plain functions for every class, and ``__init__`` is compiled when the first instance is made. The fields are
the standard library's, so ``fields``, ``replace`` and ``asdict`` know these classes
(docs/decisions/2026-11-26-values.md).
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import reprlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

SUPPORTED_OPTIONS = ({"frozen": True}, {"frozen": True, "eq": False})
_set_attribute = object.__setattr__


def _dataclass(**options: bool) -> Callable[[type[Any]], type[Any]]:
    """``@dataclass(frozen=True)``, also with ``eq=False``; other options are passed to the standard library."""
    if options not in SUPPORTED_OPTIONS:
        raise TypeError(f"of these options the standard library's dataclass is meant: {options}")
    return functools.partial(_complete_class, eq=options.get("eq", True))


def _complete_class(cls: type[Any], *, eq: bool) -> type[Any]:
    # Else the standard library builds it from the signature of an __init__ that does not exist yet.
    cls.__doc__ = cls.__doc__ or cls.__name__
    dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    fields = dataclasses.fields(cls)
    if hasattr(cls, "__post_init__") or any(f.kw_only for f in fields):
        raise TypeError(f"{cls.__qualname__}: the standard library's dataclass is meant")
    compared = [f.name for f in fields if f.compare]
    methods: dict[str, Any] = {
        "__init__": _deferred_init(cls),
        "__setattr__": _refuse_set,
        "__delattr__": _refuse_delete,
    }
    if "__repr__" not in cls.__dict__:
        methods["__repr__"] = _describe
    if eq and "__eq__" not in cls.__dict__:
        methods["__eq__"] = _equality_method(compared)
    if eq and cls.__dict__.get("__hash__") is None:
        methods["__hash__"] = _hash_method(compared)
    for name, method in methods.items():
        setattr(cls, name, method)
    return cls


def _deferred_init(cls: type[Any]) -> Callable[..., None]:
    """An ``__init__`` that replaces itself with the compiled one. Two threads may both compile it; either may stay."""

    def __init__(self: Any, *args: Any, **given: Any) -> None:  # noqa: N807
        cls.__init__ = made = _compile_init(cls)
        made(self, *args, **given)

    return __init__


def _compile_init(cls: type[Any]) -> Callable[..., None]:
    """``def __init__(self, name, size=_size): _set(self, "name", name); …``."""
    known: dict[str, Any] = {"_set": _set_attribute, "_made": _FACTORY_DEFAULT}
    parameters, lines = ["self"], ["pass"]
    for field in dataclasses.fields(cls):
        name, value = field.name, field.name
        if field.default_factory is not dataclasses.MISSING:
            known[f"_{name}"] = field.default_factory
            value = f"_{name}() if {name} is _made else {name}" if field.init else f"_{name}()"
            parameters += [f"{name}=_made"] * field.init
        elif field.default is not dataclasses.MISSING:
            known[f"_{name}"] = field.default
            parameters += [f"{name}=_{name}"] * field.init
        else:
            parameters += [name] * field.init
        if field.init or field.default_factory is not dataclasses.MISSING:
            lines.append(f"_set(self, {name!r}, {value})")
    exec(f"def __init__({', '.join(parameters)}):\n  " + "\n  ".join(lines), known)  # noqa: S102  only our own source
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"  # as in the message about a missing argument
    made.__module__ = cls.__module__
    return made


class _FactoryDefault:
    """Represents the result of a default factory."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY_DEFAULT = _FactoryDefault()


def _refuse_set(_self: Any, name: str, _value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(_self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


@reprlib.recursive_repr()
def _describe(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _field_values(names: list[str]) -> Callable[[Any], Any]:
    """The values of these fields as one tuple."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _equality_method(names: list[str]) -> Callable[[Any, object], bool]:
    parts = _field_values(names)

    def __eq__(self: Any, other: object) -> bool:  # noqa: N807
        if other.__class__ is not self.__class__:
            return NotImplemented
        same: bool = parts(self) == parts(other)
        return same

    return __eq__


def _hash_method(names: list[str]) -> Callable[[Any], int]:
    parts = _field_values(names)
    return lambda value: hash(parts(value))


if TYPE_CHECKING:  # type checkers know the standard library's decorator by name
    from dataclasses import dataclass as dataclass  # noqa: PLC0414  an explicit re-export
else:
    dataclass = _dataclass
