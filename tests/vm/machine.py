# SPDX-License-Identifier: Apache-2.0
"""Boots a kernel under qemu, without KVM, with an initramfs that runs shell scripts one after the other: the steps.

    machine = boot(platform, kernels.image("x86_64", "6.1"), tree, {"hello": "echo hello; uname -r"})
    machine.step("hello").output

All checking is done outside, on what the steps said. What is missing here is fetch.Unavailable with the reason.
"""

import os
import re
import subprocess
import tempfile
import time

GUEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guest")
MEMORY_MIB = 768
CPUS = 2
# Some times what it takes on a busy machine.
TIMEOUT = 600


class Step:
    """How a script ended, None if it did not, all that it said, and how many seconds of the machine's it took."""

    def __init__(self, name):
        self.name, self.code, self.output, self.seconds = name, None, "", None


class Machine:
    """What is left of a machine that ran.

    .release   its kernel's, from the image's name
    .finished  whether all steps ran and it powered off by itself
    .console   what the kernel said
    .seconds   how long it took
    """

    def __init__(self, release, finished, console, results, seconds):
        self.release, self.console, self.seconds = release, console, seconds
        self.steps = {}
        # A panic ends the emulator as well as "poweroff" does.
        self.finished = _read_results(results, self.steps) and finished and "reboot: Power down" in console

    def step(self, name):
        """A step that ran to its end."""
        step = self.steps.get(name)
        assert step and step.code is not None, f"{self.release}: the machine did not get through step {name}; {self.story()}"
        return step

    def output(self, name):
        """What a step said that succeeded."""
        step = self.step(name)
        assert step.code == 0, f"{self.release}: step {name} ended with {step.code}:\n{step.output}"
        return step.output

    def story(self):
        ended = [step.name for step in self.steps.values() if step.code is not None]
        return f"it took {self.seconds:.0f} s and ended these steps: {', '.join(ended) or 'none'}"


def _read_results(text, steps):
    """Reads what guest/init wrote; False if it is not whole."""
    step = None
    for line in text.split("\n"):
        words = line.split(" ")
        if line.startswith(" ") and step:
            step.output += line[1:] + "\n"
        elif words[0] == "begin" and len(words) == 2:
            step = steps.setdefault(words[1], Step(words[1]))
        elif words[0] == "end" and len(words) == 5 and step and step.name == words[1]:
            step.code, step.seconds, step = int(words[2]), float(words[4]) - float(words[3]), None
    return bool(re.search(r"^over$", text, re.M))


def _read(path):
    if not os.path.exists(path):
        return ""
    with open(path, errors="replace", newline="") as f:
        return f.read().replace("\r", "")


def boot(platform, image, tree, steps, parameters=""):
    """Runs the steps {name: script} in the tree, which gets them and the system around them; `parameters` are more of the
    kernel's. Returns a Machine."""
    tree.busybox()
    tree.copy("/init", os.path.join(GUEST, "init"))
    for i, (name, script) in enumerate(steps.items()):
        tree.write(f"/steps/{i:02}.{name}", script)
    with tempfile.TemporaryDirectory(prefix="faultd-vm-") as folder:
        initrd, console, results = (os.path.join(folder, name) for name in ("initrd", "console", "results"))
        argv = platform.emulate(console, results)
        tree.save(initrd)
        # Not thread=multi: two CPUs at once, of which one changes the kernel's code, as tracepoints do, end in "Oops: int3" now
        # and then.
        argv += ["-accel", "tcg,thread=single", "-smp", str(CPUS), "-m", str(MEMORY_MIB)]
        argv += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-net", "none"]
        argv += ["-kernel", image, "-initrd", initrd]
        argv += ["-append", f"console={platform.console} quiet panic=-1 faultd_results={platform.results} {parameters}".strip()]
        began = time.monotonic()
        try:
            run = subprocess.run(["nice", *argv], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT)
            code, said = run.returncode, run.stderr
        except subprocess.TimeoutExpired:
            code, said = None, f"not over after {TIMEOUT} s"
        seconds = time.monotonic() - began
        release = os.path.basename(image).split("-", 1)[1]
        return Machine(release, code == 0, f"{_read(console)}{said}", _read(results), seconds)
