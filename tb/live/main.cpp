// SPDX-License-Identifier: Apache-2.0
// Serves simulated devices: serve CONFIG PROFILE IDLE_SECONDS RECORD_FD MAP_LLQ (FD PATH)...
// tb/live/program.py builds this program, efa_cosim/live/simulated.py starts it.
#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "server.h"

int main(int argc, char **argv) {
    if (argc < 8 || argc % 2 != 0) {
        std::fprintf(stderr, "use: efa-cosim serve --backend verilator\n");
        return 2;
    }
    try {
        efa::live::Options options;
        std::ifstream config(argv[1], std::ios::binary);
        options.config.assign(std::istreambuf_iterator<char>(config), {});
        options.profile = uint8_t(std::atoi(argv[2]));
        options.idle_seconds = std::atof(argv[3]);
        options.record = std::atoi(argv[4]);
        // Nobody would read the session any more.
        if (options.record >= 0) prctl(PR_SET_PDEATHSIG, SIGTERM);
        options.map_llq = std::atoi(argv[5]) != 0;
        for (int at = 6; at < argc; at += 2)
            options.listeners.push_back({std::atoi(argv[at]), argv[at + 1]});
        efa::live::Server(options).run();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "efa-cosim: internal error, please report: %s\n", error.what());
        return 1;
    }
    return 0;
}
