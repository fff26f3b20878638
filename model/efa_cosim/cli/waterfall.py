# SPDX-License-Identifier: Apache-2.0
"""efa-cosim waterfall: attributes the cycles of every message to service and named waits."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from efa_cosim.backends import run_workloads
from efa_cosim.cli.options import RTL, Commands, number, numbers, seed
from efa_cosim.jobs.progress import Progress
from efa_cosim.measure import record
from efa_cosim.measure.failures import one_line
from efa_cosim.measure.origin import origin
from efa_cosim.measure.record import stamped
from efa_cosim.report.document import Section, messages, physical, table
from efa_cosim.report.publish import Picture, publish
from efa_cosim.tree import REPORTS

if TYPE_CHECKING:
    from efa_cosim.attribution.study import Ran, Runner
    from efa_cosim.cycle.workload import Workload

CYCLE = "cycle"
OUT = REPORTS / "waterfall"
# Those of a Workload; the import of its module takes seconds.
OPERATIONS = ("SEND", "WRITE", "WRITE_IMM", "READ")
TEXT = """\
Runs workloads on the RTL or on the cycle model, with send queues in LLQ memory and in host memory,
and attributes the cycles of every message: service, from the timing table, and named waits. Each
wait is derived by replaying the stage without the message's own departure time. Service and waits
must match every event to the cycle, else the job fails and names message and stage.
"""
EPILOG = """\
output, in the folder --out: index.html; summary.json, measurements.csv and measurements.parquet
with every measurement; pictures (the median and the 99th-percentile message side by side,
distribution of the latency, stage shares and wait causes against load, the device's counters beside
those of the bench); trace.json, for https://ui.perfetto.dev

examples:
  efa-cosim waterfall
  efa-cosim waterfall --size 1024 --queues 4 --sizes 1024 --out reports/waterfall-1024
  efa-cosim waterfall --backend cycle --messages 20000
  efa-cosim waterfall --operation READ --size 65536 --sizes 64,65536 --net-latency 500

