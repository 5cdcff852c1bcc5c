# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus, from the distribution's package, scrapes the daemon in both formats."""

import contextlib
import http.server
import subprocess
import threading
import time
import urllib.request

import pytest
import yaml
from harness import Daemon, Workload, need_bpf, wait_until
import servers
from servers import Server

WRITES = dict(mode="user", access="write", kind="missing")
TEXT, OPENMETRICS = "text/plain", "application/openmetrics-text"


class Pass:
    """Hands a scraper's requests on to the daemon and notes what either side says about the format. `accept` replaces
    the scraper's own Accept header: that is how a Prometheus that would take OpenMetrics gets the text format."""

    def __init__(self, target, accept=None):
        passing = self
        self.accepts, self.types, self.encodings = [], [], []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
                passing.accepts.append(headers.get("Accept"))
                if accept:
                    headers["Accept"] = accept
                with urllib.request.urlopen(urllib.request.Request(target + self.path, headers=headers), timeout=10) as answer:
                    body = answer.read()
                    passing.types.append(answer.headers["Content-Type"])
                    passing.encodings.append(answer.headers["Content-Encoding"])
                    self.send_response(answer.status)
                    for name in ("Content-Type", "Content-Encoding"):
                        if answer.headers[name]:
                            self.send_header(name, answer.headers[name])
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = "127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.server.shutdown()
        self.server.server_close()


class Prometheus(Server):
    def __init__(self, binary, config, targets):
        """targets: {job: address}"""
        jobs = [{"job_name": job, "static_configs": [{"targets": [address]}]} for job, address in targets.items()]
        with open(config, "w") as f:
            yaml.safe_dump({"global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"}, "scrape_configs": jobs}, f)
        argv = [binary, f"--config.file={config}", "--storage.tsdb.path={folder}/data", "--web.listen-address=127.0.0.1:{port}"]
        super().__init__(argv, "/-/ready")

    def query(self, expression):
        return servers.query(self.url, expression)

    def value(self, expression):
        """The one number that a query gives, None if it gives none."""
        found = self.query(expression)
        assert len(found) <= 1, f"{expression}: {found}"
        return found[0][1] if found else None


def writes_of(cgroup, job):
    labels = ",".join(f'{k}="{v}"' for k, v in dict(WRITES, cgroup=cgroup.path, job=job).items())
    return f"sum(faultd_page_faults_total{{{labels}}})"


@pytest.fixture(scope="module")
def scraped(prometheus, tmp_path_factory):
    """(daemon, Prometheus, {job: Pass}) with the daemon scraped through two passes."""
    need_bpf()
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(Daemon())
        passes = {
            "openmetrics": stack.enter_context(Pass(daemon.url)),
            "text": stack.enter_context(Pass(daemon.url, accept="text/plain;version=0.0.4;q=1,*/*;q=0.1")),
        }
        config = tmp_path_factory.mktemp("prometheus") / "prometheus.yml"
        yield daemon, stack.enter_context(Prometheus(prometheus, config, {j: p.address for j, p in passes.items()})), passes


def test_both_formats_are_scraped(scraped):
    _, server, passes = scraped
    for job, kind in (("text", TEXT), ("openmetrics", OPENMETRICS)):
        wait_until(lambda: server.value(f'up{{job="{job}"}}') == 1, 20, f"up of {job}")
        assert all(t.startswith(kind) for t in passes[job].types), passes[job].types
        assert "gzip" in passes[job].encodings
    # The OpenMetrics answer is what an unaltered Prometheus asked for.
    assert OPENMETRICS in passes["openmetrics"].accepts[0]


@pytest.mark.parametrize("job", ["text", "openmetrics"])
def test_sixteen_writes_are_sixteen_in_promql(scraped, cgroup, job):
    daemon, server, _ = scraped
    with Workload(cgroup, "write", 16) as work:
        before = daemon.faults(cgroup, **WRITES)
        if before:
            wait_until(lambda: server.value(writes_of(cgroup, job)) == before, 20, "the state before")
        work.run()
        wait_until(lambda: server.value(writes_of(cgroup, job)) == before + 16, 20, f"16 more writes in {job}")
        # Once there, it stays there: not 16 on the way to more.
        time.sleep(1.5)
        assert server.value(writes_of(cgroup, job)) == before + 16
        assert daemon.faults(cgroup, **WRITES) == before + 16


def test_a_rate_and_the_identity_can_be_joined(scraped, cgroup):
    _, server, _ = scraped
    with Workload(cgroup, "write", 64) as work:
        work.run()
        joined = f'sum by (cgroup, window) (faultd_page_fault_rate{{cgroup="{cgroup.path}",job="text"}})'
        wait_until(lambda: server.query(joined), 20, "a rate")
        info = f'count(faultd_page_fault_rate{{job="text"}} * on (cgroup) group_left (unit) faultd_cgroup_info{{job="text"}})'
        assert server.value(info) >= len(server.query(joined))


def test_totals_of_both_formats_agree(scraped, cgroup):
    """After a pause nothing distinguishes the two jobs for a cgroup that does nothing more."""
    daemon, server, _ = scraped
    with Workload(cgroup, "write", 100) as work:
        work.run()
        total = wait_until(lambda: daemon.faults(cgroup), what="faults")
        for job in ("text", "openmetrics"):
            expression = f'sum(faultd_page_faults_total{{cgroup="{cgroup.path}",job="{job}"}})'
            wait_until(lambda: server.value(expression) == total, 20, f"{total} in {job}")


def test_nothing_was_refused(scraped):
    _, server, _ = scraped
    wait_until(lambda: len(server.query("up == 1")) == 2, 20, "both up")
    for line in server.log.splitlines():
        assert not any(word in line for word in ("level=warn", "level=error", "append failed")), line


def test_promtool_finds_nothing_to_complain_about(promtool):
    need_bpf()
    with Daemon() as daemon:
        _, headers, body = daemon.get(headers={"Accept": "text/plain;version=0.0.4"})
        assert headers["Content-Type"].startswith(TEXT)
    out = subprocess.run([promtool, "check", "metrics"], input=body, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert (out.returncode, out.stdout.decode()) == (0, "")


def test_promtool_would_complain(promtool):
    """The linter does look: a counter without _total and without help is reported."""
    bad = b"# TYPE faultd_page_faults counter\nfaultd_page_faults 1\n"
    out = subprocess.run([promtool, "check", "metrics"], input=bad, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert out.returncode != 0 and b"faultd_page_faults" in out.stdout
