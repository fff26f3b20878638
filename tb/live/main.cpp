// SPDX-License-Identifier: Apache-2.0
// Serves simulated devices: serve CONFIG PROFILE IDLE_SECONDS (FD PATH)...
// tb/live/program.py builds this program and starts it with listening sockets.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "server.h"

int main(int argc, char **argv) {
    if (argc < 6 || argc % 2 != 0) {
        std::fprintf(stderr, "use: efa-cosim serve --backend verilator\n");
        return 2;
    }
    try {
        efa::live::Options options;
        std::ifstream config(argv[1], std::ios::binary);
        options.config.assign(std::istreambuf_iterator<char>(config), {});
        options.recorded_profile = std::string(argv[2]) == "recorded";
        options.idle_seconds = std::atof(argv[3]);
        for (int at = 4; at < argc; at += 2)
            options.listeners.push_back({std::atoi(argv[at]), argv[at + 1]});
        efa::live::Server(options).run();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "efa-cosim: internal error, please report: %s\n", error.what());
        return 1;
    }
    return 0;
}
