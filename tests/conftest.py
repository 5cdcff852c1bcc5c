# SPDX-License-Identifier: Apache-2.0
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import harness  # noqa: E402


def pytest_report_header():
    return f"faultd: {harness.BUILD}, kernel {os.uname().release}"


@pytest.fixture
def cgroup():
    """A private cgroup of the v2 hierarchy."""
    harness.need_root()
    harness.need_v2()
    with harness.Cgroup() as c:
        yield c
