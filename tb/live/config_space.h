// SPDX-License-Identifier: Apache-2.0
// Holds the configuration space of a PCI function.
#pragma once
#include "protocol.h"

namespace efa::live {

constexpr u32 kConfigBytes = 4096;

// The image gives the values after a reset and the bits that the host changes. What the server must
// know beyond that (BAR sizes, vectors, FLR, MPS, MRRS) it finds in the image as a driver would.
class ConfigSpace {
   public:
    // Throws std::runtime_error if the image lacks MSI-X or PCI Express.
    explicit ConfigSpace(const Bytes &image);

    void reset() { data_ = initial_; }
    Bytes read(u32 offset, u32 size) const;
    // Changes the writable bits; returns true if the write starts an FLR.
    bool write(u32 offset, const u8 *data, u32 size);

    u64 region_bytes(u32 region) const { return region < kRegions ? sizes_[region] : 0; }
    u32 vectors() const { return (half(msix_ + 2) & 0x7ff) + 1; }
    u32 table_bar() const { return word(msix_ + 4) & 7; }
    u32 table_offset() const { return word(msix_ + 4) & ~7u; }
    bool bus_master() const { return (half(kCommand) & 4) != 0; }
    u8 max_payload() const { return half(express_ + 8) >> 5 & 7; }
    u8 max_read_request() const { return half(express_ + 8) >> 12 & 7; }

   private:
    static constexpr u32 kCommand = 4;
    u16 half(u32 at) const { return u16(data_[at] | data_[at + 1] << 8); }
    u32 word(u32 at) const { return half(at) | u32(half(at + 2)) << 16; }

    Bytes initial_, mask_, data_;
    u64 sizes_[kRegions] = {};
    u32 msix_ = 0, express_ = 0;  // offsets of the capabilities
};

}  // namespace efa::live
