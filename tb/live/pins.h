// SPDX-License-Identifier: Apache-2.0
// Reads and drives the ports of one device in the top module efa_tb, where device d has bit d, or
// lane d, of each port.
#pragma once
#include <cstring>

#include "Vtop.h"
#include "common.h"

namespace efa::live {

class Pins {
   public:
    Pins(Vtop &design, int device) : top(design), device_(device) {}

    template <class T>
    bool bit(const T &port) const {
        return (reinterpret_cast<const u8 *>(&port)[device_ / 8] >> device_ % 8 & 1) != 0;
    }
    template <class T>
    void bit(T &port, bool value) const {
        u8 &byte = reinterpret_cast<u8 *>(&port)[device_ / 8];
        byte = u8((byte & ~(1u << device_ % 8)) | (u32(value) << device_ % 8));
    }
    template <class V, class T>
    V lane(const T &port) const {
        V value;
        std::memcpy(&value, reinterpret_cast<const u8 *>(&port) + device_ * sizeof(V), sizeof(V));
        return value;
    }
    template <class V, class T>
    void lane(T &port, V value) const {
        std::memcpy(reinterpret_cast<u8 *>(&port) + device_ * sizeof(V), &value, sizeof(V));
    }
    template <class T>
    const u8 *line(const T &port) const {
        return reinterpret_cast<const u8 *>(&port) + device_ * kLine;
    }
    template <class T>
    void line(T &port, const u8 *from) const {
        std::memcpy(reinterpret_cast<u8 *>(&port) + device_ * kLine, from, kLine);
    }

    Vtop &top;

   private:
    const int device_;
};

}  // namespace efa::live
