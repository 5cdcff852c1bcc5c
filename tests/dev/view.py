# SPDX-License-Identifier: Apache-2.0
"""The live view as lines of text, made from data alone: nothing here reads a clock, a file or the terminal."""

import dataclasses
import fnmatch
import re
import unicodedata

OTHER = "other"
COLUMN = 9
CLASS_COLUMNS = [
    ("u.read", lambda g: g.total("user", "read")),
    ("u.write", lambda g: g.total("user", "write")),
    ("u.exec", lambda g: g.total("user", "exec")),
    ("kernel", lambda g: g.total("kernel")),
    ("protect", lambda g: g.total(kind="protection")),
    ("major", lambda g: g.major),
]
# A source that cannot tell classes.
TOTAL_COLUMNS = [("all", lambda g: g.total()), ("major", lambda g: g.major)]


@dataclasses.dataclass
class Received:
    """What the receiver holds."""

    address: str = ""
    batches: int = 0
    points: int = 0
    body_bytes: int = 0
    wire_bytes: int = 0
    undecodable: int = 0
    last_points: int = 0
    last_age: float = None  # seconds; None: nothing came yet
    groups: dict = dataclasses.field(default_factory=dict)  # cgroup: exposition.Group as last received


@dataclasses.dataclass
class Log:
    lines: int = 0
    warnings: int = 0
    tail: list = dataclasses.field(default_factory=list)
    file: str = ""


@dataclasses.dataclass
class State:
    uptime: float
    now: object = None  # exposition.Scrape, None: none yet
    before: object = None  # the one a redraw earlier
    problem: str = ""  # why the newest scrape is missing
    received: Received = dataclasses.field(default_factory=Received)
    log: Log = dataclasses.field(default_factory=Log)
    only: str = "*"  # glob: cgroups that are shown


# ---- words and numbers ----


def printable(text):
    """A cgroup's name may hold anything; nothing of it may steer the terminal."""
    return "".join(c if c == " " or unicodedata.category(c)[0] not in "CZ" else f"\\u{ord(c):04x}" for c in text)


def fit(text, width):
    """At most `width` characters: ids of containers are cut to twelve digits, then the front gives way, whole components if
    that will do."""
    text = printable(re.sub(r"\b([0-9a-f]{12})[0-9a-f]{20,}", r"\1", text))
    if len(text) <= width:
        return text
    tail = text[len(text) - width + 1 :]
    return "…" + tail[max(0, tail.find("/")) :]


def compact(number):
    for unit in ("k", "M", "G", "T"):
        number /= 1000
        if number < 1000:
            break
    return f"{number:.1f}{unit}"


def count(number):
    """Exact as long as it fits its column."""
    if number is None:
        return "-"
    text = str(number)
    return text if len(text) < COLUMN else compact(number)


def rate(number):
    if number is None:
        return "-"
    return f"{number:.1f}" if number < 9999.95 else compact(number)


def size(number):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024 or unit == "GiB":
            break
        number /= 1024
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"


def plural(number, word):
    return f"{number} {word}" + ("" if number == 1 else "es" if word.endswith("ch") else "s")


# ---- parts ----


def columns_of(scrape):
    classes = any(mode != "unknown" for g in scrape.groups.values() for mode, _, _ in g.classes)
    return CLASS_COLUMNS if classes or not any(g.classes for g in scrape.groups.values()) else TOTAL_COLUMNS


def cells(texts):
    return "".join(f"{text:>{COLUMN}}" for text in texts)


def per_second(state, name, value):
    """Growth of a figure of a cgroup since the redraw before; None if there is nothing to compare with."""
    if not state.before or state.now.when <= state.before.when:
        return None
    before = state.before.groups.get(name)
    new, old = value(state.now.groups[name]), value(before) if before else 0
    if new is None or old is None:
        return None
    return max(0, new - old) / (state.now.when - state.before.when)


def busiest(state):
    """Names of the cgroups that are shown, the busiest of the shortest window first, `other` always last."""
    names = [n for n in state.now.groups if fnmatch.fnmatchcase(n, state.only)]
    return sorted(names, key=lambda n: (n == OTHER, -state.now.groups[n].rate, -state.now.groups[n].total(), n))


