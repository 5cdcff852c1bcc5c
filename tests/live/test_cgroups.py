# SPDX-License-Identifier: Apache-2.0
"""Cgroups that come and go, have odd names, are too many, or are not wanted: no count is lost and no total goes back."""

import signal
import subprocess
import time

import pytest
from harness import OTHER, UNKNOWN, Cgroup, Daemon, PerfStat, Workload, need_bpf, need_perf, wait_until

WRITE = dict(mode="user", access="write", kind="missing")


@pytest.fixture(autouse=True)
def _bpf():
    need_bpf()


@pytest.fixture
def parent():
    """Where the cgroups under test are made; no process is ever in it."""
    with Cgroup() as c:
        yield c


@pytest.fixture
def nursery(cgroup, parent):
    """Makes cgroups in `parent` from outside of it: nursery(count, pages, hold_us, keep, prefix)."""

    def run(count, pages, hold_us=0, keep=0, prefix="c"):
        with Workload(cgroup, "cgroups", parent.dir, count, pages, hold_us, keep, prefix) as work:
            work.run()

    run(1, 1)
    yield run
    # Those that were kept.
    for line in subprocess.run(["find", parent.dir, "-mindepth", "1", "-type", "d"], capture_output=True).stdout.splitlines():
        subprocess.run(["rmdir", line])


def below(metrics, cgroup, **labels):
    """Sum over the series of all cgroups below the given one, and how many they are."""
    found = [
        s for s in metrics.samples("faultd_page_faults_total", **labels) if s.labels["cgroup"].startswith(cgroup.path + "/")
    ]
    return sum(int(s.value) for s in found), len({s.labels["cgroup"] for s in found})


