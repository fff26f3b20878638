# SPDX-License-Identifier: Apache-2.0
"""efa-cosim run: plays recorded sessions on RTL and model, runs sweeps, writes a report."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from efa_cosim.backends import open_backend
from efa_cosim.boundary.backend import Backend
from efa_cosim.cli.options import RTL, SESSIONS, Commands, seed
from efa_cosim.cli.waterfall import simulated
from efa_cosim.host.endpoints import SRD, UD, Node
from efa_cosim.jobs.progress import Progress
from efa_cosim.measure.failures import DEVICE_WRONG, one_line
from efa_cosim.measure.origin import origin
from efa_cosim.measure.record import Measurement, stamped
from efa_cosim.measure.workload import latency_sweep, new_node, rate_sweep
from efa_cosim.report.folder import ReportError
from efa_cosim.report.page import check_target, write_report
from efa_cosim.session.outputs import Outputs, differences
from efa_cosim.session.player import open_player, play
from efa_cosim.session.recording import SessionError, read_session
from efa_cosim.session.result import PlayError
from efa_cosim.tree import REPORTS

TEXT = """\
The main job. Plays the recorded pingpong of unmodified EFA software on the RTL and on the reference
model and compares all output with the recording and of both with each other. Then sweeps message
size and queue count with the project's own driver, attributes the cycles of messages as
`efa-cosim waterfall` does, and writes a report with plots.
"""
EPILOG = """\
examples:
  efa-cosim run                          writes reports/run/index.html and summary.json
  efa-cosim run --session probe --out /tmp/report

