# SPDX-License-Identifier: Apache-2.0
"""Tests that every writer of measurements follows the schema file, in all three formats."""

import csv
import json
from dataclasses import fields
from pathlib import Path

import jsonschema
import pyarrow.parquet
import pytest
from timed import TimedModel

from efa_cosim.backends.model import ModelBackend, open_model
from efa_cosim.cli import run
from efa_cosim.cli.main import main
from efa_cosim.host.endpoints import SRD, UD
from efa_cosim.measure import record, workload
from efa_cosim.measure.record import COLUMNS, Measurement, Mismatch, files, stamped

pytestmark = pytest.mark.slow
SCHEMA = json.loads((Path(record.__file__).parent / "record.schema.json").read_text())
RECORD = SCHEMA["items"]


def validate(rows):
    """Raises ValidationError if the rows do not follow the schema file; there must be some."""
    assert rows
    jsonschema.validate(rows, SCHEMA, jsonschema.Draft202012Validator)


def written(folder):
    """Returns the measurements of a report, after a check that its three formats are equal."""
    rows = json.loads((folder / "summary.json").read_text())["measurements"]
    validate(rows)
    flat = [{**row, "configuration": json.dumps(row["configuration"], sort_keys=True)}
            for row in rows]  # fmt: skip
    assert pyarrow.parquet.read_table(folder / record.PARQUET).to_pylist() == flat
    with (folder / record.CSV).open(newline="") as file:
        texts = list(csv.DictReader(file))
    assert texts == [{name: "" if value is None else str(value) for name, value in row.items()}
                     for row in flat]  # fmt: skip
    assert list(rows[0]) == list(COLUMNS)
    return rows


def one(**more):
    """Returns a stamped record."""
    values = {"kind": "SRD", "backend": "cycle", **more}
    return stamped([Measurement("latency", "median", 5.0, "cycles", 8, **values).as_dict()],
                   "efa-cosim run")[0]  # fmt: skip


def test_the_schema_has_the_columns_of_a_record():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert tuple(RECORD["properties"]) == COLUMNS
    assert tuple(RECORD["required"]) == COLUMNS
    assert list(COLUMNS[:5]) == [field.name for field in fields(Measurement)][:5]


@pytest.mark.parametrize(("field", "value"), [
    ("metric", "speed"), ("statistic", "99 %"), ("value", -1.0), ("unit", "ns"), ("messages", 0),
    ("kind", "RC"), ("sq_host", 2), ("surplus", 1), ("backend", ""), ("command", "python x.py"),
    ("tools", ""), ("configuration", {"a": [1]}), ("size", 1.5), ("target", "5"), ("limit", -1)])
def test_a_record_that_differs_is_refused(field, value):
    validate([one()])
    with pytest.raises(jsonschema.ValidationError):
        validate([one() | {field: value}])


def test_a_record_without_its_origin_is_refused():
    row = one()
    for name in ("command", "commit", "tools"):
        with pytest.raises(jsonschema.ValidationError, match=f"'{name}' is a required property"):
            validate([{key: value for key, value in row.items() if key != name}])


@pytest.mark.parametrize(("unit", "value", "limit", "text"), [
    ("messages/cycle", 0.9413, 16 / 17, "at most"), ("runs", 4, 3, "at most"),
    ("cycles", 10, 11, "at least"), ("beats/WQE", 1.0, 1.0625, "at least")])
def test_no_measurement_is_beyond_its_limit(unit, value, limit, text):
    with pytest.raises(Mismatch, match=f"median.*: .* {unit}, expected {text} the limit"):
        Measurement("m", "median", value, unit, 8, limit)
    for legal in (limit, 2 * limit - value):
        assert Measurement("m", "median", legal, unit, 8, limit).value == legal


def test_an_empty_list_has_the_columns():
    found = files([])
    assert found[record.CSV] == ",".join(COLUMNS) + "\n"


GRID = """\
sizes: [0, 64]
queues: [1, 4]
depth: [4]
batch: [2]
sq_host: [0, 1]
backend: [cycle]
measure: [latency, rate]
"""


