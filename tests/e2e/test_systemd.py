# SPDX-License-Identifier: Apache-2.0
"""The unit as it is installed, on a real systemd: a minimal Debian in a container (tests/lib/nspawn.py) boots with it enabled."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sysconfig
import time

import fetch
import nspawn
import pytest
import yaml
from harness import EXIT_CONFIG, EXIT_OSERR, PROJECT, Metrics, Workload, need_bpf, need_built, wait_until

UNIT = "faultd.service"
URL = "http://127.0.0.1:11011"
# Beside what is installed, so that that stays as it is.
CONFIG = "/etc/faultd/faultd.yaml.d/50-test.yaml"
DROP_IN = f"/etc/systemd/system/{UNIT}.d/50-test.conf"
WORKLOAD = "/usr/local/bin/workload"
VICTIM = "/usr/local/bin/victim"
CAP_DAC_READ_SEARCH, CAP_PERFMON, CAP_BPF = 2, 38, 39
EXPOSURE_MAX = 2.5
ERR, NOTICE = "3", "5"

BROKEN = "windows: [10s]\ninterval: banana\n"
BROKEN_AT = re.escape(CONFIG) + r":2:11: \S"


# ---- the machine ----


def command(*argv, **options):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    assert done.returncode == 0, f"{' '.join(argv)}: exit code {done.returncode}\n{done.stdout}"
    return done.stdout


def distribution_build():
    """Build folder of a build as distributions make it. Kept, so that only changes are compiled."""
    build = os.path.join(fetch.CACHE, "build-usr")
    with fetch.lock():
        if not os.path.exists(os.path.join(build, "build.ninja")):
            shutil.rmtree(build, ignore_errors=True)
            command("meson", "setup", "--prefix=/usr", "-Dtests=false", build, PROJECT)
        command("ninja", "-C", build)
    return build


def packages_of(binary):
    """Packages of the libraries that a program is linked with."""
    needed = re.findall(r"NEEDED.*\[(.*)\]", command("readelf", "-d", binary))
    multiarch, found = sysconfig.get_config_var("MULTIARCH"), set()
    for name in needed:
        with contextlib.suppress(AssertionError):
            found.add(command("dpkg-query", "-S", f"*/{multiarch}/{name}").split(":")[0])
            continue
        pytest.skip(f"{name} comes from no package here, so a tree made of packages cannot have it")
    return found


@pytest.fixture(scope="module")
def machine():
    """Booted with faultd installed and enabled, and no file of it edited."""
    need_bpf()
    workload, victim, build = need_built("workload"), need_built("victim"), distribution_build()
    with contextlib.ExitStack() as stack:
        try:
            tree = stack.enter_context(nspawn.scratch_copy_of(nspawn.tree(*packages_of(os.path.join(build, "faultd")))))
            command("meson", "install", "-C", build, "--no-rebuild", env={**os.environ, "DESTDIR": tree})
            command("systemctl", f"--root={tree}", "enable", UNIT)
            shutil.copy(workload, tree + WORKLOAD)
            shutil.copy(victim, tree + VICTIM)
            yield stack.enter_context(nspawn.Machine(tree))
        except fetch.Unavailable as e:
            pytest.skip(str(e))


class Service:
    def __init__(self, machine):
        self.machine = machine

    def systemctl(self, *argv, check=True):
        return self.machine.run("systemctl", *argv, check=check)

    def show(self, key):
        return self.systemctl("show", "--value", "-p", key, UNIT).stdout.strip()

    @property
    def pid(self):
        return int(self.show("MainPID"))

    def is_up(self, besides=None):
        """Its main process if it runs and is another than that."""
        pid = self.pid
        return pid if self.show("SubState") == "running" and pid != besides else None

    def write(self, path, text):
        os.makedirs(os.path.dirname(self.machine.path(path)), exist_ok=True)
        with open(self.machine.path(path), "w") as f:
            f.write(text)

    def configure(self, config):
        self.write(CONFIG, config if isinstance(config, str) else yaml.safe_dump(config))

    def override(self, *lines):
        """Restarts it with other settings of the unit."""
        self.write(DROP_IN, "[Service]\n" + "\n".join(lines) + "\n")
        self.systemctl("daemon-reload")
        self.systemctl("restart", UNIT)

    def reset(self):
        """As it was installed, and freshly started."""
        for path in (CONFIG, DROP_IN):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.machine.path(path))
        self.systemctl("stop", UNIT)
        self.systemctl("daemon-reload")
        self.systemctl("reset-failed", UNIT, check=False)
        self.systemctl("start", UNIT)

    def signal(self, name):
        self.systemctl("kill", f"--signal={name}", "--kill-who=main", UNIT)

    def answers(self, url):
        return self.machine.get(url + "/metrics") is not None

    def metrics(self):
        text = self.machine.get(URL + "/metrics")
        assert text is not None, f"no answer from {URL}, {UNIT}: {self.show('SubState')}, {self.show('Result')}"
        return Metrics(text)

    def log(self):
        """What it has logged since its last start, restarts by systemd included."""
        return self.machine.journal(f"--after-cursor={self.cursor}", "SYSLOG_IDENTIFIER=faultd")

    def systemd_log(self):
        return [entry["MESSAGE"] for entry in self.machine.journal(f"--after-cursor={self.cursor}", "_PID=1", f"UNIT={UNIT}")]

    def find(self, pattern):
        """The first entry of log() that the regular expression finds, after waiting for it."""
        return wait_until(
            lambda: next((e for e in self.log() if re.search(pattern, e["MESSAGE"])), None), 5, f"{pattern!r} in the journal"
        )


@pytest.fixture
def service(machine):
    service = Service(machine)
    service.cursor = machine.journal("--lines=1")[0]["__CURSOR"]
    service.reset()
    yield service
    if service.machine.supervisor.poll() is None:
        service.reset()


def assert_place(entry, file):
    """The structured fields that every line of the daemon's own has."""
    assert entry["SYSLOG_IDENTIFIER"] == "faultd"
    assert entry["_SYSTEMD_UNIT"] == UNIT
    assert entry["_TRANSPORT"] == "journal"
    assert entry["CODE_FILE"].endswith(file), entry["CODE_FILE"]
    assert entry["CODE_FUNC"] and int(entry["CODE_LINE"]) > 0


