// SPDX-License-Identifier: Apache-2.0
#include "config_space.h"

namespace efa::live {

namespace {

constexpr u32 kBar = 0x10, kCapabilities = 0x34;
constexpr u8 kMsix = 0x11, kExpress = 0x10, kStartFlr = 0x80;

}  // namespace

ConfigSpace::ConfigSpace(const Bytes &image) {
    if (image.size() != 2 * kConfigBytes)
        throw std::runtime_error(format("an image of %zu bytes; expected %u", image.size(),
                                        2 * kConfigBytes));
    initial_.assign(image.begin(), image.begin() + kConfigBytes);
    mask_.assign(image.begin() + kConfigBytes, image.end());
    reset();
    for (u32 at = data_[kCapabilities], left = 48; at != 0 && left != 0; at = data_[at + 1], left--) {
        if (data_[at] == kMsix) msix_ = at;
        if (data_[at] == kExpress) express_ = at;
    }
    if (msix_ == 0 || express_ == 0)
        throw std::runtime_error("an image without the capabilities MSI-X and PCI Express");
    auto writable = [&](u32 bar) {
        u32 value;
        std::memcpy(&value, mask_.data() + kBar + 4 * bar, sizeof value);
        return value;
    };
    for (u32 bar = 0; bar < kBars; bar++) {
        if (writable(bar) == 0) continue;
        bool wide = (word(kBar + 4 * bar) >> 1 & 3) == 2;
        u64 mask = writable(bar) | (wide ? u64(writable(bar + 1)) << 32 : ~u64(0) << 32);
        sizes_[bar] = ~mask + 1;
        if (wide) bar++;
    }
    sizes_[kConfigRegion] = kConfigBytes;
}

Bytes ConfigSpace::read(u32 offset, u32 size) const {
    return Bytes(data_.begin() + offset, data_.begin() + offset + size);
}

bool ConfigSpace::write(u32 offset, const u8 *data, u32 size) {
    u32 control = express_ + 9;
    for (u32 at = 0; at < size; at++) {
        u8 &value = data_[offset + at];
        value = u8((value & ~mask_[offset + at]) | (data[at] & mask_[offset + at]));
    }
    return offset <= control && control - offset < size && (data[control - offset] & kStartFlr) != 0;
}

}  // namespace efa::live
