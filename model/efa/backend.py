# SPDX-License-Identifier: Apache-2.0
"""Defines the interface of host software to one device and the memory shared with it.

All backends offer the same synchronous calls; driver, verbs and player use no other access to the
device. Software calls `wait` to wait, never a loop of its own.
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
    """The condition that the host waited for did not become true in time."""


class BackendUnavailable(Exception):
    """The backend cannot run here; the text names what is missing."""


class Backend(ABC):
    """One device and its host memory.

    `memory` offers read(address, size), write(address, data) and view(address, size).
    """

    name = "backend"
    memory = None
    node_id = 0
    # How the CPUs of this host combine stores (efa.wc.StoreBuffer or its text).
    store_buffer = "ideal"
    # The device fetches send WQEs from host memory (build option SQ_HOST); not discoverable.
    sq_host = False

    @abstractmethod
    def stores(self, items):
        """Executes posted host stores (bar, offset, bytes) in order, each in one 64-byte line."""

    @abstractmethod
    def load(self, bar, offset, size):
        """Reads bytes of a BAR."""

    @abstractmethod
    def wait(self, condition, timeout_cycles=DEFAULT_TIMEOUT_CYCLES, word=None):
        """Runs the device until condition() is true; raises DeviceTimeout.

        word() may name a host memory word (address, mask, value) that must match before
        condition() can be true; a backend that watches the word calls condition() less often.
        """

    @abstractmethod
    def settle(self):
        """Runs device and fabric until nothing is outstanding."""

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
        """Function-level reset; the PCI core then initializes the MSI-X table again."""

    @abstractmethod
    def set_bus_master(self, on):
        """Bus-master enable of the PCI command register."""

    @abstractmethod
    def set_function_mask(self, on):
        """Function mask of the MSI-X capability; the device must be idle."""

    @property
    @abstractmethod
    def cycles(self):
        """Device cycles so far; 0 for a backend without time."""

    def store(self, bar, offset, data):
        """Executes one posted host store of 1 to 64 bytes."""
        self.stores([(bar, offset, data)])

    def close(self):  # noqa: B027 - most backends hold nothing
        """Releases the resources of the backend: a simulator, shared memory."""

    def abort(self):
        """Releases the resources at once, without a check for errors."""
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
            # The first error is reported; a simulator failure during the cleanup adds nothing.
            return


def msix_table_stores(vectors=None):
    """Stores of the PCI core software that initialize the MSI-X table, all vectors unmasked."""
    stores = []
    for vector in range(defs.LIMITS.msix_vectors if vectors is None else vectors):
        address = MSIX_ADDRESS + vector * MSIX_ADDRESS_STEP
        entry = address.to_bytes(8, "little") + vector.to_bytes(4, "little") + bytes(4)
        offset = defs.LIMITS.msix_table_offset + vector * MSIX_ENTRY_BYTES
        stores += [(defs.EFA_REG_BAR, offset + at, entry[at : at + 4]) for at in range(0, 16, 4)]
    return stores


class HostView:
    """Host memory for its owner: injected read failures affect the device only."""

    def __init__(self, memory):
        self.read, self.write = memory.peek, memory.poke


class ModelBackend(Backend):
    """The reference model: without time; its fabric moves only during a wait."""

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
        raise DeviceTimeout("the device is idle, and the awaited condition is still false")

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
    consumed = list(items)
    items.clear()
    return consumed


def open_model(nodes=1, **options):
    """Model backends; several nodes are a list that shares one fabric."""
    if nodes == 1:
        return ModelBackend(**options)
    fabric = Fabric()
    return [ModelBackend(node_id=1 + n, fabric=fabric, **options) for n in range(nodes)]


_FACTORIES = {"model": open_model}
_SIMULATORS = {"verilator": "tb.lib.host", "icarus": "tb.lib.host"}
BACKENDS = (*_FACTORIES, *_SIMULATORS)


def open_backend(name, **options):
    """A backend by name; raises BackendUnavailable with the reason if it cannot run."""
    if name in _FACTORIES:
        return _FACTORIES[name](**options)
    if name not in _SIMULATORS:
        raise BackendUnavailable(f"no backend {name!r}: expected one of {', '.join(BACKENDS)}")
    try:
        opener = import_module(_SIMULATORS[name]).open_simulator
    except (ImportError, AttributeError) as error:
        raise BackendUnavailable(f"backend {name} cannot be opened here: {error}") from error
    return opener(name, **options)


def register_backend(name, factory):
    """Registers a backend under a name; factory takes the options of open_backend."""
    _FACTORIES[name] = factory
