// SPDX-License-Identifier: Apache-2.0
#include "fabric.h"

#include <algorithm>
#include <cerrno>

#include "efa_defs.h"

namespace efa::live {

namespace {

// What the carrier receives and answers; efa_cosim/live/carrier.py has the same formats.
struct [[gnu::packed]] Departure {
    u64 cycle;
    u32 bytes;  // of the packet that follows, 0: none, the carrier only follows the time
};
struct [[gnu::packed]] Arrivals {
    u64 next;  // cycle of the carrier's next event
    u32 count;
};
struct [[gnu::packed]] Arrival {
    u32 device, bytes;
};

// Moves all bytes by ::write or ::read.
template <class Move, class Byte>
void all(Move move, int file, Byte *data, size_t size) {
    while (size != 0) {
        ssize_t count = move(file, data, size);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) throw std::runtime_error("the process that carries the packets has ended");
        data += count, size -= size_t(count);
    }
}

template <class T>
T received(int file) {
    T value;
    all(::read, file, reinterpret_cast<u8 *>(&value), sizeof value);
    return value;
}

}  // namespace

bool Fabric::step(const Pins &pins, size_t device) {
    Side &side = sides_[device];
    const Vtop &top = pins.top;
    bool leaves = pins.bit(top.m_net_valid);
    if (leaves) {
        u32 count = u32(__builtin_popcountll(pins.lane<u64>(top.m_net_keep)));
        const u8 *data = pins.line(top.m_net_data);
        side.leaving.insert(side.leaving.end(), data, data + count);
        if (pins.bit(top.m_net_last)) left(std::exchange(side.leaving, {}));
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

void Fabric::left(Bytes packet) {
    if (channel_.open()) {
        left_.push_back(std::move(packet));
        return;
    }
    u16 node = 0;
    if (packet.size() >= EFA_PKT_HDR__BYTES)
        std::memcpy(&node, packet.data() + EFA_PKT_HDR__DST_NODE__LSB / 8, sizeof node);
    // A packet to a node without a device is lost.
    auto found = std::find(nodes_.begin(), nodes_.end(), node);
    if (found != nodes_.end()) sides_[size_t(found - nodes_.begin())].coming.push_back(std::move(packet));
}

void Fabric::carry(u64 cycle) {
    for (const Bytes &packet : left_) exchange(cycle, packet);
    left_.clear();
    if (cycle >= next_) exchange(cycle, {});
}

void Fabric::exchange(u64 cycle, const Bytes &packet) {
    int file = channel_.number();
    Departure departure{cycle, u32(packet.size())};
    all(::write, file, reinterpret_cast<const u8 *>(&departure), sizeof departure);
    all(::write, file, packet.data(), packet.size());
    auto arrivals = received<Arrivals>(file);
    next_ = arrivals.next;
    for (u32 left = arrivals.count; left != 0; left--) {
        auto arrival = received<Arrival>(file);
        Bytes content(arrival.bytes);
        all(::read, file, content.data(), content.size());
        sides_.at(arrival.device).coming.push_back(std::move(content));
    }
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
