# SPDX-License-Identifier: Apache-2.0
"""Hosts with cgroup v1, alone or beside v2, and cgroup namespaces: each count has the name of the one hierarchy that was chosen.

A host with v1 alone is made of a hybrid one by a mount namespace in which v2 is not mounted: all processes are in the root of v2 here,
and the daemon sees of it what it would see there."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from harness import (
    EXIT_UNSUPPORTED,
    OTHER,
    UNKNOWN,
    Cgroup,
    Daemon,
    PerfStat,
    Workload,
    need_bpf,
    need_built,
    need_perf,
    need_program,
    need_v1_memory,
    run_faultd,
    v1_memory_mount,
    v2_mount,
    wait_until,
    without_v2,
)

WRITE = dict(mode="user", access="write", kind="missing")
AUTO, MEMORY = {"cgroups": {"hierarchy": "auto"}}, {"cgroups": {"hierarchy": "memory"}}


@pytest.fixture(autouse=True)
def _bpf():
    need_bpf()
    need_v1_memory()


@pytest.fixture(params=["auto", "memory"])
def options(request):
    """For a Daemon that counts by the memory controller: v1 is all there is; v2 is there, but the other one is asked for."""
    if request.param == "auto":
        return dict(config=AUTO, prefix=without_v2())
    return dict(config=MEMORY)


@pytest.fixture
def home():
    with Cgroup(mount=v1_memory_mount()) as c:
        yield c


@pytest.fixture
def nursery(home):
    """Makes cgroups in a folder of v1: nursery(parent, count, pages, hold_us, keep, prefix)."""
    with home.child("nurse") as nurse:

        def run(parent, *args):
            with Workload(nurse, "cgroups", parent.dir, *args) as work:
                work.run()

        yield run


def growth(before, after, cgroup):
    was = before.fault_classes(cgroup)
    return {k: v - was.get(k, 0) for k, v in after.fault_classes(cgroup).items() if v != was.get(k, 0)}


# ---- counting by the memory controller ----

CLASSES = [
    (("write", 20000), {("user", "write", "missing"): 20000}),
    (("filepages", 5000), {("user", "read", "missing"): 5000}),
    (("exec", 5000), {("user", "exec", "missing"): 5000}),
    (("denied", 5000), {("user", "write", "protection"): 5000}),
    (("readinto", 5000), {("kernel", "write", "missing"): 5000}),
]


def test_counts_by_class_are_exact(options, home):
    """The process is in a cgroup of v2, too: of that one there is no word."""
    need_perf()
    with Daemon(**options) as daemon, home.child("a") as a, home.child("b") as b, Cgroup() as elsewhere:
        assert daemon.metrics().value("faultd_probe_info", probe="page_faults", backend="tracepoint") == 1
        for scenario, expected in CLASSES:
            with Workload(a, *scenario) as work, PerfStat(work.pid) as perf:
                elsewhere.add(work.pid)
                before = daemon.metrics()
                with perf.counting():
                    work.run()
                after = daemon.metrics()
            classes = growth(before, after, a)
            assert classes == expected
            assert sum(n for (mode, _, _), n in classes.items() if mode == "user") == perf.user
            assert sum(n for (mode, _, _), n in classes.items() if mode == "kernel") == perf.kernel
        with Workload(b, "write", 777) as work:
            work.run()
        m = daemon.metrics()
        assert m.faults(b, **WRITE) >= 777
        assert elsewhere.path not in m.cgroups()


def test_a_cgroup_that_lives_ten_milliseconds(options, home, nursery):
    with Daemon(**options) as daemon:
        nursery(home, 1, 777, 10000, 0, "brief")
        label = home.path + "/brief0"
        assert daemon.faults(label, **WRITE) == 777
        other = daemon.faults(OTHER, **WRITE)
        # It is dead: it leaves.
        m = wait_until(lambda: (lambda m: label not in m.cgroups() and m)(daemon.metrics()), what="the dead cgroup's leaving")
        assert m.faults(OTHER, **WRITE) >= other
        assert m.sum("faultd_drops_total", reason="cgroup_ring") == 0


def test_a_cgroup_recreated_under_its_name_is_one_series(options, home, nursery):
    slow = {**options, "config": {**options["config"], "interval": "10s", "windows": ["10s"]}}
    with Daemon(**slow) as daemon:
        label = home.path + "/again"
        for lives in range(1, 4):
            nursery(home, 1, 50, 0, 2, "again")
            m = daemon.metrics()
            assert m.faults(label, **WRITE) == 50 * lives
            assert len(m.samples("faultd_page_faults_total", cgroup=label, **WRITE)) == 1


def test_births_of_another_hierarchy_are_not_heard(home, cgroup, nursery):
    """Their ids mean something else there. 10 ms is too short for any other way to a name: without its birth it has none."""
    with Daemon(MEMORY) as daemon:
        with Workload(cgroup, "cgroups", cgroup.dir, 50, 10, 0, 0, "foreign") as work:
            work.run()
        nursery(home, 50, 10, 0, 0, "own")
        m = daemon.metrics()
        assert [c for c in m.cgroups() if "foreign" in c] == []
        assert sum(m.faults(f"{home.path}/own{i}", **WRITE) for i in range(50)) > 0


def renamed(cgroup, name):
    """Renames the folder, and what the harness knows of it."""
    os.rename(cgroup.name, name, src_dir_fd=cgroup._parent_fd, dst_dir_fd=cgroup._parent_fd)
    cgroup.name = os.fsencode(name)
    cgroup.raw = cgroup.parent.raw + b"/" + cgroup.name


@pytest.mark.parametrize("known", [True, False], ids=["born before eyes", "older than the daemon"])
def test_a_renamed_cgroup_goes_on_under_its_new_name(options, home, known):
    """And so do those below it. `top` has no process: of an older one the daemon knows no name to be changed."""
    older = None if known else home.child("before")
    older_leaf = None if known else older.child("leaf")
    with Daemon(**options) as daemon:
        top = older or home.child("before")
        leaf = older_leaf or top.child("leaf")
        was = leaf.path
        with Workload(leaf, "write", 1000) as work:
            work.run()
            before = daemon.faults(was, **WRITE)
            assert before >= 1000
            renamed(top, "after")
            leaf.raw = top.raw + b"/leaf"
            work.run()
            work.run()
            m = daemon.metrics()
            assert m.faults(leaf, **WRITE) == 2000
            assert m.faults(was, **WRITE) in (0, before)
            # The leaf itself, while its process goes on.
            renamed(leaf, "twig")
            work.run()
            assert daemon.faults(leaf, **WRITE) == 1000
            # Who takes the former name is somebody else.
            with top.child("leaf") as new, Workload(new, "write", 300) as other:
                before = daemon.faults(new, **WRITE)
                other.run()
                m = daemon.metrics()
                assert m.faults(new, **WRITE) - before == 300
                assert m.faults(leaf, **WRITE) == 1000
        leaf.remove()
        top.remove()


def test_a_cgroup_renamed_out_of_an_exclusion_is_seen(options, home):
    config = {"cgroups": {**options["config"]["cgroups"], "exclude": [home.path + "/hidden"]}}
    with Daemon(**{**options, "config": config}) as daemon, home.child("hidden") as c, Workload(c, "write", 500) as work:
        work.run()
        assert daemon.faults(c) == 0
        time.sleep(0.5)  # so that the kernel counts it as other by now
        renamed(c, "shown")
        daemon.metrics()
        work.run()
        assert daemon.faults(c, **WRITE) == 500


def victim(cgroup, *args):
    return cgroup.popen([need_built("victim"), *args], stdout=subprocess.DEVNULL).wait(60)


def bad(daemon, cgroup):
    return {
        (s.labels["signal"], s.labels["code"], s.labels["outcome"]): int(s.value)
        for s in daemon.metrics().samples("faultd_bad_accesses_total", cgroup=cgroup.path)
    }


def bad_as_expected(daemon, home):
    with home.child("bad") as c:
        assert victim(c, "null_read") == -signal.SIGSEGV
        assert victim(c, "read_only") == -signal.SIGSEGV
        assert victim(c, "past_eof") == -signal.SIGBUS
        assert victim(c, "survive_null", "100") == 0
        assert bad(daemon, c) == {
            ("SIGSEGV", "maperr", "fatal"): 1,
            ("SIGSEGV", "accerr", "fatal"): 1,
            ("SIGBUS", "adrerr", "fatal"): 1,
            ("SIGSEGV", "maperr", "handled"): 100,
        }
        crashes = subprocess.run(
            [need_built("faultctl"), "crashes", "--socket", daemon.control_socket, "--json"], capture_output=True, text=True
        ).stdout
        assert crashes.count(f'"{c.path}"') >= 3, crashes


def test_bad_accesses(options, home):
    with Daemon(**options) as daemon:
        bad_as_expected(daemon, home)


def test_bad_accesses_beside_memory_stat(home, cgroup):
    """v2 is in use, but page faults come from the memory controller: then bad accesses are told apart by its cgroups, too, for there
    is one table of ids."""
    options = {"cgroups": {"hierarchy": "auto"}, "probes": {"page_faults": "memcg"}}
    with Daemon(options, prefix=in_cgroup(cgroup)) as daemon:
        bad_as_expected(daemon, home)


def test_selftest_finds_its_cgroups(options):
    """It sees what the daemon sees."""
    with Daemon(**options) as daemon:
        argv = [need_built("faultctl"), "selftest", "--socket", daemon.control_socket, "--case", "null-read", "--case", "read-only"]
        result = subprocess.run(options.get("prefix", []) + argv, capture_output=True, text=True)
    assert "2 passed, 0 failed, 0 skipped" in result.stdout, result.stdout + result.stderr


MAJOR = """
import mmap, os, sys
f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
os.write(f, b"x" * mmap.PAGESIZE * 256)
os.fsync(f)
os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
m = mmap.mmap(f, 0)
m.madvise(mmap.MADV_RANDOM)
sum(m[i] for i in range(0, len(m), mmap.PAGESIZE))
"""


def test_major_faults_are_those_of_memory_stat(options, home, tmp_path):
    """The same paths: the process is counted under one name by both."""
    with Daemon(**options) as daemon, home.child("major") as c:
        assert daemon.metrics().value("faultd_probe_info", probe="major_page_faults", backend="memory.stat") == 1
        time.sleep(0.5)
        assert c.popen([sys.executable, "-c", MAJOR, str(tmp_path / "file")]).wait() == 0

        def in_memory_stat():
            return int(re.search(r"^total_pgmajfault (\d+)$", c.read("memory.stat"), re.M)[1])

        time.sleep(2.5)  # the kernel's flush
        expected = in_memory_stat()
        if expected == 0:
            pytest.skip("the file system does not let go of its pages")
        wait_until(
            lambda: daemon.metrics().sum("faultd_major_page_faults_total", cgroup=c.path) == expected,
            what=f"{expected} major faults",
        )
        assert daemon.faults(c) >= expected


# ---- the choice ----


def chosen(**options):
    return re.search(r"^#   cgroups +(.*)$", run_faultd("--check", **options).stdout, re.M)[1]


def in_cgroup(cgroup):
    """A prefix: the program behind it is started in the cgroup."""
    return ["sh", "-c", f'echo $$ > "{cgroup.dir}/cgroup.procs" && exec "$@"', "sh"]


def by_memory(text):
    return f"v1's memory controller ({v1_memory_mount()})" in text


def init_in_root_of_v2():
    with open("/proc/1/cgroup") as f:
        return "0::/\n" in f.read()


def test_auto_takes_v1_where_v2_is_not_mounted():
    assert by_memory(chosen(config=AUTO, prefix=without_v2()))


def test_auto_takes_v1_where_all_are_in_the_root_of_v2(cgroup):
    """As some network programs leave it, that mount v2 for themselves. That a test runs in a cgroup of v2 right now changes nothing."""
    if not init_in_root_of_v2():
        pytest.skip("this host uses v2")
    with Workload(cgroup, "write", 1):
        assert by_memory(chosen(config=AUTO, prefix=["sh", "-c", f'echo $$ > "{v2_mount()}/cgroup.procs" && exec "$@"', "sh"]))


def test_auto_takes_v2_where_it_is_in_use(cgroup):
    """As under systemd's hybrid mode. Major faults still come from v1."""
    with Daemon(AUTO, prefix=in_cgroup(cgroup)) as daemon, cgroup.child("own") as own, Workload(own, "write", 1000) as work:
        assert daemon.wait_log(r"cgroups: those of v2 .*: in use")
        work.run()
        m = daemon.metrics()
        assert m.faults(own, **WRITE) >= 1000
        assert m.value("faultd_probe_info", probe="major_page_faults", backend="memory.stat") == 1


