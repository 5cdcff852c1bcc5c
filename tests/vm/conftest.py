# SPDX-License-Identifier: Apache-2.0
"""One machine per kernel, booted once for all tests that look at it; what cannot be had is a skip with its reason.

FAULTD_VM=all boots all kernels instead of those of a normal test run. FAULTD_VM_TABLE=FILE writes what came out to that file.
"""

import os

import fetch
import kernels
import machine as machines
import platforms
import pytest
import steps
import table

# What a failed test shows besides: the last lines of each.
SHOWN_LINES = 150
# In a normal test run, for a few minutes: the oldest kernel on which all works, and arm64's two ways.
USUAL = [("x86_64", "6.1"), ("aarch64", "6.1"), ("aarch64", "7")]
# Of the machines to which something is denied.
USUAL_ODD = [("x86_64", "6.12", "lockdown")]

ALL = os.environ.get("FAULTD_VM") == "all"
CHOSEN = kernels.KERNELS if ALL else USUAL
CHOSEN_ODD = [(*kernel, name) for kernel in steps.ODD_KERNELS for name in steps.ODD if ALL or (*kernel, name) in USUAL_ODD]


def _boot(machine, series, scripts, parameters=""):
    platform = platforms.PLATFORMS[machine]
    try:
        image = kernels.image(machine, series)
        booted = machines.boot(platform, image, steps.tree(platform), scripts, parameters)
    except fetch.Unavailable as e:
        pytest.skip(str(e))
    booted.machine, booted.series = machine, series
    booted.by_root, booted.by_unit = steps.rungs(machine, series)
    return booted


@pytest.fixture(scope="session", params=CHOSEN, ids="-".join)
def machine(request):
    booted = _boot(*request.param, steps.ordinary(*request.param), steps.PARAMETERS.get(request.param, ""))
    table.releases[request.param] = booted.release
    return booted


@pytest.fixture(scope="session", params=CHOSEN_ODD, ids=lambda p: "-".join(p).replace(" ", "-"))
def odd(request):
    """A machine to which something is denied."""
    machine, series, name = request.param
    booted = _boot(machine, series, steps.odd(name), steps.ODD[name][0])
    booted.odd = name
    return booted


def _last_lines(text):
    return "\n".join(text.rstrip("\n").split("\n")[-SHOWN_LINES:])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Puts beside each failure what the daemon and the kernel of that machine said."""
    report = (yield).get_result()
    funcargs = getattr(item, "funcargs", {})
    machine = funcargs.get("machine") or funcargs.get("odd")
    if report.failed and machine:
        report.sections.append(("console of the machine", _last_lines(machine.console)))
        for name in steps.TOLD_ON_FAILURE:
            if name in machine.steps:
                report.sections.append((f"step {name}", _last_lines(machine.steps[name].output)))
    if report.when == "call" or report.outcome != "passed":
        params = item.callspec.params if hasattr(item, "callspec") else {}
        table.note(item.function.__name__, params.get("machine") or params.get("odd"), report.outcome)


def pytest_sessionfinish(session):
    path = os.environ.get("FAULTD_VM_TABLE")
    if path and table.outcomes:
        with open(path, "w") as f:
            f.write(table.text())


def pytest_terminal_summary(terminalreporter):
    if ALL and table.outcomes:
        terminalreporter.write("\n" + table.text())
