// SPDX-License-Identifier: Apache-2.0
#include "channel.h"

#include <sys/socket.h>

#include <cerrno>

namespace efa::live {

namespace {

// Replies that the client has not read; a client with more than these is cut off.
constexpr size_t kMostUnsentBytes = 4 << 20;

}  // namespace

std::optional<Message> Channel::receive() {
    if (!has_header_) {
        if (!fill(reinterpret_cast<u8 *>(&message_.header), sizeof message_.header)) return {};
        check(message_.header);
        has_header_ = true;
        have_ = 0;
        message_.payload.resize(message_.header.size - sizeof message_.header);
    }
    if (!fill(message_.payload.data(), message_.payload.size())) return {};
    has_header_ = false;
    have_ = 0;
    return std::exchange(message_, Message());
}

// Receives until `size` bytes are there; returns false if the rest has not arrived.
bool Channel::fill(u8 *to, size_t size) {
    while (have_ < size) {
        alignas(cmsghdr) char space[CMSG_SPACE(kMostFds * sizeof(int))];
        iovec part{to + have_, size - have_};
        msghdr packet{};
        packet.msg_iov = &part, packet.msg_iovlen = 1;
        packet.msg_control = space, packet.msg_controllen = sizeof space;
        ssize_t count = recvmsg(socket_.number(), &packet, MSG_CMSG_CLOEXEC);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) return false;
        if (count > 0)
            for (cmsghdr *one = CMSG_FIRSTHDR(&packet); one != nullptr; one = CMSG_NXTHDR(&packet, one))
                if (one->cmsg_level == SOL_SOCKET && one->cmsg_type == SCM_RIGHTS)
                    for (size_t at = 0; at + CMSG_LEN(sizeof(int)) <= one->cmsg_len; at += sizeof(int)) {
                        int fd;
                        std::memcpy(&fd, CMSG_DATA(one) + at, sizeof fd);
                        message_.fds.emplace_back(fd);
                    }
        if (count > 0 && ((packet.msg_flags & MSG_CTRUNC) != 0 || message_.fds.size() > kMostFds))
            throw ProtocolError(format("too many file descriptors in a message; expected at most %u",
                                       kMostFds));
        if (count <= 0) throw Closed{have_ != 0 || has_header_};
        have_ += size_t(count);
    }
    return true;
}

void Channel::send(const Bytes &data, int fd) {
    size_t sent = fd < 0 ? 0 : send_with(data, fd);
    unsent_.insert(unsent_.end(), data.begin() + ssize_t(sent), data.end());
    flush();
    if (unsent_.size() > kMostUnsentBytes)
        throw ProtocolError(format("%zu bytes of replies that the client does not read",
                                   unsent_.size()));
}

// Sends a reply with a file descriptor, at once, because QEMU expects both in one message; returns
// the number of bytes sent.
size_t Channel::send_with(const Bytes &data, int fd) {
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof fd)] = {};
    iovec part{const_cast<u8 *>(data.data()), data.size()};
    msghdr packet{};
    packet.msg_iov = &part, packet.msg_iovlen = 1;
    packet.msg_control = space, packet.msg_controllen = sizeof space;
    cmsghdr *rights = CMSG_FIRSTHDR(&packet);
    rights->cmsg_level = SOL_SOCKET, rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    ssize_t count = blocked() ? 0 : sendmsg(socket_.number(), &packet, MSG_NOSIGNAL);
    if (count <= 0)
        throw ProtocolError("a client that asks for a mappable region before it reads its replies");
    return size_t(count);
}

void Channel::flush() {
    size_t sent = 0;
    while (sent < unsent_.size()) {
        ssize_t count = ::send(socket_.number(), unsent_.data() + sent, unsent_.size() - sent,
                               MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) break;
        if (count <= 0) throw Closed{false};
        sent += size_t(count);
    }
    unsent_.erase(unsent_.begin(), unsent_.begin() + ssize_t(sent));
}

}  // namespace efa::live