class Totals:
    """Watches that the sum over all cgroups never goes back, from scrape to scrape."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.last = {}

    def scrape(self):
        m = self.daemon.metrics()
        totals = {}
        for s in m.samples("faultd_page_faults_total"):
            key = (s.labels["mode"], s.labels["access"], s.labels["kind"])
            totals[key] = totals.get(key, 0) + s.value
        for key, value in self.last.items():
            assert totals.get(key, 0) >= value, f"the sum over all cgroups of {key} went back"
        self.last = totals
        return m


# ---- life and death ----


def test_a_cgroup_that_lives_ten_milliseconds(parent, nursery):
    """It is created, its process faults, it is removed, all between two scrapes. Then it is reported, once."""
    need_perf()
    with Daemon() as daemon, PerfStat(parent) as perf:
        totals = Totals(daemon)
        other = totals.scrape().faults(OTHER, **WRITE)
        with perf.counting():
            nursery(1, 777, hold_us=10000, prefix="brief")
        m = totals.scrape()
        label = parent.path + "/brief0"
        assert m.faults(label, **WRITE) == 777
        assert m.faults(label, mode="user") == perf.user
        assert m.faults(label, mode="kernel") == perf.kernel

        m = wait_until(lambda: (lambda m: label not in m.cgroups() and m)(totals.scrape()), what="the dead cgroup's leaving")
        assert m.faults(OTHER, **WRITE) - other >= 777
        assert m.samples("faultd_cgroup_info", cgroup=label) == []
        assert m.samples("faultd_page_fault_rate", cgroup=label) == []


def test_a_dead_cgroup_waits_for_its_report(parent, nursery):
    """Ticks pass; it stays until it was scraped."""
    with Daemon() as daemon:
        nursery(1, 99, prefix="patient")
        time.sleep(1)
        assert daemon.faults(parent.path + "/patient0", **WRITE) == 99


def test_a_cgroup_recreated_under_its_name_is_one_series(parent, nursery):
    with Daemon({"interval": "10s", "windows": ["10s"]}) as daemon:
        label = parent.path + "/again"
        last = 0
        for lives in range(1, 6):
            nursery(1, 50, keep=2, prefix="again")
            m = daemon.metrics()
            assert m.faults(label, **WRITE) == 50 * lives
            assert m.faults(label) > last
            last = m.faults(label)
            assert len(m.samples("faultd_page_faults_total", cgroup=label, **WRITE)) == 1


def test_a_hundred_lives_under_one_name(parent, nursery):
    """More lives than the daemon looks at between two ticks; none is missed."""
    with Daemon() as daemon:
        totals = Totals(daemon)
        before = totals.scrape()
        nursery(100, 20, keep=2, prefix="cat")
        m = totals.scrape()
        # Some lives may have been reported and folded already if a tick fell in between: both places count.
        grown = m.faults(parent.path + "/cat", **WRITE) + m.faults(OTHER, **WRITE) - before.faults(OTHER, **WRITE)
        assert grown >= 100 * 20
        assert m.faults(parent.path + "/cat", **WRITE) == 100 * 20  # nobody scraped in between


def test_a_cgroup_from_before_the_daemon_has_its_name(cgroup):
    with Daemon() as daemon, Workload(cgroup, "write", 10) as work:
        work.run()
        assert daemon.faults(cgroup, **WRITE) >= 10


def test_a_cgroup_that_dies_with_an_open_process_elsewhere(parent, cgroup):
    """The process leaves before the cgroup is removed, and goes on faulting where it went."""
    with Daemon() as daemon:
        home = parent.child("left")
        with Workload(home, "write", 500) as work:
            work.run()
            cgroup.add(work.pid)
            home.remove()
            work.run()
            m = daemon.metrics()
        assert m.faults(home, **WRITE) >= 500
        assert m.faults(cgroup, **WRITE) == 500


def test_two_hundred_short_lived_cgroups_reuse_sixteen_slots(parent, nursery):
    need_perf()
    with Daemon({"cgroups": {"max": 16}}) as daemon:
        totals = Totals(daemon)
        before = totals.scrape()
        assert "/" in before.cgroups()
        grown = 0
        with PerfStat(parent) as perf:
            with perf.counting():
                for _ in range(20):
                    nursery(10, 30, hold_us=1000)
                    m = totals.scrape()
                    time.sleep(0.15)
        m = totals.scrape()
        grown = below(m, parent)[0] + m.faults(OTHER) - before.faults(OTHER)
        assert grown >= perf.user + perf.kernel >= 200 * 30
        wait_until(lambda: below(totals.scrape(), parent)[1] == 0, what="leaving of all dead cgroups")
        # All slots came back: a new cgroup has a series of its own.
        nursery(1, 31, prefix="late")
        assert totals.scrape().faults(parent.path + "/late0", **WRITE) == 31
        assert totals.scrape().sum("faultd_drops_total", reason="slot_leaked") == 0


def test_two_hundred_at_once_without_a_scrape(parent, nursery):
    """Nobody scrapes, so the dead wait, until room runs out: what has no series is in `other`, and what has none and lost its
    name in the crowd is `unknown`. Nothing is lost."""
    need_perf()
    with Daemon({"cgroups": {"max": 16}}) as daemon, PerfStat(parent) as perf:
        totals = Totals(daemon)
        before = totals.scrape()
        with perf.counting():
            nursery(200, 30)
        m = totals.scrape()
        own, series = below(m, parent)
        assert series <= 16
        grown = own + sum(m.faults(c) - before.faults(c) for c in (OTHER, UNKNOWN))
        assert grown >= perf.user + perf.kernel >= 200 * 30


def test_cgroups_that_came_and_went_while_the_daemon_slept_are_named(parent, nursery):
    """More births than one turn of the loop hears."""
    need_bpf()
    with Daemon({"cgroups": {"max": 2000}}) as daemon:
        assert daemon.metrics().faults(UNKNOWN) == 0
        daemon.process.send_signal(signal.SIGSTOP)
        nursery(700, 20)
        daemon.process.send_signal(signal.SIGCONT)
        m = daemon.metrics()
        assert m.value("faultd_drops_total", reason="cgroup_ring") == 0
        assert m.faults(UNKNOWN) == 0
        named = [c for c in m.cgroups() if c.startswith(parent.path + "/")]
        assert len(named) == 700
        assert all(m.faults(c, **WRITE) == 20 for c in named)


# ---- more than fit ----


def test_more_cgroups_than_slots(cgroup, parent, nursery):
    """`other` also holds what cgroups elsewhere on this host count, so a try that somebody disturbed is repeated: too much may
    be noise, too little never is."""
    need_perf()
    with Daemon({"cgroups": {"max": 8}}) as daemon:
        totals = Totals(daemon)
        nursery(1, 1)  # so that the one who makes the crowd has a series before the crowd takes all
        for attempt in range(5):
            time.sleep(attempt)  # so that one disturbance does not spoil all tries
            before = totals.scrape()
            assert {"/", cgroup.path} <= set(before.cgroups())  # so that most of the noise has a place of its own
            with PerfStat(parent) as perf, perf.counting():
                nursery(40, 100, keep=1, prefix=f"try{attempt}-")
            m = totals.scrape()
            series = below(m, parent)[1]
            assert 0 < series <= 8

            def grown(**labels):
                other = m.faults(OTHER, **labels) - before.faults(OTHER, **labels)
                return below(m, parent, **labels)[0] - below(before, parent, **labels)[0] + other

            written, faults, expected = grown(**WRITE), grown(), perf.user + perf.kernel
            assert written >= 40 * 100 and faults >= expected
            if (written, faults) == (40 * 100, expected):
                break
        else:
            pytest.fail(f"{faults} faults in place of {expected}, {written} writes in place of 4000")
        drops = [m.sum("faultd_drops_total", reason=r) for r in ("no_slot", "table_full", "cgroup_limit")]
        assert sum(drops) > 0
        assert m.sum("faultd_drops_total", reason="uncounted") == 0


def test_a_slot_that_becomes_free_is_used_again(parent, cgroup):
    with Daemon({"cgroups": {"max": 4}}) as daemon:
        crowd = [parent.child(f"crowd{i}") for i in range(10)]
        for c in crowd:
            with Workload(c, "write", 10) as work:
                work.run()
        daemon.metrics()
        for c in crowd:
            c.remove()
        wait_until(lambda: below(daemon.metrics(), parent)[1] == 0, what="leaving of the crowd")
        # The daemon may need another tick to hand slots back.
        time.sleep(0.5)
        with parent.child("new") as new, Workload(new, "write", 10) as work:
            work.run()
            assert daemon.faults(new, **WRITE) >= 10


def test_a_cgroup_without_a_slot_gets_one_when_there_is_room(parent, cgroup):
    """It lives on; those that held the slots die; from then on it must not stay in `other` for ever."""
    with Daemon({"cgroups": {"max": 3}}) as daemon:
        crowd = [parent.child(f"crowd{i}") for i in range(6)]
        for c in crowd:
            with Workload(c, "write", 10) as work:
                work.run()
        with parent.child("patient") as patient, Workload(patient, "write", 10) as work:
            work.run()
            assert daemon.faults(patient) == 0
            for c in crowd:
                c.remove()

            def served():
                work.run()
                return daemon.faults(patient, **WRITE) >= 10

            # Those who wait are given another chance every ten seconds.
            wait_until(served, 25, what="a series of its own for the cgroup that waited")


# ---- names ----

NAMES = {
    "quote": b'say "cheese"',
    "backslash": b"back\\slash\\n",
    "escaped": rb"dev-disk-by\x2dlabel.mount",
    "tab": b"tab\there",
    "control": b"bell\x07 escape\x1b[31m delete\x7f",
    "blanks": b"  two  blanks  ",
    "braces": b'{cgroup="x"} 1 # EOF',
    "utf-8": "größe-日本-🐧".encode(),
    "invalid utf-8": b"\xff\xfe-\xc3\x28-\xed\xa0\x80-\xf0\x9f\x90",
    "longest": b"n" * 255,
    "longest invalid": b"\xff" * 255,
    "named like other": b"other",
    "percent": b"%s%n%1$s",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_odd_names(parent, name):
    with Daemon() as daemon, parent.child(name) as odd, Workload(odd, "write", 64) as work:
        work.run()
        for openmetrics in (False, True):
            m = daemon.metrics(openmetrics)
            assert m.faults(odd, **WRITE) >= 64
            assert len(m.samples("faultd_cgroup_info", cgroup=odd.path)) == 1


def test_a_newline_cannot_be_in_a_name(parent):
    """The kernel refuses it, so nothing needs to be done about it; if that ever changes this test tells."""
    with pytest.raises(OSError):
        parent.child(b"new\nline")


def test_names_that_differ_only_in_invalid_bytes_are_one_label(parent):
    """Both become U+FFFD: one series or two with one label would be an invalid exposition; the counts must add up."""
    with Daemon() as daemon, parent.child(b"x\xfe") as a, parent.child(b"x\xff") as b:
        assert a.path == b.path
        for c in (a, b):
            with Workload(c, "write", 100) as work:
                work.run()
        for openmetrics in (False, True):
            m = daemon.metrics(openmetrics)
            assert m.faults(a, **WRITE) >= 200
            assert len(m.samples("faultd_page_faults_total", cgroup=a.path, **WRITE)) == 1


def deep(parent, length):
    """A chain of cgroups below `parent` whose path is `length` bytes long."""
    at = parent
    while len(at.raw) < length:
        left = length - len(at.raw) - 1
        size = left if left <= 250 else min(200, left - 2)
        at = at.child(b"d" * size)
    return at


@pytest.mark.parametrize("length", [1000, 1022, 1023, 1024, 1025, 1500, 3000, 4000])
def test_deep_paths(parent, length):
    """The tracepoints cut paths at 1,024 bytes."""
    with Daemon() as daemon:
        try:
            bottom = deep(parent, length)
        except OSError as e:
            pytest.skip(f"no cgroup with a path of {length} bytes: {e}")
        assert len(bottom.raw) == length
        with Workload(bottom, "write", 64) as work:
            work.run()
            assert daemon.faults(bottom, **WRITE) >= 64


def test_a_deep_path_from_before_the_daemon(parent):
    bottom = deep(parent, 2000)
    with Daemon() as daemon, Workload(bottom, "write", 64) as work:
        work.run()
        assert daemon.faults(bottom, **WRITE) >= 64


def test_a_deep_path_that_is_gone_before_anybody_looks(parent, cgroup):
    """Its name may be cut or unknown then, but its counts are not lost, and no other cgroup gets them."""
    with Daemon({"interval": "10s", "windows": ["10s"]}) as daemon:
        before = daemon.metrics()
        top = deep(parent, 1200)
        with Workload(cgroup, "cgroups", "/proc/self/fd/9", 1, 333, 0, 0, "gone", pass_fd=top.fd) as work:
            work.run()
        m = daemon.metrics()
        grown = sum(
            m.faults(label, **WRITE) - before.faults(label, **WRITE) for label in m.cgroups() - {"/", cgroup.path}
        )
        assert grown >= 333
        assert m.faults(top, **WRITE) == 0


# ---- filters ----


def test_excluded_cgroups_count_as_other(parent):
    with Daemon({"cgroups": {"exclude": [parent.path + "/hidden*"]}}) as daemon:
        with parent.child("hidden1") as hidden, parent.child("shown") as shown:
            before = daemon.metrics()
            for c in (hidden, shown):
                with Workload(c, "write", 1000) as work:
                    work.run()
            m = daemon.metrics()
            assert hidden.path not in m.cgroups()
            assert m.faults(shown, **WRITE) >= 1000
            assert m.faults(OTHER, **WRITE) - before.faults(OTHER, **WRITE) >= 1000


def test_only_included_cgroups_have_series(parent):
    with Daemon({"cgroups": {"include": [parent.path + "/*"]}}) as daemon:
        with parent.child("in") as inside, inside.child("deeper") as deeper:
            for c in (inside, deeper):
                with Workload(c, "write", 100) as work:
                    work.run()
            m = daemon.metrics()
            assert m.faults(inside, **WRITE) >= 100
            assert m.cgroups() <= {OTHER, inside.path}


def test_a_reload_that_changes_filters_resets_no_counter(parent):
    """Case 23."""
    with Daemon() as daemon, parent.child("a") as a, parent.child("b") as b:
        totals = Totals(daemon)
        works = [Workload(c, "write", 1000) for c in (a, b)]
        with works[0], works[1]:
            for w in works:
                w.run()
            m = totals.scrape()
            was = {c: m.faults(c) for c in (a, b)}
            assert m.faults(a, **WRITE) >= 1000 and m.faults(b, **WRITE) >= 1000

            daemon.reload({"cgroups": {"exclude": [b.path]}})
            m = totals.scrape()
            assert m.faults(a) == was[a]
            other = m.faults(OTHER, **WRITE)
            for w in works:
                w.run()
            m = totals.scrape()
            assert m.faults(a) - was[a] == 1000
            assert m.faults(OTHER, **WRITE) - other >= 1000

            # Back again: b is seen again, a never stopped.
            daemon.reload({})
            seen = totals.scrape().faults(b, **WRITE)
            for w in works:
                w.run()
            m = totals.scrape()
            assert m.faults(a) - was[a] == 2000
            assert m.faults(b, **WRITE) - seen == 1000


def test_a_reload_in_the_middle_of_work_loses_nothing(parent):
    need_perf()
    with Daemon() as daemon, parent.child("busy") as busy, Workload(busy, "write", 1000000) as work:
        totals = Totals(daemon)
        before = totals.scrape()
        work.go()
        excluded = False
        for _ in range(6):
            excluded = not excluded
            daemon.reload({"cgroups": {"exclude": [busy.path] if excluded else []}})
            totals.scrape()
        work.wait()
        m = totals.scrape()
        grown = sum(m.faults(c, **WRITE) - before.faults(c, **WRITE) for c in (busy.path, OTHER))
        assert grown >= 1000000


def test_a_reload_of_windows_keeps_totals(cgroup):
    with Daemon() as daemon, Workload(cgroup, "write", 1000) as work:
        work.run()
        was = daemon.faults(cgroup)
        daemon.reload({"windows": ["2s", "5s"], "interval": "200ms"})
        m = daemon.metrics()
        assert m.faults(cgroup) == was
        assert m.label_values("faultd_page_fault_rate", "window") == {"2s", "5s"}


# ---- rates ----


def test_rates_say_what_happened(cgroup):
    """10,000 faults within a window of 10 s, on a daemon that is older than the window."""
    with Daemon({"windows": ["1s", "2s"]}) as daemon, Workload(cgroup, "write", 10000) as work:
        time.sleep(2.5)
        work.run()
        time.sleep(0.3)
        rate = daemon.metrics().value("faultd_page_fault_rate", cgroup=cgroup.path, window="2s")
        assert 4500 <= rate <= 5600
        # It slides out again.
        wait_until(
            lambda: all(s.value == 0 for s in daemon.metrics().samples("faultd_page_fault_rate", cgroup=cgroup.path)),
            what="rates of 0",
        )
