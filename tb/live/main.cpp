// SPDX-License-Identifier: Apache-2.0
// Serves simulated devices:
// serve CONFIG PROFILE IDLE_SECONDS RECORD_FD MAP_LLQ CARRIER_FD PATHS (FD NODE PATH)...
// tb/live/program.py builds this program, efa_cosim/live/simulated.py starts it.
#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "server.h"

int main(int argc, char **argv) {
    if (argc < 11 || (argc - 8) % 3 != 0) {
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
        options.map_llq = std::atoi(argv[5]) != 0;
        options.carrier = std::atoi(argv[6]);
        options.paths = uint8_t(std::atoi(argv[7]));
        // Nobody would read the session or carry the packets any more.
        if (options.record >= 0 || options.carrier >= 0) prctl(PR_SET_PDEATHSIG, SIGTERM);
        for (int at = 8; at < argc; at += 3)
            options.listeners.push_back(
                {std::atoi(argv[at]), uint16_t(std::atoi(argv[at + 1])), argv[at + 2]});
        efa::live::Server(options).run();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "efa-cosim: internal error, please report: %s\n", error.what());
        return 1;
    }
    return 0;
}
