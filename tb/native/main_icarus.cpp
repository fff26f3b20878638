// SPDX-License-Identifier: Apache-2.0
// Runs the bench as an Icarus module, with a callback each half clock. Payload is read through VPI
// only while its valid is high, and written only when it is new.
#include <vpi_user.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "bench.h"
#include "efa_defs.h"

namespace {

using namespace efa;

constexpr u64 kHalfPeriod = 2000;  // ps
constexpr int kWords = EFA_EV__COUNT * 2;

// One port of efa_tb; device d has lane d.
class Port {
   public:
    void find(const char *name) {
        name_ = name;
        std::string path = std::string("efa_tb.") + name;
        handle_ = vpi_handle_by_name(const_cast<char *>(path.c_str()), nullptr);
        if (handle_ == nullptr) {
            std::fprintf(stderr, "efa: no port %s\n", path.c_str());
            vpi_control(vpiFinish, 1);
            return;
        }
        width_ = vpi_get(vpiSize, handle_);
    }
    // Returns up to 64 bits; `unknown` gets the port's name when a bit is neither 0 nor 1.
    u64 get(int device, int width, const char **unknown) const {
        s_vpi_value value;
        value.format = vpiVectorVal;
        vpi_get_value(handle_, &value);
        u64 result = 0, x = 0;
        int first = device * width;
        for (int at = first / 32; at <= (first + width - 1) / 32; at++) {
            int shift = at * 32 - first;
            u64 a = u32(value.value.vector[at].aval), b = u32(value.value.vector[at].bval);
            result |= shift >= 0 ? a << shift : a >> -shift;
            x |= shift >= 0 ? b << shift : b >> -shift;
        }
        u64 mask = width == 64 ? ~u64(0) : (u64(1) << width) - 1;
        if ((x & mask) != 0 && unknown != nullptr) *unknown = name_;
        return result & mask & ~x;
    }
    // Reads the words of a wide port and their unknown bits.
    void get_words(int device, int words, u32 *to, u32 *x) const {
        s_vpi_value value;
        value.format = vpiVectorVal;
        vpi_get_value(handle_, &value);
        for (int at = 0; at < words; at++) {
            x[at] = value.value.vector[device * words + at].bval;
            to[at] = value.value.vector[device * words + at].aval & ~x[at];
        }
    }
    // Sets the lane of one device in shadow_; flush() writes the port when shadow_ has changed.
    void set(int device, int width, u64 value) {
        for (int bit = 0; bit < width; bit += 32) {
            int first = device * width + bit, part = width - bit < 32 ? width - bit : 32;
            u32 mask = part == 32 ? ~u32(0) : (u32(1) << part) - 1;
            u32 next = (shadow_[first / 32] & ~(mask << first % 32)) |
                       ((u32(value >> bit) & mask) << first % 32);
            dirty_ |= next != shadow_[first / 32];
            shadow_[first / 32] = next;
        }
    }
    void set_bytes(int device, const u8 *from) {
        std::memcpy(&shadow_[device * 16], from, 64);
        dirty_ = true;
    }
    void flush() {
        if (!dirty_) return;
        dirty_ = false;
        s_vpi_vecval words[16 * kMaxDevices];
        for (int at = 0; at <= (width_ - 1) / 32; at++) words[at] = {s32(shadow_[at]), 0};
        s_vpi_value value;
        value.format = vpiVectorVal;
        value.value.vector = words;
        vpi_put_value(handle_, &value, nullptr, vpiNoDelay);
    }

