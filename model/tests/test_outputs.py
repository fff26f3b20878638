# SPDX-License-Identifier: Apache-2.0
"""Tests the comparison of the outputs of two devices: each kind of difference is reported with its
location."""

from pathlib import Path

import pytest

from efa_cosim.backends.model import open_model
from efa_cosim.cli import run
from efa_cosim.jobs.progress import Progress
from efa_cosim.layouts import defs
from efa_cosim.layouts.codec import crc16
from efa_cosim.session.outputs import Outputs, differences
from efa_cosim.session.player import play
from efa_cosim.session.regions import Part, Region

PINGPONG = Path(__file__).parent / "data/sessions/pingpong.jsonl.gz"
COMPLETION_BYTES = 32


class Corrupted:
    """A model whose output record or memory is corrupted by one of the changes below."""

    def __init__(self, kind, change):
        self.kind, self.change, self.done = kind, change, False

    def open(self):
        """Returns the backend; its record is changed once, at the first place where `change`
        applies."""
        backend = open_model(record=True, profile="recorded")
        take = getattr(backend, self.kind)

        def changed():
            items = take()
            for at, item in enumerate(items):
                other = item if self.done else self.change(item)
                if other != item:
                    self.done = True
                    items[at : at + 1] = [] if other is None else [other]
                    break
            return items

        setattr(backend, self.kind, changed)
        return backend


def played(backend, name):
    outputs = Outputs(name)
    play(PINGPONG, backend, outputs=outputs)
    return outputs


@pytest.fixture(scope="module")
def model():
    return played(open_model(record=True, profile="recorded"), "model")


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def grh(write):
    """Changes a byte of the GRH of a datagram, which no recording contains."""
    address, data = write
    header = len(data) >= defs.LIMITS.grh_bytes and data[8:10] == b"\xfe\x80"
    return (address, flipped(data, 39)) if header and not any(data[:8]) else write


def feature(write):
    """Changes the first byte of a feature response, which identifies the device, and fixes the
    checksum."""
    address, data = write
    if len(data) != defs.AdminAcqEntry.SIZE or not any(data[8:]):
        return write
    entry = defs.AdminAcqEntry.unpack(flipped(data, 8))
    entry.acq_common_descriptor.checksum = 0
    entry.acq_common_descriptor.checksum = crc16(entry.pack())
    return address, entry.pack()


def test_two_models_send_the_same(model):
    assert differences(model, played(open_model(record=True, profile="recorded"), "rtl")) == []
    counts = model.counts()
    assert counts["packets"] == 200
    assert counts["dma_writes"] > 600
    assert counts["interrupts"] == 50


def test_a_flipped_byte_that_no_recording_holds_is_named(model):
    found = differences(model, played(Corrupted("writes", grh).open(), "rtl"))
    assert len(found) == 1
    assert found[0].startswith("payload byte at 0x")
    assert "model" in found[0] and "rtl" in found[0]


def test_a_feature_of_another_device_is_named(model):
    (text,) = differences(model, played(Corrupted("writes", feature).open(), "rtl"))
    assert "admin response ring 0x" in text
    assert "entry of command 0x" in text and "byte 8" in text


def test_a_flipped_byte_of_a_packet_is_named(model):
    other = played(Corrupted("packets", lambda packet: flipped(packet, 1000)).open(), "rtl")
    (text,) = differences(model, other)
    assert text.startswith("packet (opcode 1, queue pair 0x")
    assert " 0, session line" in text and "byte 1000" in text


def test_a_lost_packet_is_named(model):
    (text,) = differences(model, played(Corrupted("packets", lambda _: None).open(), "rtl"))
    assert text.startswith("packet (opcode 1")


@pytest.mark.parametrize("field", ["psn", "msg_id", "path"])
def test_what_a_device_chooses_may_differ(model, field):
    def chosen(packet):
        image = bytearray(packet)
        setattr(defs.PktHdr.over(image), field, 7)
        return bytes(image)

    assert differences(model, played(Corrupted("packets", chosen).open(), "rtl")) == []


def test_host_memory_that_differs_unseen_is_named(model):
    backend = open_model(record=True, profile="recorded")
    settle = backend.settle

    def idle():
        settle()
        page = max(model.memory)
        backend.memory.write(page + 9, flipped(backend.memory.read(page + 9, 1), 0))

    backend.settle = idle
    (text,) = differences(model, played(backend, "rtl"))
    assert text.startswith(f"host memory at the end, {max(model.memory) + 9:#x}: model ")


def sent(name="rtl", writes=(), packets=(), interrupts=()):
    """Builds outputs by hand; writes are (region or None, address, bytes)."""
    outputs = Outputs(name)
    for line, (region, address, data) in enumerate(writes, 1):
        at = 0 if region is None else (address - region.base) % region.entry_bytes
        outputs.write(line, address, data, [Part(region, address - at, at, data)])
    for line, packet in enumerate(packets, 1):
        outputs.packet(line, packet)
    for vector in interrupts:
        outputs.interrupt(vector)
    return outputs


def region(kind, entry_bytes):
    return Region(kind, 0x10000, entry_bytes, 16)


