# SPDX-License-Identifier: Apache-2.0
"""What the host's software talks to: one device and the memory it shares with it.

Every backend offers the same synchronous calls; driver, verbs and player know nothing else of
the device. Waiting is the backend's business: software never spins without calling `wait`.
"""

from abc import ABC, abstractmethod
from importlib import import_module

from efa import defs
from efa.device import Device
from efa.fabric import Fabric
from efa.memory import Memory

MSIX_ADDRESS = 0xFEE0_0000
MSIX_ADDRESS_STEP = 16
MSIX_ENTRY_BYTES = 16
DEFAULT_TIMEOUT_CYCLES = 1_000_000


class DeviceTimeout(Exception):
    """The device did not do in time what the host waited for."""


class BackendUnavailable(Exception):
    """This backend cannot run here; the text says what it needs."""


class Backend(ABC):
    """One device and its host memory.

    `memory` offers read(address, size), write(address, data) and view(address, size).
    """

    name = "backend"
    memory = None
    node_id = 0
    # How this host's CPUs combine stores (efa.wc.StoreBuffer or its text).
    store_buffer = "ideal"
    # The device takes its send entries from host memory (build option SQ_HOST): it does not say so.
    sq_host = False

    @abstractmethod
    def stores(self, items):
        """Posted host stores (bar, offset, bytes) in order, each inside one 64-byte line."""

    @abstractmethod
    def load(self, bar, offset, size):
        """The bytes of a host read of a BAR."""

    @abstractmethod
    def wait(self, condition, timeout_cycles=DEFAULT_TIMEOUT_CYCLES, word=None):
        """Lets the device work until condition() is true; raises DeviceTimeout.

        word() may name a word of host memory, (address, mask, value), without which condition()
        cannot be true: a backend that can watch it saves its looks until then.
        """

    @abstractmethod
    def settle(self):
        """Lets device and fabric work until nothing is outstanding."""

    @abstractmethod
    def interrupts(self):
        """The MSI-X vectors that arrived since the last call, in order."""

    @abstractmethod
    def writes(self):
        """The DMA writes (address, bytes) since the last call, interrupts aside, in order."""

    @abstractmethod
    def packets(self):
        """The packets that left the device since the last call."""

    @abstractmethod
    def flr(self):
        """Function-level reset; the PCI core sets the MSI-X table up again."""

    @abstractmethod
    def set_bus_master(self, on):
        """Bus-master enable of the PCI command register."""

    @abstractmethod
    def set_function_mask(self, on):
        """Function mask of the MSI-X capability; the device is at rest."""

    @property
    @abstractmethod
    def cycles(self):
        """Device cycles so far; 0 where there is no time."""

    def store(self, bar, offset, data):
        """One posted host store of 1 to 64 bytes."""
        self.stores([(bar, offset, data)])

    def close(self):  # noqa: B027 - most backends hold nothing
        """Gives back what the backend holds: a simulator, shared memory."""

    def abort(self):
        """Gives it back at once, whatever is under way, without asking whether all was well."""
        self.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_exc):
        if kind is None:
            self.close()
            return
        try:
            self.abort()
        except (OSError, RuntimeError):
            # What ended the work is told; that the simulator went down with it is no news.
            return


def msix_table_stores(vectors=None):
    """The stores by which PCI core software sets the MSI-X table up, every vector unmasked."""
    stores = []
    for vector in range(defs.LIMITS.msix_vectors if vectors is None else vectors):
        address = MSIX_ADDRESS + vector * MSIX_ADDRESS_STEP
        entry = address.to_bytes(8, "little") + vector.to_bytes(4, "little") + bytes(4)
        offset = defs.LIMITS.msix_table_offset + vector * MSIX_ENTRY_BYTES
        stores += [(defs.EFA_REG_BAR, offset + at, entry[at : at + 4]) for at in range(0, 16, 4)]
    return stores


