# SPDX-License-Identifier: Apache-2.0
"""What a collector gets: the bytes by the official schema, and a real VictoriaMetrics that takes them."""

import contextlib
import os
import re
import signal
import subprocess
import time

import pytest
from google.protobuf import descriptor_pb2
from harness import PROJECT, Daemon, Workload, built, need_bpf, need_built, wait_until

import otlp
from receiver import Answer, Receiver
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


# Names of ours that the official schema calls otherwise, or that stand for several of its messages; names do not travel.
OFFICIAL_NAMES = {
    "ExportRequest": ["ExportMetricsServiceRequest"],
    "ExportLogsRequest": ["ExportLogsServiceRequest"],
    "ExportResponse": ["ExportMetricsServiceResponse", "ExportLogsServiceResponse"],
    "PartialSuccess": ["ExportMetricsPartialSuccess", "ExportLogsPartialSuccess"],
    "Scope": ["InstrumentationScope"],
}


def test_our_schema_is_a_subset_of_the_official_one(official):
    theirs = message_types(official.descriptors)
    for name, message in message_types(otlp.compile_protos(os.path.join(PROJECT, "proto"))).items():
        for official_name in OFFICIAL_NAMES.get(name, [name]):
            other = {f.number: f for f in theirs[official_name].field}
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


# ---- bad accesses and crashes ----


def unknown_fields(text):
    """Lines of protoc --decode about fields that the schema does not know."""
    return re.findall(r"^\s*\d+\s*[:{].*", text, re.M)


def test_log_records_by_the_official_schema(official, tmp_path):
    """The request that the unit test builds, so that it can be read even where nothing crashes."""
    need_built("tests/unit/test-otlp-logs")
    path = tmp_path / "request"
    env = {**os.environ, "FAULTD_WRITE_OTLP": str(path)}
    subprocess.run([built("tests/unit/test-otlp-logs")], env=env, check=True, capture_output=True)
    body = path.read_bytes()
    rich, poor = otlp.records(official.decode(body, "logs"))
    text = official.protoc_decode(body, "logs")
    assert "faultd.crash" in text and not unknown_fields(text)

    for record in (rich, poor):
        assert record.event == "faultd.crash"
        assert (record.severity, record.severity_text) == (otlp.SEVERITY_ERROR, "ERROR")
        assert record.resource["host.name"] == "node-1"
    assert rich.body == "myapp[4711] crashed"
    assert (rich.time_ns, rich.observed_ns) == (1700000000123456789, 1700000001000000000)
    assert rich.attributes["process.pid"] == 4711  # a number, not a text
    assert rich.attributes["faultd.collapsed"] is True and poor.attributes["faultd.collapsed"] is False
    assert rich.attributes["faultd.frames"] == ["dead0000000000000000000000000000000000be+0xffffffffffffffff", "?", "program+0x1000"]
    assert poor.attributes["faultd.si_code"] == -6
    assert poor.attributes["process.real_user.id"] == 4294967295
    assert "faultd.address" not in rich.attributes


def test_the_severity_is_the_official_one(official):
    for file in official.descriptors.file:
        for enum in file.enum_type:
            if enum.name == "SeverityNumber":
                assert {v.name: v.number for v in enum.value}["SEVERITY_NUMBER_ERROR"] == otlp.SEVERITY_ERROR
                return
    pytest.fail("the official schema has no SeverityNumber")


CRASH = ["python3", "-c", "import ctypes; ctypes.string_at(16)"]


