# SPDX-License-Identifier: Apache-2.0
"""The main job in the foreground (make run): daemon, receiver and live view together."""

import contextlib
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import pytest
import yaml
from harness import BUILD, PROJECT, Workload, built, need_bpf, wait_until

DEV = os.path.join(PROJECT, "tests", "dev")
CONFIG = os.path.join(PROJECT, "config", "dev.yaml")
sys.path.insert(0, DEV)

import devrun  # noqa: E402
import exposition  # noqa: E402
import view  # noqa: E402


def free_address():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % s.getsockname()[1]


class DevRun:
    """devrun.py as a child; on a terminal of 80 x 24 if `term` is given, else with its output in a pipe."""

    def __init__(self, *args, term=None, scrape=None, collector=None):
        self.scrape, self.collector = scrape or free_address(), collector or free_address()
        self.args, self.term = args, term

    def __enter__(self):
        argv = [sys.executable, os.path.join(DEV, "devrun.py"), "--build", BUILD, "--log", os.path.join(BUILD, "devrun-test.log")]
        argv += ["--scrape", self.scrape, "--collector", self.collector, "--config", self._config(), *self.args]
        env = {**os.environ, "TERM": self.term or "dumb", "COLUMNS": "80", "LINES": "24"}
        master = out = None
        if self.term:
            try:
                master, out = pty.openpty()
            except OSError as e:  # a root without /dev/pts
                pytest.skip(f"no pseudo-terminal can be opened: {e}")
        self.process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=out or subprocess.PIPE, stderr=subprocess.PIPE, env=env, start_new_session=True
        )
        if out:
            os.close(out)
        self.master = master if self.term else self.process.stdout.fileno()
        self.output = b""
        return self

    def _config(self):
        """The development configuration, for the cgroups of these tests, which are of v2."""
        self.folder = tempfile.TemporaryDirectory(prefix="faultd-devrun-")
        copy = shutil.copy(CONFIG, self.folder.name)
        os.mkdir(copy + ".d")
        with open(os.path.join(copy + ".d", "hierarchy.yaml"), "w") as f:
            f.write("cgroups: {hierarchy: v2}\n")
        return copy

    def read(self, seconds):
        """Takes in what comes for a while; False when the other end is closed."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.master], [], [], left)[0]:
                return True
            try:
                data = os.read(self.master, 65536)
            except OSError:  # a terminal whose other end is closed
                data = b""
            if not data:
                return False
            self.output += data
        return True

    def ready(self):
        def answers():
            assert self.process.poll() is None, self.process.stderr.read()
            self.read(0.05)
            with contextlib.suppress(OSError):
                return urllib.request.urlopen(f"http://{self.scrape}/metrics", timeout=2).status == 200

        return wait_until(answers, 20, "/metrics of the dev run")

    def end(self, timeout=30):
        """Its exit code, all output taken in."""
        until = time.monotonic() + timeout
        while self.read(1):
            assert time.monotonic() < until, "the dev run does not end"
        return self.process.wait(10)

    @property
    def text(self):
        return self.output.decode()

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(15)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()
        self.folder.cleanup()
        if self.term:
            os.close(self.master)
        else:
            self.process.stdout.close()


def blocks(text):
    """The views in plain output."""
    return [block for block in re.split(r"(?m)^(?=faultd \d+ s)", text) if block.startswith("faultd")]


def column(block, name, row):
    """The number in a column of the last line that `row` matches."""
    lines = block.splitlines()
    titles = next(line for line in lines if line.startswith("CGROUP"))
    end = titles.index(name) + len(name)
    found = [line for line in lines if re.search(row, line)]
    return found[-1][end - view.COLUMN : end].strip() if found else None


def totals(block, cgroup):
    """(user writes in the table, user writes at the receiver) of the one cgroup that is shown."""
    lines = block.splitlines()
    tail = cgroup.path[-10:]
    at = next((i for i, line in enumerate(lines) if tail in line), None)
    if at is None:
        return None, None
    titles = next(line for line in lines if line.startswith("CGROUP"))
    end = titles.index("u.write") + len("u.write")
    received = [line for line in lines[at + 2 :] if line.startswith("  ") and tail in line]
    return tuple(int(line[end - view.COLUMN : end]) if line else None for line in (lines[at + 1], received[-1] if received else None))


@pytest.fixture
def bpf():
    need_bpf()
    assert os.path.exists(CONFIG)


def test_sixteen_writes_on_both_sides(bpf, cgroup):
    with Workload(cgroup, "write", 16) as work, DevRun("--cgroup", cgroup.path, "--once", "14") as run:
        run.ready()
        work.run()
        assert run.end() == 0, run.process.stderr.read()
        last = blocks(run.text)[-1]
        assert totals(last, cgroup) == (16, 16), last
        assert "the same as /metrics" in last
        assert "\x1b" not in run.text
        assert all(len(line) <= 80 for line in last.splitlines()), last


def test_the_terminal_view(bpf, cgroup):
    with Workload(cgroup, "write", 16) as work, DevRun("--cgroup", cgroup.path, term="xterm") as run:
        run.ready()
        work.run()

        def shown():
            run.read(0.5)
            frame = run.text.split("\x1b[H")[-1]
            lines = re.sub(r"\x1b\[[?0-9]*[a-zA-Z]", "", frame).replace("\r\n", "\n")
            try:
                return totals(lines, cgroup) == (16, 16) and lines
            except (StopIteration, ValueError):
                return False  # half a frame

        frame = wait_until(shown, 30, "16 writes on both sides of the view")
        assert len(frame.splitlines()) <= 24
        assert all(len(line) <= 80 for line in frame.splitlines()), frame

        run.process.send_signal(signal.SIGINT)
        assert run.end() == 0, run.process.stderr.read()
        # The screen is given back, and what was seen last stays.
        after = run.text.rsplit("\x1b[?1049l", 1)
        assert len(after) == 2 and "\x1b[?25h" in run.text
        assert "faultd ended with exit code 0" in after[1]
        assert "Traceback" not in run.text + run.process.stderr.read().decode()


def test_a_dumb_terminal_gets_no_escape_codes(bpf):
    with DevRun("--once", "7", term="dumb") as run:
        assert run.end() == 0
        assert "\x1b" not in run.text and blocks(run.text)


def test_the_daemon_ends_with_it(bpf):
    with DevRun() as run:
        run.ready()
        run.process.send_signal(signal.SIGTERM)
        assert run.end() == 0
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://{run.scrape}/metrics", timeout=2)


def test_it_does_not_outlive_a_killed_dev_run(bpf):
    with DevRun() as run:
        run.ready()
        run.process.kill()
        run.process.wait()

        def gone():
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://{run.scrape}/metrics", timeout=2)
                return False
            return True

        wait_until(gone, 10, "the end of the daemon")


@pytest.mark.parametrize("side", ["scrape", "collector"])
def test_a_port_that_is_taken(side):
    if not built("faultd"):
        pytest.fail("faultd is not built")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        with DevRun("--once", "5", **{side: address}) as run:
            assert run.end() == 1
            error = run.process.stderr.read().decode()
            assert address in error and "in use" in error and len(error.splitlines()) == 1, error


def test_a_configuration_that_is_wrong(tmp_path):
    path = tmp_path / "dev.yaml"
    path.write_text("intervall: 1s\n")
    with DevRun("--once", "5", "--config", str(path)) as run:
        assert run.end() == 78
        error = run.process.stderr.read().decode()
        assert "intervall" in error and "exit code 78" in error, error


def test_the_development_configuration_says_where():
    with open(CONFIG) as f:
        config = yaml.safe_load(f)
    assert config["scrape"]["listen"] == [devrun.SCRAPE]
    assert config["ship"]["endpoint"] == f"http://{devrun.COLLECTOR}"


# ---- the view alone: text from data ----

EXPOSITION = """\
# TYPE faultd_page_faults_total counter
faultd_page_faults_total{cgroup="/a\\"b\\\\c\\n\x1b[2J",mode="user",access="write",kind="missing"} 16
faultd_page_faults_total{cgroup="/a\\"b\\\\c\\n\x1b[2J",mode="kernel",access="read",kind="protection"} 123456789
faultd_page_faults_total{cgroup="other",mode="user",access="exec",kind="missing"} 1
faultd_page_fault_rate{cgroup="other",window="10s"} 99.5
faultd_probe_info{probe="page_faults",backend="tracepoint"} 1
faultd_drops_total{reason="no_slot"} 3
faultd_drops_total{reason="table_full"} 4
process_open_fds 12
"""


def state(before=None, **more):
    return view.State(10, exposition.parse(EXPOSITION, 5.0), before and exposition.parse(before, 3.0), **more)


def test_the_exposition_is_understood():
    scrape = exposition.parse(EXPOSITION, 0)
    name = '/a"b\\c\n\x1b[2J'
    assert scrape.groups[name].total("user", "write") == 16
    assert scrape.groups[name].total(kind="protection") == 123456789
    assert scrape.groups[name].major is None
    assert scrape.probes == {"page_faults": "tracepoint"}
    assert scrape.other("faultd_drops_total") == 7
    with pytest.raises(ValueError):
        exposition.parse('faultd{a="b} 1\n', 0)


def test_names_cannot_steer_the_terminal():
    text = "\n".join(view.render(state()))
    assert "\x1b" not in text and "\\u001b[2J" in text


def test_rates_are_growth_over_time():
    before = EXPOSITION.replace('kind="missing"} 16', 'kind="missing"} 6')
    lines = view.render(state(before))
    assert column("\n".join(lines), "u.write", r"^/a") == "5.0"  # 10 more in 2 s


def test_large_totals_keep_to_their_column():
    lines = view.render(state())
    assert all(len(line) <= 80 for line in lines)
    assert "123.5M" in "\n".join(lines)


def test_other_comes_last_and_the_view_keeps_to_its_height():
    groups = "".join(
        f'faultd_page_faults_total{{cgroup="/{i}",mode="user",access="read",kind="missing"}} {i}\n' for i in range(100)
    )
    now = exposition.parse(EXPOSITION + groups, 5.0)
    assert view.busiest(view.State(1, now))[-1] == "other"
    for height in (20, 24, 60):
        assert len(view.render(view.State(1, now, log=view.Log(1, 0, ["a", "b", "c"], "f")), 80, height)) <= height


def test_totals_without_classes_have_columns_of_their_own():
    text = 'faultd_page_faults_total{cgroup="/a",mode="unknown",access="unknown",kind="unknown"} 7\n'
    lines = view.render(view.State(1, exposition.parse(text, 1)))
    assert column("\n".join(lines), "all", r"^  .*7") == "7"
