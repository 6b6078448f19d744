"""Every known cause of a slow training step. One cause is one folder; the folder above it is its family.

To add a cause is to add one folder with one subclass of :class:`Cause`; nothing is registered. What the folder holds
beside the class is described in :mod:`slowtrain.cause_folder`. ``make cause NAME=family/id`` writes a new one.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast, runtime_checkable

from slowtrain import cause_folder
from slowtrain.model import Category, Evidence, Place, Prescription, Signal, Spot, VerdictKind
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy

# Of a step: if a profile shows less of a cause's symptoms, curing it cannot save the tenth that is reported.
MIN_SYMPTOM_SHARE = 0.05

# A file with training steps contains one of these. A shared value of causes of the step's own Python.
STEP_WORDS = (
    "GradientTape", "train_on_batch", "scatter_add", "scatter_nd_add", "scatter_nd_sub", "scatter_sub",
)  # fmt: skip

SECTIONS = (
    "## What it means",
    "## How it is recognised",
    "## What to do",
    "## Fix safety",
    "## When it is not worth it",
)

Part = TypeVar("Part")


class _FolderPart:
    """A class attribute that is read from the cause's folder when it is asked for, and kept."""

    def __init__(self, read: Callable[[Path], object]) -> None:
        self._read = read
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> object:
        found = self._read(Path(inspect.getfile(owner)).parent)
        setattr(owner, self._name, found)
        return found


def _from_folder(read: Callable[[Path], Part]) -> Part:
    return cast(Part, _FolderPart(read))


@runtime_checkable
class PricedFinding(Protocol):
    """A finding that explains and prices itself, because a cause has several kinds of them."""

    def evidence(self, trace: Trace) -> Evidence: ...

    def remedies(self, trace: Trace) -> Sequence[Remedy]: ...


FindingT = TypeVar("FindingT")


