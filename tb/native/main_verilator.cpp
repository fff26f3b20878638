// SPDX-License-Identifier: Apache-2.0
// Runs the Verilator simulation: the callbacks of cocotb, and between them the clock at full speed.
// The pins of the device are ports of the top, so a transactor reads and writes them in place.
#include <cstring>
#include <memory>

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

template <class T>
const u8 *lane(const T &port, size_t byte) {
    return reinterpret_cast<const u8 *>(&port) + byte;
}

template <class V, class T>
V get(const T &port, int device) {
    V value;
    std::memcpy(&value, lane(port, device * sizeof(V)), sizeof(V));
    return value;
}

template <class T>
bool bit(const T &port, int device) {
    return port >> device & 1;
}

template <class T>
void set_bit(T &port, int device, bool value) {
    port = static_cast<T>((port & ~(T(1) << device)) | (T(value) << device));
}

template <class V, class T>
void set(T &port, int device, V value) {
    std::memcpy(reinterpret_cast<u8 *>(&port) + device * sizeof(V), &value, sizeof(V));
}

template <class T>
void set_wide(T &port, int device, const u8 *from) {
    std::memcpy(reinterpret_cast<u8 *>(&port) + device * 64, from, 64);
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
        top_ = std::make_unique<Vtop>(&context_, "");
#if VM_TRACE
        if (trace_) {
            top_->trace(trace_.get(), 99);
            trace_->open(kTraceFile);
        }
#endif
    }

    int run() {
        vlog_startup_routines_bootstrap();
        drive_pins();
        top_->rst_por = 1;
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
        top_->final();
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
    static void settle() {
        while (VerilatedVpi::callValueCbs()) {
        }
    }

    // Runs one VPI time step with the writes and the phases of cocotb.
    void step_callbacks() {
        do {
            do {
                top_->eval();
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
        while (!context_.gotFinish()) {
            if (context_.time() + 2 * kHalfPeriod > deadline) {
                context_.time(deadline);
                return;
            }
            clock();
            if (bench().take_wake()) {
                top_->wake = !top_->wake;
                return;
            }
        }
    }

    void clock() {
        sample_pins();
        bench().step(shown_, driven_);
        top_->clk = 1;
        context_.timeInc(kHalfPeriod);
        top_->eval();
        dump();
        top_->rst_por = bench().in_reset();
        drive_pins();
        top_->clk = 0;
        context_.timeInc(kHalfPeriod);
        top_->eval();
        dump();
    }

    void dump() {
#if VM_TRACE
        if (trace_) trace_->dump(context_.time());
#endif
    }

    void sample_pins() {
        for (int d = 0; d < bench().devices; d++) {
            Shown &s = shown_[d];
            s.flr_done = bit(top_->m_cfg_flr_done, d);
            s.mmio_ready = bit(top_->s_mmio_ready, d);
            s.cpl_ready = bit(top_->s_dma_rd_cpl_ready, d);
            s.net_ready = bit(top_->s_net_ready, d);
            s.aenq_ready = bit(top_->s_aenq_ready, d);
            s.mcpl_valid = bit(top_->m_mmio_cpl_valid, d);
            s.mcpl_tag = get<u8>(top_->m_mmio_cpl_tag, d);
            s.mcpl_data = lane(top_->m_mmio_cpl_data, d * 64);
            s.rd_valid = bit(top_->m_dma_rd_valid, d);
            s.rd_addr = get<u64>(top_->m_dma_rd_addr, d);
            s.rd_len = get<u16>(top_->m_dma_rd_len, d);
            s.rd_tag = get<u8>(top_->m_dma_rd_tag, d);
            s.wr_valid = bit(top_->m_dma_wr_valid, d);
            s.wr_addr = get<u64>(top_->m_dma_wr_addr, d);
            s.wr_len = get<u16>(top_->m_dma_wr_len, d);
            s.wr_last = bit(top_->m_dma_wr_last, d);
            s.wr_data = lane(top_->m_dma_wr_data, d * 64);
            s.net_valid = bit(top_->m_net_valid, d);
            s.net_keep = get<u64>(top_->m_net_keep, d);
            s.net_last = bit(top_->m_net_last, d);
            s.net_data = lane(top_->m_net_data, d * 64);
            s.cnt_data = get<u32>(top_->cnt_data, d);
            s.ev_valid = get<u32>(top_->ev_valid, d);
            s.ev_data = lane(top_->ev_data, d * sizeof(Vtop::ev_data) / bench().devices);
        }
    }

    void drive_pins() {
        for (int d = 0; d < bench().devices; d++) {
            Driven &v = driven_[d];
            set_bit(top_->s_cfg_bme, d, v.bme);
            set_bit(top_->s_cfg_flr, d, v.flr);
            set_bit(top_->s_cfg_msix_enable, d, v.msix_enable);
            set_bit(top_->s_cfg_msix_fmask, d, v.msix_fmask);
            set<u8>(top_->s_cfg_profile, d, v.profile);
            set<u8>(top_->s_cfg_mps, d, v.mps);
            set<u8>(top_->s_cfg_mrrs, d, v.mrrs);
            set<u16>(top_->s_cfg_node_id, d, v.node);
            set<u8>(top_->s_cfg_interface, d, v.version);
            set<u16>(top_->s_cfg_moderation, d, v.moderation);
            set<u8>(top_->s_cfg_paths, d, v.paths);
            set<u8>(top_->s_cfg_tick, d, v.tick);
            set<u32>(top_->s_cfg_keep_alive, d, v.keep_alive);
            set_bit(top_->s_aenq_valid, d, v.aenq_valid);
            if (v.aenq_new) {
                set<u16>(top_->s_aenq_group, d, v.aenq_group);
                set<u16>(top_->s_aenq_syndrome, d, v.aenq_syndrome);
                set_wide(top_->s_aenq_data, d, v.aenq_data);
                v.aenq_new = false;
            }
            set_bit(top_->cnt_run, d, v.cnt_run);
            set_bit(top_->cnt_clear, d, v.cnt_clear);
            set<u8>(top_->cnt_index, d, v.cnt_index);
            set_bit(top_->s_mmio_valid, d, v.mmio_valid);
            if (v.mmio_new) {
                set_bit(top_->s_mmio_write, d, v.mmio_write);
                set<u8>(top_->s_mmio_bar, d, v.mmio_bar);
                set<u32>(top_->s_mmio_addr, d, v.mmio_addr);
                set<u64>(top_->s_mmio_be, d, v.mmio_be);
                set<u8>(top_->s_mmio_tag, d, v.mmio_tag);
                set_wide(top_->s_mmio_data, d, v.mmio_data);
                v.mmio_new = false;
            }
            set_bit(top_->m_mmio_cpl_ready, d, v.mcpl_ready);
            set_bit(top_->m_dma_rd_ready, d, v.rd_ready);
            set_bit(top_->m_dma_wr_ready, d, v.wr_ready);
            set_bit(top_->m_net_ready, d, v.out_ready);
            set_bit(top_->s_dma_rd_cpl_valid, d, v.cpl_valid);
            if (v.cpl_new) {
                set<u8>(top_->s_dma_rd_cpl_tag, d, v.cpl_tag);
                set<u8>(top_->s_dma_rd_cpl_bytes, d, v.cpl_bytes);
                set_bit(top_->s_dma_rd_cpl_last, d, v.cpl_last);
                set_bit(top_->s_dma_rd_cpl_err, d, v.cpl_err);
                set_wide(top_->s_dma_rd_cpl_data, d, v.cpl_data);
                v.cpl_new = false;
            }
            set_bit(top_->s_net_valid, d, v.net_valid);
            if (v.net_new) {
                set<u64>(top_->s_net_keep, d, v.net_keep);
                set_bit(top_->s_net_last, d, v.net_last);
                set_wide(top_->s_net_data, d, v.net_data);
                v.net_new = false;
            }
        }
    }

    VerilatedContext context_;
    std::unique_ptr<Vtop> top_;
#if VM_TRACE
    std::unique_ptr<Trace> trace_;
#endif
    Shown shown_[kMaxDevices];
    Driven driven_[kMaxDevices];
};

}  // namespace

int main(int argc, char **argv) { return Simulation(argc, argv).run(); }
