// SPDX-License-Identifier: Apache-2.0
// Models the IOMMU of a host: the memory that the device may access until an admin response.
#pragma once
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "pins.h"

namespace efa {

class Bench;

// Python maps memory before an object can exist, and names the response that releases the memory.
// From the handshake of that response on, no access of the object may start or be outstanding.
class Iommu {
   public:
    enum Right : u32 { kRead = 1, kWrite = 2 };
    static constexpr u64 kForever = ~u64(0);  // mapped across resets

    Iommu(Bench &bench, int device) : bench_(bench), device_(device) {}
    void restart();

    // Maps a range that `object` owns; an object may own several ranges.
    void map(u64 object, const char *name, u64 addr, u64 len, u32 rights, bool forever);
    // The next response to `command` releases these objects.
    void release_at(u32 command, const u64 *objects, u64 count);
    void responses(u64 base, u64 bytes) { ring_base_ = base, ring_bytes_ = bytes; }
    // Begins a reset of the device: the present mappings end when the device has drained.
    void reset() { epoch_++; }

    // Checks a request of the device at the pins; fails the run when the access is not permitted.
    void access(u64 addr, u64 len, Right right);
    bool permitted(u64 addr, u64 len, Right right) const;
    // Takes a complete write of the device; returns true when the write releases a mapping.
    bool written(u64 addr, const u8 *data, u64 len);
    // Ends the mappings from before the reset: the device has drained.
    void drained();
    // Returns the name of the last released owner of this byte, or an empty string.
    std::string owner_before(u64 addr) const;

    bool on = false;

   private:
    struct Range {
        u64 object, addr, len, epoch;
        u32 rights;
        std::string name;
    };
    struct Release {
        u64 epoch;
        std::vector<u64> objects;
    };
    struct Past {
        u64 addr, len;
        std::string text;
    };
    static bool holds(const Range &range, u64 addr, u64 len, Right right) {
        return (range.rights & right) != 0 && addr >= range.addr &&
               addr - range.addr <= range.len && len <= range.len - (addr - range.addr);
    }
    void unmap(u64 key, const std::string &why);

    Bench &bench_;
    const int device_;
    u64 epoch_ = 0, ring_base_ = 0, ring_bytes_ = 0;
    static constexpr u64 kPage = 4096;
    static constexpr u64 kLargeBytes = u64(1) << 26;
    std::unordered_map<u64, std::vector<u64>> by_page_;  // keys of ranges_
    std::vector<u64> large_;
    std::unordered_map<u64, Range> ranges_;
    u64 next_ = 0;
    std::unordered_map<u64, std::vector<u64>> of_object_;
    std::unordered_map<u32, std::deque<Release>> releases_;
    std::deque<Past> past_;
};

}  // namespace efa
