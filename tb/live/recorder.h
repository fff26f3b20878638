// SPDX-License-Identifier: Apache-2.0
// Writes what a device exchanges with its client, as lines of a recorded session, to a pipe.
#pragma once
#include <cstdio>

#include "host.h"
#include "watcher.h"

namespace efa::live {

// efa_cosim/live/simulated.py reads the pipe: it writes a file for each client.
class Recorder : public Watcher {
   public:
    // Without a file descriptor (-1), nothing is recorded.
    explicit Recorder(int fd) : pipe_(fd < 0 ? nullptr : fdopen(fd, "w")) {}
    ~Recorder() override {
        if (pipe_ != nullptr) fclose(pipe_);
    }
    bool on() const { return pipe_ != nullptr; }

    void reset() override { reset_due_ = true; }
    void store(const LineAccess &store) override;
    void read(u64 addr, const u8 *data, u32 size) override { line("m", addr, data, size); }
    void written(u64 addr, const u8 *data, u32 size) override { line("d", addr, data, size); }
    void interrupt(u32 vector) override;
    // The client has left.
    void end();

   private:
    void line(const char *kind, u64 addr, const u8 *data, u32 size);
    void bytes(const u8 *data, u32 size);

    FILE *pipe_;
    bool reset_due_ = true, begun_ = false;
};

}  // namespace efa::live
