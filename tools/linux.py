# SPDX-License-Identifier: Apache-2.0
"""Boots Linux with its unmodified EFA driver on the device and runs RDMA programs in the guest.

    tools/linux.py [--backend model|verilator|both] [--nodes 1|2] [--guests 1|2] [--step NAME ...]
                   [--cmd 'ib_send_bw ...'] [--shell] [--share FOLDER] [--record FILE]
                   [--checked] [--map-llq] [--memory 1024]

`efa-cosim serve` offers the devices, QEMU without KVM runs the guest (tools/linux_guest.py), and
sim/linux/steps.sh has the functions of the steps. With --nodes 2 the guest has two functions on one
fabric; with --guests 2 there are two guests with a function each. --cmd runs one command instead of
the steps, --shell gives a prompt. The files of --share are in /share of the guest. --record writes
the session of the devices for `efa-cosim play`. --checked compares the RTL with the model, which
executes what the RTL reads and writes. With --map-llq the guest maps the LLQ memory.

Results: reports/linux/summary.json and index.html.

Exit status: 0 if all steps passed, 1 if a step or the server failed, with --cmd that of the
command; 2 if the guest cannot be prepared or started here.
"""

import argparse
import gzip
import json
import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from linux_guest import HOME, OUT, ROOT, Guest, GuestError, archive, prepare
from native_stores import NULL, Rate, StoreRateError, measure_all

from efa_cosim.jobs.progress import Progress
from efa_cosim.layouts import defs

REPORT = ROOT / "reports/linux"
RUN = OUT / "run"
BOOT_SECONDS = 120.0  # from the start of QEMU to the first step
SERVER_SECONDS = 30.0
BUILD_SECONDS = 600.0  # of the simulated device, once
# Limits with a fabric file, times those without: the RTL simulates each timeout of a lost packet.
FABRIC_TIME = 10
DAY_SECONDS = 24 * 3600.0  # limit of --cmd
BACKENDS = {"model": "reference model", "verilator": "RTL on Verilator"}
SHORT = {"model": "model", "verilator": "RTL"}
MARK = re.compile(r"@@(begin|end) (\S+)(?: (\d+) (\S+) (\S+) (-?\d+))?")
# A test of Python's unittest, and its result, which a docstring may move to the next line.
TEST = re.compile(r"^(test\w+) \(")
RESULT = re.compile(r" \.\.\. (ok|FAIL|ERROR|skipped) ?['\"]?(.*?)['\"]?$")
VERSIONS = ("qemu-system-x86", "rdma-core", "perftest", "libfabric-bin", "openmpi-bin",
            "python3-mpi4py", "netpipe-openmpi")


class ServerFailed(Exception):
    """The server of the device ended with an error; the text has its last lines."""


@dataclass(frozen=True)
class Step:
    """A step of the guest's job: a shell command, a text that its output must have (a pattern), and
    its time limit in seconds on the guest's host. With two guests, `server` is the command of the
    first, and `command` that of the second."""

    name: str
    command: str
    expects: str = ""
    seconds: float = 60.0
    server: str = ""

    def of_guest(self, number: int, guests: int) -> str:
        """Returns the command of a guest, by its number from 1 on."""
        return self.command if number == guests else self.server


class Tested(NamedTuple):
    """A line of Python's unittest: the test, `ok`, `FAIL`, `ERROR` or `skipped`, and the reason."""

    name: str
    result: str
    reason: str


