// SPDX-License-Identifier: Apache-2.0
// Serves the simulated devices on Unix sockets, one client at a time for each, until a signal.
#pragma once
#include <poll.h>

#include <deque>

#include "channel.h"
#include "function.h"
#include "simulation.h"

namespace efa::live {

struct Options {
    // A socket that listens, the node of its device, and its path.
    struct Listener {
        int fd;
        u16 node;
        std::string path;
    };
    std::vector<Listener> listeners;
    Bytes config;
    u8 profile = 0;
    int record = -1;   // the pipe of the recorded sessions
    int carrier = -1;  // the socket of the process that carries the packets
    u8 paths = 0xFF;   // of the fabric, a bit for each
    bool map_llq = false;
    double idle_seconds = 0;  // without a client, after which the server ends; 0: never
};

class Server {
   public:
    explicit Server(const Options &options);
    // Removes the sockets, unless another server took their place.
    ~Server();
    void run();

   private:
    struct Port {
        Port(const Options::Listener &from, const ConfigSpace &config, const Options &options,
             Sessions &sessions);
        std::string path;
        Fd listener;
        u64 inode = 0;
        Function function;
        std::optional<Channel> channel;
    };

    void wait(double until);
    void serve(Port &port, short ready);
    void accept(Port &port);
    void answer(Port &port);
    void clocks();
    template <class Action>
    void guarded(Port &port, Action action);
    void leave(Port &port, const std::string &text);
    // The cycles so far, and the CPU time of this process, in words.
    std::string clocked() const;
    bool busy() const;
    bool waits(const Port &port) const;

    Sessions sessions_;
    std::deque<Port> ports_;
    std::vector<pollfd> polled_;  // an entry for each port
    std::unique_ptr<Simulation> simulation_;
    const double idle_seconds_;
};

}  // namespace efa::live
