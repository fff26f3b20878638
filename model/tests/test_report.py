# SPDX-License-Identifier: Apache-2.0
"""Tests the report: written completely or not at all, every picture on the page, errors with paths.
"""

import json
from dataclasses import asdict

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from efa_cosim.backends.model import ModelBackend, open_model
from efa_cosim.boundary.backend import DeviceTimeout
from efa_cosim.cli import run
from efa_cosim.cli.main import main
from efa_cosim.jobs import files
from efa_cosim.report import folder as folders
from efa_cosim.report import page as report
from efa_cosim.report import plots
from efa_cosim.report.folder import ReportError
from efa_cosim.report.page import check_target, read_summary, write_report
from efa_cosim.sweep import cache
from efa_cosim.sweep.grid import Grid, read_grid
from efa_cosim.sweep.point import measure

pytestmark = pytest.mark.slow


def shown(*latencies):
    stage = {"stage": "to the receiver", "place": "fabric", "service": 51}
    return {"name": "x", "load": None, "setting": "size 64", "messages": 8,
            "workload": {"sq_host": 0},
            "distribution": {"percent": [0, 50, 99, 100], "cycles": sorted(latencies * 4)[:4]},
            "sample": {"stages": [{"stage": "to <the> receiver", "place": "fabric"}], "messages": [
                {"message": 3, "begin": 7, "latency": latency, "stages": [
                    [51, {"earlier packets": latency - 51}]]} for latency in latencies]}, "of": [
        {"percent": 50, "message": 3, "latency": latency, "stages": [
            {**stage, "wait": latency - 51, "waits": {"earlier packets": latency - 51}}]}
        for latency in latencies]}  # fmt: skip


def summary():
    latency = [
        {"metric": "latency", "statistic": "median", "value": 100.0 + size, "unit": "cycles",
         "messages": 8, "limit": None, "kind": kind, "size": size, "queues": 1}
        for kind in ("UD", "SRD") for size in (0, 32, 4096)
    ]  # fmt: skip
    rates = [
        {"metric": "message rate", "statistic": "mean", "value": 0.06, "unit": "messages/cycle",
         "messages": 128, "limit": 0.33, "kind": "SRD", "size": size, "queues": queues}
        for size, queues in ((32, 1), (32, 16), (1024, 16))
    ]  # fmt: skip
    return {
        "verdict": "passed", "text": "all <equal>", "command": "efa-cosim run", "seed": 1,
        "sessions": [{"name": "probe", "backend": "model", "verdict": "passed"}],
        "measurements": latency + rates,
        "waterfall": [shown(66), shown(90, 95)],
    }  # fmt: skip


def test_page_is_self_contained_and_reports_every_measurement(tmp_path):
    page = write_report(tmp_path / "run", summary()).read_text()
    assert page.count("<svg") == 5
    assert "all &lt;equal&gt;" in page
    assert "66 cycles from the doorbell" in page
    assert "DMA writes are counted, but not compared one by one, so their numbers differ" in page
    assert "src=" not in page
    assert "stylesheet" not in page


def test_same_summary_gives_the_same_page(tmp_path):
    one, two = (write_report(tmp_path / name, summary()) for name in ("one", "two"))
    assert one.read_text() == two.read_text()