@dataclass
class Result:
    """A finished step: verdict, reason of a failure, seconds in the guest, its output, and the
    packets that the devices have sent meanwhile."""

    name: str
    verdict: str
    reason: str
    seconds: float
    output: list[str]
    packets: int = 0

    @property
    def skipped(self) -> dict[str, str]:
        """The tests that the step skipped, with their reasons."""
        return {test.name: test.reason for test in self._tests() if test.result == "skipped"}

    @property
    def tests(self) -> str:
        """The numbers of tests that passed, failed and were skipped; empty without tests."""
        found = [test.result for test in self._tests()]
        if not found:
            return ""
        bad = len(found) - found.count("ok") - found.count("skipped")
        return f"{found.count('ok')} passed, {found.count('skipped')} skipped, {bad} failed"

    def _tests(self) -> list[Tested]:
        name, found = "", []
        for line in self.output:
            if begin := TEST.match(line):
                name = begin.group(1)
            if name and (end := RESULT.search(line)):
                found.append(Tested(name, *end.groups()))
                name = ""
        return found


def pair(program: str, device: int = 1, peer: int = 0) -> str:
    """Returns the command of a client and a server of a program on two devices by number."""
    return (f'pair {program} -d "$(device {peer or device})" -- '
            f'{program} -d "$(device {device})" 127.0.0.1')


def perftest(name: str, options: str, device: int = 1, peer: int = 0) -> str:
    """Returns the command of a test of perftest."""
    return pair(f"{name} -x 0 -F {options}", device, peer)


def mpi(ranks: int) -> str:
    """Returns the command of the MPI program with so many ranks."""
    return f"mpi {ranks} python3 /job/mpi_check.py"


RDMA_PROFILES = tuple(name for name, profile in defs.PROFILES.items() if profile.max_rdma_size)
# log2 of the page translations that 8 ranks with the default queues of libfabric need.
MPI_PAGES_W = 19
# For profiles with fewer.
SMALL_QUEUES = "FI_EFA_RX_SIZE=64 FI_EFA_TX_SIZE=64"
UNRELIABLE = ("ud_pingpong", "ud_pingpong_events", "ud_send_lat", "ud_send_bw", "libfabric_dgram")
MPI_DONE = r"^mpi: \d ranks, \d+ messages, no difference"
# A row of perftest: bytes and iterations. Its times are inf if the clock of a busy machine jumps.
BYTES = r"^ *{size} +\d+ +\S+ "


def steps_for(nodes: int, profile: str) -> list[Step]:
    """Returns the steps of a guest with so many functions of a profile."""
    found = [
        Step("load", f"load {nodes}"),
        Step("devinfo", "ibv_devinfo -v", r"state:\s+PORT_ACTIVE"),
        Step("lspci", "lspci -vv -d 1d0f:", r"MSI-X: Enable\+"),
        Step("store_rate", f"store_rate {nodes}", r"^\d+ stores/s"),
        Step("ud_pingpong", pair("ibv_ud_pingpong -g 0 -n 100"), r"^100 iters in"),
        Step("ud_pingpong_events", pair("ibv_ud_pingpong -g 0 -n 100 -e"), r"^100 iters in"),
        Step("srd_send_lat", perftest("ib_send_lat", "-c SRD -s 64 -n 200"), BYTES.format(size=64)),
        Step("srd_send_bw", perftest("ib_send_bw", "-c SRD -s 64 -n 1000"), BYTES.format(size=64)),
        Step("srd_send_bw_4k", perftest("ib_send_bw", "-c SRD -s 4096 -n 500"),
             BYTES.format(size=4096)),
        Step("ud_send_lat", perftest("ib_send_lat", "-c UD -s 64 -n 200"), BYTES.format(size=64)),
        Step("ud_send_bw", perftest("ib_send_bw", "-c UD -Q 1 -s 64 -n 1000"),
             BYTES.format(size=64)),
        Step("rdma_core_tests", "efa_tests", r"^OK", 300),
        Step("libfabric_rdm", "pair fi_pingpong -p efa -e rdm -I 20 -- "
             "fi_pingpong -p efa -e rdm -I 20 127.0.0.1", r"^4k +20 +=20"),
        Step("libfabric_dgram", "pair fi_pingpong -p efa -e dgram -I 20 -S 1024 -- "
             "fi_pingpong -p efa -e dgram -I 20 -S 1024 127.0.0.1", r"^1k +20 +=20"),
        *(mpi_steps() if defs.PROFILES[profile].mr_pages_w >= MPI_PAGES_W else ()),
        Step("reload", f"reload {nodes} 3"),
        Step("rebind_after_flr", f"rebind {nodes}"),
        Step("srd_after_flr", perftest("ib_send_lat", "-c SRD -s 64 -n 100"),
             BYTES.format(size=64)),
    ]  # fmt: skip
    if nodes > 1:
        found += [
            Step("srd_send_bw_two_devices", perftest("ib_send_bw", "-c SRD -s 64 -n 1000", 1, 2),
                 BYTES.format(size=64)),
            Step("srd_send_lat_two_devices", perftest("ib_send_lat", "-c SRD -s 64 -n 200", 2, 1),
                 BYTES.format(size=64)),
        ]  # fmt: skip
    if profile in RDMA_PROFILES:
        found += rdma_steps()
    return found


