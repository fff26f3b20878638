# SPDX-License-Identifier: Apache-2.0
"""Tests the command line: output, written files and exit codes."""

import gzip
import json
import os
import signal
import subprocess
import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pytest

from efa_cosim import tree
from efa_cosim.boundary.backend import BackendUnavailable, DeviceTimeout
from efa_cosim.cli import main as cli
from efa_cosim.cli import play
from efa_cosim.jobs import files

SESSIONS = Path(__file__).parent / "data" / "sessions"
PROBE = str(SESSIONS / "probe.jsonl.gz")
PINGPONG = str(SESSIONS / "pingpong.jsonl.gz")
MODEL = Path(__file__).parents[1]


def test_play_passes_with_one_line(capsys):
    assert cli.main(["play", PROBE]) == cli.PASSED
    out, err = capsys.readouterr()
    assert out.startswith("passed probe.jsonl.gz on model: 55 stores")
    assert out.count("\n") == 1
    assert not err


def test_play_writes_its_result_as_json(tmp_path, capsys):
    path = tmp_path / "result.json"
    assert cli.main(["play", PROBE, "--json", str(path)]) == cli.PASSED
    result = json.loads(path.read_text())
    assert result["verdict"] == "passed"
    assert result["admin_responses"] == 18


def test_control_plays_registers_alone(capsys):
    session = str(SESSIONS / "pingpong.jsonl.gz")
    assert cli.main(["play", "--control", session]) == cli.PASSED
    assert "completions" not in capsys.readouterr().out


def test_a_difference_exits_1_and_names_the_line(tmp_path, capsys):
    path, out = tmp_path / "edited.jsonl.gz", tmp_path / "result.json"
    with gzip.open(PROBE, "rt") as source, gzip.open(path, "wt") as target:
        for number, line in enumerate(source, 1):
            target.write(line.replace("0100", "0101") if number == 6 else line)
    assert cli.main(["play", str(path), "--json", str(out)]) == cli.FAILED
    assert "edited.jsonl.gz:5: register response" in capsys.readouterr().err
    assert json.loads(out.read_text())["line"] == 5


def test_a_file_that_is_no_session_exits_2(tmp_path, capsys):
    path = tmp_path / "plain.jsonl.gz"
    path.write_text("no gzip")
    assert cli.main(["play", str(path)]) == cli.UNUSABLE
    assert "not a gzip file" in capsys.readouterr().err


def test_a_folder_that_is_not_there_exits_2_before_playing(capsys):
    assert cli.main(["play", PROBE, "--json", "/nowhere/result.json"]) == cli.UNUSABLE
    assert "no folder" in capsys.readouterr().err


def test_an_unavailable_backend_exits_2(monkeypatch, capsys):
    def unavailable(*_args, **_options):
        raise BackendUnavailable("no simulator here")

    monkeypatch.setattr(play, "open_player", unavailable)
    assert cli.main(["play", PROBE, "--backend", "icarus"]) == cli.UNUSABLE
    assert capsys.readouterr().err == "efa-cosim: no simulator here\n"


@pytest.mark.parametrize("arguments", [[], ["play"], ["play", PROBE, "--backend", "quantum"],
                                       ["juggle"]])
def test_wrong_usage_exits_2(arguments, capsys):
    with pytest.raises(SystemExit) as error:
        cli.main(arguments)
    assert error.value.code == cli.UNUSABLE
    message = capsys.readouterr().err
    assert message.startswith("efa-cosim: ") and message.endswith("--help` for usage\n")
    assert message.count("\n") == 1


@pytest.mark.parametrize(("command", "known"), [
    ("play", "data/sessions/pingpong.jsonl.gz"), ("sweep", "sim/sweeps/example.yaml")])
def test_a_file_that_is_not_there_exits_2_with_the_files_that_are(command, known, capsys):
    assert cli.main([command, "absent"]) == cli.UNUSABLE
    message = capsys.readouterr().err
    assert message.startswith("efa-cosim: absent: no such file; expected a file such as ")
    assert known in message


