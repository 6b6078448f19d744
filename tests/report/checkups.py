"""Checkups as the engine could have made them, one for each thing a report must get right."""

from __future__ import annotations

import math

from msgspec import structs

from slowtrain.model import (
    Attribution,
    Band,
    Bar,
    Category,
    Chart,
    Checkup,
    Diagnosis,
    Effect,
    Evidence,
    InputNode,
    Overhead,
    Part,
    Phase,
    Pictures,
    Place,
    Prescription,
    Saving,
    StepSummary,
    Subject,
    Unchecked,
    Verdict,
    VerdictKind,
    WindowCost,
)

DIFF = """\
--- a/train.py
+++ b/train.py
@@ -40,3 +40,3 @@
 files = tf.data.Dataset.list_files("data/*.jpg")
-ds = files.map(decode)
+ds = files.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
 ds = ds.batch(64)
"""

PAGE = """\
The input runs one element at a time on one core.

## What it means
`Dataset.map` without `num_parallel_calls` calls its function for one element after
another. The other cores **idle** while the step waits.

## What to do
Pass `num_parallel_calls=tf.data.AUTOTUNE`:

```python
ds = ds.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
if a < b and b > c: pass  # escaped
```

- keep `deterministic=True` where order matters
- a function with Python in it gains nothing:
  the interpreter lock serialises it

1. first
2. second

## When it is not worth it
When the cores are busy already (see `starved-host`).
"""


def parts(**ms: float) -> Attribution:
    total = math.fsum(ms.values())
    return Attribution(total, tuple(Part(str(k), v, v / total if total else 0.0) for k, v in ms.items()))


def step_parts() -> Attribution:
    return parts(
        input=8.12,
        h2d=0.21,
        d2h=0.13,
        compile=0.0,
        dispatch=0.61,
        python=0.34,
        callback=0.12,
        gc=0.02,
        device=2.46,
        unattributed=0.29,
    )


def run_parts() -> Attribution:
    return parts(
        launch=210.0,
        **{"import": 3100.0},
        preparation=820.0,
        build=430.0,
        compile=2650.0,
        warmup=190.0,
        steps=11562.0,
        validation=1490.0,
        predict=0.0,
        callback=160.0,
        checkpoint=420.0,
        window=760.0,
        epoch=890.0,
        end=140.0,
        unattributed=95.0,
    )


SEQUENTIAL = Diagnosis(
    cause="input/sequential-map",
    title="The input map runs on one core",
    evidence=Evidence(
        "decode takes 7.9 ms of every step on one core, while 3.0 of 4 cores idle and the step waits 8.1 ms.",
        {"map_ms_per_step": 7.93, "cores_idle": 3.02, "exposed_input_ms": 8.12},
        (Place("train.py", 41, "ds = files.map(decode)"), Place("pipeline/images.py", 12, "def decode(path):")),
    ),
    saving=Saving("step", 12.3, 6.4, 1.72, 2.06),
    run_share=0.27,
    prescriptions=(
        Prescription("edit", Effect.EXACT, "Add num_parallel_calls=tf.data.AUTOTUNE to this map.", DIFF),
        Prescription("treatment", Effect.EXACT, "Run with --treat parallel-map; the script stays as it is."),
    ),
)
UNCACHED = Diagnosis(
    cause="input/uncached-input",
    title="The same images are decoded again every epoch",
    evidence=Evidence(
        "All 3 epochs decoded the same 20,000 images; decoded they take 1.4 GiB, and 9.2 GiB are free.",
        {"decoded_bytes": 1.5e9, "free_bytes": 9.9e9},
        (Place("train.py", 41, "ds = files.map(decode)"),),
    ),
    saving=Saving("run", 22917.0, 17890.0, 1.15, 1.37),
    run_share=0.22,
    prescriptions=(Prescription("edit", Effect.EXACT, "Add .cache() after the map.", DIFF.replace("files.", "f.")),),
)
CALLBACK = Diagnosis(
    cause="host/heavy-callback",
    title="A callback writes to disk in every step",
    evidence=Evidence(
        "LogEveryBatch.on_train_batch_end takes 0.12 ms of every step.",
        {"callback_ms_per_step": 0.12},
        (Place("train.py", 88, "self.file.flush()"),),
    ),
    saving=Saving("step", 12.3, 12.18, 1.0, 1.02),
    run_share=0.006,
    prescriptions=(Prescription("advice", Effect.EQUIVALENT, "Write every 100 steps."),),
)


