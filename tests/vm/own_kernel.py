# SPDX-License-Identifier: Apache-2.0
"""The kernel that no distribution has: arm64 with exceptions:page_fault_user and page_fault_kernel, built by seed/build out of the
distribution's source, a patch and a configuration of ours. To build it takes ten minutes on two processors; it is kept beside the
other kernels, under a name made of all that went into it."""

import glob
import hashlib
import os

import fetch
import platforms

PLATFORM = platforms.PLATFORMS["aarch64"]
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seed")
PATCH = os.path.join(FOLDER, "page_fault_tracepoints.patch")
CONFIG = os.path.join(FOLDER, "kernel.config")
# What its release ends in, as the configuration says.
SUFFIX = "-faultd"


def place(version):
    """Folder for the kernel made of this version of the source package and of the tree's patch and configuration."""
    key = hashlib.sha256(version.encode())
    for path in (PATCH, CONFIG):
        with open(path, "rb") as f:
            key.update(b"\0" + f.read())
    return os.path.join(fetch.CACHE, "kernels", f"own-{key.hexdigest()[:16]}")


def image(folder):
    """Path of the image in a folder, named vmlinuz-RELEASE, or None."""
    return next(iter(glob.glob(os.path.join(folder, "vmlinuz-*" + SUFFIX))), None)


def cached():
    """The image last built of the tree's patch and configuration, of whichever version of the source. Raises fetch.Unavailable."""
    fitting = []
    for path in glob.glob(os.path.join(fetch.CACHE, "kernels", "own-*", "source")):
        folder = os.path.dirname(path)
        with open(path) as f:
            if place(f.read().strip()) == folder and image(folder):
                fitting.append((os.path.getmtime(path), image(folder)))
    if not fitting:
        raise fetch.Unavailable("arm64's kernel with the page-fault tracepoints is not built (make vm-seed builds it, in ten minutes)")
    return max(fitting)[1]
