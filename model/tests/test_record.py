# SPDX-License-Identifier: Apache-2.0
"""Tests that every writer of measurements follows the schema file, in all three formats."""

import csv
import json
from dataclasses import fields
from pathlib import Path

import jsonschema
import pyarrow.parquet
import pytest

from efa_cosim.backends.model import ModelBackend
from efa_cosim.cli import run
from efa_cosim.cli.main import main
from efa_cosim.measure import workload
from efa_cosim.measure.workload import Measurement

pytestmark = pytest.mark.slow
SCHEMA = json.loads((Path(workload.__file__).parent / "record.schema.json").read_text())
RECORD = SCHEMA["items"]


def validate(rows):
    jsonschema.validate(rows, SCHEMA, jsonschema.Draft202012Validator)


def test_the_schema_has_the_fields_of_a_measurement():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert list(RECORD["properties"]) == [field.name for field in fields(Measurement)]
    assert RECORD["required"] == list(RECORD["properties"])


@pytest.mark.parametrize(("field", "value"), [
    ("metric", "speed"), ("statistic", "99 %"), ("value", -1.0), ("unit", "ns"), ("messages", 0),
    ("kind", "RC"), ("sq_host", 2), ("surplus", 1)])
def test_a_record_that_differs_is_refused(field, value):
    record = Measurement("latency", "median", 5.0, "cycles", 8, kind="SRD").as_dict()
    validate([record])
    with pytest.raises(jsonschema.ValidationError):
        validate([record | {field: value}])


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
    rows = json.loads((folder / "summary.json").read_text())["measurements"]
    validate(rows)
    assert {row["metric"] for row in rows} == {"latency", "loaded latency", "message rate"}
    table = pyarrow.parquet.read_table(folder / "measurements.parquet")
    assert table.to_pylist() == rows
    with (folder / "measurements.csv").open(newline="") as file:
        texts = list(csv.DictReader(file))
    empty = {None: ""}
    assert texts == [{name: str(empty.get(value, value)) for name, value in row.items()}
                     for row in rows]  # fmt: skip


def test_the_main_job_measures_by_the_schema(monkeypatch):
    found = []
    with ModelBackend() as backend:
        node = workload.new_node(backend)
        monkeypatch.setattr(workload, "latencies", lambda *_: [40, 41, 42])
        monkeypatch.setattr(workload, "rate", lambda events: (0.1, 4 * workload.per_queue_of(4)))
        monkeypatch.setattr(ModelBackend, "events", lambda self: [], raising=False)
        found.append(workload.latency_point(node, workload.SRD, 64))
        found.append(workload.rate_point(node, workload.UD, 64, 4))
    validate([one.as_dict() for one in found])
    assert run.Measurement is Measurement
