# SPDX-License-Identifier: Apache-2.0
"""The last rung: totals from memory.stat where BPF is refused. The reference is memory.stat itself."""

import os
import time

import pytest
from harness import Cgroup, Daemon, Workload, need_bpf, need_root, v1_memory_mount, v2_mount, wait_until

# The kernel may hold back up to 64 counts per CPU until its periodic flush, every 2 s.
FLUSH = 6

MEMCG = {"probes": {"page_faults": "memcg"}, "cgroups": {"hierarchy": "auto"}}


def memory_mount():
    need_root()
    if v1_memory_mount():
        return v1_memory_mount()
    root = v2_mount()
    if root and "memory" in open(os.path.join(root, "cgroup.subtree_control")).read():
        return root
    pytest.skip("no cgroup hierarchy has the memory controller")


@pytest.fixture
def home():
    with Cgroup(mount=memory_mount()) as c:
        yield c


def stat(cgroup, key):
    """A cgroup's own count; hierarchical on v2, but nothing here has children there."""
    return next(int(line.split()[1]) for line in cgroup.read("memory.stat").splitlines() if line.split()[0] == key)


def settled(cgroup, key="pgfault"):
    """Its value once the kernel's flush has come by."""
    time.sleep(2.5)
    return stat(cgroup, key)


def total(daemon, cgroup):
    return daemon.faults(cgroup)


def test_totals_equal_memory_stat(home):
    with Daemon(MEMCG) as daemon:
        assert daemon.metrics().value("faultd_probe_info", probe="page_faults", backend="memcg") == 1
        with Workload(home, "write", 200000) as work:
            stat_before = settled(home)
            time.sleep(0.5)
            before = total(daemon, home)
            work.run()
            grown = settled(home) - stat_before
            assert grown >= 200000
            wait_until(lambda: total(daemon, home) - before == grown, FLUSH, f"a total of {grown}")
            m = daemon.metrics()
        # No class is known, and none is invented.
        assert m.faults(home) == m.faults(home, mode="unknown", access="unknown", kind="unknown")


def test_a_cgroup_born_later_counts_from_its_birth(home):
    with Daemon(MEMCG) as daemon:
        time.sleep(0.5)
        with home.child("later") as later, Workload(later, "write", 50000) as work:
            work.run()
            expected = settled(later)
            assert expected >= 50000
            wait_until(lambda: total(daemon, later) == expected, FLUSH, f"{expected} faults of a new cgroup")


def test_what_was_before_the_daemon_does_not_count(home):
    with Workload(home, "write", 50000) as work:
        work.run()
        settled(home)
        with Daemon(MEMCG) as daemon:
            time.sleep(1)
            assert total(daemon, home) < 1000


def test_parents_do_not_count_their_children(home):
    with Daemon(MEMCG) as daemon:
        time.sleep(0.5)
        with home.child("inner") as inner, Workload(inner, "write", 50000) as work:
            work.run()
            wait_until(lambda: total(daemon, inner) >= 50000, FLUSH, "the child's faults")
            assert total(daemon, home) < 1000


def test_totals_survive_the_death_of_a_cgroup(home):
    with Daemon(MEMCG) as daemon:
        time.sleep(0.5)
        brief = home.child("brief")
        with Workload(brief, "write", 50000) as work:
            work.run()
            wait_until(lambda: total(daemon, brief) >= 50000, FLUSH, "its faults")
            last = daemon.faults()
        brief.remove()
        end = time.monotonic() + 3
        while time.monotonic() < end:
            now = daemon.faults()
            assert now >= last, "the sum over all cgroups went back"
            last = now
            time.sleep(0.1)


def test_major_faults_beside_the_tracepoint(home):
    """memory.stat gives major faults; the probe's own series stay exact beside it."""
    need_bpf()
    with Daemon({"cgroups": {"hierarchy": "auto"}}) as daemon:
        backends = {s.labels["probe"]: s.labels["backend"] for s in daemon.metrics().samples("faultd_probe_info")}
        assert backends["page_faults"] == "tracepoint"
        if backends.get("major_page_faults") != "memory.stat":
            pytest.skip(f"major faults come from {backends.get('major_page_faults')} here")
        assert daemon.metrics().samples("faultd_major_page_faults_total") is not None
