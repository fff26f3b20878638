# SPDX-License-Identifier: Apache-2.0
"""Tests efa_features: every feature id against the build sizes and the profiles of the spec."""

import cocotb
from cocotb.triggers import Timer

from efa_cosim.layouts.defs import (
    LIMITS,
    PROFILES,
    AdminAqFeatureId,
    AdminFeatureDeviceAttrDesc,
    AdminGetFeatureResp,
)
from tb.lib.stream import rng_for


def filled(part, **reported):
    """Sets each field of a structure that has a value in `reported`."""
    for name in type(part).DTYPE.names:
        if name in reported:
            setattr(part, name, reported[name])


def response(feature, profile, node, groups, qpn_w, cqn_w, mtt_w):
    """Returns the response body of a feature, or None for an unsupported feature."""
    reported = list(PROFILES.values())[profile]
    resp, ids = AdminGetFeatureResp(), AdminAqFeatureId
    gid = LIMITS.gid_prefix + node.to_bytes(2, "big")
    if feature == ids.DEVICE_ATTR:
        filled(resp.u.device_attr, **reported, db_bar=LIMITS.db_bar,
               guid=int.from_bytes(gid[-8:], "little"))  # fmt: skip
    elif feature == ids.AENQ_CONFIG:
        filled(resp.u.aenq, supported_groups=reported.aenq_supported_groups, enabled_groups=groups)
    elif feature == ids.NETWORK_ATTR:
        filled(resp.u.network_attr, mtu=reported.mtu, addr=gid)
    elif feature == ids.QUEUE_ATTR_1:
        filled(resp.u.queue_attr_1, **reported, **LIMITS, max_qp=1 << qpn_w, max_cq=1 << cqn_w,
               max_mr=1 << LIMITS.mr_w, max_pd=1 << LIMITS.pd_w, max_ah=1 << LIMITS.ah_w,
               max_mr_pages=(1 << min(mtt_w, reported.mr_pages_w)) - 1,
               max_llq_size=64 * LIMITS.max_sq_depth)  # fmt: skip
    elif feature == ids.EVENT_QUEUE_ATTR:
        filled(resp.u.event_queue_attr, **reported, max_eq_depth=LIMITS.max_eq_depth)
    elif feature == ids.QUEUE_ATTR_2:
        filled(resp.u.queue_attr_2, **reported)
        if reported.device_caps & AdminFeatureDeviceAttrDesc(event_counters=1).device_caps:
            filled(resp.u.queue_attr_2, **LIMITS, max_event_counters=1 << LIMITS.ec_w,
                   supported_event_counter_qp_events=LIMITS.event_counter_events)  # fmt: skip
    elif feature == ids.HW_HINTS:
        filled(resp.u.hw_hints, **reported)
    else:
        return None
    return resp.pack()[8:]


@cocotb.test()
async def every_feature_as_the_spec_says(dut):
    """admin.features.responses: all 256 ids in all profiles with random nodes and groups have the
    specified bodies; an unknown id has a body of zeros."""
    rng = rng_for("features")
    widths = [int(getattr(dut, name).value) for name in ("QPN_W", "CQN_W", "MTT_W")]
    known = 0
    for profile in range(len(PROFILES)):
        for feature in range(256):
            node, groups = rng.getrandbits(16), rng.getrandbits(32)
            # Each bit has both values.
            pairs = ((0, 0), (node, groups), (node ^ 0xFFFF, groups ^ 0xFFFF_FFFF))
            for node, groups in pairs:
                dut.s_cfg_profile.value, dut.s_cfg_node_id.value = profile, node
                dut.s_feature.value, dut.s_groups.value = feature, groups
                await Timer(1, "ns")
                body = response(feature, profile, node, groups, *widths)
                assert dut.m_known.value == (body is not None), feature
                known += body is not None
                assert int(dut.m_body.value).to_bytes(56, "little") == (body or bytes(56)), feature
    assert known > 40
