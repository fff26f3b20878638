// SPDX-License-Identifier: Apache-2.0
// Runs the clock of the simulated devices.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "fabric.h"
#include "host.h"
#include "verilated.h"

namespace efa::live {

class Simulation {
   public:
    Simulation(const std::vector<Host *> &hosts, std::vector<u16> nodes, int carrier)
        : hosts_(hosts), fabric_(std::move(nodes), carrier) {
        for (Host *host : hosts) {
            std::string name = "device" + std::to_string(tops_.size());
            tops_.push_back(std::make_unique<Vtop>(&context_, name.c_str()));
            pins_.emplace_back(*tops_.back());
            host->drive_constants(pins_.back());
        }
        drive();
        for (auto &top : tops_) top->rst_por = 1;
        for (u32 cycle = 0; cycle < kResetCycles; cycle++) edge();
        for (auto &top : tops_) top->rst_por = 0;
        eval();
    }
    ~Simulation() {
        for (auto &top : tops_) top->final();
    }

    void clock() {
        bool busy = false;
        waits_ = false;
        for (size_t device = 0; device < pins_.size(); device++) {
            busy |= hosts_[device]->step(pins_[device]);
            busy |= fabric_.step(pins_[device], device);
            waits_ |= pins_[device].lane<u16>(tops_[device]->m_sends_open) != 0;
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
        for (auto &top : tops_) top->clk = 1;
        eval();
        drive();
        for (auto &top : tops_) top->clk = 0;
        eval();
    }
    void eval() {
        for (auto &top : tops_) top->eval();
    }

    std::vector<Host *> hosts_;
    Fabric fabric_;
    VerilatedContext context_;
    // Every device is an instance of the same model.
    std::vector<std::unique_ptr<Vtop>> tops_;
    std::vector<Pins> pins_;
    u32 quiet_cycles_ = 0;
    // A send waits for its acknowledgement, for its retransmission or for a receive of its peer.
    bool waits_ = false;
};

}  // namespace efa::live
