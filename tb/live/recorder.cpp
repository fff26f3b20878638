// SPDX-License-Identifier: Apache-2.0
#include "recorder.h"

namespace efa::live {

void Recorder::store(const LineAccess &store) {
    if (!on()) return;
    if (reset_due_) std::fputs("[\"reset\"]\n", pipe_);
    reset_due_ = false, begun_ = true;
    u32 lane = u32(__builtin_ctzll(store.enables));
    std::fprintf(pipe_, "[\"w\",%u,%u,", store.bar, store.addr + lane);
    bytes(store.data + lane, u32(__builtin_popcountll(store.enables)));
}

void Recorder::line(const char *kind, u64 addr, const u8 *data, u32 size) {
    if (!begun_) return;
    std::fprintf(pipe_, "[\"%s\",%lu,", kind, addr);
    bytes(data, size);
}

void Recorder::bytes(const u8 *data, u32 size) {
    std::fputc('"', pipe_);
    for (u32 at = 0; at < size; at++) std::fprintf(pipe_, "%02x", data[at]);
    std::fputs("\"]\n", pipe_);
}

void Recorder::interrupt(u32 vector) {
    if (begun_) std::fprintf(pipe_, "[\"i\",%u]\n", vector);
}

void Recorder::end() {
    if (begun_) std::fputs("[\"end\"]\n", pipe_);
    if (on()) std::fflush(pipe_);
    begun_ = false, reset_due_ = true;
}

}  // namespace efa::live
