# SPDX-License-Identifier: Apache-2.0
"""Tests the jobs `run` and `sweep` and their processes, with the reference model instead of the
RTL."""

import csv
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import parquet
from timed import TimedModel

from efa_cosim.backends.model import open_model
from efa_cosim.boundary.backend import BackendUnavailable, DeviceTimeout
from efa_cosim.cli import regress, run, sweep
from efa_cosim.cli.main import main
from efa_cosim.host.endpoints import SRD
from efa_cosim.jobs import child, store
from efa_cosim.jobs.job import (
    OVER_MEMORY,
    OVER_TIME,
    Group,
    Limits,
    NoSuchEntry,
)
from efa_cosim.jobs.pool import Pool
from efa_cosim.measure.process import answer
from efa_cosim.measure.workload import Mismatch, latency_point, rate_point
from efa_cosim.report.page import read_summary
from efa_cosim.session import player
from efa_cosim.sweep import cache, point
from efa_cosim.sweep.grid import Job
from efa_cosim.tree import ROOT

JOB = Job("verilator", "SRD", 64, 125, 7, (1,), ("latency",))
MEASUREMENT = {"metric": "latency", "statistic": "median", "value": 5.0, "unit": "cycles",
               "messages": 8, "limit": None, "kind": "SRD", "size": 64, "queues": 1,
               "host_read_latency": 125, "seed": 7}  # fmt: skip
GRID = "sizes: [8, 64]\nkinds: SRD\n"


def opened(name, profile="default", record=False, **_knobs):
    """Opens the model under every backend name, with a clock if a simulator was requested."""
    kind = open_model if name == "model" else TimedModel
    return kind(profile=profile, record=record)


def small_measure(node, measurements, _progress):
    measurements += [latency_point(node, SRD, 64), rate_point(node, SRD, 64, 1)]


@pytest.fixture
def model_alone(monkeypatch):
    for module in (run, player, point):
        monkeypatch.setattr(module, "open_backend", opened)
    monkeypatch.setattr(run, "measure", small_measure)
    monkeypatch.setattr(run, "attribute", lambda *_: None)


# run

def test_run_compares_measures_and_reports(model_alone, tmp_path, capsys):
    assert main(["run", "--out", str(tmp_path / "run"), "--seed", "3"]) == 0
    shown = capsys.readouterr()
    out = shown.out.splitlines()
    assert "verilator; a new tree builds it first\nplaying pingpong on verilator" in shown.err
    assert out[-1].startswith("passed: 1326 DMA writes, 400 packets, 100 interrupts of 2 plays")
    summary = read_summary(tmp_path / "run")
    assert summary["verdict"] == "passed"
    for row, backend in zip(summary["sessions"], ("model", "verilator"), strict=True):
        assert (row["name"], row["backend"]) == ("pingpong.jsonl.gz", backend)
        assert (row["dma_writes"], row["packets"], row["interrupts"]) == (663, 200, 50)
    for measurement in summary["measurements"]:
        assert measurement["unit"] in ("cycles", "messages/cycle")
        assert measurement["messages"] > 0
        assert measurement["seed"] == 3
        assert measurement["limit"] is None or measurement["value"] <= measurement["limit"]


def test_run_fails_when_one_sent_something_else(model_alone, monkeypatch, tmp_path, capsys):
    def other(name, **options):
        backend = opened(name, **options)
        take = backend.packets
        if name != "model":
            backend.packets = lambda: [packet[:-1] + b"!" for packet in take()]
        return backend

    monkeypatch.setattr(player, "open_backend", other)
    assert main(["run", "--out", str(tmp_path / "run")]) == 1
    message = capsys.readouterr().out.splitlines()[-1]
    assert message.startswith("failed: pingpong.jsonl.gz: packet (opcode 1, queue pair 0x")
    summary = read_summary(tmp_path / "run")
    assert summary["verdict"] == "failed"
    assert len(summary["differences"]) == 1
    assert summary["differences"][0] in (tmp_path / "run/index.html").read_text().replace(
        "&#x27;", "'")


def test_run_fails_in_words_when_the_device_hangs(model_alone, monkeypatch, tmp_path, capsys):
    def hanging(path, backend, **_options):
        raise DeviceTimeout("not within\n 7 cycles")

    monkeypatch.setattr(run, "play", hanging)
    assert main(["run", "--out", str(tmp_path / "run")]) == 1
    message = capsys.readouterr()
    assert "pingpong.jsonl.gz on model: not within 7 cycles (and 1 more differences)" in message.out
    assert len(message.out.splitlines()) == 1 and "Traceback" not in message.err


