// SPDX-License-Identifier: Apache-2.0
// Writes what the devices exchange with their clients, as lines of a recorded session, to a pipe.
#pragma once
#include <cstdio>

#include "host.h"
#include "watcher.h"

namespace efa::live {

// The sessions of all devices. A session begins with the first store of a client and ends when all
// clients have left. efa_cosim/live/simulated.py reads the pipe: it writes a file for each session.
class Sessions {
   public:
    // Without a file descriptor (-1), nothing is recorded.
    explicit Sessions(int fd) : pipe_(fd < 0 ? nullptr : fdopen(fd, "w")) {}
    Sessions(Sessions &&) = delete;
    ~Sessions() {
        if (pipe_ != nullptr) fclose(pipe_);
    }
    bool on() const { return pipe_ != nullptr; }
    u32 number() const { return number_; }
    // Returns the pipe for a line of a node.
    FILE *of(u16 node);
    // A client has stored for the first time; a client that has stored has left.
    void begin() { clients_++; }
    void end();

   private:
    FILE *pipe_;
    u32 number_ = 1, clients_ = 0;
    u16 node_ = 1;  // of the last line
};

// The part of one device in the sessions.
class Recorder : public Watcher {
   public:
    Recorder(Sessions &sessions, u16 node) : sessions_(sessions), node_(node) {}
    bool on() const { return sessions_.on(); }

    void reset() override;
    void store(const LineAccess &store) override;
    void read(u64 addr, const u8 *data, u32 size) override { line("m", addr, data, size); }
    void written(u64 addr, const u8 *data, u32 size) override { line("d", addr, data, size); }
    void interrupt(u32 vector) override;
    // The client has left.
    void end();

   private:
    // True from the first store of the device in a session to the end of the session.
    bool open() const { return session_ == sessions_.number(); }
    void line(const char *kind, u64 addr, const u8 *data, u32 size);

    Sessions &sessions_;
    const u16 node_;
    u32 session_ = 0;  // the last one with a store of this device
    // The present client has stored; the device has executed a store since the last reset.
    bool client_ = false, stored_ = false;
};

}  // namespace efa::live