# ---- as installed ----


def test_it_is_up_after_boot(machine):
    """The first of all: no test has touched it yet."""
    service = Service(machine)
    assert service.show("Type") == "notify"
    assert (service.show("ActiveState"), service.show("SubState"), service.show("NRestarts")) == ("active", "running", "0")
    assert service.show("UnitFileState") == "enabled"
    assert not os.path.exists(machine.path(CONFIG)) and not os.path.exists(machine.path(DROP_IN))
    assert service.metrics().value("faultd_config_last_reload_successful") == 1


def test_systemd_finds_nothing_to_complain_about(machine):
    done = machine.run("systemd-analyze", "verify", "--recursive-errors=no", UNIT)
    assert (done.stdout, done.stderr) == ("", "")


def test_its_exposure_is_small(machine, record_property):
    said = machine.run("systemd-analyze", "security", "--no-pager", UNIT).stdout
    score = float(re.search(rf"Overall exposure level for {re.escape(UNIT)}: ([0-9.]+)", said)[1])
    print(f"exposure {score}")
    record_property("exposure", score)
    open_points = "\n".join(line for line in said.splitlines() if line.startswith("✗"))
    assert score <= EXPOSURE_MAX, open_points


def test_it_says_how_it_is(service):
    status = wait_until(lambda: service.show("StatusText"), what="STATUS=")
    assert re.match(r"page faults by tracepoint: \d+/s in \d+ cgroups; 0 batches", status), status


