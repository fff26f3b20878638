// SPDX-License-Identifier: Apache-2.0
// Defines what all parts of the live server share: integers, file descriptors, errors.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace efa::live {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using Bytes = std::vector<u8>;

// A file descriptor that closes itself; -1: none.
class Fd {
   public:
    Fd() = default;
    explicit Fd(int number) : number_(number) {}
    Fd(Fd &&other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Fd &operator=(Fd &&other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Fd() {
        if (number_ >= 0) close(number_);
    }
    int number() const { return number_; }
    bool open() const { return number_ >= 0; }

   private:
    int number_ = -1;
};

// The client broke the protocol; the connection must end. The text says what was received.
struct ProtocolError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A request that is well formed and not possible; the reply has the number as its error.
struct Refused {
    int number;
};

// The client closed the connection.
struct Closed {
    bool inside;  // in the middle of a message
};

std::string format(const char *form, ...) __attribute__((format(printf, 1, 2)));

// Bytes of a line: no access crosses one.
constexpr u32 kLine = 64;

}  // namespace efa::live
