// SPDX-License-Identifier: Apache-2.0
// Reads and drives the ports of one device, which is an instance of the top module efa_tb.
#pragma once
#include <cstring>

#include "Vtop.h"
#include "common.h"

namespace efa::live {

class Pins {
   public:
    explicit Pins(Vtop &design) : top(design) {}

    template <class T>
    bool bit(const T &port) const {
        return port != 0;
    }
    template <class T>
    void bit(T &port, bool value) const {
        port = value;
    }
    template <class V, class T>
    V lane(const T &port) const {
        V value;
        std::memcpy(&value, &port, sizeof(V));
        return value;
    }
    template <class V, class T>
    void lane(T &port, V value) const {
        std::memcpy(&port, &value, sizeof(V));
    }
    template <class T>
    const u8 *line(const T &port) const {
        return reinterpret_cast<const u8 *>(&port);
    }
    template <class T>
    void line(T &port, const u8 *from) const {
        std::memcpy(&port, from, kLine);
    }

    Vtop &top;
};

}  // namespace efa::live
