# SPDX-License-Identifier: Apache-2.0
"""An initramfs made of programs of this machine or of another architecture: their shared libraries come along, busybox is the
rest of the system."""

import os
import re
import shutil
import stat

import fetch


class Tree:
    """The files of an initramfs, by their path in it.

    tree = Tree(platform)
    tree.program("/usr/sbin/faultd", "build/faultd")
    tree.write("/etc/passwd", "root::0:0::/:/bin/sh")
    tree.save("initrd")
    """

    def __init__(self, platform):
        self._platform = platform
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

    def program(self, path, source, folders=()):
        """A program with the loader and all the libraries that it is linked with; `folders` are unpacked packages that have some."""
        self.copy(path, source)
        for name, library in libraries(source, self._platform.triplet, folders).items():
            self.copy(name if name.startswith("/") else f"/lib/{self._platform.triplet}/{name}", library)

    def busybox(self):
        """busybox as /bin/busybox and /bin/sh; the script that runs first has to install its other names."""
        source, _ = self._platform.other_program("busybox", "busybox-static")
        if libraries(source, self._platform.triplet):
            raise fetch.Unavailable("busybox is linked dynamically (wanted is package busybox-static)")
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


def _dynamic(path):
    """(loader or None, names of the libraries that it asks for) of an ELF file of whatever architecture."""
    said = fetch.output("readelf", "--wide", "--program-headers", "--dynamic", path)
    loader = re.search(r"program interpreter: (/[^\]]+)\]", said)
    return loader and loader[1], re.findall(r"\(NEEDED\).*\[([^\]]+)\]", said)


def libraries(program, triplet, folders=()):
    """{path of the loader, names of the shared libraries: file here} of a program, all that they need in turn; none if it is static.
    Raises fetch.Unavailable."""
    if not shutil.which("readelf"):
        raise fetch.Unavailable("readelf is not installed (package binutils)")
    places = [os.path.join(folder, lib, triplet) for folder in [*folders, "/"] for lib in ("usr/lib", "lib")]
    found, todo = {}, [program]
    while todo:
        loader, names = _dynamic(todo.pop())
        if loader:
            found[loader] = loader
        for name in names:
            path = next((p for p in (os.path.join(place, name) for place in places) if os.path.exists(p)), None)
            if not path:
                raise fetch.Unavailable(f"{program} needs {name}, which is not in {' or '.join(places)}")
            if name not in found and name != os.path.basename(loader or ""):
                found[name] = path
                todo.append(path)
    return found
