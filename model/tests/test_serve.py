# SPDX-License-Identifier: Apache-2.0
"""Tests `efa-cosim serve` with a vfio-user client: PCI function, DMA, interrupts, bad clients."""

import errno
import os
import random
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest
from vfio_client import (
    COMMAND,
    CONFIG,
    DEVICE_CONTROL,
    DMA_MAP,
    DMA_UNMAP,
    GET_INFO,
    IRQ_INFO,
    MEMORY_BYTES,
    RANGE_BYTES,
    READ,
    REGION_INFO,
    RESET,
    SET_IRQS,
    VECTORS,
    VERSION,
    WRITE,
    WRITE_MULTI,
    Client,
    GuestBackend,
    Refused,
    shared_memory,
)

from efa_cosim.boundary.memory import HostReadError
from efa_cosim.host.alloc import HostAllocator
from efa_cosim.host.driver import Driver
from efa_cosim.host.queue_pair import SendWr, Sge
from efa_cosim.host.verbs import Context, gid_of
from efa_cosim.layouts import defs
from efa_cosim.live.guest_memory import GuestMemory, MapError, MapExists

START_SECONDS = 30.0
BUILD_SECONDS = 600.0  # of the simulated device, once
# The first two back-offs after RNR: the second is longer than a silence that ends in sleep.
BACK_OFF_CYCLES = 3 * defs.TRANSPORT.rnr_ticks * int(defs.TRANSPORT.tick_cycles)
PAGE = 4096
RAM = 64 * PAGE


class Served:
    """A server in a process of its own, and its log; `before` is Python that runs first in it."""

    def __init__(self, folder, *options, names=("a.sock", "b.sock"), before=""):
        self.paths = [folder / name for name in names]
        self.log = folder / "log"
        sockets = [part for path in self.paths for part in ("--socket", path)]
        program = f"{before}\nimport sys; from efa_cosim.cli.main import main; sys.exit(main())"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", program, "serve", *sockets, *options], stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
        self.wait_for(f"listening on {self.paths[-1]}", seconds=BUILD_SECONDS)

    def lines(self):
        """Returns the complete lines of the log."""
        return [one for one in self.log.read_text().splitlines(keepends=True) if "\n" in one]

    def wait_for(self, text, after=0, seconds=START_SECONDS):
        """Waits until a line of the log after the first `after` holds a text; returns the line."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for line in self.lines()[after:]:
                if text in line:
                    return line
            assert self.process.poll() is None or text in self.log.read_text(), self.lines()
            time.sleep(0.01)
        raise AssertionError(f"no line with {text!r} in {self.lines()}")

    def cycles(self):
        """Returns the cycles that a simulated device has run."""
        before = len(self.lines())
        self.process.send_signal(signal.SIGUSR1)
        return int(self.wait_for("cycles in", after=before).split()[0])

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(START_SECONDS)


@pytest.fixture(scope="module")
def served(backend, tmp_path_factory):
    server = Served(tmp_path_factory.mktemp("serve"), "--backend", backend)
    yield server
    assert server.end() == 0
    assert "internal error" not in server.log.read_text()


@pytest.fixture
def client(served):
    one = Client(served.paths[0])
    yield one
    one.close()


@pytest.fixture
def guests(served):
    pair = [GuestBackend(path, node_id) for node_id, path in enumerate(served.paths, 1)]
    yield pair
    for one in pair:
        one.close()


def driver_of(guest):
    """Returns a driver of a guest that allocates in the memory of the guest only."""
    bits = MEMORY_BYTES.bit_length() - 1
    return Driver(guest, allocator=HostAllocator(guest.memory, address_bits=bits)).probe()


def processes(guests, **options):
    """Returns a context, a protection domain and a CQ of each guest."""
    found = []
    for guest in guests:
        context = Context(driver_of(guest))
        found.append((context, context.alloc_pd(), context.create_cq(16, **options)))
    return found


def connected(guests, **options):
    """Returns sender and receiver QP, their memory, and the AH of the receiver."""
    (_, pd, cq), (_, peer_pd, peer_cq) = processes(guests, **options)
    sender, receiver = pd.create_qp(cq, cq).to_rts(5), peer_pd.create_qp(peer_cq, peer_cq).to_rts(5)
    return sender, receiver, pd.reg_mr(PAGE), peer_pd.reg_mr(PAGE), pd.create_ah(gid_of(2))


def loop_back(guest, messages):
    """Probes a guest's function and sends so many messages from it to itself."""
    context = Context(driver_of(guest))
    pd, cq = context.alloc_pd(), context.create_cq(16)
    qp, memory = pd.create_qp(cq, cq).to_rts(5), pd.reg_mr(PAGE)
    ah = pd.create_ah(gid_of(guest.node_id))
    for number in range(messages):
        qp.post_recv([Sge(memory.addr, 64, memory.l_key)], wr_id=number)
        qp.post_send(SendWr(ah, qp.number, qkey=5, inline=b"self", wr_id=number))
        assert [each["status"] for each in cq.wait_for(2)] == [0, 0]


