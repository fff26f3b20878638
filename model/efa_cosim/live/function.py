# SPDX-License-Identifier: Apache-2.0
"""One PCI function of the server: executes the requests of its client on a device."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable

from efa_cosim.backends.model import ModelBackend
from efa_cosim.fabric.fabric import Fabric
from efa_cosim.fabric.network import Network
from efa_cosim.layouts import defs
from efa_cosim.live import protocol
from efa_cosim.live.channel import Message, close_fds
from efa_cosim.live.config_space import CONFIG_BYTES, ConfigSpace, bar_bytes
from efa_cosim.live.guest_memory import GuestMemory, MapError, MapExists
from efa_cosim.live.llq_map import LlqMap
from efa_cosim.live.protocol import (
    Access,
    Command,
    DmaFlags,
    IrqFlags,
    ProtocolError,
    Region,
    RegionFlags,
    RequestRefused,
)
from efa_cosim.live.recorder import Recorder
from efa_cosim.session.writer import NodePart

LINE_BYTES = 64
DOORBELL_BYTES = 4
# Cycles of a network after each request, and in each millisecond in which packets are in flight. A
# timeout of the transport takes some milliseconds, in which the client goes on.
STEP_CYCLES = 4_000
SIGNAL = (1).to_bytes(8, "little")  # adds 1 to an eventfd


class Function:
    """A device of the reference model as a PCI function.

    - `node_id`, `profile`: as for `open_backend`
    - `fabric`: connects the functions of a server
    - `map_llq`: the client can map the LLQ memory
    - `part`: the part of the device in the recorded sessions; None: no recording
    - `deliver`: called to complete the effects of a recorded store on all functions

    Attributes: `reply_fd`, the file descriptor that the last reply carries, or None;
    `lost_interrupts`, messages for a vector without an eventfd, and
    `refused_stores`, stores without a reply outside their region; both since the last `leave`.
    """

    def __init__(
        self, node_id: int, profile: str, fabric: Fabric | Network, map_llq: bool = False,
        part: NodePart | None = None, deliver: Callable[[], object] = lambda: None,
    ) -> None:
        self.memory = GuestMemory()
        self._backend = ModelBackend(node_id, profile, self.memory, fabric)
        device = self._backend.device
        self._recorder = None if part is None else Recorder(part, device, self.memory)
        self._deliver = deliver
        self._llq = LlqMap(device) if map_llq else None
        self.reply_fd: int | None = None
        self._config = ConfigSpace(device.profile, device.limits)
        self._bars = bar_bytes(device.limits)
        self._db_bar = device.limits.db_bar
        self._vectors: list[int | None] = [None] * device.limits.msix_vectors
        self._handlers: dict[int, Callable[[Message], bytes]] = {
            Command.DMA_MAP: self._map,
            Command.DMA_UNMAP: self._unmap,
            Command.GET_INFO: lambda _: protocol.device_info(),
            Command.GET_REGION_INFO: self._region_info,
            Command.GET_IRQ_INFO: self._irq_info,
            Command.SET_IRQS: self._set_irqs,
            Command.REGION_READ: self._read,
            Command.REGION_WRITE: self._write,
            Command.REGION_WRITE_MULTI: self._write_multi,
            Command.DEVICE_RESET: self._device_reset,
        }
        self.leave()

    def leave(self) -> None:
        """The client has gone: ends the recording, unmaps its memory, forgets its interrupts,
        resets the function."""
        if self._recorder is not None:
            self._recorder.end()
        if self._llq is not None:
            # The client may still have mapped the old memory.
            self._llq.close()
            self._llq = LlqMap(self._backend.device)
        self._version_known = False
        self.memory.clear()
        self._forget(range(len(self._vectors)))
        self._reset()
        self.lost_interrupts = self.refused_stores = 0

    def answer(self, message: Message) -> bytes | None:
        """Executes a request and closes its file descriptors; returns the reply, None for none.

        Raises ProtocolError if the connection must end.
        """
        self.reply_fd = None
        silent = bool(message.header.flags & protocol.Flags.NO_REPLY)
        try:
            payload = self._execute(message)
        except RequestRefused as refusal:
            return None if silent else protocol.reply(message.header, error=refusal.number)
        finally:
            close_fds(message.fds)
        return None if silent else protocol.reply(message.header, payload)

    def keep_alive(self) -> None:
        """The keep-alive period has expired."""
        if self._recorder is None:
            self._backend.device.keep_alive()
            return
        with self._recorder.paused():
            self._backend.device.keep_alive()
            self.settle()
            self.signal()

    def settle(self) -> None:
        """Delivers the packets of the fabric and the interrupts that this function holds back."""
        self._backend.advance(STEP_CYCLES)

    def signal(self) -> None:
        """Passes interrupts of the device to the client, after the data that they announce."""
        for vector in self._backend.interrupts():
            fd = self._vectors[vector]
            if fd is None:
                self.lost_interrupts += 1
            else:
                # An eventfd that cannot be written is the client's; EAGAIN: it is signalled
                # already.
                with contextlib.suppress(OSError):
                    os.write(fd, SIGNAL)
            if self._recorder is not None:
                self._recorder.interrupt(vector)

    def _execute(self, message: Message) -> bytes:
        command = message.header.command
        if command == Command.VERSION:
            if self._version_known:
                raise ProtocolError("a second VERSION")
            self._version_known = True
            return protocol.version(message.payload)
        if not self._version_known:
            raise ProtocolError(f"command {command} before VERSION")
        handler = self._handlers.get(command)
        if handler is None:
            raise RequestRefused(errno.ENOTSUP, f"command {command}")
        return handler(message)

    # Memory of the client.

    def _map(self, message: Message) -> bytes:
        wanted = protocol.dma_map(message.payload)
        fds = message.fds
        if len(fds) > 1:
            raise ProtocolError(f"DMA_MAP with {len(fds)} file descriptors; expected at most 1")
        try:
            self.memory.map(wanted.address, wanted.size, fds[0] if fds else None, wanted.offset,
                            readable=bool(wanted.flags & DmaFlags.READ),
                            writable=bool(wanted.flags & DmaFlags.WRITE))
        except MapExists as error:
            raise RequestRefused(errno.EEXIST, str(error)) from None
        except MapError as error:
            raise ProtocolError(str(error)) from None
        return b""

    def _unmap(self, message: Message) -> bytes:
        try:
            self.memory.unmap(*protocol.dma_unmap(message.payload))
        except MapError as error:
            raise ProtocolError(str(error)) from None
        return message.payload

    # Regions.

    def _size(self, region: int) -> int:
        return CONFIG_BYTES if region == Region.CONFIG else self._bars.get(region, 0)

    def _region_info(self, message: Message) -> bytes:
        index = protocol.region_index(message.payload)
        size = self._size(index)
        flags = RegionFlags.READ | RegionFlags.WRITE if size else 0
        if self._llq is not None and index == defs.EFA_MEM_BAR:
            flags |= RegionFlags.MMAP
            self.reply_fd = self._llq.fd
        return protocol.region_info(index, flags, size)

    def _check(self, access: Access) -> None:
        size = self._size(access.region)
        if not access.size or access.offset + access.size > size:
            raise RequestRefused(errno.EINVAL, f"{access.size} bytes at {access.offset:#x} of "
                                 f"region {access.region}, which has {size:#x} bytes")

    def _read(self, message: Message) -> bytes:
        access = protocol.region_read(message.payload)
        self._check(access)
        if access.region == Region.CONFIG:
            data = self._config.read(access.offset, access.size)
        else:
            data = self._backend.load(access.region, access.offset, access.size)
        return protocol.access_reply(access, data)

    def _write(self, message: Message) -> bytes:
        access = protocol.region_write(message.payload)
        self._store(access)
        return protocol.access_reply(access)

    def _write_multi(self, message: Message) -> bytes:
        writes = protocol.region_writes(message.payload)
        for access in writes:
            self._store(access)
        return protocol.write_count(len(writes))

    def _store(self, access: Access) -> None:
        try:
            self._check(access)
        except RequestRefused:
            self.refused_stores += 1
            raise
        if access.region != Region.CONFIG:
            for line in _lines(access):
                self._store_line(line)
            return
        if self._config.write(access.offset, access.data):
            self._reset()
        self._backend.set_bus_master(self._config.bus_master)

    def _store_line(self, line: tuple[int, int, bytes]) -> None:
        """Executes a store; before a doorbell the stores to mapped LLQ memory that it posts."""
        bar, offset, data = line
        stores = [line]
        if self._llq is not None and (bar, len(data)) == (self._db_bar, DOORBELL_BYTES):
            stores = [*self._llq.posted(offset, int.from_bytes(data, "little")), line]
        if self._recorder is None:
            self._backend.stores(stores)
            return
        # The effects of each store follow it.
        for store in stores:
            self._recorder.before(*store)
            self._backend.stores([store])
            self._recorder.after()
            self._deliver()
            self._recorder.settled()

    # Interrupts and resets.

    def _irq_info(self, message: Message) -> bytes:
        index = protocol.irq_index(message.payload)
        return protocol.irq_info(index, len(self._vectors) if index == protocol.MSIX_IRQ else 0)

    def _set_irqs(self, message: Message) -> bytes:
        wanted, fds = protocol.irq_set(message.payload), message.fds
        count = len(self._vectors) if wanted.kind == protocol.MSIX_IRQ else 0
        if wanted.kind >= protocol.IRQS or wanted.start + wanted.number > count:
            raise RequestRefused(errno.EINVAL, f"interrupts {wanted.start} to "
                                 f"{wanted.start + wanted.number} of kind {wanted.kind}")
        vectors = range(wanted.start, wanted.start + wanted.number)
        if wanted.flags == IrqFlags.DATA_NONE | IrqFlags.ACTION_TRIGGER and not wanted.number:
            self._forget(range(count))
        elif wanted.flags == IrqFlags.DATA_EVENTFD | IrqFlags.ACTION_TRIGGER:
            if fds and len(fds) != wanted.number:
                raise ProtocolError(f"SET_IRQS of {wanted.number} interrupts with {len(fds)} file "
                                    "descriptors")
            self._forget(vectors)
            for vector, fd in zip(vectors, fds, strict=False):
                os.set_blocking(fd, False)
                self._vectors[vector] = os.dup(fd)
        elif wanted.flags & IrqFlags.ACTION_TRIGGER:
            self._trigger(vectors, wanted)
        else:
            raise RequestRefused(errno.ENOTSUP, f"SET_IRQS with flags {wanted.flags:#x}")
        return b""

    def _trigger(self, vectors: range, wanted: protocol.IrqSet) -> None:
        """The client tests its interrupts."""
        chosen = wanted.data if wanted.flags & IrqFlags.DATA_BOOL else b"\1" * wanted.number
        for vector, on in zip(vectors, chosen, strict=False):
            fd = self._vectors[vector]
            if on and fd is not None:
                with contextlib.suppress(OSError):
                    os.write(fd, SIGNAL)

    def _forget(self, vectors: range) -> None:
        for vector in vectors:
            fd, self._vectors[vector] = self._vectors[vector], None
            if fd is not None:
                close_fds([fd])

    def _device_reset(self, _message: Message) -> bytes:
        self._reset()
        return b""

    def _reset(self) -> None:
        """Function-level reset; memory and eventfds of the client stay."""
        self._config.reset()
        self._backend.flr()
        self._backend.interrupts()
        if self._recorder is not None:
            self._recorder.reset()
        self._backend.set_bus_master(self._config.bus_master)


def _lines(access: Access) -> list[tuple[int, int, bytes]]:
    """Splits a store at 64-byte lines, as a CPU does."""
    stores, at = [], 0
    while at < access.size:
        offset = access.offset + at
        size = min(LINE_BYTES - offset % LINE_BYTES, access.size - at)
        stores.append((access.region, offset, access.data[at : at + size]))
        at += size
    return stores