def crash_in(cgroup):
    """Reads address 16; returns the process id."""
    process = cgroup.popen(CRASH, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert process.wait(30) == -signal.SIGSEGV
    return process.pid


def need_bad_accesses(daemon):
    if not daemon.metrics().samples("faultd_probe_info", probe="bad_accesses") and not daemon.metrics().samples(
        "faultd_bad_access_rate"
    ):
        pytest.skip("the daemon has no probe for bad accesses here")


def records_of(schema, receiver, cgroup):
    """The log records of a cgroup so far."""
    with receiver.changed:
        batches = list(receiver.batches["logs"])
    return [
        record
        for batch in batches
        for record in otlp.records(schema.decode(batch.body, "logs"))
        if record.attributes.get("cgroup.path") == cgroup.path
    ]


def bad_points(schema, batch, cgroup, metric="faultd.bad_accesses"):
    return [
        p
        for p in otlp.points(schema.decode(batch.body))
        if p.metric == metric and p.attributes.get("cgroup.path") == cgroup.path
    ]


def test_bad_accesses_are_counted_at_the_receiver(shipped, official, cgroup):
    daemon, receiver = shipped
    need_bad_accesses(daemon)
    for _ in range(3):
        crash_in(cgroup)

    def there():
        batch = receiver.last()
        found = bad_points(official, batch, cgroup) if batch else []
        return found if sum(p.value for p in found) == 3 else None

    (point,) = wait_until(there, 20, "three bad accesses at the receiver")
    assert point.monotonic
    assert {k: v for k, v in point.attributes.items() if k.startswith("faultd.")} == {
        "faultd.signal": "SIGSEGV",
        "faultd.code": "maperr",
        "faultd.outcome": "fatal",
    }
    rates = bad_points(official, receiver.last(), cgroup, "faultd.bad_access.rate")
    assert {p.attributes["window"] for p in rates} == {"1s", "10s", "1m"}
    assert all(not p.monotonic for p in rates)


def test_a_crash_is_a_log_record(shipped, official, cgroup):
    daemon, receiver = shipped
    need_bad_accesses(daemon)
    before = time.time_ns()
    pid = crash_in(cgroup)
    (record,) = wait_until(lambda: records_of(official, receiver, cgroup), 30, "a log record at the receiver")
    batch = receiver.last("logs")
    assert batch.path == "/v1/logs"
    assert batch.headers["Content-Type"] == "application/x-protobuf"
    assert not unknown_fields(official.protoc_decode(batch.body, "logs"))

    assert record.event == "faultd.crash"
    assert record.severity == otlp.SEVERITY_ERROR
    assert before - 10**9 < record.time_ns <= record.observed_ns + 10**9 < time.time_ns() + 2 * 10**9
    assert f"[{pid}]" in record.body and "SIGSEGV" in record.body
    expected = {
        "process.pid": pid,
        "thread.id": pid,
        "process.real_user.id": os.getuid(),
        "faultd.signal": "SIGSEGV",
        "faultd.code": "maperr",
        "faultd.outcome": "fatal",
        "faultd.access": "read",
        "faultd.kind": "missing",
        "faultd.address_class": "null page",
        "faultd.collapsed": False,
        "faultd.suppressed": 0,
    }
    assert expected.items() <= record.attributes.items()
    assert record.attributes["process.executable.name"].startswith("python3")
    assert record.resource["service.name"] == "faultd"
    # Raw addresses stay here.
    assert not {"faultd.address", "faultd.ip", "faultd.sp"} & set(record.attributes)


def test_a_receiver_without_logs_gets_its_metrics(official, cgroup):
    need_bpf()
    no_logs = Receiver(answer=lambda batch: Answer(404 if batch.signal == "logs" else 200))
    with no_logs as receiver, Daemon(ship_to(receiver.url)) as daemon:
        need_bad_accesses(daemon)
        crash_in(cgroup)
        receiver.wait(1, 30, "logs")

        def dropped():
            return daemon.metrics().sum("faultd_ship_dropped_log_records_total", reason="unsupported") > 0

        wait_until(dropped, 20, "a log record counted as dropped")
        count = receiver.count
        receiver.wait(count + 2)
        assert daemon.metrics().sum("faultd_ship_dropped_data_points_total") == 0
        daemon.wait_log("takes no log records")


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
        assert metrics.sum("faultd_ship_dropped_data_points_total") == 0


def test_victoria_metrics_takes_no_logs_but_goes_on_with_metrics(victoria_metrics, cgroup):
    need_bpf()
    with VictoriaMetrics(victoria_metrics) as server, Daemon(ship_to(server.url + "/opentelemetry")) as daemon:
        need_bad_accesses(daemon)
        crash_in(cgroup)

        def dropped():
            return daemon.metrics().sum("faultd_ship_dropped_log_records_total", reason="unsupported") > 0

        wait_until(dropped, 20, "a log record counted as dropped")
        daemon.wait_log("takes no log records")

        def value():
            found = server.query('{__name__="faultd.bad_accesses"}')
            return [v for labels, v in found if labels.get("cgroup.path") == cgroup.path] == [1]

        wait_until(value, 20, "the bad access in VictoriaMetrics")
        assert daemon.metrics().sum("faultd_ship_dropped_data_points_total") == 0
