# SPDX-License-Identifier: Apache-2.0
"""Tests the proof of clusters: its comparison, its refusals, and a small run with kills."""

import importlib.util

import cluster_proof
import cluster_sites
import pytest
from cluster_proof import IDENTICAL, Work, verdict
from cluster_sites import ProcessSite, SlurmSite

from efa_cosim.regress.runs import benches, read_list
from efa_cosim.sweep.grid import read_grid

GRID = "sizes: [8, 16, 24, 32]\nkinds: [UD, SRD]\nmeasure: latency\nbackend: cycle\n"


@pytest.mark.parametrize(("found", "stored", "text"), [
    (b"a\nb\n", 2, IDENTICAL),
    (b"a\nc\n", 2, "line 2 differs: expected 'b', found 'c'"),
    (b"a\n", 2, "expected 2 lines, found 1"),
    (b"a\nb\n", 3, "3 results stored, expected 2"),
    (b"a\nb\n", 1, "1 results stored, expected 2"),
])
def test_a_lost_a_doubled_and_another_result_are_named(found, stored, text):
    assert verdict(b"a\nb\n", found, 2, stored) == text


def test_the_files_have_the_number_of_jobs_that_the_proof_states():
    sweep, regress = cluster_proof.WORKS
    assert len(read_grid(cluster_proof.ROOT / sweep.file).jobs()) == sweep.jobs == 500
    runs = read_list(cluster_proof.ROOT / regress.file, benches().KINDS).runs
    assert len(runs) == regress.jobs == 200


def test_a_missing_cluster_is_named_and_the_exit_code_is_2(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cluster_sites, "_path", lambda: str(tmp_path))
    monkeypatch.setattr(cluster_proof, "REPORT", tmp_path / "report/summary.json")
    monkeypatch.setattr(cluster_proof, "ROOT", tmp_path)
    monkeypatch.setattr(cluster_proof, "prove", lambda sites, _kills, _seed: [])
    assert cluster_proof.main(["--on", "slurm"]) == 2
    assert "Slurm: skipped, not installed: munged, slurmctld, " in (out := capsys.readouterr().out)
    assert "apt install slurm-wlm munge" in out


def test_slurm_that_is_installed_is_not_missing(tmp_path, monkeypatch):
    for name in cluster_sites.SLURM_PROGRAMS:
        (tmp_path / name).touch(0o755)
    monkeypatch.setattr(cluster_sites, "_path", lambda: str(tmp_path))
    assert SlurmSite.missing() == ""


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("distributed"), reason="needs distributed")
def test_a_small_sweep_survives_each_kill(tmp_path, monkeypatch, capsys):
    (tmp_path / "grid.yaml").write_text(GRID)
    work = Work("sweep", str(tmp_path / "grid.yaml"), "measurements.csv", 8)
    monkeypatch.setattr(cluster_proof, "WORKS", (work,))
    monkeypatch.setattr(cluster_proof, "OUT", tmp_path / "out")
    local, cluster = cluster_proof.prove([ProcessSite], 2, 1)
    assert (local.result, local.starts, local.killed, local.rate) == (IDENTICAL, 1, {}, 1.0)
    assert cluster.result == IDENTICAL
    assert len(capsys.readouterr().out.splitlines()) == 2
