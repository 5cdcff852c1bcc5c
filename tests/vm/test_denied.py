# SPDX-License-Identifier: Apache-2.0
"""Machines with a kernel parameter that takes something away from the daemon, or makes it harder."""

import re

import denied
import pytest
import steps
from test_kernels import complaints, counts_despite_preemption, does_as_expected


def test_the_kernel_took_the_parameter(odd):
    parameter = steps.ODD[odd.odd][0]
    assert parameter in odd.output("cmdline")
    if odd.odd == "lockdown":
        assert "[confidentiality]" in odd.output("lockdown")
    elif odd.odd == "preemption":
        assert re.search(r"Dynamic Preempt: full", odd.output("dmesg")), "the kernel cannot change how it preempts"


def test_the_daemon_takes_the_best_rung_left_and_says_why(odd):
    attempts = [attempt for name, attempt in denied.ROWS if name == odd.odd]
    if not attempts:
        pytest.skip("nothing is denied there")
    for attempt in attempts:
        does_as_expected(odd, odd.odd, attempt)


def test_counts_are_exact_under_preemption(odd):
    if odd.odd != "preemption":
        pytest.skip("no matter of that machine")
    counts_despite_preemption(odd)


def test_the_machine_gets_through_without_a_complaint(odd):
    assert odd.finished, odd.story()
    assert not complaints(odd)
