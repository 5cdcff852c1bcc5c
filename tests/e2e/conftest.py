# SPDX-License-Identifier: Apache-2.0
import pytest
import servers


@pytest.fixture(scope="session")
def official():
    return servers.official_schema()


@pytest.fixture(scope="session")
def victoria_metrics():
    return servers.program("victoria-metrics", *servers.VICTORIA_METRICS)


@pytest.fixture(scope="session")
def prometheus():
    return servers.program("prometheus", *servers.PROMETHEUS)


@pytest.fixture(scope="session")
def promtool():
    return servers.program("promtool", *servers.PROMETHEUS)
