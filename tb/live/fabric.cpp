// SPDX-License-Identifier: Apache-2.0
#include "fabric.h"

#include <algorithm>

#include "efa_defs.h"

namespace efa::live {

bool Fabric::step(const Pins &pins, size_t device) {
    Side &side = sides_[device];
    const Vtop &top = pins.top;
    bool leaves = pins.bit(top.m_net_valid);
    if (leaves) {
        u32 count = u32(__builtin_popcountll(pins.lane<u64>(top.m_net_keep)));
        const u8 *data = pins.line(top.m_net_data);
        side.leaving.insert(side.leaving.end(), data, data + count);
        if (pins.bit(top.m_net_last)) {
            u16 node = 0;
            if (side.leaving.size() >= EFA_PKT_HDR__BYTES)
                std::memcpy(&node, side.leaving.data() + EFA_PKT_HDR__DST_NODE__LSB / 8, sizeof node);
            // Node numbers begin at 1; a packet to any other node is lost.
            if (node >= 1 && node <= sides_.size())
                sides_[node - 1u].coming.push_back(std::move(side.leaving));
            side.leaving.clear();
        }
    }
    if (side.count != 0 && pins.bit(top.s_net_ready)) {
        side.entered += side.count;
        side.count = 0;
        if (side.entered == side.coming.front().size()) side.coming.pop_front(), side.entered = 0;
    }
    if (side.count == 0 && !side.coming.empty())
        side.count = u32(std::min<size_t>(kLine, side.coming.front().size() - side.entered));
    return leaves || side.count != 0;
}

void Fabric::drive(const Pins &pins, size_t device) {
    const Side &side = sides_[device];
    Vtop &top = pins.top;
    pins.bit(top.m_net_ready, true);
    pins.bit(top.s_net_valid, side.count != 0);
    if (side.count == 0) return;
    u8 flit[kLine] = {};
    std::memcpy(flit, side.coming.front().data() + side.entered, side.count);
    pins.line(top.s_net_data, flit);
    pins.lane<u64>(top.s_net_keep, side.count == kLine ? ~u64(0) : (u64(1) << side.count) - 1);
    pins.bit(top.s_net_last, side.entered + side.count == side.coming.front().size());
}

}  // namespace efa::live
