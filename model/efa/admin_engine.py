"""The admin rings: commands in, responses and their interrupts out."""

from efa import defs
from efa.admin import COMMANDS, Refusal
from efa.codec import crc16
from efa.memory import HostReadError
from efa.ring import EntryRing, WorkRing, is_power_of_two

ENTRY_BYTES = defs.AdminAqEntry.SIZE
ODD_DOORBELL, ODD_EVENTS, ODD_PHASE = 1, 2, 3

_Status = defs.AdminAqCompletionStatus


class AdminQueues:
    """AQ, ACQ and AENQ of a device, as they are after a reset."""

    def __init__(self, device):
        self.device = device
        self.aq = self.acq = self.aenq = None
        self.aq_base = self.acq_base = self.aenq_base = 0
        self.acq_vector = self.aenq_vector = 0
        self.masked = self.held_message = False
        self.aenq_enabled_groups = 0

    def _legal_ring(self, depth, entry_bytes):
        return entry_bytes == ENTRY_BYTES and is_power_of_two(
            depth, self.device.limits.max_aq_depth
        )

    def _base(self, low, high):
        """Rings start at an entry's own alignment, whatever the low bits say."""
        return self.device.register_pair(low, high) & -ENTRY_BYTES

    def configure_aq(self, value):
        """AQ_CAPS: enables the ring at its base, or disables it."""
        caps = defs.REG_BITS.AQ_CAPS.unpack(value)
        good = self._legal_ring(caps.AQ_DEPTH, caps.AQ_ENTRY_SIZE)
        self.aq = WorkRing(caps.AQ_DEPTH) if good else None
        self.aq_base = self._base(defs.Reg.AQ_BASE_LO, defs.Reg.AQ_BASE_HI)

    def configure_acq(self, value):
        """ACQ_CAPS: likewise; commands that waited for it are taken."""
        caps = defs.REG_BITS.ACQ_CAPS.unpack(value)
        good = self._legal_ring(caps.ACQ_DEPTH, caps.ACQ_ENTRY_SIZE)
        self.acq = EntryRing(caps.ACQ_DEPTH) if good else None
        self.acq_base = self._base(defs.Reg.ACQ_BASE_LO, defs.Reg.ACQ_BASE_HI)
        self.acq_vector = caps.ACQ_MSIX_VECTOR
        self.device.when_master(self._serve)

    def configure_aenq(self, value):
        """AENQ_CAPS: likewise; no event is produced yet."""
        caps = defs.REG_BITS.AENQ_CAPS.unpack(value)
        good = self._legal_ring(caps.AENQ_DEPTH, caps.AENQ_ENTRY_SIZE)
        self.aenq = EntryRing(caps.AENQ_DEPTH) if good else None
        self.aenq_base = self.device.register_pair(defs.Reg.AENQ_BASE_LO, defs.Reg.AENQ_BASE_HI)
        self.aenq_vector = caps.AENQ_MSIX_VECTOR

    def consume_events(self, value):
        """AENQ_CONS_DB: a count of events that were never produced is reported."""
        if value != (self.aenq.written if self.aenq else 0):
            self.device.event("odd_admin", what=ODD_EVENTS, detail=value)

    def ring(self, value):
        """AQ_PROD_DB."""
        if self.aq is None or not self.aq.ring(value):
            self.device.event("odd_admin", what=ODD_DOORBELL, detail=value)
        else:
            self.device.when_master(self._serve)

    def mask(self, value):
        """INTR_MASK: a message that was held leaves when it becomes 0."""
        self.masked = bool(defs.REG_BITS.INTR_MASK.unpack(value).EN)
        if self.held_message and not self.masked:
            self.held_message = False
            self.device.interrupts.raise_vector(self.acq_vector)

    def _serve(self):
        while self.aq is not None and self.acq is not None and self.aq.waiting:
            # A pass over the ring of 2^n entries toggles the phase; the doorbell alone is trusted.
            phase = self.aq.taken // self.aq.depth & 1 ^ 1
            slot = self.aq.take()
            self.aq.complete()
            try:
                entry = self.device.memory.read(self.aq_base + slot * ENTRY_BYTES, ENTRY_BYTES)
            except HostReadError:
                self._respond(0, _Status.UNKNOWN_ERROR, None)
                continue
            self._execute(entry, phase)

    def _execute(self, entry, phase):
        device = self.device
        common = defs.AdminAqCommonDesc.unpack(entry)
        command_id = common.command_id__command_id
        device.event("aqcmd", cmd_id=command_id, opcode=int(common.opcode))
        if common.phase != phase:
            device.event("odd_admin", what=ODD_PHASE, detail=command_id)
        status, response = _Status.SUCCESS, None
        try:
            function = COMMANDS.get(common.opcode)
            if function is None:
                raise Refusal(_Status.UNSUPPORTED_OPCODE)
            response = function(device, defs.COMMANDS[common.opcode][0].unpack(entry))
        except Refusal as refusal:
            status = refusal.status
        except HostReadError:
            status = _Status.UNKNOWN_ERROR
        self._respond(command_id, status, response)

    def _respond(self, command_id, status, response):
        slot, phase = self.acq.reserve()
        image = bytearray(response.pack(ENTRY_BYTES) if response else ENTRY_BYTES)
        header = defs.AdminAcqCommonDesc.over(image)
        header.command_id, header.status, header.phase = command_id, status, phase
        header.checksum = crc16(image)
        device = self.device
        device.event("acq", cmd_id=command_id, status=int(status))
        device.dma_write(self.acq_base + slot * ENTRY_BYTES, bytes(image))
        if self.masked:
            self.held_message = True
        else:
            device.interrupts.raise_vector(self.acq_vector)
