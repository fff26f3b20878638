# SPDX-License-Identifier: Apache-2.0
"""Tests sweep files: their meaning, and the line and key that each error message names."""

from pathlib import Path

import pytest

from efa_cosim.cli.main import main
from efa_cosim.sweep.grid import GridError, Job, read_grid

EXAMPLE = Path(__file__).parents[2] / "sim/sweeps/example.yaml"
MISTAKES = {
    "no YAML": ("sizes: [8, 64", "1: no YAML"),
    "a tab": ("sizes: 8\n\tqueues: 1", "2: no YAML"),
    "two documents": ("sizes: 8\n---\nsizes: 9", "2: no YAML"),
    "too deep": ("sizes: " + "[" * 50_000, "1: no YAML"),
    "empty": ("", "1: expected a mapping of `key: values`"),
    "no mapping": ("- 8", "1: expected a mapping of `key: values`"),
    "misspelt key": ("sizes: 8\nqueue: 1", "2: unknown key 'queue'; did you mean 'queues'?"),
    "strange key": ("sizes: 8\nx: 1", "2: unknown key 'x'; known are sizes"),
    "nested key": ("? [1, 2]\n: 3", "1: unknown key 'a nested value'"),
    "twice": ("sizes: 8\nsizes: 9", "2: 'sizes' a second time"),
    "no sizes": ("queues: 1", "1: 'sizes' is missing"),
    "no value": ("sizes:", "1: sizes: '' is not allowed, must be a whole number, 0 to 4096"),
    "empty list": ("sizes: []", "1: sizes: the list is empty"),
    "too big": ("sizes: [8,\n  9000]", "2: sizes: '9000' is not allowed"),
    "negative": ("sizes: -1", "1: sizes: '-1' is not allowed"),
    "zero queues": ("sizes: 8\nqueues: 0", "2: queues: '0' is not allowed, must be a whole"),
    "a text": ('sizes: "8"', "1: sizes: '8' is not allowed"),
    "a fraction": ("sizes: 1.5", "1: sizes: '1.5' is not allowed"),
    "old octal": ("sizes: 010", "1: sizes: '010' is not allowed"),
    "nested": ("sizes: {a: 1}", "1: sizes: 'a nested value' is not allowed"),
    "in itself": ("sizes: &a [*a]", "1: sizes: 'a nested value' is not allowed"),
    "value twice": ("sizes: [8, 8]", "1: sizes: 8 a second time"),
    "unknown kind": ("sizes: 8\nkinds: RC", "2: kinds: 'RC' is not allowed, must be one of UD"),
    "many queues": ("sizes: 8\nqueues: 64", "1: queues: at most 16 where all is posted at once"),
    "no such depth": ("sizes: 8\ndepth: 0", "2: depth: '0' is not allowed, must be a whole"),
    "no such CPU": ("sizes: 8\nstore_buffer: slow", "2: store_buffer: 'slow' is not allowed"),
    "much loss": ("sizes: 8\nloss: 0.6", "2: loss: '0.6' is not allowed, must be a number"),
    "lost datagrams": ("sizes: 8\nkinds: UD\nloss: 0.1", "and no datagram with loss"),
    "nothing": ("sizes: 0\nmeasure: rate", "nothing to measure"),
    "too much": (f"sizes: {list(range(900))}", "jobs, at most 1000 are allowed"),
}


@pytest.fixture
def file(tmp_path):
    def written(text):
        path = tmp_path / "grid.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


def test_losses_are_of_srd_alone(file):
    jobs = read_grid(file("sizes: 8\nloss: [0, 1e-2, 1/4]")).jobs()
    assert [(job.kind, job.loss) for job in jobs] == [
        ("UD", 0.0), ("SRD", 0.0), ("SRD", 0.01), ("SRD", 0.25)]  # fmt: skip
    assert str(jobs[2]).endswith("ideal, loss 0.01")


def test_the_example_is_a_grid():
    jobs = read_grid(EXAMPLE).jobs()
    assert len(jobs) == len(set(jobs)) == 16
    assert jobs[0] == Job("verilator", "UD", 8, 125, 1, (1, 8), ("latency", "rate"))


def test_every_combination_is_a_job_and_the_rest_has_defaults(file):
    jobs = read_grid(file("sizes: [8, 64]\nseeds: [3, 4]\nkinds: SRD")).jobs()
    assert [(job.size, job.seed) for job in jobs] == [(8, 3), (8, 4), (64, 3), (64, 4)]
    assert {job.kind for job in jobs} == {"SRD"}


def test_rates_are_not_measured_without_payload(file):
    assert [job.measure for job in read_grid(file("sizes: [0, 8]\nkinds: UD")).jobs()] == [
        ("latency",), ("latency", "rate")]  # fmt: skip


@pytest.mark.parametrize("text", ["depth: 4", "backend: cycle", "backend: [verilator, cycle]",
                                  "backend: [verilator, icarus]"])  # fmt: skip
def test_what_is_compared_is_the_same_workload_on_every_backend(file, text):
    jobs = read_grid(file(f"sizes: 8\nkinds: SRD\nqueues: 64\n{text}")).jobs()
    assert {(job.depth or 64, job.batch, job.store_buffer) for job in jobs} <= {
        (64, 16, "ideal"), (4, 4, "ideal")}  # fmt: skip
    assert all(job.depth for job in jobs)


def test_a_doorbell_brings_no_more_than_may_be_open(file):
    jobs = read_grid(file("sizes: 8\nkinds: SRD\ndepth: [1, 8]\nbatch: [1, 4, 16]")).jobs()
    assert [(job.depth, job.batch) for job in jobs] == [(1, 1), (8, 1), (8, 4), (8, 8)]


def test_the_shipped_grids_are_read():
    for path in EXAMPLE.parent.glob("*.yaml"):
        assert read_grid(path).jobs(), path


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_reported_with_its_line(file, what):
    text, message = MISTAKES[what]
    with pytest.raises(GridError) as error:
        read_grid(file(text))
    assert "grid.yaml:" in str(error.value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\0" * 100, b"#" * ((1 << 20) + 1)])
def test_what_is_no_text_is_refused(file, content):
    with pytest.raises(GridError, match="grid.yaml"):
        read_grid(file(content))


def test_files_that_are_not_there_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "absent.yaml"):
        with pytest.raises(GridError, match=str(path)):
            read_grid(path)


@pytest.mark.parametrize("option", [["--sizes", "8"], ["--seed", "0"], ["--backend", "icarus"]])
def test_an_option_that_a_file_would_ignore_is_refused(option, tmp_path, capsys):
    assert main(["sweep", str(EXAMPLE), *option, "--out", str(tmp_path / "out")]) == 2
    assert f"{option[0]} does not go with a FILE" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [
    ["--sizes", "-1"], ["--sizes", "8,,9"], ["--sizes", ""], ["--queues", "0"],
    ["--queues", "17"], ["--rd-latency", "0"], ["--rd-latency", "1000000000"], ["--seed", "-1"],
    ["--jobs", "0"], ["--jobs", "many"]])
def test_absurd_options_are_one_line_and_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["sweep", *arguments])
    assert caught.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith(f"efa-cosim: argument {arguments[0]}: ") and message.count("\n") == 1
