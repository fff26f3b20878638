# SPDX-License-Identifier: Apache-2.0
"""Tests jobs on a cluster: a Dask scheduler and workers in processes of their own, each killed in
turn; the watchdog and the refusals without Dask."""

import importlib.util
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import CancelledError
from pathlib import Path
from types import SimpleNamespace

import pytest

from efa_cosim.cli import regress, sweep
from efa_cosim.cli.main import main
from efa_cosim.jobs import cluster
from efa_cosim.jobs.cluster import Cluster, ClusterError
from efa_cosim.sweep import cache
from efa_cosim.sweep.grid import Job

JOBS = 8
SIZES = tuple(range(8, 8 * JOBS + 1, 8))
GRID = f"sizes: [{', '.join(map(str, SIZES))}]\nkinds: SRD\nmeasure: latency\n"
TABLE = "measurements.csv"
ABSENT = [name for name in ("distributed", "dask_jobqueue") if not importlib.util.find_spec(name)]
with_dask = pytest.mark.skipif(
    bool(ABSENT), reason=f"not installed: {', '.join(ABSENT)} (pip install '.[cluster]')")
# One job: writes a file when it begins and when it ends, and takes as long as the file `slow` says.
TEXT = """
import pathlib
place = pathlib.Path({folder!r})
mine = f"{{job['size']}}-{{os.getpid()}}"
(place / f"begun-{{mine}}").touch()
start = time.monotonic()
while time.monotonic() < start + float((place / "slow").read_text()):
    time.sleep(0.02)
(place / f"ended-{{mine}}").touch()
print(json.dumps([{{"metric": "latency", "statistic": "median", "value": job["size"] * 1.5,
    "unit": "cycles", "messages": 8, "limit": None, "kind": "SRD", "size": job["size"], "queues": 1,
    "host_read_latency": 125, "seed": 1}}]))
"""
# A shell ignores SIGINT in a background job, and child processes inherit that. The client restores
# the default, so that a test can interrupt it.
CLIENT = """
import pathlib, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from efa_cosim.cli import regress, sweep
from efa_cosim.cli.main import main
from efa_cosim.sweep import cache
cache.FOLDER = regress.FOLDER = pathlib.Path(sys.argv[1])
sweep.ENTRY = regress.ENTRY = "fake"
sys.exit(main(sys.argv[2:]))
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def until(true, seconds=120.0):
    """Waits until a function returns a true value; returns it."""
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.02)
    return found


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Site:
    """A scheduler and workers in processes of their own, and a sweep with jobs that count."""

    def __init__(self, folder, entry):
        self.folder, self.marks, self.port = folder, folder / "marks", free_port()
        self.marks.mkdir()
        self.slow(0.0)
        self.entry = entry(TEXT.format(folder=str(self.marks)))
        self.grid = folder / "small.yaml"
        self.grid.write_text(GRID)
        self.scheduler, self.workers = None, []
        self.environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "10s",
        }  # fmt: skip

    @property
    def address(self):
        return f"tcp://127.0.0.1:{self.port}"

    def start(self, workers=2):
        self.scheduler = self._program("scheduler", "--host", "127.0.0.1", "--port", self.port)
        self.workers = [self.worker() for _ in range(workers)]

    def worker(self):
        return self._program("worker", self.address, "--nthreads", 1, "--no-nanny",
                             "--local-directory", self.folder / "dask", "--death-timeout", 60)

    def _program(self, *arguments):
        name, *more = map(str, arguments)
        command = [sys.executable, "-m", "dask", name, "--no-dashboard", *more]
        with (self.folder / "log").open("a") as log:
            return subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def stop(self):
        for one in (*self.workers, self.scheduler):
            if one is not None:
                one.kill()
                one.wait()

    def slow(self, seconds):
        (self.marks / "part").write_text(str(seconds))
        (self.marks / "part").replace(self.marks / "slow")

    def marked(self, kind):
        """Returns (size, number of the process) of each job that has begun or ended."""
        found = [path.name.split("-") for path in self.marks.glob(f"{kind}-*")]
        return sorted((int(size), int(pid)) for _, size, pid in found)

    def ran(self):
        """Returns the sizes of the jobs that ended, one for each end."""
        return [size for size, _ in self.marked("ended")]

    def client(self, *command):
        """Starts the sweep, or another command, in a process of its own."""
        command = command or ("sweep", self.grid)
        with (self.folder / "client").open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-c", CLIENT, self.folder / "kept", *command, "--cluster",
                 self.address, "--out", self.folder / "out"],
                env=self.environment, stdout=log, stderr=log)  # fmt: skip

    def stored(self):
        """Returns the number of results that the client stored."""
        return len(list((self.folder / "kept").glob("*/*.json")))

    def table(self):
        return (self.folder / "out" / TABLE).read_bytes()


@pytest.fixture
def site(tmp_path, entry, monkeypatch):
    made = Site(tmp_path, entry)
    monkeypatch.setattr(cache, "FOLDER", tmp_path / "local")
    monkeypatch.setattr(sweep, "ENTRY", made.entry)
    yield made
    made.stop()


@pytest.fixture
def expected(site):
    """The table of the same sweep on local processes."""
    assert main(["sweep", str(site.grid), "--out", str(site.folder / "expected")]) == 0
    for path in site.marks.glob("*-*"):
        path.unlink()
    return (site.folder / "expected" / TABLE).read_bytes()


# Workers, scheduler and client that die

@with_dask
@pytest.mark.slow
def test_a_job_whose_worker_is_killed_runs_on_another_one(site, expected):
    site.start()
    site.slow(600)
    client = site.client()
    begun = until(lambda: len(found := site.marked("begun")) == 2 and found)
    site.workers[0].kill()
    ((size, pid),) = until(lambda: [one for one in begun if not alive(one[1])])
    site.slow(0)
    assert client.wait(120) == 0
    assert len(site.marked("begun")) == JOBS + 1
    assert [one for one, _ in site.marked("begun")].count(size) == 2
    assert site.ran() == list(SIZES) and (size, pid) not in site.marked("ended")
    assert site.table() == expected


@with_dask
@pytest.mark.slow
def test_after_the_death_of_the_scheduler_the_same_command_resumes(site, expected):
    site.start(1)
    site.slow(0.2)
    client = site.client()
    until(lambda: len(site.ran()) >= 2)
    site.slow(600)
    until(lambda: len(site.marked("begun")) > len(site.ran()))
    site.scheduler.kill()
    assert client.wait(120) == 2
    assert "lost the connection to the scheduler of tcp://127.0.0.1:" in (
        site.folder / "client").read_text()
    site.stop()
    until(lambda: not any(alive(pid) for _, pid in site.marked("begun")))
    before = site.ran()
    assert 2 <= len(before) < JOBS
    site.slow(0)
    site.start(1)
    client = site.client()
    assert client.wait(120) == 0
    assert site.ran() == list(SIZES)
    assert site.table() == expected


@with_dask
@pytest.mark.slow
def test_after_the_death_of_the_client_the_same_command_resumes(site, expected):
    site.start(1)
    site.slow(0.2)
    client = site.client()
    until(lambda: site.stored() >= 2)
    client.kill()
    client.wait()
    kept = site.stored()
    assert not (site.folder / "out" / TABLE).exists()
    client = site.client()
    assert client.wait(120) == 0
    assert f"{JOBS} jobs, {kept} of them cached" in (site.folder / "client").read_text()
    # A job between its end and its storage may run twice; the table has it once.
    assert sorted(set(site.ran())) == list(SIZES) and len(site.ran()) <= JOBS + 2
    assert site.table() == expected


@with_dask
@pytest.mark.slow
def test_kills_at_random_moments_leave_the_same_table(site, expected):
    """Worker, scheduler and client die in random order; what died is started again."""
    seed = random.SystemRandom().randrange(1 << 31)
    print(f"seed {seed}")
    rng = random.Random(seed)
    site.slow(0.5)
    site.start()
    client = site.client()
    for victim in rng.sample(["worker", "scheduler", "client"], 3):
        begun = len(site.marked("begun"))
        until(lambda begun=begun, client=client: client.poll() is not None
              or len(site.marked("begun")) > begun)
        time.sleep(rng.random())
        if victim == "worker":
            site.workers.pop(rng.randrange(2)).kill()
            site.workers.append(site.worker())
        elif victim == "client":
            client.kill()
        else:
            site.scheduler.kill()
            assert client.wait(120) in (0, 2)
            site.stop()
            site.start()
        if victim != "worker" and client.wait(120) != 0:
            client = site.client()
    assert client.wait(120) == 0
    assert site.stored() == JOBS and set(site.ran()) == set(SIZES)
    assert site.table() == expected


@pytest.fixture
def background():
    """Ignores SIGINT, as a shell does in a background job; child processes inherit that."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@with_dask
