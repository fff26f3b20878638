// SPDX-License-Identifier: Apache-2.0
// Defines the outputs sampled from one device and the inputs driven into it, once a cycle.
// Wide outputs are pointers into the storage of the simulator where possible.
#pragma once
#include <cstdint>

namespace efa {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;

constexpr int kMaxDevices = 2;

// Sampled just before the rising edge. `*_x` has a bit for each byte lane that is unknown.
struct Shown {
    bool flr_done = false, mmio_ready = false, cpl_ready = false, net_ready = false;
    bool mcpl_valid = false, rd_valid = false, wr_valid = false, wr_last = false;
    bool net_valid = false, net_last = false, aenq_ready = false;
    u8 mcpl_tag = 0, rd_tag = 0;
    u16 rd_len = 0, wr_len = 0;
    u64 rd_addr = 0, wr_addr = 0, net_keep = 0;
    u64 mcpl_x = 0, wr_x = 0, net_x = 0;
    u32 ev_valid = 0, ev_x = 0, cnt_data = 0;
    const u8 *mcpl_data = nullptr, *wr_data = nullptr, *net_data = nullptr;
    const u8 *ev_data = nullptr;  // 8 bytes per kind
    const char *unknown = nullptr;  // name of a control signal that is neither 0 nor 1
};

// Driven after the edge, so that the device sees it at the next one.
struct Driven {
    bool bme = true, flr = false, msix_enable = true, msix_fmask = false;
    u8 mps = 2, mrrs = 2;
    u8 profile = 0, version = 0, paths = 255, tick = 16;
    u16 node = 0, moderation = 0;
    u32 keep_alive = 0;
    bool aenq_valid = false;
    u16 aenq_group = 0, aenq_syndrome = 0;
    bool cnt_run = false, cnt_clear = false;
    u8 cnt_index = 0;
    bool mmio_valid = false, mmio_write = false;
    u8 mmio_bar = 0, mmio_tag = 0;
    u32 mmio_addr = 0;
    u64 mmio_be = 0;
    bool mcpl_ready = false, rd_ready = false, wr_ready = false, out_ready = false;
    bool cpl_valid = false, cpl_last = false, cpl_err = false;
    u8 cpl_tag = 0, cpl_bytes = 0;
    bool net_valid = false, net_last = false;
    u64 net_keep = 0;
    alignas(64) u8 mmio_data[64] = {};
    alignas(64) u8 cpl_data[64] = {};
    alignas(64) u8 net_data[64] = {};
    alignas(64) u8 aenq_data[64] = {};
    // True when the payload of a stream is new; cleared when the pins are driven.
    bool mmio_new = true, cpl_new = true, net_new = true, cfg_new = true, aenq_new = true;
};

}  // namespace efa