class Cause(ABC, Generic[FindingT]):
    """One reason for which training is slower than it need be.

    ``find`` is called once for a trace, if every signal of ``needs`` was measured. It returns a finding, which is a
    frozen class of the cause's own or, if that holds enough, an ``Evidence``. The other methods get the finding and
    search nothing again. It is reported if replaying ``remedies`` saves enough (``diagnose.MIN_SPEEDUP_BY_SCOPE``),
    and always if ``matters``. ``spoils``: the result of the run is worth nothing (a loss that is no number), so that
    the finding comes before any saving.

    A profile tells less than a recording. ``recorded`` are the signals beyond ``needs`` that are needed to judge a
    profile. ``symptoms`` are categories of a step that show this cause in every case: a profile without them is free
    of it.

    ``cures`` names cures, the best first. A cure has one of four outcomes (``slowtrain.model.CURE_KINDS``):

    * an edit with ``edits``, or a treatment: ``slowtrain fix`` makes it and proves it;
    * an edit without ``edits``, because no machine writes it: a person makes it and ``slowtrain verify`` proves it;
    * a setting of the process or the computer: likewise;
    * advice, which is no single change: nothing proves it. Its saving stays a forecast.

    A cause all of whose cures are advice is complete. Its page says so below "Fix safety".

    The class finds, explains and prices from measurements. What reads or edits the script's text is in two modules of
    the cause's folder, which :meth:`folder_module` imports by name when they are asked:

    * ``lint`` has ``find_spots(source)``: where the cause shows in a file;
    * ``fix`` has ``find_cures(trace, finding)`` and, if the text shows lines that the measurements do not name,
      ``find_lines(trace, finding)``.

    So a cause can be read and tested without the script engine, a trace without findings never imports it, and the
    edits can change without the detection. A cause whose cures need no text overrides ``cures`` and has no ``fix``.

    ``words``: a file without any of them cannot have this cause, and ``spot`` is not asked. A word is matched whole
    (``.map`` not in ``.mapped``). Without words the cause cannot be seen in source text. If there are
    ``context_words``, one of them has to stand in the file too. ``fixes`` are scripts in which ``spot`` finds the
    cause, each with the same script without it, made by the cause's own edit if it has one. They are examples on the
    page, and tests.
    """

    id: ClassVar[str]
    family: ClassVar[str]
    title: ClassVar[str]
    needs: ClassVar[frozenset[Signal]]
    scope: ClassVar[str] = "step"
    matters: ClassVar[bool] = False
    spoils: ClassVar[bool] = False
    grows: ClassVar[bool] = False  # its cost grows with the run's length, so it is reported before gains per step
    verdict_word: ClassVar[VerdictKind | None] = None  # of the run, if this cause comes first; None: what bounds a step
    rules_out: ClassVar[VerdictKind | None] = None  # no step is called so if this cause was judged and not found
    fills_memory: ClassVar[bool] = False  # memory ran out or will: that comes before any saving
    exhausts_memory: ClassVar[bool] = False  # memory ran out: the run is memory-bound whatever its steps are
    loses_training: ClassVar[bool] = False  # nothing is left of what was trained: that comes before any speed
    usual_ms_per_step: ClassVar[float | None] = None  # order of magnitude, for ``lint``; None: unknown, or large
    worth_if: ClassVar[str | None] = None  # when a change is worth it, if no text of a script answers that
    cured_by_packing: ClassVar[bool] = False  # ``slowtrain pack`` looks for what to pack at the lines of its evidence
    batch_probes: ClassVar[bool] = False  # ``fix`` times steps at other batch sizes before it makes the batch larger
    measuring_verb: ClassVar[str] = ""  # what measures the cure, because it saves no time that ``fix`` could measure
    lines_shared_as: ClassVar[str] = ""  # a line of one may show the causes with the same word
    watch_rules: ClassVar[frozenset[str]] = frozenset()  # rules of ``watch`` that are a cheap sign of this cause
    machine_topic: ClassVar[str] = ""  # of the checks of ``slowtrain.machine`` that judge it
    doctor_rank: ClassVar[int | None] = None  # place in the doctor's list, the worst first; None: not judged by facts
    recorded: ClassVar[frozenset[Signal]] = frozenset()
    symptoms: ClassVar[frozenset[Category]] = frozenset()
    words: ClassVar[tuple[str, ...]] = ()
    context_words: ClassVar[tuple[str, ...]] = ()
    page: ClassVar[str] = _from_folder(cause_folder.read_page)
    fires: ClassVar[tuple[str, ...]] = _from_folder(lambda folder: cause_folder.read_traces(folder, "fires"))
    quiet: ClassVar[tuple[str, ...]] = _from_folder(lambda folder: cause_folder.read_traces(folder, "quiet"))
    fixes: ClassVar[tuple[tuple[str, str], ...]] = _from_folder(cause_folder.read_examples)

    def __init_subclass__(cls) -> None:
        *_, family, stem = cls.__module__.split(".")
        cls.family, cls.id = family, f"{family}/{stem.replace('_', '-')}"
        missing = [n for n in ("title", "needs") if not hasattr(cls, n)]
        if missing:
            raise TypeError(f"{inspect.getsourcefile(cls)}: cause {cls.id!r} lacks {', '.join(missing)}")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        """The signals without which this trace can show neither the presence nor the absence of the cause."""
        if not trace.fact("profile"):
            return self.needs
        # Unattributed time may have this cause.
        if self.symptoms and sum(map(trace.share, self.symptoms | {Category.UNATTRIBUTED})) < MIN_SYMPTOM_SHARE:
            return frozenset({Signal.STEPS, Signal.INPUT})  # the host's threads show what the device waited for
        return self.needs | self.recorded

    @abstractmethod
    def find(self, trace: Trace) -> FindingT | None:
        """The finding, or None if the trace is free of this cause."""

    def evidence(self, trace: Trace, finding: FindingT) -> Evidence:
        """The finding in words, numbers and places.

        A cause whose finding is an ``Evidence``, or has a method ``evidence(trace)``, inherits this method.
        """
        if isinstance(finding, Evidence):
            return finding
        if isinstance(finding, PricedFinding):
            return finding.evidence(trace)
        raise NotImplementedError(f"{self.id} has findings of its own and no evidence()")

    def remedies(self, trace: Trace, finding: FindingT) -> Sequence[Remedy]:
        """What a cure would change in the trace; :mod:`slowtrain.whatif` prices it. Empty: nothing to gain.

        A cause whose finding has a method ``remedies(trace)`` inherits this method.
        """
        if isinstance(finding, PricedFinding):
            return finding.remedies(trace)
        raise NotImplementedError(f"{self.id} has no remedies()")

    def scope_in(self, trace: Trace, finding: FindingT) -> str:
        """The scope of the saving, ``step`` or ``run``, if it depends on where the time was found."""
        return self.scope

    def matters_in(self, trace: Trace) -> bool:
        """Whether it is reported at any cost, if that depends on what was measured."""
        return self.matters

    def hangs_on_run_length_in(self, trace: Trace, finding: FindingT) -> bool:
        """Whether a longer run turns the gain of this cure into a loss. Then the gains of each step come before it."""
        return False

    def spoils_in(self, trace: Trace, finding: FindingT) -> bool:
        """Whether this finding makes the run's result worthless, if that depends on how bad it is."""
        return self.spoils

    def cures(self, trace: Trace, finding: FindingT) -> Iterable[Prescription]:
        """What to do, the best first: from the module ``fix``."""
        found: Iterable[Prescription] = self.folder_module("fix").find_cures(trace, finding)
        return found

    def lines_to_change(self, trace: Trace, finding: FindingT) -> tuple[Place, ...]:
        """Lines behind the measured ones that only the text shows: from the module ``fix``."""
        return tuple(self.folder_module("fix").find_lines(trace, finding))

    def spot(self, source: Source) -> Iterable[Spot]:
        """Where this cause shows in a file's text (``slowtrain lint``); sure ones only. From the module ``lint``."""
        if not self.words:
            return ()
        found: Iterable[Spot] = self.folder_module("lint").find_spots(source)
        return found

    def folder_module(self, name: str) -> ModuleType:
        """``lint`` or ``fix`` in the cause's folder. Raises ``ModuleNotFoundError`` if it is not there."""
        return _folder_module(f"{type(self).__module__}.{name}")


