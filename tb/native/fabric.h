// SPDX-License-Identifier: Apache-2.0
// Connects the packet streams of the devices: routes by destination node, delays, loses, reorders.
#pragma once
#include <map>

#include "common.h"

namespace efa {

class Bench;

class Fabric {
   public:
    explicit Fabric(Bench &bench) : bench_(bench) {}
    void restart(u64 seed);
    void step(int device, const Shown &seen, Driven &drive);
    bool quiet() const;
    // Sends a packet without source device after `delay` cycles; the packet may be malformed.
    void inject(int device, const u8 *from, u64 len, u64 delay);

    u64 sent[kMaxDevices] = {};

   private:
    void leave(int device, const Shown &seen, Driven &drive);
    void arrive(int device, const Shown &seen, Driven &drive);
    void accepted(int device, const std::vector<u8> &packet);
    void route(int device, const std::vector<u8> &packet);
    void queue(int device, u64 due, const std::vector<u8> &packet);
    void respond(int device, u64 due, const std::vector<u8> &packet);
    std::vector<u8> acknowledged(int device, const std::vector<u8> &packet);

    struct Side {
        Rng rng{0};
        std::vector<u8> gathering;
        bool held = false;
        u64 held_keep = 0;
        bool held_last = false;
        u8 held_data[64] = {};
        Rate rate;
        std::multimap<u64, std::vector<u8>> coming;  // by the first cycle of arrival
        std::vector<u8> entering;
        u64 entered = 0;
        bool busy = false, first = false;
        u64 last_due = 0;
        u64 session = 0;  // of the sender, at the peer of knob net_peer
        u32 next_psn = 0;
    };
    Bench &bench_;
    Side side_[kMaxDevices];
};

}  // namespace efa
