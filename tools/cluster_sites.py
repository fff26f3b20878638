# SPDX-License-Identifier: Apache-2.0
"""Starts clusters on this machine for tools/cluster_proof.py, and kills their processes.

A site has two workers. It names its victims, the parts that `kill` can end by SIGKILL; the command
that uses the cluster is not one of them. `restart` brings back what the death of a part took along.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil  # type: ignore[import-untyped]  # the library has no types

WORKERS = 2
START_SECONDS = 60.0
WORKER, SCHEDULER, CONTROLLER = "worker", "scheduler", "controller"
LOCAL = """
import signal, sys
from distributed import LocalCluster
if __name__ == "__main__":
    cluster = LocalCluster(n_workers=int(sys.argv[2]), threads_per_worker=1, processes=True,
                           scheduler_port=int(sys.argv[1]), dashboard_address=None)
    signal.pause()
"""
SLURM_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "sinfo")
# A machine without systemd has no control groups to hand out: Slurm follows process numbers.
SLURM = """\
ClusterName=proof
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={megabytes} State=UNKNOWN
PartitionName=proof Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
_Found = TypeVar("_Found")


class SiteError(Exception):
    """A cluster did not start; the text names the program and its log."""


def _until(true: Callable[[], _Found], what: str) -> _Found:
    """Waits until a function returns a true value and returns it; raises SiteError."""
    deadline = time.monotonic() + START_SECONDS
    while not (found := true()):
        if time.monotonic() > deadline:
            raise SiteError(f"{what}: not within {START_SECONDS:.0f} s")
        time.sleep(0.1)
    return found


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Site:
    """A cluster of this machine: its address, its victims, and the environment of its users.

    `folder` receives the logs and what the programs store.
    """

    name = ""
    victims: tuple[str, ...] = (WORKER, SCHEDULER)

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder, self.address = folder, f"tcp://127.0.0.1:{_free_port()}"
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self._running: list[subprocess.Popen[bytes]] = []

    @classmethod
    def missing(cls) -> str:
        """Returns what to install before this cluster can start, an empty text if nothing."""
        return ""

    def start(self) -> None:
        """Starts the cluster; raises SiteError."""
        raise NotImplementedError

    def kill(self, victim: str, rng: random.Random) -> None:
        """Sends SIGKILL to one process of a victim; raises SiteError without one."""
        raise NotImplementedError

    def restart(self) -> None:
        """Starts again what does not run any more."""
        self.stop()
        self.start()

    def stop(self) -> None:
        """Ends the cluster; nothing of it still runs."""
        for one in self._running:
            _end_tree(one.pid)
            one.wait()
        self._running = []

    def _start(self, *command: object) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            one = subprocess.Popen([str(word) for word in command], env=self.environment,
                                   stdout=log, stderr=log, start_new_session=True)
        self._running.append(one)
        return one

    def _listens(self) -> bool:
        host, _, port = self.address.removeprefix("tcp://").partition(":")
        with socket.socket() as one:
            return one.connect_ex((host, int(port))) == 0