@pytest.mark.slow
@pytest.mark.usefixtures("background")
def test_an_interrupt_ends_the_jobs_of_the_workers(site):
    site.start()
    site.slow(600)
    client = site.client()
    begun = until(lambda: len(found := site.marked("begun")) == 2 and found)
    client.send_signal(signal.SIGINT)
    assert client.wait(120) == 130
    until(lambda: not any(alive(pid) for _, pid in begun))
    assert all(one.poll() is None for one in site.workers)


@with_dask
@pytest.mark.slow
def test_a_worker_with_other_sources_is_refused(site, monkeypatch, capsys):
    site.start(1)
    monkeypatch.setattr(cluster, "digest_of", lambda *_: "other")
    command = ["sweep", str(site.grid), "--cluster", site.address]
    assert main([*command, "--out", str(site.folder / "out")]) == 2
    text = capsys.readouterr().err
    assert "are not those of this command (other); check out the same commit there" in text
    assert site.marked("begun") == []


# A run: fails with seed 2, and with seed 3 at the first attempt.
REGRESS = """
import pathlib
place = pathlib.Path({folder!r})
(place / f"begun-{{job['seed']}}-{{os.getpid()}}").touch()
start = time.monotonic()
while time.monotonic() < start + float((place / "slow").read_text()):
    time.sleep(0.02)
failed = job["seed"] == 2 or (job["seed"] == 3 and job["attempt"] == 1)
print(json.dumps([{{"verdict": "failed" if failed else "passed", "machine": str(os.getpid()),
                   "reason": "count: expected 1, found 2" if failed else ""}}]))
"""
TESTS = "seeds: [1, 2, 3, 4]\ntests:\n  - unit: [ram, skid]\n"