def step_times(count: int = 940) -> Chart:
    y = [12.3 + 1.1 * math.sin(i / 9) + (i * 7919 % 13) / 9 for i in range(count)]
    for i in range(0, count, 313):
        y[i] += 9.0
    y[0] = 2650.0
    return Chart("Step time", "step", "ms", tuple(float(i) for i in range(count)), tuple(y))


def typical_step() -> tuple[Bar, ...]:
    bars = [Bar("step", "step 512", 0.0, 12.3), Bar("input", "wait for batch", 0.1, 8.2)]
    bars += [Bar("tf.data", "decode", 0.25 * i, 0.25 * i + 0.22) for i in range(49)]
    bars += [Bar("tf.data", "batch", 0.3 + 4.0 * i, 1.1 + 4.0 * i) for i in range(3)]
    bars += [Bar("h2d", "copy batch", 8.2, 8.41), Bar("dispatch", "train_function", 8.4, 9.1)]
    bars += [Bar("device", f"conv2d_{i}", 8.9 + 0.06 * i, 8.95 + 0.06 * i) for i in range(48)]
    bars += [Bar("d2h", "loss to host", 11.8, 11.93), Bar("callback", "LogEveryBatch", 11.95, 12.07)]
    return tuple(bars)


def input_graph() -> tuple[InputNode, ...]:
    at = Place("train.py", 41, "ds = files.map(decode)")
    return (
        InputNode("5", "Prefetch", "prefetch(AUTOTUNE)", ("4",), 0.02, 1, 1, 38.5e6, 77e6, Place("train.py", 44)),
        InputNode("4", "Batch", "batch(64)", ("3",), 0.91, 1, 1, 38.5e6, None, Place("train.py", 42)),
        InputNode("3", "Map", "map(decode)", ("2",), 7.93, 1, 64, 38.5e6, None, at, bottleneck=True),
        InputNode("2", "Zip", "zip", ("1", "0"), 0.05, 1, 64, None, None, None),
        InputNode("1", "Shuffle", "shuffle(10000)", ("9",), 0.11, 1, 64, 4096, 640e3, Place("train.py", 40)),
        InputNode(
            "9", "TensorSlice", "list_files('data/*.jpg')", (), 0.03, None, 64, 4096, None, Place("train.py", 39)
        ),
        InputNode(
            "0", "TensorSlice", "from_tensor_slices(labels)", (), 0.01, None, 64, 512, None, Place("train.py", 38)
        ),
    )


def series() -> tuple[Chart, ...]:
    seconds = tuple(i * 0.5 for i in range(46))
    return (
        Chart("Processor", "s", "%", seconds, tuple(28.0 + 6 * math.sin(t) for t in seconds)),
        Chart("Process memory", "s", "bytes", seconds, tuple(1.1e9 + 3e7 * t for t in seconds)),
        Chart("Disk read", "s", "MiB/s", seconds, tuple(abs(40 * math.sin(t / 3)) for t in seconds)),
        Chart("GPU utilisation", "s", "share", (), ()),
    )


