#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels to boot: images out of the distribution's kernel packages, kept beside the tests.

    kernels.py [SERIES...]     prints the release and the image of each, for all architectures

Nothing is installed. apt verifies what it downloads, see fetch.py.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile

if __name__ == "__main__":
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))

import fetch  # noqa: E402
import platforms  # noqa: E402

# Series, and the suites whose newest kernel may be of it, the first that is wins. A new series is a line here.
SERIES = {
    "6.1": ("bookworm",),
    "6.12": ("trixie", "bookworm-backports"),
    "7": ("trixie-backports", "forky", "sid"),
}
# The kernels for clouds have all that the tests ask for built in, and are a third of the size of others.
KERNELS = [(machine, series) for machine in platforms.PLATFORMS for series in SERIES]
# Where packages have it, before 7.x and since.
IMAGES = ("boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz*")


def _dependency(apt, package, wanted):
    """The first package that `package` depends on and whose whole name the expression matches, or None."""
    shown = fetch.output("apt-cache", *apt[apt.index("-c") :], "show", "--no-all-versions", package)
    depends = re.search(r"^Depends: (.*)", shown, re.M)
    names = re.findall(r"[^\s,|]+(?=\s*(?:\(|,|\||$))", depends[1]) if depends else []
    return next((name for name in names if re.fullmatch(wanted, name)), None)


def _packages(apt, suite, series, newest):
    """(release, name of the package that holds the image) of the suite's newest kernel, which must be of the series."""
    package = _dependency(apt, newest, r"linux-image-\d.*")
    if not package:
        raise fetch.Unavailable(f"{suite} has no {newest}")
    release = package[len("linux-image-") :]
    if not release.startswith(series + "."):
        raise fetch.Unavailable(f"the kernel of {suite} is {release}")
    # Since 7.x "linux-image" only names its parts.
    return release, _dependency(apt, package, r"linux-binary-\d.*") or package


def _unpack(suite, series, platform, target):
    """Downloads the suite's kernel and puts its image in `target`, in one step."""
    apt = fetch.apt(suite, platform.debian)
    release, package = _packages(apt, suite, series, platform.kernel)
    with tempfile.TemporaryDirectory(dir=fetch.CACHE) as scratch:
        fetch.output(*apt, "download", package, cwd=scratch)
        debs = glob.glob(os.path.join(scratch, "*.deb"))
        if len(debs) != 1:
            raise fetch.Unavailable(f"apt-get download gave {debs}")
        tree = os.path.join(scratch, "tree")
        fetch.output("dpkg-deb", "-x", debs[0], tree)
        # The image alone is kept: with its modules a kernel takes ten times the space.
        images = [p for place in IMAGES for p in glob.glob(os.path.join(tree, place))]
        if len(images) != 1:
            raise fetch.Unavailable(f"{package} holds {len(images)} images")
        kept = os.path.join(scratch, "kept")
        os.mkdir(kept)
        os.rename(images[0], os.path.join(kept, "vmlinuz-" + release))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.rename(kept, target)


def image(machine, series):
    """Path of a bootable image, named vmlinuz-RELEASE, of the series. Raises fetch.Unavailable."""
    target = os.path.join(fetch.CACHE, "kernels", f"{series}-{machine}")
    with fetch.lock():
        reasons = []
        for suite in SERIES[series]:
            if os.path.isdir(target):
                break
            try:
                _unpack(suite, series, platforms.PLATFORMS[machine], target)
            except (fetch.Unavailable, OSError, subprocess.SubprocessError) as e:
                reasons.append(f"{suite}: {e}")
    found = glob.glob(os.path.join(target, "vmlinuz-*"))
    if not found:
        raise fetch.Unavailable(f"no kernel {series} can be had ({'; '.join(reasons)})")
    return found[0]


def release(path):
    """What uname -r will say in a machine that booted this image."""
    return os.path.basename(path).split("-", 1)[1]


if __name__ == "__main__":
    for wanted in [pair for pair in KERNELS if pair[1] in (sys.argv[1:] or SERIES)]:
        try:
            kernel = image(*wanted)
            print(release(kernel), kernel)
        except fetch.Unavailable as e:
            sys.exit(f"kernels.py: {e}")
