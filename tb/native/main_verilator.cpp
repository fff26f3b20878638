// SPDX-License-Identifier: Apache-2.0
// Runs the Verilator simulation: the callbacks of cocotb, and between them the clock at full speed.
// The pins of a device are ports of its top, so a transactor reads and writes them in place. Every
// device is an instance of the same model: one build serves simulations of one and of two devices.
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "Vtop.h"
#include "bench.h"
#include "verilated.h"
#include "verilated_vpi.h"

#if VM_TRACE
#if VM_TRACE_FST
#include "verilated_fst_c.h"
using Trace = VerilatedFstC;
static const char *const kTraceFile = "dump.fst";
#else
#include "verilated_vcd_c.h"
using Trace = VerilatedVcdC;
static const char *const kTraceFile = "dump.vcd";
#endif
#endif

extern "C" void vlog_startup_routines_bootstrap(void);

namespace {

using namespace efa;

constexpr u64 kHalfPeriod = 2000;  // ps
constexpr u64 kNever = ~u64(0);

// The number of devices in this simulation (tb/system_run.py).
const char *const kDevices = "efa_devices=";

template <class V, class T>
V get(const T &port) {
    V value;
    std::memcpy(&value, &port, sizeof(V));
    return value;
}

template <class V, class T>
void set(T &port, V value) {
    std::memcpy(&port, &value, sizeof(V));
}

template <class T>
const u8 *bytes(const T &port) {
    return reinterpret_cast<const u8 *>(&port);
}

template <class T>
void set_wide(T &port, const u8 *from) {
    std::memcpy(&port, from, 64);
}

class Simulation {
   public:
    explicit Simulation(int argc, char **argv) {
        context_.commandArgs(argc, argv);
        context_.fatalOnVpiError(false);
        context_.timeunit(-9);
        context_.timeprecision(-12);
#if VM_TRACE
        for (int i = 1; i < argc; i++)
            if (std::strcmp(argv[i], "--trace") == 0) trace_ = std::make_unique<Trace>();
        context_.traceEverOn(trace_ != nullptr);
#endif
        // cocotb finds the first device by the name of the top module, and its `wake`.
        for (int device = 0; device < devices(); device++) {
            std::string name = device == 0 ? "" : "device" + std::to_string(device);
            tops_.push_back(std::make_unique<Vtop>(&context_, name.c_str()));
        }
#if VM_TRACE
        if (trace_) {
            for (auto &top : tops_) top->trace(trace_.get(), 99);
            trace_->open(kTraceFile);
        }
#endif
    }

    int run() {
        vlog_startup_routines_bootstrap();
        drive_pins();
        for (auto &top : tops_) top->rst_por = 1;
        VerilatedVpi::callCbs(cbStartOfSimulation);
        settle();
        while (!context_.gotFinish()) {
            step_callbacks();
            u64 deadline = VerilatedVpi::cbNextDeadline();
            if (bench().started())
                run_clock(deadline);
            else if (deadline == kNever)
                break;  // no callback is left that can start the clock
            else
                context_.time(deadline);
            VerilatedVpi::callCbs(cbNextSimTime);
            settle();
            VerilatedVpi::callTimedCbs();
            settle();
        }
        for (auto &top : tops_) top->final();
        VerilatedVpi::callCbs(cbEndOfSimulation);
#if VM_TRACE
        if (trace_) trace_->close();
#endif
#if VM_COVERAGE
        context_.coveragep()->write();
#endif
        return context_.errorCount() > 0 ? 1 : 0;
    }

   private:
    int devices() {
        std::string option = context_.commandArgsPlusMatch(kDevices);
        return option.empty() ? 1 : std::stoi(option.substr(option.find('=') + 1));
    }

    void eval() {
        for (auto &top : tops_) top->eval();
    }

    static void settle() {
        while (VerilatedVpi::callValueCbs()) {
        }
    }

    // Runs one VPI time step with the writes and the phases of cocotb.
    void step_callbacks() {
        do {
            do {
                eval();
                VerilatedVpi::clearEvalNeeded();
                VerilatedVpi::doInertialPuts();
                settle();
            } while (VerilatedVpi::evalNeeded());
            VerilatedVpi::callCbs(cbReadWriteSynch);
            VerilatedVpi::doInertialPuts();
            settle();
        } while (VerilatedVpi::evalNeeded());
        VerilatedVpi::callCbs(cbReadOnlySynch);
        dump();
    }

    // Runs the clock until the bench wakes Python, or until the deadline of a callback.
    void run_clock(u64 deadline) {
        if (size_t(bench().devices) != tops_.size()) {
            std::fprintf(stderr, "efa: expected %zu devices by +%s, found %d in the bench\n",
                         tops_.size(), kDevices, bench().devices);
            context_.gotError(true);
            context_.gotFinish(true);
        }
        while (!context_.gotFinish()) {
            if (context_.time() + 2 * kHalfPeriod > deadline) {
                context_.time(deadline);
                return;
            }
            clock();
            if (bench().take_wake()) {
                tops_.front()->wake = !tops_.front()->wake;
                return;
            }
        }
    }

    void clock() {
        sample_pins();
        bench().step(shown_, driven_);
        for (auto &top : tops_) top->clk = 1;
        context_.timeInc(kHalfPeriod);
        eval();
        dump();
        for (auto &top : tops_) top->rst_por = bench().in_reset();
        drive_pins();
        for (auto &top : tops_) top->clk = 0;
        context_.timeInc(kHalfPeriod);
        eval();
        dump();
    }

