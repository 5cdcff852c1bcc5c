# SPDX-License-Identifier: Apache-2.0
"""What the live view wants from /metrics, with nothing but the standard library."""

import dataclasses
import re

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)",?')
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

CLASSES = "faultd_page_faults_total"
MAJOR = "faultd_major_page_faults_total"
RATE = "faultd_page_fault_rate"
BAD = "faultd_bad_accesses_total"


def samples(text):
    """(name, labels, value) of each line of an exposition; lines that are none raise ValueError."""
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        name = NAME.match(line)
        if not name:
            raise ValueError(f"no sample: {line!r}")
        at, labels = name.end(), {}
        if line[at : at + 1] == "{":
            at += 1
            while line[at : at + 1] != "}":
                label = LABEL.match(line, at)
                if not label:
                    raise ValueError(f"no label at {at}: {line!r}")
                labels[label[1]] = re.sub(r"\\.", lambda m: ESCAPES.get(m[0], m[0]), label[2])
                at = label.end()
            at += 1
        yield name[0], labels, float(line[at:].split()[0])


@dataclasses.dataclass
class Group:
    """One cgroup, or `other`."""

    classes: dict = dataclasses.field(default_factory=dict)  # (mode, access, kind): total
    rates: dict = dataclasses.field(default_factory=dict)  # window, as labelled: faults per second
    major: int = None  # None: not known

    def total(self, mode=None, access=None, kind=None):
        return sum(
            n
            for (m, a, k), n in self.classes.items()
            if mode in (None, m) and access in (None, a) and kind in (None, k)
        )

    @property
    def rate(self):
        """Over the shortest window."""
        return next(iter(self.rates.values()), 0.0)


@dataclasses.dataclass
class Scrape:
    when: float  # monotonic
    groups: dict = dataclasses.field(default_factory=dict)
    probes: dict = dataclasses.field(default_factory=dict)  # probe: backend
    bad: dict = dataclasses.field(default_factory=dict)  # (cgroup, outcome): bad accesses
    others: dict = dataclasses.field(default_factory=dict)  # (name, label value or ""): value

    def other(self, name):
        """Sum of a family of the daemon's own figures."""
        return sum(value for (n, _), value in self.others.items() if n == name)


def parse(text, when):
    scrape = Scrape(when)
    for name, labels, value in samples(text):
        if name in (CLASSES, MAJOR, RATE):
            group = scrape.groups.setdefault(labels.get("cgroup", ""), Group())
            if name == CLASSES:
                group.classes[labels.get("mode"), labels.get("access"), labels.get("kind")] = int(value)
            elif name == MAJOR:
                group.major = int(value)
            else:
                group.rates[labels.get("window", "")] = value
        elif name == BAD:
            key = labels.get("cgroup", ""), labels.get("outcome", "")
            scrape.bad[key] = scrape.bad.get(key, 0) + int(value)
        elif name == "faultd_probe_info":
            scrape.probes[labels.get("probe", "")] = labels.get("backend", "")
        elif "cgroup" not in labels:
            scrape.others[name, next(iter(labels.values()), "")] = value
    return scrape
