# SPDX-License-Identifier: Apache-2.0
"""A small Debian with systemd as its init, in a container on this kernel.

    with Machine(scratch_copy_of(tree("libbpf1"))) as machine:
        machine.run("systemctl", "status")

tree() gives a cached folder that is never booted itself. What cannot be had is fetch.Unavailable with the reason. When a Machine
is left, nothing of it runs, is mounted or remains as a cgroup.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import fetch
import harness

SYSTEMD = ("systemd", "systemd-sysv", "dbus")
NOT_UNPACKED = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")
# systemd-sysctl would set the host's; the others are of no use in a container and take time.
MASKED = ("systemd-sysctl.service", "console-getty.service", "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer")
# bpf(2) is in neither nspawn's default filter nor its bounding set; there is no machined to register with.
OPTIONS = ("--quiet", "--register=no", "--keep-unit", "--private-network", "--console=pipe", "--capability=all")
OPTIONS += ("--system-call-filter=@known",)
BOOT_TIMEOUT = 60
STOP_TIMEOUT = 20
PR_SET_PDEATHSIG = 1


# ---- the tree ----


def _proxies():
    """--aptopt for the proxies that this machine's apt uses: mmdebstrap does not read its configuration."""
    lines = fetch.output("apt-config", "dump", "Acquire").splitlines()
    return [f"--aptopt={line}" for line in lines if re.match(r'Acquire::https?::Proxy\S* "[^"]', line)]


def _make(recipe, suite, mirror, target):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=fetch.CACHE) as scratch:
        made = os.path.join(scratch, "tree")
        # In namespaces of its own: if it is killed nothing stays mounted where the scratch folder is about to be removed.
        inside = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
        fetch.output(*inside, "mmdebstrap", "--quiet", *_proxies(), *recipe, suite, made, mirror)
        os.rename(made, target)


def tree(*packages):
    """Folder of a minimal tree of this machine's release with systemd and the packages. Raises fetch.Unavailable."""
    for program, package in (("mmdebstrap", "mmdebstrap"), ("systemd-nspawn", "systemd-container"), ("unshare", "util-linux")):
        if not shutil.which(program):
            raise fetch.Unavailable(f"{program} is not installed (package {package})")
    recipe = ["--mode=root", "--variant=minbase", f"--keyring={fetch.keyring()}"]
    recipe += ["--include=" + ",".join(SYSTEMD + tuple(sorted(packages)))]
    recipe += [f"--dpkgopt=path-exclude={path}" for path in NOT_UNPACKED]
    suite, mirror = fetch.own_suite(), fetch.mirror()
    name = hashlib.sha256(json.dumps([recipe, suite, mirror]).encode()).hexdigest()[:12]
    target = os.path.join(fetch.CACHE, "trees", name)
    with fetch.lock():
        if not os.path.isdir(target):
            # What is there is of recipes that have changed.
            shutil.rmtree(os.path.dirname(target), ignore_errors=True)
            _make(recipe, suite, mirror, target)
    return target


