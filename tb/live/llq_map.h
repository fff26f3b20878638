// SPDX-License-Identifier: Apache-2.0
// LLQ memory that a guest maps: its stores are no requests, and reach the device at the doorbell.
#pragma once
#include <deque>
#include <map>

#include "host.h"
#include "watcher.h"

namespace efa::live {

// Follows the admin commands of the host to know the send rings: place, depth, WQE size, and the
// producer count that the last doorbell set.
class LlqMap : public Watcher {
   public:
    explicit LlqMap(u64 bytes);
    ~LlqMap() override;
    int fd() const { return fd_.number(); }
    // Takes fresh memory: the last client may still have mapped the old one.
    void renew();

    // Adds the stores of the WQEs that a doorbell posts, in whole lines.
    void posted(u32 doorbell, u32 value, std::deque<LineAccess> &to);

    void reset() override;
    void store(const LineAccess &store) override;
    void read(u64 addr, const u8 *data, u32 size) override;
    void written(u64 addr, const u8 *data, u32 size) override;

   private:
    struct Queue {
        u64 base = 0;
        u32 entry_bytes = 0, depth = 0;
        bool holds(u64 addr) const {
            return entry_bytes != 0 && addr >= base && addr - base < u64(entry_bytes) * depth;
        }
    };
    struct Ring {
        u32 handle, place, entry_bytes, depth;
        u16 produced;
    };
    void command(const u8 *entry);
    void response(const u8 *entry);

    const u64 bytes_;
    Fd fd_;
    u8 *at_ = nullptr;
    u32 registers_[32] = {};
    Queue commands_, responses_;
    std::map<u16, Bytes> pending_;  // CREATE_QP and MODIFY_QP by command id
    std::map<u32, Ring> rings_;     // by doorbell
};

}  // namespace efa::live