@with_dask
@pytest.mark.slow
def test_a_regression_survives_worker_client_and_scheduler(site, entry, monkeypatch):
    entry(REGRESS.format(folder=str(site.marks)))
    path, out = site.folder / "tests.yaml", site.folder / "out"
    path.write_text(TESTS)
    monkeypatch.setattr(regress, "ENTRY", "fake")
    monkeypatch.setattr(regress, "FOLDER", site.folder / "local")
    assert main(["regress", str(path), "--out", str(site.folder / "expected")]) == 1
    expected = (site.folder / "expected/results.csv").read_bytes()
    for mark in site.marks.glob("begun-*"):
        mark.unlink()

    site.start()
    site.slow(600)
    client = site.client("regress", path)
    begun = until(lambda: len(found := site.marked("begun")) == 2 and found)
    site.workers[0].kill()
    until(lambda: [one for one in begun if not alive(one[1])])
    site.slow(0.3)
    until(lambda: site.stored() >= 3)
    client.kill()
    client.wait()
    before = site.stored()
    client = site.client("regress", path)
    until(lambda: site.stored() > before)
    site.scheduler.kill()
    assert client.wait(120) == 2
    site.stop()
    before = site.stored()
    assert 3 < before < 12 and not (out / "results.csv").exists()
    site.slow(0)
    site.start()
    assert site.client("regress", path).wait(120) == 1
    assert site.stored() == 12
    assert (out / "results.csv").read_bytes() == expected
    assert b"flaky" in expected and b"failed" in expected


@with_dask
@pytest.mark.slow
def test_the_laboratory_has_the_same_report_on_a_cluster(site):
    command = ["lab", "--bug", "no_fence", "--seeds", "1", "--correct", "1", "--rtl", "none"]
    site.start()
    client = site.client(*command)
    assert main([*command, "--jobs", "3", "--out", str(site.folder / "expected")]) == 0
    assert client.wait(120) == 0
    local, remote = ({path.name: path.read_bytes() for path in (site.folder / name).iterdir()}
                     for name in ("expected", "out"))  # fmt: skip
    assert len(local) == 7
    numbers = [json.loads(files.pop("summary.json")) for files in (local, remote)]
    assert all(one.pop("seconds") > 0 for one in numbers)
    assert numbers[0] == numbers[1]
    assert local == remote


# Refusals

def test_a_single_run_of_the_laboratory_needs_no_cluster(capsys):
    assert main(["lab", "--one", "--cluster", "slurm"]) == 2
    assert "--cluster does not go with --one" in capsys.readouterr().err


def test_a_cluster_without_its_packages_says_what_to_install(site, monkeypatch, capsys):
    def absent(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(cluster, "import_module", absent)
    for where in ("tcp://127.0.0.1:8786", "slurm"):
        assert main(["sweep", str(site.grid), "--cluster", where]) == 2
        text = capsys.readouterr().err
        assert "--cluster needs the package distributed, which is not installed" in text
        assert "-m pip install '.[cluster]'" in text


@with_dask
@pytest.mark.parametrize("command", ["sweep", "lab"])
def test_an_address_without_scheduler_is_refused(site, monkeypatch, capsys, command):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.2)
    more = [str(site.grid)] if command == "sweep" else ["--out", str(site.folder / "out")]
    assert main([command, *more, "--cluster", site.address]) == 2
    *_, text = capsys.readouterr().err.splitlines()
    assert text.startswith(f"efa-cosim: no Dask scheduler at {site.address} (")
    assert "start it with `.venv/bin/dask scheduler`" in text


