// SPDX-License-Identifier: Apache-2.0
#include "recorder.h"

namespace efa::live {

namespace {

void bytes(FILE *to, const u8 *data, u32 size) {
    std::fputc('"', to);
    for (u32 at = 0; at < size; at++) std::fprintf(to, "%02x", data[at]);
    std::fputs("\"]\n", to);
}

}  // namespace

FILE *Sessions::of(u16 node) {
    if (node != node_) std::fprintf(pipe_, "[\"node\",%u]\n", node);
    node_ = node;
    return pipe_;
}

void Sessions::end() {
    if (--clients_ != 0) return;
    std::fputs("[\"end\"]\n", pipe_);
    std::fflush(pipe_);
    number_++, node_ = 1;
}

void Recorder::store(const LineAccess &store) {
    if (!on()) return;
    if (!client_) sessions_.begin();
    FILE *to = sessions_.of(node_);
    if (!open()) std::fputs("[\"reset\"]\n", to);
    session_ = sessions_.number();
    client_ = stored_ = true;
    u32 lane = u32(__builtin_ctzll(store.enables));
    std::fprintf(to, "[\"w\",%u,%u,", store.bar, store.addr + lane);
    bytes(to, store.data + lane, u32(__builtin_popcountll(store.enables)));
}

void Recorder::line(const char *kind, u64 addr, const u8 *data, u32 size) {
    if (!open()) return;
    FILE *to = sessions_.of(node_);
    std::fprintf(to, "[\"%s\",%lu,", kind, addr);
    bytes(to, data, size);
}

void Recorder::interrupt(u32 vector) {
    if (open()) std::fprintf(sessions_.of(node_), "[\"i\",%u]\n", vector);
}

void Recorder::reset() {
    if (open() && stored_) std::fputs("[\"reset\"]\n", sessions_.of(node_));
    stored_ = false;
}

void Recorder::end() {
    if (client_) sessions_.end();
    client_ = false;
}

}  // namespace efa::live
