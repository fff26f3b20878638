# SPDX-License-Identifier: Apache-2.0
"""Provides devices and jobs; a file that needs others defines its own."""

import pytest
from rig import Host

from efa_cosim.backends import SERVERS, backend_names


@pytest.fixture
def host():
    """Returns a device after driver initialization."""
    return Host()


@pytest.fixture
def recorded():
    """Returns an initialized device with the profile of the recorded sessions."""
    return Host(profile="recorded")


@pytest.fixture(scope="session")
def short(request):
    """Returns True in `make test`, which runs a part of some long tests; `make model` runs all."""
    return request.config.getoption("--short", default=False)


@pytest.fixture
def entry(tmp_path, monkeypatch):
    """Writes a module with one job and registers it; returns the name of its entry point. The JSON
    of the job is `job` in that module."""
    folder = tmp_path / "modules"
    described = folder / "fakepoint-1.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: fakepoint\nVersion: 1\n")
    (described / "entry_points.txt").write_text("[efa_cosim.jobs]\nfake = fakepoint\n")
    monkeypatch.syspath_prepend(folder)

    def made(text):
        path = folder / "fakepoint.py"
        path.write_text(f"import json, os, sys, time\njob = json.loads(sys.argv[1])\n{text}\n")
        return "fake"

    return made


@pytest.fixture(scope="module", params=["model", pytest.param("verilator", marks=pytest.mark.slow)])
def backend(request):
    """Returns the name of each backend that `efa-cosim serve` offers."""
    if request.param not in ("model", *backend_names(SERVERS)):
        pytest.skip("no simulator is registered: run `make setup`")
    return request.param
