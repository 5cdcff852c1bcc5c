# SPDX-License-Identifier: Apache-2.0
"""The architectures of the test machines: what emulates them, where their programs and kernels come from."""

import os
import shutil

import fetch
import harness


class Platform:
    """
    .machine    as uname -m says it there
    .debian     as Debian calls it
    .triplet    the folder of its libraries
    .kernel     the package that depends on the newest image of a suite
    .emulator   program, its package, options
    .console    where the kernel speaks, as it calls it
    .results    where the steps do, a serial port of their own
    """

    def __init__(self, machine, debian, triplet, kernel, emulator, console, results):
        self.machine, self.debian, self.triplet, self.kernel = machine, debian, triplet, kernel
        self.emulator, self.console, self.results = emulator, console, results

    @property
    def native(self):
        return self.machine == os.uname().machine

    @property
    def build(self):
        """The build folder."""
        return harness.BUILD if self.native else f"{harness.BUILD}-{self.debian}"

    def built(self, name):
        """A program of the build. Raises fetch.Unavailable."""
        for folder in ("", "tests/live", "tests/bench"):
            path = os.path.join(self.build, folder, name)
            if os.path.exists(path):
                return path
        how = "make build-arm64" if self.debian == "arm64" else "on a machine of that architecture"
        raise fetch.Unavailable(f"{name} is not built for {self.debian} ({how}; tests/run does it, where the packages can be had)")

    def other_program(self, name, package, *library_packages):
        """(program, folders that have its libraries): somebody else's, installed or out of Debian's packages."""
        if self.native:
            path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
            if path:
                return path, []
        folders = [fetch.fetch(p, architecture=self.debian) for p in (package, *library_packages)]
        for place in ("usr/bin", "usr/sbin", "bin", "sbin"):
            path = os.path.join(folders[0], place, name)
            if os.path.exists(path):
                return path, folders
        raise fetch.Unavailable(f"Debian's package {package} has no {name}")

    def emulate(self, console, results):
        """argv of the emulator, with what belongs to the architecture, and files behind the serial ports. Raises fetch.Unavailable."""
        program, package, options = self.emulator
        if not shutil.which(program):
            raise fetch.Unavailable(f"{program} is not installed (package {package})")
        argv = [program, *options, "-serial", f"file:{console}", "-chardev", f"file,id=results,path={results}"]
        # The first machine has a second port built in, the other takes a card.
        return argv + (["-serial", "chardev:results"] if self.machine == "x86_64" else ["-device", "pci-serial,chardev=results"])


# Not the "microvm" of x86: it has one serial port, and we want two. Of arm64's processors the one that has everything, with
# the quick kind of pointer authentication; of the machine's serial ports the second is a card.
PLATFORMS = {
    p.machine: p
    for p in (
        Platform(
            "x86_64",
            "amd64",
            "x86_64-linux-gnu",
            "linux-image-cloud-amd64",
            ("qemu-system-x86_64", "qemu-system-x86", ("-M", "pc", "-cpu", "max")),
            "ttyS0",
            "ttyS1",
        ),
        Platform(
            "aarch64",
            "arm64",
            "aarch64-linux-gnu",
            "linux-image-cloud-arm64",
            ("qemu-system-aarch64", "qemu-system-arm", ("-M", "virt,mte=on", "-cpu", "max,pauth-impdef=on")),
            "ttyAMA0",
            "ttyS0",
        ),
    )
}
