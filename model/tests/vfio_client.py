# SPDX-License-Identifier: Apache-2.0
"""A vfio-user client for tests: raw messages, and a Backend on which the project's driver runs.

Written from QEMU's description of the protocol, without the server's code.
"""

import array
import contextlib
import fcntl
import json
import mmap
import os
import socket
import struct
import time

from efa_cosim.boundary.backend import Backend, DeviceTimeout
from efa_cosim.boundary.memory import BufferMemory

VERSION, DMA_MAP, DMA_UNMAP, GET_INFO, REGION_INFO = 1, 2, 3, 4, 5
IRQ_INFO, SET_IRQS, READ, WRITE, RESET, WRITE_MULTI = 7, 8, 9, 10, 13, 15
CONFIG, MSIX, LLQ = 7, 2, 2
COMMAND, DEVICE_CONTROL = 0x04, 0x68
MEMORY_BYTES, RANGE_BYTES = 1 << 30, 1 << 22  # of a guest, mapped in ranges
VECTORS = 9
WAIT_SECONDS = 20.0
CYCLE_SECONDS = 2e-5  # of a simulated device on a busy machine


class Refused(Exception):
    """The server refused a request; `number` is the errno."""

    def __init__(self, number):
        super().__init__(os.strerror(number))
        self.number = number


class Client:
    """A connection; every request waits for its reply unless it is posted."""

    def __init__(self, path, version=True):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(WAIT_SECONDS)
        self.socket.connect(os.fspath(path))
        self._message = 0
        if version:
            self.capabilities = self.negotiate()

    def negotiate(self, major=0, minor=0, capabilities=None):
        """Sends VERSION; returns the capabilities of the server."""
        wanted = {"max_msg_fds": 8, "write_multiple": True} | (capabilities or {})
        text = json.dumps({"capabilities": wanted}).encode() + b"\0"
        answer = self.request(VERSION, struct.pack("<HH", major, minor) + text)
        return json.loads(answer[4:].rstrip(b"\0"))["capabilities"]

    def raw(self, data, fds=()):
        """Sends bytes as they are."""
        attached = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([data], attached)

    def post(self, command, payload=b"", fds=(), flags=1 << 4):
        """Sends a request without a reply."""
        self._message = (self._message + 1) & 0xFFFF
        head = struct.pack("<HHIII", self._message, command, 16 + len(payload), flags, 0)
        self.raw(head + payload, fds)

    def request(self, command, payload=b"", fds=()):
        """Sends a request; returns the payload of the reply or raises Refused."""
        self.post(command, payload, fds, flags=0)
        message, answered, size, flags, error = struct.unpack("<HHIII", self._bytes(16))
        assert (message, answered) == (self._message, command)
        assert flags & 0xF == 1
        body = self._bytes(size - 16)
        if flags & 1 << 5:
            assert not body
            raise Refused(error)
        return body

    def _bytes(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the server closed the connection")
            data += part
        return data

    def closed(self):
        """Returns True if the server closes the connection; discards replies before."""
        try:
            while self.socket.recv(4096):
                continue
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        return True

    def read(self, region, offset, size):
        """Reads a region."""
        return self.request(READ, struct.pack("<QII", offset, region, size))[16:]

    def write(self, region, offset, data, posted=True):
        """Writes a region, by default without a reply, as QEMU does."""
        payload = struct.pack("<QII", offset, region, len(data)) + data
        return self.post(WRITE, payload) if posted else self.request(WRITE, payload)

    def mapped(self, region):
        """Returns a mapping of a region, None if the server offers none."""
        self.post(REGION_INFO, struct.pack("<IIIIQQ", 32, 0, region, 0, 0, 0), flags=0)
        data, fds, _, _ = socket.recv_fds(self.socket, 48, 1)  # in one piece, as QEMU expects
        _, flags, _, _, size, offset = struct.unpack("<IIIIQQ", data[16:])
        assert bool(flags & 4) == bool(fds)
        if not fds:
            return None
        try:
            return mmap.mmap(fds[0], size, offset=offset)
        finally:
            os.close(fds[0])

    def map(self, address, size, fd=None, offset=0, flags=3):
        """Maps memory for the device."""
        payload = struct.pack("<IIQQQ", 32, flags, offset, address, size)
        self.request(DMA_MAP, payload, () if fd is None else (fd,))

    def unmap(self, address, size):
        """Unmaps memory."""
        self.request(DMA_UNMAP, struct.pack("<IIQQ", 24, 0, address, size))

    def set_irqs(self, fds, start=0, flags=4 | 32, count=None):
        """Gives the server an eventfd for each vector from `start` on."""
        count = len(fds) if count is None else count
        self.request(SET_IRQS, struct.pack("<IIIII", 20, flags, MSIX, start, count), fds)

    def close(self):
        """Closes the connection."""
        self.socket.close()


def shared_memory(size=MEMORY_BYTES, sealed=True):
    """Returns a memfd; sealed against shrinking, as QEMU's memory backend is."""
    fd = os.memfd_create("guest", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    if sealed:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return fd


class GuestBackend(Backend):
    """A virtual machine with one function: what QEMU does for a guest, as a Backend."""

    name = "guest"

    def __init__(self, path, node_id=1, sealed=True):
        self.node_id, self.client = node_id, Client(path)
        self.llq = self.client.mapped(LLQ)
        self._fd = shared_memory(sealed=sealed)
        self._map = mmap.mmap(self._fd, MEMORY_BYTES)
        self.memory = BufferMemory(self._map)
        self.memory.read, self.memory.write = self.memory.peek, self.memory.poke
        for address in range(0, MEMORY_BYTES, RANGE_BYTES):
            self.client.map(address, RANGE_BYTES, self._fd, address)
        self.eventfds = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(VECTORS)]
        self.client.set_irqs(self.eventfds[:8])
        self.client.set_irqs(self.eventfds[8:], start=8)

    def stores(self, items):
        for bar, offset, data in items:
            if bar == LLQ and self.llq is not None:
                self.llq[offset : offset + len(data)] = data
            else:
                self.client.write(bar, offset, data)

    def load(self, bar, offset, size):
        return self.client.read(bar, offset, size)

    def wait(self, condition, timeout_cycles=0, word=None):
        self.settle()
        limit = min(WAIT_SECONDS, timeout_cycles * CYCLE_SECONDS or WAIT_SECONDS)
        until = time.monotonic() + limit
        while not condition():
            if time.monotonic() > until:
                raise DeviceTimeout("the condition is still false")
            time.sleep(0.001)

    def settle(self):
        # The reply comes after the effects of all posted stores.
        self.client.read(CONFIG, 0, 4)

    def interrupts(self):
        found = []
        for vector, fd in enumerate(self.eventfds):
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(fd)
                found.append(vector)
        return found

    def writes(self):
        return []

    def packets(self):
        return []

    def flr(self):
        self.client.write(CONFIG, DEVICE_CONTROL, (1 << 15).to_bytes(2, "little"), posted=False)

    def set_bus_master(self, on):
        self.client.write(CONFIG, COMMAND, (6 if on else 2).to_bytes(2, "little"), posted=False)

    def set_function_mask(self, on):
        raise NotImplementedError("QEMU owns the MSI-X capability")

    @property
    def cycles(self):
        return 0

    def close(self):
        self.client.close()
        for fd in self.eventfds:
            os.close(fd)
        os.close(self._fd)