def _end_tree(pid: int) -> None:
    """Sends SIGKILL to a process and all below it."""
    try:
        top = psutil.Process(pid)
        everyone = [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for one in everyone:
        _kill(one.pid)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


class LocalSite(Site):
    """A LocalCluster: scheduler and supervisors of the workers in one process, two workers."""

    name = "LocalCluster"

    def start(self) -> None:
        port = self.address.rpartition(":")[2]
        program = self.folder / "local_cluster.py"
        program.write_text(LOCAL)
        self._start(sys.executable, program, port, WORKERS)
        _until(self._listens, f"{self.name} ({self.folder}/log)")

    def kill(self, victim: str, rng: random.Random) -> None:
        (server,) = self._running
        if victim == SCHEDULER:
            server.kill()
            return
        _kill(rng.choice(_until(lambda: self._workers(server.pid), "a worker of LocalCluster")))

    def _workers(self, server: int) -> list[int]:
        """Returns the workers; their supervisor starts a killed one again."""
        found = psutil.Process(server).children()
        return [one.pid for one in found if any("spawn_main" in word for word in one.cmdline())]


class ProcessSite(Site):
    """A scheduler and workers, each a program of its own."""

    name = "scheduler and workers"

    def start(self) -> None:
        port = self.address.rpartition(":")[2]
        self._start(sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port",
                    port, "--no-dashboard")
        _until(self._listens, f"dask scheduler ({self.folder}/log)")
        for _ in range(WORKERS):
            self._start_worker()

    def kill(self, victim: str, rng: random.Random) -> None:
        scheduler, *workers = self._running
        if victim == SCHEDULER:
            scheduler.kill()
            return
        one = rng.choice(workers)
        one.kill()
        one.wait()
        self._running.remove(one)
        self._start_worker()

    def _start_worker(self) -> None:
        self._start(sys.executable, "-m", "dask", "worker", self.address, "--nthreads", 1,
                    "--no-nanny", "--no-dashboard", "--local-directory", self.folder / "dask")


class SlurmSite(Site):
    """Slurm of this machine in a folder of its own; the command starts scheduler and workers.

    The scheduler is part of the command, so the victims are the workers and Slurm's controller.
    """

    name = "Slurm"
    victims = (WORKER, CONTROLLER)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        # The path of a socket has at most 107 bytes, and munged refuses a folder of others.
        self.address = "slurm"
        self._socket = folder / "munge.socket"
        self.environment |= {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": _path()}

    @classmethod
    def missing(cls) -> str:
        absent = [one for one in SLURM_PROGRAMS if not shutil.which(one, path=_path())]
        return f"not installed: {', '.join(absent)} (Debian: apt install slurm-wlm munge)" * bool(
            absent)

    def start(self) -> None:
        for name in ("state", "spool"):
            (self.folder / name).mkdir(exist_ok=True)
        key = self.folder / "munge.key"
        if not key.exists():
            key.write_bytes(os.urandom(1024))
            key.chmod(0o400)
            ports = {"controller_port": _free_port(), "node_port": _free_port()}
            memory = psutil.virtual_memory().total >> 20
            (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
            (self.folder / "slurm.conf").write_text(SLURM.format(
                host=socket.gethostname(), user=psutil.Process().username(), cpus=os.cpu_count(),
                megabytes=memory, folder=self.folder, **ports))
        self._start("munged", "--foreground", "--force", f"--socket={self._socket}",
                    f"--key-file={key}", f"--pid-file={self.folder}/munge.pid",
                    f"--log-file={self.folder}/munge.log", f"--seed-file={self.folder}/munge.seed")
        _until(self._socket.exists, f"munged ({self.folder}/munge.log)")
        self._start("slurmctld", "-D")
        self._start("slurmd", "-D")
        _until(self._idle, f"slurmctld, slurmd ({self.folder}/slurmctld.log, slurmd.log)")

    def kill(self, victim: str, rng: random.Random) -> None:
        if victim == CONTROLLER:
            controller = self._running[1]
            controller.kill()
            controller.wait()
            self._running[1] = self._start("slurmctld", "-D")
            self._running.pop()
            return
        _kill(rng.choice(_until(self._workers, "a worker under Slurm")))

    def restart(self) -> None:
        """Nothing: Slurm itself survives the death of a command."""

    def stop(self) -> None:
        for one in self._jobs():
            self._ask("scancel", one)
        super().stop()

    def _workers(self) -> list[int]:
        """Returns the processes of all Slurm jobs that are Dask: workers and their supervisors."""
        found = []
        for job in self._jobs():
            for line in self._ask("scontrol", "listpids", job).splitlines()[1:]:
                pid = int(line.split()[0])
                if pid > 0 and "python" in _command(pid) and "efa_cosim" not in _command(pid):
                    found.append(pid)
        return found

    def _jobs(self) -> list[str]:
        return self._ask("squeue", "-h", "-t", "R", "-o", "%A").split()

    def _idle(self) -> bool:
        return self._ask("sinfo", "-h", "-o", "%T").strip() in ("idle", "mixed", "allocated")

    def _ask(self, *command: str) -> str:
        return subprocess.run(command, env=self.environment, capture_output=True, text=True).stdout


def _command(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.NoSuchProcess:
        return ""


def _path() -> str:
    """Returns the search path with the folders of system programs."""
    return os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin"))


SITES: tuple[type[Site], ...] = (LocalSite, ProcessSite, SlurmSite)
