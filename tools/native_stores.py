# SPDX-License-Identifier: Apache-2.0
"""Measures how many stores a server of the device executes, without a virtual machine.

    tools/native_stores.py [--backend model|verilator ...] [--repeats 5]

A native client makes the stores of a recorded session of `ib_send_lat -c SRD` over vfio-user, each
after the reply to the one before, as QEMU does for `make linux`. The servers are `efa-cosim serve`
and, as the upper bound, one that answers every store at once and does nothing.

For the RTL also the cycles per CPU second of its server, beside those with clocks only.

Client and server share the cores of this machine. The session is a ping-pong, so that the latency
of the device counts, too; the null server has none, and the client waits for no completion of it.
"""

import argparse
import array
import fcntl
import json
import mmap
import os
import re
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from efa_cosim.layouts import defs
from efa_cosim.live.server import listen
from efa_cosim.session.recording import read_session
from efa_cosim.session.step import Step
from tb.runner import RunFailed
from tb.system_run import run_system

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "sim/linux"
LIVE = ROOT / "tb/live"
SESSION = ROOT / "model/tests/data/sessions/linux_srd.jsonl.gz"
FLAGS = ("-std=c++17", "-O2", f"-I{LIVE}")
TRANSPORT = (LIVE / "channel.cpp", LIVE / "protocol.cpp")
MEMORY_BYTES = 1 << 30  # the session has no address above
WAIT_SECONDS = 20.0
VERSION, DMA_MAP, WRITE = 1, 2, 10  # commands of vfio-user
CONFIG, COMMAND, MASTER = 7, 4, 6
PUT, WAIT, REQUEST = range(3)  # records of sim/linux/store_client.cpp
CQE_HEAD = defs.IoCdescCommon.SIZE  # request id, status, flags, QP
REPEATS = 5
_CYCLES = re.compile(r"(\d+) cycles in (\S+) s of CPU time\n")
NULL, RTL = "null server", "verilator"
Reg = defs.Reg


class StoreRateError(Exception):
    """The stores could not be measured; the text says why."""


@dataclass(frozen=True)
class Rate:
    """Stores and messages per second of a server, medians of some repeats.

    For the RTL also the cycles per CPU second of the server in the messages, and those of the same
    build with clocks only; else None.
    """

    server: str
    stores: float
    messages: float
    cycles: float | None = None
    clocks_only: float | None = None

    def clock(self) -> str:
        """Returns the cycles per CPU second in words, nothing unless the server is the RTL."""
        if self.cycles is None or self.clocks_only is None:
            return ""
        return (f"{self.cycles:,.0f} cycles/CPU s, {self.clocks_only:,.0f} with clocks only "
                f"({self.cycles / self.clocks_only:.0%})")


@dataclass(frozen=True, eq=False)
class Server:
    """A running server, its name and its socket."""

    name: str
    path: Path
    process: subprocess.Popen[str]

    def steps(self, folder: Path) -> Path:
        """The file of the steps of its client."""
        return folder / f"{self.path.name}.steps"

    def cycles(self) -> tuple[int, float]:
        """Returns the cycles of the RTL so far, and the CPU seconds of its server."""
        if self.name != RTL:
            return 0, 0.0
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGUSR1)
        for line in self.process.stdout:
            if found := _CYCLES.fullmatch(line):
                return int(found[1]), float(found[2])
        raise StoreRateError(f"{self.name}: the server has ended")


@dataclass(frozen=True)
class Stores:
    """A session in two parts: `setup` by the driver, and the `messages` that are measured."""

    setup: list[Step]
    messages: list[Step]

    @property
    def count(self) -> int:
        """The number of messages: each one has a receive completion, and a send completion."""
        return len(completions(self.messages)) // 2


def completions(steps: list[Step]) -> list[tuple[int, bytes]]:
    """Returns address and bytes of the CQEs after some stores."""
    return [(address, data) for step in steps for _, address, data in step.writes
            if len(data) == defs.IoRxCdescEx.SIZE]


def stores_of(path: Path = SESSION) -> Stores:
    """Returns the stores of a session from the first to the last message, and those before."""
    steps = [step for step in read_session(path).steps if step.data is not None]
    places = [place for place, step in enumerate(steps) if step.bar == defs.EFA_MEM_BAR]
    end = places[-1] + 1
    while steps[end].bar == defs.LIMITS.db_bar:
        end += 1
    return Stores(steps[: places[0]], steps[places[0] : end])