def test_its_capabilities_are_enough_for_exact_counts(service):
    status = service.machine.run("cat", f"/proc/{service.pid}/status").stdout
    bounding = int(re.search(r"^CapBnd:\s*([0-9a-f]+)", status, re.M)[1], 16)
    assert bounding == 1 << CAP_DAC_READ_SEARCH | 1 << CAP_PERFMON | 1 << CAP_BPF
    assert service.metrics().value("faultd_probe_info", probe="page_faults", backend="tracepoint") == 1
    assert_place(service.find("^page faults by tracepoint: exact counts"), "daemon/pipeline.c")
    assert [e["MESSAGE"] for e in service.log() if e["PRIORITY"] <= "4"] == []


# ---- counting ----


class InUnit:
    """What Workload takes for a cgroup: programs that it starts are a service of the container."""

    def __init__(self, machine, unit):
        self.machine, self.unit = machine, unit

    def popen(self, argv, **options):
        run = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", f"--unit={self.unit}", WORKLOAD]
        return self.machine.popen(run + argv[1:], **options)


def test_a_unit_is_counted_by_its_name(service):
    with Workload(InUnit(service.machine, "victim.service"), "write", 64) as work:
        info = wait_until(lambda: service.metrics().samples("faultd_cgroup_info", unit="victim.service"), what="the unit")
        cgroup = info[0].labels["cgroup"]
        assert (len(info), info[0].labels["slice"]) == (1, "system.slice")
        assert cgroup.endswith("/system.slice/victim.service")
        writes = dict(mode="user", access="write", kind="missing")
        before = service.metrics().faults(cgroup, **writes)
        work.run()
        assert service.metrics().faults(cgroup, **writes) == before + 64
    # The last word of a unit that is gone.
    assert service.metrics().faults(cgroup, **writes) >= before + 64


def test_it_needs_no_system_call_that_is_denied(service):
    """With denial made deadly: start, names of cgroups that were there before, births, delivery over TLS, reload, end."""
    with Workload(InUnit(service.machine, "elder.service"), "write", 16) as work:
        service.configure({"ship": {"endpoint": "https://localhost:9", "interval": "1s"}})
        service.override("SystemCallErrorNumber=kill")
        began = service.pid
        work.run()
        wait_until(lambda: service.metrics().samples("faultd_cgroup_info", unit="elder.service"), what="the unit")
        with Workload(InUnit(service.machine, "younger.service"), "write", 16) as other:
            other.run()
        wait_until(lambda: service.metrics().value("faultd_ship_batches_total", outcome="retried") > 0, what="a delivery")
        service.systemctl("reload", UNIT)
        service.find("^configuration reloaded$")
        assert service.is_up() == began
    service.systemctl("stop", UNIT)
    assert (service.show("Result"), service.show("ExecMainStatus")) == ("success", "0")


# ---- reload ----


def test_a_reload_applies_a_good_configuration(service):
    pid, other = service.pid, "http://127.0.0.1:11012"
    assert not service.answers(other)
    service.configure({"scrape": {"listen": ["127.0.0.1:11011", "127.0.0.1:11012"]}})
    service.systemctl("reload", UNIT)
    wait_until(lambda: service.answers(other), what="the new address")
    assert service.metrics().value("faultd_config_reloads_total", result="ok") == 1
    entry = service.find("^configuration reloaded$")
    assert entry["PRIORITY"] == NOTICE
    assert_place(entry, "daemon/reload.c")
    assert (service.is_up(), service.show("ActiveState"), service.show("Result")) == (pid, "active", "success")


def test_a_reload_refuses_a_broken_configuration(service):
    pid = service.pid
    service.configure(BROKEN)
    service.systemctl("reload", UNIT)
    for message in (BROKEN_AT, "^reload failed .*: the old configuration stays$"):
        entry = service.find(message)
        assert entry["PRIORITY"] == ERR
        assert_place(entry, "daemon/reload.c")
    assert service.is_up() == pid
    assert service.metrics().value("faultd_config_last_reload_successful") == 0
    os.unlink(service.machine.path(CONFIG))
    service.systemctl("reload", UNIT)
    wait_until(lambda: service.metrics().value("faultd_config_last_reload_successful") == 1, what="recovery")
    assert service.is_up() == pid