@pytest.mark.parametrize("where", ["10.0.0.1:8786", "tcp://host", "slurm:", "ssh://a:1"])
def test_a_wrong_address_is_refused_with_its_form(site, capsys, where):
    with pytest.raises(SystemExit) as ended:
        main(["sweep", str(site.grid), "--cluster", where])
    assert ended.value.code == 2
    assert "must be tcp://HOST:PORT of a Dask scheduler, slurm or slurm" in capsys.readouterr().err


def test_a_cluster_goes_with_a_file_only(capsys):
    assert main(["sweep", "--cluster", "slurm"]) == 2
    assert "--cluster needs a FILE" in capsys.readouterr().err


# The watchdog, with a scheduler that does what the test wants

class FakeFuture:
    """A future that the test finishes."""

    def __init__(self):
        self.status, self._called = "pending", None

    def add_done_callback(self, call):
        self._called = call

    def done(self):
        return self.status != "pending"

    def finish(self, value):
        self.status, self.value = "finished", value
        self._called(self)

    def result(self):
        return self.value

    def release(self):
        pass


class FakeClient:
    """The client of a scheduler with two workers; `taken` are the keys that a worker has."""

    def __init__(self, *_arguments, **_options):
        self.status, self.submitted, self.taken = "running", [], set()

    def submit(self, _function, *_arguments, key, **_options):
        self.submitted.append((key, FakeFuture()))
        return self.submitted[-1][1]

    def nthreads(self):
        return {"a": 1, "b": 1}

    def processing(self):
        return {"a": tuple(self.taken), "b": ()}

    def cancel(self, _futures):
        pass

    def run(self, *_arguments, **_options):
        pass

    def close(self, **_options):
        pass