   private:
    static PLI_INT32 s32(u32 value) { return static_cast<PLI_INT32>(value); }
    vpiHandle handle_ = nullptr;
    const char *name_ = "";
    int width_ = 1;
    bool dirty_ = true;
    u32 shadow_[16 * kMaxDevices] = {};
};

#define EFA_PORTS(X)                                                                         \
    X(clk) X(rst_por) X(wake)                                                        \
    X(s_cfg_bme) X(s_cfg_flr) X(s_cfg_mps) X(s_cfg_mrrs) X(s_cfg_msix_enable)  \
    X(s_cfg_msix_fmask) X(s_cfg_node_id) X(s_cfg_profile)                          \
    X(s_cfg_interface) X(s_cfg_keep_alive) X(s_cfg_moderation) X(s_cfg_paths)      \
    X(s_cfg_tick)                                                                  \
    X(s_aenq_valid) X(s_aenq_group) X(s_aenq_syndrome) X(s_aenq_data)              \
    X(s_mmio_valid) X(s_mmio_write) X(s_mmio_bar) X(s_mmio_addr)                \
    X(s_mmio_be) X(s_mmio_data) X(s_mmio_tag) X(m_mmio_cpl_ready)             \
    X(m_dma_rd_ready) X(s_dma_rd_cpl_valid) X(s_dma_rd_cpl_tag)                     \
    X(s_dma_rd_cpl_data) X(s_dma_rd_cpl_bytes) X(s_dma_rd_cpl_last)               \
    X(s_dma_rd_cpl_err) X(m_dma_wr_ready) X(m_net_ready) X(s_net_valid)          \
    X(s_net_data) X(s_net_keep) X(s_net_last)                                      \
    X(cnt_run) X(cnt_clear) X(cnt_index)
#define EFA_SEEN(X)                                                                          \
    X(m_cfg_flr_done) X(s_mmio_ready) X(m_mmio_cpl_valid) X(m_mmio_cpl_tag)                  \
    X(m_mmio_cpl_data) X(m_dma_rd_valid) X(m_dma_rd_addr) X(m_dma_rd_len) X(m_dma_rd_tag)    \
    X(s_dma_rd_cpl_ready) X(m_dma_wr_valid) X(m_dma_wr_addr) X(m_dma_wr_len) X(m_dma_wr_data) \
    X(m_dma_wr_last) X(m_net_valid) X(m_net_data) X(m_net_keep) X(m_net_last) X(s_net_ready) \
    X(s_aenq_ready)                                                                         \
    X(ev_valid) X(ev_data) X(cnt_data)

#define EFA_MEMBER(name) Port name;
struct {
    EFA_PORTS(EFA_MEMBER)
    EFA_SEEN(EFA_MEMBER)
} port;

struct Storage {
    u32 mcpl[16], wr[16], net[16], ev[kWords];
};
Storage storage[kMaxDevices];
Shown shown[kMaxDevices];
Driven driven[kMaxDevices];
bool pins_are_driven = false, clock_is_high = false, wake_level = false;

// Reads a payload of 64 bytes; returns the byte lanes with an unknown bit.
u64 payload(const Port &from, int device, u32 *to) {
    u32 x[16];
    from.get_words(device, 16, to, x);
    u64 lanes = 0;
    for (int lane = 0; lane < 64; lane++)
        if ((x[lane / 4] >> lane % 4 * 8 & 0xff) != 0) lanes |= u64(1) << lane;
    return lanes;
}

void sample(int d) {
    Shown &s = shown[d];
    Storage &keep = storage[d];
    const char **x = &s.unknown;
    s.unknown = nullptr;
    s.flr_done = port.m_cfg_flr_done.get(d, 1, x);
    s.mmio_ready = port.s_mmio_ready.get(d, 1, x);
    s.cpl_ready = port.s_dma_rd_cpl_ready.get(d, 1, x);
    s.net_ready = port.s_net_ready.get(d, 1, x);
    s.aenq_ready = port.s_aenq_ready.get(d, 1, x);
    s.mcpl_valid = port.m_mmio_cpl_valid.get(d, 1, x);
    if (s.mcpl_valid) {
        s.mcpl_tag = port.m_mmio_cpl_tag.get(d, 8, x);
        s.mcpl_x = payload(port.m_mmio_cpl_data, d, keep.mcpl);
    }
    s.rd_valid = port.m_dma_rd_valid.get(d, 1, x);
    if (s.rd_valid) {
        s.rd_addr = port.m_dma_rd_addr.get(d, 64, x);
        s.rd_len = port.m_dma_rd_len.get(d, 16, x);
        s.rd_tag = port.m_dma_rd_tag.get(d, 8, x);
    }
    s.wr_valid = port.m_dma_wr_valid.get(d, 1, x);
    if (s.wr_valid) {
        s.wr_addr = port.m_dma_wr_addr.get(d, 64, x);
        s.wr_len = port.m_dma_wr_len.get(d, 16, x);
        s.wr_last = port.m_dma_wr_last.get(d, 1, x);
        s.wr_x = payload(port.m_dma_wr_data, d, keep.wr);
    }
    s.net_valid = port.m_net_valid.get(d, 1, x);
    if (s.net_valid) {
        s.net_keep = port.m_net_keep.get(d, 64, x);
        s.net_last = port.m_net_last.get(d, 1, x);
        s.net_x = payload(port.m_net_data, d, keep.net);
    }
    // Unknown until the first clear, so unknown bits are not reported.
    s.cnt_data = port.cnt_data.get(d, 32, nullptr);
    s.ev_valid = port.ev_valid.get(d, 32, x);
    s.ev_x = 0;
    if (s.ev_valid != 0) {
        u32 unknown[kWords];
        port.ev_data.get_words(d, kWords, keep.ev, unknown);
        for (int kind = 0; kind < kWords / 2; kind++)
            if ((unknown[2 * kind] | unknown[2 * kind + 1]) != 0) s.ev_x |= u32(1) << kind;
    }
    s.mcpl_data = reinterpret_cast<const u8 *>(keep.mcpl);
    s.wr_data = reinterpret_cast<const u8 *>(keep.wr);
    s.net_data = reinterpret_cast<const u8 *>(keep.net);
    s.ev_data = reinterpret_cast<const u8 *>(keep.ev);
}

void drive(int d) {
    Driven &v = driven[d];
    port.s_cfg_bme.set(d, 1, v.bme);
    port.s_cfg_flr.set(d, 1, v.flr);
    port.s_cfg_msix_enable.set(d, 1, v.msix_enable);
    port.s_cfg_msix_fmask.set(d, 1, v.msix_fmask);
    port.s_cfg_profile.set(d, 8, v.profile);
    port.s_cfg_mps.set(d, 8, v.mps);
    port.s_cfg_mrrs.set(d, 8, v.mrrs);
    port.s_cfg_node_id.set(d, 16, v.node);
    port.s_cfg_interface.set(d, 8, v.version);
    port.s_cfg_moderation.set(d, 16, v.moderation);
    port.s_cfg_paths.set(d, 8, v.paths);
    port.s_cfg_tick.set(d, 8, v.tick);
    port.s_cfg_keep_alive.set(d, 32, v.keep_alive);
    port.s_aenq_valid.set(d, 1, v.aenq_valid);
    if (v.aenq_new) {
        port.s_aenq_group.set(d, 16, v.aenq_group);
        port.s_aenq_syndrome.set(d, 16, v.aenq_syndrome);
        port.s_aenq_data.set_bytes(d, v.aenq_data);
        v.aenq_new = false;
    }
    port.cnt_run.set(d, 1, v.cnt_run);
    port.cnt_clear.set(d, 1, v.cnt_clear);
    port.cnt_index.set(d, 8, v.cnt_index);
    port.s_mmio_valid.set(d, 1, v.mmio_valid);
    if (v.mmio_new) {
        port.s_mmio_write.set(d, 1, v.mmio_write);
        port.s_mmio_bar.set(d, 8, v.mmio_bar);
        port.s_mmio_addr.set(d, 32, v.mmio_addr);
        port.s_mmio_be.set(d, 64, v.mmio_be);
        port.s_mmio_tag.set(d, 8, v.mmio_tag);
        port.s_mmio_data.set_bytes(d, v.mmio_data);
        v.mmio_new = false;
    }
    port.m_mmio_cpl_ready.set(d, 1, v.mcpl_ready);
    port.m_dma_rd_ready.set(d, 1, v.rd_ready);
    port.m_dma_wr_ready.set(d, 1, v.wr_ready);
    port.m_net_ready.set(d, 1, v.out_ready);
    port.s_dma_rd_cpl_valid.set(d, 1, v.cpl_valid);
    if (v.cpl_new) {
        port.s_dma_rd_cpl_tag.set(d, 8, v.cpl_tag);
        port.s_dma_rd_cpl_bytes.set(d, 8, v.cpl_bytes);
        port.s_dma_rd_cpl_last.set(d, 1, v.cpl_last);
        port.s_dma_rd_cpl_err.set(d, 1, v.cpl_err);
        port.s_dma_rd_cpl_data.set_bytes(d, v.cpl_data);
        v.cpl_new = false;
    }
    port.s_net_valid.set(d, 1, v.net_valid);
    if (v.net_new) {
        port.s_net_keep.set(d, 64, v.net_keep);
        port.s_net_last.set(d, 1, v.net_last);
        port.s_net_data.set_bytes(d, v.net_data);
        v.net_new = false;
    }
}

void flush_all() {
#define EFA_FLUSH(name) port.name.flush();
    EFA_PORTS(EFA_FLUSH)
#undef EFA_FLUSH
}

PLI_INT32 half_clock(s_cb_data *);

void again() {
    static s_vpi_time time = {vpiSimTime, 0, u32(kHalfPeriod), 0};
    s_cb_data request = {};
    request.reason = cbAfterDelay;
    request.cb_rtn = half_clock;
    request.time = &time;
    vpi_free_object(vpi_register_cb(&request));
}

PLI_INT32 half_clock(s_cb_data *) {
    again();
    if (!clock_is_high) {
        if (!pins_are_driven) {
            // Values put before the first time step are lost.
            for (int d = 0; d < bench().devices; d++) drive(d);
            flush_all();
            pins_are_driven = true;
            return 0;
        }
        if (!bench().started()) return 0;
        const int devices = bench().devices;
        for (int d = 0; d < devices; d++) sample(d);
        bench().step(shown, driven);
        port.clk.set(0, 1, 1);
        port.clk.flush();
        clock_is_high = true;
        return 0;
    }
    clock_is_high = false;
    for (int d = 0; d < bench().devices; d++) drive(d);
    port.rst_por.set(0, 1, bench().in_reset());
    port.clk.set(0, 1, 0);
    if (bench().take_wake()) {
        wake_level = !wake_level;
        port.wake.set(0, 1, wake_level);
    }
    flush_all();
    return 0;
}

PLI_INT32 begin(s_cb_data *) {
#define EFA_FIND(name) port.name.find(#name);
    EFA_PORTS(EFA_FIND)
    EFA_SEEN(EFA_FIND)
    port.rst_por.set(0, 1, 1);
    again();
    return 0;
}

void register_bench() {
    s_cb_data request = {};
    request.reason = cbStartOfSimulation;
    request.cb_rtn = begin;
    vpi_free_object(vpi_register_cb(&request));
}

}  // namespace

extern "C" {
void (*vlog_startup_routines[])(void) = {register_bench, nullptr};
}
