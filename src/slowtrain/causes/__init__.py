"""Every known cause of a slow training step. One file, one cause; the folder is its family.

To add a cause is to add one file with one subclass of :class:`Cause`; nothing is registered.
The docstring is the page that users read (`slowtrain explain`, HTML, docs). ``fires`` and
``quiet`` are drawn traces (:mod:`slowtrain.trace.loading.drawn_trace`), the cause's own tests.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

from slowtrain.model import Category, Evidence, Prescription, Signal, Spot
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy

# Of a step: where a profile shows less of a cause's symptoms, curing it could not give the tenth that is worth a word.
LITTLE = 0.05

SECTIONS = ("## What it means", "## How it is recognised", "## What to do", "## When it is not worth it")


class Cause(ABC):
    """One reason for which training is slower than it need be.

    ``examine`` is asked only when every signal of ``needs`` was measured; what it returns is
    reported when replaying ``remedy`` saves enough (``diagnose.WORTH``), or always where
    ``matters`` says that the finding counts whatever it costs. ``spoils``: the run's result is
    worth nothing (a loss that is no number), so that it comes before any saving.

    Of somebody's profile much less is known than of a recording: ``recorded`` are the signals beyond ``needs`` that
    it would take to judge one, and ``symptoms`` the categories that show this cause in every case: a profile
    without them is free of it, whatever else it lacks.

    ``words``: a file whose text has none of them cannot have this cause, and ``spot`` is not asked. A word is matched
    whole (``.map`` not in ``.mapped``). No words: the cause cannot be seen in source text. One of ``beside`` has to
    stand there as well, where there are any. ``fixes`` are scripts in
    which ``spot`` finds it, each with what its own edit makes of it (or what to write, where there is no edit): the
    examples of the page, and its tests.
    """

    id: ClassVar[str]
    family: ClassVar[str]
    title: ClassVar[str]
    needs: ClassVar[frozenset[Signal]]
    scope: ClassVar[str] = "step"
    matters: ClassVar[bool] = False
    spoils: ClassVar[bool] = False
    grows: ClassVar[bool] = False  # what it costs grows with the run's length: it is told before what each step gains
    recorded: ClassVar[frozenset[Signal]] = frozenset()
    symptoms: ClassVar[frozenset[Category]] = frozenset()
    words: ClassVar[tuple[str, ...]] = ()
    beside: ClassVar[tuple[str, ...]] = ()
    fixes: ClassVar[tuple[tuple[str, str], ...]] = ()
    fires: ClassVar[tuple[str, ...]]
    quiet: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls) -> None:
        *_, family, stem = cls.__module__.split(".")
        cls.family, cls.id = family, f"{family}/{stem.replace('_', '-')}"
        missing = [n for n in ("title", "needs", "fires", "quiet") if not hasattr(cls, n)]
        missing += [f"docstring section {s!r}" for s in SECTIONS if s not in (cls.__doc__ or "")]
        if missing:
            raise TypeError(f"{inspect.getsourcefile(cls)}: cause {cls.id!r} lacks {', '.join(missing)}")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        """The signals without which nothing can be said of this trace, neither that the cause is there nor that not."""
        if not trace.fact("profile"):
            return self.needs
        # What has no reason may have this one.
        if self.symptoms and sum(map(trace.share, self.symptoms | {Category.UNATTRIBUTED})) < LITTLE:
            return frozenset({Signal.STEPS, Signal.INPUT})  # the host's threads say what the device waited for
        return self.needs | self.recorded

    @abstractmethod
    def examine(self, trace: Trace) -> Evidence | None:
        """The evidence for this cause, or None where the trace is free of it."""

    @abstractmethod
    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        """What a cure would change in the trace; :mod:`slowtrain.whatif` prices it. Empty: nothing to gain."""

    def scope_in(self, trace: Trace, evidence: Evidence) -> str:
        """What the saving is told of, a ``step`` or the ``run``, where that depends on where the time was found."""
        return self.scope

    def matters_in(self, trace: Trace) -> bool:
        """Whether it is reported whatever it costs, where that depends on what was measured."""
        return self.matters

    def hangs_on_run_length_in(self, trace: Trace, evidence: Evidence) -> bool:
        """Whether a longer run turns the gain of this cure into a loss: then what each step gains is told before it."""
        return False

    def spoils_in(self, trace: Trace, evidence: Evidence) -> bool:
        """Whether this finding leaves nothing of the run, where that depends on how bad it is."""
        return self.spoils

    @abstractmethod
    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        """What to do, best first."""

    def spot(self, source: Source) -> Iterable[Spot]:
        """Where this cause shows in a file's text (``slowtrain lint``); sure ones only."""
        return ()


@functools.cache
def named(name: str) -> Cause:
    """One of them by its id, imported without the others. Raises ``ModuleNotFoundError`` where there is none."""
    importlib.import_module(f"{__name__}.{name.replace('/', '.').replace('-', '_')}")
    return next(c() for c in Cause.__subclasses__() if c.id == name)


@functools.cache
def all_causes() -> tuple[Cause, ...]:
    """One instance of each cause, by family and id."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    found = [c() for c in Cause.__subclasses__() if not inspect.isabstract(c)]
    return tuple(sorted(found, key=lambda c: c.id))