def input_bound() -> Checkup:
    return Checkup(
        version="0.1.0",
        subject=Subject(
            "recording",
            "runs/7",
            ("train.py", "--epochs", "3"),
            0,
            {"tensorflow": "2.21.0", "keras": "3.15.1", "backend": "tensorflow"},
            {"kind": "GPU", "name": "NVIDIA T4", "count": 1},
        ),
        verdict=VerdictKind.INPUT,
        headline="Each step waits 8.1 of its 12.3 ms for the next batch: one core decodes the images.",
        steps=StepSummary(940, 10, 12.1, 15.0, 5203.4),
        attribution=step_parts(),
        run=run_parts(),
        overhead=Overhead(0.004, (WindowCost(20, 1.18), WindowCost(20, 1.16))),
        diagnoses=(SEQUENTIAL, UNCACHED, CALLBACK),
        healthy=(
            "input/unprefetched-input",
            "input/shuffle-fill",
            "host/eager-step",
            "host/retracing",
            "host/compile-in-loop",
        ),
        unchecked=(
            Unchecked("machine/slow-link", ("pcie",)),
            Unchecked("compute/full-precision", ("device",)),
            Unchecked("compute/unaligned-shapes", ("device",)),
            Unchecked("numerics/nonfinite-loss", ("loss",)),
        ),
        notes=("The first profiler window held a validation run and was left out.",),
        next_steps=(
            "slowtrain fix runs/7: apply the first cure and measure it",
            "slowtrain explain input/sequential-map",
            "slowtrain report runs/7 --html checkup.html",
        ),
        pictures=Pictures(
            step_times(),
            typical_step(),
            input_graph(),
            series(),
            (Band("profiler", 100, 120), Band("profiler", 600, 620)),
        ),
    )


def healthy() -> Checkup:
    return structs.replace(
        input_bound(),
        verdict=VerdictKind.COMPUTE,
        headline="Healthy: the device computes 94% of each step, and the model's own arithmetic bounds it.",
        attribution=parts(input=0.1, dispatch=0.5, device=11.6, unattributed=0.1),
        diagnoses=(),
        next_steps=("Nothing to cure. A faster device or a smaller model would be the only gain.",),
        notes=(),
        healthy=(*input_bound().healthy, "input/sequential-map"),
    )


def insufficient() -> Checkup:
    return Checkup(
        version="0.1.0",
        subject=Subject(
            "recording", "runs/8", ("tiny.py",), 0, {"tensorflow": "2.21.0"}, {"kind": "CPU", "name": None, "count": 1}
        ),
        verdict=VerdictKind.INSUFFICIENT,
        headline="Only 7 steps were run: too few to judge a steady step.",
        steps=StepSummary(0, 7, None, None, None),
        attribution=Attribution(0.0, ()),
        run=parts(**{"import": 3000.0}, preparation=100.0, compile=900.0, warmup=80.0),
        overhead=Overhead(None),
        unchecked=tuple(
            Unchecked(f"input/{name}", ("steps",)) for name in ("sequential-map", "python-input", "uncached-input")
        ),
        notes=("Steps 1 to 7 took 80 ms together.",),
        next_steps=("Run at least 50 steps: slowtrain run tiny.py",),
    )


def failed() -> Checkup:
    return structs.replace(
        insufficient(),
        subject=Subject("recording", "runs/9", ("broken.py",), 1),
        verdict=VerdictKind.FAILED,
        headline="broken.py raised ValueError in step 3, before there was a steady step.",
        run=Attribution(0.0, ()),
        steps=StepSummary(0, 3, None, None, None),
    )


EVIL = (
    "<script>alert(1)</script>\x1b[31mred\x1b]0;title\x07\x9b2J\x00\u202edecoy\"'&</style><img src=x onerror=alert(1)>"
)


