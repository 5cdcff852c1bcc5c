# SPDX-License-Identifier: Apache-2.0
"""What a collector gets: the bytes by the official schema, and a real VictoriaMetrics that takes them."""

import contextlib
import os
import re

import pytest
from google.protobuf import descriptor_pb2
from harness import PROJECT, Daemon, Workload, need_bpf, wait_until

import otlp
from receiver import Receiver
import servers
from servers import Server

WRITES = {"fault.mode": "user", "fault.access": "write", "fault.kind": "missing"}


def ship_to(url, **more):
    return {"ship": {"endpoint": url, "interval": "1s", **more}}


@pytest.fixture(scope="module")
def shipped():
    """(daemon, receiver)"""
    need_bpf()
    with Receiver() as receiver, Daemon(ship_to(receiver.url)) as daemon:
        yield daemon, receiver


def writes_in(schema, batch, cgroup):
    """The point of a cgroup's user writes in a batch, None if there is none."""
    found = [
        p
        for p in otlp.points(schema.decode(batch.body))
        if p.metric == "faultd.page_faults" and p.attributes.get("cgroup.path") == cgroup.path and WRITES.items() <= p.attributes.items()
    ]
    assert len(found) <= 1, found
    return found[0] if found else None


def test_sixteen_writes_by_the_official_schema(shipped, official, cgroup):
    daemon, receiver = shipped
    with Workload(cgroup, "write", 16) as work:
        before = daemon.faults(cgroup, mode="user", access="write", kind="missing")
        work.run()

        def there():
            batch = receiver.last()
            point = writes_in(official, batch, cgroup) if batch else None
            return point if point and point.value == before + 16 else None

        point = wait_until(there, 20, f"{before} + 16 writes at the receiver")
        assert point.monotonic
        assert 0 < point.start_ns < point.time_ns
        # It stays there.
        count = receiver.count
        batch = receiver.wait(count + 2)[-1]
        assert writes_in(official, batch, cgroup).value == before + 16
        assert daemon.faults(cgroup, mode="user", access="write", kind="missing") == before + 16


def test_protoc_knows_every_field(shipped, official):
    _, receiver = shipped
    text = official.protoc_decode(receiver.wait(1)[-1].body)
    assert "faultd.page_faults" in text
    assert not re.findall(r"^\s*\d+\s*[:{]", text, re.M), "fields that the official schema does not know"


def test_the_request_is_otlp_over_http(shipped):
    _, receiver = shipped
    batch = receiver.wait(1)[-1]
    assert batch.path == "/v1/metrics"
    assert batch.headers["Content-Type"] == "application/x-protobuf"
    assert batch.headers["Content-Encoding"] == "gzip"
    assert batch.wire_bytes < len(batch.body)
    assert not batch.error


def test_the_resource_names_the_host(shipped, official):
    _, receiver = shipped
    request = official.decode(receiver.wait(1)[-1].body)
    for resource in request.resource_metrics:
        found = otlp.attributes(resource.resource.attributes)
        assert found["service.name"] == "faultd"
        assert found["host.name"] == os.uname().nodename
        assert found["host.arch"] in ("amd64", "arm64")
        assert found["service.version"]


def message_types(file_set):
    """{last part of the name: descriptor} of all messages, nested ones too."""
    found = {}

    def add(message):
        found[message.name] = message
        for nested in message.nested_type:
            add(nested)

    for file in file_set.file:
        for message in file.message_type:
            add(message)
    return found


# Names of ours that the official schema calls otherwise; names do not travel.
OFFICIAL_NAMES = {
    "ExportRequest": "ExportMetricsServiceRequest",
    "ExportResponse": "ExportMetricsServiceResponse",
    "PartialSuccess": "ExportMetricsPartialSuccess",
    "Scope": "InstrumentationScope",
}


def test_our_schema_is_a_subset_of_the_official_one(official):
    theirs = message_types(official.descriptors)
    for name, message in message_types(otlp.compile_protos(os.path.join(PROJECT, "proto"))).items():
        other = {f.number: f for f in theirs[OFFICIAL_NAMES.get(name, name)].field}
        for field in message.field:
            assert field.number in other, f"{name}.{field.name}"
            assert (field.type, field.label) == (other[field.number].type, other[field.number].label), f"{name}.{field.name}"


def test_a_wrong_number_would_be_seen(official):
    """The comparison above can fail: a field that is not there is no field of theirs."""
    numbers = {f.number for f in message_types(official.descriptors)["NumberDataPoint"].field}
    assert {2, 3, 4, 6, 7} <= numbers and 1 not in numbers
    assert descriptor_pb2.FieldDescriptorProto.TYPE_SFIXED64 in {
        f.type for f in message_types(official.descriptors)["NumberDataPoint"].field
    }


class VictoriaMetrics(Server):
    def __init__(self, binary):
        argv = [binary, "-httpListenAddr=127.0.0.1:{port}", "-storageDataPath={folder}/data", "-search.latencyOffset=1ms"]
        super().__init__(argv + ["-search.disableCache"], "/health")

    def query(self, expression):
        return servers.query(self.url, expression)


def test_victoria_metrics_takes_a_batch_and_answers_for_it(victoria_metrics, cgroup):
    need_bpf()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(VictoriaMetrics(victoria_metrics))
        daemon = stack.enter_context(Daemon(ship_to(server.url + "/opentelemetry")))
        work = stack.enter_context(Workload(cgroup, "write", 16))
        before = daemon.faults(cgroup, mode="user", access="write", kind="missing")
        work.run()

        def value():
            found = [
                v
                for labels, v in server.query('{__name__="faultd.page_faults"}')
                if labels.get("cgroup.path") == cgroup.path and WRITES.items() <= labels.items()
            ]
            return found == [before + 16]

        wait_until(value, 20, f"{before} + 16 writes in VictoriaMetrics")
        metrics = daemon.metrics()
        assert metrics.sum("faultd_ship_batches_total", outcome="sent") > 0
        assert metrics.sum("faultd_ship_batches_total", outcome="rejected") == 0