def mpi_steps() -> list[Step]:
    """Returns the steps of MPI with the default queues of libfabric."""
    return [
        Step("mpi_2_ranks", mpi(2), MPI_DONE, 300),
        Step("mpi_4_ranks", mpi(4), MPI_DONE, 300),
        Step("mpi_8_ranks", mpi(8), MPI_DONE, 300),
        Step("mpi_netpipe", "mpi 2 NPopenmpi -u 65536 -n 5", r"65536 bytes", 300),
    ]


def rdma_steps() -> list[Step]:
    """Returns the steps of a device with RDMA."""
    found = []
    for name, size, count in (
        ("ib_write_lat", 64, 200), ("ib_write_bw", 1, 500), ("ib_write_bw", 65536, 100),
        ("ib_write_bw", 1 << 20, 20), ("ib_read_lat", 64, 200), ("ib_read_bw", 1, 500),
        ("ib_read_bw", 65536, 100), ("ib_read_bw", 1 << 20, 20),
    ):  # fmt: skip
        found.append(Step(f"{name}_{size}", perftest(name, f"-c SRD -s {size} -n {count}"),
                          BYTES.format(size=size)))
    counter = '/sys/class/infiniband/"$(device 1)"/ports/1/hw_counters/rdma_read_bytes'
    return [
        *found,
        Step("mpi_1_mb", f"{SMALL_QUEUES} {mpi(2)} 1048576", MPI_DONE, 300),
        Step("mpi_netpipe_1_mb", f"{SMALL_QUEUES} mpi 2 NPopenmpi -l 524288 -u 1048576 -n 3",
             r"1048576 bytes", 300),
        Step("rdma_read_bytes", f"cat {counter}", r"^\d{7,}$"),
    ]  # fmt: skip


def steps_for_two_guests() -> list[Step]:
    """Returns the steps of two guests with a function each."""
    def two(name: str, program: str, expects: str, seconds: float = 60.0) -> Step:
        return Step(name, f"client {program} 10.0.0.1", expects, seconds, program)

    device = '-d "$(device 1)"'
    return [
        Step("load", "load 1 && network 2", server="load 1 && network 1"),
        two("ud_pingpong", f"ibv_ud_pingpong -g 0 -n 100 {device}", r"^100 iters in"),
        two("srd_send_lat", f"ib_send_lat -x 0 -F -c SRD -s 64 -n 200 {device}",
            BYTES.format(size=64)),
        two("srd_send_bw", f"ib_send_bw -x 0 -F -c SRD -s 64 -n 1000 {device}",
            BYTES.format(size=64)),
        two("srd_send_bw_4k", f"ib_send_bw -x 0 -F -c SRD -s 4096 -n 500 {device}",
            BYTES.format(size=4096)),
        two("libfabric_rdm", "fi_pingpong -p efa -e rdm -I 20", r"^4k +20 +=20"),
    ]  # fmt: skip


