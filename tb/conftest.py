# SPDX-License-Identifier: Apache-2.0
"""Provides simulator and seed of every bench run, and reports simulators and plan results."""

import os
import shutil

import pytest
import testplan
from interrupt import INTERRUPTED

from tb import results, schedule, times
from tb.runner import OUT, new_seed, planned_tests
from tb.simulators import ROOT, SIMULATORS, simulator_missing, wrong_choice

SEED = pytest.StashKey[int]()
FOUND = pytest.StashKey[dict]()
CLOCK = pytest.StashKey[times.Clock]()
REPORTED = pytest.StashKey[list]()
VERDICT = pytest.StashKey[str]()
INTERRUPT = pytest.StashKey[bool]()
WRONG_USAGE = 2
# pytest_runtest_logreport does not receive the configuration.
_found: list[dict] = []


def pytest_addoption(parser):
    group = parser.getgroup("simulation")
    group.addoption("--sim", default=",".join(SIMULATORS), help="verilator, icarus or both")
    group.addoption("--long", action="store_true", help="also tests that take long on Icarus")
    group.addoption("--short", action="store_true",
                    help="a part of the parameters and rounds of long units and scenarios")
    group.addoption("--plan", action="store_true", help="complete run: write reports/test")
    group.addoption("--seed", type=int, default=None, help="seed of every random choice")


def pytest_configure(config):
    refused = wrong_choice(config.getoption("--sim"))
    if refused:
        pytest.exit(refused, returncode=WRONG_USAGE)
    given = config.getoption("--seed")
    if given is None:
        # Workers of pytest-xdist use the seed of their controller.
        given = getattr(config, "workerinput", {}).get("efa_seed") or new_seed()
    config.stash[SEED] = given
    # The hooks of a conftest see only the tests below it; those of a plugin see all.
    config.stash[CLOCK] = times.Clock()
    config.pluginmanager.register(config.stash[CLOCK])
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Begun(config))
    if config.getoption("--plan") and not hasattr(config, "workerinput"):
        folder = OUT / f"results-{os.getpid()}"
        folder.mkdir(parents=True, exist_ok=True)
        os.environ[results.FOLDER] = str(folder)
        config.stash[FOUND] = {}
        _found.append(config.stash[FOUND])


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


# Kinds of tests, the longest first, so that no worker ends with a long test alone.
# The test of named waits simulates what the other tests of tb/cycle read.
LONG = ("test_only_a_term", "test_the_last_changes", "test_area[icarus", "test_session[icarus",
        "test_area", "test_digest", "test_fabric", "test_service_and_named_waits", "test_session",
        "test_unit[verilator", "test_unit")  # fmt: skip


def _place(nodeid):
    return next((n for n, part in enumerate(LONG) if part in nodeid), len(LONG))


def pytest_collection_modifyitems(items):
    """Sorts long tests first, then files whose tests run on one worker."""

    def order(item):
        return _place(item.nodeid), not schedule.shares(schedule.file_of(item.nodeid))

    items.sort(key=order)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    # The order is that of the collection, not that of the number of tests of a file.
    config.option.loadscopereorder = False
    return schedule.Scheduler(config, log)


class Begun:
    """Prints the long tests when they start, since their dots follow minutes later; notes an
    interrupt."""

    def __init__(self, config):
        self.config = config

    def pytest_runtest_logstart(self, nodeid):
        if _place(nodeid) < LONG.index("test_unit[verilator"):
            reporter = self.config.pluginmanager.get_plugin("terminalreporter")
            reporter.ensure_newline()
            reporter.write_line(f"running {nodeid.partition('::')[2]}")

    def pytest_keyboard_interrupt(self, excinfo):
        # A collection error and pytest.exit() call this hook, too, with other types.
        self.config.stash[INTERRUPT] = excinfo.type is KeyboardInterrupt


@pytest.fixture
def sim(request):
    reason = simulator_missing(request.param)
    if reason is not None:
        pytest.skip(reason)
    return request.param


@pytest.fixture
def unless_long(sim, request):
    """Returns a function that skips a test on Icarus unless --long is given."""

    def skip(name: str) -> None:
        if sim == "icarus" and not request.config.getoption("--long"):
            pytest.skip(f"{name} is slow on icarus: `make icarus` runs it")

    return skip


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
        module = _module_run_by(item, callspec.params)
        if module:
            report.user_properties.append(("efa_module", module))


def _module_run_by(item, params):
    """Returns the cocotb module of a case of test_unit.py or test_system.py."""
    if item.originalname == "test_area":
        return f"tb.system.{params['area']}_tests"
    if item.originalname == "test_unit":
        from tb.unit.units import UNITS

        return UNITS[params["name"]].module(params["name"])
    return None


