// SPDX-License-Identifier: Apache-2.0
// Receives and sends the messages of one client on a socket that never blocks.
#pragma once
#include <optional>

#include "protocol.h"

namespace efa::live {

class Channel {
   public:
    explicit Channel(Fd socket) : socket_(std::move(socket)) {}
    int number() const { return socket_.number(); }

    // Returns the next message if all of it has arrived; throws Closed and ProtocolError.
    std::optional<Message> receive();

    // Sends a reply now, or as soon as the client reads; throws Closed and ProtocolError. A file
    // descriptor goes with the reply.
    void send(const Bytes &data, int fd = -1);
    void flush();
    // True while replies wait for the client to read.
    bool blocked() const { return !unsent_.empty(); }

   private:
    bool fill(u8 *to, size_t size);
    size_t send_with(const Bytes &data, int fd);

    Fd socket_;
    Message message_;
    size_t have_ = 0;  // bytes of the header, or of the payload
    bool has_header_ = false;
    Bytes unsent_;
};

}  // namespace efa::live
