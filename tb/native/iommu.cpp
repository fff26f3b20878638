// SPDX-License-Identifier: Apache-2.0
#include "iommu.h"

#include <algorithm>
#include <cstring>

#include "bench.h"

namespace efa {

namespace {

constexpr size_t kRemembered = 256;

}  // namespace

void Iommu::restart() {
    on = false;
    epoch_ = ring_base_ = ring_bytes_ = next_ = 0;
    by_page_.clear(), large_.clear(), ranges_.clear(), of_object_.clear();
    releases_.clear(), past_.clear();
}

void Iommu::map(u64 object, const char *name, u64 addr, u64 len, u32 rights, bool forever) {
    if (len == 0) return;
    u64 key = next_++;
    ranges_[key] = {object, addr, len, forever ? kForever : epoch_, rights, name};
    of_object_[object].push_back(key);
    if (len > kLargeBytes) {
        large_.push_back(key);
        return;
    }
    for (u64 page = addr / kPage; page <= (addr + len - 1) / kPage; page++)
        by_page_[page].push_back(key);
}

void Iommu::release_at(u32 command, const u64 *objects, u64 count) {
    releases_[command].push_back({epoch_, std::vector<u64>(objects, objects + count)});
}

void Iommu::unmap(u64 key, const std::string &why) {
    auto found = ranges_.find(key);
    if (found == ranges_.end()) return;
    const Range &range = found->second;
    auto drop = [key](std::vector<u64> &keys) {
        keys.erase(std::remove(keys.begin(), keys.end(), key), keys.end());
    };
    if (range.len > kLargeBytes)
        drop(large_);
    else
        for (u64 page = range.addr / kPage; page <= (range.addr + range.len - 1) / kPage; page++)
            drop(by_page_[page]);
    past_.push_back({range.addr, range.len, range.name + ", " + why});
    if (past_.size() > kRemembered) past_.pop_front();
    ranges_.erase(found);
}

bool Iommu::permitted(u64 addr, u64 len, Right right) const {
    auto found = by_page_.find(addr / kPage);
    if (found != by_page_.end())
        for (u64 key : found->second)
            if (holds(ranges_.at(key), addr, len, right)) return true;
    for (u64 key : large_)
        if (holds(ranges_.at(key), addr, len, right)) return true;
    return false;
}

std::string Iommu::owner_before(u64 addr) const {
    for (auto one = past_.rbegin(); one != past_.rend(); one++)
        if (addr >= one->addr && addr - one->addr < one->len) return one->text;
    return "";
}

void Iommu::access(u64 addr, u64 len, Right right) {
    if (!on || len == 0 || permitted(addr, len, right)) return;
    std::string before = owner_before(addr);
    bench_.fail(device_,
                "DMA %s of %lu bytes at %#lx: expected memory of a live object, found %s",
                right == kRead ? "read" : "write", len, addr,
                before.empty() ? "memory that no object owns" : before.c_str());
}

bool Iommu::written(u64 addr, const u8 *data, u64 len) {
    if (!on || len < 2 || addr < ring_base_ || addr - ring_base_ >= ring_bytes_) return false;
    u16 command;
    std::memcpy(&command, data, sizeof command);
    auto due = releases_.find(command);
    // The scoreboard reports an unexpected response.
    if (due == releases_.end() || due->second.empty()) return false;
    Release release = std::move(due->second.front());
    due->second.pop_front();
    std::string why = "released by the response to command " + std::to_string(command) +
                      " in cycle " + std::to_string(bench_.cycle);
    bool any = false;
    for (u64 object : release.objects) {
        auto of = of_object_.find(object);
        if (of == of_object_.end()) continue;
        for (u64 key : of->second) unmap(key, why);
        any |= !of->second.empty();
        of_object_.erase(of);
    }
    return any;
}

void Iommu::drained() {
    if (!on) return;
    std::string why =
        "invalidated by the reset that drained in cycle " + std::to_string(bench_.cycle);
    std::vector<u64> old;
    for (const auto &[key, range] : ranges_)
        if (range.epoch < epoch_) old.push_back(key);
    for (u64 key : old) unmap(key, why);
    for (auto &[command, due] : releases_)
        while (!due.empty() && due.front().epoch < epoch_) due.pop_front();
}

}  // namespace efa