exit codes: 0 no difference, 1 a difference (the report names it), 2 usage or environment
"""


def add_command(commands: Commands) -> None:
    """Adds the command to the program."""
    parser = commands.add_parser("run", help="the main job: sessions, sweeps, report",
                                 description=TEXT, epilog=EPILOG,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    known = sorted(path.name.split(".")[0] for path in SESSIONS.glob("*.jsonl.gz"))
    parser.add_argument("--session", action="append", choices=known,
                        help="session of model/tests/data/sessions, may be repeated "
                             "(default: pingpong)")
    parser.add_argument("--out", type=Path, default=REPORTS / "run", metavar="FOLDER",
                        help="output folder of the report (default: reports/run)")
    parser.add_argument("--seed", type=seed, default=1,
                        help="seed of every random choice (default: %(default)s)")
    parser.set_defaults(work=work)


def work(options: argparse.Namespace) -> int:
    """Runs everything; returns the exit code."""
    started = time.monotonic()
    sessions: list[dict[str, Any]] = []
    measurements: list[Measurement] = []
    shown: list[dict[str, Any]] = []
    wrong: list[str] = []
    try:
        check_target(options.out)
        with Progress("run") as progress:
            for name in options.session or ["pingpong"]:
                path = SESSIONS / f"{name}.jsonl.gz"
                sessions += play_both(path, options.seed, wrong, progress)
            progress.phase("opening the RTL for the sweeps")
            with cast(Backend, open_backend(RTL, seed=options.seed)) as backend:
                measure(new_node(backend, options.seed), measurements, progress)
            attribute(options.seed, measurements, shown, progress)
    except DEVICE_WRONG as error:
        wrong.append(one_line(error))
    except (SessionError, ReportError) as error:
        print(f"efa-cosim: {error}", file=sys.stderr)
        return 2
    text = _text(sessions, measurements, wrong)
    verdict = "failed" if wrong else "passed"
    summary = {
        "verdict": verdict, "text": text, "command": options.command, "seed": options.seed,
        "setting": "RTL on Verilator and reference model, default build", "origin": origin(),
        "differences": wrong, "sessions": sessions,
        "measurements": stamped((replace(one, seed=options.seed).as_dict()
                                 for one in measurements), options.command),
        "waterfall": shown,
    }  # fmt: skip
    try:
        page = write_report(options.out, summary)
    except ReportError as error:
        print(f"efa-cosim: {error} ({verdict}: {text})", file=sys.stderr)
        return 1 if wrong else 2
    print(f"{verdict}: {text} ({time.monotonic() - started:.0f} s), report: {page}")
    return 1 if wrong else 0


def measure(node: Node, measurements: list[Measurement], progress: Progress) -> None:
    """Runs the sweeps; after an error, measurements made before stay in the list. Raises Mismatch.
    """
    measurements += latency_sweep(node, kinds=(UD, SRD), progress=progress.phase)
    measurements += rate_sweep(node, kinds=(UD, SRD), progress=progress.phase)


def attribute(
    seed: int,
    measurements: list[Measurement],
    shown: list[dict[str, Any]],
    progress: Progress,
) -> None:
    """Attributes the cycles of a single message and of messages under load, on the RTL.

    Adds to both lists; raises RuntimeError and BackendUnavailable."""
    from efa_cosim.attribution.study import ways
    from efa_cosim.attribution.waterfall import WaterfallError
    from efa_cosim.cycle.timelines import TimelineError
    from efa_cosim.cycle.workload import Workload

    progress.phase("attributing the cycles of 64-byte SRD messages")
    work = Workload(size=64, queues=8, depth=16, batch=4, messages=2048, seed=seed)
    try:
        shown += ways(work, simulated(RTL, seed))
    except (WaterfallError, TimelineError) as error:
        raise RuntimeError(error) from error
    measurements.append(
        Measurement("doorbell to send completion", "single", float(shown[0]["of"][0]["latency"]),
                    "cycles", shown[0]["messages"], backend=RTL,
                    **Workload(**shown[0]["workload"]).setting()))


def _text(
    sessions: list[dict[str, Any]], measurements: list[Measurement], wrong: list[str]
) -> str:
    """The verdict in words: the first difference, or the counts of what was compared."""
    if wrong:
        return wrong[0] + (f" (and {len(wrong) - 1} more differences)" if len(wrong) > 1 else "")
    names = ("DMA writes", "packets", "interrupts")
    compared = [sum(row[name.lower().replace(" ", "_")] for row in sessions) for name in names]
    message = ", ".join(f"{count} {name}" for count, name in zip(compared, names, strict=True))
    messages = sum(measurement.messages for measurement in measurements)
    return (f"{message} of {len(sessions)} plays compared with the recording and with each other, "
            f"{messages} swept messages checked")


def play_both(
    path: Path, seed: int, wrong: list[str], progress: Progress
) -> list[dict[str, Any]]:
    """Plays a session on model and RTL and compares all output; returns a row for each.

    Differences are appended to `wrong`. Raises SessionError if the file is not a session."""
    rows: list[dict[str, Any]] = []
    sent: list[Outputs] = []
    session = read_session(path)
    chosen: list[tuple[str, dict[str, Any]]] = [("model", {}), (RTL, {"seed": seed})]
    for backend_name, more in chosen:
        built = "" if backend_name == "model" else "; a new tree builds it first"
        progress.phase(f"opening {backend_name}{built}")
        row: dict[str, Any] = {"name": path.name, "backend": backend_name, "verdict": "passed"}
        outputs = Outputs(backend_name)
        try:
            with open_player(backend_name, session, **more) as backend:
                progress.phase(f"playing {path.name.split('.')[0]} on {backend_name}")
                played = play(path, backend, progress=progress.at, outputs=outputs,
                              session=session)
        except (PlayError, *DEVICE_WRONG) as error:
            row |= {"verdict": "failed", "line": getattr(error, "line", None),
                    "dma_writes": 0, "packets": 0, "interrupts": 0}
            wrong.append(f"{path.name} on {backend_name}: {one_line(error)}")
        else:
            row |= {**played.as_dict(), "name": path.name, "backend": backend_name,
                    **outputs.counts()}
            sent.append(outputs)
        rows.append(row)
    if len(sent) == len(rows):
        _compare(path.name, rows, sent, wrong)
    return rows


def _compare(
    name: str, rows: list[dict[str, Any]], sent: list[Outputs], wrong: list[str]
) -> None:
    """Compares the output of both with each other."""
    found = differences(*sent)
    wrong += [f"{name}: {text}" for text in found]
    if found:
        rows[-1]["verdict"] = "failed"
    for row in rows:
        nothing = [what for what in ("dma_writes", "interrupts") if not row[what]]
        if nothing:
            row["verdict"] = "failed"
            wrong.append(f"{name} on {row['backend']}: no {nothing[0]} were compared")
