// SPDX-License-Identifier: Apache-2.0
#include "host.h"

#include <algorithm>

#include "efa_defs.h"
#include "pins.h"

namespace efa::live {

namespace {

// The last page below 2^64: the memory of a virtual machine does not reach it.
constexpr u64 kMessages = ~u64(0) - 4095;
constexpr u32 kTags = 256, kEntryBytes = 16, kWordBytes = 4;
constexpr u32 kFlrCycles = 4, kFlrSeenCycles = 16;

}  // namespace

Host::Host(GuestMemory &memory, u16 node, u8 profile, u8 paths, u32 table_bar, u32 table_offset,
           u32 vectors, std::function<void(u32)> interrupt)
    : memory_(memory), node_(node), profile_(profile), paths_(paths),
      interrupt_(std::move(interrupt)), reads_(kTags) {
    memory_.on_write = [this](u64 addr, const u8 *data, u32 bytes) {
        for (Watcher *each : watchers) each->written(addr, data, bytes);
    };
    for (u32 vector = 0; vector < vectors; vector++) {
        u64 address = kMessages + kWordBytes * vector;
        u32 entry[] = {u32(address), u32(address >> 32), vector, 0};
        for (u32 word = 0; word < kEntryBytes / kWordBytes; word++) {
            u32 offset = table_offset + kEntryBytes * vector + kWordBytes * word, at = offset % kLine;
            LineAccess store{true, u8(table_bar), offset - at, u64(0xf) << at, {}};
            std::memcpy(store.data + at, entry + word, kWordBytes);
            table_.push_back(store);
        }
    }
}

void Host::reset() { reset_ = kRaise, reset_cycles_ = 0; }

void Host::access(const LineAccess &access) {
    offer_ = access;
    offered_ = true;
    loading_ = !access.write;
}

bool Host::step(const Pins &pins) {
    const Vtop &top = pins.top;
    bool read = pins.bit(top.m_dma_rd_valid), write = pins.bit(top.m_dma_wr_valid);
    bool response = pins.bit(top.m_mmio_cpl_valid), done = pins.bit(top.m_cfg_flr_done);
    bool event = pins.lane<u32>(top.ev_valid) != 0;
    if (offer_shown_ && pins.bit(top.s_mmio_ready)) offered_ = false;
    if (keep_alive_shown_ && pins.bit(top.s_aenq_ready)) keep_alive_ = false;
    if (completes_ && pins.bit(top.s_dma_rd_cpl_ready)) {
        completes_ = false;
        if (last_) reads_[tag_].live = false, order_.pop_front();
    }
    if (write) written(pins);
    if (response) {
        std::memcpy(loaded_, pins.line(top.m_mmio_cpl_data), kLine);
        loading_ = false;
    }
    if (read)
        read_requested(pins.lane<u64>(top.m_dma_rd_addr), pins.lane<u16>(top.m_dma_rd_len),
                       pins.lane<u8>(top.m_dma_rd_tag));
    // A read completion does not pass an earlier store.
    if (!completes_ && !order_.empty() && !(offered_ && offer_.write)) next_completion();
    step_reset(done);
    // A reset does not count: it may wait for the host.
    return read || write || response || event || offered_ || loading_ || resetting() ||
           !order_.empty() || !writing_.empty();
}

void Host::step_reset(bool done) {
    switch (reset_) {
        case kWorks: break;
        case kRaise:
            if (++reset_cycles_ > kFlrCycles) reset_ = kWait;
            break;
        case kWait:
            if (++reset_cycles_ > kFlrCycles + kFlrSeenCycles && done && !offered_ && !loading_)
                reset_ = kFill, filled_ = 0;
            break;
        case kFill:
            if (offered_) break;
            if (filled_ == table_.size())
                reset_ = kWorks;
            else
                access(table_[filled_++]);
            break;
    }
}

void Host::read_requested(u64 addr, u32 size, u8 tag) {
    Read &read = reads_[tag];
    if (read.live || size == 0 || size > sizeof read.data)
        throw std::runtime_error(format("DMA read of %u bytes at %#lx with tag %u%s", size, addr, tag,
                                        read.live ? ", which is in use" : ""));
    read.live = true, read.size = size, read.done = 0;
    read.error = !memory_.read(addr, read.data, size);
    if (!read.error)
        for (Watcher *each : watchers) each->read(addr, read.data, size);
    order_.push_back(tag);
}

void Host::next_completion() {
    tag_ = order_.front();
    Read &read = reads_[tag_];
    completes_ = true;
    std::memset(completion_, 0, kLine);
    if (read.error) {
        last_ = error_ = true, count_ = 0;
        return;
    }
    count_ = u8(std::min(kLine, read.size - read.done));
    std::memcpy(completion_, read.data + read.done, count_);
    read.done += count_;
    last_ = read.done == read.size, error_ = false;
}

void Host::written(const Pins &pins) {
    u64 addr = pins.lane<u64>(pins.top.m_dma_wr_addr);
    u32 size = pins.lane<u16>(pins.top.m_dma_wr_len);
    const u8 *data = pins.line(pins.top.m_dma_wr_data);
    bool last = pins.bit(pins.top.m_dma_wr_last);
    size_t left = size > writing_.size() ? size - writing_.size() : 0;
    writing_.insert(writing_.end(), data, data + std::min<size_t>(kLine, left));
    if (last != (writing_.size() == size) || left == 0)
        throw std::runtime_error(format("DMA write of %u bytes at %#lx ends with byte %zu", size, addr,
                                        writing_.size()));
    if (!last) return;
    if (addr >= kMessages) {
        u32 vector = ~u32(0);
        std::memcpy(&vector, writing_.data(), std::min<size_t>(kWordBytes, writing_.size()));
        interrupt_(vector);
    } else {
        memory_.write(addr, writing_.data(), size);
    }
    writing_.clear();
}

void Host::drive_constants(const Pins &pins) const {
    Vtop &top = pins.top;
    pins.bit(top.s_cfg_msix_enable, true);
    pins.bit(top.s_cfg_msix_fmask, false);
    pins.lane<u8>(top.s_cfg_profile, profile_);
    pins.lane<u16>(top.s_cfg_node_id, node_);
    pins.lane<u8>(top.s_cfg_interface, 0);
    pins.lane<u16>(top.s_cfg_moderation, 0);
    pins.lane<u8>(top.s_cfg_paths, paths_);
    pins.lane<u8>(top.s_cfg_tick, EFA_TRANSPORT__TICK_CYCLES);
    pins.lane<u32>(top.s_cfg_keep_alive, 0);
    pins.lane<u16>(top.s_aenq_group, EFA_ADMIN_AENQ_GROUP__KEEP_ALIVE);
    pins.lane<u16>(top.s_aenq_syndrome, 0);
    pins.lane<u8>(top.s_mmio_tag, 0);
    pins.bit(top.m_mmio_cpl_ready, true);
    pins.bit(top.m_dma_rd_ready, true);
    pins.bit(top.m_dma_wr_ready, true);
}

void Host::drive(const Pins &pins) {
    Vtop &top = pins.top;
    pins.bit(top.s_cfg_bme, straps.bus_master);
    pins.bit(top.s_cfg_flr, reset_ == kRaise);
    pins.lane<u8>(top.s_cfg_mps, straps.max_payload);
    pins.lane<u8>(top.s_cfg_mrrs, straps.max_read_request);
    offer_shown_ = offered_, keep_alive_shown_ = keep_alive_;
    pins.bit(top.s_aenq_valid, keep_alive_);
    pins.bit(top.s_mmio_valid, offered_);
    if (offered_) {
        pins.bit(top.s_mmio_write, offer_.write);
        pins.lane<u8>(top.s_mmio_bar, offer_.bar);
        pins.lane<u32>(top.s_mmio_addr, offer_.addr);
        pins.lane<u64>(top.s_mmio_be, offer_.enables);
        pins.line(top.s_mmio_data, offer_.data);
    }
    pins.bit(top.s_dma_rd_cpl_valid, completes_);
    if (completes_) {
        pins.lane<u8>(top.s_dma_rd_cpl_tag, tag_);
        pins.lane<u8>(top.s_dma_rd_cpl_bytes, count_);
        pins.bit(top.s_dma_rd_cpl_last, last_);
        pins.bit(top.s_dma_rd_cpl_err, error_);
        pins.line(top.s_dma_rd_cpl_data, completion_);
    }
}

}  // namespace efa::live
