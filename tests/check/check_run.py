#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Does tests/run count what it is shown? A collector that takes a crash for a success would hide everything else. Prints TAP."""

import importlib.machinery
import importlib.util
import os
import sys
import xml.etree.ElementTree

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import check  # noqa: E402

loader = importlib.machinery.SourceFileLoader("tests_run", os.path.join(os.path.dirname(HERE), "run"))
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("tests_run", loader))
loader.exec_module(run)

PASSED, FAILED, SKIPPED = run.PASSED, run.FAILED, run.SKIPPED
TAP = "1..4\nok 1 - a\nskipped: no IPv6\nnot ok 2 # SKIP b\nok 3 - c # SKIP no root\nnot ok 4 # SKIP d\n"

# what meson says of a test: the results of the cases that must be counted
MESON = [
    ({"stdout": TAP, "result": "OK"}, [PASSED, SKIPPED, SKIPPED, SKIPPED]),
    # What meson makes of cmocka's way to skip, and the same with a crash at the end.
    ({"stdout": TAP, "result": "FAIL", "returncode": 0}, [PASSED, SKIPPED, SKIPPED, SKIPPED]),
    ({"stdout": TAP, "result": "FAIL", "returncode": 1}, [PASSED, SKIPPED, SKIPPED, SKIPPED, FAILED]),
    ({"stdout": TAP, "result": "ERROR", "returncode": 0}, [PASSED, SKIPPED, SKIPPED, SKIPPED, FAILED]),
    ({"stdout": "1..2\nok 1 - a\nnot ok 2 - b\n", "result": "FAIL"}, [PASSED, FAILED]),
    # Crashed after the first case; the plan says two.
    ({"stdout": "1..2\nok 1 - a\n", "result": "ERROR", "returncode": -11}, [PASSED, FAILED]),
    # All cases fine, then a leak report and a bad exit code.
    ({"stdout": "1..1\nok 1 - a\n", "result": "ERROR", "returncode": 23}, [PASSED, FAILED]),
    ({"stdout": "1..0 # SKIP no BPF here\n", "result": "SKIP"}, [SKIPPED]),
    ({"stdout": "fine\n", "result": "OK"}, [PASSED]),
    ({"stdout": "", "result": "TIMEOUT"}, [FAILED]),
    ({"stdout": "needs root\n", "result": "SKIP"}, [SKIPPED]),
    ({"result": "FAIL", "returncode": 1}, [FAILED]),
]

PYTEST = [
    ('<testcase classname="tests.live.test_a" name="t"/>', (PASSED, "")),
    ('<testcase classname="x" name="t"><failure message="assert 1 == 2"/></testcase>', (FAILED, "assert 1 == 2")),
    ('<testcase classname="x" name="t"><error message="fixture"/></testcase>', (FAILED, "fixture")),
    ('<testcase classname="x" name="t"><skipped message="needs root"/></testcase>', (SKIPPED, "needs root")),
]


def main():
    tap = check.Tap()
    for i, (test, wanted) in enumerate(MESON):
        cases = run.Cases()
        run.add_meson_test(cases, "unit", {"name": "faultd:x", **test})
        got = [case[2] for case in cases.all]
        tap.case(f"meson example {i + 1}", [] if got == wanted else [f"{got} instead of {wanted}"])
    reasons = [case[2] for case in run.tap_cases(TAP)]
    tap.case("reasons of skips are kept", [] if reasons == ["", "no IPv6", "no root", ""] else [reasons])
    for i, (text, wanted) in enumerate(PYTEST):
        cases = run.Cases()
        run.add_pytest_case(cases, "live", xml.etree.ElementTree.fromstring(text))
        got = cases.all[0][2:]
        tap.case(f"pytest example {i + 1}", [] if got == wanted else [f"{got} instead of {wanted}"])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
