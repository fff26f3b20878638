# SPDX-License-Identifier: Apache-2.0
"""efa-cosim serve: offers devices to virtual machines, over vfio-user."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from efa_cosim.backends import SERVERS, backend_names
from efa_cosim.boundary.backend import BackendUnavailable
from efa_cosim.cli.options import Commands, output_refusal
from efa_cosim.fabric.description import FabricDescription, FabricFileError, read_fabric
from efa_cosim.layouts import defs
from efa_cosim.live.server import ServeError, Server
from efa_cosim.live.simulated import serve_simulated

MOST_SECONDS = 1e6
TEXT = """\
Offers a device as a PCI function on each socket, all of them on one fabric, to any vfio-user
client, such as stock QEMU 10.1 or later. The unmodified Linux driver, rdma-core and the programs on
them run in the guest. The devices are the reference model or the RTL. A function serves one client
after the other; when a client leaves, the function is reset.
"""
EPILOG = """\
the guest's memory must be shared: -object memory-backend-memfd,id=ram,size=1G,share=on
                                   -machine q35,memory-backend=ram
a function of the guest:           -device '{"driver":"vfio-user-pci",
                                            "socket":{"type":"unix","path":"a.sock"}}'

prints a line when it listens, when a client comes, and when a client leaves; SIGINT and SIGTERM
end the server

examples:
  efa-cosim serve --socket a.sock
  efa-cosim serve --socket a.sock --socket b.sock --idle-timeout 60     two devices, one fabric
  efa-cosim serve --socket a.sock --backend verilator                   the RTL
  efa-cosim serve --socket a.sock --backend verilator --checked         model and RTL, compared
  efa-cosim serve --socket a.sock --record run.jsonl.gz                 then `efa-cosim play`

exit codes: 0 ended by a signal or the idle timeout; 1 the simulation failed, or the RTL differs
            from the model; 2 usage or environment
"""


def add_command(commands: Commands) -> None:
    """Adds the command to the program."""
    parser = commands.add_parser("serve", help="devices for virtual machines, over vfio-user",
                                 description=TEXT, epilog=EPILOG,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--socket", action="append", type=Path, required=True, metavar="PATH",
                        help="a Unix socket; again for a further device")
    parser.add_argument("--backend", choices=("model", *backend_names(SERVERS)), default="model",
                        help="reference model, or the RTL on Verilator (default: %(default)s)")
    parser.add_argument("--profile", choices=tuple(defs.PROFILES), default="cosim",
                        help="attributes that the devices report (default: %(default)s)")
    parser.add_argument("--fabric", type=Path, metavar="FILE",
                        help="a fabric file: paths, loss, reordering and other faults between the "
                             "devices, whose nodes are the sockets in their order")
    parser.add_argument("--watch", action="store_true",
                        help="with --fabric, model only: check each packet against the rules of "
                             "the transport; a fault is a line of the log")
    parser.add_argument("--record", type=Path, metavar="FILE",
                        help="write what the devices and their clients exchange, for `efa-cosim "
                             "play` (.jsonl.gz); a session ends when all clients have left, the "
                             "second one is in FILE-2")
    parser.add_argument("--checked", action="store_true",
                        help="with --backend verilator: the reference model executes all that the "
                             "device reads and writes; the first difference ends the server")
    parser.add_argument("--map-llq", action="store_true",
                        help="the clients can map the LLQ memory: a store there is no request, and "
                             "reaches the device at the doorbell")
    parser.add_argument("--idle-timeout", type=_seconds, metavar="S",
                        help="end after S seconds without a client (default: never)")
    parser.set_defaults(work=work)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 0 < value <= MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text}: must be above 0, at most {MOST_SECONDS:g}")
    return value


def work(options: argparse.Namespace) -> int:
    """Serves until a signal or the idle timeout; returns the exit code."""
    # Node 0 is no device.
    most = (1 << defs.LIMITS.node_w) - 1
    wrong = None
    if len(options.socket) > most:
        wrong = f"{len(options.socket)} sockets; expected at most {most}, the nodes of a fabric"
    elif len(set(options.socket)) < len(options.socket):
        wrong = "a socket is named twice; each device needs its own"
    elif options.checked and options.backend == "model":
        wrong = "--checked compares the RTL with the model: add --backend verilator"
    elif options.watch and options.backend != "model":
        wrong = "--watch checks devices of the model: use --backend model"
    elif options.watch and not options.fabric:
        wrong = "--watch checks the packets on a fabric with a file: add --fabric FILE"
    elif options.fabric and (options.record or options.checked):
        wrong = ("--fabric with --record or --checked: a session has no loss; leave out one of "
                 "them")
    elif options.record:
        wrong = output_refusal("--record", options.record)
    server = None
    try:
        fabric = _fabric(options) if options.fabric and not wrong else None
        if not wrong and options.backend != "model":
            return serve_simulated(
                options.backend, options.socket, options.profile, options.record, options.checked,
                options.map_llq, fabric, options.idle_timeout, _say)
        if not wrong:
            server = Server(options.socket, options.profile, options.record, options.map_llq,
                            fabric, options.idle_timeout, _say, options.watch)
    except (BackendUnavailable, FabricFileError, ServeError) as error:
        wrong = str(error)
    if server is None:
        print(f"efa-cosim: {wrong}", file=sys.stderr)
        return 2
    try:
        server.run()
    finally:
        server.close()
    return 0


def _fabric(options: argparse.Namespace) -> FabricDescription:
    """Returns the fabric of the sockets; raises FabricFileError or ServeError."""
    fabric = read_fabric(options.fabric)
    count = len(fabric.nodes)
    if count != len(options.socket):
        raise ServeError(f"{options.fabric}: a fabric of {count} nodes; expected "
                         f"{len(options.socket)}, one for each --socket")
    if any(not node.number or node.number >> defs.LIMITS.node_w for node in fabric.nodes):
        raise ServeError(f"{options.fabric}: the nodes of devices have the numbers 1 to "
                         f"{(1 << defs.LIMITS.node_w) - 1}: list them, such as `nodes: [1, 2]`")
    return fabric


def _say(text: str) -> None:
    print(text, flush=True)
