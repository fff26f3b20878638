// SPDX-License-Identifier: Apache-2.0
// Runs the clock of the simulated devices.
#pragma once
#include <algorithm>
#include <memory>

#include "fabric.h"
#include "host.h"
#include "verilated.h"

namespace efa::live {

class Simulation {
   public:
    Simulation(const std::vector<Host *> &hosts, std::vector<u16> nodes, int carrier)
        : hosts_(hosts), fabric_(std::move(nodes), carrier), top_(std::make_unique<Vtop>(&context_, "")) {
        for (size_t device = 0; device < hosts.size(); device++) pins_.emplace_back(*top_, int(device));
        for (size_t device = 0; device < hosts.size(); device++)
            hosts[device]->drive_constants(pins_[device]);
        drive();
        top_->rst_por = 1;
        for (u32 cycle = 0; cycle < kResetCycles; cycle++) edge();
        top_->rst_por = 0;
        top_->eval();
    }
    ~Simulation() { top_->final(); }

    void clock() {
        bool busy = false;
        waits_ = false;
        for (size_t device = 0; device < pins_.size(); device++) {
            busy |= hosts_[device]->step(pins_[device]);
            busy |= fabric_.step(pins_[device], device);
            waits_ |= pins_[device].lane<u16>(top_->m_sends_open) != 0;
        }
        fabric_.carry(cycles);
        quiet_cycles_ = busy ? 0 : std::min(quiet_cycles_ + 1, kQuietCycles);
        edge();
        cycles++;
    }
    // The devices have been silent for longer than any of their own actions takes, and no timer of
    // the transport runs.
    bool idle() const { return quiet_cycles_ >= kQuietCycles && !waits_ && !fabric_.busy(); }
    u32 quiet_cycles() const { return quiet_cycles_; }
    // Runs an idle device for the time of an asynchronous event.
    void wake() { quiet_cycles_ = std::min(quiet_cycles_, kQuietCycles - kEventCycles); }

    u64 cycles = 0;

   private:
    static constexpr u32 kResetCycles = 8;
    // Longer than the sweep of the tables in a reset, which takes at most 2^14 cycles.
    static constexpr u32 kQuietCycles = 20000, kEventCycles = 512;

    void drive() {
        for (size_t device = 0; device < pins_.size(); device++) {
            hosts_[device]->drive(pins_[device]);
            fabric_.drive(pins_[device], device);
        }
    }
    void edge() {
        top_->clk = 1;
        top_->eval();
        drive();
        top_->clk = 0;
        top_->eval();
    }

    std::vector<Host *> hosts_;
    Fabric fabric_;
    VerilatedContext context_;
    std::unique_ptr<Vtop> top_;
    std::vector<Pins> pins_;
    u32 quiet_cycles_ = 0;
    // A send waits for its acknowledgement, for its retransmission or for a receive of its peer.
    bool waits_ = false;
};

}  // namespace efa::live
