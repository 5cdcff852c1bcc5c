#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Is docs/kernels.md of the shape that tests/vm would write now, with each kernel tested and nothing failed? Newer kernels of a series
and other numbers of cases do not matter: `make vm` writes them. Prints TAP."""

import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), folder) for folder in ("lib", "vm")]

PATH = os.path.join(PROJECT, "docs", "kernels.md")


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def shape(text, varies):
    """The lines, without the cells of those rows that tell outcomes."""
    lines = []
    for line in text.splitlines():
        found = cells(line)
        lines.append(f"{found[0]} and {len(found) - 1} more" if line.startswith("|") and found[0] in varies else line)
    return lines


def wrong_shape(text, wanted, varies):
    have, want = shape(text, varies), shape(wanted, varies)
    return [f"unexpected: {line}" for line in have if line not in want] + [f"missing: {line}" for line in want if line not in have] + (
        ["the order of the lines"] if sorted(have) == sorted(want) and have != want else []
    )


def wrong_kernels(text, series):
    rows = [cells(line)[1:] for line in text.splitlines() if line.startswith("| kernel |")]
    if len(rows) != 1 or len(rows[0]) != len(series):
        return ["no row `kernel` with one cell for each"]
    return [f"{release} is no kernel {wanted}" for release, wanted in zip(rows[0], series) if not release.startswith(wanted + ".")]


def wrong_outcomes(text, varies):
    rows = [cells(line) for line in text.splitlines() if line.startswith("|") and cells(line)[0] in varies]
    return [f"{row[0]}: {cell}" for row in rows for cell in row[1:] if "failed" in cell or cell == "-"]


def main():
    try:
        import kernels
        import table
        import test_denied
        import test_kernels
    except ImportError as e:
        print(f"1..0 # SKIP {e}")
        return 0
    with open(PATH, encoding="utf-8") as f:
        text = f.read()
    tests = [t for module in (test_kernels, test_denied) for t in table.tests(table.read(module.__file__))]
    varies = {"kernel", *map(table.title, tests)}
    results = {
        "docs/kernels.md has the rows and columns of the suite (make vm writes it)": wrong_shape(text, table.text(), varies),
        "its kernels are of the series": wrong_kernels(text, [series for _, series in kernels.KERNELS]),
        "nothing in it failed or was left out": wrong_outcomes(text, varies),
    }
    print(f"1..{len(results)}")
    for number, (name, wrong) in enumerate(results.items(), start=1):
        for line in wrong:
            print(f"# {line}")
        print(f"{'not ok' if wrong else 'ok'} {number} - {name}")
    return 1 if any(results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
