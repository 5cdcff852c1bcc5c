# SPDX-License-Identifier: Apache-2.0
"""Other people's servers and schemas for the e2e tests: installed, or unpacked from the distribution's packages beside the tests."""

import contextlib
import importlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

import pytest
from google.protobuf import descriptor_pb2

import fetch
import harness
import otlp

# Package and suites, the first that has it. Not installed, since some bring a service along.
PROMETHEUS = ("prometheus", "own")
OFFICIAL_DESCRIPTORS = ("python3-opentelemetry-proto", "own", "trixie", "forky", "sid")
VICTORIA_METRICS = ("victoria-metrics", "trixie", "forky", "sid")


def fetched(*package):
    try:
        return fetch.fetch(*package)
    except fetch.Unavailable as e:
        pytest.skip(str(e))


def program(name, *package):
    """Path of an installed program, else of the one in a package that is unpacked beside the tests."""
    path = shutil.which(name) or os.path.join(fetched(*package), "usr", "bin", name)
    if not os.access(path, os.X_OK):
        pytest.skip(f"{name} is not in package {package[0]}")
    return path


def query(url, expression):
    """[(labels, value)] of an instant query, of whatever speaks Prometheus' API."""
    with urllib.request.urlopen(f"{url}/api/v1/query?" + urllib.parse.urlencode({"query": expression}), timeout=10) as answer:
        found = json.load(answer)
    assert found["status"] == "success", found
    return [(r["metric"], float(r["value"][1])) for r in found["data"]["result"]]


class Server:
    """Somebody else's server on loopback, with a folder of its own; ended by its pid."""

    def __init__(self, argv, ready):
        """`argv` may hold {port} and {folder}; `ready` is a path that answers 200 when the server is ready."""
        self.argv, self.ready = argv, ready

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="faultd-e2e-")
        # Free now; that it will be in a moment is likely enough, and the wait below tells if not.
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        argv = [a.format(port=self.port, folder=self.folder) for a in self.argv]
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
        try:
            harness.wait_until(self._is_ready, 30, f"{argv[0]} to be ready")
        except BaseException:
            print(self.log)
            self.__exit__()
            raise
        return self

    def _is_ready(self):
        assert self.process.poll() is None, f"{self.argv[0]} ended with {self.process.poll()}"
        with contextlib.suppress(OSError, urllib.error.URLError):
            return urllib.request.urlopen(self.url + self.ready, timeout=2).status == 200

    @property
    def log(self):
        with open(os.path.join(self.folder, "log"), errors="replace") as f:
            return f.read()

    def __exit__(self, *exc):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def official_schema():
    """The official OTLP schema, as the distribution packages it for Python."""
    folder = os.path.join(fetched(*OFFICIAL_DESCRIPTORS), "usr", "lib", "python3", "dist-packages")
    sys.path.insert(0, folder)
    try:
        modules = [importlib.import_module(f"opentelemetry.proto.collector.{s}.v1.{s}_service_pb2") for s in otlp.REQUESTS]
    finally:
        sys.path.remove(folder)
    descriptors, seen = descriptor_pb2.FileDescriptorSet(), set()

    def add(file):
        if file.name not in seen:
            seen.add(file.name)
            for dependency in file.dependencies:
                add(dependency)
            file.CopyToProto(descriptors.file.add())

    for module in modules:
        add(module.DESCRIPTOR)
    return otlp.Schema(descriptors)