exit codes: 0 every message attributed to the cycle; 1 otherwise; 2 usage or environment
"""


def add_command(commands: Commands) -> None:
    """Adds the command to the program."""
    parser = commands.add_parser("waterfall", help="attribute the cycles of every message",
                                 description=TEXT, epilog=EPILOG,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("verilator", "icarus", CYCLE), default=RTL,
                        help="backend: the RTL on a simulator, or the cycle model "
                             "(default: %(default)s)")
    parser.add_argument("--operation", choices=OPERATIONS, default="SEND",
                        help="sends, RDMA writes without and with immediate, or RDMA reads, which "
                             "have at least 1 byte (default: %(default)s)")
    parser.add_argument("--size", type=number(0, 65536), default=64,
                        help="message size of the waterfalls, bytes: of a send at most 4096, of an "
                             "RDMA operation also a multiple of 4096 up to 65536 (default: 64)")
    parser.add_argument("--sizes", type=numbers(0, 65536), default=[32, 64, 1024],
                        help="message sizes against load, bytes, comma-separated "
                             "(default: 32,64,1024)")
    parser.add_argument("--kind", choices=("SRD", "UD"), default="SRD",
                        help="type of the queue pairs (default: SRD)")
    parser.add_argument("--queues", type=number(1, 64), default=8,
                        help="number of queue pairs (default: 8)")
    parser.add_argument("--depth", type=number(1, 128), default=16,
                        help="outstanding messages per queue, closed loop (default: 16)")
    parser.add_argument("--batch", type=number(1, 16), default=4,
                        help="WQEs per doorbell (default: 4)")
    parser.add_argument("--messages", type=number(1, 200_000), default=2048,
                        help="messages per run (default: 2048)")
    parser.add_argument("--rd-latency", type=number(1, 10_000), default=125, metavar="CYCLES",
                        help="host read latency (default: 125)")
    parser.add_argument("--net-latency", type=number(1, 10_000), default=50, metavar="CYCLES",
                        help="fabric latency (default: 50)")
    parser.add_argument("--seed", type=seed, default=1,
                        help="seed of every random choice (default: 1)")
    parser.add_argument("--out", type=Path, default=OUT, metavar="FOLDER",
                        help="output folder of the report (default: reports/waterfall)")
    parser.set_defaults(work=work)


def work(options: argparse.Namespace) -> int:
    """Runs the workloads, attributes the cycles, writes the report; returns the exit code."""
    # This import takes seconds, which help and refusals avoid.
    from efa_cosim.attribution.study import study
    from efa_cosim.attribution.waterfall import WaterfallError
    from efa_cosim.cycle.network import Retransmission
    from efa_cosim.cycle.timelines import TimelineError
    from efa_cosim.cycle.workload import Workload, WorkloadError
    from efa_cosim.report.records import of_waterfall

    try:
        wanted = Workload(kind=options.kind, operation=options.operation, size=options.size,
                          queues=options.queues, net_latency=options.net_latency,
                          depth=max(options.depth, options.batch), batch=options.batch,
                          messages=max(options.messages, options.queues * options.batch),
                          read_latency=options.rd_latency, seed=options.seed)
        runner = (_modelled if options.backend == CYCLE
                  else simulated(options.backend, options.seed))
        with Progress("waterfall") as progress:
            found, trace = study(wanted, options.sizes, runner, progress.phase)
    except WorkloadError as error:
        print(f"efa-cosim: {error}", file=sys.stderr)
        return 2
    except (WaterfallError, TimelineError, Retransmission, RuntimeError, AssertionError) as error:
        print(f"failed: {one_line(error)}", file=sys.stderr)
        return 1
    who = "cycle model" if options.backend == CYCLE else f"RTL on {options.backend}"
    setting = (f"{who}; {wanted.kind} {wanted.operation}, {wanted.queues} queues, "
               f"{wanted.batch} WQEs per doorbell, host read {wanted.read_latency} cycles")
    agrees = not found["perf_counters"] or found["perf_counters"]["agree"]
    text = (f"{found['messages']:,} messages of {len(found['rows'])} runs of the {who}: service "
            "and named waits sum to every latency, to the cycle")
    if found["perf_counters"]:
        text += (", the device's counters agree with the bench" if agrees
                 else "; the device's counters DO NOT AGREE with the bench")
    summary = {"title": "Cycles of a message by stage", "text": text, "seed": options.seed,
               "verdict": "passed" if agrees else "failed", "backend": options.backend,
               "command": options.command, "setting": setting, "origin": origin(),
               "measurements": stamped(of_waterfall(found["rows"], options.backend),
                                       options.command), **found}  # fmt: skip
    page = _write(options.out, summary, trace, who)
    print(f"{summary['verdict']}: {text}, report: {page}")
    return 0 if agrees else 1


def _modelled(works: Sequence[Workload]) -> list[Ran]:
    from efa_cosim.cycle.network import recorded

    return [(recorded(one), None) for one in works]


def simulated(backend: str, seed: int) -> Runner:
    """Returns the runner of workloads on the RTL for attribution.study; raises
    BackendUnavailable."""
    from efa_cosim.cycle.record import from_rtl

    def runner(works: Sequence[Workload]) -> list[Ran]:
        runs = run_workloads(backend, works, seed)
        return [
            (from_rtl(one, run), run.perf_counters) for one, run in zip(works, runs, strict=True)
        ]

    return runner


CAPTIONS = {
    "waterfall-closed": "Two messages of one run, doorbell to completion. Solid: service, as on an "
    "idle device; hatched: waits, the longest with its name.",
    "waterfall-open": "The same with doorbells at a fixed rate.",
    "waterfall-host": "The closed loop on a build with send queues in host memory: each WQE is "
    "fetched by a host read before it is scheduled.",
    "distribution": "Share of the messages of a run that need at most so many cycles; dots: median "
    "and 99th percentile.",
    "shares": "Top: latencies; bottom: composition of the mean latency. Left of the dotted line "
    "doorbells have a fixed rate, right of it each queue waits for completions.",
    "perf_counters": "Bars: the device's own counters (efa_perf_counters). Crosses: the same "
    "counts from the pins, or from the replays of the waterfall.",
}
CAUSES = ("Wait causes of messages of this size, by stage; cycles of the mean message. The rows "
          "have the same order in each picture of causes.")  # fmt: skip
HEADINGS = {
    "waterfall-closed": "Messages of the closed loop",
    "waterfall-open": "Messages of the open loop",
    "waterfall-host": "Messages of send queues in host memory", "shares": "Against load",
    "distribution": "Distribution of the latency",
    "perf_counters": "Counters of the device",
}  # fmt: skip


def _pictures(summary: dict[str, Any], who: str) -> list[Picture]:
    """Returns the Picture of each view."""
    from efa_cosim.report import plots
    from efa_cosim.report import waterfall_plots as pictures

    rows, setting = summary["rows"], summary["setting"]
    names = ("waterfall-closed", "waterfall-open", "waterfall-host")
    found: list[tuple[str, Callable[[], str]]] = [
        (name, partial(plots.waterfall, one, who))
        for name, one in zip(names, summary["shown"], strict=True)
    ]
    found.append(("distribution", partial(pictures.distribution, summary["shown"], setting)))
    found.append(("shares", partial(pictures.shares, rows, setting)))
    for host, size in dict.fromkeys((row["sq_host"], row["size"]) for row in rows):
        mine = [row for row in rows if (row["sq_host"], row["size"]) == (host, size)]
        name = f"causes-{size}{'-host' if host else ''}"
        found.append((name, partial(pictures.causes, mine, setting, pictures.order(rows))))
    if summary["perf_counters"]:
        counts = partial(pictures.perf_counters, summary["perf_counters"], setting)
        found.append(("perf_counters", counts))
    return [Picture(name, _heading(name), draw, CAPTIONS.get(name, CAUSES)) for name, draw in found]


def _heading(name: str) -> str:
    host = ", send queues in host memory" if name.endswith("-host") else ""
    return HEADINGS.get(name) or f"Wait causes, {name.split('-')[1]} bytes{host}"


def _write(folder: Path, summary: dict[str, Any], trace: str, who: str) -> Path:
    """Writes the report folder; returns the path of its page."""
    read = Section("How to read it", [
        "Each wait has a name. It is derived by replaying the stage from the other messages at the "
        "same ports and from the depths and latencies of the timing table. trace.json shows the "
        "first messages of the closed loop on ui.perfetto.dev."])  # fmt: skip
    parts: list[Section | Picture] = [read]
    for picture, one in zip_longest(_pictures(summary, who), summary["shown"]):
        parts.append(picture)
        if one is not None:
            parts.append(messages(f"{picture.heading}, one by one", one["sample"]))
    return publish(folder, summary, [*parts, _runs(summary["rows"])], {"trace.json": trace})


def _runs(rows: Sequence[dict[str, Any]]) -> Section:
    """Returns a table of the runs with rate and latency, in cycles and at the nominal clock."""
    columns = ("run", "size", "send queues", "messages", "messages per cycle", "at the nominal "
               "clock", "median, cycles", "median", "p99, cycles", "p99")  # fmt: skip
    cells = [(row["name"], row["size"], "host memory" if row["sq_host"] else "LLQ",
              row["messages"], row["rate"], physical(row["rate"], "messages/cycle", row["size"]),
              row["median"], physical(row["median"], "cycles"), row["p99"],
              physical(row["p99"], "cycles")) for row in rows]  # fmt: skip
    return table("Runs", columns, cells, record.CSV)
