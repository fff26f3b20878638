// SPDX-License-Identifier: Apache-2.0
#include "protocol.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace efa::live {

std::string format(const char *form, ...) {
    char text[512];
    va_list list;
    va_start(list, form);
    std::vsnprintf(text, sizeof text, form, list);
    va_end(list);
    return text;
}

namespace {

// Reads the JSON text of VERSION: checks its form, and finds capabilities.write_multiple.
class Proposal {
   public:
    explicit Proposal(const std::string &text) : at_(text.c_str()) {}

    // Returns false unless the text is one JSON object whose capabilities are an object.
    bool read() {
        space();
        if (*at_ != '{' || !value(0, "")) return false;
        space();
        return *at_ == 0 && good_;
    }
    bool batches() const { return batches_; }

   private:
    static constexpr int kDeepest = 32;

    void space() { at_ += std::strspn(at_, " \t\r\n"); }

    bool string(std::string *to) {
        if (*at_ != '"') return false;
        for (at_++; *at_ != '"'; at_++) {
            if (u8(*at_) < 0x20 || (*at_ == '\\' && u8(*++at_) < 0x20)) return false;
            if (to != nullptr) *to += *at_;
        }
        at_++;
        return true;
    }

    bool number() {
        size_t length = std::strspn(at_, "+-.0123456789eE");
        at_ += length;
        return length != 0;
    }

    bool word(const char *wanted) {
        size_t length = std::strlen(wanted);
        if (std::strncmp(at_, wanted, length) != 0) return false;
        at_ += length;
        return true;
    }

    // Reads the members of an object or the elements of an array.
    bool members(char end, int depth, const std::string &path) {
        at_++;
        space();
        if (*at_ == end) return at_++, true;
        while (true) {
            std::string name;
            space();
            if (end == '}') {
                if (!string(&name)) return false;
                space();
                if (*at_++ != ':') return false;
            }
            if (!value(depth + 1, path + "/" + name)) return false;
            space();
            if (*at_ == end) return at_++, true;
            if (*at_++ != ',') return false;
        }
    }

    bool value(int depth, const std::string &path) {
        space();
        if (depth > kDeepest) return false;
        if (path == "/capabilities") good_ = *at_ == '{';
        bool wanted = path == "/capabilities/write_multiple";
        switch (*at_) {
            case '{': return members('}', depth, path);
            case '[': return members(']', depth, path);
            case '"': return string(nullptr);
            case 't': if (wanted) batches_ = true; return word("true");
            case 'f': return word("false");
            case 'n': return word("null");
            default: return number();
        }
    }

    const char *at_;
    bool good_ = true, batches_ = false;
};

}  // namespace

void check(const Header &header) {
    if (header.size < sizeof header || header.size > kMostMessageBytes)
        throw ProtocolError(format("a message of %u bytes; expected %zu to %u", header.size,
                                   sizeof header, kMostMessageBytes));
    if ((header.flags & kType) != 0)
        throw ProtocolError(format("message type %u; expected a command (0)", header.flags & kType));
}

Bytes reply(const Header &request, const Bytes &payload, int error) {
    size_t size = error != 0 ? 0 : payload.size();
    Header header{request.message, request.command, u32(sizeof header + size),
                  kReply | (error != 0 ? u32(kError) : 0), u32(error)};
    Bytes data(header.size);
    std::memcpy(data.data(), &header, sizeof header);
    if (size != 0) std::memcpy(data.data() + sizeof header, payload.data(), size);
    return data;
}

Bytes version(const Bytes &payload) {
    struct Numbers {
        u16 major, minor;
    };
    auto wanted = fields<Numbers>(payload, "VERSION");
    if (wanted.major != 0)
        throw ProtocolError(format("protocol version %u.%u; expected 0.x", wanted.major,
                                   wanted.minor));
    auto from = payload.begin() + sizeof wanted;
    std::string text(from, std::find(from, payload.end(), u8(0)));
    Proposal proposal(text);
    if (!text.empty() && !proposal.read())
        throw ProtocolError("VERSION with data that is no JSON object: '" + text.substr(0, 40) + "'");
    std::string own = format(
        "{\"capabilities\": {\"max_msg_fds\": %u, \"max_data_xfer_size\": %u, "
        "\"max_dma_maps\": %u, \"pgsizes\": 4096%s}}",
        kMostFds, kMostDataBytes, kMostRanges, proposal.batches() ? ", \"write_multiple\": true" : "");
    Numbers numbers{0, 0};
    Bytes answer(sizeof numbers + own.size() + 1);
    std::memcpy(answer.data(), &numbers, sizeof numbers);
    std::memcpy(answer.data() + sizeof numbers, own.c_str(), own.size() + 1);
    return answer;
}

}  // namespace efa::live
