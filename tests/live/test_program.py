# SPDX-License-Identifier: Apache-2.0
"""The program as its operator meets it: exit codes, --check, reload, stop."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest
import yaml
from harness import (
    EXIT_CONFIG,
    EXIT_NOPERM,
    EXIT_OSERR,
    EXIT_USAGE,
    FAULTD,
    Daemon,
    Workload,
    loaded_programs,
    need_bpf,
    need_built,
    need_program,
    need_root,
    ownerless_programs,
    programs_of,
    run_faultd,
    wait_until,
)

# As nobody, with no capability left.
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]


@pytest.fixture(autouse=True)
def _built():
    need_built("faultd")


# ---- command line ----


def test_version():
    result = run_faultd("--version")
    assert result.returncode == 0
    assert re.match(r"faultd \d+\.\d+\.\d+", result.stdout)


def test_help():
    result = run_faultd("--help")
    assert result.returncode == 0
    for option in ("--config", "--check", "--version"):
        assert option in result.stdout


@pytest.mark.parametrize("args", [["--no-such-option"], ["stray"], ["--config"]])
def test_wrong_command_line(args):
    result = run_faultd(*args)
    assert result.returncode == EXIT_USAGE
    assert result.stderr
    assert "panic" not in result.stderr


# ---- --check ----


def test_check_prints_the_effective_configuration_and_the_plan():
    need_bpf()
    before = ownerless_programs()
    result = run_faultd("--check", config={"cgroups": {"max": 77}})
    assert result.returncode == 0, result.stderr
    wait_until(lambda: ownerless_programs() <= before, 5, "detaching of all programs")
    effective = yaml.safe_load(result.stdout)  # the plan must not get in the way of feeding this back
    assert effective["cgroups"]["max"] == 77
    assert "page faults by tracepoint" in result.stdout


def test_the_effective_configuration_can_be_fed_back():
    need_bpf()
    first = run_faultd("--check", config={"cgroups": {"exclude": ["/a b/**", "/it's\"/*"]}, "ship": {"headers": {}}})
    assert first.returncode == 0, first.stderr
    second = run_faultd("--check", config=first.stdout)
    assert second.returncode == 0, second.stderr
    assert yaml.safe_load(first.stdout) == yaml.safe_load(second.stdout)


BAD = """\
interval: 10x
windws: [1s]
cgroups:
  max: -1
scrape:
  listen: 5
