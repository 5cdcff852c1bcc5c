# SPDX-License-Identifier: Apache-2.0
"""docs/kernels.md: what came out of the tests on each kernel. Its shape, all but the outcomes and the exact releases, follows from
the suite's own lists; tests/check/check_kernels.py compares."""

import re

import kernels
import steps

outcomes = {}  # {(test, kernel): [outcome]}
releases = {}  # {kernel: release}

HEAD = """\
# Kernels

Written by `make vm`: each kernel is booted in an emulated machine, where the daemon counts what was planned. See "Other kernels" in
[HACKING.md](../HACKING.md). The kernels are Debian's, the newest of their series when this was written. A number is how many cases
passed; skipped are those that the machine cannot do.

"""
ODD_HEAD = """
## Machines that deny something

What counts page faults then, or the exit code of the daemon. "As the unit": with the capabilities of the systemd unit. Each line that
says why, and what would help, is in the tests (`expected` in `tests/vm/denied.py`).

"""


def note(test, kernel, outcome):
    outcomes.setdefault((test, kernel), []).append(outcome)


def title(test):
    return test[len("test_") :].replace("_s_", "'s ").replace("_", " ")


def tests(source):
    """Names of the tests of a source that look at a machine."""
    return re.findall(r"^def (test_\w+)\((?:machine|odd)\b", source, re.M)


def _cell(found):
    if not found:
        return "-"
    words = [(n, word) for word in ("failed", "passed", "skipped") if (n := found.count(word))]
    if words == [(1, "passed")]:
        return "ok"
    return ", ".join(f"{n} ok" if word == "passed" else f"**{n} {word}**" if word == "failed" else f"{n} {word}" for n, word in words)


def row(cells):
    return "| " + " | ".join(cells) + " |\n"


def heading(first, columns):
    return row([first, *columns]) + row(["---"] * (len(columns) + 1))


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def text():
    import denied
    import test_denied
    import test_kernels

    columns = [" ".join(kernel) for kernel in kernels.KERNELS]
    out = HEAD + heading("", columns)
    out += row(["kernel", *(releases.get(kernel, "-") for kernel in kernels.KERNELS)])
    for i, who in enumerate(("as root", "as the unit")):
        out += row([f"page faults, {who}, by", *(steps.rungs(*kernel)[i] for kernel in kernels.KERNELS)])
    for test in tests(read(test_kernels.__file__)):
        out += row([title(test), *(_cell(outcomes.get((test, kernel))) for kernel in kernels.KERNELS)])
    out += ODD_HEAD + heading("", [" ".join(kernel) for kernel in steps.ODD_KERNELS])
    for odd, attempt in denied.ROWS:
        out += row([denied.title(odd, attempt), *(denied.outcome(*kernel, odd, attempt) for kernel in steps.ODD_KERNELS)])
    out += "\n" + heading("", [f"{' '.join(kernel)}, {odd}" for kernel in steps.ODD_KERNELS for odd in steps.ODD])
    for test in tests(read(test_denied.__file__)):
        found = [_cell(outcomes.get((test, (*kernel, odd)))) for kernel in steps.ODD_KERNELS for odd in steps.ODD]
        out += row([title(test), *found])
    return out
