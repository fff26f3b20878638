"""efa-cosim run: recorded sessions on RTL and model, sweeps, report."""

import argparse
import platform
import sys
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from efa.admin_queue import DriverError
from efa.backend import DeviceTimeout, open_backend
from efa.completion_queue import VerbsError
from efa.outputs import Outputs, differences
from efa.player import PlayError, play
from efa.report import ReportError, check_target, write_report
from efa.session import SessionError
from efa.waterfall import WaterfallError
from efa.workload import Mismatch, latency_sweep, new_node, rate_sweep

ROOT = Path(__file__).resolve().parents[3]
SESSIONS = ROOT / "model/tests/data/sessions"
RTL = "verilator"
# What a wrong device makes of a sweep: RuntimeError is a simulation that ended, AssertionError
# a broken rule of the boundary.
DEVICE_WRONG = (Mismatch, DeviceTimeout, DriverError, VerbsError, WaterfallError, RuntimeError,
                AssertionError)
TEXT = """\
The main job: plays the recorded pingpong of unmodified EFA software into the RTL and into the
reference model, compares everything that leaves both, sweeps message size and queue count with
the project's own driver, and writes a report with plots.
"""
EPILOG = """\
examples:
  efa-cosim run                          writes reports/run/index.html and summary.json
  efa-cosim run --session probe --out /tmp/report
"""


def add_command(commands):
    parser = commands.add_parser("run", help="the main job: sessions, sweeps, report",
                                 description=TEXT, epilog=EPILOG,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--session", action="append", metavar="NAME",
                        help="a session of model/tests/data/sessions (default: pingpong)")
    parser.add_argument("--out", type=Path, default=ROOT / "reports/run", metavar="FOLDER",
                        help="where the report goes (default: reports/run)")
    parser.add_argument("--seed", type=int, default=1)
    parser.set_defaults(work=work)


def work(options):
    """Runs all and returns the exit code."""
    started = time.monotonic()
    sessions, figures, stages, wrong = [], [], [], []
    try:
        check_target(options.out)
        for name in options.session or ["pingpong"]:
            sessions += play_both(SESSIONS / f"{name}.jsonl.gz", options.seed, wrong)
        say("building and opening the RTL for the sweeps")
        with open_backend(RTL, seed=options.seed) as backend:
            node = new_node(backend, options.seed)
            figures, found = latency_sweep(node, progress=say)
            stages = [asdict(stage) for stage in found]
            figures += rate_sweep(node, progress=say)
    except DEVICE_WRONG as error:
        wrong.append(str(error))
    except (SessionError, ReportError) as error:
        print(f"efa-cosim: {error}", file=sys.stderr)
        return 2
    verdict = "failed" if wrong else "passed"
    compared = sum(s["dma_writes"] + s["packets"] + s["interrupts"] for s in sessions)
    messages = sum(figure.messages for figure in figures)
    more = f" (and {len(wrong) - 1} more differences)" if len(wrong) > 1 else ""
    text = f"{wrong[0]}{more}" if wrong else (
        f"{compared} DMA writes, packets and interrupts of {len(sessions)} plays compared, "
        f"{messages} swept messages checked")
    summary = {
        "verdict": verdict, "text": text, "command": "efa-cosim run", "seed": options.seed,
        "made_with": {"verilator": version("verilator"), "cocotb": version("cocotb"),
                      "python": platform.python_version()},
        "differences": wrong, "sessions": sessions,
        "figures": [figure.as_dict() for figure in figures],
        "waterfall": stages,
    }  # fmt: skip
    try:
        page = write_report(options.out, summary)
    except ReportError as error:
        print(f"efa-cosim: {error}", file=sys.stderr)
        return 2
    print(f"{verdict}: {text} ({time.monotonic() - started:.0f} s), report: {page}")
    return 1 if wrong else 0


def say(text):
    """A line of progress."""
    print(f"  {text}", flush=True)


def play_both(path, seed, wrong):
    """Plays a session on model and RTL, compares all that left them; the rows of both.

    What differs is added to `wrong`. Raises SessionError where the file is no session."""
    rows, sent = [], []
    for backend_name, more in (("model", {}), (RTL, {"seed": seed})):
        say(f"playing {path.name.split('.')[0]} on {backend_name}")
        row = {"name": path.name, "backend": backend_name, "verdict": "passed"}
        outputs = Outputs(backend_name)
        try:
            with open_backend(backend_name, profile="recorded", record=True, **more) as backend:
                played = play(path, backend, outputs=outputs)
        except (PlayError, *DEVICE_WRONG) as error:
            row |= {"verdict": "failed", "line": getattr(error, "line", None),
                    "dma_writes": 0, "packets": 0, "interrupts": 0}
            wrong.append(f"{path.name} on {backend_name}: {error}")
        else:
            row |= {**played.as_dict(), "name": path.name, **outputs.counts()}
            sent.append(outputs)
        rows.append(row)
    if len(sent) == len(rows):
        _compare(path.name, rows, sent, wrong)
    return rows


def _compare(name, rows, sent, wrong):
    """What left both, with each other."""
    model, rtl = sent
    found = differences(model, rtl)
    wrong += [f"{name}: {text}" for text in found]
    if found:
        rows[-1]["verdict"] = "failed"
    for row in rows:
        nothing = [what for what in ("dma_writes", "interrupts") if not row[what]]
        if nothing:
            row["verdict"] = "failed"
            wrong.append(f"{name} on {row['backend']}: no {nothing[0]} were compared")
