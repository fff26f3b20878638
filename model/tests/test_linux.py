# SPDX-License-Identifier: Apache-2.0
"""Tests `make linux`: its job, the console of the guest, refusals, and a boot where possible."""

import shutil
import subprocess
import sys
from pathlib import Path

import linux
import linux_guest
import pytest
from linux import Console, GuestError, Step, job, results, steps_for

ROOT = Path(__file__).resolve().parents[2]
STEPS = [Step("load", "load 1"), Step("first", "true", r"^\d+ done", 5.0), Step("second", "true")]
PASSED = "@@begin {0}\r\n7 done\r\n@@end {0} 0 1.25 3.50 12\r\n"


def played(tmp_path, program, steps=STEPS):
    """Returns the results of the steps for a program that plays the guest."""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    console = Console(process, tmp_path / "console.log")
    try:
        return list(results(console, steps))
    finally:
        console.close()


def written(text):
    return f"import sys; sys.stdout.write({text!r}); sys.stdout.flush()"


@pytest.mark.parametrize(("nodes", "profile"), [(1, "cosim"), (2, "cosim"), (1, "recorded")])
def test_the_job_is_a_program_of_the_shell(tmp_path, nodes, profile):
    steps = steps_for(nodes, profile)
    assert len({each.name for each in steps}) == len(steps)
    for name, text in (("run", job(steps)), ("steps", (ROOT / "sim/linux/steps.sh").read_text()),
                       ("init", (ROOT / "sim/linux/init").read_text())):
        (tmp_path / name).write_text(text)
        subprocess.run(["sh", "-n", str(tmp_path / name)], check=True)
    for program in (ROOT / "sim/linux").glob("*.py"):
        compile(program.read_text(), str(program), "exec")


def test_a_step_runs_between_its_marks(tmp_path):
    """The functions of the guest in a shell of this machine."""
    program = f". {ROOT}/sim/linux/steps.sh\nfails() {{ echo seen; return 3; }}\nstep one fails\n"
    found = subprocess.run(["sh", "-c", program], capture_output=True, text=True, check=True)
    begin, seen, end = found.stdout.splitlines()
    assert (begin, seen) == ("@@begin one", "seen") and end.startswith("@@end one 3 ")


def test_a_server_that_fails_fails_its_pair():
    program = f". {ROOT}/sim/linux/steps.sh\npair false -- true\n"
    assert subprocess.run(["sh", "-c", program], check=False).returncode == 1
    program = program.replace("false -- true", "true -- true")
    assert subprocess.run(["sh", "-c", program], check=False).returncode == 0


def test_results_have_verdict_seconds_and_output(tmp_path):
    text = "kernel says hello\r\n" + "".join(PASSED.format(each.name) for each in STEPS)
    found = played(tmp_path, written(text))
    assert [(one.name, one.verdict, one.seconds, one.output, one.packets) for one in found] == [
        (each.name, "passed", 2.25, ["7 done"], 12) for each in STEPS]
    assert "kernel says hello" in (tmp_path / "console.log").read_text()


def test_tests_of_a_step_are_counted_and_skips_have_reasons():
    lines = ["test_a (tests.test_efa.A.test_a) ... ok",
             "test_b (tests.test_efa.A.test_b) ... skipped \"Device doesn't support it\"",
             "test_c (tests.test_efa.A.test_c) ... skipped 'flags 4 (RDMA)'",
             "test_d (tests.test_efa.A.test_d)", "Says what d does ... FAIL", "Ran 4 tests in 1.2s"]
    found = linux.Result("tests", "failed", "exit code 1", 1.0, lines)
    assert found.tests == "1 passed, 2 skipped, 1 failed"
    assert found.skipped == {"test_b": "Device doesn't support it", "test_c": "flags 4 (RDMA)"}
    assert linux.Result("load", "passed", "", 1.0, ["loaded"]).tests == ""


def test_two_guests_have_their_own_jobs_and_one_result(tmp_path):
    steps = linux.steps_for_two_guests()
    for number in (1, 2):
        (tmp_path / "run").write_text(job(steps, number, 2))
        subprocess.run(["sh", "-n", str(tmp_path / "run")], check=True)
    assert "client" not in job(steps, 1, 2) and job(steps, 2, 2).count("client ") == 5
    good, bad = (linux.Result("one", verdict, reason, 1.0, [verdict])
                 for verdict, reason in (("passed", ""), ("failed", "exit code 1")))
    assert linux.joined(good, good) == good
    both = linux.joined(good, bad)
    assert (both.verdict, both.reason) == ("failed", "server: exit code 1")
    assert both.output == ["passed", "server: failed"]
    assert linux.joined(bad, bad).reason == "exit code 1; server: exit code 1"


