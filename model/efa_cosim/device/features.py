# SPDX-License-Identifier: Apache-2.0
"""Builds the device's feature attributes and statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from efa_cosim.device.admin_rules import capable
from efa_cosim.layouts import defs
from efa_cosim.layouts.layout import Struct

if TYPE_CHECKING:
    from efa_cosim.device.device import Device

_Feature = defs.AdminAqFeatureId
_Stats = defs.AdminGetStatsType
GUID_BYTES = 8  # the end of the GID


def attribute(device: Device, feature: int) -> Struct | None:
    """Body of a GET_FEATURE response, None for an id that is not readable."""
    build = _ATTRIBUTES.get(feature)
    return build(device) if build else None


def _device_attr(device: Device) -> Struct:
    profile = device.profile
    return defs.AdminFeatureDeviceAttrDesc(
        supported_features=profile.supported_features,
        page_size_cap=profile.page_size_cap,
        fw_version=profile.fw_version,
        admin_api_version=profile.admin_api_version,
        device_version=profile.device_version,
        db_bar=device.limits.db_bar,
        phys_addr_width=profile.phys_addr_width,
        virt_addr_width=profile.virt_addr_width,
        device_caps=profile.device_caps,
        max_rdma_size=profile.max_rdma_size,
        guid=int.from_bytes(device.gid[-GUID_BYTES:], "little"),
        max_link_speed_gbps=profile.max_link_speed_gbps,
    )


def _aenq(device: Device) -> Struct:
    return defs.AdminFeatureAenqDesc(
        supported_groups=device.profile.aenq_supported_groups,
        enabled_groups=device.admin.events.enabled_groups,
    )


def _network_attr(device: Device) -> Struct:
    return defs.AdminFeatureNetworkAttrDesc(addr=device.gid, mtu=device.profile.mtu)


def _queue_attr_1(device: Device) -> Struct:
    limits, profile, objects = device.limits, device.profile, device.objects
    return defs.AdminFeatureQueueAttrDesc1(
        max_qp=objects.qps.count,
        max_sq_depth=limits.max_sq_depth,
        inline_buf_size=profile.inline_buf_size,
        max_rq_depth=limits.max_rq_depth,
        max_cq=objects.cqs.count,
        max_cq_depth=limits.max_cq_depth,
        sub_cqs_per_cq=profile.sub_cqs_per_cq,
        min_sq_depth=profile.min_sq_depth,
        max_wr_send_sges=profile.max_wr_send_sges,
        max_wr_recv_sges=profile.max_wr_recv_sges,
        max_mr=objects.mrs.count,
        # A region of this size may begin inside a page and then touches one page more.
        max_mr_pages=device.pool - 1,
        max_pd=objects.pds.count,
        max_ah=objects.ahs.count,
        max_llq_size=limits.max_sq_depth * defs.IoTxWqe.SIZE,
        max_wr_rdma_sges=profile.max_wr_rdma_sges,
        max_tx_batch=profile.max_tx_batch,
    )


def _hw_hints(device: Device) -> Struct:
    return defs.AdminHwHints(mmio_read_timeout=device.profile.mmio_read_timeout)


def _event_queue_attr(device: Device) -> Struct:
    return defs.AdminEventQueueAttrDesc(
        max_eq=device.objects.eqs.count,
        max_eq_depth=device.limits.max_eq_depth,
        event_bitmask=device.profile.event_bitmask,
    )


def _queue_attr_2(device: Device) -> Struct:
    limits = device.limits
    body = defs.AdminFeatureQueueAttrDesc2(inline_buf_size_ex=device.profile.inline_buf_size_ex)
    if capable(device, "event_counters"):
        body.supported_event_counter_qp_events = limits.event_counter_events
        body.max_event_counters = device.objects.counters.count
        body.event_counter_max_val = limits.event_counter_max_val
    return body


_ATTRIBUTES: dict[int, Callable[[Device], Struct]] = {
    _Feature.DEVICE_ATTR: _device_attr,
    _Feature.AENQ_CONFIG: _aenq,
    _Feature.NETWORK_ATTR: _network_attr,
    _Feature.QUEUE_ATTR_1: _queue_attr_1,
    _Feature.HW_HINTS: _hw_hints,
    _Feature.EVENT_QUEUE_ATTR: _event_queue_attr,
    _Feature.QUEUE_ATTR_2: _queue_attr_2,
}

_COUNTED: dict[int, type[Struct]] = {
    _Stats.BASIC: defs.AdminBasicStats,
    _Stats.MESSAGES: defs.AdminMessagesStats,
    _Stats.RDMA_READ: defs.AdminRdmaReadStats,
    _Stats.RDMA_WRITE: defs.AdminRdmaWriteStats,
}


def statistics(device: Device, kind: int) -> Struct:
    """Body of a GET_STATS response; values that the device does not count are zero."""
    layout = _COUNTED.get(kind)
    if layout is None:
        return defs.AdminNetworkStats()
    return layout(**{name: getattr(device.stats, name) for name in layout.FIELDS})
