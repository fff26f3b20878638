// SPDX-License-Identifier: Apache-2.0
// Executes the requests of one client on a device, one after the other.
#pragma once
#include <deque>
#include <optional>

#include "config_space.h"
#include "llq_map.h"
#include "recorder.h"

namespace efa::live {

class Function {
   public:
    // `map_llq`: the client can map the LLQ memory.
    Function(const ConfigSpace &config, u16 node, u8 profile, u8 paths, Sessions &sessions,
             bool map_llq);

    // The client has gone: unmaps its memory, forgets its interrupts, resets the device.
    void leave();
    // True until the device has executed the last request or reset.
    bool busy() const { return work_.has_value() || host.resetting(); }
    // Begins a request. Throws ProtocolError if the connection must end.
    void begin(Message message);
    // Continues a request; returns its reply when the device has executed it, empty for no reply.
    // `quiet` is the number of cycles since the devices were last at work; `fd` becomes the file
    // descriptor that the reply carries.
    std::optional<Bytes> proceed(u32 quiet, int &fd);
    bool records() const { return recorder_.on(); }
    // What went wrong for the client, for the log.
    std::string counts() const;

    GuestMemory memory;
    Host host;
    u64 requests = 0;

   private:
    // A request that is being executed.
    struct Work {
        Header header{};
        int error = 0;
        Bytes payload;                   // of the reply
        std::deque<LineAccess> lines;
        bool load = false, flies = false;  // a load: its bytes follow the payload
        int fd = -1;                       // of the reply
        u32 settle = 0;                    // quiet cycles that the last store needs
    };

    Bytes execute(Message &message);
    Bytes map(Message &message);
    Bytes region_info(const Message &message);
    Bytes irq_info(const Message &message) const;
    Bytes set_irqs(Message &message);
    void trigger(const IrqSet &wanted, const Message &message) const;
    void forget(u32 start, u32 count);
    Bytes read(const Message &message);
    Bytes write(const Message &message);
    Bytes write_multi(const Message &message);
    bool inside(const Access &access) const;
    void check_store(const Access &access);
    void store(const Access &access, const u8 *data);
    void lines(const Access &access, const u8 *data);
    void reset();
    void apply_straps();
    void interrupt(u32 vector);

    Recorder recorder_;
    std::optional<LlqMap> llq_;
    ConfigSpace config_;
    std::vector<Fd> vectors_;
    std::optional<Work> work_;
    bool version_known_ = false;
    u64 lost_interrupts_ = 0, refused_stores_ = 0;
};

}  // namespace efa::live