def test_auto_takes_v2_where_v1_has_no_memory_controller():
    prefix = ["unshare", "--mount", "sh", "-c", f'umount "{v1_memory_mount()}" && exec "$@"', "sh"]
    assert "those of v2" in chosen(config=AUTO, prefix=prefix)


def test_what_is_asked_for_and_not_there_is_refused():
    prefix = ["unshare", "--mount", "sh", "-c", f'umount "{v1_memory_mount()}" && exec "$@"', "sh"]
    result = run_faultd(config=MEMORY, prefix=prefix)
    assert result.returncode == EXIT_UNSUPPORTED
    assert re.search(r"error: cgroups: .*memory controller cannot be had: it is not mounted", result.stderr)


def test_v2_that_is_not_mounted_has_no_names():
    with Daemon({"cgroups": {"hierarchy": "v2"}}, prefix=without_v2()) as daemon:
        assert daemon.wait_log("no cgroup hierarchy can be read")
        assert daemon.metrics().cgroups() <= {UNKNOWN, OTHER}


# ---- cgroup namespaces ----


def in_namespace(cgroup):
    """A prefix: the program behind it is in a cgroup namespace whose root is the cgroup, with v2 mounted in there."""
    need_program("unshare", "util-linux")
    mount = f'umount "{v2_mount()}" && mount -t cgroup2 cgroup2 "{v2_mount()}" && exec "$@"'
    return in_cgroup(cgroup) + ["unshare", "--cgroup", "--mount", "sh", "-c", mount, "sh"]


def test_in_a_cgroup_namespace_names_are_those_of_the_namespace(cgroup):
    """The kernel tells births by the host's paths; files show those of the namespace."""
    with cgroup.child("root") as root, cgroup.child("outside") as outside, Daemon(AUTO, prefix=in_namespace(root)) as daemon:
        daemon.wait_log("only a part of the cgroup tree")
        with root.child("longer") as longer, Workload(longer, "write", 100) as work:
            work.run()
            assert daemon.faults("/longer", **WRITE) >= 100
        # Gone before the daemon can look.
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            with Workload(outside, "cgroups", root.dir, 1, 333, 0, 0, "brief") as work:
                work.run()
        finally:
            daemon.process.send_signal(signal.SIGCONT)
        assert daemon.faults("/brief0", **WRITE) == 333
        # Whoever is outside has no name in there: what is said of it is that it is not known.
        with Workload(outside, "write", 5000) as work:
            before = daemon.faults(UNKNOWN, **WRITE)
            work.run()
            m = daemon.metrics()
        assert m.faults(UNKNOWN, **WRITE) - before >= 5000
        assert [c for c in m.cgroups() if "outside" in c or cgroup.path in c] == []
