# SPDX-License-Identifier: Apache-2.0
"""An initramfs made of programs of this machine: their shared libraries come along, busybox is the rest of the system."""

import os
import re
import shutil
import stat
import subprocess

import fetch

BUSYBOX = ("/bin/busybox", "/usr/bin/busybox")


class Tree:
    """The files of an initramfs, by their path in it.

    tree = Tree()
    tree.program("/usr/sbin/faultd", "build/faultd")
    tree.write("/etc/passwd", "root::0:0::/:/bin/sh")
    tree.save("initrd")
    """

    def __init__(self):
        self._entries = {}  # path: (mode, bytes)
        for folder in ("dev", "proc", "sys", "run", "tmp", "root", "var/tmp"):
            self._put(folder, stat.S_IFDIR | (0o1777 if folder.endswith("tmp") else 0o755), b"")

    def _put(self, path, mode, data):
        path = os.path.normpath(path).strip("/")
        parent = os.path.dirname(path)
        if parent and parent not in self._entries:
            self._put(parent, stat.S_IFDIR | 0o755, b"")
        self._entries[path] = (mode, data)

    def write(self, path, text, executable=False):
        self._put(path, stat.S_IFREG | (0o755 if executable else 0o644), text.encode())

    def link(self, path, target):
        self._put(path, stat.S_IFLNK | 0o777, target.encode())

    def copy(self, path, source):
        """A file as it is, executable if the source is."""
        with open(source, "rb") as f:
            self._put(path, stat.S_IFREG | (0o755 if os.access(source, os.X_OK) else 0o644), f.read())

    def program(self, path, source):
        """A program with all the libraries that it is linked with, each where its loader looks for it."""
        self.copy(path, source)
        for library in libraries(source):
            self.copy(library, library)

    def busybox(self):
        """busybox as /bin/busybox and /bin/sh; the script that runs first has to install its other names."""
        source = next((p for p in BUSYBOX if os.access(p, os.X_OK) and not libraries(p)), None)
        if not source:
            raise fetch.Unavailable("no static busybox is installed (package busybox-static)")
        self.copy("/bin/busybox", source)
        self.link("/bin/sh", "busybox")

    def save(self, path):
        """Writes the archive, in the format "newc" of cpio(5)."""
        with open(path, "wb") as out:
            for inode, (name, (mode, data)) in enumerate(sorted(self._entries.items()), start=1):
                _write_entry(out, name, mode, data, inode)
            _write_entry(out, "TRAILER!!!", 0, b"", 0)


def _write_entry(out, name, mode, data, inode):
    name = name.encode() + b"\0"
    # inode, mode, uid, gid, links, mtime, size, two device numbers of its own and two it is, length of the name, no checksum
    fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
    out.write(b"070701" + b"".join(b"%08X" % field for field in fields) + name)
    out.write(b"\0" * (-out.tell() % 4))
    out.write(data)
    out.write(b"\0" * (-len(data) % 4))


def libraries(program):
    """Paths of the loader and the shared libraries of a program; none if it is static."""
    if not shutil.which("ldd"):
        raise fetch.Unavailable("ldd is not installed (package libc-bin)")
    run = subprocess.run(["ldd", program], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if run.returncode != 0 or "statically linked" in run.stdout:
        return []
    missing = re.findall(r"(\S+) => not found", run.stdout)
    if missing:
        raise fetch.Unavailable(f"{program} needs {', '.join(missing)}")
    return re.findall(r"^\s*(?:\S+ => )?(/\S+) \(", run.stdout, re.M)
