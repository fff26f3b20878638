// SPDX-License-Identifier: Apache-2.0
// Sends stores over vfio-user, each after the reply to the one before; prints the seconds.
// store_client SOCKET_FD MEMORY_FD STEPS WAIT_SECONDS
//
// STEPS is a file of records, each with its bytes: bytes to put into the memory, bytes to wait for in
// the memory, or a request. tools/native_stores.py writes it and connects the socket.
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

namespace {

enum : uint32_t { kPut, kWait, kRequest };
struct Record {
    uint64_t address;
    uint32_t kind, size;
};
constexpr size_t kReplyBytes = 32, kFlags = 8, kError = 1 << 5;

bool exchange(int socket, const char *request, size_t size) {
    char reply[kReplyBytes];
    if (send(socket, request, size, 0) != ssize_t(size)) return false;
    // As QEMU does: a thread that sleeps in recv() wakes also when the server takes the request.
    pollfd ready{socket, POLLIN, 0};
    if (poll(&ready, 1, -1) != 1) return false;
    if (recv(socket, reply, sizeof reply, MSG_WAITALL) != ssize_t(sizeof reply)) return false;
    return (reply[kFlags] & kError) == 0;
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    double patience = std::atof(argv[4]);
    int socket = std::atoi(argv[1]), memory = std::atoi(argv[2]);
    struct stat found;
    if (fstat(memory, &found) != 0) return 2;
    void *map = mmap(nullptr, size_t(found.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (map == MAP_FAILED) return 2;
    std::ifstream file(argv[3], std::ios::binary);
    std::vector<char> steps{std::istreambuf_iterator<char>(file), {}};
    using Clock = std::chrono::steady_clock;
    auto since = [](Clock::time_point time) {
        return std::chrono::duration<double>(Clock::now() - time).count();
    };
    auto begin = Clock::now();
    for (const char *at = steps.data(); at < steps.data() + steps.size();) {
        Record record;
        std::memcpy(&record, at, sizeof record);
        at += sizeof record;
        char *place = static_cast<char *>(map) + record.address;
        if (record.kind == kPut) std::memcpy(place, at, record.size);
        if (record.kind == kRequest && !exchange(socket, at, record.size)) {
            std::fprintf(stderr, "a store got no reply, or an error\n");
            return 1;
        }
        auto waits = Clock::now();
        while (record.kind == kWait && std::memcmp(place, at, record.size) != 0) {
            sched_yield();
            if (since(waits) < patience) continue;
            std::fprintf(stderr, "no completion at %#lx as in the session\n", record.address);
            return 1;
        }
        at += record.size;
    }
    std::printf("%.6f\n", since(begin));
}