def pytest_runtest_logreport(report):
    found = _found[0] if _found else None
    if found is None or (report.when != "call" and report.passed):
        return
    known = dict(report.user_properties)
    file, _, name = report.nodeid.partition("::")
    keys = [(file, name.partition("[")[0], known.get("efa_sim", results.PYTHON))]
    if report.skipped and "efa_module" in known:
        module = known["efa_module"]
        file = module.replace(".", "/") + ".py"
        keys = [(file, test, known["efa_sim"]) for test in planned_tests(module)]
    for key in keys:
        found.setdefault(key, []).append(report.outcome)


def counts_by_simulator(config):
    """Returns the number of tests by simulator and result; empty if no test has a simulator."""
    counts: dict[str, dict[str, int]] = {}
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    for verdict in ("passed", "failed", "skipped"):
        for report in reporter.stats.get(verdict, []) if reporter else []:
            for key, sim in getattr(report, "user_properties", []):
                if key == "efa_sim":
                    by_verdict = counts.setdefault(sim, {})
                    by_verdict[verdict] = by_verdict.get(verdict, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: SIMULATORS.index(item[0])))


def shortened_units(reporter):
    """Returns the modules with the tests of units that ran a part of their cases or rounds."""
    modules = {module for report in reporter.stats.get("passed", [])
               for key, module in report.user_properties if key == "efa_module"}
    texts = {module: (ROOT / f"{module.replace('.', '/')}.py").read_text() for module in modules}
    return sorted(module.rpartition(".")[2].removesuffix("_tests")
                  for module, text in texts.items() if "from tb.unit.length import" in text)


def unused_simulators(config, counts):
    """Returns the reason for each simulator of the project on which no test ran."""
    requested = config.getoption("--sim").split(",")
    used = results.simulators_used(counts)
    return {
        sim: (simulator_missing(sim) or "every test skipped").removeprefix(f"{sim}: ")
        if sim in requested
        else "not requested"
        for sim in SIMULATORS
        if sim not in used
    }


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput"):
        return
    if session.config.stash.get(INTERRUPT, False):
        # An incomplete run has no verdict and no report.
        session.exitstatus = INTERRUPTED
        if FOUND in session.config.stash:
            shutil.rmtree(os.environ.pop(results.FOLDER), ignore_errors=True)
        return
    counts = counts_by_simulator(session.config)
    if counts and not results.simulators_used(counts) and session.exitstatus == 0:
        session.exitstatus = WRONG_USAGE
    _check_the_plan(session, counts)
    if counts:
        session.config.stash[VERDICT] = _status(session, counts)


def _status(session, counts):
    unused = unused_simulators(session.config, counts)
    return results.verdict(session.exitstatus == 0, counts, unused)


def pytest_unconfigure(config):
    """Prints the result as the last line, after pytest's own count."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter and VERDICT in config.stash:
        reporter.write_line(config.stash[VERDICT])


def _check_the_plan(session, counts):
    """Writes reports/test of a complete run; holes in the plan fail the run."""
    config = session.config
    if FOUND not in config.stash:
        return
    found = config.stash[FOUND]
    folder = os.environ.pop(results.FOLDER)
    for key, verdicts in results.collect(folder).items():
        found.setdefault(key, []).extend(verdicts)
    shutil.rmtree(folder, ignore_errors=True)
    sims = config.getoption("--sim").split(",")
    tests = testplan.find_tests(ROOT)
    plan = testplan.read_plan(ROOT)
    entries = [(entry, testplan.tests_of(entry, tests)) for entry in plan.entries]
    entries = [(entry, mine) for entry, mine in entries if mine]
    rows = results.on_the_plan(entries, found, sims)
    wrong = results.holes(rows, sims)
    if wrong and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    verdict = _status(session, counts)
    page = results.write(ROOT / "reports/test", rows, sims, config.stash[SEED], wrong, verdict)
    times.write(page.parent, config.stash[CLOCK].tests)
    text = f"plan: {len(rows)} lines, {len(wrong)} holes, {page.relative_to(ROOT)}"
    config.stash[REPORTED] = [*times.lines(config.stash[CLOCK].tests), *wrong, text]


def pytest_terminal_summary(terminalreporter, config):
    for sim, by_verdict in counts_by_simulator(config).items():
        text = ", ".join(f"{number} {verdict}" for verdict, number in by_verdict.items())
        terminalreporter.write_line(f"simulator {sim}: {text}")
    for line in config.stash.get(REPORTED, []):
        terminalreporter.write_line(line)
    names = shortened_units(terminalreporter) if config.getoption("--short") else []
    if names:
        text = f"a part of the cases, `make unit` runs all: {', '.join(names)}"
        terminalreporter.write_line(text)
    terminalreporter.write_line(f"seed {config.stash[SEED]}")
