// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace efa {

Memory::Memory() { create(); }

void Memory::create() {
    int shared = MAP_SHARED | MAP_NORESERVE | (arena_ ? MAP_FIXED : 0);
    fd_ = memfd_create("efa_host_memory", 0);
    void *at = MAP_FAILED;
    if (fd_ >= 0 && ftruncate(fd_, kArena) == 0)
        at = mmap(arena_, kArena, PROT_READ | PROT_WRITE, shared, fd_, 0);
    if (at == MAP_FAILED) {
        std::fprintf(stderr, "efa: no address space for the host memory\n");
        std::abort();
    }
    arena_ = static_cast<u8 *>(at);
    owner_ = getpid();
}

Memory::~Memory() {
    munmap(arena_, kArena);
    close(fd_);
}

void Memory::clear() {
    if (owner_ != getpid()) {
        // A forked process shares the arena of its parent, so it creates its own.
        close(fd_);
        create();
    } else if (used_ != 0) {
        // Removing the pages clears them and frees the committed memory.
        madvise(arena_, used_, MADV_REMOVE);
    }
    used_ = 0;
    pages_.clear();
    faults_.clear();
    last_page_ = ~u64(0);
}

u8 *Memory::page(u64 number) const {
    if (number == last_page_) return last_;
    auto it = pages_.find(number);
    if (it == pages_.end()) return nullptr;
    last_page_ = number;
    last_ = arena_ + it->second;
    return last_;
}

u8 *Memory::make(u64 number) {
    if (u8 *found = page(number)) return found;
    if (used_ + kPage > kArena) {
        std::fprintf(stderr, "efa: host memory is full\n");
        std::abort();
    }
    pages_[number] = used_;
    used_ += kPage;
    return page(number);
}

void Memory::read(u64 addr, void *to, u64 len) const {
    u8 *out = static_cast<u8 *>(to);
    while (len != 0) {
        u64 at = addr % kPage, part = std::min(len, kPage - at);
        if (const u8 *from = page(addr / kPage))
            std::memcpy(out, from + at, part);
        else
            std::memset(out, 0, part);
        addr += part, out += part, len -= part;
    }
}

void Memory::write(u64 addr, const void *from, u64 len) {
    const u8 *in = static_cast<const u8 *>(from);
    while (len != 0) {
        u64 at = addr % kPage, part = std::min(len, kPage - at);
        std::memcpy(make(addr / kPage) + at, in, part);
        addr += part, in += part, len -= part;
    }
}

int64_t Memory::map(u64 addr, u64 len) {
    u64 first = addr / kPage, last = (addr + (len ? len - 1 : 0)) / kPage;
    u8 *base = make(first);
    for (u64 number = first + 1; number <= last; number++)
        if (make(number) != base + (number - first) * kPage) return -1;
    return base - arena_ + static_cast<int64_t>(addr % kPage);
}

u64 Memory::word(u64 addr) const {
    u64 value = 0;
    read(addr, &value, 8);
    return value;
}

void Memory::add_fault(u64 addr, u64 len, Fault fault) { faults_.push_back({addr, len, fault}); }

Fault Memory::fault(u64 addr, u64 len) const {
    for (const Range &range : faults_)
        if (addr < range.addr + range.len && range.addr < addr + len) return range.fault;
    return Fault::none;
}

}  // namespace efa
