#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the tree against the rules of the house (rules.py) and the rules against their examples (examples.py). Prints TAP."""

import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import examples  # noqa: E402
import rules  # noqa: E402

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# .clang-format is written for this one; others lay some lines out differently.
CLANG_FORMAT = 14


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def case(self, name, wrong=(), skip=None):
        self.count += 1
        self.failed += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {self.count} - {name}" + (f" # SKIP {skip}" if skip else ""))
        for line in wrong:
            print(f"# {line}")

    def end(self):
        print(f"1..{self.count}", flush=True)
        return 1 if self.failed else 0


def paths():
    """What git tracks or would, else all but build folders: a source archive has no git."""
    argv = ["git", "-C", PROJECT, "-c", f"safe.directory={PROJECT}", "ls-files", "-co", "--exclude-standard", "-z"]
    if shutil.which("git") and os.path.exists(os.path.join(PROJECT, ".git")):
        out = subprocess.run(argv, stdout=subprocess.PIPE)
        if out.returncode == 0:
            return [os.fsdecode(p) for p in out.stdout.split(b"\0") if p]
    found = []
    for folder, folders, names in os.walk(PROJECT):
        folders[:] = [f for f in folders if not re.match(r"build|__pycache__|\.(git|cache)$", f)]
        found += [os.path.relpath(os.path.join(folder, name), PROJECT) for name in names]
    return found


def tree():
    files = {}
    for path in sorted(paths()):
        full = os.path.join(PROJECT, path)
        if os.path.isfile(full) and not os.path.islink(full):
            with open(full, "rb") as f:
                data = f.read()
            if b"\0" not in data:
                files[path] = data.decode(errors="replace")
    return files


def find_clang_format():
    """(path, None), or (None, why not)."""
    found = None
    for name in (f"clang-format-{CLANG_FORMAT}", "clang-format"):
        path = shutil.which(name)
        if not path:
            continue
        text = subprocess.run([path, "--version"], stdout=subprocess.PIPE).stdout.decode()
        found = re.search(r"version (\d+)", text)
        if found and int(found[1]) == CLANG_FORMAT:
            return path, None
    have = f"this is version {found[1]}" if found else "it is not installed"
    return None, f"clang-format {CLANG_FORMAT} decides, {have}"


def check_format(tap, files):
    tool, reason = find_clang_format()
    if not tool:
        tap.case("the sources are formatted", skip=reason)
        return
    sources = [p for p in files if rules.in_c(p)]
    out = subprocess.run([tool, "--dry-run", "-style=file"] + sources, cwd=PROJECT, stderr=subprocess.PIPE)
    wrong = sorted({m for m in re.findall(r"^(\S+?:\d+):\d+: warning", out.stderr.decode(errors="replace"), re.M)})
    if out.returncode != 0 and not wrong:
        wrong = out.stderr.decode(errors="replace").splitlines()[:5]
    tap.case("the sources are formatted", wrong[:40])

    bad = subprocess.run([tool, "--dry-run", "-style=file", "--assume-filename=daemon/a.c"], cwd=PROJECT, input=b"int  a ;\n", stderr=subprocess.PIPE)
    tap.case("the sources are formatted: bad example", [] if b"warning" in bad.stderr else ["found nothing wrong"])


def check_examples(tap, rule):
    good, bad = examples.EXAMPLES[rule]
    for i, files in enumerate(good):
        tap.case(f"{rule.__name__}: good example {i + 1}", rule(files))
    for i, files in enumerate(bad):
        tap.case(f"{rule.__name__}: bad example {i + 1}", [] if rule(files) else [f"found nothing wrong in {files}"])


def main():
    tap, files = Tap(), tree()
    tap.case("there are sources to look at", [] if any(map(rules.of_the_daemon, files)) else [f"none under {PROJECT}"])
    for rule in rules.ALL:
        tap.case(f"{rule.__name__}: {rule.__doc__.strip()}", rule(files))
        check_examples(tap, rule)
    check_format(tap, files)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