def completion(qp_num, req_id, phase=1, queue=defs.IoQueueType.RECV_QUEUE):
    entry = defs.IoRxCdescEx()
    entry.base.common.qp_num, entry.base.common.req_id = qp_num, req_id
    entry.base.common.q_type, entry.base.common.phase = queue, phase
    return entry.pack()


def completions(*entries):
    ring = region("completion", COMPLETION_BYTES)
    return [(ring, ring.base + COMPLETION_BYTES * at, entry) for at, entry in enumerate(entries)]


def test_queue_pairs_may_pass_each_other_in_a_completion_ring():
    first = sent(writes=completions(completion(1, 5), completion(2, 6)))
    other = sent(writes=completions(completion(2, 6), completion(1, 5)))
    assert differences(first, other) == []


def test_receives_of_one_queue_pair_may_not_pass_each_other():
    first = sent(writes=completions(completion(1, 5), completion(1, 6)))
    other = sent(writes=completions(completion(1, 6), completion(1, 5)))
    (text,) = differences(first, other)
    assert "completion ring 0x10000: entry of queue pair 0x1, receives 0" in text
    assert "byte 0" in text


def test_sends_may_pass_each_other_with_srd_alone():
    def entries(*order):
        return completions(*(completion(1, number, queue=defs.IoQueueType.SEND_QUEUE)
                             for number in order))

    head = defs.PktHdr(opcode=defs.PktOpcode.SRD_SEND, src_qpn=1, dst_qpn=2)
    for packets, agree in (([head.pack()], True), ([], False)):
        found = differences(sent(writes=entries(5, 6), packets=packets),
                            sent(writes=entries(6, 5), packets=packets))
        assert (found == []) is agree


@pytest.mark.parametrize("change", ["phase", "slot", "number"])
def test_entries_have_their_slots_and_phases(change):
    whole = completions(completion(1, 5), completion(1, 6))
    corrupted = {
        "phase": completions(completion(1, 5), completion(1, 6, phase=0)),
        "slot": [whole[0], (whole[1][0], whole[1][1] + COMPLETION_BYTES, whole[1][2])],
        "number": whole[:1],
    }[change]
    (text,) = differences(sent(writes=whole), sent(writes=corrupted))
    assert {"phase": "phase 1, rtl 0x10020, 32 bytes, phase 0", "slot": "0x10040",
            "number": "number of entries"}[change] in text


def test_payload_may_be_cut_but_not_changed():
    data = bytes(range(100))
    whole = sent(writes=[(None, 0x5000, data)])
    cut = sent(writes=[(None, 0x5040, data[64:]), (None, 0x5000, data[:64])])
    assert differences(whole, cut) == []
    (text,) = differences(whole, sent(writes=[(None, 0x5000, flipped(data, 70))]))
    assert text.startswith("payload byte at 0x5046")


def test_a_byte_written_once_more_is_named():
    once = sent(writes=[(None, 0x5000, b"ab")])
    (text,) = differences(once, sent(writes=[(None, 0x5000, b"ab"), (None, 0x5001, b"b")]))
    assert text.startswith("payload byte at 0x5001")


def test_polls_of_a_reset_count_as_the_last_one():
    ring = region("register response", 8)

    def responses(*values):
        entry = defs.AdminMmioReqReadLessResp
        return [(ring, ring.base, entry(req_id=9, reg_off=defs.Reg.DEV_STS, reg_val=v).pack())
                for v in values]

    assert differences(sent(writes=responses(1)), sent(writes=responses(3, 3, 1))) == []
    (text,) = differences(sent(writes=responses(1)), sent(writes=responses(3)))
    assert text.startswith("register response 0, session line 1, byte 4")


def test_interrupts_are_counted_by_vector():
    (text,) = differences(sent(interrupts=[0, 1, 1]), sent(interrupts=[0, 1]))
    assert text == "interrupts of vector 1: rtl 2, rtl 1"


def test_psn_goes_up_by_one():
    def packets(*numbers):
        return [defs.PktHdr(opcode=defs.PktOpcode.SRD_SEND, psn=n).pack() for n in numbers]

    assert differences(sent(packets=packets(0, 1, 0)), sent(packets=packets(0, 1, 2))) == []
    (text,) = differences(sent(packets=packets(0, 1, 2)), sent(packets=packets(0, 1, 3)))
    assert "psn to node 0, session line 3" in text


@pytest.mark.parametrize(("kind", "change", "what"), [
    ("writes", grh, "payload byte at 0x"),
    ("packets", lambda packet: flipped(packet, 700), "byte 700"),
    ("packets", lambda _: None, "packet (opcode 1"),
])
def test_run_fails_when_one_backend_sent_something_else(monkeypatch, kind, change, what):
    def opened(name, *_session, **_options):
        return (open_model(record=True, profile="recorded") if name == "model"
                else Corrupted(kind, change).open())

    monkeypatch.setattr(run, "open_player", opened)
    wrong = []
    rows = run.play_both(PINGPONG, 1, wrong, Progress("run"))
    assert [row["verdict"] for row in rows] == ["passed", "failed"]
    assert len(wrong) == 1 and wrong[0].startswith("pingpong.jsonl.gz: ") and what in wrong[0]
    assert all(row["dma_writes"] and row["interrupts"] for row in rows)
