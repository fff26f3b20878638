// SPDX-License-Identifier: Apache-2.0
// Holds the host memory: a sparse 64-bit address space in one arena that Python maps as numpy.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "pins.h"

namespace efa {

enum class Fault : u32 { none = 0, error = 1, drop = 2, late = 3 };

class Memory {
   public:
    static constexpr u64 kPage = 1 << 16;
    static constexpr u64 kArena = u64(1) << 34;  // reserved, not committed

    Memory();
    ~Memory();
    void clear();
    void read(u64 addr, void *to, u64 len) const;
    void write(u64 addr, const void *from, u64 len);
    // Returns the arena offset of a range that is contiguous there, or -1.
    int64_t map(u64 addr, u64 len);
    u8 *arena() const { return arena_; }
    int fd() const { return fd_; }

    void add_fault(u64 addr, u64 len, Fault fault);
    void clear_faults() { faults_.clear(); }
    Fault fault(u64 addr, u64 len) const;
    u64 word(u64 addr) const;

   private:
    void create();

    struct Range {
        u64 addr, len;
        Fault fault;
    };
    u8 *page(u64 number) const;
    u8 *make(u64 number);

    u8 *arena_ = nullptr;
    int fd_ = -1;
    int owner_ = 0;  // process that created the arena
    u64 used_ = 0;
    std::unordered_map<u64, u64> pages_;
    std::vector<Range> faults_;
    mutable u64 last_page_ = ~u64(0);
    mutable u8 *last_ = nullptr;
};

}  // namespace efa
