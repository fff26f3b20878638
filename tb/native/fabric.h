// SPDX-License-Identifier: Apache-2.0
// Connects the packet streams of the devices: routes by destination node, delays, loses, reorders.
#pragma once
#include <deque>
#include <map>
#include <utility>

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
    void answer(int device, u64 due, const std::vector<u8> &request);
    std::vector<u8> acknowledged(int device, const std::vector<u8> &packet);

    // A peer (knobs net_peer, net_peers): session and next PSN of the device, incarnation of the
    // device, PSN of its next read response.
    struct Peer {
        u64 session = 0;
        u32 next_psn = 0;
        u64 incarnation = 0;
        u32 response_psn = 0;
    };
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
        std::map<u64, Peer> peers;  // by node
        // Read responses of peers, by the first cycle of arrival.
        std::deque<std::pair<u64, std::vector<u8>>> responses;
    };
    // The peer to which a packet of a device goes.
    Peer &peer(int device, const std::vector<u8> &packet);

    Bench &bench_;
    Side side_[kMaxDevices];
};

}  // namespace efa
