# SPDX-License-Identifier: Apache-2.0
"""Opens the executor of a command: processes of this machine, or a cluster."""

from efa_cosim.jobs.cluster import Cluster
from efa_cosim.jobs.job import Executor, Limits
from efa_cosim.jobs.pool import Pool


def open_executor(
    where: str | None, width: int, entry: str, sources: tuple[str, ...],
    limits: Limits | None = None,
) -> Executor:
    """Returns an executor without jobs: `width` local processes, or the cluster `where`.

    `sources` are the patterns of all files that affect a result. Raises NoSuchEntry and
    ClusterError.
    """
    if where is None:
        return Pool([], width, entry, limits)
    return Cluster(where, width, entry, sources, limits)