class _Guest:
    """A connection to a server, and the memory of the client."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(WAIT_SECONDS)
        self.socket.connect(os.fspath(path))
        self.fd = os.memfd_create("guest", os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, MEMORY_BYTES)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self.memory = mmap.mmap(self.fd, MEMORY_BYTES)
        text = json.dumps({"capabilities": {}}).encode() + b"\0"
        self.request(message(VERSION, struct.pack("<HH", 0, 0) + text))
        area = struct.pack("<IIQQQ", 32, 3, 0, 0, MEMORY_BYTES)
        self.request(message(DMA_MAP, area), self.fd)
        self.request(store(CONFIG, COMMAND, MASTER.to_bytes(2, "little")))

    def request(self, data: bytes, *fds: int) -> None:
        """Sends a request and waits for its reply; raises StoreRateError for an error."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([data], rights)
        head = self._bytes(16)
        _, command, size, flags, error = struct.unpack("<HHIII", head)
        self._bytes(size - 16)
        if flags & 1 << 5:
            raise StoreRateError(f"command {command} is refused: {os.strerror(error)}")

    def _bytes(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise StoreRateError("the server closed the connection")
            data += part
        return data

    def put(self, step: Step) -> None:
        """Puts the memory into place that the device reads after a store."""
        for _, address, data in step.memory:
            self.memory[address : address + len(data)] = data

    def set_up(self, step: Step) -> None:
        """Makes a store of the driver, and waits for the response; a status read is repeated until
        it has the recorded value."""
        self.put(step)
        until = time.monotonic() + WAIT_SECONDS
        request = store(step.bar, step.offset, step.data or b"")
        self.request(request)
        for line, address, data in step.writes:
            status = len(data) == 8 and int.from_bytes(data[2:4], "little") == Reg.DEV_STS
            size = 8 if status else 4
            while self.memory[address : address + size] != data[:size]:
                if time.monotonic() > until:
                    raise StoreRateError(f"no response at {address:#x} as in line {line} of the "
                                         "session")
                if status:
                    self.request(request)

    def close(self) -> None:
        """Closes the connection and frees the memory."""
        self.socket.close()
        self.memory.close()
        os.close(self.fd)


def message(command: int, payload: bytes) -> bytes:
    """Returns a request of vfio-user."""
    return struct.pack("<HHIII", 1, command, 16 + len(payload), 0, 0) + payload


def store(region: int, offset: int, data: bytes) -> bytes:
    """Returns the request of a store."""
    return message(WRITE, struct.pack("<QII", offset, region, len(data)) + data)


def build(folder: Path, name: str, *others: Path) -> Path:
    """Builds a program of sim/linux in a folder; returns it. Raises StoreRateError."""
    if shutil.which("g++") is None:
        raise StoreRateError("no g++ on this machine")
    program = folder / name
    command = ["g++", *FLAGS, str(HOME / f"{name}.cpp"), *map(str, others), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StoreRateError(f"{name} does not build\n{done.stderr[-4000:]}")
    return program


@contextmanager
def null_server(folder: Path) -> Iterator[Server]:
    """Runs the server that does nothing."""
    program, path = build(folder, "null_server", *TRANSPORT), folder / "null.sock"
    with listen(path) as listener:
        listener.setblocking(True)
        number = listener.fileno()
        process = subprocess.Popen([program, str(number)], pass_fds=(number,), text=True)
    try:
        yield Server(NULL, path, process)
    finally:
        process.kill()
        process.wait()
        path.unlink()


def measure(
    servers: Iterable[Server], folder: Path, stores: Stores, repeats: int = REPEATS
) -> list[Rate]:
    """Returns the rates of servers. The device of a server must write all CQEs of the session,
    unless it is the null server. Raises StoreRateError.

    The servers take turns, so that other work on the machine slows all of them. A server is stopped
    outside its turns, because the clock of the RTL runs on when a client has left.
    """
    client = build(folder, "store_client")
    turns: dict[Server, list[_Turn]] = {server: [] for server in servers}
    for server in turns:
        server.process.send_signal(signal.SIGSTOP)
        server.steps(folder).write_bytes(b"".join(_records(stores, server.name != NULL)))
    for _ in range(repeats):
        for server, done in turns.items():
            server.process.send_signal(signal.SIGCONT)
            turn = _once(server, client, server.steps(folder), stores)
            server.process.send_signal(signal.SIGSTOP)
            done.append(replace(turn, clocks_only=clocks_only()) if server.name == RTL else turn)
    return [_rate(server.name, stores, done) for server, done in turns.items()]


@dataclass(frozen=True)
class _Turn:
    """Seconds of the messages; cycles per CPU second of the RTL, and with clocks only, else 0."""

    seconds: float
    cycles: float
    clocks_only: float = 0.0


def _rate(name: str, stores: Stores, turns: list[_Turn]) -> Rate:
    seconds = statistics.median(turn.seconds for turn in turns)
    rate = Rate(name, len(stores.messages) / seconds, stores.count / seconds)
    if name != RTL:
        return rate
    return replace(rate, cycles=statistics.median(turn.cycles for turn in turns),
                   clocks_only=statistics.median(turn.clocks_only for turn in turns))


def clocks_only() -> float:
    """Returns the cycles per CPU second of one device without work, as `make bench-sim` measures
    them; the build is that of the RTL server. Raises StoreRateError."""
    try:
        done = run_system("tb.system.speed_tests", RTL, 1, test="clocks_only")
    except RunFailed as error:
        raise StoreRateError(str(error)) from None
    return float(json.loads((done.folder / "speed.json").read_text())["clocks_only"])


def _records(stores: Stores, works: bool) -> Iterator[bytes]:
    """Yields the steps of the client. A QP of the session has place for one send, so the client
    polls for the CQEs of a message before the stores of the next but one."""
    done: list[list[tuple[int, bytes]]] = []  # CQEs of each message
    for step in stores.messages:
        for _, address, data in step.memory:
            yield struct.pack("<QII", address, PUT, len(data)) + data
        request = store(step.bar, step.offset, step.data or b"")
        yield struct.pack("<QII", 0, REQUEST, len(request)) + request
        if found := completions([step]):
            done.append(found)
            if works:
                for address, data in done[-2] if len(done) > 1 else []:
                    yield struct.pack("<QII", address, WAIT, CQE_HEAD) + data[:CQE_HEAD]
    if works:
        for address, data in done[-1]:
            yield struct.pack("<QII", address, WAIT, CQE_HEAD) + data[:CQE_HEAD]


def _once(server: Server, client: Path, steps: Path, stores: Stores) -> _Turn:
    """Makes all stores once."""
    guest = _Guest(server.path)
    try:
        if server.name != NULL:
            for step in stores.setup:
                guest.set_up(step)
        number = guest.socket.fileno()
        guest.socket.setblocking(True)
        command = [client, str(number), str(guest.fd), steps, str(WAIT_SECONDS)]
        cycles, seconds = server.cycles()
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              pass_fds=(number, guest.fd))
        if done.returncode:
            raise StoreRateError(f"the client failed: {done.stderr.strip()}")
        more_cycles, more_seconds = server.cycles()
        used = more_seconds - seconds
        return _Turn(float(done.stdout), (more_cycles - cycles) / used if used else 0.0)
    finally:
        guest.close()


def measure_all(backends: Iterable[str], repeats: int = REPEATS) -> list[Rate]:
    """Returns the rates of the null server and of the devices of some backends.

    Raises StoreRateError.
    """
    stores = stores_of()
    with tempfile.TemporaryDirectory(prefix="efa-") as name, ExitStack() as running:
        folder = Path(name)
        servers = [running.enter_context(null_server(folder))]
        servers += [running.enter_context(device_server(folder, each)) for each in backends]
        return measure(servers, folder, stores, repeats)


def main() -> int:
    """Executes the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", action="append", choices=("model", "verilator"),
                        help="reference model or RTL; again for both (default: both)")
    parser.add_argument("--repeats", type=int, default=REPEATS,
                        help="the median of so many is printed (default: %(default)s)")
    options = parser.parse_args()
    try:
        rates = measure_all(options.backend or ["model", "verilator"], options.repeats)
    except StoreRateError as error:
        print(f"native_stores: {error}", file=sys.stderr)
        return 1
    for rate in rates:
        print(f"{rate.server:12} {rate.stores:9.0f} stores/s {rate.messages:8.0f} messages/s"
              f"{f', {clock}' if (clock := rate.clock()) else ''}")
    return 0


@contextmanager
def device_server(folder: Path, backend: str) -> Iterator[Server]:
    """Runs `efa-cosim serve` with one function. Raises StoreRateError."""
    path = folder / f"{backend}.sock"
    program = "import sys; from efa_cosim.cli.main import main; sys.exit(main())"
    process = subprocess.Popen([sys.executable, "-c", program, "serve", "--socket", path,
                                "--backend", backend], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("listening"):
                break
        else:
            raise StoreRateError(f"efa-cosim serve did not start: {''.join(lines)}")
        yield Server(backend, path, process)
    finally:
        process.terminate()
        process.send_signal(signal.SIGCONT)
        process.communicate()


if __name__ == "__main__":
    sys.exit(main())