@pytest.mark.parametrize(("git", "shown"), [
    ("echo 1234abc", " (commit 1234abc)"), ("exit 128", ""), (None, "")])
def test_the_version_is_shown_with_the_commit(git, shown, tmp_path, monkeypatch, capsys):
    (tmp_path / ".git").touch()
    if git:
        (tmp_path / "git").write_text(f"#!/bin/sh\n{git}\n")
        (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tree, "ROOT", tmp_path)
    with pytest.raises(SystemExit) as error:
        cli.main(["--version"])
    assert error.value.code == 0
    assert capsys.readouterr().out == f"efa-cosim {version('efa-cosim')}{shown}\n"


def test_a_tree_without_git_has_no_commit(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tree, "ROOT", tmp_path)
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"efa-cosim {version('efa-cosim')}\n"


@pytest.mark.parametrize(("arguments", "text"), [
    (["--help"], "exit codes: 0 passed, 1 failed, 2 usage"), (["play", "--help"], "--control")])
def test_help_teaches(arguments, text, capsys):
    with pytest.raises(SystemExit) as error:
        cli.main(arguments)
    assert error.value.code == 0
    out = capsys.readouterr().out
    assert text in out
    assert "examples:" in out


def test_an_interrupt_is_one_line_and_130(monkeypatch, capsys):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(play, "play", interrupted)
    assert cli.main(["play", PROBE]) == cli.INTERRUPTED
    assert capsys.readouterr().err == "efa-cosim: interrupted\n"


def test_the_program_runs_as_a_module():
    environment = {**os.environ, "PYTHONPATH": str(MODEL)}
    done = subprocess.run([sys.executable, "-m", "efa_cosim.cli", "play", PROBE],
                          env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_long_plays_report_their_progress(capsys, monkeypatch):
    every_line = partial(play.Progress, every=0.0)
    monkeypatch.setattr(play, "Progress", every_line)
    assert cli.main(["play", PINGPONG]) == cli.PASSED
    assert "pingpong.jsonl.gz: 64 of " in capsys.readouterr().err


def program(*arguments, **options):
    environment = {**os.environ, "PYTHONPATH": str(MODEL)}
    return subprocess.run([sys.executable, "-m", "efa_cosim.cli", *arguments], env=environment,
                          stderr=subprocess.PIPE, text=True, check=False, **options)


def test_an_output_that_is_full_is_one_line_and_2():
    with open("/dev/full", "w") as full:
        done = program("play", PROBE, stdout=full)
    assert (done.returncode, done.stderr) == (2, "efa-cosim: No space left on device\n")


def test_a_result_that_cannot_be_written_is_one_line_and_2(tmp_path, monkeypatch, capsys):
    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    path = tmp_path / "result.json"
    assert cli.main(["play", PROBE, "--json", str(path)]) == cli.UNUSABLE
    assert capsys.readouterr().err == (
        f"efa-cosim: {path}: not written: No space left on device; "
        "free disk space or name another file\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("number", "code", "word"), [
    (signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")])
def test_a_signal_is_one_line_and_its_code(number, code, word, tmp_path):
    pipe = tmp_path / "session.gz"
    os.mkfifo(pipe)
    environment = {**os.environ, "PYTHONPATH": str(MODEL)}
    # A shell that runs the tests in the background may ignore SIGINT; child processes inherit that.
    process = subprocess.Popen([sys.executable, "-m", "efa_cosim.cli", "play", str(pipe)],
                               env=environment, stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    # open() for writing returns when the program has opened the pipe for reading: it is running.
    with open(pipe, "wb"):
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, f"efa-cosim: {word}\n")


def test_a_device_that_hangs_is_a_failed_play(monkeypatch, capsys):
    def hanging(*_arguments, **_options):
        raise DeviceTimeout("function-level reset does not end")

    monkeypatch.setattr(play, "play", hanging)
    assert cli.main(["play", PROBE]) == cli.FAILED
    assert capsys.readouterr().err == (
        f"failed: {PROBE} on model: function-level reset does not end\n")