def job(steps: list[Step], number: int = 1, guests: int = 1) -> str:
    """Returns the shell program of a guest, by its number from 1 on, for some steps."""
    lines = [". /job/steps.sh"]
    for each in steps:
        lines += [f"run_{each.name}() {{ {each.of_guest(number, guests)}; }}",
                  f"step {each.name} run_{each.name}"]
    return "\n".join([*lines, ""])


@contextmanager
def served(options: argparse.Namespace, backend: str):
    """Runs `efa-cosim serve` for a backend; yields the sockets, and ends it.

    Raises GuestError if it did not start, ServerFailed if it failed.
    """
    nodes, record = options.nodes * options.guests, options.record
    RUN.mkdir(parents=True, exist_ok=True)
    sockets = [RUN / f"{number}.sock" for number in range(1, nodes + 1)]
    log = RUN / "serve.log"
    command = [sys.executable, "-c",
               "import sys; from efa_cosim.cli.main import main; sys.exit(main())", "serve",
               "--backend", backend, "--profile", options.profile,
               *(("--fabric", str(options.fabric.resolve())) if options.fabric else ()),
               *(part for path in sockets for part in ("--socket", path.name)),
               *(("--record", str(record.resolve())) if record else ()),
               *(("--checked",) if options.checked and backend != "model" else ()),
               *(("--map-llq",) if options.map_llq else ())]  # fmt: skip
    with open(log, "w") as file:
        # The relative name of a socket is short, wherever the tree is.
        process = subprocess.Popen(command, cwd=RUN, stdout=file, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + BUILD_SECONDS
        while log.read_text().count("listening on") < nodes:
            if process.poll() is not None or time.monotonic() > until:
                raise GuestError(f"efa-cosim serve did not start: {log.read_text().strip()}")
            time.sleep(0.05)
        yield sockets
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(SERVER_SECONDS)
    text = log.read_text()
    if code or "internal error" in text:
        raise ServerFailed(f"efa-cosim serve ended with code {code}, log: {log}\n{text[-2000:]}")


def qemu(
    guest: Guest, folder: Path, sockets: list[Path], memory: int, network: int = 0
) -> list[str]:
    """Returns the command of QEMU; `memory` in MB, `network` is the number of a guest in the
    network of two guests, whose first one listens; 0: no network."""
    command = [
        *guest.program("qemu-system-x86_64"), "-L", str(guest.tree / "usr/share/qemu"),
        "-L", str(guest.tree / "usr/share/seabios"), "-machine", "q35,memory-backend=ram",
        "-cpu", "max", "-m", f"{memory}M", "-object",
        f"memory-backend-memfd,id=ram,size={memory}M,share=on", "-display", "none",
        "-nodefaults", "-no-reboot", "-serial", "stdio", "-kernel", str(guest.kernel),
        "-initrd", str(folder / "initramfs.gz"), "-append", "console=ttyS0 quiet panic=-1",
    ]  # fmt: skip
    for path in sockets:
        # With posted stores the guest's clock runs on while a busy machine delays the server, and
        # the driver's register reads time out after 50 ms.
        device = {"driver": "vfio-user-pci", "socket": {"type": "unix", "path": path.name},
                  "x-no-posted-writes": True}  # fmt: skip
        command += ["-device", json.dumps(device)]
    if network:
        ends = {1: "server=on", 2: "server=off,reconnect-ms=500"}
        command += [
            "-netdev", f"stream,id=net,{ends[network]},addr.type=unix,addr.path=net.sock",
            "-device", f"virtio-net-pci,netdev=net,romfile=,mac=52:54:00:00:00:0{network}",
        ]  # fmt: skip
    return command


def run_folder(guest: Guest, program: str, share: Path | None, number: int = 1) -> Path:
    """Returns the folder of a guest, by its number, with its initramfs: the guest, and an archive
    with the job and the shared files."""
    folder = RUN if number == 1 else RUN / f"guest-{number}"
    extra = folder / "extra"
    shutil.rmtree(extra, ignore_errors=True)
    (extra / "job").mkdir(parents=True)
    (extra / "job/run").write_text(program)
    for name in ("steps.sh", "mpi_check.py", "store_rate.py"):
        shutil.copy2(HOME / name, extra / "job" / name)
    if share is not None:
        shutil.copytree(share, extra / "share", symlinks=True)
    with open(folder / "initramfs.gz", "wb") as file:
        file.write(guest.initramfs.read_bytes())
        file.write(archive(guest, extra))
    return folder


class Console:
    """Reads the serial console of a guest line by line, with a time limit for each step."""

    def __init__(self, process: subprocess.Popen, log: Path) -> None:
        self._process = process
        self.log = log
        self._log = open(log, "w")  # noqa: SIM115 - closed in close
        self._data = b""
        os.set_blocking(process.stdout.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(process.stdout, selectors.EVENT_READ)

    def line(self, until: float) -> str | None:
        """Returns the next line, None at the end or after the time `until` (monotonic)."""
        while b"\n" not in self._data:
            if not self._selector.select(max(0.0, until - time.monotonic())):
                return None
            part = os.read(self._process.stdout.fileno(), 1 << 16)
            if not part:
                return None
            self._data += part
        text, _, self._data = self._data.partition(b"\n")
        line = text.decode(errors="replace").rstrip("\r")
        print(line, file=self._log, flush=True)
        return line

    def close(self) -> None:
        """Ends QEMU and closes the log."""
        self._process.kill()
        self._process.wait()
        self._selector.close()
        self._log.close()


def results(console: Console, steps: list[Step]):
    """Yields the Result of each step as it ends; a guest that ends or hangs fails the rest."""
    by_name = {each.name: each for each in steps}
    left, output, until = list(by_name), [], time.monotonic() + BOOT_SECONDS
    what = "the guest did not start"
    while left:
        line = console.line(until)
        if line is None:
            gone = "hangs" if time.monotonic() >= until else "ended"
            yield Result(left[0], "failed", f"{what}: the guest {gone}", 0.0, output)
            for name in left[1:]:
                yield Result(name, "failed", f"not run: the guest {gone}", 0.0, [])
            return
        mark = MARK.search(line)
        if mark is None or mark.group(2) not in left:
            output.append(line)
            continue
        kind, name, code, began, ended, packets = mark.groups()
        if kind == "begin":
            output, until = [], time.monotonic() + by_name[name].seconds
            what = f"no end in {by_name[name].seconds:.0f} s"
            continue
        left.remove(name)
        until = time.monotonic() + BOOT_SECONDS
        expects = by_name[name].expects
        reason = ""
        if int(code):
            reason = f"exit code {code}"
        elif expects and not any(re.search(expects, one) for one in output):
            reason = f"no output of the form {expects!r}"
        yield Result(name, "failed" if reason else "passed", reason,
                     round(float(ended) - float(began), 2), output, max(0, int(packets)))


@contextmanager
def booted(
    guest: Guest, options: argparse.Namespace, programs: list[str], sockets: list[Path]
) -> Iterator[list[Console]]:
    """Boots a guest for each program; yields their consoles, and ends them."""
    guests, consoles = len(programs), []
    (RUN / "net.sock").unlink(missing_ok=True)
    folders = [run_folder(guest, program, options.share, number)
               for number, program in enumerate(programs, 1)]
    try:
        for number, folder in enumerate(folders, 1):
            own = sockets if guests == 1 else sockets[number - 1 : number]
            command = qemu(guest, folder, own, options.memory, number if guests > 1 else 0)
            process = subprocess.Popen(command, cwd=RUN, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            consoles.append(Console(process, folder / "console.log"))
        yield consoles
    finally:
        for console in consoles:
            console.close()


def run_steps(
    guest: Guest, options: argparse.Namespace, backend: str, steps: list[Step], progress: Progress
) -> list[Result]:
    """Boots the guests on the devices of a backend and runs steps; returns their results."""
    guests, found = options.guests, []
    programs = [job(steps, number, guests) for number in range(1, guests + 1)]
    with (served(options, backend) as sockets,
          booted(guest, options, programs, sockets) as (*servers, console),
          ThreadPoolExecutor() as pool):  # fmt: skip
        others = [pool.submit(lambda one=one: list(results(one, [
            replace(each, expects="") for each in steps]))) for one in servers]
        progress.say(f"boots {guests} guest{'s' * (guests > 1)}, log: "
                     f"{console.log.relative_to(ROOT)}")
        progress.phase(f"steps on the {BACKENDS[backend]}", len(steps))
        for each in results(console, steps):
            found.append(each)
            progress.advance(note=f"{each.name}: {each.reason or f'{each.seconds:.1f} s'}",
                             failed=each.verdict != "passed")  # fmt: skip
            if len(found) == 1:
                progress.restart()  # The first step came after the boot.
        return [joined(*each) for each in zip(found, *(one.result() for one in others),
                                              strict=True)]  # fmt: skip


def joined(client: Result, *servers: Result) -> Result:
    """Returns the result of a step of several guests."""
    for server in servers:
        if server.verdict != "passed":
            output = [f"server: {line}" for line in server.output]
            reason = "; ".join(filter(None, (client.reason, f"server: {server.reason}")))
            client = replace(client, verdict="failed", reason=reason,
                             output=client.output + output)  # fmt: skip
    return client


def interactive(guest: Guest, options: argparse.Namespace, program: str) -> int:
    """Runs a guest on this terminal; returns the exit code of QEMU."""
    folder = run_folder(guest, program, options.share)
    with served(options, options.backend) as sockets:
        print("boots the guest; `poweroff -f` or Ctrl-D ends it", file=sys.stderr, flush=True)
        return subprocess.run(qemu(guest, folder, sockets, options.memory), cwd=folder,
                              check=False).returncode  # fmt: skip


def native_rates(backends: Iterable[str], progress: Progress) -> list[Rate]:
    """Returns the store rates of a client without a virtual machine, none without g++."""
    if shutil.which("g++") is None:
        progress.say("no g++: the stores of a native client are not measured")
        return []
    progress.say("measures the stores of a native client")
    return measure_all(backends)


def write_report(
    found: dict[str, list[Result]], options: argparse.Namespace, guest: Guest,
    rates: list[Rate],
) -> Path:
    """Writes the results of each backend, and the rates of a native client; returns the page."""
    from efa_cosim.measure.origin import origin
    from efa_cosim.report.document import table
    from efa_cosim.report.publish import publish

    software = versions(guest)
    every = [(backend, one) for backend, results in found.items() for one in results]
    bad = [f"{one.name} on the {BACKENDS[backend]}: {one.reason}" for backend, one in every
           if one.verdict != "passed"]  # fmt: skip
    text = f"{len(every) - len(bad)} of {len(every)} steps passed"
    summary = {
        "title": "Linux on the device", "verdict": "failed" if bad else "passed",
        "text": f"{bad[0]} ({len(bad)} of {len(every)} steps failed)" if bad else text,
        "command": options.command, "origin": origin(),
        "setting": f"{' and '.join(BACKENDS[one] for one in found)}, guests: {options.guests}, "
                   f"functions of each: {options.nodes}, profile {options.profile}, "
                   f"QEMU without KVM, {options.memory} MB"
                   f"{', LLQ memory mapped' * options.map_llq}",
        "differences": bad, "versions": software,
        "steps": [{"backend": backend, **asdict(one), "skipped": one.skipped}
                  for backend, one in every],
        "native_stores": [asdict(one) for one in rates],
    }  # fmt: skip
    heads = ("verdict", "seconds in the guest", "packets", "figures")
    columns = ["step"] + [f"{SHORT[one]}: {head}" for one in found for head in heads]
    rows = []
    for results in zip(*found.values(), strict=True):
        cells = [(one.reason or one.verdict, f"{one.seconds:.1f}", f"{one.packets:,}",
                  one.tests or figure(one.output)) for one in results]
        rows.append([results[0].name, *(cell for each in cells for cell in each)])
    skipped = [(backend, one.name, test, reason) for backend, one in every
               for test, reason in one.skipped.items()]
    sections = [table("Steps", columns, rows, "summary.json", prose=True)]
    if rates:
        sections.append(table("Stores of a native client, and messages of the guest",
                              ("server", "stores/s", "messages/s", "clock",
                               "ib_send_bw in the guest"),
                              rate_rows(rates, found), "summary.json", prose=True))  # fmt: skip
    if skipped:
        sections.append(table("Skipped tests", ("device", "step", "test", "reason"),
                              [(SHORT[one[0]], *one[1:]) for one in skipped], "summary.json",
                              prose=True))  # fmt: skip
    sections.append(table("Versions", ("software", "version"), list(software.items()), prose=True))
    return publish(REPORT, summary, sections)


def rate_rows(rates: list[Rate], found: dict[str, list[Result]]) -> list[tuple[str, ...]]:
    """Returns the rows of the table that has the rates of a native client beside those of a guest.
    """
    rows = []
    for rate in rates:
        sent = [figure(one.output) for one in found.get(rate.server, ())
                if one.name == "srd_send_bw"]
        rows.append((rate.server if rate.server == NULL else BACKENDS[rate.server],
                     f"{rate.stores:,.0f}", f"{rate.messages:,.0f}", rate.clock() or "none",
                     *(sent or ["none"])))
    return rows


def versions(guest: Guest) -> dict[str, str]:
    """Returns the versions of the software in and around the guest."""
    found = {"Linux": ", ".join(
        sorted(path.name for path in (guest.tree / "usr/lib/modules").iterdir()))}
    for name in VERSIONS:
        log = guest.tree / f"usr/share/doc/{name}/changelog.Debian.gz"
        if log.exists():
            with gzip.open(log, "rt", errors="replace") as lines:
                found[name] = next(lines).partition("(")[2].partition(")")[0]
    return found


def figure(output: list[str]) -> str:
    """Returns the line of an output that holds the figures of a program, empty if none does."""
    rows = [line.split() for line in output
            if re.search(r"^ *\d+k? +\S+ +\S+|iters in|stores/s", line)]  # fmt: skip
    row = rows[-1] if rows else []
    try:
        values = [float(one) for one in row]
    except ValueError:
        return " ".join(row)
    match values:  # the rows of perftest
        case [size, _, least, _, typical, _, _, p99, _]:
            return f"{size:.0f} B: {least:.0f} us at least, typical {typical:.0f}, p99 {p99:.0f}"
        case [size, _, _, _, millions]:
            return f"{size:.0f} B: {millions * 1e6:.0f} messages/s"
    return " ".join(row)


def main(arguments: list[str] | None = None) -> int:
    """Executes the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", choices=(*BACKENDS, "both"), default="model",
                        help="model: the reference model; verilator: the RTL (default: model)")
    parser.add_argument("--profile", choices=tuple(defs.PROFILES), default="cosim",
                        help="what the device reports; `basic` has no RDMA "
                        "(default: %(default)s)")
    parser.add_argument("--fabric", type=Path, metavar="FILE",
                        help="a fabric file with loss and other faults")
    parser.add_argument("--nodes", type=int, choices=(1, 2), default=1,
                        help="functions of the guest, on one fabric (default: 1)")
    parser.add_argument("--guests", type=int, choices=(1, 2), default=1,
                        help="2: two guests with a function each, on one fabric (default: 1)")
    parser.add_argument("--step", action="append", default=[], help="only this step, and load")
    parser.add_argument("--cmd", metavar="COMMAND", help="run one command instead of the steps")
    parser.add_argument("--shell", action="store_true", help="a prompt in the guest")
    parser.add_argument("--share", type=Path, metavar="FOLDER", help="its files are in /share")
    parser.add_argument("--record", type=Path, metavar="FILE",
                        help="write the session of the devices for `efa-cosim play`")
    parser.add_argument("--checked", action="store_true",
                        help="with --backend verilator: compare the RTL with the model")
    parser.add_argument("--map-llq", action="store_true",
                        help="the guest maps the LLQ memory: stores there do not leave it")
    parser.add_argument("--memory", type=int, default=1024, metavar="MB",
                        help="memory of the guest in MB (default: %(default)s)")
    options = parser.parse_args(arguments)
    options.command = shlex.join(["tools/linux.py", *(arguments or sys.argv[1:])])
    steps = (steps_for(options.nodes, options.profile) if options.guests == 1
             else steps_for_two_guests())
    if options.fabric:
        # Datagrams may be lost, and these programs wait for each. Round trips are longer, on the
        # RTL by the simulated cycles of the paths.
        steps = [replace(each, seconds=FABRIC_TIME * each.seconds) for each in steps
                 if each.name not in UNRELIABLE]  # fmt: skip
    wrong = [name for name in options.step if name not in [each.name for each in steps]]
    if wrong:
        print(f"linux: no step {', '.join(wrong)}; expected one of "
              f"{', '.join(each.name for each in steps)}", file=sys.stderr)  # fmt: skip
        return 2
    if options.share is not None and not options.share.is_dir():
        print(f"linux: {options.share} is no folder", file=sys.stderr)
        return 2
    if options.fabric and (options.record or options.checked):
        print("linux: --fabric with --record or --checked: a session has no loss; leave out one of "
              "them", file=sys.stderr)  # fmt: skip
        return 2
    if options.guests > 1 and (options.nodes > 1 or options.shell or options.cmd):
        print("linux: --guests 2 runs its own steps, with a function for each guest; leave out "
              "--nodes, --shell and --cmd", file=sys.stderr)  # fmt: skip
        return 2
    if options.backend == "both" and (options.shell or options.cmd or options.record):
        print("linux: --backend both runs the steps; name one backend for --shell, --cmd or "
              "--record", file=sys.stderr)  # fmt: skip
        return 2
    chosen = [each for each in steps if not options.step or each.name in ["load", *options.step]]
    if options.cmd:
        chosen = [steps[0], Step("cmd", options.cmd, "", DAY_SECONDS)]
    try:
        with Progress("Linux guest") as progress:
            guest = prepare(progress.say)
            backends = BACKENDS if options.backend == "both" else [options.backend]
            rates = []
            if not options.cmd and any(each.name == "store_rate" for each in chosen):
                rates = native_rates(backends, progress)
            if not options.shell:
                found = {each: run_steps(guest, options, each, chosen, progress)
                         for each in backends}
        if options.shell:
            return interactive(guest, options, SHELL.format(nodes=options.nodes))
    except (GuestError, ServerFailed, StoreRateError) as error:
        print(f"linux: {error}", file=sys.stderr)
        return 2 if isinstance(error, GuestError) else 1
    if options.cmd:
        return _answer(found[options.backend][-1])
    page = write_report(found, options, guest, rates)
    every = [one for results in found.values() for one in results]
    bad = [one for one in every if one.verdict != "passed"]
    for one in bad[:3]:
        print(f"{one.name}: {one.reason}", *one.output[-20:], sep="\n  ", file=sys.stderr)
    print(f"linux: {len(every) - len(bad)} of {len(every)} steps passed, "
          f"{page.relative_to(ROOT)}")  # fmt: skip
    return int(bool(bad))


SHELL = """\
. /job/steps.sh
load {nodes}
echo "devices: $(devices | xargs)"
setsid cttyhack sh
"""


def _answer(found: Result) -> int:
    """Prints the output of a command; returns its exit status, 1 if it did not end."""
    print("\n".join(found.output))
    code = re.fullmatch(r"exit code (\d+)", found.reason)
    return int(code.group(1)) if code else int(found.verdict != "passed")


if __name__ == "__main__":
    sys.exit(main())
