# SPDX-License-Identifier: Apache-2.0
"""The collector is absent, slow, or hangs: the daemon counts and serves on, and its counters say what happened."""

import contextlib
import socket
import time

import pytest
from harness import Cgroup, Daemon, Workload, need_bpf, wait_until
from receiver import Answer, Receiver

QUICK = 1.0  # seconds that a scrape may take while the collector troubles us; it takes milliseconds


@pytest.fixture(autouse=True)
def bpf():
    need_bpf()


def ship_to(url, **more):
    return {"ship": {"endpoint": url, "interval": "1s", **more}}


def batches(daemon, outcome):
    return daemon.metrics().sum("faultd_ship_batches_total", outcome=outcome)


def assert_serves(daemon, cgroup):
    """Counting and scraping go on, at once."""
    with Workload(cgroup, "write", 16) as work:
        before = daemon.faults(cgroup, mode="user", access="write")
        work.run()
        began = time.monotonic()
        after = daemon.faults(cgroup, mode="user", access="write")
        assert time.monotonic() - began < QUICK
        assert after - before == 16


@contextlib.contextmanager
def reserved_port():
    """A port of loopback where nobody listens, and nobody else will."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", 0))
        yield s.getsockname()[1]


@contextlib.contextmanager
def hanging_server():
    """Takes connections and never says a word: the kernel does the taking."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as s:
        yield f"http://127.0.0.1:{s.getsockname()[1]}"


def test_an_absent_collector(cgroup):
    with reserved_port() as port, Daemon(ship_to(f"http://127.0.0.1:{port}")) as daemon:
        wait_until(lambda: batches(daemon, "retried") >= 1, 20, "a retry")
        metrics = daemon.metrics()
        assert metrics.value("faultd_ship_queue_batches") >= 1
        assert metrics.value("faultd_ship_queue_bytes") > 0
        assert metrics.sum("faultd_ship_batches_total", outcome="sent") == 0
        assert_serves(daemon, cgroup)
        assert daemon.running()
        assert daemon.stop() < 3


def test_an_absent_collector_that_comes_up(cgroup):
    with reserved_port() as port:
        daemon = Daemon(ship_to(f"http://127.0.0.1:{port}")).start()
        stop = contextlib.ExitStack()
        stop.callback(daemon.kill)
    with stop:
        wait_until(lambda: batches(daemon, "retried") >= 1, 20, "a retry")
        with Receiver(port) as receiver:
            receiver.wait(3, timeout=60)
            wait_until(lambda: daemon.metrics().value("faultd_ship_queue_batches") == 0, 30, "an empty queue")
            assert batches(daemon, "sent") >= 3
            assert daemon.metrics().sum("faultd_ship_dropped_data_points_total") == 0


def test_a_slow_collector(cgroup):
    with Receiver(answer=lambda batch: Answer(delay=2)) as receiver:
        with Daemon(ship_to(receiver.url, timeout="20s")) as daemon:
            receiver.wait(1)  # one is under way from now on
            assert_serves(daemon, cgroup)
            wait_until(lambda: batches(daemon, "sent") >= 2, 20, "two batches")
            assert batches(daemon, "retried") == 0
            assert daemon.stop() < 3


def test_a_hanging_collector(cgroup):
    with hanging_server() as url, Daemon(ship_to(url, timeout="500ms")) as daemon:
        wait_until(lambda: batches(daemon, "retried") >= 1, 20, "a retry")
        assert_serves(daemon, cgroup)
        assert daemon.metrics().value("faultd_ship_queue_batches") >= 1
        assert batches(daemon, "sent") == 0


def test_a_hanging_collector_delays_neither_stop_nor_reload(cgroup):
    with hanging_server() as url, Daemon(ship_to(url, timeout="60s")) as daemon:
        time.sleep(2.5)  # a request is under way and will be for a minute
        assert_serves(daemon, cgroup)
        began = time.monotonic()
        daemon.reload(ship_to(url, timeout="50s"))
        assert time.monotonic() - began < 3
        assert daemon.stop() < 3


def test_a_queue_that_is_full_drops_and_counts():
    """Batches of twenty cgroups fill the smallest queue in a few seconds; then the oldest go and are counted."""
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(reserved_port())
        more = dict(queue={"max_size": "64KiB"}, compression="none")
        daemon = stack.enter_context(Daemon(ship_to(f"http://127.0.0.1:{port}", **more)))
        for _ in range(20):
            assert stack.enter_context(Cgroup()).popen(["/bin/true"]).wait() == 0

        def dropped():
            return daemon.metrics().sum("faultd_ship_dropped_data_points_total", reason="queue_full")

        wait_until(lambda: dropped() > 0, 30, "a drop")
        metrics = daemon.metrics()
        assert metrics.value("faultd_ship_queue_limit_bytes") == 64 << 10
        assert 0 < metrics.value("faultd_ship_queue_bytes") <= 64 << 10
        assert daemon.running()


def test_a_collector_that_refuses():
    with Receiver(answer=lambda batch: Answer(400, b"")) as receiver, Daemon(ship_to(receiver.url)) as daemon:
        wait_until(lambda: batches(daemon, "rejected") >= 1, 20, "a rejection")
        assert daemon.metrics().sum("faultd_ship_dropped_data_points_total", reason="rejected") > 0
        assert batches(daemon, "retried") == 0


def test_a_collector_that_is_busy_gets_the_same_batch_again():
    answers = iter([Answer(503, headers={"Retry-After": "1"})])
    with Receiver(answer=lambda batch: next(answers, Answer())) as receiver, Daemon(ship_to(receiver.url)) as daemon:
        first, second = receiver.wait(2)[:2]
        assert first.body == second.body
        assert second.received - first.received >= 0.9
        wait_until(lambda: batches(daemon, "sent") >= 1, 20, "a delivery")
        assert batches(daemon, "retried") == 1
        assert daemon.metrics().sum("faultd_ship_dropped_data_points_total") == 0