def bad_accesses(scrape):
    """How many there were, and who had the most that were fatal."""

    def total(outcome):
        return sum(n for (_, o), n in scrape.bad.items() if o == outcome)

    line = f"bad accesses: {count(total('handled'))} handled, {count(total('fatal'))} fatal"
    worst = max((key for key in scrape.bad if key[1] == "fatal"), key=scrape.bad.get, default=None)
    return line + (f"; most in {printable(worst[0])}" if worst else "")


def head(state):
    now = state.now
    groups = now.groups.values()
    probes = "".join(f"; {probe.replace('_page_faults', ' faults').replace('_', ' ')}: {how}" for probe, how in now.probes.items())
    growth = [per_second(state, n, lambda g: g.total()) for n in now.groups]
    windows = next((list(g.rates) for g in groups if g.rates), [])
    rates = [("now", sum(g for g in growth if g is not None))] + [(w, sum(g.rates.get(w, 0) for g in groups)) for w in windows]
    return [
        f"faultd {state.uptime:.0f} s{probes}; drops: {now.other('faultd_drops_total'):.0f}",
        f"{plural(len(groups), 'cgroup')}, {plural(sum(g.total() for g in groups), 'fault')}; "
        f"per second: {', '.join(f'{w} {rate(r)}' for w, r in rates)}",
        bad_accesses(now),
    ]


def table(state, names, width):
    columns = columns_of(state.now)
    left = width - COLUMN * len(columns)
    windows = next((list(state.now.groups[n].rates) for n in names if state.now.groups[n].rates), [])
    shown = windows[: max(1, (left - 2) // 8)]
    title = "per second over " + " ".join(shown) if len(shown) < 3 else " ".join(f"{w:>7}" for w in shown)
    lines = [
        f"{'CGROUP, faults/s now':<{left}}" + cells(title for title, _ in columns),
        f"{'  ' + title:<{left}}" + "   and, below, since start".rjust(COLUMN),
    ]
    for name in names:
        group = state.now.groups[name]
        rates = " ".join(f"{rate(group.rates.get(w)):>7}" for w in shown)
        lines.append(f"{fit(name, left - 1):<{left}}" + cells(rate(per_second(state, name, value)) for _, value in columns))
        lines.append(f"{'  ' + rates:<{left}}" + cells(count(value(group)) for _, value in columns))
    return lines


def verdict(received, scraped):
    """How what the receiver holds of a cgroup compares with what /metrics says of it."""
    behind = scraped.total() - received.total()
    if received.classes == scraped.classes:
        return "the same as /metrics"
    return f"{behind} behind /metrics" if behind > 0 else f"{-behind} ahead of /metrics"


def receiver(state, names, width):
    got = state.received
    lines = [
        f"RECEIVER {got.address}: {plural(got.batches, 'batch')}, {plural(got.points, 'point')}, "
        f"{size(got.body_bytes)} ({size(got.wire_bytes)} sent)" + (f", {got.undecodable} BAD" if got.undecodable else "")
    ]
    if got.last_age is None:
        return lines + ["  nothing came yet"]
    last = f"  last {got.last_age:.0f} s ago: {plural(got.last_points, 'point')}"
    name = names[0] if names else None
    if name not in got.groups:
        return lines + [last]
    columns = columns_of(state.now)
    left = width - COLUMN * len(columns)
    group = got.groups[name]
    return lines + [
        f"{last}; the first above is {verdict(group, state.now.groups[name])}",
        f"{'  ' + fit(name, left - 3):<{left}}" + cells(count(value(group)) for _, value in columns),
    ]


def log(state):
    lines = [f"LOG {plural(state.log.lines, 'line')}, {plural(state.log.warnings, 'warning')}: {state.log.file}"]
    return lines + ["  " + printable(line) for line in state.log.tail]


def render(state, width=80, height=24):
    """The whole view: at most `height` lines of at most `width` characters."""
    foot = log(state)
    if not state.now:
        return [line[:width] for line in [f"faultd, {state.uptime:.0f} s: {state.problem or 'starting'}", ""] + foot]
    names = busiest(state)
    top = head(state)
    if state.problem:
        top.append("/metrics: " + state.problem)
    room = height - len(top) - len(foot) - 3 - 2 - 3  # blank lines, the table's head, the receiver
    names = names[: max(1, room // 2)]
    lines = top + [""] + table(state, names, width) + [""] + receiver(state, names, width) + [""] + foot
    return [line[:width].rstrip() for line in lines]
