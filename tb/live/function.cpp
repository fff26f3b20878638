// SPDX-License-Identifier: Apache-2.0
#include "function.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "efa_defs.h"

namespace efa::live {

namespace {

void signal(const Fd &eventfd) {
    u64 one = 1;
    // An eventfd that cannot be written is the client's; EAGAIN: it is signalled already.
    ssize_t count = ::write(eventfd.number(), &one, sizeof one);
    (void)count;
}

// Quiet cycles after which the effects of a recorded store are complete: more than the device is
// silent in a reset (2^14), in an admin command (1,228 were measured), and in other work.
u32 settling(const LineAccess &store) {
    if (store.bar == EFA_MEM_BAR) return 0;
    if (store.bar != EFA_REG_BAR) return 1024;
    switch (store.addr + u32(__builtin_ctzll(store.enables))) {
        case EFA_REG__DEV_CTL: return 20000;
        case EFA_REG__AQ_PROD_DB: return 2048;
        default: return 1024;
    }
}

}  // namespace

Function::Function(const ConfigSpace &config, u16 node, u8 profile, u8 paths, Sessions &sessions,
                   bool map_llq)
    : host(memory, node, profile, paths, config.table_bar(), config.table_offset(),
           config.vectors(), [this](u32 vector) { interrupt(vector); }),
      recorder_(sessions, node), config_(config), vectors_(config.vectors()) {
    if (recorder_.on()) host.watchers.push_back(&recorder_);
    if (map_llq) host.watchers.push_back(&llq_.emplace(config.region_bytes(EFA_MEM_BAR)));
    apply_straps();
}

void Function::leave() {
    recorder_.end();
    if (llq_) llq_->renew();
    memory.clear();
    forget(0, u32(vectors_.size()));
    work_.reset();
    version_known_ = false;
    requests = lost_interrupts_ = refused_stores_ = 0;
    reset();
}

void Function::begin(Message message) {
    requests++;
    work_.emplace();
    work_->header = message.header;
    try {
        work_->payload = execute(message);
    } catch (const Refused &refusal) {
        work_->error = refusal.number;
    }
}

std::optional<Bytes> Function::proceed(u32 quiet, int &fd) {
    if (!work_ || host.resetting()) return {};
    Work &work = *work_;
    if (!host.free() || quiet < work.settle) return {};
    work.settle = 0;
    if (work.flies) {
        const LineAccess &line = work.lines.front();
        for (u32 lane = 0; lane < kLine; lane++)
            if ((line.enables >> lane & 1) != 0) work.payload.push_back(host.loaded()[lane]);
        work.lines.pop_front();
        work.flies = false;
    }
    if (!work.lines.empty()) {
        const LineAccess &line = work.lines.front();
        host.access(line);
        if (work.load) {
            work.flies = true;
            return {};
        }
        for (Watcher *each : host.watchers) each->store(line);
        if (recorder_.on()) work.settle = settling(line);
        work.lines.pop_front();
        return {};
    }
    Bytes answer;
    fd = work.fd;
    if ((work.header.flags & kNoReply) == 0) answer = reply(work.header, work.payload, work.error);
    work_.reset();
    return answer;
}

std::string Function::counts() const {
    std::string text;
    auto add = [&](u64 count, const char *name) {
        if (count != 0) text += format(", %lu %s", count, name);
    };
    add(memory.failed_reads, "failed DMA reads");
    add(memory.dropped_writes, "dropped DMA writes");
    add(lost_interrupts_, "interrupts without an eventfd");
    add(refused_stores_, "accesses outside a BAR");
    if (!memory.first_failure.empty()) text += "; first " + memory.first_failure;
    return text;
}

Bytes Function::execute(Message &message) {
    u16 command = message.header.command;
    if (command == kVersion) {
        if (version_known_) throw ProtocolError("a second VERSION");
        version_known_ = true;
        return version(message.payload);
    }
    if (!version_known_) throw ProtocolError(format("command %u before VERSION", command));
    switch (command) {
        case kDmaMap: return map(message);
        case kDmaUnmap: {
            auto range = fields<DmaUnmap>(message.payload, "DMA_UNMAP");
            if (range.flags != 0) throw Refused{ENOTSUP};
            memory.unmap(range.address, range.bytes);
            return message.payload;
        }
        case kGetInfo: {
            u32 info[] = {16, kResets | kIsPci, kRegions, kIrqs};
            return bytes_of(info);
        }
        case kGetRegionInfo: return region_info(message);
        case kGetIrqInfo: return irq_info(message);
        case kSetIrqs: return set_irqs(message);
        case kRegionRead: return read(message);
        case kRegionWrite: return write(message);
        case kRegionWriteMulti: return write_multi(message);
        case kDeviceReset: reset(); return {};
        default: throw Refused{ENOTSUP};
    }
}

// Memory of the client

Bytes Function::map(Message &message) {
    auto wanted = fields<DmaMap>(message.payload, "DMA_MAP");
    if (message.fds.size() > 1)
        throw ProtocolError(format("DMA_MAP with %zu file descriptors; expected at most 1",
                                   message.fds.size()));
    Fd fd;
    if (!message.fds.empty()) fd = std::move(message.fds[0]);
    memory.map(wanted.address, wanted.bytes, std::move(fd), wanted.offset,
               (wanted.flags & kDmaRead) != 0, (wanted.flags & kDmaWrite) != 0);
    return {};
}

// Regions

Bytes Function::region_info(const Message &message) {
    u32 index = fields<RegionInfo>(message.payload, "GET_REGION_INFO").index;
    if (index >= kRegions) throw Refused{EINVAL};
    u64 size = config_.region_bytes(index);
    u32 flags = size != 0 ? kReadable | kWritable : 0u;
    if (llq_ && index == EFA_MEM_BAR) flags |= kMappable, work_->fd = llq_->fd();
    return bytes_of(RegionInfo{sizeof(RegionInfo), flags, index, 0, size, 0});
}

bool Function::inside(const Access &access) const {
    u64 size = config_.region_bytes(access.region);
    return access.size != 0 && access.offset < size && access.size <= size - access.offset;
}

// Splits an access at lines, as a CPU does.
void Function::lines(const Access &access, const u8 *data) {
    for (u32 at = 0; at < access.size;) {
        u32 offset = u32(access.offset) + at, lane = offset % kLine;
        u32 size = std::min(kLine - lane, access.size - at);
        LineAccess line{data != nullptr, u8(access.region), offset - lane, 0, {}};
        line.enables = (size == kLine ? ~u64(0) : (u64(1) << size) - 1) << lane;
        if (data != nullptr) std::memcpy(line.data + lane, data + at, size);
        if (llq_ && data != nullptr && line.bar == EFA_LIMITS__DB_BAR && size == sizeof(u32)) {
            u32 value;
            std::memcpy(&value, data + at, sizeof value);
            llq_->posted(offset, value, work_->lines);
        }
        work_->lines.push_back(line);
        at += size;
    }
}

Bytes Function::read(const Message &message) {
    auto access = fields<Access>(message.payload, "REGION_READ");
    if (access.size > kMostDataBytes)
        throw ProtocolError(format("an access of %u bytes; expected at most %u", access.size,
                                   kMostDataBytes));
    if (!inside(access)) throw Refused{EINVAL};
    Bytes answer = bytes_of(access);
    if (access.region == kConfigRegion) {
        Bytes data = config_.read(u32(access.offset), access.size);
        answer.insert(answer.end(), data.begin(), data.end());
    } else {
        lines(access, nullptr);
        work_->load = true;
    }
    return answer;
}

Bytes Function::write(const Message &message) {
    auto access = fields<Access>(message.payload, "REGION_WRITE");
    if (message.payload.size() - sizeof access != access.size)
        throw ProtocolError(format("REGION_WRITE of %u bytes with %zu bytes of data", access.size,
                                   message.payload.size() - sizeof access));
    check_store(access);
    store(access, message.payload.data() + sizeof access);
    return bytes_of(access);
}

Bytes Function::write_multi(const Message &message) {
    u64 count = fields<u64>(message.payload, "REGION_WRITE_MULTI");
    u64 bytes = message.payload.size() - sizeof count;
    if (bytes % sizeof(WriteOfMulti) != 0 || bytes / sizeof(WriteOfMulti) != count)
        throw ProtocolError(format("REGION_WRITE_MULTI of %lu writes with %lu bytes; expected %zu "
                                   "bytes each", count, bytes, sizeof(WriteOfMulti)));
    std::vector<WriteOfMulti> writes(count);
    if (count != 0) std::memcpy(writes.data(), message.payload.data() + sizeof count, bytes);
    for (const auto &one : writes)
        if (one.size > sizeof one.data)
            throw ProtocolError(format("a write of %u bytes in REGION_WRITE_MULTI; expected at most "
                                       "%zu", one.size, sizeof one.data));
    // All of them are refused, or none.
    for (const auto &one : writes) check_store({one.offset, one.region, one.size});
    for (const auto &one : writes) store({one.offset, one.region, one.size}, one.data);
    return bytes_of(count);
}

void Function::check_store(const Access &access) {
    if (inside(access)) return;
    refused_stores_++;
    throw Refused{EINVAL};
}

void Function::store(const Access &access, const u8 *data) {
    if (access.region != kConfigRegion) return lines(access, data);
    if (config_.write(u32(access.offset), data, access.size))
        reset();
    else
        apply_straps();
}

// Interrupts and resets

Bytes Function::irq_info(const Message &message) const {
    u32 index = fields<IrqInfo>(message.payload, "GET_IRQ_INFO").index;
    if (index >= kIrqs) throw Refused{EINVAL};
    u32 count = index == kMsixIrq ? u32(vectors_.size()) : 0;
    return bytes_of(IrqInfo{sizeof(IrqInfo), count != 0 ? kIrqEventfd | kIrqNoResize : 0u, index, count});
}

Bytes Function::set_irqs(Message &message) {
    auto wanted = fields<IrqSet>(message.payload, "SET_IRQS");
    u64 count = wanted.index == kMsixIrq ? vectors_.size() : 0;
    if (wanted.index >= kIrqs || u64(wanted.start) + wanted.count > count) throw Refused{EINVAL};
    if (wanted.flags == (kDataNone | kActionTrigger) && wanted.count == 0) {
        forget(0, u32(count));
    } else if (wanted.flags == (kDataEventfd | kActionTrigger)) {
        auto &fds = message.fds;
        if (!fds.empty() && fds.size() != wanted.count)
            throw ProtocolError(format("SET_IRQS of %u interrupts with %zu file descriptors",
                                       wanted.count, fds.size()));
        forget(wanted.start, wanted.count);
        for (u32 at = 0; at < fds.size(); at++) {
            fcntl(fds[at].number(), F_SETFL, fcntl(fds[at].number(), F_GETFL) | O_NONBLOCK);
            vectors_[wanted.start + at] = std::move(fds[at]);
        }
    } else if ((wanted.flags & kActionTrigger) != 0) {
        trigger(wanted, message);
    } else {
        throw Refused{ENOTSUP};
    }
    return {};
}

// The client tests its interrupts.
void Function::trigger(const IrqSet &wanted, const Message &message) const {
    const u8 *chosen = message.payload.data() + sizeof wanted;
    size_t known = message.payload.size() - sizeof wanted;
    bool all = (wanted.flags & kDataBool) == 0;
    for (u32 at = 0; at < wanted.count; at++) {
        const Fd &fd = vectors_[wanted.start + at];
        if (fd.open() && (all || (at < known && chosen[at] != 0))) signal(fd);
    }
}

void Function::forget(u32 start, u32 count) {
    for (u32 vector = start; vector < start + count; vector++) vectors_[vector] = Fd();
}

void Function::interrupt(u32 vector) {
    if (vector < vectors_.size() && vectors_[vector].open())
        signal(vectors_[vector]);
    else
        lost_interrupts_++;
    for (Watcher *each : host.watchers) each->interrupt(vector);
}

// Function-level reset; memory and eventfds of the client stay.
void Function::reset() {
    for (Watcher *each : host.watchers) each->reset();
    config_.reset();
    apply_straps();
    host.reset();
}

void Function::apply_straps() {
    host.straps = {config_.bus_master(), config_.max_payload(), config_.max_read_request()};
}

}  // namespace efa::live
