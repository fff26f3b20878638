// SPDX-License-Identifier: Apache-2.0
// Defines the messages of the vfio-user protocol, from QEMU's docs/interop/vfio-user.rst.
// All numbers are little-endian, as on the machines that run this server.
#pragma once
#include <cstring>

#include "common.h"

namespace efa::live {

enum Command : u16 {
    kVersion = 1,
    kDmaMap = 2,
    kDmaUnmap = 3,
    kGetInfo = 4,
    kGetRegionInfo = 5,
    kGetIrqInfo = 7,
    kSetIrqs = 8,
    kRegionRead = 9,
    kRegionWrite = 10,
    kDeviceReset = 13,
    kRegionWriteMulti = 15,
};

// Flags of a header; the type is in the four lowest bits: 0 command, 1 reply.
enum : u32 { kReply = 1, kType = 0xf, kNoReply = 1 << 4, kError = 1 << 5 };
enum : u32 { kDmaRead = 1, kDmaWrite = 2 };
enum : u32 {
    kDataNone = 1, kDataBool = 2, kDataEventfd = 4, kActionTrigger = 32,
};
enum : u32 { kReadable = 1, kWritable = 2, kMappable = 4 };
enum : u32 { kConfigRegion = 7, kRegions = 9, kMsixIrq = 2, kIrqs = 5, kBars = 6 };
enum : u32 { kIrqEventfd = 1, kIrqNoResize = 8, kResets = 1, kIsPci = 2 };

constexpr u32 kMostDataBytes = 1 << 20;  // of one region access
constexpr u32 kMostFds = 16;             // of one message
constexpr u32 kMostRanges = (1 << 16) - 1;

struct Header {
    u16 message, command;
    u32 size, flags, error;  // size with this header
};
static_assert(sizeof(Header) == 16);

struct Access {
    u64 offset;
    u32 region, size;
};
static_assert(sizeof(Access) == 16);

struct DmaMap {
    u32 size, flags;
    u64 offset, address, bytes;
};
struct DmaUnmap {
    u32 size, flags;
    u64 address, bytes;
};
struct RegionInfo {
    u32 size, flags, index, unused;
    u64 bytes, offset;
};
struct IrqInfo {
    u32 size, flags, index, count;
};
struct IrqSet {
    u32 size, flags, index, start, count;
};
struct WriteOfMulti {
    u64 offset;
    u32 region, size;
    u8 data[8];
};

// A region write of kMostDataBytes with its own fields is the longest message.
constexpr u32 kMostMessageBytes = sizeof(Header) + sizeof(Access) + kMostDataBytes;

// A complete request with the file descriptors that came with it.
struct Message {
    Header header{};
    Bytes payload;
    std::vector<Fd> fds;
};

// Returns the first fields of a payload; throws ProtocolError if they are not complete.
template <class T>
T fields(const Bytes &payload, const char *name) {
    T value;
    if (payload.size() < sizeof value)
        throw ProtocolError(format("%s of %zu bytes; expected at least %zu", name, payload.size(),
                                   sizeof value));
    std::memcpy(&value, payload.data(), sizeof value);
    return value;
}

template <class T>
Bytes bytes_of(const T &value) {
    Bytes data(sizeof value);
    std::memcpy(data.data(), &value, sizeof value);
    return data;
}

// Throws ProtocolError unless a command of a possible size follows.
void check(const Header &header);

// Returns the reply to a request; with an error, the reply has no payload.
Bytes reply(const Header &request, const Bytes &payload, int error = 0);

// Checks the version that a client proposes; returns the payload of the reply.
Bytes version(const Bytes &payload);

}  // namespace efa::live
