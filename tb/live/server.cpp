// SPDX-License-Identifier: Apache-2.0
#include "server.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <utility>

namespace efa::live {

namespace {

constexpr double kKeepAliveSeconds = 1;
// Messages handled at one wake-up, so that the clients of other functions get their turn.
constexpr int kMostAtOnce = 64;
// Cycles between two looks at the sockets: a look costs less than a cycle.
constexpr int kCyclesAtOnce = 4;

volatile sig_atomic_t stopped = 0, asked = 0;

void stop(int) { stopped = 1; }
void ask(int) { asked = 1; }

double now(clockid_t clock = CLOCK_MONOTONIC) {
    timespec time;
    clock_gettime(clock, &time);
    return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

void say(const std::string &text) {
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
}

u64 inode_of(const std::string &path) {
    struct stat found;
    return stat(path.c_str(), &found) == 0 ? u64(found.st_ino) : 0;
}

}  // namespace

Server::Port::Port(const Options::Listener &from, const ConfigSpace &config, const Options &options,
                   Sessions &sessions)
    : path(from.path), listener(from.fd), inode(inode_of(from.path)),
      function(config, from.node, options.profile, options.paths, sessions, options.map_llq) {}

Server::Server(const Options &options)
    : sessions_(options.record), idle_seconds_(options.idle_seconds) {
    ConfigSpace config(options.config);
    std::vector<Host *> hosts;
    std::vector<u16> nodes;
    for (const auto &listener : options.listeners) {
        ports_.emplace_back(listener, config, options, sessions_);
        hosts.push_back(&ports_.back().function.host);
        nodes.push_back(listener.node);
    }
    simulation_ = std::make_unique<Simulation>(hosts, std::move(nodes), options.carrier);
}

Server::~Server() {
    for (Port &port : ports_)
        if (port.inode != 0 && inode_of(port.path) == port.inode) unlink(port.path.c_str());
}

void Server::run() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT), sigaddset(&signals, SIGTERM), sigaddset(&signals, SIGUSR1);
    // A signal arrives only in ppoll.
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    struct sigaction action {};
    action.sa_handler = stop;
    sigaction(SIGINT, &action, nullptr), sigaction(SIGTERM, &action, nullptr);
    action.sa_handler = ask;
    sigaction(SIGUSR1, &action, nullptr);
    for (Port &port : ports_) say("listening on " + port.path);
    double tick = now() + kKeepAliveSeconds, since = now();
    while (true) {
        wait(tick);
        if (stopped != 0) return say("ends after " + clocked());
        if (std::exchange(asked, 0) != 0) say(clocked());
        if (busy()) clocks();
        double time = now();
        bool served = std::any_of(ports_.begin(), ports_.end(),
                                  [](const Port &port) { return port.channel.has_value(); });
        if (served)
            since = time;
        else if (idle_seconds_ > 0 && time - since >= idle_seconds_)
            return say(format("no client for %g s: ends", idle_seconds_));
        if (time < tick) continue;
        tick = time + kKeepAliveSeconds;
        for (Port &port : ports_)
            // Keep-alives come from the clock: they are no part of a session.
            if (port.channel && !port.function.records()) {
                port.function.host.keep_alive();
                simulation_->wake();
            }
    }
}

std::string Server::clocked() const {
    return format("%lu cycles in %.6f s of CPU time", simulation_->cycles, now(CLOCK_PROCESS_CPUTIME_ID));
}

bool Server::busy() const {
    return !simulation_->idle() ||
           std::any_of(ports_.begin(), ports_.end(), [](const Port &port) { return port.function.busy(); });
}

// A function at work takes no request. While sessions are recorded, no function takes one while
// another is at work: a session has the effects of a store before the next store of any device.
bool Server::waits(const Port &port) const {
    return sessions_.on() ? std::any_of(ports_.begin(), ports_.end(),
                                        [](const Port &one) { return one.function.busy(); })
                          : port.function.busy();
}

// Looks at the sockets; waits for one only while nothing works.
void Server::wait(double until) {
    polled_.clear();
    for (Port &port : ports_) {
        pollfd one{-1, POLLIN, 0};
        if (!waits(port)) one.fd = port.channel ? port.channel->number() : port.listener.number();
        // A client that does not read its replies gets no further ones.
        if (port.channel && port.channel->blocked()) one.events = POLLOUT;
        polled_.push_back(one);
    }
    double left = busy() ? 0 : std::max(0.0, until - now());
    timespec time{time_t(left), long(1e9 * std::fmod(left, 1))};
    sigset_t none;
    sigemptyset(&none);
    if (ppoll(polled_.data(), polled_.size(), &time, &none) <= 0) return;
    for (size_t number = 0; number < polled_.size(); number++)
        if (polled_[number].revents != 0 && !waits(ports_[number])) serve(ports_[number], polled_[number].revents);
}

// Ends the connection if the action shows that the client has left or broke the protocol.
template <class Action>
void Server::guarded(Port &port, Action action) {
    try {
        action();
    } catch (const Closed &end) {
        std::string requests = format("%lu requests", port.function.requests);
        leave(port, end.inside ? "client left in the middle of a message after " + requests
                               : "client left after " + requests + port.function.counts());
    } catch (const ProtocolError &error) {
        leave(port, std::string("connection closed: ") + error.what());
    }
}

void Server::serve(Port &port, short ready) {
    if (!port.channel) return accept(port);
    guarded(port, [&] {
        if ((ready & POLLOUT) != 0) port.channel->flush();
        for (int left = kMostAtOnce; left != 0 && !waits(port); left--) {
            if (port.channel->blocked()) return;
            auto message = port.channel->receive();
            if (!message) return;
            port.function.begin(std::move(*message));
            answer(port);
        }
    });
}

// Accepts a client; the next one waits in the queue of the socket until this one leaves.
void Server::accept(Port &port) {
    Fd client(accept4(port.listener.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!client.open()) return;  // The client gave up.
    port.channel.emplace(std::move(client));
    say(port.path + ": client connected");
}

// Continues the request of a client; sends the reply at its end.
void Server::answer(Port &port) {
    int fd = -1;
    auto reply = port.function.proceed(simulation_->quiet_cycles(), fd);
    if (reply && !reply->empty()) port.channel->send(*reply, fd);
}

// Runs some cycles, fewer if a request ends in them.
void Server::clocks() {
    for (int left = kCyclesAtOnce; left != 0; left--) {
        simulation_->clock();
        for (Port &port : ports_) {
            if (!port.function.busy()) continue;
            guarded(port, [&] { answer(port); });
            if (!port.function.busy()) left = 1;
        }
    }
}

void Server::leave(Port &port, const std::string &text) {
    port.channel.reset();
    say(port.path + ": " + text);
    port.function.leave();
}

}  // namespace efa::live
