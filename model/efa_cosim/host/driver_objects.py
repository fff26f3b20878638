# SPDX-License-Identifier: Apache-2.0
"""Object commands of the driver: each builds one admin command and returns its result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from efa_cosim.host.page_list import ADDRESS_BYTES, PageList, mem_addr
from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from efa_cosim.boundary.memory import CpuMemory
    from efa_cosim.host.admin_queue import Request
    from efa_cosim.host.alloc import HostAllocator
    from efa_cosim.layouts.layout import Struct

_Layout = TypeVar("_Layout", bound="Struct")

Op = defs.AdminAqOpcode
INLINE_PAGES = defs.AdminRegMrCmdPbl.FIELDS["inline_pbl_array"].size // ADDRESS_BYTES
EQE_WORDS = defs.AdminEqe.SIZE // 4


@dataclass(frozen=True)
class Access:
    """Access rights of a memory region; local read is always permitted."""

    local_write: bool = True
    remote_write: bool = False
    remote_read: bool = False


LOCAL_ACCESS = Access()


class DriverObjects(ABC):
    """Object commands of the driver; each raises DriverError if the device refuses it.

    A mixin on top of `execute`; the driver owns queue and memory. The verbs call these commands.
    """

    memory: CpuMemory
    allocator: HostAllocator
    device_attr: defs.AdminFeatureDeviceAttrDesc
    queue_attr: defs.AdminFeatureQueueAttrDesc1
    dma_width: int
    list_bytes: int

    @abstractmethod
    def execute(self, request: Request) -> Struct:
        """Submits a command and waits for its response; raises DriverError if it is refused or
        lost."""

    def _executed(self, request: Request, response: type[_Layout]) -> _Layout:
        """Executes a command; returns its response, of the layout that belongs to the command."""
        result = self.execute(request)
        assert isinstance(result, response)
        return result

    def _feature(self, feature: int, descriptor: type[_Layout]) -> _Layout:
        """Returns the descriptor of a feature, of the layout that belongs to the feature."""
        result = self.get_feature(feature)
        assert isinstance(result, descriptor)
        return result

    def supports(self, feature: int) -> bool:
        """True if the device reports a feature id as supported."""
        return bool(self.device_attr.supported_features >> feature & 1)

    @property
    def long_ids(self) -> bool:
        """True if the device supports 64-bit request ids."""
        return bool(self.device_attr.sq_64_bit_req_id)

    def get_feature(self, feature: int) -> Struct:
        """Returns the descriptor of a feature (defs.AdminAqFeatureId)."""
        request = defs.AdminGetFeatureCmd(feature_common={"feature_id": feature})
        response = self._executed(request, defs.AdminGetFeatureResp)
        descriptor = defs.FEATURES[feature][0]
        assert descriptor is not None  # the device refuses features that can only be set
        return descriptor.unpack(bytes(response.u.image))

    def set_aenq_groups(self, groups: int) -> None:
        """Enables asynchronous event groups, a mask of bits (defs.AdminAenqGroup)."""
        self.execute(defs.AdminSetFeatureCmd(
            feature_common={"feature_id": defs.AdminAqFeatureId.AENQ_CONFIG},
            u=defs.AdminSetFeatureCmdU(aenq={"enabled_groups": groups})))

    def set_host_info(self, info: defs.AdminHostInfo) -> None:
        """Sends host information (defs.AdminHostInfo) to the device through a control buffer."""
        buffer = self.allocator.alloc(info.SIZE)
        self.memory.write(buffer, info.pack())
        try:
            self.execute(defs.AdminSetFeatureCmd(
                aq_common={"ctrl_data": 1},
                control_buffer={"length": info.SIZE, "address": mem_addr(buffer)},
                feature_common={"feature_id": defs.AdminAqFeatureId.HOST_INFO}))
        finally:
            self.allocator.free(buffer)

    def get_stats(self, kind: defs.AdminGetStatsType = defs.AdminGetStatsType.BASIC) -> Any:
        """Returns statistics of the whole device, of a kind (defs.AdminGetStatsType)."""
        response = self._executed(
            defs.AdminAqGetStatsCmd(type=kind, scope=defs.AdminGetStatsScope.ALL),
            defs.AdminAcqGetStatsResp)
        return getattr(response.u, f"{kind.name.lower()}_stats")

    def alloc_uar(self) -> int:
        """Allocates a UAR; returns its number."""
        return self._executed(defs.AdminAllocUarCmd(), defs.AdminAllocUarResp).uar

    def dealloc_uar(self, uar: int) -> None:
        """Deallocates a UAR."""
        self.execute(defs.AdminDeallocUarCmd(uar=uar))

    def alloc_pd(self) -> int:
        """Allocates a protection domain; returns its number."""
        return self._executed(defs.AdminAllocPdCmd(), defs.AdminAllocPdResp).pd

    def dealloc_pd(self, pd: int) -> None:
        """Deallocates a protection domain."""
        self.execute(defs.AdminDeallocPdCmd(pd=pd))

    def create_eq(self, depth: int, vector: int, base: int) -> int:
        """Creates an event queue of `depth` entries at the DMA address `base`; returns its number.
        The caller arms the queue."""
        request = defs.AdminCreateEqCmd(
            depth=depth, msix_vec=vector, entry_size_words=EQE_WORDS,
            ba=mem_addr(base), completion_events=1)
        return self._executed(request, defs.AdminCreateEqResp).eqn

    def destroy_eq(self, number: int) -> None:
        """Destroys an event queue."""
        self.execute(defs.AdminDestroyEqCmd(eqn=number))

    def create_cq(
        self,
        uar: int,
        depth: int,
        base: int,
        entry_bytes: int,
        eqn: int | None = None,
        set_src_addr: bool = False,
        long_ids: bool = False,
    ) -> defs.AdminCreateCqResp:
        """Creates a CQ of `depth` entries at the DMA address `base`; returns the response. `eqn`
        selects the event queue for completion events."""
        request = defs.AdminCreateCqCmd(
            interrupt_mode_enabled=eqn is not None, eqn=eqn or 0,
            cq_entry_size_words=entry_bytes // 4, set_src_addr=set_src_addr,
            sub_cq_depth=depth, cq_ba=mem_addr(base), uar=uar, sq_comp_64_bit_req_id=long_ids,
            num_sub_cqs=self.queue_attr.sub_cqs_per_cq)
        return self._executed(request, defs.AdminCreateCqResp)

    def destroy_cq(self, number: int) -> None:
        """Destroys a completion queue."""
        self.execute(defs.AdminDestroyCqCmd(cq_idx=number))

    def create_qp(self, **fields: Any) -> defs.AdminCreateQpResp:
        """Creates a QP; fields are those of defs.AdminCreateQpCmd. Returns the response."""
        return self._executed(defs.AdminCreateQpCmd(**fields), defs.AdminCreateQpResp)

    def modify_qp(self, handle: int, **attributes: int) -> None:
        """Changes the named attributes: qp_state, cur_qp_state, qkey, sq_psn, rnr_retry."""
        request = defs.AdminModifyQpCmd(qp_handle=handle)
        for name, value in attributes.items():
            setattr(request, name, value)
            setattr(request, f"modify_mask__{name}", 1)
        self.execute(request)

    def query_qp(self, handle: int) -> defs.AdminQueryQpResp:
        """Returns the response of QUERY_QP: state, Q_Key, sequence number and others."""
        return self._executed(defs.AdminQueryQpCmd(qp_handle=handle), defs.AdminQueryQpResp)

    def destroy_qp(self, handle: int) -> None:
        """Destroys a queue pair."""
        self.execute(defs.AdminDestroyQpCmd(qp_handle=handle))

    def create_ah(self, pd: int, gid: bytes) -> int:
        """Creates an address handle for a GID of 16 bytes; returns its number."""
        request = defs.AdminCreateAhCmd(dest_addr=gid, pd=pd)
        return self._executed(request, defs.AdminCreateAhResp).ah

    def destroy_ah(self, pd: int, ah: int) -> None:
        """Destroys an address handle."""
        self.execute(defs.AdminDestroyAhCmd(ah=ah, pd=pd))

    def reg_mr(
        self,
        pd: int,
        iova: int,
        length: int,
        pages: Sequence[int],
        page_shift: int,
        access: Access = LOCAL_ACCESS,
    ) -> defs.AdminRegMrResp:
        """Registers pages (DMA addresses) of 2^page_shift bytes; returns the response with both
        keys. The page list is inline up to four pages, else in memory."""
        request = defs.AdminRegMrCmd(
            pd=pd, iova=iova, mr_length=length, phys_page_size_shift=page_shift,
            local_write_enable=access.local_write, remote_write_enable=access.remote_write,
            remote_read_enable=access.remote_read)
        if len(pages) <= INLINE_PAGES:
            request.pbl.inline_pbl_array = pages
            return self._executed(request, defs.AdminRegMrResp)
        page_list = PageList(self.memory, self.allocator, pages, self.list_bytes)
        request.aq_common.ctrl_data = 1
        request.aq_common.ctrl_data_indirect = page_list.indirect
        request.pbl.pbl = page_list.start
        try:
            return self._executed(request, defs.AdminRegMrResp)
        finally:
            page_list.free()

    def reg_mr_physical(self, pd: int, access: Access = LOCAL_ACCESS) -> defs.AdminRegMrResp:
        """Registers all host memory, with the DMA address as IOVA; returns the response."""
        request = defs.AdminRegMrCmd(
            pd=pd, mr_length=1 << self.dma_width, mem_addr_phy_mode_en=1,
            local_write_enable=access.local_write)
        return self._executed(request, defs.AdminRegMrResp)

    def alloc_mr(self, pd: int, max_pages: int) -> defs.AdminAllocMrResp:
        """Creates a region to be registered later by a work request; returns the response."""
        request = defs.AdminAllocMrCmd(pd=pd, max_pages=max_pages)
        return self._executed(request, defs.AdminAllocMrResp)

    def dereg_mr(self, l_key: int) -> None:
        """Deregisters a memory region."""
        self.execute(defs.AdminDeregMrCmd(l_key=l_key))

    def create_event_counter(self, uar: int, address: int) -> int:
        """Creates an event counter in the eight bytes at a DMA address; returns its handle."""
        request = defs.AdminCreateEventCounterCmd(uar=uar, paddr=address)
        return self._executed(request, defs.AdminCreateEventCounterResp).cntr_handle

    def destroy_event_counter(self, handle: int) -> None:
        """Destroys an event counter that is not attached."""
        self.execute(defs.AdminDestroyEventCounterCmd(cntr_handle=handle))

    def attach_event_counter(self, handle: int, qp_handle: int, events: int) -> None:
        """Attaches a counter to events of a QP; events is a bit mask."""
        self.execute(_attachment(Op.ATTACH_EVENT_COUNTER, handle, qp_handle, events))

    def detach_event_counter(self, handle: int, qp_handle: int, events: int) -> None:
        """Detaches a counter from events of a QP; events is a bit mask."""
        self.execute(_attachment(Op.DETACH_EVENT_COUNTER, handle, qp_handle, events))

    def modify_event_counter(self, handle: int, operation: int, value: int) -> None:
        """Sets a counter or adds to it, according to the operation."""
        self.execute(defs.AdminModifyEventCounterCmd(
            cntr_handle=handle, operation=operation, value=value))


def _attachment(
    opcode: Op, handle: int, qp_handle: int, events: int
) -> defs.AdminAttachDetachEventCounterCmd:
    request = defs.AdminAttachDetachEventCounterCmd(
        cntr_handle=handle,
        attach_type=defs.AdminEventCounterAttachType.QP_EVENTS)
    request.aq_common.opcode = opcode
    request.u.qp_events = {"qp_handle": qp_handle, "events": events}
    return request