def busy_client(path):
    """Exchanges messages until this process is killed."""
    try:
        guest = GuestBackend(path)
        while True:
            loop_back(guest, 20)
    finally:
        os._exit(1)


# The function as the driver sees it.


def test_a_message_crosses_two_guests(guests):
    sender, receiver, memory, peer_memory, ah = connected(guests)
    memory.write(0, b"over two sockets")
    receiver.post_recv([Sge(peer_memory.addr, 64, peer_memory.l_key)], wr_id=2)
    guests[1].settle()  # The sockets of two guests have no common order.
    sge = Sge(memory.addr, 16, memory.l_key)
    sender.post_send(SendWr(ah, receiver.number, qkey=5, sges=[sge], wr_id=1))
    assert [(one["wr_id"], one["status"]) for one in sender.send_cq.wait_for(1)] == [(1, 0)]
    assert [(one["wr_id"], one["status"]) for one in receiver.recv_cq.wait_for(1)] == [(2, 0)]
    assert peer_memory.read(0, 16) == b"over two sockets"


def test_data_is_in_memory_before_the_interrupt_of_its_cqe(guests):
    sender, receiver, memory, peer_memory, ah = connected(guests, events=True)
    cq = receiver.recv_cq
    for number in range(20):
        cq.req_notify()
        text = bytes([number]) * 64
        memory.write(0, text)
        receiver.post_recv([Sge(peer_memory.addr, 64, peer_memory.l_key)], wr_id=number)
        guests[1].settle()
        sge = Sge(memory.addr, 64, memory.l_key)
        sender.post_send(SendWr(ah, receiver.number, qkey=5, sges=[sge], wr_id=number))
        assert select.select(guests[1].eventfds[1:], [], [], 10)[0]
        ((wr_id, status, *_),) = cq.poll()
        assert (wr_id, status) == (number, 0) and peer_memory.read(0, 64) == text
        cq.get_event()
        sender.send_cq.wait_for(1)


def test_the_driver_binds_again_after_a_reset_of_the_function(guests):
    for _ in range(3):
        driver = driver_of(guests[0])
        Context(driver).alloc_pd()
        guests[0].flr()
        guests[0].client.request(RESET)


def test_the_deepest_queues_are_destroyed(guests):
    """The longest commands, in which the device is silent for more than a thousand cycles."""
    (context, pd, cq), _ = processes(guests)
    depths = {"max_send_wr": defs.LIMITS.max_sq_depth, "max_recv_wr": defs.LIMITS.max_rq_depth}
    for _ in range(3):
        pd.create_qp(cq, cq, **depths).to_rts(5).destroy()
    assert context.create_cq(defs.LIMITS.max_cq_depth).number >= 0


def test_keep_alives_come_with_the_real_clock(guests):
    driver = driver_of(guests[0])
    driver.wait(lambda: driver.aenq_events[defs.AdminAenqGroup.KEEP_ALIVE] >= 2)