def test_figures_of_programs_have_units():
    assert linux.figure([" #bytes x", " 64 200 733.65 262.1 6171.79 719.8 40.6 26054.37 2.1",
                         "----"]) == "64 B: 734 us at least, typical 6172, p99 26054"
    assert linux.figure([" 64   1000  0.03   0.03 \t 0.000517"]) == "64 B: 517 messages/s"
    assert linux.figure(["4k  20  =20  160k  0.10s  1.6"]) == "4k 20 =20 160k 0.10s 1.6"
    assert linux.figure(["loaded"]) == ""


def test_a_step_fails_by_its_code_or_without_its_output(tmp_path):
    text = (PASSED.format("load") + PASSED.format("first").replace("7 done", "done")
            + PASSED.format("second").replace(" 0 1.25", " 4 1.25"))
    found = played(tmp_path, written(text))
    assert [one.verdict for one in found] == ["passed", "failed", "failed"]
    assert "no output of the form" in found[1].reason and found[2].reason == "exit code 4"


def test_a_guest_that_ends_fails_what_is_left(tmp_path):
    found = played(tmp_path, written(PASSED.format("load") + "@@begin first\r\n"))
    assert [one.verdict for one in found] == ["passed", "failed", "failed"]
    assert "the guest ended" in found[1].reason and "not run" in found[2].reason


def test_a_guest_that_hangs_fails_the_step(tmp_path):
    steps = [STEPS[0], Step("first", "true", "", 0.3), STEPS[2]]
    program = written(PASSED.format("load") + "@@begin first\r\n") + "; import time; time.sleep(60)"
    found = played(tmp_path, program, steps)
    assert [one.verdict for one in found] == ["passed", "failed", "failed"]
    assert "the guest hangs" in found[1].reason


def test_wrong_use_gets_a_sentence(capsys, tmp_path):
    assert linux.main(["--step", "none"]) == 2
    assert "no step none; expected one of load, devinfo" in capsys.readouterr().err
    assert linux.main(["--guests", "2", "--nodes", "2"]) == 2
    assert "leave out --nodes" in capsys.readouterr().err
    assert linux.main(["--backend", "both", "--cmd", "true"]) == 2
    assert "name one backend" in capsys.readouterr().err
    assert linux.main(["--backend", "verilator", "--fabric", "file.yaml", "--checked"]) == 2
    assert "leave out one of" in capsys.readouterr().err
    assert linux.main(["--share", str(tmp_path / "none")]) == 2
    assert "is no folder" in capsys.readouterr().err


def test_a_machine_without_the_tools_is_told_what_to_install(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(linux_guest, "OUT", tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert linux.main([]) == 2
    assert "apt install mmdebstrap" in capsys.readouterr().err


def test_a_preparation_that_fails_is_done_again(monkeypatch, tmp_path):
    monkeypatch.setattr(linux_guest, "OUT", tmp_path)
    monkeypatch.setattr(linux_guest, "_check_tools", lambda: None)
    done = []

    def unpack(_tree):
        done.append("unpack")
        if len(done) == 1:
            raise GuestError("no network")

    monkeypatch.setattr(linux_guest, "_unpack", unpack)
    monkeypatch.setattr(linux_guest, "_pack", lambda _guest: done.append("pack"))
    with pytest.raises(GuestError):
        linux_guest.prepare(lambda _text: None)
    for _ in range(2):
        linux_guest.prepare(lambda _text: None)
    assert done == ["unpack", "unpack", "pack"]


@pytest.mark.slow
def test_linux_boots_and_exchanges_messages(capfd):
    """The smoke part: driver, device, ping-pong on the model; prepares the guest once."""
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed: no Linux guest on this machine")
    try:
        linux_guest.prepare(print)
    except GuestError as error:
        pytest.skip(f"no Linux guest on this machine: {error}")
    code = linux.main(["--step", "devinfo", "--step", "ud_pingpong", "--step", "srd_send_lat"])
    assert code == 0, capfd.readouterr().err
