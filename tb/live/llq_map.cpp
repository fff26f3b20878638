// SPDX-License-Identifier: Apache-2.0
#include "llq_map.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cstring>

#include "efa_defs.h"
#include "protocol.h"

namespace efa::live {

namespace {

constexpr u32 kCommandBytes = EFA_ADMIN_CREATE_QP_CMD__BYTES, kResponseBytes = 64;
constexpr u16 kCommandIds = (1 << EFA_ADMIN_ACQ_COMMON_DESC__COMMAND_ID__WIDTH) - 1;

// Returns a field of whole bytes by its position in bits.
template <class T>
T field(const u8 *entry, u32 lsb) {
    T value;
    std::memcpy(&value, entry + lsb / 8, sizeof value);
    return value;
}

}  // namespace

LlqMap::LlqMap(u64 bytes) : bytes_(bytes) { renew(); }

LlqMap::~LlqMap() { munmap(at_, bytes_); }

void LlqMap::renew() {
    if (at_ != nullptr) munmap(at_, bytes_);
    fd_ = Fd(memfd_create("llq", MFD_ALLOW_SEALING | MFD_CLOEXEC));
    void *at = MAP_FAILED;
    if (ftruncate(fd_.number(), off_t(bytes_)) == 0)
        at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.number(), 0);
    // The client must not make the file shorter.
    if (at == MAP_FAILED || fcntl(fd_.number(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        throw std::runtime_error(format("no shared memory of %lu bytes for the LLQ", bytes_));
    at_ = static_cast<u8 *>(at);
}

void LlqMap::reset() {
    commands_ = responses_ = Queue();
    pending_.clear(), rings_.clear();
}

void LlqMap::posted(u32 doorbell, u32 value, std::deque<LineAccess> &to) {
    auto found = rings_.find(doorbell);
    if (found == rings_.end()) return;
    Ring &ring = found->second;
    u16 count = u16(u16(value) - ring.produced);
    // The device ignores such a doorbell.
    if (count > ring.depth) return;
    for (; count != 0; count--, ring.produced++) {
        u64 offset = ring.place + u64(ring.produced % ring.depth) * ring.entry_bytes;
        for (u32 at = 0; at < ring.entry_bytes; at += kLine) {
            LineAccess line{true, u8(EFA_MEM_BAR), u32(offset + at), ~u64(0), {}};
            std::memcpy(line.data, at_ + offset + at, kLine);
            to.push_back(line);
        }
    }
}

void LlqMap::store(const LineAccess &store) {
    if (store.bar != EFA_REG_BAR) return;
    u32 lane = u32(__builtin_ctzll(store.enables)), offset = store.addr + lane, value;
    if (offset / 4 >= std::size(registers_) || lane > kLine - sizeof value) return;
    std::memcpy(&value, store.data + lane, sizeof value);
    registers_[offset / 4] = value;
    auto base = [&](u32 low, u32 high) { return u64(registers_[high / 4]) << 32 | registers_[low / 4]; };
    switch (offset) {
        case EFA_REG__AQ_CAPS:
            commands_ = {base(EFA_REG__AQ_BASE_LO, EFA_REG__AQ_BASE_HI),
                         value >> EFA_REG__AQ_CAPS__AQ_ENTRY_SIZE__LSB, value & 0xffff};
            break;
        case EFA_REG__ACQ_CAPS:
            responses_ = {base(EFA_REG__ACQ_BASE_LO, EFA_REG__ACQ_BASE_HI),
                          value >> EFA_REG__ACQ_CAPS__ACQ_ENTRY_SIZE__LSB & 0xff, value & 0xffff};
            break;
        case EFA_REG__DEV_CTL:
            if ((value & 1) != 0) reset();
            break;
        default: break;
    }
}

void LlqMap::read(u64 addr, const u8 *data, u32 size) {
    if (!commands_.holds(addr)) return;
    for (u32 at = 0; at + kCommandBytes <= size; at += commands_.entry_bytes) command(data + at);
}

void LlqMap::command(const u8 *entry) {
    u8 opcode = field<u8>(entry, EFA_ADMIN_AQ_COMMON_DESC__OPCODE__LSB);
    u16 id = field<u16>(entry, EFA_ADMIN_AQ_COMMON_DESC__COMMAND_ID__LSB) & kCommandIds;
    pending_.erase(id);
    if (opcode == EFA_ADMIN_AQ_OPCODE__CREATE_QP || opcode == EFA_ADMIN_AQ_OPCODE__MODIFY_QP)
        pending_[id] = Bytes(entry, entry + kCommandBytes);
}

void LlqMap::written(u64 addr, const u8 *data, u32 size) {
    if (responses_.holds(addr) && size >= kResponseBytes) response(data);
}

void LlqMap::response(const u8 *entry) {
    u16 id = field<u16>(entry, EFA_ADMIN_ACQ_COMMON_DESC__COMMAND_ID__LSB) & kCommandIds;
    auto found = pending_.find(id);
    if (found == pending_.end()) return;
    Bytes command = std::move(found->second);
    pending_.erase(found);
    if (field<u8>(entry, EFA_ADMIN_ACQ_COMMON_DESC__STATUS__LSB) != 0) return;
    const u8 *asked = command.data();
    if (field<u8>(asked, EFA_ADMIN_AQ_COMMON_DESC__OPCODE__LSB) == EFA_ADMIN_AQ_OPCODE__CREATE_QP) {
        u32 depth = field<u32>(asked, EFA_ADMIN_CREATE_QP_CMD__QP_ALLOC_SIZE__SEND_QUEUE_DEPTH__LSB);
        u32 bytes = field<u32>(asked, EFA_ADMIN_CREATE_QP_CMD__QP_ALLOC_SIZE__SEND_QUEUE_RING_SIZE__LSB);
        u32 place = field<u32>(entry, EFA_ADMIN_CREATE_QP_RESP__LLQ_DESCRIPTORS_OFFSET__LSB);
        if (depth == 0 || bytes % (depth * kLine) != 0 || u64(place) + bytes > bytes_) return;
        rings_[field<u32>(entry, EFA_ADMIN_CREATE_QP_RESP__SQ_DB_OFFSET__LSB)] = {
            field<u32>(entry, EFA_ADMIN_CREATE_QP_RESP__QP_HANDLE__LSB), place, bytes / depth, depth, 0};
        return;
    }
    u32 mask = field<u32>(asked, EFA_ADMIN_MODIFY_QP_CMD__MODIFY_MASK__LSB);
    if ((mask & 1) == 0 ||
        field<u32>(asked, EFA_ADMIN_MODIFY_QP_CMD__QP_STATE__LSB) != EFA_ADMIN_QP_STATE__RESET)
        return;
    // A reset empties the ring.
    u32 handle = field<u32>(asked, EFA_ADMIN_MODIFY_QP_CMD__QP_HANDLE__LSB);
    for (auto &[doorbell, ring] : rings_)
        if (ring.handle == handle) ring.produced = 0;
}

}  // namespace efa::live
