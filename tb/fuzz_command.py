# SPDX-License-Identifier: Apache-2.0
"""Runs a fuzz as a command: progress, the stored result, and the exit status."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

from efa_cosim.boundary.backend import BackendUnavailable
from efa_cosim.jobs.progress import Progress
from tb.simulators import ROOT

# Takes a function that is called with what is done and the total; returns the result of a run with
# its `verdict`. Raises BackendUnavailable.
Fuzz: TypeAlias = Callable[[Callable[[int, int], object]], dict[str, Any]]


def run_fuzz(name: str, what: str, total: int, fuzz: Fuzz) -> int:
    """Runs a fuzz, writes reports/NAME/summary.json and prints the result.

    `what` is counted up to `total`. Returns 0 if the fuzz passed, 1 if it failed, 2 if its backend
    is missing.
    """
    try:
        with Progress(what, total) as progress:
            result = fuzz(progress.at)
    except BackendUnavailable as error:
        print(f"{name.replace('_', '-')}: {error}", file=sys.stderr)
        return 2
    out = ROOT / "reports" / name / "summary.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=2) + "\n")
    print(", ".join(f"{key}: {value}" for key, value in result.items()))
    return int(result["verdict"] != "passed")
