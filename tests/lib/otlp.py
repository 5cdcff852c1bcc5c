# SPDX-License-Identifier: Apache-2.0
"""OTLP requests decoded by Google's protobuf, by the project's own subset of the schema (proto/) or by the official one: the
two agree on the wire."""

import dataclasses
import glob
import os
import subprocess
import tempfile

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# The bodies of POST /v1/metrics and /v1/logs: the official name, and ours.
REQUESTS = {
    "metrics": ("ExportMetricsServiceRequest", "ExportRequest"),
    "logs": ("ExportLogsServiceRequest", "ExportLogsRequest"),
}
CUMULATIVE = 2
SEVERITY_ERROR = 17


def compile_protos(folder):
    """A FileDescriptorSet: what protoc makes of all .proto files under a folder."""
    files = sorted(glob.glob(os.path.join(folder, "**", "*.proto"), recursive=True))
    argv = ["protoc", f"--proto_path={folder}", "--include_imports", "--descriptor_set_out=/dev/stdout"] + files
    out = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if out.returncode != 0:
        raise RuntimeError("protoc: " + out.stderr.decode(errors="replace").strip())
    return descriptor_pb2.FileDescriptorSet.FromString(out.stdout)


class Schema:
    """The messages of a FileDescriptorSet, dependencies before what depends on them. A signal is "metrics" or "logs"."""

    def __init__(self, descriptors):
        self.descriptors = descriptors
        self.pool = descriptor_pool.DescriptorPool()
        for file in descriptors.file:
            self.pool.Add(file)
        self.names = {signal: self._name(names) for signal, names in REQUESTS.items()}
        self.messages = {signal: self._message(name) for signal, name in self.names.items()}

    def _name(self, names):
        return next(
            f"{file.package}.{message.name}"
            for file in self.descriptors.file
            for message in file.message_type
            if message.name in names
        )

    def _message(self, name):
        descriptor = self.pool.FindMessageTypeByName(name)
        if hasattr(message_factory, "GetMessageClass"):
            return message_factory.GetMessageClass(descriptor)
        return message_factory.MessageFactory(self.pool).GetPrototype(descriptor)  # protobuf before 4.22

    def decode(self, body, signal="metrics"):
        """Raises google.protobuf.message.DecodeError on bytes that are no such message."""
        return self.messages[signal].FromString(body)

    def protoc_decode(self, body, signal="metrics"):
        """The text that protoc --decode prints; fields that the schema does not know are shown by number."""
        with tempfile.NamedTemporaryFile() as f:
            f.write(self.descriptors.SerializeToString())
            f.flush()
            argv = ["protoc", f"--descriptor_set_in={f.name}", f"--decode={self.names[signal]}"]
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


@dataclasses.dataclass
class Record:
    event: str
    severity: int
    severity_text: str
    body: str
    attributes: dict
    time_ns: int
    observed_ns: int
    resource: dict


def any_value(value):
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [any_value(v) for v in value.array_value.values]
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


def records(request):
    """All log records of a decoded request, as Records."""
    for resource in request.resource_logs:
        for scope in resource.scope_logs:
            for record in scope.log_records:
                yield Record(
                    record.event_name,
                    int(record.severity_number),
                    record.severity_text,
                    any_value(record.body),
                    attributes(record.attributes),
                    record.time_unix_nano,
                    record.observed_time_unix_nano,
                    attributes(resource.resource.attributes),
                )