@pytest.fixture
def faked(monkeypatch, entry):
    """A cluster with one job, whose scheduler is a FakeClient; the watchdog is quick."""
    dask = SimpleNamespace(Client=FakeClient)
    monkeypatch.setattr(cluster, "import_module", lambda _name: dask)
    monkeypatch.setattr(cluster, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(cluster, "LOST_SECONDS", 0.05)
    made = Cluster("tcp://x:1", 1, entry(""), ())
    made.add(Job("verilator", "SRD", 64, 125, 7, (1,), ("latency",)))
    return made


def test_a_job_that_the_scheduler_lost_is_submitted_again_and_counts_once(faked):
    client = faked._client

    def rescue(real=client.nthreads):
        if len(client.submitted) == 2:
            # The first attempt comes back late, besides the second one.
            client.submitted[0][1].finish((0, 1.0, "[1]", ""))
            client.submitted[1][1].finish((0, 1.0, "[2]", ""))
        return real()

    client.nthreads = rescue
    (done,) = faked.results()
    assert (done.code, done.measurements) == (0, [2])
    assert len({key for key, _ in client.submitted}) == 2


def test_a_job_at_a_worker_is_left_alone_until_its_limits_are_over(faked, monkeypatch):
    client, now = faked._client, [1000.0]
    monkeypatch.setattr(cluster.time, "monotonic", lambda: now[0])
    results = faked.results()

    def tick():
        now[0] += 60.0
        client.taken = {key for key, _ in client.submitted}
        if len(client.submitted) == 2:
            client.submitted[1][1].finish((0, 1.0, "[]", ""))
        return {"a": 1, "b": 1}

    client.nthreads = tick
    assert next(results).code == 0
    # Two jobs of 3,600 s may run one after the other.
    assert now[0] - 1000.0 >= 7200.0


def test_a_job_lost_too_often_is_a_failure(faked):
    (done,) = faked.results()
    assert (done.code, len(faked._client.submitted)) == (1, cluster.ATTEMPTS)
    assert done.reason == "lost by the cluster 3 times: at no worker for 0 s while one is idle"


def fails(error):
    def call(*_arguments, **_options):
        raise error

    return call


@pytest.mark.parametrize("call", ["submit", "nthreads", "processing", "result"])
def test_a_scheduler_that_dies_in_any_call_is_named(faked, call):
    client = faked._client

    def dies(*_arguments, **_options):
        client.status = "closed"
        raise CancelledError(call)

    if call == "result":
        future = FakeFuture()
        client.submit = lambda *_arguments, **_options: future
        future.result = dies
        future.add_done_callback = lambda called: (setattr(future, "status", "finished"),
                                                   called(future))
    else:
        setattr(client, call, dies)
    with pytest.raises(ClusterError, match="lost the connection to the scheduler of tcp://x:1"):
        list(faked.results())


def test_a_scheduler_that_dies_before_the_first_job_is_named(faked):
    client = faked._client

    def dies():
        client.status, client.scheduler = "closed", None
        return client.scheduler.ncores

    client.nthreads = dies
    with pytest.raises(ClusterError, match="lost the connection to the scheduler of tcp://x:1"):
        assert not faked.width


def test_an_error_of_a_call_is_not_taken_for_a_lost_scheduler(faked):
    faked._client.submit = fails(KeyError("own"))
    with pytest.raises(KeyError, match="own"):
        list(faked.results())


def test_a_result_that_did_not_arrive_is_computed_again(faked):
    client = faked._client

    def arrive(real=client.nthreads):
        for key, future in client.submitted:
            if not future.done():
                if len(client.submitted) == 1:
                    future.result = fails(CancelledError(key))
                future.finish((0, 1.0, "[2]", ""))
        return real()

    client.nthreads = arrive
    (done,) = faked.results()
    assert (done.code, done.measurements, len(client.submitted)) == (0, [2], 2)


def test_a_cluster_without_workers_is_an_error(faked, monkeypatch):
    monkeypatch.setattr(cluster, "NO_WORKER_SECONDS", 0.0)
    faked._client.nthreads = dict
    with pytest.raises(ClusterError, match="no worker at tcp://x:1 for 0 s; finished jobs are sto"):
        list(faked.results())


class FakeSlurm:
    """A cluster of dask_jobqueue with two Slurm jobs; `asked` counts the requests for workers."""

    def __init__(self, **_options):
        self.asked = 0
        self.workers = {n: SimpleNamespace(job_id=str(n)) for n in (1, 2)}
        self.loop = SimpleNamespace(add_callback=lambda call, *arguments: call(*arguments))

    def scale(self, width):
        self.asked += 1
        for n in range(width - len(self.workers)):
            self.workers[10 * self.asked + n] = SimpleNamespace(job_id="none")

    def close(self):
        pass


@pytest.fixture
def slurm(monkeypatch, entry):
    """A cluster under Slurm with one job, whose workers have ended; `squeue` lists job 1."""
    dask = SimpleNamespace(Client=FakeClient, SLURMCluster=FakeSlurm)
    monkeypatch.setattr(cluster, "import_module", lambda _name: dask)
    monkeypatch.setattr(cluster, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(cluster, "RENEW_SECONDS", 0.0)
    monkeypatch.setattr(cluster, "_listed_by_slurm", lambda: {"1"})
    made = Cluster("slurm", 2, entry(""), ())
    made.add(Job("verilator", "SRD", 64, 125, 7, (1,), ("latency",)))
    return made


def test_a_slurm_job_that_ended_is_requested_again(slurm):
    client, workers = slurm._client, slurm._slurm
    client.nthreads = lambda: {"a": 1, **({"b": 1} if workers.asked else {})}

    def processing(real=client.processing):
        if workers.asked and client.submitted:
            client.submitted[0][1].finish((0, 1.0, "[1]", ""))
        return real()

    client.processing = processing
    (done,) = slurm.results()
    assert (done.code, done.measurements, workers.asked) == (0, [1], 1)
    assert sorted(workers.workers) == [1, 10]


def test_slurm_jobs_that_end_one_after_the_other_are_an_error(slurm):
    slurm._client.nthreads = dict
    with pytest.raises(ClusterError, match="7 Slurm jobs of slurm ended, and no job of this "):
        list(slurm.results())
    assert slurm._slurm.asked == 6


def test_without_an_answer_of_slurm_no_job_is_requested(slurm, monkeypatch):
    answers = iter([None, None, {"1", "2"}])

    def listed():
        found = next(answers)
        if found:
            slurm._client.submitted[0][1].finish((0, 1.0, "[1]", ""))
        return found

    monkeypatch.setattr(cluster, "_listed_by_slurm", listed)
    slurm._client.nthreads = lambda: {"a": 1}
    (done,) = slurm.results()
    assert (done.code, slurm._slurm.asked) == (0, 0)


def test_the_same_job_twice_is_refused(faked):
    faked.add(Job("verilator", "SRD", 64, 125, 7, (1,), ("latency",)))
    with pytest.raises(ValueError, match="was added a second time"):
        list(faked.results())
