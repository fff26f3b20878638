// SPDX-License-Identifier: Apache-2.0
#include "host.h"

#include <algorithm>
#include <cstring>

#include "bench.h"
#include "efa_defs.h"

namespace efa {

namespace {

constexpr u64 kPageOfHost = 4096;
constexpr u64 kNoBytes = ~u64(0);
constexpr u64 kResetDrained = 1, kResetDone = 2;

bool crosses(u64 addr, u64 len, u64 boundary) {
    return addr / boundary != (addr + len - 1) / boundary;
}

}  // namespace

Host::Host(Bench &bench, int device) : iommu(bench, device), bench_(bench), device_(device) {}

void Host::restart(u64 seed) {
    rng_mmio_ = Rng(seed ^ (0x6d6d696full + device_));
    rng_read_ = Rng(seed ^ (0x72656164ull + device_));
    rng_write_ = Rng(seed ^ (0x77726974ull + device_));
    knobs = Knobs();
    knobs.node = 1 + device_;
    requests_.clear(), events_.clear(), pending_.clear(), live_.clear(), gathering_.clear();
    for (auto &read : reads_) read = Read();
    for (auto &load : loads_) load = {};
    store_waits_ = in_delay_ = false, after_reset_ = true;
    waited_ = offered_ = gap_until_ = delay_until_ = flr_until_ = 0;
    load_tag_ = 0, loads_out_ = 0, read_order_ = last_due_ = 0, current_ = -1;
    handed_ = applied_ = last_seen_at_ = 0;
    read_rate_ = write_rate_ = Rate();
    held_mcpl_ = held_rd_ = held_wr_ = Held();
    iommu.restart();
    released_ = resetting_ = false;
    interrupts = loads_done = reads_requested = read_bytes = write_bytes = 0;
}

bool Host::quiet() const {
    return drained() && live_.empty() && pending_.empty() && gathering_.empty() && loads_out_ == 0;
}

// Checks the stream rule: a payload without handshake stays valid and unchanged.
void Host::steady(Held &held, bool valid, bool ready, u64 a, u64 b, const u8 *data, u32 bytes,
                  const char *name) {
    if (held.valid && !valid)
        bench_.fail(device_, "%s fell before ready", name);
    else if (held.valid && (a != held.a || b != held.b ||
                            (bytes != 0 && std::memcmp(data, held.data, bytes) != 0)))
        bench_.fail(device_, "%s changed before ready", name);
    held.valid = valid && !ready;
    if (!held.valid) return;
    held.a = a, held.b = b;
    if (bytes != 0) std::memcpy(held.data, data, bytes);
}

void Host::step(const Shown &seen, Driven &drive) {
    while (!pending_.empty() && pending_.front().seen_at <= bench_.cycle) apply_until(applied_ + 1);
    writes(seen, drive);
    load_responses(seen, drive);
    read_requests(seen, drive);
    read_responses(seen, drive);
    reset_steps(seen, drive);
    if (released_) nothing_under_way("released memory");
    released_ = false;
    accesses(seen, drive);
    events(seen, drive);
    drive.flr = bench_.cycle < flr_until_;
}

// Checks that accesses have ended

// Fails for each outstanding read of memory that the device may no longer access.
void Host::nothing_under_way(const char *when) {
    for (int tag : live_) {
        const Read &read = reads_[tag];
        // The device has timed out a read whose completion is late.
        if (read.late || iommu.permitted(read.addr, read.len, Iommu::kRead)) continue;
        bench_.fail(device_,
                    "%s, expected no outstanding access, found the DMA read of %u bytes at %#lx "
                    "without its completion: %s", when, read.len, read.addr,
                    iommu.owner_before(read.addr).c_str());
    }
}

// Checks that the device accepts every packet and reports none from the first to the last step of a
// reset, and that no earlier access is outstanding when the device has drained.
void Host::reset_steps(const Shown &seen, const Driven &drive) {
    bool step = (seen.ev_valid >> EFA_EV__RESET & 1) != 0;
    u64 which = 0;
    if (step) std::memcpy(&which, seen.ev_data + 8 * EFA_EV__RESET, sizeof which);
    which &= (1u << EFA_EV_RESET__STEP__WIDTH) - 1;
    if (step) resetting_ = which != kResetDone;
    if (step && which == kResetDrained) {
        iommu.drained();
        if (iommu.on) nothing_under_way("reset drained");
        if (!gathering_.empty())
            bench_.fail(device_,
                        "reset drained, expected no outstanding access, found a DMA write at %#lx "
                        "without its last beat", write_addr_);
    }
    if (!resetting_) return;
    if ((seen.ev_valid >> EFA_EV__RX_FIRST & 1) != 0 || (seen.ev_valid >> EFA_EV__RX_LAST & 1) != 0)
        bench_.fail(device_, "during a reset, expected every packet dropped, found one received");
    if (drive.net_valid && !seen.net_ready)
        bench_.fail(device_,
                    "during a reset, expected every packet dropped, found one that stalls");
}

// Logs an input that the device accepts in this clock.
void Host::input(InputKind kind, u32 bar, u64 addr, u64 be, const u8 *data, u32 bytes) {
    if (knobs.in_log == 0) return;
    InputRecord record = {bench_.cycle, addr, be, kind, bar, u32(device_), 0, {}};
    if (bytes != 0) std::memcpy(record.data, data, bytes);
    bench_.inputs.add(record);
}

// Asynchronous events

void Host::request_event(u16 group, u16 syndrome, const u8 *data) {
    events_.push_back({group, syndrome, {}});
    std::memcpy(events_.back().data, data, sizeof events_.back().data);
}

void Host::events(const Shown &seen, Driven &drive) {
    if (drive.aenq_valid && seen.aenq_ready) {
        bench_.digest.word(0x500 + device_ + (u64(drive.aenq_group) << 16));
        input(kInAsync, 0, drive.aenq_group, drive.aenq_syndrome, drive.aenq_data,
              sizeof events_.front().data);
        events_.pop_front();
        drive.aenq_valid = false;
    }
    if (drive.aenq_valid || events_.empty()) return;
    const AsyncEvent &next = events_.front();
    drive.aenq_valid = drive.aenq_new = true;
    drive.aenq_group = next.group, drive.aenq_syndrome = next.syndrome;
    std::memcpy(drive.aenq_data, next.data, sizeof next.data);
}

// Accesses of the CPU

void Host::accesses(const Shown &seen, Driven &drive) {
    if (drive.mmio_valid) {
        if (seen.mmio_ready) {
            bench_.digest.word(0x300 + device_ + (u64(drive.mmio_addr) << 16));
            bench_.shake(kPinMmio, device_, u64(drive.mmio_bar) << 32 | drive.mmio_addr,
                         bench_.cycle - offered_ - 1);
            if (drive.mmio_write)
                input(kInStore, drive.mmio_bar, drive.mmio_addr, drive.mmio_be, drive.mmio_data, 64);
            drive.mmio_valid = false;
            store_waits_ = after_reset_ = false;
            waited_ = 0;
        } else {
            u64 allowed = after_reset_ ? knobs.mmio_init_max : knobs.mmio_accept_max;
            if (drive.mmio_write && ++waited_ == allowed + 1)
                bench_.fail(device_, "store at BAR %d %#x waits for more than %lu cycles",
                            drive.mmio_bar, drive.mmio_addr, allowed);
        }
    }
    if (!drive.mmio_valid && !requests_.empty()) next_access(drive);
}

// Executes host requests until one needs a clock; returns true when an access is driven.
bool Host::next_access(Driven &drive) {
    while (!requests_.empty()) {
        const Request &now = requests_.front();
        switch (now.kind) {
            case kStore:
            case kLoad: {
                if (bench_.cycle < gap_until_) return false;
                if (rng_mmio_.chance(knobs.mmio_gap)) {
                    gap_until_ = bench_.cycle + rng_mmio_.between(1, knobs.mmio_gap_max);
                    return false;
                }
                drive.mmio_valid = drive.mmio_new = true;
                offered_ = bench_.cycle;
                drive.mmio_write = now.kind == kStore;
                drive.mmio_bar = now.bar;
                drive.mmio_addr = now.addr;
                drive.mmio_be = now.be;
                std::memcpy(drive.mmio_data, now.data, 64);
                store_waits_ = true;
                if (now.kind == kLoad) {
                    while (loads_[load_tag_].live) load_tag_++;
                    loads_[load_tag_].live = true;
                    loads_[load_tag_].id = now.id;
                    loads_[load_tag_].be = now.be;
                    loads_out_++;
                    drive.mmio_tag = load_tag_++;
                }
                requests_.pop_front();
                return true;
            }
            case kDelay:
                if (!in_delay_) {
                    in_delay_ = true;
                    delay_until_ = bench_.cycle + now.a;
                }
                if (bench_.cycle < delay_until_) return false;
                in_delay_ = false;
                break;
            case kUntil:
                if (bench_.cycle < now.a) return false;
                break;
            case kWaitMemory:
                if ((bench_.memory[device_].word(now.addr) & now.a) != now.b) return false;
                break;
            case kMemory:
                bench_.memory[device_].write(now.addr, now.data, std::min<u64>(now.a, 64));
                break;
            case kPin:
                input(kInPin, 0, now.a, now.b, nullptr, 0);
                if (now.a == kPinBme) knobs.bme = now.b;
                if (now.a == kPinMsixEnable) knobs.msix_enable = now.b;
                if (now.a == kPinMsixFmask) knobs.msix_fmask = now.b;
                if (now.a == kPinFlr) {
                    flr_until_ = bench_.cycle + now.b;
                    after_reset_ = true;
                }
                break;
            case kWaitLoads:
                if (loads_out_ != 0) return false;
                break;
            case kWaitInterrupts:
                if (interrupts < now.a) return false;
                break;
            case kTimestamp: {
                LoadRecord record = {bench_.cycle, now.id, u32(device_), 0, {}};
                bench_.loads.add(record);
                loads_done++;
                break;
            }
            default:
                bench_.fail(device_, "host access of unknown kind %u", now.kind);
        }
        requests_.pop_front();
    }
    return false;
}

void Host::load_responses(const Shown &seen, Driven &drive) {
    steady(held_mcpl_, seen.mcpl_valid, drive.mcpl_ready, seen.mcpl_tag, 0, seen.mcpl_data,
           seen.mcpl_valid ? 64 : 0, "m_mmio_cpl");
    if (seen.mcpl_valid && drive.mcpl_ready) {
        auto &load = loads_[seen.mcpl_tag];
        if (!load.live) {
            bench_.fail(device_, "read completion of tag %d without an outstanding load",
                        seen.mcpl_tag);
        } else {
            // A load completion does not pass an earlier DMA write.
            apply_until(handed_);
            LoadRecord record = {bench_.cycle, load.id, u32(device_), 64, {}};
            for (int lane = 0; lane < 64; lane++)
                if (load.be >> lane & 1) record.data[lane] = seen.mcpl_data[lane];
            if ((seen.mcpl_x & load.be) != 0) bench_.fail(device_, "m_mmio_cpl data is unknown");
            bench_.digest.word(0x400 + device_);
            bench_.digest.bytes(record.data, 64);
            bench_.loads.add(record);
            load.live = false;
            loads_out_--;
            loads_done++;
        }
    }
    drive.mcpl_ready = !rng_mmio_.chance(knobs.mcpl_stall);
}

// DMA reads

void Host::read_requests(const Shown &seen, Driven &drive) {
    steady(held_rd_, seen.rd_valid, drive.rd_ready, seen.rd_addr,
           u64(seen.rd_len) << 8 | seen.rd_tag, nullptr, 0, "m_dma_rd");
    if (seen.rd_valid && drive.rd_ready) {
        u64 boundary = std::min<u64>(u64(128) << drive.mrrs, kPageOfHost);
        u64 addr = seen.rd_addr, len = seen.rd_len;
        Read &read = reads_[seen.rd_tag];
        bench_.digest.word(addr ^ (len << 48));
        if (len == 0 || crosses(addr, len, boundary))
            bench_.fail(device_,
                        "DMA read of %lu bytes at %#lx: a read is not empty and stays inside one "
                        "aligned block of %lu bytes (max read request size)", len, addr, boundary);
        if (read.live)
            bench_.fail(device_, "read tag %d is reused before its completion", seen.rd_tag);
        iommu.access(addr, len, Iommu::kRead);
        reads_requested++, read_bytes += len;
        bench_.shake(kPinRead, device_, addr, len << 8 | seen.rd_tag);
        Fault fault = bench_.memory[device_].fault(addr, len);
        if (fault != Fault::drop && len != 0 && !read.live) {
            read = Read();
            read.live = true;
            read.addr = addr, read.len = len;
            read.error = fault == Fault::error;
            read.late = fault == Fault::late;
            read.order = read_order_++;
            read.writes_before = handed_;
            u64 latency = rng_read_.between(knobs.rd_latency_min, knobs.rd_latency_max);
            if (rng_read_.chance(knobs.rd_tail)) latency += rng_read_.below(knobs.rd_tail_max);
            if (fault == Fault::late) latency += knobs.rd_late;
            read.due = bench_.cycle + latency;
            // A failed read ends early without data, or its last data is poisoned.
            read.poisoned = read.error && rng_read_.chance(1 << 15);
            if (read.error && len > 64) read.beats_before_error = rng_read_.below((len + 63) / 64);
            live_.push_back(seen.rd_tag);
        }
    }
    drive.rd_ready = !rng_read_.chance(knobs.rd_stall);
}

// Returns the tag of the next completion beat, or -1.
int Host::choose() {
    u64 now = bench_.cycle;
    if (current_ >= 0 && !(knobs.rd_interleave && reads_[current_].chunk == 0)) return current_;
    if (!knobs.rd_reorder) {
        // Request order, as with one root port without relaxed ordering.
        return !live_.empty() && reads_[live_.front()].due <= now ? live_.front() : -1;
    }
    int ready[256], count = 0;
    for (int tag : live_)
        if (reads_[tag].due <= now) ready[count++] = tag;
    return count == 0 ? -1 : ready[rng_read_.below(count)];
}

void Host::beat(Read &read, int tag, Driven &drive) {
    if (!read.started) {
        apply_until(read.writes_before);
        read.started = true;
    }
    drive.cpl_valid = drive.cpl_new = true;
    drive.cpl_tag = tag;
    if (read.error && !read.poisoned && read.done / 64 >= read.beats_before_error) {
        drive.cpl_err = drive.cpl_last = true;
        drive.cpl_bytes = 0;
        std::memset(drive.cpl_data, 0, 64);
        read.done = read.len;
        read.chunk = 0;
        return;
    }
    u32 left = read.len - read.done;
    if (read.chunk == 0) {
        read.chunk = left;
        if (!read.error && rng_read_.chance(knobs.rd_split)) {
            u64 at = read.addr + read.done, rcb = knobs.rd_rcb;
            u64 to_first = rcb - at % rcb;
            if (to_first < left)
                read.chunk = to_first + rcb * rng_read_.below((left - to_first + rcb - 1) / rcb);
        }
    }
    u32 bytes = std::min<u32>(read.chunk, 64);
    std::memset(drive.cpl_data, 0, 64);
    bench_.memory[device_].read(read.addr + read.done, drive.cpl_data, bytes);
    read.done += bytes;
    read.chunk -= bytes;
    drive.cpl_bytes = bytes;
    drive.cpl_last = read.done == read.len;
    drive.cpl_err = read.error && drive.cpl_last;
    read_rate_.use(knobs.rd_rate, bytes);
}

void Host::read_responses(const Shown &seen, Driven &drive) {
    read_rate_.tick(knobs.rd_rate);
    if (drive.cpl_valid && seen.cpl_ready) {
        bench_.digest.word(0x600 + device_ + (u64(drive.cpl_tag) << 16));
        bench_.shake(kPinRdCpl, device_, drive.cpl_tag, drive.cpl_last);
        drive.cpl_valid = false;
        if (drive.cpl_last) {
            reads_[drive.cpl_tag].live = false;
            live_.erase(std::find(live_.begin(), live_.end(), int(drive.cpl_tag)));
        }
    }
    if (drive.cpl_valid || live_.empty()) return;
    // A read completion does not pass an earlier store of the host.
    bool store_stalls = drive.mmio_valid && drive.mmio_write && !seen.mmio_ready;
    if (store_stalls || !read_rate_.allow(knobs.rd_rate)) return;
    if (rng_read_.chance(knobs.rd_gap)) return;
    int tag = choose();
    if (tag < 0) return;
    Read &read = reads_[tag];
    beat(read, tag, drive);
    current_ = drive.cpl_last ? -1 : tag;
}

// DMA writes

void Host::writes(const Shown &seen, Driven &drive) {
    write_rate_.tick(knobs.wr_rate);
    u32 left = gathering_.empty() ? seen.wr_len : write_len_ - gathering_.size();
    u32 bytes = seen.wr_valid ? std::min<u32>(64, left) : 0;
    steady(held_wr_, seen.wr_valid, drive.wr_ready, seen.wr_addr,
           u64(seen.wr_len) << 1 | seen.wr_last, seen.wr_data, bytes, "m_dma_wr");
    if (seen.wr_valid && drive.wr_ready) {
        u64 addr = seen.wr_addr, len = seen.wr_len;
        bench_.shake(kPinWrite, device_, addr, len << 1 | seen.wr_last);
        u64 boundary = std::min<u64>(u64(128) << drive.mps, kPageOfHost);
        if (gathering_.empty()) {
            if (len == 0 || crosses(addr, len, boundary))
                bench_.fail(device_,
                            "DMA write of %lu bytes at %#lx: a write is not empty and stays inside "
                            "one aligned block of %lu bytes (max payload size)", len, addr, boundary);
            if (!is_message(addr)) iommu.access(addr, len, Iommu::kWrite);
            write_addr_ = addr, write_len_ = len;
        } else if (addr != write_addr_ || len != write_len_) {
            bench_.fail(device_, "m_dma_wr address or length changed inside a packet");
        }
        u64 used = bytes == 64 ? kNoBytes : (u64(1) << bytes) - 1;
        if ((seen.wr_x & used) != 0) bench_.fail(device_, "m_dma_wr data at %#lx is unknown", addr);
        gathering_.insert(gathering_.end(), seen.wr_data, seen.wr_data + bytes);
        write_rate_.use(knobs.wr_rate, bytes);
        bool whole = gathering_.size() >= write_len_;
        if (whole != seen.wr_last)
            bench_.fail(device_, "m_dma_wr last is wrong: %zu of %u bytes", gathering_.size(),
                        write_len_);
        if (whole || seen.wr_last) {
            u64 visible = bench_.cycle + rng_write_.between(knobs.wr_latency_min, knobs.wr_latency_max);
            last_seen_at_ = std::max(visible, last_seen_at_);
            released_ |= iommu.written(write_addr_, gathering_.data(), gathering_.size());
            bench_.digest.word(write_addr_);
            bench_.digest.bytes(gathering_.data(), gathering_.size());
            pending_.push_back({write_addr_, last_seen_at_, bench_.cycle, std::move(gathering_)});
            gathering_.clear();
            handed_++;
        }
    }
    drive.wr_ready =
        !knobs.wr_hold && write_rate_.allow(knobs.wr_rate) && !rng_write_.chance(knobs.wr_stall);
}

void Host::apply_until(u64 sequence) {
    while (applied_ < sequence && !pending_.empty()) {
        apply(pending_.front());
        pending_.pop_front();
        applied_++;
    }
}

void Host::apply(const Pending &write) {
    u64 len = write.data.size();
    write_bytes += len;
    if (is_message(write.addr)) {
        u32 value = 0;
        if (len != 4) bench_.fail(device_, "MSI-X message of %lu bytes", len);
        std::memcpy(&value, write.data.data(), std::min<u64>(len, 4));
        bench_.interrupts.add({write.handed_at, write.addr, value, u32(device_)});
        interrupts++;
        return;
    }
    bench_.memory[device_].write(write.addr, write.data.data(), len);
    u64 at = knobs.log_data ? bench_.store_bytes(write.data.data(), len) : kNoBytes;
    bench_.writes.add({write.handed_at, write.addr, at, u32(len), u32(device_)});
}

}  // namespace efa
