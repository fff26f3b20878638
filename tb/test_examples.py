# SPDX-License-Identifier: Apache-2.0
"""Runs each program of examples/ as a user does."""

import gzip
import json
import re
import subprocess
import sys

import pytest

from tb.simulators import ROOT, simulator_missing

EXAMPLES = ROOT / "examples"
PINGPONG = ROOT / "model/tests/data/sessions/pingpong.jsonl.gz"
BACKENDS = pytest.mark.parametrize("backend", ["model", "verilator"])
MOST_LINES = 40


def ended(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def run(name, *arguments, code=0):
    done = ended(sys.executable, str(EXAMPLES / name), *arguments)
    assert done.returncode == code, done.stderr
    return done.stdout


def needs(backend):
    if backend != "model" and simulator_missing(backend):
        pytest.skip(simulator_missing(backend))


@BACKENDS
def test_hello_verbs_receives_its_message(backend):
    needs(backend)
    text = run("hello_verbs.py", backend)
    assert "received b'Hello, verbs!' on " + backend in text
    assert text.count("status 0") == 2


def test_readme_shows_hello_verbs_which_has_less_than_30_lines():
    text = (EXAMPLES / "hello_verbs.py").read_text()
    _, _, code = text.split('"""', 2)
    assert len([line for line in code.splitlines() if line.strip()]) < 30
    shown = code[code.index("def main(") : code.index("\n\nif __name__")].strip()
    assert f"```python\n{shown}\n```\n" in (ROOT / "README.md").read_text()


def test_rdma_writes_and_reads_memory_of_the_peer():
    assert run("rdma.py").splitlines() == [
        "write: status 0, the peer has b'over there'",
        "read: status 0, it begins b'changedere'",
    ]


@BACKENDS
def test_fault_shows_what_the_host_sees_of_each_fault(backend):
    needs(backend)
    assert run("fault.py", backend).splitlines() == [
        "packet to a node that is absent: no event, queue pair in RTS",
        "the same send, flushed: event, status FLUSHED, queue pair in ERR",
        "doorbell beyond the ring: event, status FLUSHED, queue pair in ERR",
        "failed read of the payload: event, status LOCAL_ERROR_QP_INTERNAL_ERROR, "
        "queue pair in ERR",
    ]


@BACKENDS
def test_play_session_finds_no_difference(backend):
    needs(backend)
    assert run("play_session.py", backend) == (
        f"no difference on {backend}: 2887 stores, 50 admin responses, 400 completions, "
        "204800 payload bytes\n"
    )


def test_play_session_prints_what_differs(tmp_path):
    """A changed payload of the recording is reported with its line."""
    with gzip.open(PINGPONG) as stream:
        rows = [json.loads(line) for line in stream]
    number = next(n for n, row in enumerate(rows, 1) if row[0] == "d" and len(row[2]) == 2 * 1024)
    payload = rows[number - 1][2]
    rows[number - 1][2] = f"{int(payload[:2], 16) ^ 1:02x}" + payload[2:]
    changed = tmp_path / "changed.jsonl.gz"
    with gzip.open(changed, "wt") as stream:
        stream.writelines(json.dumps(one) + "\n" for one in rows)
    text = run("play_session.py", "model", str(changed), code=1)
    assert text.startswith(f"difference on model: {changed}:{number}: payload at 0x")


def test_own_sweep_prints_the_fastest_of_its_rows():
    text = run("own_sweep.py").splitlines()
    rates = [float(re.search(r": ([\d.]+) messages/cycle", line)[1]) for line in text[:-1]]
    assert len(rates) == 3 and rates == sorted(rates, reverse=True)
    assert text[0].startswith("32 bytes, queues 4, depth 16: ")
    assert text[-1].startswith("42 measurements with the columns metric, statistic, value, unit, ")


def test_own_sweep_measures_what_the_command_measures(tmp_path):
    grid, folder = EXAMPLES / "own_sweep.yaml", tmp_path / "report"
    done = ended(sys.executable, "-m", "efa_cosim.cli", "sweep", str(grid), "--out", str(folder))
    assert done.returncode == 0, done.stderr
    rows = json.loads((folder / "summary.json").read_text())["measurements"]
    best = max(row["value"] for row in rows if row["metric"] == "message rate")
    assert len(rows) == 42 and f"{best:.4f} messages/cycle" in run("own_sweep.py")


def test_own_test_compares_its_traffic():
    needs("verilator")
    # The command that its docstring states.
    text = (EXAMPLES / "own_test.py").read_text()
    command = re.search(r"^    \.venv/bin/python (-m tb\.runner .*)$", text, re.M)[1]
    done = ended(sys.executable, *command.split(), "--seed", "5")
    assert done.returncode == 0, done.stderr
    assert "own_test on verilator, seed 5: 1 tests passed" in done.stdout
    log = (ROOT / re.search(r"\((\S+)\)", done.stdout)[1]).read_text()
    assert "40 completions" in log
    assert int(re.search(r"(\d+) packets", log)[1]) >= 20


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short_and_says_how_to_call_it(path):
    _, text, code = path.read_text().split('"""', 2)
    assert len([line for line in code.splitlines() if line.strip()]) <= MOST_LINES
    assert f"examples/{path.name}" in text