def hostile() -> Checkup:
    """Every string that a program can choose is an attack, and every figure is missing or absurd."""
    place = Place(EVIL, -1, EVIL + "\n" + EVIL)
    evil = Diagnosis(
        EVIL,
        EVIL,
        Evidence(EVIL, {EVIL: math.nan, "inf": math.inf}, (place,)),
        Saving("step", 1.0, 0.0, math.nan, math.inf),
        0.0,
        (Prescription("edit", Effect.CHANGES_TRAINING, EVIL, f"--- {EVIL}\n+{EVIL}\n"),),
        Verdict("better", 3.1, 2.9, 3.3, 5, "same"),
    )
    return Checkup(
        version=EVIL,
        subject=Subject(
            EVIL, EVIL, (EVIL, "caf\u00e9", "\udcff"), -11, {EVIL: EVIL}, {"kind": EVIL, "name": EVIL, "count": 8}
        ),
        verdict=VerdictKind.HOST,
        headline=EVIL,
        steps=StepSummary(1, 0, math.nan, None, math.inf),
        attribution=Attribution(1.0, (Part(EVIL, 1.0, 1.0), Part("nan", math.nan, math.nan))),
        run=Attribution(1.0, (Part(EVIL, 1.0, 1.0),)),
        overhead=Overhead(math.nan, (WindowCost(1, None),)),
        diagnoses=(evil,),
        healthy=(EVIL,),
        unchecked=(Unchecked(EVIL, (EVIL,)),),
        notes=(EVIL, "{" * 500),
        next_steps=(EVIL,),
        pictures=Pictures(
            Chart(EVIL, EVIL, EVIL, (0.0, 1.0, math.nan), (1.0, math.nan, 3.0)),
            (Bar(EVIL, EVIL, 0.0, 1.0), Bar(EVIL, EVIL, math.nan, 2.0)),
            (InputNode(EVIL, EVIL, EVIL, (EVIL, "nowhere"), place=place), InputNode("loop", EVIL, "", ("loop", EVIL))),
            (Chart(EVIL, EVIL, "bytes", (0.0,), (1.0,)),),
            (Band(EVIL, 0.0, math.inf),),
        ),
    )


def long_names() -> Checkup:
    name = "a_very_long_name_without_any_break_" * 12
    first = structs.replace(
        SEQUENTIAL,
        title=name,
        evidence=Evidence(name * 3, {name: 1.0}, (Place(f"/home/{name}/train.py", 123456, name),)),
    )
    many = tuple(structs.replace(first, cause=f"input/{name}-{i}") for i in range(12))
    graph = tuple(
        InputNode(str(i), name, name, (str(i + 1),), 1.0, 8, 64, 1e9, None, Place(name, 1, name)) for i in range(14)
    )
    return structs.replace(
        input_bound(),
        subject=structs.replace(
            input_bound().subject, command=(name, "--flag", "語" * 90), framework={"tensorflow": name}
        ),
        headline=" ".join(["word"] * 90),
        diagnoses=many,
        notes=(name,) * 9,
        next_steps=("slowtrain explain " + name,) * 9,
        unchecked=tuple(Unchecked(f"family/{name}{i}", (name, f"signal{i}")) for i in range(9)),
        pictures=structs.replace(input_bound().pictures, step_times=step_times(50_000), input_graph=graph),
    )


def unattributed() -> Checkup:
    """A category that this version of the report has never heard of, beside one that is all of the step."""
    return structs.replace(
        healthy(), attribution=parts(novel=0.1, **{str(Category.UNATTRIBUTED): 9.9}), pictures=Pictures()
    )


def startup() -> Checkup:
    return structs.replace(
        input_bound(),
        verdict=VerdictKind.STARTUP,
        step_verdict=VerdictKind.INPUT,
        headline="Tracing takes 11.6 of the run's 22.9 s.",
        diagnoses=(UNCACHED,),
        run=parts(**{str(Phase.IMPORT): 3100.0, str(Phase.COMPILE): 11562.0, str(Phase.STEPS): 2650.0}),
    )


ALL = {f.__name__: f for f in (input_bound, healthy, insufficient, failed, hostile, long_names, unattributed, startup)}
PAGES = {"input/sequential-map": PAGE, EVIL: f"{EVIL}\n\n## {EVIL}\n- {EVIL}\n\n```\n{EVIL}\n```\n`{EVIL}` **{EVIL}**"}