def test_run_reports_the_status_where_the_report_is_refused(model_alone, monkeypatch, tmp_path,
                                                           capsys):
    def full(*_arguments):
        raise run.ReportError("run: report not written: No space left on device")

    monkeypatch.setattr(run, "write_report", full)
    assert main(["run", "--out", str(tmp_path / "run")]) == 2
    assert "No space left on device (passed: " in capsys.readouterr().err


def test_run_without_simulator_exits_2(model_alone, monkeypatch, tmp_path, capsys):
    def missing(name, **options):
        if name == "model":
            return opened(name, **options)
        raise BackendUnavailable("verilator: needs g++ and make (apt install g++ make)")

    monkeypatch.setattr(player, "open_backend", missing)
    assert main(["run", "--out", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "efa-cosim: verilator: needs g++ and make (apt install g++ make)")
    assert not (tmp_path / "run").exists()


def test_run_interrupted_leaves_no_report(model_alone, monkeypatch, tmp_path, capsys):
    def interrupted(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "measure", interrupted)
    assert main(["run", "--out", str(tmp_path / "run")]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "efa-cosim: interrupted"
    assert list(tmp_path.iterdir()) == []


# One job of a sweep

def test_a_job_measures_what_it_was_requested(model_alone, capsys):
    job = Job("verilator", "UD", 64, 500, 7, (1, 2), ("latency", "rate"))
    assert point.main(json.dumps(job.as_dict())) == 0
    measurements = json.loads(capsys.readouterr().out)
    assert [(f["metric"], f["queues"]) for f in measurements] == [
        ("latency", 1), ("message rate", 1), ("message rate", 2)]
    assert {(one["kind"], one["host_read_latency"], one["seed"]) for one in measurements} == {
        ("UD", 500, 7)}


@pytest.mark.parametrize(("error", "code"), [
    (Mismatch("message 3\n differs"), 1), (RuntimeError("gone"), 1),
    (BackendUnavailable("no g++"), 2)])
def test_a_job_that_fails_says_so_in_one_line(monkeypatch, capsys, error, code):
    def failing(*_arguments, **_options):
        raise error

    monkeypatch.setattr(point, "open_backend", failing)
    assert point.main(json.dumps(JOB.as_dict())) == code
    message = capsys.readouterr()
    assert message.err == " ".join(str(error).split()) + "\n"
    assert not message.out


def test_what_a_job_prints_is_no_part_of_its_result(capsys):
    assert answer(lambda values: print("building") or values, "[1]") == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("[1]", "building\n")


# Processes

GOOD = f"print(json.dumps([{{**{MEASUREMENT!r}, 'size': job['size']}}]))"


def test_jobs_run_in_processes_of_their_own(entry):
    with Pool([JOB] * 3, 2, entry(GOOD)) as pool:
        finished = list(pool.results())
    assert [(one.code, one.measurements) for one in finished] == [(0, [MEASUREMENT])] * 3


@pytest.mark.parametrize(("text", "code", "reason"), [
    ("sys.exit('first\\nlast words')", 1, "last words"),
    ("sys.exit(2)", 2, "the job ended with code 2"),
    ("os.kill(os.getpid(), 9)", -9, "the job ended with code -9"),
    ("print('[')", 1, "the job printed no measurements"),
])
def test_a_job_that_ends_badly_has_a_reason(entry, text, code, reason):
    with Pool([JOB], 1, entry(text)) as pool:
        (finished,) = pool.results()
    assert (finished.code, finished.reason, finished.measurements) == (code, reason, [])


def test_no_process_outlives_an_interrupt(entry, tmp_path):
    name = entry(f"open({str(tmp_path)!r} + f'/{{os.getpid()}}', 'w'); time.sleep(600)")
    pool = Pool([JOB] * 2, 2, name)

    def interrupted():
        results = pool.results()
        with pool:
            pool._start(JOB)
            while not (pids := [p.name for p in tmp_path.iterdir() if p.name.isdigit()]):
                time.sleep(0.01)
            started.extend(map(int, pids))
            raise KeyboardInterrupt
        results.close()

    started = []
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    for pid in started:
        assert not Path(f"/proc/{pid}").exists()


def gone(pid, seconds=20.0):
    """Waits until a process is gone or only its exit status is left."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def pids_in(folder, count):
    """Waits until so many processes have written a file with their number; returns the numbers."""
    while len(found := [one for one in os.listdir(folder) if one.isdigit()]) < count:
        time.sleep(0.02)
    return [int(one) for one in found]


def with_helper(folder, then):
    """The text of a job that starts a process of its own; both write a file with their number."""
    note = f"open({str(folder)!r} + f'/{{os.getpid()}}', 'w')"
    helper = f"import os, time; {note}; time.sleep(600)"
    start = f"import subprocess\nsubprocess.Popen([sys.executable, '-c', {helper!r}])"
    return f"{start}\n{note}\n{then}"


@pytest.mark.parametrize(("then", "limits", "code", "reason"), [
    ("time.sleep(600)", Limits(seconds=1.5), OVER_TIME,
     "the job exceeded its limit of 1.5 s and was ended"),
    ("mine = b'1' * (200 << 20); time.sleep(600)", Limits(megabytes=150), OVER_MEMORY,
     "the job exceeded its limit of 150 MB of memory and was ended"),
])
def test_a_job_beyond_a_limit_is_ended_with_its_processes(entry, tmp_path, then, limits, code,
                                                          reason):
    with Pool([JOB], 1, entry(with_helper(tmp_path, then)), limits) as pool:
        (finished,) = pool.results()
    assert (finished.code, finished.reason) == (code, reason)
    assert all(gone(pid) for pid in pids_in(tmp_path, 2 if code == OVER_MEMORY else 0))


def test_a_job_leaves_no_process_behind(entry, tmp_path):
    wait = f"while len(os.listdir({str(tmp_path)!r})) < 3: time.sleep(0.01)"
    with Pool([JOB], 1, entry(with_helper(tmp_path, f"{wait}\n{GOOD}"))) as pool:
        (finished,) = pool.results()
    assert finished.measurements == [MEASUREMENT]
    assert all(gone(pid) for pid in pids_in(tmp_path, 2))


def test_a_job_ends_with_the_process_that_wants_its_result(entry, tmp_path):
    name = entry(with_helper(tmp_path, "time.sleep(600)"))
    code = ("from efa_cosim.jobs.pool import Pool\nfrom efa_cosim.sweep.grid import Job\n"
            f"job = Job(**{JOB.as_dict()!r})\nlist(Pool([job], 1, {name!r}).results())\n")
    paths = os.pathsep.join(path for path in sys.path if path)
    client = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths})
    pids = pids_in(tmp_path, 2)
    client.kill()
    client.wait()
    assert all(gone(pid) for pid in pids)


def test_the_memory_of_a_group_includes_each_process(entry, tmp_path):
    text = "mine = b'1' * (60 << 20)\nprint(flush=True)\ntime.sleep(600)"
    first = subprocess.Popen([sys.executable, "-c", f"import time\n{text}"],
                             stdout=subprocess.PIPE, process_group=0)
    second = subprocess.Popen([sys.executable, "-c", f"import time\n{text}"],
                              stdout=subprocess.PIPE, process_group=first.pid)
    try:
        for one in (first, second):
            one.stdout.readline()
        assert 120 < child.memory_of(first.pid) / 2**20 < 240
    finally:
        for one in (first, second):
            one.kill()
            one.wait()
            one.stdout.close()


def test_jobs_added_while_others_run_are_run(entry):
    with Pool([JOB], 1, entry(GOOD)) as pool:
        found = []
        for finished in pool.results():
            found.append(finished.measurements[0]["size"])
            if len(found) < 3:
                pool.add(replace(JOB, size=len(found)))
    assert found == [64, 1, 2]


def test_an_unknown_kind_of_job_is_refused_with_the_known_kinds():
    with pytest.raises(NoSuchEntry, match=r"no job 'swep': expected one of .*lab.*sweep"):
        Pool([], 1, "swep")


# sweep

@pytest.fixture
def grid(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "FOLDER", tmp_path / "kept")
    path = tmp_path / "small.yaml"
    path.write_text(GRID)
    return path


def test_a_sweep_reports_every_job(entry, monkeypatch, grid, tmp_path, capsys):
    monkeypatch.setattr(sweep, "ENTRY", entry(GOOD))
    assert main(["sweep", str(grid), "--jobs", "2", "--out", str(tmp_path / "out")]) == 0
    out, err = capsys.readouterr()
    assert err.startswith("2 jobs\n") and err.splitlines()[-1].startswith("sweep: 2 of 2, ")
    assert out.splitlines()[-1].startswith(
        "passed: 2 measurements (2 of latency), 16 messages checked")
    summary = read_summary(tmp_path / "out")
    assert [measurement["size"] for measurement in summary["measurements"]] == [8, 64]
    assert summary["grid"]["sizes"] == [8, 64]
    assert (tmp_path / "out/latency.svg").exists()


def test_a_failed_job_fails_the_sweep_and_the_rest_is_reported(entry, monkeypatch, grid, tmp_path,
                                                               capsys):
    text = f"if job['size'] == 8: sys.exit('message 3 differs')\n{GOOD}"
    monkeypatch.setattr(sweep, "ENTRY", entry(text))
    assert main(["sweep", str(grid), "--out", str(tmp_path / "out")]) == 1
    out, err = capsys.readouterr()
    wrong = "SRD, 8 bytes, host read latency 125, seed 1: message 3 differs"
    assert out.startswith(f"failed: {wrong}") and len(out.splitlines()) == 1
    assert f"FAILED sweep: {wrong}" in err and "2 of 2, 1 failed" in err
    summary = read_summary(tmp_path / "out")
    assert summary["verdict"] == "failed"
    assert [measurement["size"] for measurement in summary["measurements"]] == [64]


def counted(entry, monkeypatch, tmp_path, text=""):
    """Runs the job, which writes one file with its size; returns the files."""
    (tmp_path / "ran").mkdir(exist_ok=True)
    folder = str(tmp_path / "ran")
    mark = f"open('/'.join([{folder!r}, str(job['size']) + '-' + str(os.getpid())]), 'w')"
    monkeypatch.setattr(sweep, "ENTRY", entry(f"{mark}\n{text}{GOOD}"))
    return lambda: sorted(path.name.partition("-")[0] for path in (tmp_path / "ran").iterdir())


def test_a_sweep_goes_on_where_it_was(entry, monkeypatch, grid, tmp_path, capsys):
    ran = counted(entry, monkeypatch, tmp_path, "if job['size'] == 64: sys.exit('no')\n")
    assert main(["sweep", str(grid), "--out", str(tmp_path / "out")]) == 1
    ran = counted(entry, monkeypatch, tmp_path)
    assert main(["sweep", str(grid), "--out", str(tmp_path / "out")]) == 0
    assert "2 jobs, 1 of them cached" in capsys.readouterr().err
    assert ran() == ["64", "64", "8"]
    rows = read_summary(tmp_path / "out")["measurements"]
    assert [row["size"] for row in rows] == [8, 64]
    assert main(["sweep", str(grid), "--fresh", "--out", str(tmp_path / "out")]) == 0
    assert ran() == ["64", "64", "64", "8", "8"]


def test_a_killed_sweep_keeps_what_was_finished(entry, monkeypatch, grid, tmp_path):
    ran = counted(entry, monkeypatch, tmp_path)

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(sweep.Progress, "advance", killed)
        assert main(["sweep", str(grid), "--jobs", "1", "--out", str(tmp_path / "out")]) == 130
    assert main(["sweep", str(grid), "--jobs", "1", "--out", str(tmp_path / "out")]) == 0
    assert ran() == ["64", "8"]


def test_cached_measurements_are_of_this_job_and_these_sources(monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "FOLDER", tmp_path)
    cache.keep(JOB, [MEASUREMENT])
    assert cache.find(JOB) == [MEASUREMENT]
    assert cache.find(replace(JOB, seed=8)) is None
    (place,) = tmp_path.glob("*/*.json")
    place.write_text('{"job"')
    assert cache.find(JOB) is None
    cache.keep(JOB, [MEASUREMENT])
    monkeypatch.setattr(cache, "_tree", lambda _on_the_rtl: "other")
    assert cache.find(JOB) is None


def test_any_source_counts_but_those_that_only_show(monkeypatch, tmp_path):
    for name in ("spec/limits.yaml", "rtl/queue/efa_sq_sched.v", "model/efa_cosim/device/send.py",
                 "model/efa_cosim/report/plots.py", "model/efa_cosim/cli/sweep.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(cache, "ROOT", tmp_path)

    def trees():
        cache._tree.cache_clear()
        return cache._tree(True), cache._tree(False)

    before = trees()
    (tmp_path / "model/efa_cosim/report/plots.py").write_text("2")
    (tmp_path / "model/efa_cosim/cli/sweep.py").write_text("2")
    assert trees() == before
    (tmp_path / "rtl/queue/efa_sq_sched.v").write_text("2")
    device = trees()
    assert device[0] != before[0] and device[1] == before[1]
    (tmp_path / "model/efa_cosim/device/send.py").write_text("2")
    assert trees()[0] != device[0] and trees()[1] != device[1]
    cache._tree.cache_clear()


def test_trees_that_are_no_longer_measured_are_deleted(monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "FOLDER", tmp_path)
    for number in range(store.CACHED_TREES + 2):
        monkeypatch.setattr(cache, "_tree", lambda _on_the_rtl, name=f"t{number}": name)
        cache.keep(JOB, [MEASUREMENT])
        os.utime(tmp_path / f"t{number}", (number, number))
    assert len(list(tmp_path.iterdir())) == store.CACHED_TREES
    assert cache.find(JOB) == [MEASUREMENT]


def test_short_jobs_share_a_process(monkeypatch, capsys):
    jobs = tuple(Job("cycle", "SRD", size, 125, 7, (1,), ("latency",), 4, 1, "ideal")
                 for size in (8, 64, 512))
    assert point.main(json.dumps(Group(jobs).as_dict())) == 0
    message = json.loads(capsys.readouterr().out)
    assert [one["measurements"][0]["size"] for one in message] == [8, 64, 512]

    def wrong(job):
        if job.size == 64:
            raise RuntimeError("stuck")
        return []

    monkeypatch.setattr(point, "measure", wrong)
    assert point.main(json.dumps(Group(jobs).as_dict())) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"measurements": []}, {"reason": "stuck"}, {"measurements": []}]


@pytest.mark.parametrize(("text", "reason"), [
    ("print(json.dumps([{'measurements': [1]}, {'reason': 'no'}]))", "no"),
    ("sys.exit('lost')", "lost"), ("print(json.dumps([{'measurements': [1]}]))", "1 of 2 jobs"),
])
def test_a_group_reports_what_became_of_each(entry, text, reason):
    group = Group((JOB, replace(JOB, size=8)))
    with Pool([group], 1, entry(text)) as pool:
        (finished,) = pool.results()
    message = list(finished.each())
    assert [job for job, *_ in message] == list(group.jobs)
    assert reason in message[1][2] and not message[1][1]


def test_time_left_is_what_jobs_of_the_same_backend_took():
    rtl, model = JOB, replace(JOB, backend="cycle")
    estimate = sweep.Estimate([rtl, rtl, rtl, model, model, model])
    estimate.count(rtl, 30.0)
    estimate.count(model, 1.0)
    assert estimate.left() == 2 * 30.0 + 2 * 1.0


def test_the_table_is_there_for_programs_too(entry, monkeypatch, grid, tmp_path):
    monkeypatch.setattr(sweep, "ENTRY", entry(GOOD))
    assert main(["sweep", str(grid), "--out", str(tmp_path / "out")]) == 0
    table = parquet.read_table(tmp_path / "out/measurements.parquet")
    rows = list(csv.DictReader((tmp_path / "out/measurements.csv").open()))
    assert table.num_rows == len(rows) == 2
    assert table.column("size").to_pylist() == [8, 64]
    assert [str(t) for t in table.schema.types[:6]] == [
        "string", "string", "double", "string", "int64", "double"]


def test_a_sweep_without_simulator_ends_at_once_with_2(entry, monkeypatch, grid, tmp_path, capsys):
    text = "sys.stderr.write('no g++'); sys.exit(2)"
    monkeypatch.setattr(sweep, "ENTRY", entry(text))
    assert main(["sweep", str(grid), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "efa-cosim: no g++"
    assert not (tmp_path / "out").exists()


def test_the_folder_is_refused_before_any_job(entry, monkeypatch, grid, capsys):
    monkeypatch.setattr(sweep, "ENTRY", entry("sys.exit('ran')"))
    assert main(["sweep", str(grid), "--out", os.fspath(grid)]) == 2
    assert "small.yaml: report not written" in capsys.readouterr().err


def test_a_digest_leaves_out_what_its_patterns_exclude(tmp_path):
    for name in ("a.py", "test_a.py"):
        (tmp_path / name).write_text("1")
    patterns = ("*.py", "!test_*.py")
    whole, first = store.digest_of(tmp_path, ("*.py",)), store.digest_of(tmp_path, patterns)
    (tmp_path / "test_a.py").write_text("2")
    assert store.digest_of(tmp_path, ("*.py",)) != whole
    assert store.digest_of(tmp_path, patterns) == first
    (tmp_path / "a.py").write_text("2")
    assert store.digest_of(tmp_path, patterns) != first


@pytest.mark.parametrize("patterns", [cache.sources(False), cache.sources(True), regress.SOURCES])
def test_plan_and_tests_for_pytest_leave_stored_results_valid(patterns):
    left_out = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    assert {"spec/testplan.yaml", "tb/test_*.py"} <= set(left_out)
    assert all(list(ROOT.glob(one)) for one in left_out)
