// SPDX-License-Identifier: Apache-2.0
#include "fabric.h"

#include <cstring>

#include "bench.h"
#include "efa_defs.h"

namespace efa {

namespace {

u64 field(const std::vector<u8> &packet, unsigned lsb, unsigned width) {
    u64 value = 0;
    std::memcpy(&value, packet.data() + lsb / 8, (width + 7) / 8);
    return value;
}

u64 first_bytes(const u8 *flit) {
    u64 value = 0;
    std::memcpy(&value, flit, 8);
    return value;
}

void set_field(std::vector<u8> &packet, unsigned lsb, unsigned width, u64 value) {
    std::memcpy(&packet[lsb / 8], &value, width / 8);
}

constexpr u16 kNoSuchNode = 0xffff;
// Of a peer: its session, and the payload of its read responses but the last one of a request.
constexpr u64 kPeerSession = 1;
constexpr u64 kResponseBytes = 4096;
constexpr unsigned kRdmaLsb = 8 * EFA_SRD_HDR__BYTES;

// A byte of the memory of a peer, which follows from its address (tb/perf/traffic.py).
u8 peer_byte(u64 at) { return u8((at / 8 * 0x9e3779b97f4a7c15ull) >> (at % 8 * 8)); }

}  // namespace

void Fabric::restart(u64 seed) {
    for (int device = 0; device < kMaxDevices; device++) {
        side_[device] = Side();
        side_[device].rng = Rng(seed ^ (0x6e657400ull + device));
        sent[device] = 0;
    }
}

void Fabric::step(int device, const Shown &seen, Driven &drive) {
    leave(device, seen, drive);
    arrive(device, seen, drive);
}

void Fabric::leave(int device, const Shown &seen, Driven &drive) {
    Side &side = side_[device];
    const Knobs &knobs = bench_.host[device]->knobs;
    side.rate.tick(knobs.net_rate);
    if (side.held && (!seen.net_valid || seen.net_keep != side.held_keep ||
                      seen.net_last != side.held_last ||
                      std::memcmp(seen.net_data, side.held_data, 64) != 0))
        bench_.fail(device, "m_net changed before ready");
    side.held = false;
    if (seen.net_valid && drive.out_ready) {
        unsigned count = __builtin_popcountll(seen.net_keep);
        if (count == 0 || (seen.net_keep & (seen.net_keep + 1)) != 0)
            bench_.fail(device, "m_net keep %016lx is not contiguous from byte 0", seen.net_keep);
        if (count != 64 && !seen.net_last)
            bench_.fail(device, "m_net flit of %u bytes is not the last one", count);
        if ((seen.net_x & seen.net_keep) != 0) bench_.fail(device, "m_net data is unknown");
        bench_.digest.word(0x100 + device);
        bench_.shake(kPinOut, device, first_bytes(seen.net_data),
                     u64(seen.net_last) << 1 | side.gathering.empty());
        bench_.digest.bytes(seen.net_data, count);
        side.gathering.insert(side.gathering.end(), seen.net_data, seen.net_data + count);
        side.rate.use(knobs.net_rate, count);
        if (seen.net_last) {
            route(device, side.gathering);
            side.gathering.clear();
        }
    } else if (seen.net_valid) {
        side.held = true;
        side.held_keep = seen.net_keep;
        side.held_last = seen.net_last;
        std::memcpy(side.held_data, seen.net_data, 64);
    }
    drive.out_ready = side.rate.allow(knobs.net_rate) && !side.rng.chance(knobs.net_stall);
}

void Fabric::route(int device, const std::vector<u8> &packet) {
    sent[device]++;
    const Knobs &knobs = bench_.host[device]->knobs;
    Rng &rng = side_[device].rng;
    PacketRecord record{bench_.cycle, bench_.store_bytes(packet.data(), packet.size()),
                        u32(packet.size()), u32(device), kDelivered, kNoSuchNode};
    int target = -1;
    if (packet.size() < EFA_PKT_HDR__BYTES) {
        bench_.fail(device, "packet of %zu bytes has no header", packet.size());
    } else {
        u64 length = field(packet, EFA_PKT_HDR__LENGTH__LSB, EFA_PKT_HDR__LENGTH__WIDTH);
        if (length + EFA_PKT_HDR__BYTES != packet.size())
            bench_.fail(device, "packet of %zu bytes has %lu as payload length", packet.size(),
                        length);
        record.dst_node = field(packet, EFA_PKT_HDR__DST_NODE__LSB, EFA_PKT_HDR__DST_NODE__WIDTH);
        for (int other = 0; other < bench_.devices && !knobs.net_far; other++)
            if (bench_.host[other]->knobs.node == record.dst_node) target = other;
    }
    u64 due = bench_.cycle + rng.between(knobs.net_latency_min, knobs.net_latency_max);
    if (target < 0 && knobs.net_peer != 0 && record.dst_node >= knobs.net_peer &&
        record.dst_node - knobs.net_peer < knobs.net_peers) {
        record.fate = kPeerResponse;
        respond(device, due + rng.between(knobs.net_latency_min, knobs.net_latency_max), packet);
    } else if (target < 0) {
        record.fate = kNoNode;
    } else if (rng.chance(knobs.net_loss)) {
        record.fate = kLost;
    } else {
        if (rng.chance(knobs.net_reorder)) {
            record.fate = kReordered;
            due += 1 + rng.below(knobs.net_reorder_max);
        } else {
            // A packet that is not reordered keeps its order.
            due = std::max(due, side_[device].last_due);
            side_[device].last_due = due;
        }
        queue(target, due, packet);
        if (rng.chance(knobs.net_dup)) {
            record.fate = kDuplicated;
            queue(target, due + 1 + rng.below(knobs.net_reorder_max), packet);
        }
    }
    bench_.packets.add(record);
}

void Fabric::queue(int device, u64 due, const std::vector<u8> &packet) {
    side_[device].coming.emplace(due, packet);
}

// A peer acknowledges every packet of the reliable transport at once, and answers read requests. It
// learns the incarnation of the device from acknowledgements, and drops datagrams.
void Fabric::respond(int device, u64 due, const std::vector<u8> &packet) {
    Side &side = side_[device];
    switch (packet[0]) {
        case EFA_PKT_OPCODE__SRD_ACK:
            peer(device, packet).incarnation =
                field(packet, EFA_SRD_ACK__INCARNATION__LSB, EFA_SRD_ACK__INCARNATION__WIDTH);
            return;
        case EFA_PKT_OPCODE__SRD_SEND:
        case EFA_PKT_OPCODE__RDMA_WRITE:
        case EFA_PKT_OPCODE__READ_REQUEST:
        case EFA_PKT_OPCODE__READ_RESPONSE:
            break;
        default:
            return;
    }
    due = std::max(due, side.last_due);
    side.last_due = due;
    queue(device, due, acknowledged(device, packet));
    if (packet[0] == EFA_PKT_OPCODE__READ_REQUEST) answer(device, due, packet);
}

Fabric::Peer &Fabric::peer(int device, const std::vector<u8> &packet) {
    return side_[device].peers[field(packet, EFA_SRD_HDR__DST_NODE__LSB,
                                     EFA_SRD_HDR__DST_NODE__WIDTH)];
}

// Queues the responses of a read request, with the bytes of the peer. They leave at line rate behind
// acknowledgements that are due. A peer does not wait for acknowledgements of the device.
void Fabric::answer(int device, u64 due, const std::vector<u8> &request) {
    Peer &at = peer(device, request);
    const u64 head = EFA_SRD_HDR__BYTES + EFA_PKT_RDMA__BYTES;
    if (request.size() != head) {
        bench_.fail(device, "read request of %zu bytes, expected %lu", request.size(), head);
        return;
    }
    auto srd = [&](unsigned lsb, unsigned width) { return field(request, lsb, width); };
    auto rdma = [&](unsigned lsb, unsigned width) { return field(request, kRdmaLsb + lsb, width); };
    u64 offset = rdma(EFA_PKT_RDMA__OFFSET__LSB, EFA_PKT_RDMA__OFFSET__WIDTH);
    u64 count = rdma(EFA_PKT_RDMA__COUNT__LSB, EFA_PKT_RDMA__COUNT__WIDTH);
    u64 from = rdma(EFA_PKT_RDMA__REMOTE_ADDR__LSB, EFA_PKT_RDMA__REMOTE_ADDR__WIDTH);
    for (u64 end = offset + count; offset < end; offset += kResponseBytes) {
        u64 bytes = std::min(kResponseBytes, end - offset);
        std::vector<u8> back(head + bytes);
        auto write = [&](unsigned lsb, unsigned width, u64 value) {
            set_field(back, lsb, width, value);
        };
        write(EFA_SRD_HDR__OPCODE__LSB, EFA_SRD_HDR__OPCODE__WIDTH, EFA_PKT_OPCODE__READ_RESPONSE);
        write(EFA_SRD_HDR__LENGTH__LSB, EFA_SRD_HDR__LENGTH__WIDTH, EFA_PKT_RDMA__BYTES + bytes);
        write(EFA_SRD_HDR__SRC_QPN__LSB, EFA_SRD_HDR__SRC_QPN__WIDTH,
              srd(EFA_SRD_HDR__DST_QPN__LSB, EFA_SRD_HDR__DST_QPN__WIDTH));
        write(EFA_SRD_HDR__DST_QPN__LSB, EFA_SRD_HDR__DST_QPN__WIDTH,
              srd(EFA_SRD_HDR__SRC_QPN__LSB, EFA_SRD_HDR__SRC_QPN__WIDTH));
        write(EFA_SRD_HDR__PSN__LSB, EFA_SRD_HDR__PSN__WIDTH, at.response_psn);
        write(EFA_SRD_HDR__SESSION__LSB, EFA_SRD_HDR__SESSION__WIDTH, kPeerSession);
        write(EFA_SRD_HDR__INCARNATION__LSB, EFA_SRD_HDR__INCARNATION__WIDTH, at.incarnation);
        write(EFA_SRD_HDR__SRC_NODE__LSB, EFA_SRD_HDR__SRC_NODE__WIDTH,
              srd(EFA_SRD_HDR__DST_NODE__LSB, EFA_SRD_HDR__DST_NODE__WIDTH));
        write(EFA_SRD_HDR__DST_NODE__LSB, EFA_SRD_HDR__DST_NODE__WIDTH,
              srd(EFA_SRD_HDR__SRC_NODE__LSB, EFA_SRD_HDR__SRC_NODE__WIDTH));
        write(EFA_SRD_HDR__BEHIND__LSB, EFA_SRD_HDR__BEHIND__WIDTH,
              std::min<u64>(at.response_psn, (1u << EFA_TRANSPORT__PSN_WINDOW_W) - 1));
        write(kRdmaLsb + EFA_PKT_RDMA__TOTAL__LSB, EFA_PKT_RDMA__TOTAL__WIDTH,
              rdma(EFA_PKT_RDMA__TOTAL__LSB, EFA_PKT_RDMA__TOTAL__WIDTH));
        write(kRdmaLsb + EFA_PKT_RDMA__OFFSET__LSB, EFA_PKT_RDMA__OFFSET__WIDTH, offset);
        write(kRdmaLsb + EFA_PKT_RDMA__READ_ID__LSB, EFA_PKT_RDMA__READ_ID__WIDTH,
              rdma(EFA_PKT_RDMA__READ_ID__LSB, EFA_PKT_RDMA__READ_ID__WIDTH));
        for (u64 n = 0; n < bytes; n++) back[head + n] = peer_byte(from + offset + n);
        at.response_psn++;
        side_[device].responses.emplace_back(due, std::move(back));
    }
}

// Acknowledges all packets of the session up to this one (decision 0009): none gets lost on the way
// to the peer, so they come in the order of their PSNs.
std::vector<u8> Fabric::acknowledged(int device, const std::vector<u8> &packet) {
    Peer &at = peer(device, packet);
    auto read = [&](unsigned lsb, unsigned width) { return field(packet, lsb, width); };
    u64 session = read(EFA_SRD_HDR__SESSION__LSB, EFA_SRD_HDR__SESSION__WIDTH);
    u32 next = u32(read(EFA_SRD_HDR__PSN__LSB, EFA_SRD_HDR__PSN__WIDTH)) + 1;
    if (session != at.session || int32_t(next - at.next_psn) > 0) at.next_psn = next;
    at.session = session;
    std::vector<u8> back(EFA_SRD_ACK__BYTES);
    auto write = [&](unsigned lsb, unsigned width, u64 value) {
        set_field(back, lsb, width, value);
    };
    write(EFA_SRD_ACK__OPCODE__LSB, EFA_SRD_ACK__OPCODE__WIDTH, EFA_PKT_OPCODE__SRD_ACK);
    write(EFA_SRD_ACK__LENGTH__LSB, EFA_SRD_ACK__LENGTH__WIDTH, EFA_SRD_ACK__BITMAP__WIDTH / 8);
    write(EFA_SRD_ACK__PSN__LSB, EFA_SRD_ACK__PSN__WIDTH, at.next_psn);
    write(EFA_SRD_ACK__BITMAP_PSN__LSB, EFA_SRD_ACK__BITMAP_PSN__WIDTH, at.next_psn);
    write(EFA_SRD_ACK__SESSION__LSB, EFA_SRD_ACK__SESSION__WIDTH, session);
    write(EFA_SRD_ACK__INCARNATION__LSB, EFA_SRD_ACK__INCARNATION__WIDTH, 1);
    write(EFA_SRD_ACK__SRC_NODE__LSB, EFA_SRD_ACK__SRC_NODE__WIDTH,
          read(EFA_SRD_HDR__DST_NODE__LSB, EFA_SRD_HDR__DST_NODE__WIDTH));
    write(EFA_SRD_ACK__DST_NODE__LSB, EFA_SRD_ACK__DST_NODE__WIDTH,
          read(EFA_SRD_HDR__SRC_NODE__LSB, EFA_SRD_HDR__SRC_NODE__WIDTH));
    write(EFA_SRD_ACK__PATH__LSB, EFA_SRD_ACK__PATH__WIDTH,
          read(EFA_SRD_HDR__PATH__LSB, EFA_SRD_HDR__PATH__WIDTH));
    return back;
}

void Fabric::inject(int device, const u8 *from, u64 len, u64 delay) {
    queue(device, bench_.cycle + delay, std::vector<u8>(from, from + len));
}

void Fabric::arrive(int device, const Shown &seen, Driven &drive) {
    Side &side = side_[device];
    const Knobs &knobs = bench_.host[device]->knobs;
    if (drive.net_valid && seen.net_ready) {
        drive.net_valid = false;
        bench_.digest.word(0x200 + device);
        bench_.shake(kPinIn, device, first_bytes(drive.net_data),
                     u64(drive.net_last) << 1 | side.first);
        if (drive.net_last) {
            side.busy = false;
            accepted(device, side.entering);
        }
    }
    if (drive.net_valid) return;
    if (!side.busy) {
        auto first = side.coming.begin();
        if (first != side.coming.end() && first->first <= bench_.cycle) {
            side.entering.swap(first->second);
            side.coming.erase(first);
        } else if (!side.responses.empty() && side.responses.front().first <= bench_.cycle) {
            side.entering.swap(side.responses.front().second);
            side.responses.pop_front();
        } else {
            return;
        }
        side.entered = 0;
        side.busy = true;
    }
    if (side.rng.chance(knobs.net_gap)) return;
    u64 left = side.entering.size() - side.entered, count = std::min<u64>(left, 64);
    std::memset(drive.net_data, 0, 64);
    std::memcpy(drive.net_data, side.entering.data() + side.entered, count);
    side.first = side.entered == 0;
    side.entered += count;
    drive.net_keep = count == 64 ? ~u64(0) : (u64(1) << count) - 1;
    drive.net_last = count == left;
    drive.net_valid = drive.net_new = true;
}

void Fabric::accepted(int device, const std::vector<u8> &packet) {
    const Knobs &knobs = bench_.host[device]->knobs;
    if (knobs.arrive_log)
        bench_.arrivals.add({bench_.cycle, bench_.store_bytes(packet.data(), packet.size()),
                             u32(packet.size()), u32(device), kDelivered, u32(knobs.node)});
}

bool Fabric::quiet() const {
    for (const Side &side : side_)
        if (side.busy || !side.coming.empty() || !side.responses.empty() || !side.gathering.empty())
            return false;
    return true;
}

}  // namespace efa