@pytest.mark.parametrize("of_file", [False, True])
def test_a_sweep_writes_the_same_records_in_three_formats(tmp_path, of_file):
    (tmp_path / "grid.yaml").write_text(GRID)
    arguments = [str(tmp_path / "grid.yaml"), "--fresh", "--jobs", "1"] if of_file else [
        "--backend", "cycle", "--sizes", "0,64", "--queues", "1,4"]
    folder = tmp_path / "report"
    assert main(["sweep", *arguments, "--out", str(folder)]) == 0
    rows = written(folder)
    assert {row["metric"] for row in rows} == {"latency", "loaded latency", "message rate"}
    assert {row["configuration"]["write_latency"] for row in rows} == {60}
    # Of a file without the options, which do not affect its results.
    named = arguments[:1] if of_file else [*arguments, "--out", str(folder)]
    assert {row["command"] for row in rows} == {" ".join(["efa-cosim sweep", *named])}


def test_the_main_job_writes_records(monkeypatch, tmp_path):
    """The RTL is the model with a clock, and the waterfall comes from the cycle model."""
    from efa_cosim.cli import waterfall

    def opened(name, profile="default", record=False, **_knobs):
        return (open_model if name == "model" else TimedModel)(profile=profile, record=record)

    def modelled(*_):
        return waterfall._modelled  # noqa: SLF001

    monkeypatch.setattr(run, "open_backend", opened)
    monkeypatch.setattr(run, "simulated", modelled)
    monkeypatch.setattr(run, "play_both", lambda *_: [])
    monkeypatch.setattr(run, "latency_sweep", lambda node, **more: workload.latency_sweep(
        node, (8, 64), **more))
    monkeypatch.setattr(run, "rate_sweep", lambda node, **more: workload.rate_sweep(
        node, (64,), (1, 2), **more))
    assert main(["run", "--out", str(tmp_path / "run")]) == 0
    rows = written(tmp_path / "run")
    assert {row["metric"] for row in rows} == {"latency", "message rate",
                                               "doorbell to send completion"}


def test_the_waterfall_writes_records(tmp_path):
    arguments = ["--backend", "cycle", "--messages", "64", "--sizes", "64", "--seed", "4"]
    assert main(["waterfall", *arguments, "--out", str(tmp_path)]) == 0
    rows = written(tmp_path)
    summary = json.loads((tmp_path / "summary.json").read_text())
    runs = [row for row in rows if row["metric"] == "message rate"]
    assert [row["value"] for row in runs] == [row["rate"] for row in summary["rows"]]
    assert {row["seed"] for row in rows} == {4}
    assert {row["configuration"]["load"] for row in rows} >= {None, 0.1, 0.9}
    # Services and waits of the stages of a run sum to its mean latency.
    by_run = {}
    for row in rows:
        place = json.dumps([row["sq_host"], row["depth"], row["configuration"]], sort_keys=True)
        sums = by_run.setdefault(place, {"stages": 0.0})
        if row["metric"] in ("stage service", "stage wait"):
            sums["stages"] += row["value"]
        if (row["metric"], row["statistic"]) == ("loaded latency", "mean"):
            sums["mean"] = row["value"]
    assert len(by_run) == len(runs)
    for sums in by_run.values():
        assert sums["stages"] == pytest.approx(sums["mean"])


def test_the_laboratory_writes_records(tmp_path):
    arguments = ["--correct", "1", "--seeds", "1", "--rtl", "none", "--jobs", "1"]
    assert main(["lab", *arguments, "--bug", "no_fence", "--out", str(tmp_path)]) == 0
    rows = written(tmp_path)
    named = [row for row in rows if row["metric"] == "bug named"]
    assert {row["subject"] for row in named} == {"no_fence"} and len(named) == 10
    assert sum(row["value"] for row in rows if row["metric"] == "false alarm") == 0
    beats = [row for row in rows if row["metric"] == "bus beats"]
    assert len(beats) == 20 and all(row["value"] >= row["limit"] for row in beats)
    page = (tmp_path / "index.html").read_text()
    assert page.count("<svg") == 3 and "Write-combine laboratory" in page


def test_the_driver_measures_by_the_schema(monkeypatch):
    with ModelBackend() as backend:
        node = workload.new_node(backend)
        monkeypatch.setattr(workload, "latencies", lambda *_: [40, 41, 42])
        monkeypatch.setattr(workload, "rate", lambda events: (0.1, 4 * workload.per_queue_of(4)))
        monkeypatch.setattr(ModelBackend, "events", lambda self: [], raising=False)
        found = [workload.latency_point(node, SRD, 64), workload.rate_point(node, UD, 64, 4)]
    validate(stamped((one.as_dict() for one in found), "efa-cosim sweep"))
    assert found[0].backend == "model"
