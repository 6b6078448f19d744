"""Replaces functions of a framework by wrappers, and can restore them."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any

import wrapt

from slowtrain.capture.core.recorder import Recorder

Wrapper = Callable[..., Any]
# from the original and its wrapper, makes the function that replaces the original
FastPathMaker = Callable[[Wrapper, Wrapper], Wrapper]

# The file name in the code of our wrappers. ``warnings`` skips frames whose file name contains "importlib" and
# "_bootstrap" when it counts ``stacklevel``. So a warning of a wrapped function names the caller's line, and filters
# by module work on it, as without us.
FILE_MARK = "<importlib _bootstrap of slowtrain "

_replaced: list[tuple[Any, str, Any]] = []


def replace_function(
    owner: Any, name: str, make: Callable[[Wrapper], Wrapper], front: FastPathMaker | None = None
) -> None:
    """Sets ``owner.name`` to ``make(original)``, once. Raises ``AttributeError`` if the name does not exist.

    With ``front``, sets it to ``front(original, make(original))``, which has to behave as the wrapper does
    (:mod:`slowtrain.capture.core.fast_path`).
    """
    if any(known is owner and name == other for known, other, _ in _replaced):
        return  # the same class, found in two modules
    original = owner.__dict__[name] if isinstance(owner, type) and name in owner.__dict__ else getattr(owner, name)
    static = isinstance(original, (staticmethod, classmethod))
    function = original.__func__ if static else original
    wrapped = hide_from_warnings(make(function))
    if front is not None:
        wrapped = front(function, wrapped)
    with contextlib.suppress(TypeError):  # JAX's methods in C++ have no name
        copy_names(function, wrapped)
    setattr(owner, name, type(original)(wrapped) if static else wrapped)
    _replaced.append((owner, name, original))


def replace_property(owner: type, name: str, make: Callable[[Wrapper], Wrapper]) -> None:
    """Does the same for a property that is read. Does nothing if ``name`` is not a property."""
    original = owner.__dict__.get(name)
    if not isinstance(original, property) or original.fget is None:
        return
    if any(known is owner and name == other for known, other, _ in _replaced):
        return
    setattr(
        owner, name, property(hide_from_warnings(make(original.fget)), original.fset, original.fdel, original.__doc__)
    )
    _replaced.append((owner, name, original))


def copy_names(function: Wrapper, wrapped: Wrapper) -> Wrapper:
    """Gives ``wrapped`` the name, documentation and signature of ``function``, and returns it."""
    functools.update_wrapper(wrapped, function)
    with contextlib.suppress(TypeError, ValueError):
        # Keras reads a layer's arguments with getfullargspec, which does not follow __wrapped__.
        wrapped.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return wrapped


def hide_from_warnings(wrapper: Wrapper) -> Wrapper:
    """Returns the same function, with frames that ``warnings`` does not count; see ``FILE_MARK``."""
    code = wrapper.__code__
    wrapper.__code__ = code.replace(co_filename=f"{FILE_MARK}{code.co_filename.rpartition('slowtrain')[2]}>")
    return wrapper


def restore_originals() -> None:
    """Restores every original, last first."""
    while _replaced:
        owner, name, original = _replaced.pop()
        setattr(owner, name, original)


def patch_on_import(recorder: Recorder, module: str, patch: Callable[[Any], None]) -> None:
    """Calls ``patch(module)`` once the module has been imported. A failure is noted, never raised."""

    def hook(loaded: Any) -> None:
        if recorder.active:
            recorder.guard(f"patching {module}", patch, loaded)

    wrapt.register_post_import_hook(hook, module)
