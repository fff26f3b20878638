// SPDX-License-Identifier: Apache-2.0
// Accepts every store over vfio-user and does nothing: null_server LISTENER_FD.
// tools/native_stores.py builds it with the transport of the RTL server (tb/live).
#include <poll.h>
#include <sys/socket.h>

#include <cstdlib>

#include "channel.h"

namespace {

using namespace efa::live;

Bytes answer(const Message &message) {
    switch (message.header.command) {
        case kVersion: return reply(message.header, version(message.payload));
        case kDmaMap: return reply(message.header, {});
        case kRegionWrite:
            return reply(message.header, bytes_of(fields<Access>(message.payload, "REGION_WRITE")));
        default: return reply(message.header, {}, ENOTSUP);
    }
}

void serve(Channel &channel) {
    pollfd ready{channel.number(), POLLIN, 0};
    while (poll(&ready, 1, -1) > 0)
        while (auto message = channel.receive()) channel.send(answer(*message));
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    int listener = std::atoi(argv[1]);
    while (true) {
        Fd client(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!client.open()) return 1;
        Channel channel(std::move(client));
        try {
            serve(channel);
        } catch (const Closed &) {
        }
    }
}
