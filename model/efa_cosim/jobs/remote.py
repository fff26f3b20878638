# SPDX-License-Identifier: Apache-2.0
"""Runs one job in a worker of a cluster, which imports this module by name."""

from __future__ import annotations

import socket
from typing import Any

from efa_cosim.jobs.job import UNUSABLE, Limits, module_of
from efa_cosim.jobs.process import JobProcess, Output, end_all
from efa_cosim.jobs.store import digest_of
from efa_cosim.tree import ROOT

_RUNNING: dict[str, JobProcess] = {}


def run(
    key: str, entry: str, values: dict[str, Any], limits: tuple[float, int],
    sources: tuple[str, ...], digest: str,
) -> Output:
    """Returns the Output of a job; of code UNUSABLE if the sources of this machine have another
    digest than those of the client. `key` is the name by which `end` finds the job."""
    own = digest_of(ROOT, sources)
    if own != digest:
        text = (f"worker on {socket.gethostname()}: the sources in {ROOT} (digest {own}) are not "
                f"those of this command ({digest}); check out the same commit there")
        return Output(UNUSABLE, 0.0, "", text)
    process = _RUNNING[key] = JobProcess(module_of(entry), values, Limits(*limits))
    try:
        return process.output()
    finally:
        _RUNNING.pop(key, None)


def end(keys: tuple[str, ...]) -> None:
    """Ends the jobs of these names that run in this worker."""
    end_all([process for key, process in list(_RUNNING.items()) if key in keys])
