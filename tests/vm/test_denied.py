# SPDX-License-Identifier: Apache-2.0
"""Machines with a kernel parameter that takes something away from the daemon."""

import steps
from test_kernels import complaints, does_as_expected


def test_the_kernel_took_the_parameter(odd):
    parameter = steps.ODD[odd.odd][0]
    assert parameter in odd.output("cmdline")
    if odd.odd == "lockdown":
        assert "[confidentiality]" in odd.output("lockdown")


def test_the_daemon_takes_the_best_rung_left_and_says_why(odd):
    for attempt in steps.ODD[odd.odd][1]:
        does_as_expected(odd, odd.odd, attempt)


def test_the_machine_gets_through_without_a_complaint(odd):
    assert odd.finished, odd.story()
    assert not complaints(odd)