# ---- ends and new beginnings ----


def test_a_hung_daemon_is_ended_and_started_again(service):
    service.override("WatchdogSec=2s", "RestartSec=100ms")
    pid, first = service.pid, service.show("WatchdogTimestampMonotonic")
    second = wait_until(lambda: {service.show("WatchdogTimestampMonotonic")} - {first}, what="a sign of life")
    wait_until(lambda: {service.show("WatchdogTimestampMonotonic")} - {first} - second, what="another sign of life")
    assert service.pid == pid
    service.signal("STOP")
    wait_until(lambda: service.is_up(besides=pid), what="another daemon")
    assert service.show("NRestarts") == "1"
    assert any("Watchdog timeout" in line for line in service.systemd_log())
    assert service.metrics().value("faultd_probe_info", probe="page_faults", backend="tracepoint") == 1


def test_a_killed_daemon_is_started_again(service):
    pid = service.pid
    service.signal("KILL")
    wait_until(lambda: service.is_up(besides=pid), what="another daemon")
    assert service.show("NRestarts") == "1"
    assert service.metrics().value("faultd_probe_info", probe="page_faults", backend="tracepoint") == 1


def start_in_vain(service, config):
    service.systemctl("stop", UNIT)
    service.configure(config)
    assert service.systemctl("start", UNIT, check=False).returncode != 0
    return service.show("ActiveState"), service.show("SubState")


def test_a_broken_configuration_is_not_tried_again(service):
    assert start_in_vain(service, BROKEN) == ("failed", "failed")
    assert (service.show("Result"), service.show("ExecMainStatus")) == ("exit-code", str(EXIT_CONFIG))
    entry = service.find(BROKEN_AT)
    assert (entry["SYSLOG_IDENTIFIER"], entry["_SYSTEMD_UNIT"]) == ("faultd", UNIT)


def test_a_broken_configuration_at_start_is_logged_as_an_error(service):
    start_in_vain(service, BROKEN)
    entry = service.find(BROKEN_AT)
    assert entry["PRIORITY"] == ERR
    assert_place(entry, "daemon/main.c")


def test_an_address_that_is_not_there_yet_is_tried_again(service):
    """The counterpart, which shows that "failed" above means something."""
    assert start_in_vain(service, {"scrape": {"listen": ["192.0.2.1:11011"]}}) == ("activating", "auto-restart")
    assert service.show("ExecMainStatus") == str(EXIT_OSERR)


def test_it_stops_at_once(service):
    service.metrics()
    began = time.monotonic()
    service.systemctl("stop", UNIT)
    assert time.monotonic() - began < 2
    assert (service.show("ActiveState"), service.show("Result"), service.show("ExecMainStatus")) == ("inactive", "success", "0")


# ---- crashes ----

MESSAGE_ID = re.search(r'JOURNAL_CRASH_MESSAGE_ID "([0-9a-f]{32})"', open(f"{PROJECT}/daemon/sink/journal.h").read())[1]


def crash(machine, unit, case):
    """A service that ends by a bad access."""
    # It stays for a moment: in a cgroup namespace what is gone has no name.
    script = f"{VICTIM} {case}; sleep 1; exit 1"
    machine.run("systemd-run", f"--unit={unit}", "--wait", "--quiet", "sh", "-c", script, check=False)


def crash_entries(machine, unit):
    """Not after a cursor: journalctl passes over an entry that matches where the cursor's own does not."""
    return machine.journal(f"MESSAGE_ID={MESSAGE_ID}", f"FAULTD_UNIT={unit}")


