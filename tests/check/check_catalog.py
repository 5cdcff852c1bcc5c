#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Does the journal's catalog have the entry of a crash, with no field that an entry lacks, and can systemd read it? Prints TAP."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import check  # noqa: E402

HEADERS = ("Subject", "Defined-By", "Support")


def read(path):
    with open(os.path.join(check.PROJECT, path), encoding="utf-8") as f:
        return f.read()


def entries(text):
    """{message id: (headers, text)}, by catalog's format: a line "-- ID", headers, an empty line, the text."""
    found = {}
    for part in re.split(r"^-- ", "\n".join(l for l in text.split("\n") if not l.startswith("#")), flags=re.M)[1:]:
        head, _, body = part.partition("\n\n")
        message_id, *headers = head.split("\n")
        found[message_id] = (dict(line.split(": ", 1) for line in headers), body.strip())
    return found


def wrong_entry(catalog, message_id):
    if message_id not in catalog:
        return [f"no entry {message_id}"]
    headers, body = catalog[message_id]
    return [f"no {name}" for name in HEADERS if not headers.get(name)] + ([] if body else ["no text"])


def wrong_fields(catalog, source):
    used = re.findall(r"@(\w+)@", str(catalog))
    return [f"no entry has the field {name}" for name in sorted(set(used)) if not re.search(rf'"{name}[="]', source)]


def wrong_for_systemd(path, message_id, entry):
    """journalctl compiles the file into a database of its own and prints the entry back."""
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(f"{root}/var/lib/systemd/catalog")
        os.makedirs(f"{root}/usr/lib/systemd/catalog")
        shutil.copy(path, f"{root}/usr/lib/systemd/catalog/faultd.catalog")
        made = subprocess.run(["journalctl", f"--root={root}", "--update-catalog"], capture_output=True, text=True)
        argv = ["journalctl", f"--root={root}", "--dump-catalog", message_id]
        back = subprocess.run(argv, capture_output=True, text=True)
    if made.returncode or made.stderr or back.returncode:
        return (made.stderr + back.stderr).splitlines() or ["journalctl failed"]
    read_back = entries(back.stdout).get(message_id)
    return [] if read_back == entry else [f"read back as {read_back}"]


def main():
    tap = check.Tap()
    path = os.path.join(check.PROJECT, "systemd/faultd.catalog")
    catalog = entries(read(path))
    message_id = re.search(r'JOURNAL_CRASH_MESSAGE_ID "([0-9a-f]{32})"', read("daemon/sink/journal.h"))[1]
    tap.case("the catalog explains a crash", wrong_entry(catalog, message_id))
    tap.case("fields in the catalog are in the entry", wrong_fields(catalog, read("daemon/sink/journal.c")))
    if not shutil.which("journalctl"):
        tap.case("systemd reads the catalog", skip="no journalctl here")
    else:
        tap.case("systemd reads the catalog", wrong_for_systemd(path, message_id, catalog.get(message_id)))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