_folder_module = functools.cache(importlib.import_module)  # ``lint`` asks for each file and cause


@functools.cache
def all_causes() -> tuple[Cause[Any], ...]:
    """One instance of each cause, by family and id; those of other packages among them."""
    for package in cause_folder.cause_packages():
        if package == __name__:
            _import_causes(package)
        else:
            _import_others_causes(package)
    found: dict[str, Cause[Any]] = {}
    for cause in Cause.__subclasses__():
        if not inspect.isabstract(cause):
            found.setdefault(cause.id, cause())
    return tuple(sorted(found.values(), key=lambda c: c.id))


@functools.cache
def _by_id() -> dict[str, Cause[Any]]:
    return {cause.id: cause for cause in all_causes()}


def cause_by_id(cause_id: str) -> Cause[Any]:
    """The cause with this id. Raises ``KeyError``."""
    return _by_id()[cause_id]


def class_of(cause_id: str) -> type[Cause[Any]]:
    """The class with this id; :class:`Cause` itself, with the attributes' defaults, where there is none."""
    cause = _by_id().get(cause_id)
    return type(cause) if cause is not None else Cause


def _import_causes(package: str) -> None:
    """Imports each FAMILY.CAUSE below ``package``, and nothing inside the causes' own folders."""
    for family in _packages_in(importlib.import_module(package)):
        for cause in _packages_in(importlib.import_module(family)):
            importlib.import_module(cause)


def _import_others_causes(package: str) -> None:
    """The same for another distribution's package: a fault in it costs its own causes only, and is a warning."""
    try:
        _import_causes(package)
    except Exception as error:  # noqa: BLE001  code that is not ours
        warnings.warn(f"the causes of {package} were not loaded: {type(error).__name__}: {error}", stacklevel=2)


def _packages_in(package: ModuleType) -> Iterable[str]:
    files = (file for folder in package.__path__ for file in sorted(Path(folder).glob("*/__init__.py")))
    return [f"{package.__name__}.{file.parent.name}" for file in files]
