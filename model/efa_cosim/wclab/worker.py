# SPDX-License-Identifier: Apache-2.0
"""Runs one laboratory job in its own process and prints its runs as JSON.

    python -m efa_cosim.wclab.worker '{"backend": "model", "bug": "no_fence", "rows": [...]}'
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, cast

from efa_cosim.backends import open_backend
from efa_cosim.boundary.backend import Backend
from efa_cosim.host.wc import StoreBuffer
from efa_cosim.measure.failures import DEVICE_WRONG, one_line
from efa_cosim.measure.process import answer, serve
from efa_cosim.wclab.bench import run
from efa_cosim.wclab.cost import costs
from efa_cosim.wclab.matrix import Job, buffer_of, repeat


def work(job: Job) -> list[dict[str, Any]]:
    """Returns the runs of a job as dictionaries, or its cost rows."""
    with ExitStack() as stack:
        if job.backend == "model":
            # The model has no start-up time: each run gets a new device.
            def device() -> Backend:
                return cast(Backend, open_backend("model", record=True))
        else:
            opened = cast(Backend, open_backend(job.backend, record=True))
            backend = stack.enter_context(opened)

            def device() -> Backend:
                return backend

        if job.cost:
            return costs(device())
        return [one(device, job.bug, buffer_of(job.bug, *row, seed), seed)
                for row in job.rows for seed in range(job.first, job.end)]


def one(
    device: Callable[[], Backend], bug: str | None, buffer: StoreBuffer, seed: int
) -> dict[str, Any]:
    """Executes one run; if its bug is not observable, also compares its trace with that of correct
    code. Raises RuntimeError with the command that repeats the run."""
    try:
        found = run(device(), bug, buffer, seed)
        record = found.as_dict() | {"hidden": found.hidden, "right": found.right,
                                    "identical": False}
        if bug and found.hidden:
            record["identical"] = run(device(), None, buffer, seed).digest == found.digest
    except DEVICE_WRONG as error:
        text = {"bug": bug, "buffer": str(buffer), "seed": seed, "backend": device().name}
        raise RuntimeError(f"{one_line(error)}; repeat: {repeat(text)}") from error
    return record


def main(argument: str) -> int:
    """Prints the runs; returns the exit code."""
    return answer(lambda values: work(Job(**values)), argument)


if __name__ == "__main__":
    serve(main)