def test_report_replaces_the_old_one_as_a_whole(tmp_path):
    folder = tmp_path / "run"
    write_report(folder, {**summary(), "seed": 1})
    write_report(folder, {**summary(), "seed": 2})
    assert read_summary(folder)["seed"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_full_disk_leaves_the_old_report_and_one_message(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    write_report(folder, summary())

    def full(*_arguments, **_named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(ReportError, match="run: report not written: No space left"):
        write_report(folder, {**summary(), "seed": 3})
    monkeypatch.undo()
    assert read_summary(folder)["seed"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_numbers_stand_if_the_drawing_is_interrupted(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    write_report(folder, summary())

    def interrupted(_measurements):
        raise KeyboardInterrupt

    monkeypatch.setattr(plots, "latency", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_report(folder, {**summary(), "seed": 2})
    assert {path.name for path in folder.iterdir()} == {
        "summary.json", "measurements.csv", "measurements.parquet"}
    assert read_summary(folder)["seed"] == 2


def test_folder_with_anything_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ReportError, match=r"holds thesis\.tex"):
        write_report(tmp_path, summary())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_interrupted_between_two_names_the_old_report_comes_back(tmp_path, monkeypatch):
    folder, rename, calls = tmp_path / "run", folders.os.rename, []
    write_report(folder, {**summary(), "seed": 1})

    def second_is_interrupted(old, new):
        calls.append(new)
        if len(calls) == 2:
            raise KeyboardInterrupt
        rename(old, new)

    monkeypatch.setattr(folders.os, "rename", second_is_interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_report(folder, {**summary(), "seed": 2})
    assert read_summary(folder)["seed"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_table_holds_every_measurement_and_stays_when_rendered_again(tmp_path):
    folder = tmp_path / "run"
    write_report(folder, summary())
    assert main(["report", str(folder)]) == 0
    rows = (folder / report.TABLE).read_text().splitlines()
    assert len(rows) == 1 + len(summary()["measurements"])


@pytest.mark.parametrize("wrong", [DeviceTimeout("never came"), RuntimeError("never came")])
def test_run_reports_a_device_that_went_wrong_in_one_line(tmp_path, monkeypatch, capsys, wrong):
    def sweep(*_arguments, **_named):
        raise wrong

    monkeypatch.setattr(run, "open_backend", lambda name, **_: open_model(record=True))
    monkeypatch.setattr(run, "play_both", lambda *_: [])
    monkeypatch.setattr(run, "latency_sweep", sweep)
    assert main(["run", "--out", str(tmp_path / "run")]) == 1
    text = capsys.readouterr()
    assert text.out.startswith("failed: never came") and len(text.out.splitlines()) == 1
    assert text.err == "opening the RTL for the sweeps\n"
    assert read_summary(tmp_path / "run")["verdict"] == "failed"


def test_what_ends_the_work_is_not_hidden_by_a_simulator_that_is_gone():
    class Gone(ModelBackend):
        def close(self):
            raise BrokenPipeError

    with pytest.raises(KeyboardInterrupt), Gone():
        raise KeyboardInterrupt
    with pytest.raises(BrokenPipeError), Gone():
        pass


@pytest.mark.parametrize(("content", "message"), [(None, "efa-cosim run"), ("{", "no JSON"),
                                                  ("[]", "not the summary")])  # fmt: skip
def test_bad_summary_is_refused(tmp_path, content, message, capsys):
    if content is not None:
        (tmp_path / "summary.json").write_text(content)
    assert main(["report", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


def test_report_command_renders_again(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "summary.json").write_text(json.dumps(summary()))
    assert main(["report", str(folder)]) == 0
    assert (folder / "index.html").exists()


def corrupted_measurement(**changes):
    text = summary()
    text["measurements"][0] |= changes
    return text


@pytest.mark.parametrize(("text", "message"), [
    ({**summary(), "verdict": 3}, "verdict is missing or wrong"),
    ({**summary(), "measurements": {}}, "measurements is missing or wrong"),
    ({**summary(), "measurements": [3]}, "measurements 0: no object"),
    ({**summary(), "waterfall": 3}, "waterfall is no list"),
    ({**summary(), "waterfall": [{"name": "x"}]}, "waterfall 0: setting is missing or wrong"),
    ({**summary(), "waterfall": [{**shown(66), "of": [3]}]}, "waterfall 0: no object"),
    ({**summary(), "waterfall": [{**shown(66), "of": []}]}, "waterfall 0: no message"),
    ({**summary(), "waterfall": [{**shown(66), "of": [{**shown(66)["of"][0], "stages": [{}]}]}]},
     "waterfall 0: stage is missing or wrong"),
    (corrupted_measurement(value="much"), "measurements 0: value is missing or wrong"),
    (corrupted_measurement(value=float("nan")), "measurements 0: value is nan"),
    (corrupted_measurement(messages=-1), "measurements 0: messages is -1"),
    (corrupted_measurement(limit=[]), "measurements 0: limit is missing or wrong"),
    (corrupted_measurement(host_read_latency=[]), "not the summary of a run"),
])  # fmt: skip
def test_an_edited_summary_is_refused_in_one_line(tmp_path, text, message, capsys):
    (tmp_path / report.SUMMARY).write_text(json.dumps(text))
    assert main(["report", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == [report.SUMMARY]


@pytest.mark.parametrize("folder", ["/etc/passwd", "/etc/passwd/run", "/proc/run"])
def test_a_target_that_cannot_be_is_refused_before_the_work(folder):
    with pytest.raises(ReportError, match=r"not written: .*; free space or name another folder"):
        check_target(folder)


def test_every_measurement_of_the_page_is_in_the_summary(tmp_path):
    folder = tmp_path / "run"
    write_report(folder, summary())
    page, text = (folder / report.PAGE).read_text(), read_summary(folder)
    assert page.count("<tr><td>") == len(text["measurements"]) + len(text["sessions"])
    drawn = report.PARTS - {"loaded.svg", "queues.svg"}
    assert {path.name for path in folder.iterdir()} == drawn


def test_sweep_refuses_sizes_out_of_range(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["sweep", "--sizes", "9000"])
    assert caught.value.code == 2
    assert "must be 0 to 4096" in capsys.readouterr().err


def test_a_picture_that_fails_is_named_and_the_rest_stands(tmp_path, monkeypatch, capsys):
    def fails(_measurements):
        raise ValueError("no space for <labels>")

    monkeypatch.setattr(plots, "rates", fails)
    path = write_report(tmp_path / "run", summary())
    assert "picture rates is not drawn: ValueError: no space" in capsys.readouterr().err
    assert "picture rates is not drawn: ValueError: no space for &lt;labels&gt;" in path.read_text()
    assert path.read_text().count("<svg") == 4
    assert read_summary(tmp_path / "run")["measurements"] == summary()["measurements"]


# Grids that once ended in an error after all jobs.
GRIDS = {
    "batch above depth": "queues: [4]\ndepth: [1, 4, 16, 64]\nbatch: 4\nsq_host: [0, 1]\n"
                         "host_read_latency: [125, 250, 500]\n",
    "latency alone": "sq_host: [0, 1]\nmeasure: latency\n",
    "rate alone": "sq_host: [0, 1]\nmeasure: rate\n",
}  # fmt: skip


@pytest.mark.parametrize("name", GRIDS)
def test_a_sweep_over_both_places_of_the_send_queue_ends_in_a_report(name, tmp_path, monkeypatch,
                                                                     capsys):
    monkeypatch.setattr(cache, "FOLDER", tmp_path / "cache")
    grid, out = tmp_path / "grid.yaml", tmp_path / "out"
    grid.write_text(f"sizes: [32, 64, 512]\nkinds: SRD\nbackend: cycle\n{GRIDS[name]}")
    assert main(["sweep", str(grid), "--jobs", "2", "--out", str(out)]) == 0
    assert "is not drawn" not in capsys.readouterr().err + (out / "index.html").read_text()
    assert (out / "queues.svg").exists() and (out / "measurements.parquet").exists()


@st.composite
def grids(draw):
    """Draws a small legal grid of the cycle model."""
    def some(values, most=2):
        chosen = draw(st.lists(st.sampled_from(values), min_size=1, max_size=most, unique=True))
        return tuple(sorted(chosen))

    return Grid(
        sizes=some((0, 32, 64, 512, 4096)), queues=some((1, 2, 4)), kinds=some(("SRD", "UD")),
        host_read_latency=some((125, 500)), depth=some((1, 4, 16), 3), batch=some((1, 4), 2),
        store_buffer=some(("ideal", "adversarial")), sq_host=some((0, 1)), loss=some((0.0, 0.02)),
        backend=("cycle",),
        measure=draw(st.sampled_from((("latency",), ("rate",), ("latency", "rate")))),
    )


def test_any_grid_ends_in_a_report_with_every_picture(tmp_path, request):
    """With --short fewer grids; `make model` draws all."""
    short = request.config.getoption("--short", default=False)

    @settings(max_examples=8 if short else 25, deadline=None,
              suppress_health_check=list(HealthCheck))
    @given(grid=grids())
    def check(grid):
        assume(grid.jobs())  # a rate of 0 bytes alone is refused
        file = tmp_path / "grid.yaml"
        file.write_text(json.dumps(asdict(grid)))
        assert read_grid(file) == grid
        rows = [row.as_dict() for job in grid.jobs() for row in measure(job)]
        text = {**summary(), "measurements": rows, "waterfall": []}
        page = write_report(tmp_path / "out", text)
        assert "is not drawn" not in page.read_text()
        pictures = {path.stem for path in page.parent.glob("*.svg")}
        assert ("queues" in pictures) == (len(grid.sq_host) == 2)
        assert ("latency" in pictures) == ("latency" in grid.measure)
        assert ("rates" in pictures) == ("rate" in grid.measure and grid.sizes != (0,))
        assert len((page.parent / "measurements.csv").read_text().splitlines()) == 1 + len(rows)

    check()
