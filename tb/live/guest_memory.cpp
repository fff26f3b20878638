// SPDX-License-Identifier: Apache-2.0
#include "guest_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "protocol.h"

namespace efa::live {

namespace {

constexpr u64 kWordBytes = 8;

// True for a memfd whose owner gave up the right to shrink it, as QEMU does. A mapping of another
// file would end this process when the owner shrinks the file.
bool cannot_shrink(int fd) {
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

}  // namespace

GuestMemory::Range::~Range() {
    if (mapping != nullptr) munmap(mapping, mapped);
}

void GuestMemory::clear() {
    ranges_.clear();
    failed_reads = dropped_writes = 0;
    first_failure.clear();
}

void GuestMemory::map(u64 address, u64 size, Fd fd, u64 offset, bool readable, bool writable) {
    if (size == 0 || address > ~u64(0) - (size - 1))
        throw ProtocolError(format("map of %#lx bytes at %#lx; expected at least one byte, all below "
                                   "2^64", size, address));
    if (ranges_.size() == kMostRanges)
        throw ProtocolError(format("more than %u ranges are mapped", kMostRanges));
    auto after = ranges_.lower_bound(address);
    if (after != ranges_.end() && after->first - address < size) throw Refused{EEXIST};
    if (after != ranges_.begin()) {
        auto before = std::prev(after);
        if (address - before->first < before->second->size) throw Refused{EEXIST};
    }
    auto range = std::make_unique<Range>();
    range->size = size, range->readable = readable, range->writable = writable;
    if (fd.open()) {
        struct stat found;
        if (fstat(fd.number(), &found) != 0)
            throw ProtocolError(format("map of %#lx bytes: %s", size, std::strerror(errno)));
        u64 length = u64(found.st_size);
        if (offset > length || size > length - offset)
            throw ProtocolError(format("map of %#lx bytes at offset %#lx of a file that has %#lx "
                                       "bytes", size, offset, length));
        if (cannot_shrink(fd.number())) {
            // The offset is a multiple of a page of the client, which may be smaller.
            u64 start = offset - offset % u64(sysconf(_SC_PAGESIZE));
            u64 mapped = size + offset - start;
            void *at = mmap(nullptr, mapped, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED,
                            fd.number(), off_t(start));
            if (at == MAP_FAILED)
                throw ProtocolError(format("map of %#lx bytes: %s", size, std::strerror(errno)));
            range->mapping = at, range->mapped = mapped;
            range->at = static_cast<u8 *>(at) + (offset - start);
        } else {
            range->file = std::move(fd), range->offset = offset;
        }
    }
    ranges_.emplace(address, std::move(range));
}

void GuestMemory::unmap(u64 address, u64 size) {
    auto found = ranges_.find(address);
    if (found == ranges_.end() || found->second->size != size)
        throw ProtocolError(format("unmap of %#lx bytes at %#lx: no range was mapped with this "
                                   "address and size", size, address));
    ranges_.erase(found);
}

// Finds the pieces of a range of addresses; returns false if a byte is outside.
bool GuestMemory::pieces(u64 address, u64 size, bool writes, std::vector<Piece> &to) const {
    to.clear();
    while (size != 0) {
        auto after = ranges_.upper_bound(address);
        if (after == ranges_.begin()) return false;
        auto found = std::prev(after);
        const Range &range = *found->second;
        u64 offset = address - found->first;
        bool content = range.at != nullptr || range.file.open();
        if (offset >= range.size || !content || !(writes ? range.writable : range.readable))
            return false;
        u64 part = std::min(size, range.size - offset);
        to.push_back({&range, offset, part});
        address += part, size -= part;
        if (address == 0 && size != 0) return false;  // beyond 2^64
    }
    return true;
}

bool GuestMemory::read(u64 address, u8 *to, u64 size) {
    if (!pieces(address, size, false, pieces_)) {
        failed_reads++;
        note("read", address, size);
        return false;
    }
    for (const Piece &piece : pieces_) {
        const Range &range = *piece.range;
        if (range.at != nullptr) {
            std::memcpy(to, range.at + piece.offset, piece.size);
        } else {
            ssize_t count = pread(range.file.number(), to, piece.size, off_t(range.offset + piece.offset));
            u64 got = count < 0 ? 0 : u64(count);
            std::memset(to + got, 0, piece.size - got);
        }
        to += piece.size;
    }
    return true;
}

void GuestMemory::write(u64 address, const u8 *from, u32 size) {
    if (pieces(address, size, true, pieces_)) {
        put(from + size);
    } else {
        dropped_writes++;
        note("write", address, size);
    }
    if (on_write) on_write(address, from, size);
}

// Writes the bytes before `end` to the pieces of the present access.
void GuestMemory::put(const u8 *end) {
    // A guest polls the phase in the first word of an entry: that word becomes visible last.
    for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); piece++) {
        const Range &range = *piece->range;
        u64 first = std::min(kWordBytes, piece->size);
        end -= piece->size;
        if (range.at != nullptr) {
            u8 *at = range.at + piece->offset;
            std::memcpy(at + first, end + first, piece->size - first);
            __atomic_thread_fence(__ATOMIC_RELEASE);
            if (first == kWordBytes && reinterpret_cast<uintptr_t>(at) % kWordBytes == 0) {
                u64 word;
                std::memcpy(&word, end, sizeof word);
                __atomic_store_n(reinterpret_cast<u64 *>(at), word, __ATOMIC_RELEASE);
            } else {
                std::memcpy(at, end, first);
            }
        } else {
            // A file that has become too short, or a full one, is the client's.
            off_t at = off_t(range.offset + piece->offset);
            ssize_t rest = pwrite(range.file.number(), end + first, piece->size - first, at + off_t(first));
            ssize_t head = pwrite(range.file.number(), end, first, at);
            (void)rest, (void)head;
        }
    }
}

void GuestMemory::note(const char *what, u64 address, u64 size) {
    if (first_failure.empty())
        first_failure = format("%s of %lu bytes at %#lx", what, size, address);
}

}  // namespace efa::live