def test_a_crash_is_in_the_journal_with_its_fields(service):
    machine = service.machine
    crash(machine, "crashy.service", "null_write")
    entries = wait_until(lambda: crash_entries(machine, "crashy.service"), what="the crash in the journal")
    assert len(entries) == 1
    entry = entries[0]
    wanted = {
        "PRIORITY": "3",
        "SYSLOG_IDENTIFIER": "faultd",
        "_SYSTEMD_UNIT": UNIT,
        "FAULTD_CGROUP": "/system.slice/crashy.service",
        "FAULTD_COMM": "victim",
        "FAULTD_EXE": VICTIM,
        "FAULTD_SIGNAL": "SIGSEGV",
        "FAULTD_CODE": "maperr",
        "FAULTD_SI_CODE": "1",
        "FAULTD_ACCESS": "write",
        "FAULTD_ADDRESS_CLASS": "null page",
        "FAULTD_CORE": "none",
        "FAULTD_UID": "0",
    }
    assert {k: entry.get(k) for k in wanted} == wanted
    assert re.fullmatch(r"[0-9a-f]{16}", entry["FAULTD_FINGERPRINT"])
    build_id = re.search(r"Build ID: ([0-9a-f]+)", subprocess.run(["readelf", "-n", need_built("victim")], capture_output=True, text=True).stdout)
    assert build_id[1] in entry["FAULTD_FRAMES"].splitlines()[0]
    assert "crashy.service" in entry["MESSAGE"] and "SIGSEGV" in entry["MESSAGE"]
    # Addresses give away where a process has its memory.
    assert not {"FAULTD_ADDRESS", "FAULTD_IP", "FAULTD_SP"} & set(entry)


def test_the_catalog_explains_a_crash(service):
    machine = service.machine
    machine.run("journalctl", "--update-catalog")
    crash(machine, "explained.service", "read_only")
    wait_until(lambda: crash_entries(machine, "explained.service"), what="the crash in the journal")
    said = machine.run("journalctl", "--no-pager", "-x", f"MESSAGE_ID={MESSAGE_ID}", "FAULTD_UNIT=explained.service").stdout
    assert re.search(r"Subject: Process \d+ \(victim\) was killed by SIGSEGV \(accerr\)", said), said
    assert not re.search(r"@\w+@", said), said


def test_a_crash_loop_leaves_the_journal_readable(service):
    """Ten records, all crashes counted, and the next record says how many it stands for."""
    machine = service.machine
    machine.run("systemd-run", "--unit=looping.service", "--wait", "--quiet", VICTIM, "crowd", "300", "5", check=False)

    def counted():
        m = service.metrics()
        return m.sum("faultd_bad_accesses_total", cgroup="/system.slice/looping.service") == 300 or m.sum(
            "faultd_bad_accesses_total", cgroup="other", outcome="fatal"
        ) >= 300

    wait_until(counted, what="300 crashes")
    entries = crash_entries(machine, "looping.service")
    assert 10 <= len(entries) <= 12
    assert all(re.fullmatch(r"[1-9]\d{0,4}", e["FAULTD_PID_INSIDE"]) for e in entries)
    assert service.metrics().value("faultd_crash_records_total", result="suppressed") >= 288


def test_faultctl_tells_the_crashes(service):
    machine = service.machine
    crash(machine, "told.service", "past_eof")
    lines = wait_until(
        lambda: machine.run("faultctl", "crashes", "--cgroup", "/system.slice/told.service", "--json").stdout.splitlines(),
        what="the crash in the history",
    )
    told = json.loads(lines[0])
    assert (len(lines), told["unit"], told["signal"], told["code"]) == (1, "told.service", "SIGBUS", "adrerr")
    assert not {"address", "ip", "sp"} & set(told)
    text = machine.run("faultctl", "crashes", "--since", "1h", "--cgroup", "/system.slice/told.service").stdout
    assert text.count("\n") == 1 and "told.service" in text and "SIGBUS" in text
    assert machine.run("faultctl", "crashes", "--cgroup", "/nothing/**").stdout == ""
