# SPDX-License-Identifier: Apache-2.0
"""Exchanges messages between the ranks of an MPI program and checks every byte.

The arguments are further sizes. Rank 0 prints a line per part, and at the end
`mpi: N ranks, M messages, no difference`.
"""

import sys

from mpi4py import MPI

SIZES = [0, 1, 64, 1000, 4096, 8192, 65_536, *map(int, sys.argv[1:])]
WORLD = MPI.COMM_WORLD
messages = 0


def pattern(size, seed):
    """Returns bytes that differ from those of another message and from themselves when moved."""
    return bytearray((31 * seed + 7 * at + at // 251) & 0xFF for at in range(size))


def check(came, wanted, what):
    if came != wanted:
        print(f"mpi: {what} differs on rank {WORLD.rank}", flush=True)
        WORLD.Abort(1)


def say(text):
    if WORLD.rank == 0:
        print(text, flush=True)


def ping_pong():
    """Each rank sends each size to its neighbour, which returns it."""
    global messages
    right, left = (WORLD.rank + 1) % WORLD.size, (WORLD.rank - 1) % WORLD.size
    for size in SIZES:
        sent, came, back = pattern(size, WORLD.rank), bytearray(size), bytearray(size)
        WORLD.Sendrecv(sent, right, 1, came, left, 1)
        check(came, pattern(size, left), f"a message of {size} bytes")
        WORLD.Sendrecv(came, left, 2, back, right, 2)
        check(back, sent, f"an answer of {size} bytes")
        messages += 2 * WORLD.size
    say(f"ping-pong: {len(SIZES)} sizes up to {SIZES[-1]} bytes")


def collectives():
    """Operations of all ranks; the expected results are computed without MPI."""
    global messages
    rank, size = WORLD.rank, WORLD.size
    for turn in range(10):
        check(WORLD.bcast(pattern(1000, turn) if rank == turn % size else None, turn % size),
              pattern(1000, turn), "a broadcast")
        check(WORLD.allreduce(rank + turn), sum(range(size)) + size * turn, "a sum")
        check(WORLD.alltoall([(rank, to, turn) for to in range(size)]),
              [(come, rank, turn) for come in range(size)], "an exchange of all")
        gathered = WORLD.gather(rank * turn)
        check(gathered, [one * turn for one in range(size)] if rank == 0 else None, "a collection")
        WORLD.Barrier()
        messages += 5 * size
    say("collectives: broadcast, sum, exchange of all, collection, barrier, 10 times each")


ping_pong()
collectives()
say(f"mpi: {WORLD.size} ranks, {messages} messages, no difference")
sys.stdout.flush()
