#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Packages of the distribution that a test wants but the machine should not have installed: because its release lacks them, or
because they would bring a service along. They are unpacked into tests/.cache/ and kept there.

    fetch.py PACKAGE [SUITE...]     prints the folder

A suite is a name like "trixie", or "own", the machine's release. The first that has the package is taken. The mirror is the
one that this machine's apt uses; signatures and checksums are verified by apt, against Debian's keyring. Nothing is installed.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile

CACHE = os.environ.get("FAULTD_TEST_CACHE") or os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".cache")
KEYRINGS = ("/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp")
TIMEOUT = 300

# After the machine's own configuration, which knows about proxies: an apt root of our own, and no hooks.
CONFIG = """\
Dir::State "{root}/state";
Dir::State::status "/dev/null";
Dir::Cache "{root}/cache";
Dir::Etc::sourcelist "{root}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::preferences "/dev/null";
APT::Architecture "{arch}";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "20";
Acquire::AllowInsecureRepositories "false";
#clear APT::Architectures;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""


class Unavailable(Exception):
    """Why a package cannot be had, for people."""


def output(*argv, cwd=None):
    """Standard output; Unavailable with the last line of standard error if the program fails."""
    try:
        out = subprocess.run(argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{argv[0]} took more than {TIMEOUT} s") from None
    if out.returncode != 0:
        lines = out.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {out.returncode}"]
        raise Unavailable(f"{argv[0]}: {lines[-1]}")
    return out.stdout.decode(errors="replace").strip()


def own_suite():
    with open("/etc/os-release") as f:
        fields = dict(line.strip().split("=", 1) for line in f if "=" in line)
    if fields.get("ID") != "debian":
        raise Unavailable(f"this is no Debian but {fields.get('ID')}")
    return fields.get("VERSION_CODENAME", "").strip('"')


def mirror():
    """Where this machine's apt gets its release's main component from."""
    own = own_suite()
    form = "$(CODENAME)|$(RELEASE)|$(COMPONENT)|$(REPO_URI)"
    for line in output("apt-get", "indextargets", "--format", form, "Identifier: Packages").splitlines():
        codename, release, component, uri = line.split("|")
        if component == "main" and (own in (codename, release) or release in ("stable", "testing", "unstable")):
            return uri
    raise Unavailable(f"apt here has no source for {own} main")


def keyring():
    for path in KEYRINGS:
        if os.path.exists(path):
            return path
    raise Unavailable("no debian-archive-keyring")


def own_architecture():
    return output("dpkg", "--print-architecture")


def apt(suite, architecture=None):
    """argv of an apt-get with a root of its own for one suite and architecture (this machine's), its lists refreshed."""
    architecture = architecture or own_architecture()
    root = os.path.join(CACHE, "apt", f"{suite}-{architecture}")
    for folder in ("state/lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
    config = os.path.join(root, "apt.conf")
    with open(os.path.join(root, "sources.list"), "w") as f:
        f.write(f"deb [signed-by={keyring()} target=Packages] {mirror()} {suite} main\n")
    with open(config, "w") as f:
        f.write(CONFIG.format(root=root, arch=architecture))
    argv = ["apt-get", "-q", "-c", config]
    output(*argv, "-o", "APT::Update::Error-Mode=any", "update")
    return argv


def unpack(package, suite, target, architecture=None):
    """Downloads into a scratch folder and puts the tree in place in one step."""
    argv = apt(suite, architecture)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        output(*argv, "download", package, cwd=scratch)
        debs = [name for name in os.listdir(scratch) if name.endswith(".deb")]
        if len(debs) != 1:
            raise Unavailable(f"apt-get download gave {debs}")
        tree = os.path.join(scratch, "tree")
        output("dpkg-deb", "-x", os.path.join(scratch, debs[0]), tree)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.rename(tree, target)


@contextlib.contextmanager
def lock():
    os.makedirs(CACHE, exist_ok=True)
    with open(os.path.join(CACHE, "lock"), "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def fetch(package, *suites, architecture=None):
    """Folder of the unpacked package, for this machine's architecture if none is named. Raises Unavailable."""
    if not shutil.which("apt-get"):
        raise Unavailable(f"{package} comes from Debian's packages, and there is no apt-get here")
    suites = [own_suite() if suite == "own" else suite for suite in suites or ("own",)]
    with lock():
        mark = f"-{architecture}" if architecture else ""
        target = [os.path.join(CACHE, "packages", f"{package}-{suite}{mark}") for suite in suites]
        for path in target:
            if os.path.isdir(path):
                return path
        reasons = []
        for suite, path in zip(suites, target):
            try:
                unpack(package, suite, path, architecture)
                return path
            except Unavailable as e:
                reasons.append(f"{suite}: {e}")
    raise Unavailable(f"{package} cannot be had ({'; '.join(reasons)})")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        print(fetch(*sys.argv[1:]))
    except Unavailable as e:
        sys.exit(f"fetch.py: {e}")
