// SPDX-License-Identifier: Apache-2.0
// Carries the packets between the devices: lossless, in order, without delay.
#pragma once
#include <deque>

#include "pins.h"

namespace efa::live {

class Fabric {
   public:
    explicit Fabric(size_t devices) : sides_(devices) {}
    // As Host::step, for one device.
    bool step(const Pins &pins, size_t device);
    void drive(const Pins &pins, size_t device);

   private:
    struct Side {
        Bytes leaving;              // flits of a packet that is not complete
        std::deque<Bytes> coming;
        size_t entered = 0;         // bytes of the first packet that the device has
        u32 count = 0;              // bytes of the flit at the pins, 0: none
    };
    std::vector<Side> sides_;
};

}  // namespace efa::live