log: {level: loud}
"""


def test_check_lists_all_errors_at_once():
    result = run_faultd("--check", config=BAD)
    assert result.returncode == EXIT_CONFIG
    found = re.findall(r"faultd\.yaml:(\d+):(\d+): (.*)", result.stderr)
    lines = {int(line) for line, _, _ in found}
    assert {1, 2, 4, 6, 7} <= lines, result.stderr
    assert "windows" in next(text for line, _, text in found if line == "2")  # the near miss


def test_a_bad_file_stops_the_start_too():
    result = run_faultd(config=BAD)
    assert result.returncode == EXIT_CONFIG
    assert "faultd.yaml:1:" in result.stderr


@pytest.mark.parametrize(
    "text",
    [
        b"\x00\x01\x02",
        b"{",
        b"- a\n- b\n",
        b"a: &x [*x]\n",
        b"a: &a [1]\nb: &b [*a,*a,*a,*a]\nc: [*b,*b,*b,*b]\n",
        b"interval: 1s\n---\ninterval: 2s\n",
        b"interval: 1s\ninterval: 2s\n",
        b"\xff\xfe\x00i",
        b"interval: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n",
        b"x" * 100000 + b": 1\n",
        b"cgroups: {max: 99999999999999999999999}\n",
        b"\tinterval: 1s\n",
    ],
    ids=["nul", "open", "list", "loop", "anchors", "two documents", "duplicate", "utf-16", "nested", "long key", "huge", "tab"],
)
def test_bad_files_are_told_and_kill_nothing(text):
    result = run_faultd("--check", config=text)
    assert result.returncode == EXIT_CONFIG, (result.returncode, result.stderr)
    assert "faultd.yaml" in result.stderr


@pytest.mark.parametrize("text", [b"", b"# nothing\n", b"\xef\xbb\xbfinterval: 1s\n", b"interval: 1s\r\nwindows: [10s]\r\n"],
                         ids=["empty", "comments", "byte-order mark", "crlf"])
def test_files_that_are_fine(text):
    need_bpf()
    result = run_faultd("--check", config=text)
    assert result.returncode == 0, result.stderr


def test_no_such_file():
    result = run_faultd("--config", "/nonexistent/faultd.yaml")
    assert result.returncode == EXIT_CONFIG
    assert "/nonexistent/faultd.yaml" in result.stderr


def test_a_folder_instead_of_a_file():
    result = run_faultd("--config", "/etc")
    assert result.returncode == EXIT_CONFIG
    assert "/etc" in result.stderr


# ---- what cannot work ----


def need_nobody():
    need_root()
    need_program("setpriv", "util-linux")
    if subprocess.run(AS_NOBODY + ["test", "-x", FAULTD]).returncode:
        pytest.skip("the build folder is closed to nobody")


def test_without_root():
    need_nobody()
    began = time.monotonic()
    result = run_faultd(config={"probes": {"page_faults": "tracepoint"}}, prefix=AS_NOBODY)
    assert result.returncode == EXIT_NOPERM, result.stderr
    assert time.monotonic() - began < 5
    assert re.search(r"permi|CAP_BPF|root", result.stderr)
    said = [line for line in result.stderr.splitlines() if "debug:" not in line]
    assert 0 < len(said) < 10, "a clear line, not a flood"


def test_without_root_it_goes_down_the_ladder():
    """memory.stat needs no privilege where its files are readable: a degraded run, and it says what is lost."""
    need_nobody()
    with Daemon({"cgroups": {"hierarchy": "auto"}}, prefix=AS_NOBODY, wait=False) as daemon:
        wait_until(lambda: daemon.notify.count("READY") or not daemon.running(), what="ready or an end")
        if not daemon.running():
            assert daemon.wait_exit() == EXIT_NOPERM
            return
        assert daemon.metrics().value("faultd_probe_info", probe="page_faults", backend="memcg") == 1
        assert re.search(r"CAP_BPF", daemon.log)


def test_with_only_the_capabilities_of_the_unit(cgroup):
    """CAP_BPF and CAP_PERFMON count; what CAP_DAC_READ_SEARCH would add is missed and said."""
    need_bpf()
    need_program("setpriv", "util-linux")
    caps = "+bpf,+perfmon"
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", f"--inh-caps=-all,{caps}",
              f"--ambient-caps=-all,{caps}", f"--bounding-set=-all,{caps}"]
    if subprocess.run(prefix + ["test", "-x", FAULTD], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("setpriv cannot give capabilities here, or the build folder is closed to nobody")
    with Daemon(prefix=prefix) as daemon, Workload(cgroup, "write", 1000) as work:
        before = daemon.faults(cgroup, mode="user", access="write")
        work.run()
        assert daemon.faults(cgroup, mode="user", access="write") - before == 1000


def test_port_taken():
    need_bpf()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        result = run_faultd(config={"scrape": {"listen": [address]}})
    assert result.returncode == EXIT_OSERR, result.stderr
    assert address in result.stderr


def test_an_address_of_another_host():
    need_bpf()
    result = run_faultd(config={"scrape": {"listen": ["192.0.2.1:1"]}})
    assert result.returncode == EXIT_OSERR, result.stderr
    assert "192.0.2.1" in result.stderr


def test_unix_socket_in_a_folder_that_is_not_there():
    need_bpf()
    result = run_faultd(config={"scrape": {"listen": ["unix:/nonexistent/metrics.sock"]}})
    assert result.returncode == EXIT_OSERR, result.stderr
    assert "/nonexistent" in result.stderr


def test_collector_absent():
    """Nobody listens there: the daemon counts on, and says so."""
    need_bpf()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with Daemon({"ship": {"endpoint": f"http://127.0.0.1:{port}", "interval": "1s"}}) as daemon:
        wait_until(lambda: daemon.metrics().sum("faultd_ship_batches_total", outcome="retried") > 0, what="a failed delivery")
        assert re.search(r"(?i)refused|connect", daemon.log)


# ---- reload ----


def test_reload_with_a_broken_file_keeps_the_old_one(cgroup):
    """Case 23."""
    need_bpf()
    with Daemon({"cgroups": {"max": 55}}) as daemon, Workload(cgroup, "write", 100) as work:
        work.run()
        m = daemon.metrics()
        assert m.value("faultd_config_last_reload_successful") == 1
        limit, was = m.value("faultd_cgroups_limit"), m.faults(cgroup)

        daemon.reload(BAD)
        m = daemon.metrics()
        assert m.value("faultd_config_last_reload_successful") == 0
        assert m.value("faultd_config_reloads_total", result="failed") == 1
        assert m.value("faultd_cgroups_limit") == limit
        assert m.faults(cgroup) == was
        assert "faultd.yaml:1:" in daemon.log
        work.run()
        assert daemon.faults(cgroup) == was + 100

        daemon.reload({"cgroups": {"max": 55}})
        m = daemon.metrics()
        assert m.value("faultd_config_last_reload_successful") == 1
        assert m.value("faultd_config_reloads_total", result="ok") == 1
        assert m.faults(cgroup) == was + 100


def test_reload_when_the_file_is_gone(cgroup):
    need_bpf()
    with Daemon() as daemon:
        os.unlink(daemon.config_path)
        daemon.reload()
        assert daemon.metrics().value("faultd_config_last_reload_successful") == 0


def test_a_stream_of_reloads_does_not_stop_the_clock():
    need_bpf()
    with Daemon({"interval": "500ms", "windows": ["5s"]}) as daemon:
        before = daemon.metrics().value("faultd_ticks_total")
        for _ in range(15):
            daemon.reload()
            time.sleep(0.2)
        assert daemon.metrics().value("faultd_ticks_total") - before >= 5


def test_a_reload_that_fails_changes_nothing():
    """New windows, and a scrape address that is taken: neither."""
    need_bpf()
    with socket.socket() as taken, Daemon() as daemon:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        windows = daemon.metrics().label_values("faultd_page_fault_rate", "window")
        daemon.reload({"windows": ["3s"], "scrape": {"listen": ["127.0.0.1:%d" % taken.getsockname()[1]]}})
        m = daemon.metrics()
        assert m.label_values("faultd_page_fault_rate", "window") == windows
        assert m.value("faultd_config_last_reload_successful") == 0


def test_a_reload_can_widen_the_address_of_the_same_port():
    need_bpf()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with Daemon({"scrape": {"listen": [f"127.0.0.1:{port}"]}}) as daemon:
        daemon.reload({"scrape": {"listen": [f"127.0.0.1:{port}", f"[::1]:{port}"]}})
        assert daemon.metrics().value("faultd_config_last_reload_successful") == 1
        daemon.reload({"scrape": {"listen": [f"127.0.0.2:{port}", f"127.0.0.1:{port}"]}})
        assert daemon.metrics().value("faultd_config_last_reload_successful") == 1


def test_many_reloads_leak_nothing():
    need_bpf()
    with Daemon() as daemon:
        daemon.reload()
        fds = len(os.listdir(f"/proc/{daemon.pid}/fd"))
        programs = programs_of(daemon.pid)
        for i in range(30):
            daemon.reload({"cgroups": {"exclude": [f"/x{i}/**"]}} if i % 3 else BAD)
        assert len(os.listdir(f"/proc/{daemon.pid}/fd")) <= fds
        assert programs_of(daemon.pid) == programs


# ---- stop ----


@contextlib.contextmanager
def hanging_collector():
    """Accepts, reads, and never answers. Gives its URL and an event that is set when a request has come."""
    came = threading.Event()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        open_connections = []

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = s.accept()
                    open_connections.append(connection)
                    connection.recv(65536)
                    came.set()

        threading.Thread(target=serve, daemon=True).start()
        yield "http://127.0.0.1:%d" % s.getsockname()[1], came
        for c in open_connections:
            c.close()
        with contextlib.suppress(OSError):
            s.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_stop_is_quick_and_leaves_nothing(sig):
    need_bpf()
    with Daemon() as daemon:
        programs = programs_of(daemon.pid)
        assert programs and programs <= loaded_programs()
        began = time.monotonic()
        os.kill(daemon.pid, sig)
        assert daemon.process.wait(5) == 0
        assert time.monotonic() - began < 1
        assert daemon.notify.count("STOPPING") == 1
        daemon.wait = False  # its end is what was wanted
    # Programs go when the last descriptor does, a little after the process.
    wait_until(lambda: not programs & loaded_programs(), 5, "removal of the programs")


def test_a_hanging_collector_delays_nothing(cgroup):
    """Case 25: neither scrapes nor reload nor stop."""
    need_bpf()
    with hanging_collector() as (url, came):
        config = {"ship": {"endpoint": url, "interval": "1s", "timeout": "5m"}}
        with Daemon(config) as daemon:
            assert came.wait(10), "no request came"
            for act in (daemon.metrics, lambda: daemon.reload(config)):
                began = time.monotonic()
                act()
                assert time.monotonic() - began < 1
            assert came.wait(10)
            assert daemon.stop() < 1


def test_stop_with_a_scrape_half_way():
    need_bpf()
    with Daemon() as daemon:
        host, port = daemon.address.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as s:
            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
            time.sleep(0.2)
            assert daemon.stop() < 1


def test_a_lost_standard_error_kills_nothing(cgroup):
    need_bpf()
    with Daemon() as daemon:
        # SIGPIPE and friends: signals that a daemon must not die of.
        os.kill(daemon.pid, signal.SIGPIPE)
        time.sleep(0.2)
        assert daemon.running()
        daemon.metrics()


# ---- at rest ----


def test_watchdog_is_fed():
    need_bpf()
    with Daemon(env={"WATCHDOG_USEC": "1000000"}) as daemon:
        wait_until(lambda: daemon.notify.count("WATCHDOG") >= 3, 5, "three signs of life")


def test_the_status_line_says_something():
    need_bpf()
    with Daemon() as daemon:
        wait_until(lambda: daemon.status, 5, "a status line")


def test_the_backend_is_named():
    need_bpf()
    with Daemon() as daemon:
        m = daemon.metrics()
        assert m.value("faultd_probe_info", probe="page_faults", backend="tracepoint") == 1
        assert m.sum("faultd_build_info") == 1
        assert "page faults by tracepoint" in daemon.log


def test_probe_off():
    need_root()
    with Daemon({"probes": {"page_faults": "off"}}) as daemon:
        m = daemon.metrics()
        assert m.value("faultd_probe_info", probe="page_faults", backend="off") == 1
        assert m.faults() == 0
