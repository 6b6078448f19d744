"""The words and number formats that every report shares."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from slowtrain.number_text import MAX_PREDICTED_SPEEDUP, format_count
from slowtrain.shared.vocabulary import Category, Part, Phase, Signal, VerdictKind

if TYPE_CHECKING:
    from slowtrain import model

UNKNOWN = "not measured"

#: Label and description for the name of a part.
Named = Callable[[str], tuple[str, str]]

# By the names in a checkup: an enumeration's member equals its text.
CATEGORIES: Mapping[str, tuple[str, str]] = {
    Category.INPUT: ("input", "the step waits for its batch"),
    Category.CONVERT: ("convert", "host data made into tensors"),
    Category.FEED: ("copy to device", "data on its way to the device"),
    Category.READBACK: ("read back", "values on their way to Python"),
    Category.COMPILE: ("trace & compile", "functions traced, graphs compiled"),
    Category.DISPATCH: ("dispatch", "the framework's own work, launches"),
    Category.HOST_OP: ("host op", "ops of the step that the host computes"),
    Category.PYTHON: ("your Python", "the script's own code in the loop"),
    Category.CALLBACK: ("callbacks", "callbacks at batch ends"),
    Category.GC: ("Python's GC", "pauses to collect garbage"),
    Category.DEVICE: ("device compute", "ops at work on the device"),
    Category.COLLECTIVE: ("collectives", "devices exchanging, hidden by no kernel"),
    Category.COLLECTIVE_WAIT: ("other workers", "waiting for other processes of the training"),
    Category.OTHER_PROCESS: ("other process", "another process computes on the device"),
    Category.UNATTRIBUTED: ("unattributed", "what the recording cannot tell"),
}

PHASES: Mapping[str, tuple[str, str]] = {
    Phase.LAUNCH: ("launch", "until the script's first line"),
    Phase.IMPORT: ("imports", "importing modules"),
    Phase.PREPARATION: ("preparation", "the script's own code outside training"),
    Phase.BUILD: ("model build", "constructing and compiling the model"),
    Phase.COMPILE: ("trace & compile", "tracing, compiling and first executions"),
    Phase.WARMUP: ("warm-up steps", "steps before the steady state"),
    Phase.STEPS: ("steady steps", "training steps in the steady state"),
    Phase.VALIDATION: ("validation", "validation inside fit"),
    Phase.PREDICT: ("predict", "predict and evaluate outside fit"),
    Phase.CALLBACK: ("epoch callbacks", "callbacks at epoch ends"),
    Phase.CHECKPOINT: ("checkpoints", "writing checkpoints"),
    Phase.WINDOW: ("profiler", "steps under the profiler, with its start and stop"),
    Phase.STOPPED: ("stopped", "nothing of the process ran: Ctrl-Z, SIGSTOP, a frozen container"),
    Phase.EPOCH: ("between epochs", "iterators made, buffers filled, metrics reset"),
    Phase.END: ("shutdown", "after the script's last line"),
    Phase.OUTSIDE: ("outside steps", "before the first whole step and after the last"),
}

SIGNALS: Mapping[str, str] = {
    Signal.STEPS: "step times",
    Signal.INPUT: "input waits",
    Signal.PIPELINE: "the tf.data graph",
    Signal.WRITTEN: "the data sets as they were written",
    Signal.PYTHON: "Python time",
    Signal.LINES: "time by source line",
    Signal.CALLS: "calls of fit and evaluate",
    Signal.CALLBACKS: "callback times",
    Signal.TRACES: "function traces",
    Signal.READBACKS: "readbacks",
    Signal.FEEDS: "host feeds",
    Signal.KERNELS: "op executions",
    Signal.DEVICE: "a device timeline",
    Signal.MACHINE: "machine samples",
    Signal.READS: "bytes read",
    Signal.ENDING: "how the run ended",
    Signal.ALLOCATOR: "what the allocator says",
    Signal.CROSSOVER: "a measured crossover",
    Signal.PHASES: "run phases",
    Signal.LOSS: "the loss",
    Signal.SUBNORMALS: "a look at the variables (run --on-nonfinite)",
    Signal.GC: "collector pauses",
    Signal.MODEL: "the model's layers",
    Signal.MEMORY: "memory over the steps",
    Signal.DEVICE_MEMORY: "a device's memory",
    Signal.LINK: "the PCIe link under load",
    Signal.FACTS: "facts about the computer",
    Signal.CARD: "the GPU's driver",
    Signal.BUILD: "the framework's build",
    Signal.LOAD: "the GPU under load",
    Signal.BATCHES: "steps at other batch sizes (slowtrain batch)",
    Signal.RATES: "losses at other learning rates (slowtrain rate)",
}

#: Why a device waits, by the reasons of an idle moment.
WAITS = {
    "input": "for the next batch",
    "compile": "for tracing and compiling",
    "callback": "for a callback",
    "sync": "while the host waits for results",
    "d2h": "for a copy to the host",
    "convert": "for host data to become tensors",
    "h2d": "for a copy to the device",
    "allocation": "for memory to be allocated",
    "host-op": "for an op that the host computes",
    "eager": "for eager ops started one by one",
    "dispatch": "for the host to launch the next kernel",
    "queue": "between kernels already queued",
    "command-buffer": "for kernels that a run without the profiler launches at once",
    "peers": "for other processes of the training",
    "other-process": "while another process computes on it",
    "python": "for Python between the framework's calls",
    "unattributed": "for reasons that the profile does not tell",
}

EFFECTS = {
    "exact": "same numbers",
    "equivalent": "same up to rounding or order",
    "changes training": "changes training",
}

# Escape sequences with their payload. Of an incomplete one, only the controls are removed (below).
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|(?:\x1b[\]P_^X]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90-\x9f]*(?:\x07|\x1b\\|\x9c)"  # strings: titles, links
    r"|\x1b[@-Z\\-~]"
)
# Controls, invisible and direction-changing characters; lone surrogates would stop any UTF-8 stream.
_UNSHOWN = frozenset({"Cc", "Cf", "Zl", "Zp"})


def printable_text(text: str, *, keep_lines: bool = False) -> str:
    """``text`` without what could control a terminal. A line break becomes a space unless ``keep_lines``."""
    text = str(text)
    if text.isprintable():
        return text
    text = _SEQUENCE.sub("", text).replace("\r\n", "\n").replace("\t", "    " if keep_lines else " ")
    return "".join(_shown_character(c, keep_lines) for c in text)


def _shown_character(character: str, keep_lines: bool) -> str:
    if character == "\n":
        return "\n" if keep_lines else " "
    category = unicodedata.category(character)
    return "" if category in _UNSHOWN else "\ufffd" if category == "Cs" else character


def shortened_text(text: str, letters: int) -> str:
    """At most ``letters`` letters. Controls are removed first, because half an escape sequence is not recognised."""
    text = printable_text(text)
    return text if len(text) <= letters else text[: letters - 1] + "…"


def finite_or_none(value: float | None) -> float | None:
    """``value``, or None if it is not a finite number."""
    return value if value is not None and math.isfinite(value) else None


def _three_digits(value: float) -> str:
    """Three significant digits without an exponent."""
    size = abs(value)
    return f"{value:,.0f}" if size >= 99.95 else f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"


def runtime_text(state: str | None, ms_per_step: float | None, run_ms: float | None) -> str:
    """What a run shows about a finding of lint."""
    if state == "confirmed":
        parts = [f"{duration_text(ms_per_step)} a step"] if finite_or_none(ms_per_step) is not None else []
        parts += [f"{duration_text(run_ms)} of the run"] if finite_or_none(run_ms) is not None else []
        return "confirmed: " + (", ".join(parts) or "its cost was not measured")
    return {"harmless": "harmless here", "not reached": "not reached"}.get(state or "", "not measured")


def state_text(seen: model.SeenInSource) -> str:
    """The same with one figure, for the end of a line."""
    return runtime_text(
        seen.state, seen.ms_per_step, None if finite_or_none(seen.ms_per_step) is not None else seen.run_ms
    )


def state_counts(several: Sequence[model.SeenInSource]) -> str:
    words = {"confirmed": "confirmed", "harmless": "harmless here", "not reached": "not reached", None: "not measured"}
    counts = {word: sum(one.state == state for one in several) for state, word in words.items()}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def number_text(value: float | None) -> str:
    """A count or a plain figure."""
    value = finite_or_none(value)
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value == int(value) else _three_digits(value)


def duration_text(ms: float | None) -> str:
    """A time in the unit that reads best."""
    ms = finite_or_none(ms)
    if ms is None:
        return UNKNOWN
    if abs(ms) < 999.5:
        return "0 ms" if ms == 0 else f"{ms * 1000:.0f} µs" if abs(ms) < 0.0995 else f"{_three_digits(ms)} ms"
    if abs(ms) < 119_500:
        return f"{_three_digits(ms / 1000)} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    return f"{minutes} min {seconds} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def duration_like(ms: float | None, whole_ms: float) -> str:
    """A time in the unit and with the decimals of ``whole_ms``, so that a column lines up."""
    ms = finite_or_none(ms)
    if ms is None:
        return UNKNOWN
    unit, scale = (" s", 1000.0) if whole_ms >= 999.5 else (" ms", 1.0)
    whole = whole_ms / scale
    digits = 0 if whole >= 9999.5 else 1 if whole >= 9.995 else 2 if whole >= 0.995 else 3
    return f"{ms / scale:,.{digits}f}{unit}"


def share_text(value: float | None) -> str:
    value = finite_or_none(value)
    if value is None:
        return UNKNOWN
    if 0 < abs(value) < 0.0005:
        return "<0.1%"
    return f"{value:.0%}" if abs(value) >= 0.0995 or value == 0 else f"{value:.1%}"


def share_or_unknown(value: float | None) -> str:
    """A fraction for a narrow column: ``?`` if it is not measured."""
    return "?" if finite_or_none(value) is None else share_text(value)


def bytes_text(value: float | None) -> str:
    """Bytes in the binary unit that reads best."""
    value = finite_or_none(value)
    if value is None:
        return UNKNOWN
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1023.5:
            return f"{value:.0f} B" if unit == "B" else f"{_three_digits(value)} {unit}"
        value /= 1024
    return f"{_three_digits(value)} TiB"


def evidence_text(name: str, value: float) -> str:
    """A number of the evidence. The end of its name is its unit."""
    units = (("_bytes", bytes_text), ("_ms", duration_text), ("_share", share_text))
    stem = name.removesuffix("_per_step")
    return next((text_of(value) for unit, text_of in units if stem.endswith(unit)), number_text(value))


def speedup_text(speedup: float, low: float, high: float, most: float = math.inf) -> str:
    """A speed-up with its range, all three with the same decimals. Values from ``most`` on read "over ``most``"."""
    smallest = min((v for v in (speedup, low, high) if math.isfinite(v)), default=1.0)
    digits = 2 if smallest < 1.5 else 1 if smallest < 10 else 0
    mean, least, greatest = (
        "unknown" if not math.isfinite(v) else f"over {most:g}x" if v >= most else f"{v:.{digits}f}x"
        for v in (speedup, low, high)
    )
    return f"{mean} ({least} to {greatest})" if math.isfinite(low + high) else f"{mean} (range unknown)"


def predicted_text(saving: model.Saving) -> str:
    """A speed-up that a replay predicts, with its range, up to ``MAX_PREDICTED_SPEEDUP``."""
    return speedup_text(saving.speedup, saving.low, saving.high, MAX_PREDICTED_SPEEDUP)


def scope_text(saving: model.Saving) -> str:
    return "of the run" if saving.scope == "run" else "of a step"


def gain_text(saving: model.Saving) -> str:
    """``1.9x (1.7x to 2.1x) of a step``. A cause that costs no time has no figure."""
    if saving.low == saving.speedup == saving.high == 1:
        return "saves no time"
    return f"{predicted_text(saving)} {scope_text(saving)}"


def verdict_text(verdict: model.Verdict) -> str:
    loss = "loss the same" if verdict.loss == "same" else f"loss {verdict.loss}"
    speedup = speedup_text(verdict.speedup, verdict.low, verdict.high)
    return f"{verdict.outcome}, {speedup}, {format_count(verdict.runs, 'run')}, {loss}"


def parts_by_size(whole: model.Attribution) -> list[Part]:
    """The largest part first. The unattributed part is last."""
    return sorted(whole.parts, key=lambda p: (p.name == str(Category.UNATTRIBUTED), -(finite_or_none(p.ms) or 0.0)))


def category_words(name: str) -> tuple[str, str]:
    """Label and description of a category of a step."""
    return CATEGORIES.get(name, (name, ""))


def phase_words(name: str) -> tuple[str, str]:
    """Label and description of a phase of the run, or of its unattributed rest."""
    return PHASES.get(name) or category_words(name)


def effect_words(name: str) -> str:
    return EFFECTS.get(str(name), str(name))


def verdict_words(kind: VerdictKind) -> str:
    return str(kind).replace("insufficient-data", "insufficient data").replace("slowing-down", "slowing down")


def heading_words(checkup: model.Checkup) -> str:
    return checkup.lost or verdict_words(checkup.verdict)


def is_judged(kind: VerdictKind) -> bool:
    return kind not in (VerdictKind.FAILED, VerdictKind.INSUFFICIENT)


def command_line(subject: model.Subject) -> str:
    return " ".join(subject.command) or subject.path


def framework_text(subject: model.Subject) -> str:
    names = {"tensorflow": "TensorFlow", "keras": "Keras", "python": "Python", "jax": "JAX", "torch": "PyTorch"}
    versions = [f"{names.get(k, k)} {v}" for k, v in subject.framework.items() if v and k != "backend"]
    backend = subject.framework.get("backend")
    if backend and backend != "tensorflow":
        versions.append(f"on {names.get(backend, backend)}")
    return ", ".join(versions) or UNKNOWN


def device_text(on: Mapping[str, str | int | None]) -> str:
    kind, name, count = (on.get(k) for k in ("kind", "name", "count"))
    if not kind and not name:
        return UNKNOWN
    text = str(name or kind)
    if kind and name and str(kind).lower() not in text.lower():
        text = f"{kind}: {name}"
    return f"{count} x {text}" if isinstance(count, int) and count > 1 else text


def step_counts(summary: model.StepSummary) -> str:
    count_text = format_count(summary.counted, "step") if summary.counted else "no steady step"
    return f"{count_text} after {summary.warmup:,} of warm-up" if summary.warmup else count_text


def unchecked_by_signal(unchecked: Iterable[model.Unchecked]) -> dict[str, list[str]]:
    """Unchecked causes by the signals that were missing, because many share them."""
    groups: dict[str, list[str]] = {}
    for item in unchecked:
        missing = ", ".join(SIGNALS.get(m, m) for m in item.missing) or "a reason that was not given"
        groups.setdefault(missing, []).append(item.cause)
    return groups


#: Reasons that read differently for a processor, which runs ops and no kernels.
_PROCESSOR_WAITS = {
    "dispatch": "for the framework to start the next op",
    "queue": "between ops already queued",
    "command-buffer": "for ops that a run without the profiler starts at once",
}


def waiting_reason(reason: str, kind: str) -> str:
    return (_PROCESSOR_WAITS.get(reason) if kind == "CPU" else None) or WAITS.get(reason, reason)


def unit_names(kind: str) -> str:
    return "ops" if kind == "CPU" else "kernels"


def use_summary(device: model.DeviceUse) -> str:
    """How busy the device is, with how many kernels, and what rates they reach."""
    units = unit_names(device.kind)
    words = [
        f"busy {share_or_unknown(device.busy_share)}",
        f"{number_text(device.kernels)} {units} a step",
        f"median {duration_text(device.median_kernel_us / 1e3)}",
    ]
    if device.queued_share is not None:
        queued = share_or_unknown(device.queued_share)
        words.append(f"{queued} of them launched before the one before had ended")
    return " · ".join([*words, *map(_reached_rate, device.reached)])


def _reached_rate(one: model.Reached) -> str:
    """The rate of the ops whose shapes the profile has."""
    part = f", {share_or_unknown(one.per_second / one.peak)} of the peak" if one.peak else ""
    if one.what == "memory":
        return f"elementwise ops move at least {number_text(one.per_second / 1e9)} GB/s{part}"
    return f"matrix products in {one.what} reach {number_text(one.per_second / 1e12)} TFLOP/s{part}"
