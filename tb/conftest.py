"""Simulator and seed of every bench run, and which simulators really ran."""

import pytest

from tb.runner import new_seed
from tb.simulators import SIMULATORS, simulator_missing

SEED = pytest.StashKey[int]()


def pytest_addoption(parser):
    group = parser.getgroup("simulation")
    group.addoption("--sim", default=",".join(SIMULATORS), help="verilator, icarus or both")
    group.addoption("--long", action="store_true", help="also what takes minutes on Icarus")
    group.addoption("--seed", type=int, default=None, help="seed of every random choice")


def pytest_configure(config):
    given = config.getoption("--seed")
    if given is None:
        # Workers of pytest-xdist take the seed their controller chose.
        given = getattr(config, "workerinput", {}).get("efa_seed") or new_seed()
    config.stash[SEED] = given


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput["efa_seed"] = node.config.stash[SEED]


def pytest_report_header(config):
    lines = [f"seed: {config.stash[SEED]} (repeat with --seed or SEED=)"]
    for sim in config.getoption("--sim").split(","):
        lines.append(f"simulator {sim}: " + (simulator_missing(sim) or "present"))
    return lines


def pytest_generate_tests(metafunc):
    if "sim" in metafunc.fixturenames:
        metafunc.parametrize("sim", metafunc.config.getoption("--sim").split(","), indirect=True)


@pytest.fixture
def sim(request):
    reason = simulator_missing(request.param)
    if reason is not None:
        pytest.skip(reason)
    return request.param


@pytest.fixture
def seed(request):
    return request.config.stash[SEED]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    callspec = getattr(item, "callspec", None)
    if callspec is not None and "sim" in callspec.params:
        report.user_properties.append(("efa_sim", callspec.params["sim"]))


def pytest_terminal_summary(terminalreporter, config):
    counts: dict[str, dict[str, int]] = {}
    for verdict in ("passed", "failed", "skipped"):
        for report in terminalreporter.stats.get(verdict, []):
            for key, sim in getattr(report, "user_properties", []):
                if key == "efa_sim":
                    counts.setdefault(sim, {}).setdefault(verdict, 0)
                    counts[sim][verdict] += 1
    for sim, by_verdict in sorted(counts.items()):
        told = ", ".join(f"{number} {verdict}" for verdict, number in by_verdict.items())
        terminalreporter.write_line(f"simulator {sim}: {told}")
    terminalreporter.write_line(f"seed {config.stash[SEED]}")
