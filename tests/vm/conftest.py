# SPDX-License-Identifier: Apache-2.0
"""One machine per kernel, booted once for all tests that look at it; what cannot be had is a skip with its reason."""

import fetch
import kernels
import machine as machines
import pytest
import steps

# What a failed test shows besides: the last lines of each.
SHOWN_LINES = 150


@pytest.fixture(scope="session", params=kernels.SERIES)
def machine(request):
    try:
        machines.emulator()
        image = kernels.image(request.param)
        return machines.boot(image, steps.tree(), steps.STEPS)
    except fetch.Unavailable as e:
        pytest.skip(str(e))


def _last_lines(text):
    return "\n".join(text.rstrip("\n").split("\n")[-SHOWN_LINES:])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Puts beside each failure what the daemon and the kernel of that machine said."""
    report = (yield).get_result()
    machine = getattr(item, "funcargs", {}).get("machine")
    if report.failed and machine:
        report.sections.append(("console of the machine", _last_lines(machine.console)))
        for name in steps.TOLD_ON_FAILURE:
            if name in machine.steps:
                report.sections.append((f"step {name}", _last_lines(machine.steps[name].output)))