    void dump() {
#if VM_TRACE
        if (trace_) trace_->dump(context_.time());
#endif
    }

    void sample_pins() {
        for (size_t d = 0; d < tops_.size(); d++) {
            const Vtop &top = *tops_[d];
            Shown &s = shown_[d];
            s.flr_done = top.m_cfg_flr_done != 0;
            s.mmio_ready = top.s_mmio_ready != 0;
            s.cpl_ready = top.s_dma_rd_cpl_ready != 0;
            s.net_ready = top.s_net_ready != 0;
            s.aenq_ready = top.s_aenq_ready != 0;
            s.mcpl_valid = top.m_mmio_cpl_valid != 0;
            s.mcpl_tag = get<u8>(top.m_mmio_cpl_tag);
            s.mcpl_data = bytes(top.m_mmio_cpl_data);
            s.rd_valid = top.m_dma_rd_valid != 0;
            s.rd_addr = get<u64>(top.m_dma_rd_addr);
            s.rd_len = get<u16>(top.m_dma_rd_len);
            s.rd_tag = get<u8>(top.m_dma_rd_tag);
            s.wr_valid = top.m_dma_wr_valid != 0;
            s.wr_addr = get<u64>(top.m_dma_wr_addr);
            s.wr_len = get<u16>(top.m_dma_wr_len);
            s.wr_last = top.m_dma_wr_last != 0;
            s.wr_data = bytes(top.m_dma_wr_data);
            s.net_valid = top.m_net_valid != 0;
            s.net_keep = get<u64>(top.m_net_keep);
            s.net_last = top.m_net_last != 0;
            s.net_data = bytes(top.m_net_data);
            s.cnt_data = get<u32>(top.cnt_data);
            s.ev_valid = get<u32>(top.ev_valid);
            s.ev_data = bytes(top.ev_data);
        }
    }

    void drive_pins() {
        for (size_t d = 0; d < tops_.size(); d++) {
            Vtop &top = *tops_[d];
            Driven &v = driven_[d];
            top.s_cfg_bme = v.bme;
            top.s_cfg_flr = v.flr;
            top.s_cfg_msix_enable = v.msix_enable;
            top.s_cfg_msix_fmask = v.msix_fmask;
            set<u8>(top.s_cfg_profile, v.profile);
            set<u8>(top.s_cfg_mps, v.mps);
            set<u8>(top.s_cfg_mrrs, v.mrrs);
            set<u16>(top.s_cfg_node_id, v.node);
            set<u8>(top.s_cfg_interface, v.version);
            set<u16>(top.s_cfg_moderation, v.moderation);
            set<u8>(top.s_cfg_paths, v.paths);
            set<u8>(top.s_cfg_tick, v.tick);
            set<u32>(top.s_cfg_keep_alive, v.keep_alive);
            top.s_aenq_valid = v.aenq_valid;
            if (v.aenq_new) {
                set<u16>(top.s_aenq_group, v.aenq_group);
                set<u16>(top.s_aenq_syndrome, v.aenq_syndrome);
                set_wide(top.s_aenq_data, v.aenq_data);
                v.aenq_new = false;
            }
            top.cnt_run = v.cnt_run;
            top.cnt_clear = v.cnt_clear;
            set<u8>(top.cnt_index, v.cnt_index);
            top.s_mmio_valid = v.mmio_valid;
            if (v.mmio_new) {
                top.s_mmio_write = v.mmio_write;
                set<u8>(top.s_mmio_bar, v.mmio_bar);
                set<u32>(top.s_mmio_addr, v.mmio_addr);
                set<u64>(top.s_mmio_be, v.mmio_be);
                set<u8>(top.s_mmio_tag, v.mmio_tag);
                set_wide(top.s_mmio_data, v.mmio_data);
                v.mmio_new = false;
            }
            top.m_mmio_cpl_ready = v.mcpl_ready;
            top.m_dma_rd_ready = v.rd_ready;
            top.m_dma_wr_ready = v.wr_ready;
            top.m_net_ready = v.out_ready;
            top.s_dma_rd_cpl_valid = v.cpl_valid;
            if (v.cpl_new) {
                set<u8>(top.s_dma_rd_cpl_tag, v.cpl_tag);
                set<u8>(top.s_dma_rd_cpl_bytes, v.cpl_bytes);
                top.s_dma_rd_cpl_last = v.cpl_last;
                top.s_dma_rd_cpl_err = v.cpl_err;
                set_wide(top.s_dma_rd_cpl_data, v.cpl_data);
                v.cpl_new = false;
            }
            top.s_net_valid = v.net_valid;
            if (v.net_new) {
                set<u64>(top.s_net_keep, v.net_keep);
                top.s_net_last = v.net_last;
                set_wide(top.s_net_data, v.net_data);
                v.net_new = false;
            }
        }
    }

    VerilatedContext context_;
    std::vector<std::unique_ptr<Vtop>> tops_;
#if VM_TRACE
    std::unique_ptr<Trace> trace_;
#endif
    Shown shown_[kMaxDevices];
    Driven driven_[kMaxDevices];
};

}  // namespace

int main(int argc, char **argv) { return Simulation(argc, argv).run(); }
