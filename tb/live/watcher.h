// SPDX-License-Identifier: Apache-2.0
// Sees what a device exchanges with its client.
#pragma once
#include "common.h"

namespace efa::live {

struct LineAccess;

class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void reset() {}
    virtual void store(const LineAccess &) {}
    // DMA of the device; a read that failed is none.
    virtual void read(u64, const u8 *, u32) {}
    // The client's memory has the bytes; its eventfd is signalled.
    virtual void written(u64, const u8 *, u32) {}
    virtual void interrupt(u32) {}
};

}  // namespace efa::live