@contextlib.contextmanager
def scratch_copy_of(folder):
    """A copy to be changed and booted, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="faultd-tree-") as scratch:
        copy = os.path.join(scratch, "tree")
        subprocess.run(["cp", "-a", "--reflink=auto", folder, copy], check=True)
        for unit in MASKED:
            os.symlink("/dev/null", os.path.join(copy, "etc/systemd/system", unit))
        yield copy


# ---- the container ----


def _systemd_v1_mount():
    """Where a hybrid host has the hierarchy in which systemd-nspawn repeats its cgroups of v2; None elsewhere."""
    with open("/proc/self/mountinfo") as f:
        for line in f:
            left, _, right = line.partition(" - ")
            if right.startswith("cgroup ") and "name=systemd" in right.split()[-1].split(","):
                return left.split()[4]
    return None


def _clear(top):
    """Ends what runs in a cgroup and removes all below it. True once nothing is left."""
    left = 0
    for folder, _, _ in os.walk(top, topdown=False):
        with open(os.path.join(folder, "cgroup.procs")) as f:
            pids = [int(line) for line in f]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        left += len(pids)
        try:
            if folder != top:
                os.rmdir(folder)
        except OSError:
            left += 1
    return left == 0


class Machine:
    """A booted container. .tree is its root folder, which may be written to from outside while it runs."""

    def __init__(self, folder):
        self.tree = folder
        self.init = None
        self.supervisor = None

    def __enter__(self):
        # One of our own, so that what nspawn leaves behind can be found.
        self.cgroup = harness.Cgroup()
        try:
            self._try()
            self._boot()
        except BaseException:
            self.__exit__()
            raise
        return self

    def path(self, inside):
        return os.path.join(self.tree, inside.lstrip("/"))

    # -- life --

    def _start(self, log, *command):
        libc = ctypes.CDLL(None)
        procs = self.cgroup.file("cgroup.procs", os.O_WRONLY)

        def prepare():
            # Shuts the container down, should the test itself be killed.
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            os.write(procs, b"0")

        argv = ["systemd-nspawn", *OPTIONS, f"--machine={self.cgroup.name.decode()}", "-D", self.tree, *command]
        env = {k: v for k, v in os.environ.items() if not k.startswith("SYSTEMD_") and k not in ("NOTIFY_SOCKET", "LISTEN_FDS")}
        # Without it a hybrid host's container never gets up.
        env["SYSTEMD_NSPAWN_UNIFIED_HIERARCHY"] = "1"
        try:
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, preexec_fn=prepare)
        finally:
            os.close(procs)

    def _try(self):
        """Whether this machine can run containers at all: if so, one that does not boot is a failure, not a skip."""
        with tempfile.TemporaryFile() as log:
            self.supervisor = self._start(log, "/bin/true")
            code = self.supervisor.wait(STOP_TIMEOUT)
            log.seek(0)
            said = log.read().decode(errors="replace").strip().splitlines() or [f"exit code {code}"]
        if code != 0:
            raise fetch.Unavailable(f"systemd-nspawn does not work here: {said[-1]}")

    def _boot(self):
        self.log = tempfile.TemporaryFile()
        self.supervisor = self._start(self.log, "--boot")
        self.init = harness.wait_until(self._find_init, BOOT_TIMEOUT, "systemd as the container's init")
        state = harness.wait_until(self._state, BOOT_TIMEOUT, "the end of booting")
        if state != "running":
            failed = self.run("systemctl", "--failed", "--no-legend", "--plain", check=False).stdout
            said = self.run("journalctl", "--no-pager", "--lines=20", "--priority=warning", check=False).stdout
            raise AssertionError(f"the container is {state}:\n{failed}\n{said}")

    def _find_init(self):
        if self.supervisor.poll() is not None:
            self.log.seek(0)
            raise AssertionError("systemd-nspawn ended:\n" + self.log.read().decode(errors="replace"))
        with contextlib.suppress(OSError), open(f"/proc/{self.supervisor.pid}/task/{self.supervisor.pid}/children") as f:
            for pid in f.read().split():
                with open(f"/proc/{pid}/comm") as comm:
                    if comm.read() == "systemd\n":
                        return int(pid)
        return None

    def _state(self):
        state = self.run("systemctl", "is-system-running", "--wait", check=False).stdout.strip()
        return state if state in ("running", "degraded", "maintenance") else None

    def __exit__(self, *exc):
        if self.init and self.supervisor.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.run("systemctl", "poweroff", check=False, timeout=STOP_TIMEOUT)
                self.supervisor.wait(STOP_TIMEOUT)
        # A killed nspawn does not take its container along, the cgroup knows them all.
        harness.wait_until(lambda: _clear(self.cgroup.dir), what="the end of the container")
        if self.supervisor:
            self.supervisor.wait()
        self.cgroup.remove()
        v1 = _systemd_v1_mount()
        if v1 and os.path.isdir(v1 + self.cgroup.path):
            harness.wait_until(lambda: _clear(v1 + self.cgroup.path), what="the end of the container")
            os.rmdir(v1 + self.cgroup.path)

    # -- what goes on inside --

    def _inside(self, argv):
        enter = ("nsenter", "-t", str(self.init), "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w")
        return [*enter, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", *argv]

    def popen(self, argv, **options):
        return subprocess.Popen(self._inside(argv), **options)

    def run(self, *argv, check=True, timeout=60):
        """Standard output and error as text. Runs in the container's namespaces but outside its cgroups."""
        done = subprocess.run(self._inside(argv), stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, text=True)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(argv)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def get(self, url, timeout=10):
        """Body of an answer with status 200 that a server on the container's loopback gives, None if there is none."""
        script = f"import sys, urllib.request as r; sys.stdout.buffer.write(r.urlopen(sys.argv[1], timeout={timeout}).read())"
        argv = ["nsenter", "-t", str(self.init), "-n", sys.executable, "-c", script, url]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout + 10)
        return done.stdout.decode() if done.returncode == 0 else None

    def journal(self, *matches):
        """Entries of the journal, the oldest first."""
        self.run("journalctl", "--sync")
        lines = self.run("journalctl", "--no-pager", "-o", "json", "--all", *matches).stdout.splitlines()
        return [json.loads(line) for line in lines]
