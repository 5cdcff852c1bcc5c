# SPDX-License-Identifier: Apache-2.0
"""OTLP requests decoded by Google's protobuf, by the project's own subset of the schema (proto/) or by the official one: the
two agree on the wire."""

import dataclasses
import glob
import os
import subprocess
import tempfile

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# The body of POST /v1/metrics: the official name, and ours.
REQUESTS = ("ExportMetricsServiceRequest", "ExportRequest")
CUMULATIVE = 2


def compile_protos(folder):
    """A FileDescriptorSet: what protoc makes of all .proto files under a folder."""
    files = sorted(glob.glob(os.path.join(folder, "**", "*.proto"), recursive=True))
    argv = ["protoc", f"--proto_path={folder}", "--include_imports", "--descriptor_set_out=/dev/stdout"] + files
    out = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if out.returncode != 0:
        raise RuntimeError("protoc: " + out.stderr.decode(errors="replace").strip())
    return descriptor_pb2.FileDescriptorSet.FromString(out.stdout)


class Schema:
    """The messages of a FileDescriptorSet, dependencies before what depends on them."""

    def __init__(self, descriptors):
        self.descriptors = descriptors
        pool = descriptor_pool.DescriptorPool()
        for file in descriptors.file:
            pool.Add(file)
        self.name = next(
            f"{file.package}.{message.name}"
            for file in descriptors.file
            for message in file.message_type
            if message.name in REQUESTS
        )
        descriptor = pool.FindMessageTypeByName(self.name)
        if hasattr(message_factory, "GetMessageClass"):
            self.message = message_factory.GetMessageClass(descriptor)
        else:  # protobuf before 4.22
            self.message = message_factory.MessageFactory(pool).GetPrototype(descriptor)

    def decode(self, body):
        """Raises google.protobuf.message.DecodeError on bytes that are no such message."""
        return self.message.FromString(body)

    def protoc_decode(self, body):
        """The text that protoc --decode prints; fields that the schema does not know are shown by number."""
        with tempfile.NamedTemporaryFile() as f:
            f.write(self.descriptors.SerializeToString())
            f.flush()
            argv = ["protoc", f"--descriptor_set_in={f.name}", f"--decode={self.name}"]
            out = subprocess.run(argv, input=body, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if out.returncode != 0:
            raise RuntimeError("protoc: " + out.stderr.decode(errors="replace").strip())
        return out.stdout.decode()


@dataclasses.dataclass
class Point:
    metric: str
    attributes: dict
    value: float
    start_ns: int
    time_ns: int
    monotonic: bool  # a cumulative monotonic sum; False: a gauge


def any_value(value):
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None


def attributes(pairs):
    return {pair.key: any_value(pair.value) for pair in pairs}


def temporality(total):
    """By number, since names do not travel: ours is shorter."""
    return getattr(total, total.DESCRIPTOR.fields_by_number[2].name)


def points(request):
    """All data points of a decoded request, as Points."""
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                for point in getattr(metric, kind).data_points if kind in ("sum", "gauge") else ():
                    value = getattr(point, point.WhichOneof("value") or "as_int")
                    yield Point(
                        metric.name,
                        attributes(point.attributes),
                        value,
                        point.start_time_unix_nano,
                        point.time_unix_nano,
                        kind == "sum" and metric.sum.is_monotonic and temporality(metric.sum) == CUMULATIVE,
                    )


def count_points(request):
    return sum(1 for _ in points(request))
