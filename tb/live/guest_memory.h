// SPDX-License-Identifier: Apache-2.0
// Holds the memory of a client that the device reads and writes; any other address fails.
#pragma once
#include <functional>
#include <map>
#include <memory>

#include "common.h"

namespace efa::live {

class GuestMemory {
   public:
    // Unmaps everything and sets the counts to zero.
    void clear();

    // Maps `size` bytes at a bus address to a file from `offset` on, without a file to nothing.
    // Throws ProtocolError, and Refused if the range overlaps another.
    void map(u64 address, u64 size, Fd fd, u64 offset, bool readable, bool writable);
    // Unmaps a range that was mapped with this address and size; throws ProtocolError otherwise.
    void unmap(u64 address, u64 size);

    // Reads as the device does; returns false, with all of `to` unchanged, if a byte is outside.
    bool read(u64 address, u8 *to, u64 size);
    // Writes as the device does, the first word last; a write with a byte outside is dropped.
    void write(u64 address, const u8 *from, u32 size);
    // Called at the end of each write, when the guest can see it, and for a dropped one.
    std::function<void(u64, const u8 *, u32)> on_write;

    u64 failed_reads = 0, dropped_writes = 0;
    std::string first_failure;  // empty: none

   private:
    struct Range {
        u64 size = 0;
        bool readable = false, writable = false;
        u8 *at = nullptr;      // content in this process
        Fd file;               // content in a file that its owner may shrink
        u64 offset = 0;
        void *mapping = nullptr;
        u64 mapped = 0;

        Range() = default;
        Range(Range &&) = delete;
        ~Range();
    };
    struct Piece {
        const Range *range;
        u64 offset, size;
    };
    bool pieces(u64 address, u64 size, bool writes, std::vector<Piece> &to) const;
    void put(const u8 *end);
    void note(const char *what, u64 address, u64 size);

    std::map<u64, std::unique_ptr<Range>> ranges_;  // by bus address
    std::vector<Piece> pieces_;                     // of the present access
};

}  // namespace efa::live
