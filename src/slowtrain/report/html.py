"""The report as one self-contained HTML file, which fetches nothing and works without script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slowtrain.model import Checkup, Diagnosis, InputNode, Prescription, VerdictKind
from slowtrain.report import charts, device, graph, json, shell, wording
from slowtrain.report.markup import Markup, diff, el, join, markdown
from slowtrain.report.shell import attribution, figure, listed, section


def render(checkup: Checkup, pages: Mapping[str, str]) -> str:
    """The whole page; ``pages`` holds the Markdown page of each cause that was found, by its id."""
    title = f"{wording.heading(checkup)}: {wording.command(checkup.subject)}, by Slowtrain"
    main = el("main", _sections(checkup, pages))
    return shell.page(title, _header(checkup), main, _footer(checkup), json.render(checkup))


def _header(checkup: Checkup) -> Markup:
    failed = checkup.lost or checkup.verdict is VerdictKind.FAILED
    tone = "bad" if failed else "good" if not checkup.diagnoses else None
    if checkup.verdict is VerdictKind.INSUFFICIENT and not failed:
        tone = None
    word = el("span", wording.heading(checkup), class_="verdict" + (f" {tone}" if tone else ""))
    what = el("p", "Slowtrain checkup of ", el("code", wording.command(checkup.subject)), class_="what clamp")
    facts = [el("div", el("dt", name), el("dd", value, class_="clamp")) for name, value in _facts(checkup)]
    return el("header", el("div", what, el("h1", word, checkup.headline), el("dl", facts, class_="facts")))


def _facts(checkup: Checkup) -> Iterator[tuple[str, str]]:
    steps, subject = checkup.steps, checkup.subject
    yield "Steps", wording.steps(steps)
    yield "Median step", wording.duration(steps.median_ms)
    yield "95th percentile", wording.duration(steps.p95_ms)
    rate = wording.finite(steps.samples_per_second)
    yield "Throughput", f"{wording.number(rate)} samples/s" if rate is not None else wording.UNKNOWN
    yield "Whole run", wording.duration(checkup.run.total_ms) if checkup.run.parts else wording.UNKNOWN
    yield "Device", wording.device(subject.device)
    yield "Framework", wording.framework(subject)
    if subject.computer:
        yield "Computer", subject.computer
    if subject.exit_code:
        yield "Exit code", str(subject.exit_code)


def _sections(checkup: Checkup, pages: Mapping[str, str]) -> Iterator[Markup | None]:
    judged = wording.judged(checkup.verdict)
    notes = listed("Notes", checkup.notes, None if judged else "notice")
    if not judged:
        # Why there is no verdict, and what would give one, matters more than what was recorded.
        yield listed("Next", checkup.next_steps, "notice")
        yield notes
    yield from _answer(checkup)
    yield device.section(checkup.device)
    for rank, diagnosis in enumerate(checkup.diagnoses, 1):
        yield _cause(rank, diagnosis, _most(checkup), pages.get(diagnosis.cause))
    yield _seen(checkup)
    if judged:
        yield notes
    drawn = (_step_times(checkup), _typical_step(checkup), _input_graph(checkup.pictures.input_graph), _series(checkup))
    yield from drawn[:3]
    if checkup.diagnoses:
        yield _beside(_second(checkup), drawn[3])
    else:
        yield drawn[3]
    missing = [f"{name}: {wording.UNKNOWN}" for name, picture in zip(_PICTURES, drawn, strict=True) if picture is None]
    yield listed("Pictures that this recording cannot give", missing)
    yield from _checked(checkup)


_PICTURES = (
    "step time over the run",
    "one typical step, which needs a profiler window with steady steps in it",
    "the input pipeline, which needs a tf.data graph",
    "memory and machine",
)


def _answer(checkup: Checkup) -> Iterator[Markup | None]:
    """Where the time goes beside why: what a reader wants in the first five seconds."""
    following = listed("Next", checkup.next_steps) if wording.judged(checkup.verdict) else None
    ranking = _ranking(checkup)
    if ranking:
        yield _beside(_first(checkup), el("div", ranking, following, class_="stack"))
    elif checkup.attribution.parts:
        yield _beside(el("div", _first(checkup), following, class_="stack"), _second(checkup))
    else:
        yield following
        yield _attribution_of_run(checkup)


def _beside(left: Markup, right: Markup | None) -> Markup:
    return el("div", left, right, class_="two") if right else left


def _first(checkup: Checkup) -> Markup:
    """The attribution that bears the verdict."""
    startup = checkup.verdict is VerdictKind.STARTUP
    return _attribution_of_run(checkup) if startup else _attribution_of_step(checkup)


def _second(checkup: Checkup) -> Markup:
    startup = checkup.verdict is VerdictKind.STARTUP
    return _attribution_of_step(checkup) if startup else _attribution_of_run(checkup)


def _attribution_of_step(checkup: Checkup) -> Markup:
    other = checkup.step_verdict if checkup.step_verdict is not checkup.verdict else None
    title = f"Where a step goes ({wording.verdict(other)})" if other is not None else "Where a step goes"
    return attribution(title, checkup.attribution, "a steady step", wording.category)


def _attribution_of_run(checkup: Checkup) -> Markup:
    return attribution("Where the whole run goes", checkup.run, "the run", wording.phase)


def _most(checkup: Checkup) -> float:
    """The far end of the scale that all savings share."""
    return max((wording.finite(d.saving.high) or 1.0 for d in checkup.diagnoses), default=1.0)


def _gain(diagnosis: Diagnosis, most: float) -> Markup:
    saving = diagnosis.saving
    speedup, _, span = wording.foretold(saving).partition(" ")
    picture = charts.interval(saving.speedup, saving.low, saving.high, most, wording.gain(saving))
    said = el("span", f"{span[1:-1]} {wording.scope(saving)}")
    return el("div", el("b", speedup), said, picture, class_="gain won" if saving.low > 1 else "gain")


def _anchor(rank: int) -> str:
    return f"cause-{rank}"


def _ranking(checkup: Checkup) -> Markup | None:
    if not checkup.diagnoses:
        return None
    items = []
    for rank, diagnosis in enumerate(checkup.diagnoses, 1):
        where = diagnosis.evidence.where
        place = el("span", f"{where[0]} {where[0].code}", class_="place mono") if where else None
        name = el("div", el("a", diagnosis.title, class_="clamp", href=f"#{_anchor(rank)}"), place)
        items.append(el("li", el("span", str(rank), class_="rank"), name, _gain(diagnosis, _most(checkup))))
    return section(
        "Why, and what each cure would give", el("ol", items, class_="ranking"), aside="speed-up and its range"
    )


def _cause(rank: int, diagnosis: Diagnosis, most: float, page: str | None) -> Markup:
    evidence = diagnosis.evidence
    places = [el("li", el("b", str(p)), p.code) for p in evidence.where]
    top = el(
        "div",
        el("div", el("h3", f"{rank}. {diagnosis.title}", class_="clamp"), el("code", diagnosis.cause)),
        _gain(diagnosis, most),
        class_="top",
    )
    saving = diagnosis.saving
    of = "the run's" if saving.scope == "run" else "each step's"
    saved = f"Saves {wording.duration(saving.ms)} of {of} {wording.duration(saving.before_ms)}."
    numbers = el(
        "table", [el("tr", el("td", el("code", k)), figure(wording.named(k, v))) for k, v in evidence.numbers.items()]
    )
    return el(
        "section",
        top,
        el("p", evidence.says, class_="says"),
        el("ul", places, class_="where") if places else None,
        [_prescription(p) for p in diagnosis.prescriptions],
        el("p", el("strong", "Cure measured: "), wording.measured(diagnosis.verdict)) if diagnosis.verdict else None,
        el("details", el("summary", "The numbers"), el("p", saved, class_="soft"), numbers),
        _page(page) if page else None,
        class_="cause",
        id=_anchor(rank),
    )


def _page(page: str) -> Markup:
    summary = el("summary", "What this means, and when it is not worth it")
    return el("details", summary, el("div", markdown(page), class_="page"))


def _prescription(prescription: Prescription) -> Markup:
    caution = " caution" if str(prescription.effect) == "changes training" else ""
    chip = el("span", wording.effect(prescription.effect), class_="chip" + caution)
    says = el("p", prescription.says, el("span", prescription.kind, class_="chip"), chip)
    return el("div", says, diff(prescription.diff) if prescription.diff else None, class_="cure")


def _step_times(checkup: Checkup) -> Markup | None:
    chart = checkup.pictures.step_times
    if chart is None or not chart.y:
        return None
    median = wording.finite(checkup.steps.median_ms)
    level = (median, "median") if median is not None else None
    drawn = charts.line(chart, height=170, clip=True, level=level, bands=checkup.pictures.step_bands)
    dashes = f"dashes: median {wording.duration(median)} · " if level else ""
    return section(
        "Step time over the run",
        el("figure", drawn),
        aside=f"{dashes}shade: lowest to highest · red mark: above the axis",
    )


def _typical_step(checkup: Checkup) -> Markup | None:
    bars = checkup.pictures.typical_step
    if not bars:
        return None
    lanes = list(dict.fromkeys(b.lane for b in bars))
    drawn = charts.timeline(bars, f"Timeline of one step on the lanes {', '.join(lanes)}")
    return section(
        "One typical step", el("figure", drawn), aside="what ran when, in milliseconds from the step's start"
    )


def _input_graph(nodes: tuple[InputNode, ...]) -> Markup | None:
    if not nodes:
        return None
    drawn = el(
        "div",
        graph.pipeline(nodes),
        class_="wide",
        tabindex="0",
        role="region",
        aria_label="Input pipeline, scrolls sideways",
    )
    names = ("node", "kind", "time a step", "parallelism", "elements a step", "bytes a step", "buffered", "line")
    head = el("tr", [el("th", name, class_=None if name in ("node", "kind", "line") else "n") for name in names])
    rows = [el("tr", _node_row(node)) for node in nodes]
    table = el("div", el("table", el("thead", head), el("tbody", rows)), class_="table")
    folded = el("details", el("summary", "As a table"), table)
    aside = "processor time of each node, summed over its threads"
    return section("The input pipeline", drawn, folded, aside=aside)


def _node_row(node: InputNode) -> Iterator[Markup]:
    label = node.label or node.name
    yield el("td", el("code", label), el("strong", " bottleneck") if node.bottleneck else None)
    yield el("td", node.name)
    for value, said in (
        (node.ms_per_step, wording.duration),
        (node.parallelism, wording.number),
        (node.elements_per_step, wording.number),
        (node.bytes_per_step, wording.size),
        (node.buffered_bytes, wording.size),
    ):
        yield el("td", "?" if wording.finite(value) is None else said(value), class_="n")
    yield el("td", el("code", str(node.place)) if node.place else "?")


def _series(checkup: Checkup) -> Markup | None:
    if not checkup.pictures.series:
        return None
    drawn = [el("figure", el("h3", c.title), charts.line(c, height=84)) for c in checkup.pictures.series]
    return section("Memory and machine", el("div", drawn, class_="series"))


def _seen(checkup: Checkup) -> Markup | None:
    if not checkup.seen:
        return None
    head = el("tr", [el("th", name) for name in ("line", "cause", "what is seen", "in this run")])
    rows = [
        el(
            "tr",
            el("td", el("code", str(one.place))),
            el("td", el("code", one.cause)),
            el("td", one.says, el("br"), el("code", one.place.code)),
            el("td", wording.runtime(one.state, one.ms_per_step, one.run_ms)),
        )
        for one in checkup.seen
    ]
    table = el("div", el("table", el("thead", head), el("tbody", rows)), class_="table")
    return section("Seen in the source", table, aside=wording.states(checkup.seen))


def _checked(checkup: Checkup) -> Iterator[Markup]:
    healthy = (
        el("ul", [el("li", c) for c in checkup.healthy], class_="names")
        if checkup.healthy
        else el("p", "none", class_="none")
    )
    groups = [
        el("li", el("strong", missing), " was not measured: ", el("code", ", ".join(causes)))
        for missing, causes in wording.by_signal(checkup.unchecked).items()
    ]
    unchecked = el("ul", groups, class_="plain") if groups else el("p", "none", class_="none")
    yield el(
        "div",
        section("Checked and not found", healthy, aside=wording.causes(len(checkup.healthy))),
        section("Not checked", unchecked, aside=wording.causes(len(checkup.unchecked))),
        class_="two",
    )


def _footer(checkup: Checkup) -> Markup:
    overhead = checkup.overhead
    own = wording.share(overhead.share)
    said: list[Markup] = [
        el(
            "p",
            f"Recording itself took {own} of the run."
            if own != wording.UNKNOWN
            else "The cost of recording was not measured.",
        )
    ]
    for window in overhead.windows:
        inflation = wording.finite(window.inflation)
        cost = (
            f"took {inflation:.2f} times as long as outside"
            if inflation is not None
            else "at a cost that was not measured"
        )
        said.append(el("p", f"Steps in a window of the recorder's: {window.steps}, {cost}."))
    said.append(
        el(
            "p",
            f"Slowtrain {checkup.version} · ",
            el("code", checkup.subject.path),
            " · the same answer as JSON is in this file's ",
            el("code", "#checkup"),
            " element",
        )
    )
    return el("footer", join(said))