class HostView:
    """Host memory as its owner sees it: what a test makes fail fails for the device alone."""

    def __init__(self, memory):
        self.read, self.write = memory.peek, memory.poke


class ModelBackend(Backend):
    """The reference model: knows no time, and a fabric that moves only while somebody waits."""

    name = "model"
    max_rounds = 100_000

    def __init__(self, node_id=1, profile="default", memory=None, fabric=None, record=False,
                 limits=None, **straps):
        self.node_id, self.record = node_id, record
        self.device_memory = Memory() if memory is None else memory
        self.memory = HostView(self.device_memory)
        self._interrupts, self._writes, self._packets = [], [], []
        self._activity = 0
        self.device = Device(self.device_memory, node_id=node_id, profile=profile, limits=limits,
                             **straps)
        self.sq_host = bool(self.device.limits.sq_host)
        self.device.on_interrupt = self._on_interrupt
        self.device.on_dma_write = self._on_write
        self.fabric = Fabric() if fabric is None else fabric
        self.fabric.attach(self.device)
        self._deliver, self.device.on_packet = self.device.on_packet, self._on_packet
        self._set_up_msix()

    def _set_up_msix(self):
        self.device.set_msix(True, False)
        self.stores(msix_table_stores())

    def _on_interrupt(self, vector, _address, _data):
        self._activity += 1
        self._interrupts.append(vector)

    def _on_write(self, address, data):
        self._activity += 1
        if self.record:
            self._writes.append((address, bytes(data)))

    def _on_packet(self, packet):
        if self.record:
            self._packets.append(bytes(packet))
        self._deliver(packet)

    def stores(self, items):
        self._activity += 1
        for bar, offset, data in items:
            self.device.store(bar, offset, data)

    def load(self, bar, offset, size):
        return self.device.load(bar, offset, size)

    def wait(self, condition, timeout_cycles=DEFAULT_TIMEOUT_CYCLES, word=None):
        for _ in range(min(timeout_cycles, self.max_rounds)):
            before = self._activity
            if condition():
                return
            moved = self.fabric.run() or self.device.let_time_pass()
            if not moved and self._activity == before:
                break
        raise DeviceTimeout("the device is idle, and what was waited for has not happened")

    def settle(self):
        while self.fabric.run() or self.device.let_time_pass():
            pass

    def interrupts(self):
        return _drain(self._interrupts)

    def writes(self):
        return _drain(self._writes)

    def packets(self):
        return _drain(self._packets)

    def flr(self):
        self.device.flr()
        self._set_up_msix()

    def set_bus_master(self, on):
        self.device.set_bus_master(on)

    def set_function_mask(self, on):
        self.device.set_msix(True, on)

    @property
    def cycles(self):
        return 0


def _drain(items):
    taken = list(items)
    items.clear()
    return taken


def open_model(nodes=1, **options):
    """Model backends; with several nodes a list that shares one fabric."""
    if nodes == 1:
        return ModelBackend(**options)
    fabric = Fabric()
    return [ModelBackend(node_id=1 + n, fabric=fabric, **options) for n in range(nodes)]


_FACTORIES = {"model": open_model}
_SIMULATORS = {"verilator": "tb.lib.host", "icarus": "tb.lib.host"}
BACKENDS = (*_FACTORIES, *_SIMULATORS)


def open_backend(name, **options):
    """A backend by name; raises BackendUnavailable with the reason where it cannot run."""
    if name in _FACTORIES:
        return _FACTORIES[name](**options)
    if name not in _SIMULATORS:
        raise BackendUnavailable(f"no backend {name!r}: one of {', '.join(BACKENDS)}")
    try:
        opener = import_module(_SIMULATORS[name]).open_simulator
    except (ImportError, AttributeError) as error:
        raise BackendUnavailable(f"backend {name} cannot be opened here: {error}") from error
    return opener(name, **options)


def register_backend(name, factory):
    """Makes a backend available under a name; factory takes the options of open_backend."""
    _FACTORIES[name] = factory
