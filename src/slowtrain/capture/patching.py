"""Replaces functions of a framework by wrappers, and can restore them."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any

import wrapt

from slowtrain.capture.recorder import Recorder

Wrapper = Callable[..., Any]
# from the original and its wrapper, makes the function that replaces the original
Front = Callable[[Wrapper, Wrapper], Wrapper]

# The file name in the code of our wrappers. ``warnings`` skips frames whose file name contains "importlib" and
# "_bootstrap" when it counts ``stacklevel``. So a warning of a wrapped function names the caller's line, and filters
# by module work on it, as without us.
MARK = "<importlib _bootstrap of slowtrain "

_done: list[tuple[Any, str, Any]] = []


def replace(owner: Any, name: str, make: Callable[[Wrapper], Wrapper], front: Front | None = None) -> None:
    """Sets ``owner.name`` to ``make(original)``, once. Raises ``AttributeError`` if the name does not exist.

    With ``front``, sets it to ``front(original, make(original))``, which has to behave as the wrapper does
    (:mod:`slowtrain.capture.fronts`).
    """
    if any(known is owner and name == other for known, other, _ in _done):
        return  # the same class, found in two modules
    original = owner.__dict__[name] if isinstance(owner, type) and name in owner.__dict__ else getattr(owner, name)
    static = isinstance(original, (staticmethod, classmethod))
    function = original.__func__ if static else original
    wrapped = passed_over(make(function))
    if front is not None:
        wrapped = front(function, wrapped)
    with contextlib.suppress(TypeError):  # JAX's methods in C++ have no name
        named_as(function, wrapped)
    setattr(owner, name, type(original)(wrapped) if static else wrapped)
    _done.append((owner, name, original))


def replace_property(owner: type, name: str, make: Callable[[Wrapper], Wrapper]) -> None:
    """Does the same for a property that is read. Does nothing if ``name`` is not a property."""
    original = owner.__dict__.get(name)
    if not isinstance(original, property) or original.fget is None:
        return
    if any(known is owner and name == other for known, other, _ in _done):
        return
    setattr(owner, name, property(passed_over(make(original.fget)), original.fset, original.fdel, original.__doc__))
    _done.append((owner, name, original))


def named_as(function: Wrapper, wrapped: Wrapper) -> Wrapper:
    """Gives ``wrapped`` the name, documentation and signature of ``function``, and returns it."""
    functools.update_wrapper(wrapped, function)
    with contextlib.suppress(TypeError, ValueError):
        # Keras reads a layer's arguments with getfullargspec, which does not follow __wrapped__.
        wrapped.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return wrapped


def passed_over(wrapper: Wrapper) -> Wrapper:
    """Returns the same function, with frames that ``warnings`` does not count; see ``MARK``."""
    code = wrapper.__code__
    wrapper.__code__ = code.replace(co_filename=f"{MARK}{code.co_filename.rpartition('slowtrain')[2]}>")
    return wrapper


def undo() -> None:
    """Restores every original, last first."""
    while _done:
        owner, name, original = _done.pop()
        setattr(owner, name, original)


def on_import(recorder: Recorder, module: str, patch: Callable[[Any], None]) -> None:
    """Calls ``patch(module)`` once the module has been imported. A failure is noted, never raised."""

    def hook(loaded: Any) -> None:
        if recorder.active:
            recorder.guard(f"patching {module}", patch, loaded)

    wrapt.register_post_import_hook(hook, module)