def test_dma_outside_the_memory_fails_as_on_a_bus(served, guests):
    """The middle of a buffer is unmapped: a send from there fails, a receive there is lost."""
    (_, pd, cq), (_, peer_pd, peer_cq) = processes(guests)
    before = len(served.lines())
    for broken in (0, 1):
        sender = pd.create_qp(cq, cq).to_rts(5)
        receiver = peer_pd.create_qp(peer_cq, peer_cq).to_rts(5)
        buffers = [each.reg_mr(2 * RANGE_BYTES) for each in (pd, peer_pd)]
        hole = -(-buffers[broken].pages[0] // RANGE_BYTES) * RANGE_BYTES
        middle = hole - buffers[broken].pages[0]
        offsets = [middle if broken == number else 0 for number in (0, 1)]
        guests[broken].client.unmap(hole, RANGE_BYTES)
        receiver.post_recv([Sge(buffers[1].addr + offsets[1], 64, buffers[1].l_key)], wr_id=2)
        guests[1].settle()
        sge = Sge(buffers[0].addr + offsets[0], 64, buffers[0].l_key)
        sender.post_send(SendWr(pd.create_ah(gid_of(2)), receiver.number, qkey=5, sges=[sge]))
        (one,) = cq.wait_for(1)
        assert (one["status"] == 0) == (broken == 1)
    peer_cq.wait_for(1)
    for guest in guests:
        guest.client.close()
    assert "1 failed DMA reads" in served.wait_for("a.sock: client left", before)
    assert "1 dropped DMA writes" in served.wait_for("b.sock: client left", before)


# Configuration space.


def config(client, offset, size):
    return int.from_bytes(client.read(CONFIG, offset, size), "little")


def test_the_configuration_space_is_that_of_the_spec(client):
    assert config(client, 0, 4) == 0xEFA1_1D0F
    assert config(client, 8, 4) >> 8 == 0x020000
    found, at = {}, config(client, 0x34, 1)
    while at:
        number, after = client.read(CONFIG, at, 2)
        found[number], at = at, after
    assert set(found) == {0x01, 0x10, 0x11}
    msix = found[0x11]
    assert config(client, msix + 2, 2) == VECTORS - 1
    assert config(client, msix + 4, 4) == defs.LIMITS.msix_table_offset
    assert config(client, msix + 8, 4) == defs.LIMITS.msix_pba_offset
    assert config(client, found[0x10] + 4, 4) & 1 << 28  # FLR
    assert client.read(CONFIG, 0x100, PAGE - 0x100) == bytes(PAGE - 0x100)


def test_bars_show_their_sizes(client):
    sizes = {0: (0x10, 4, 16 << 10), 2: (0x18, 8, 2 << 20), 4: (0x20, 8, 4 << 20)}
    for bar, (offset, width, size) in sizes.items():
        client.write(CONFIG, offset, b"\xff" * width)
        mask = config(client, offset, width) & ~0xF
        assert (~mask & (1 << 8 * width) - 1) + 1 == size
        info = client.request(REGION_INFO, struct.pack("<IIIIQQ", 32, 0, bar, 0, 0, 0))
        assert struct.unpack("<IIIIQQ", info)[1:5] == (3, bar, 0, size)
    assert config(client, 0x18, 4) & 0xF == 0xC and config(client, 0x10, 4) & 0xF == 0


def test_read_only_bits_stay_and_an_flr_restores_the_rest(client):
    client.write(CONFIG, 0, b"\0\0\0\0")
    client.write(CONFIG, COMMAND, b"\xff\xff")
    assert config(client, 0, 4) == 0xEFA1_1D0F and config(client, COMMAND, 2) == 0x0546
    client.write(CONFIG, DEVICE_CONTROL + 1, b"\x80")
    assert config(client, COMMAND, 2) == 0 and config(client, DEVICE_CONTROL, 2) == 0x2810


def test_the_device_describes_itself(client):
    assert struct.unpack("<IIII", client.request(GET_INFO, bytes(16))) == (16, 3, 9, 5)
    for kind, count in ((0, 0), (2, VECTORS)):
        info = client.request(IRQ_INFO, struct.pack("<IIII", 16, 0, kind, 0))
        assert struct.unpack("<IIII", info)[3] == count
    assert client.capabilities["write_multiple"] is True


def test_accesses_of_any_size(client):
    version = client.read(0, defs.Reg.VERSION, 4)
    assert client.read(0, 0, 16 << 10)[defs.Reg.VERSION :][:4] == version
    assert client.read(0, defs.Reg.VERSION + 1, 1) == version[1:2]
    entry = struct.pack("<QII8s", int(defs.Reg.MMIO_RESP_LO), 0, 4, b"\0\x10\0\0\0\0\0\0")
    assert client.request(WRITE_MULTI, struct.pack("<Q", 2) + 2 * entry) == struct.pack("<Q", 2)
    client.write(2, 0, bytes(range(200)))
    assert client.read(2, 0, 8) == bytes(8)


@pytest.mark.parametrize(("region", "offset", "size"), [
    (0, (16 << 10) - 2, 4), (2, 2 << 20, 8), (4, 1 << 40, 4), (1, 0, 4), (8, 0, 1), (77, 0, 4),
    (CONFIG, 4095, 2), (0, 0, 0)])  # fmt: skip
def test_an_access_outside_a_region_is_refused(client, region, offset, size):
    with pytest.raises(Refused) as refusal:
        client.read(region, offset, size)
    assert refusal.value.number == errno.EINVAL
    with pytest.raises(Refused):
        client.write(region, offset, bytes(size), posted=False)
    assert config(client, 0, 2) == 0x1D0F


def test_a_posted_store_outside_a_region_is_counted(served):
    one, before = Client(served.paths[0]), len(served.lines())
    one.write(0, 1 << 20, b"lost")
    config(one, 0, 2)
    one.close()
    assert "1 accesses outside a BAR" in served.wait_for("client left", before)


# Interrupts.


def test_interrupts_can_be_tested_moved_and_removed(client):
    first, second = (os.eventfd(0, os.EFD_NONBLOCK) for _ in range(2))
    try:
        client.set_irqs([first], start=3)
        client.request(SET_IRQS, struct.pack("<IIIII", 20, 1 | 32, 2, 3, 1))
        assert os.eventfd_read(first) == 1
        client.set_irqs([second], start=3)
        client.request(SET_IRQS, struct.pack("<IIIII", 22, 2 | 32, 2, 2, 2) + b"\0\1")
        assert os.eventfd_read(second) == 1
        client.request(SET_IRQS, struct.pack("<IIIII", 20, 1 | 32, 2, 0, 0))
        client.request(SET_IRQS, struct.pack("<IIIII", 20, 1 | 32, 2, 3, 1))
        with pytest.raises(BlockingIOError):
            os.eventfd_read(second)
    finally:
        os.close(first)
        os.close(second)


@pytest.mark.parametrize(("flags", "kind", "start", "count"), [
    (1 | 32, 2, 0, 10), (1 | 32, 2, 9, 1), (1 | 32, 0, 0, 1), (1 | 32, 9, 0, 0),
    (1 | 8, 2, 0, 1), (1 | 32, 2, 0xFFFF_FFFF, 2)])  # fmt: skip
def test_interrupts_that_do_not_exist_are_refused(client, flags, kind, start, count):
    with pytest.raises(Refused):
        client.request(SET_IRQS, struct.pack("<IIIII", 20, flags, kind, start, count))


# Clients that break the protocol.


def head(command, size, flags=0, message=1):
    return struct.pack("<HHIII", message, command, size, flags, 0)


BROKEN = {
    "huge length": head(READ, 0xFFFF_FFFF),
    "length below the header": head(READ, 15),
    "a reply": head(READ, 32, flags=1) + bytes(16),
    "garbage": random.Random(1).randbytes(400),
    "read of four gigabytes": head(READ, 32) + struct.pack("<QII", 0, 0, 0xFFFF_FFFF),
    "write without its data": head(WRITE, 32) + struct.pack("<QII", 0, 0, 8),
    "short read": head(READ, 20) + bytes(4),
    "second version": head(VERSION, 20) + bytes(4),
    "batch of too many writes": head(WRITE_MULTI, 24) + struct.pack("<Q", 1 << 60),
    "batch with a long write":
        head(WRITE_MULTI, 48) + struct.pack("<QQII8s", 1, 0, 0, 9, b""),
    "map of nothing": head(DMA_MAP, 48) + struct.pack("<IIQQQ", 32, 3, 0, 0, 0),
    "map beyond 2^64": head(DMA_MAP, 48) + struct.pack("<IIQQQ", 32, 3, 0, (1 << 64) - PAGE, 8192),
    "unmap of what is not mapped": head(DMA_UNMAP, 40) + struct.pack("<IIQQ", 24, 0, PAGE, PAGE),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_client_is_cut_off_and_the_next_is_served(served, name):
    one, before = Client(served.paths[0]), len(served.lines())
    one.raw(BROKEN[name])
    assert one.closed()
    one.close()
    assert served.wait_for("connection closed:", before - 1)
    with_next = Client(served.paths[0])
    assert config(with_next, 0, 2) == 0x1D0F
    with_next.close()


@pytest.mark.parametrize("data", [
    head(READ, 32) + struct.pack("<QII", 0, 0, 4),
    head(VERSION, 20) + struct.pack("<HH", 1, 0),
    head(VERSION, 16),
    head(VERSION, 29) + struct.pack("<HH", 0, 0) + b"no JSON \0",
    head(VERSION, 22) + struct.pack("<HH", 0, 0) + b"7\0"])  # fmt: skip
def test_a_client_without_a_version_is_cut_off(served, data):
    one = Client(served.paths[0], version=False)
    one.raw(data)
    assert one.closed()
    one.close()


@pytest.fixture
def fewer(backend, short):
    """Returns a function that divides a number of rounds: with --short the RTL, which simulates
    each reset of a function, runs fewer."""
    return lambda number, by: number // by if short and backend != "model" else number


def test_a_client_that_leaves_anywhere_disturbs_nobody(served, guests, fewer):
    """Cuts a valid exchange at random bytes, while another guest exchanges messages."""
    other = guests[1]
    guests[0].client.close()
    version = struct.pack("<HH", 0, 0) + b'{"capabilities":{}}\0'
    store = struct.pack("<QII", int(defs.Reg.DEV_CTL), 0, 4) + bytes(4)
    stream = head(VERSION, 16 + len(version)) + version
    stream += 20 * (head(WRITE, 16 + len(store), flags=16) + store)
    rng = random.Random(7)
    for _ in range(fewer(40, 4)):
        one = Client(served.paths[0], version=False)
        one.raw(stream[: rng.randrange(1, len(stream))])
        one.close()
        loop_back(other, 1)


def test_killed_clients_leave_a_function_for_the_next(served, fewer):
    """Kills a hundred clients, on the RTL with --short 25, each at a random moment: while it maps,
    probes or exchanges."""
    rng = random.Random(3)
    for _ in range(fewer(100, 4)):
        child = os.fork()
        if child == 0:
            busy_client(served.paths[0])
        time.sleep(rng.random() * 0.1)
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
    one = GuestBackend(served.paths[0])
    assert config(one.client, COMMAND, 2) == 0
    loop_back(one, 5)
    one.close()


@pytest.mark.parametrize("wide", [False, True])
def test_stores_to_mapped_llq_memory_reach_the_device_at_the_doorbell(tmp_path, backend, wide):
    """More messages than a ring has places, one and several for a doorbell; then a reset."""
    server = Served(tmp_path, "--backend", backend, "--map-llq")
    pair = [GuestBackend(path, node_id) for node_id, path in enumerate(server.paths, 1)]
    assert all(guest.llq is not None for guest in pair)
    inline = 64 if wide else 16
    for _ in range(2):
        (_, pd, cq), (_, peer_pd, peer_cq) = processes(pair)
        sender = pd.create_qp(cq, cq, max_send_wr=16, max_inline=inline).to_rts(5)
        receiver = peer_pd.create_qp(peer_cq, peer_cq).to_rts(5)
        memory, ah = peer_pd.reg_mr(PAGE), pd.create_ah(gid_of(2))
        for number in range(40):
            text = bytes([number]) * inline
            receiver.post_recv([Sge(memory.addr, 64, memory.l_key)], wr_id=number)
            pair[1].settle()
            sender.post_send(SendWr(ah, receiver.number, qkey=5, inline=text, wr_id=number))
            ((_, status, *_),) = cq.wait_for(1)
            peer_cq.wait_for(1)
            assert status == 0 and memory.read(0, inline) == text
        pair[0].flr()
    pair[0].close()
    pair[0].llq[:8] = b"no guest"
    pair[0] = GuestBackend(server.paths[0])
    assert pair[0].llq[:] == bytes(len(pair[0].llq))
    for guest in pair:
        guest.close()
    assert server.end() == 0


def test_a_killed_server_starts_again_on_its_sockets(tmp_path, backend, short):
    rng = random.Random(4)
    for _ in range(2 if short else 5):
        server = Served(tmp_path, "--backend", backend, names=("a.sock",))
        child = os.fork()
        if child == 0:
            busy_client(server.paths[0])
        time.sleep(rng.random() * 0.3)
        server.process.kill()
        server.process.wait()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    server = Served(tmp_path, "--backend", backend, names=("a.sock",))
    one = GuestBackend(server.paths[0])
    loop_back(one, 5)
    one.close()
    assert server.end() == 0 and not server.paths[0].exists()


def test_any_stores_leave_the_server_at_work(served):
    """Stores of a guest that is no driver: random registers, rings in and outside of its memory."""
    rng, one, fd = random.Random(11), Client(served.paths[0]), shared_memory(RAM)
    one.map(0, RAM, fd)
    one.write(CONFIG, COMMAND, b"\6\0")
    registers = [int(each) for each in defs.Reg]
    for _ in range(3000):
        bar = rng.choice((0, 0, 0, 2, 4))
        offset = rng.choice(registers) if bar == 0 else rng.randrange(0, 1 << 16, 4)
        address = rng.choice((0, PAGE, 8 * PAGE, RAM - 64, RAM, 1 << 40))
        value = rng.choice((0, 1, 0x40_0010, rng.getrandbits(32), address & 0xFFFF_FFFF))
        one.write(bar, offset, value.to_bytes(4, "little"))
        if rng.random() < 0.1:
            os.pwrite(fd, rng.randbytes(64), rng.randrange(0, RAM, 64))
        if rng.random() < 0.01:
            one.write(CONFIG, DEVICE_CONTROL + 1, b"\x80")
            one.write(CONFIG, COMMAND, b"\6\0")
    assert config(one, 0, 2) == 0x1D0F
    before = len(served.lines())
    one.close()
    os.close(fd)
    line = served.wait_for("a.sock: client left", before)
    assert "failed DMA reads" in line and "dropped DMA writes" in line


def test_a_client_that_does_not_read_its_replies_is_cut_off(served):
    one = Client(served.paths[0])
    one.socket.settimeout(1.0)
    request = head(READ, 32) + struct.pack("<QII", 0, 2, 1 << 20)
    with pytest.raises(OSError):  # noqa: PT011 - a timeout or a broken pipe
        one.socket.sendall(100_000 * request)
    one.close()
    following = Client(served.paths[0])
    assert config(following, 0, 2) == 0x1D0F
    following.close()


def test_the_next_client_waits_and_finds_a_function_after_a_reset(served):
    first = Client(served.paths[0])
    first.write(CONFIG, COMMAND, b"\6\0")
    second = Client(served.paths[0], version=False)
    second.post(VERSION, struct.pack("<HH", 0, 0), flags=0)
    assert not select.select([second.socket], [], [], 0.3)[0]
    first.close()
    assert select.select([second.socket], [], [], 10)[0]
    second.socket.recv(1 << 16)
    assert config(second, COMMAND, 2) == 0
    second.close()


# Memory.


@pytest.mark.parametrize("sealed", [True, False])
def test_memory_in_pieces_reads_and_writes_as_one(sealed):
    fd, memory = shared_memory(RAM, sealed), GuestMemory()
    memory.map(0x1_0000, PAGE, fd, 0)
    memory.map(0x1_0000 + PAGE, PAGE, fd, 8 * PAGE)
    data = bytes(random.Random(2).randbytes(600))
    memory.write(0x1_0000 + PAGE - 300, data)
    assert memory.read(0x1_0000 + PAGE - 300, 600) == data
    assert os.pread(fd, 300, PAGE - 300) + os.pread(fd, 300, 8 * PAGE) == data
    memory.clear()
    os.close(fd)


def test_access_outside_fails_as_a_whole():
    fd, memory = shared_memory(RAM), GuestMemory()
    memory.map(0, PAGE, fd)
    memory.map(PAGE, PAGE, fd, PAGE, writable=False)
    memory.map(4 * PAGE, PAGE, None)
    for address, size in ((2 * PAGE, 1), (2 * PAGE - 4, 8), (4 * PAGE, 8), ((1 << 64) - 4, 8)):
        with pytest.raises(HostReadError):
            memory.read(address, size)
    for address in (PAGE - 4, PAGE, 2 * PAGE, 4 * PAGE):
        memory.write(address, b"12345678")
    assert os.pread(fd, 2 * PAGE, 0) == bytes(2 * PAGE)
    assert (memory.failed_reads, memory.dropped_writes) == (4, 4)
    assert memory.first_failure == f"read of 1 bytes at {2 * PAGE:#x}"
    memory.unmap(0, PAGE)
    with pytest.raises(HostReadError):
        memory.read(0, 1)
    memory.clear()
    os.close(fd)


def test_maps_that_contradict_are_refused():
    fd, memory = shared_memory(RAM), GuestMemory()
    memory.map(4 * PAGE, 2 * PAGE, fd)
    for address, size in ((4 * PAGE, PAGE), (3 * PAGE, 2 * PAGE), (5 * PAGE, PAGE), (0, 64 * PAGE)):
        with pytest.raises(MapExists):
            memory.map(address, size, fd)
    for address, size in ((4 * PAGE, PAGE), (5 * PAGE, PAGE), (0, PAGE)):
        with pytest.raises(MapError):
            memory.unmap(address, size)
    with pytest.raises(MapError, match="a file that has"):
        memory.map(0, PAGE, fd, RAM)
    memory.map(2 * PAGE, 2 * PAGE, fd)
    memory.clear()
    os.close(fd)


def test_a_client_that_shrinks_its_memory_does_not_end_the_server():
    fd, memory = shared_memory(RAM, sealed=False), GuestMemory()
    memory.map(0, RAM, fd)
    os.ftruncate(fd, 0)
    assert memory.read(PAGE, 8) == bytes(8)
    memory.write(2 * PAGE, b"12345678")
    memory.clear()
    os.close(fd)


# The process.


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_and_removes_its_sockets(tmp_path, number):
    server = Served(tmp_path, names=("a.sock",))
    one = Client(server.paths[0])
    assert server.end(number) == 0
    assert one.closed() and not server.paths[0].exists()
    one.close()


def test_the_server_ends_after_the_idle_timeout_and_replaces_a_stale_socket(tmp_path):
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(os.fspath(tmp_path / "a.sock"))
    server = Served(tmp_path, "--idle-timeout", "1.5", names=("a.sock",))
    one = Client(server.paths[0])
    one.close()
    assert server.process.wait(START_SECONDS) == 0
    assert "no client for 1.5 s" in server.log.read_text()


def refusal_of(*arguments):
    program = "import sys; from efa_cosim.cli.main import main; sys.exit(main())"
    found = subprocess.run(
        [sys.executable, "-c", program, "serve", *map(str, arguments)], capture_output=True,
        text=True, timeout=START_SECONDS,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    assert found.returncode == 2 and len(found.stderr.splitlines()) == 1, found
    return found.stderr


def test_sockets_that_cannot_be_served_are_named(served, tmp_path):
    (tmp_path / "file").write_text("kept")
    assert "is no socket" in refusal_of("--socket", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "kept"
    assert "another server" in refusal_of("--socket", served.paths[0])
    assert "at most 107" in refusal_of("--socket", tmp_path / ("x" * 120))
    assert "named twice" in refusal_of("--socket", "x.sock", "--socket", "x.sock")
    assert "No such file" in refusal_of("--socket", tmp_path / "none/a.sock")


def test_fabrics_that_cannot_be_served_are_named(tmp_path):
    file = tmp_path / "fabric.yaml"
    two = ("--socket", tmp_path / "a.sock", "--socket", tmp_path / "b.sock", "--fabric", file)
    file.write_text("nodes: [1, 2]\n")
    assert "use --backend model" in refusal_of(*two, "--watch", "--backend", "verilator")
    assert "leave out one" in refusal_of(*two, "--record", tmp_path / "run.jsonl.gz")
    assert "leave out one" in refusal_of(*two, "--checked", "--backend", "verilator")
    assert "add --fabric FILE" in refusal_of(*two[:4], "--watch")
    file.write_text("nodes: [1, 2, 3]\n")
    assert "a fabric of 3 nodes; expected 2" in refusal_of(*two)
    file.write_text("nodes: 2\n")
    assert "list them, such as `nodes: [1, 2]`" in refusal_of(*two)
    file.write_text("nodes: [1, 2]\npaths: {default: {loss: 2}}\n")
    assert "'2' is not allowed" in refusal_of(*two)


def test_guests_exchange_messages_on_a_fabric_that_loses_packets(tmp_path, backend):
    file = tmp_path / "fabric.yaml"
    # With this seed the first packet arrives. A packet that is lost before a round trip was
    # measured waits for the longest timeout, a quarter of a million cycles.
    file.write_text("seed: 2\nnodes: [5, 2]\n"
                    "paths: {count: 4, default: {latency: 300, loss: 0.1}}\n")
    watch = ["--watch"] if backend == "model" else []
    server = Served(tmp_path, "--backend", backend, "--fabric", str(file), *watch)
    pair = [GuestBackend(path, node_id)
            for node_id, path in zip((5, 2), server.paths, strict=True)]  # fmt: skip
    try:
        sender, receiver, memory, peer_memory, ah = connected(pair)
        for number in range(16):
            memory.write(0, bytes([number]) * 64)
            receiver.post_recv([Sge(peer_memory.addr, 64, peer_memory.l_key)], wr_id=number)
            pair[1].settle()
            sge = Sge(memory.addr, 64, memory.l_key)
            sender.post_send(SendWr(ah, receiver.number, qkey=5, sges=[sge], wr_id=number))
            assert [one["status"] for one in sender.send_cq.wait_for(1)] == [0]
            assert [one["wr_id"] for one in receiver.recv_cq.wait_for(1)] == [number]
            assert peer_memory.read(0, 64) == bytes([number]) * 64
    finally:
        for one in pair:
            one.close()
        assert server.end() == 0
    log = server.log.read_text()
    assert "internal error" not in log and "broken" not in log
    assert not watch or re.search(r"^[1-9]\d* packets checked$", log, re.M)


def test_a_message_waits_for_its_receive_while_nothing_else_happens(guests, served, backend):
    """The clock of the RTL runs on between the retransmissions, whose back-off is longer than the
    silence after which an idle device sleeps."""
    sender, receiver, memory, peer_memory, ah = connected(guests)
    for qp in (sender, receiver):
        # A keep-alive wakes a clock that sleeps.
        qp.driver.set_aenq_groups(0)
    sender.post_send(SendWr(ah, receiver.number, qkey=5, wr_id=3,
                            sges=[Sge(memory.addr, 64, memory.l_key)]))  # fmt: skip
    if backend != "model":
        wanted = served.cycles() + BACK_OFF_CYCLES
        until = time.monotonic() + 4 * START_SECONDS
        while served.cycles() < wanted:
            assert time.monotonic() < until, "the clock sleeps"
            time.sleep(0.1)
    assert not len(sender.send_cq.poll())
    receiver.post_recv([Sge(peer_memory.addr, 64, peer_memory.l_key)], wr_id=4)
    assert [one["status"] for one in sender.send_cq.wait_for(1)] == [0]
    assert [one["wr_id"] for one in receiver.recv_cq.wait_for(1)] == [4]
