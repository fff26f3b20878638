// SPDX-License-Identifier: Apache-2.0
// Carries the packets between the devices: without loss, in order and without delay, or by the
// process at the other end of a channel, which knows the fabric file.
#pragma once
#include <deque>

#include "pins.h"

namespace efa::live {

class Fabric {
   public:
    // `nodes` has the number of each device. `channel`: the socket of a carrier, -1: none.
    Fabric(std::vector<u16> nodes, int channel)
        : nodes_(std::move(nodes)), sides_(nodes_.size()), channel_(channel) {}
    // As Host::step, for one device.
    bool step(const Pins &pins, size_t device);
    void drive(const Pins &pins, size_t device);
    // Hands the packets that have left in a cycle to the carrier, and takes those that arrive.
    void carry(u64 cycle);
    // True while the carrier has a packet on its way.
    bool busy() const { return next_ != kNever; }

   private:
    static constexpr u64 kNever = ~u64(0);

    struct Side {
        Bytes leaving;              // flits of a packet that is not complete
        std::deque<Bytes> coming;
        size_t entered = 0;         // bytes of the first packet that the device has
        u32 count = 0;              // bytes of the flit at the pins, 0: none
    };

    void left(Bytes packet);
    void exchange(u64 cycle, const Bytes &packet);

    std::vector<u16> nodes_;
    std::vector<Side> sides_;
    Fd channel_;
    std::vector<Bytes> left_;  // packets of this cycle for the carrier
    u64 next_ = kNever;        // the cycle of the next event of the carrier
};

}  // namespace efa::live
