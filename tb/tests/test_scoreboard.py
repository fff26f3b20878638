# SPDX-License-Identifier: Apache-2.0
"""Tests the scoreboard on the model as the device, without and with planted faults."""

import pytest

from efa_cosim.backends.model import ModelBackend
from efa_cosim.boundary.backend import MSIX_ENTRY_BYTES, DeviceTimeout, msix_table_stores
from efa_cosim.host.admin_queue import DriverError
from efa_cosim.host.completion_queue import VerbsError
from efa_cosim.host.endpoints import SRD, UD, Endpoint, Node, pattern
from efa_cosim.layouts import defs
from efa_cosim.session.regions import ADMIN_RESPONSE, COMPLETION, EVENT
from tb.env.model_dut import ModelDut, TamperedDut
from tb.env.notification import AdminMessages, CompletionQueue, EventQueue
from tb.env.payload import DuePayload, Message
from tb.env.predictors import Predictors
from tb.env.scoreboard import Difference, Scoreboard

CQE_BYTES = 32
SEND_QUEUE = defs.IoQueueType.SEND_QUEUE


def traffic(dut):
    """Sends messages of both kinds between two queue pairs of one device."""
    node = Node(dut)
    for kind in (UD, SRD):
        a, b = Endpoint(node, kind), Endpoint(node, kind)
        for turn, size in enumerate((5, 64, 500, 4000)):
            b.receive(size, wr_id=turn, offset=turn * 8192)
            a.send(b, pattern(size, turn), wr_id=turn, split=2 if size > 2 else None)
            b.cq.wait_for(1)
            a.cq.wait_for(1)
    dut.settle()
    return dut.board


def test_the_model_agrees_with_itself():
    """bench.scoreboard.agree"""
    counts = traffic(ModelDut.single()).check()
    assert counts["packets"] == 12 and counts["completions"] == 16
    assert counts["admin responses"] > 15 and counts["memory pages"] > 0


def test_nothing_compared_fails():
    """bench.scoreboard.empty"""
    with pytest.raises(Difference, match="only 0 things"):
        Scoreboard(Predictors([ModelBackend().memory])).check()


def is_cqe(kind, value):
    return kind == "write" and len(value) == CQE_BYTES


def swap_fields(kind, value):
    """Exchanges qp_num and req_id of a completion."""
    if is_cqe(kind, value):
        value = value[4:6] + value[2:4] + value[0:2] + value[6:]
    return value


def short_ids(kind, value):
    """Drops the upper 48 bits of a send's request id."""
    if is_cqe(kind, value) and (value[3] >> 1 & 3) == SEND_QUEUE:
        value = value[:6] + bytes(6) + value[12:]
    return value


def stuck_phase(kind, value):
    return value[:3] + bytes([value[3] & 0xFE]) + value[4:] if is_cqe(kind, value) else value


def lose_completion(kind, value):
    return None if is_cqe(kind, value) else value


def drop_second_buffer(kind, value):
    return value[:34] + bytes(len(value) - 34) if kind == "packet" and len(value) > 64 else value


def lose_interrupt(kind, value):
    return None if kind == "interrupt" else value


def wrong_payload(kind, value):
    if kind == "write" and len(value) > 64:
        value = value[:-1] + bytes([value[-1] ^ 1])
    return value


def wrong_checksum(kind, value):
    return value[:4] + b"\xff\xff" + value[6:] if kind == "write" and len(value) == 64 else value


def lose_packet(kind, value):
    return None if kind == "packet" else value


@pytest.mark.parametrize(
    "fault",
    [swap_fields, short_ids, stuck_phase, lose_completion, drop_second_buffer, lose_interrupt,
     wrong_payload, wrong_checksum, lose_packet],
)  # fmt: skip
def test_a_fault_fails_the_run(fault):
    """bench.scoreboard.fault"""
    dut = ModelDut.single(fault)
    with pytest.raises((Difference, DeviceTimeout, DriverError, VerbsError)) as caught:
        traffic(dut).check()
    # Host software may find the fault first; the scoreboard must find it too.
    if not isinstance(caught.value, Difference):
        with pytest.raises(Difference):
            dut.board.check()


# Planted differences, one at a time: the host sees a correct device, the scoreboard a wrong one.

PAYLOAD, MESSAGE, ADMIN_MESSAGE, PACKET, STEP = (
    "payload", "message", "admin message", "packet", "reset step",
)  # fmt: skip


class Notified:
    """Sends messages with receive events between two endpoints; can tamper with each step."""

    def __init__(self, kind=UD):
        self.dut = TamperedDut.single()
        self.node = Node(self.dut, cpus=4)
        self.a, self.b = (Endpoint(self.node, kind, events=True) for _ in range(2))
        self.dut.settle()

    def turn(self, number=0, size=600):
        """Arms, sends one message, gets its event and polls; then the device is at rest."""
        self.post(number, size)
        self.b.cq.get_event()
        self.b.cq.wait_for(1)
        self.a.cq.wait_for(1)
        self.dut.settle()

    def turns(self, count):
        """Sends messages one after the other."""
        for number in range(count):
            self.turn(number)

    def post(self, number=0, size=600):
        """Posts one message without waiting."""
        self.b.cq.req_notify()
        self.b.receive(size, wr_id=number)
        self.a.send(self.b, pattern(size, number), wr_id=number)

    def kind_of(self, output):
        """Returns the kind of an output: ring kind, payload, message, packet or reset step."""
        what, *arguments = output
        if what == "interrupt":
            return MESSAGE if arguments[0] else ADMIN_MESSAGE
        if what != "write":
            return {"packet": PACKET, "event": STEP}[what]
        ring = self.dut.board.predictors[0].ring_of(arguments[0], len(arguments[1]))
        return PAYLOAD if ring is None else ring.kind

    def find(self, outputs, kind):
        """Returns the position of the first output of a kind, or None."""
        kinds = [self.kind_of(one) for one in outputs]
        return kinds.index(kind) if kind in kinds else None

    def once(self, kind, change, behind=0, beside=None):
        """Calls `change(outputs, position)` once, at an output of `kind`.

        The first `behind` of them stay; the step must hold an output of kind `beside` too, if
        given.
        """
        state = {"left": behind, "done": False}

        def tamper(outputs):
            at = self.find(outputs, kind)
            alone = beside is not None and self.find(outputs, beside) is None
            if at is None or alone or state["done"]:
                return outputs
            if state["left"]:
                state["left"] -= 1
                return outputs
            state["done"] = True
            change(outputs, at)
            return outputs

        self.dut.tamper = tamper


def repeat_event(notified):
    """Repeats the event in the next slot."""

    def change(outputs, at):
        what, address, data = outputs[at]
        outputs.insert(at + 1, (what, address + len(data), data))

    notified.once(EVENT, change)


def repeat_an_earlier_event(notified):
    """Repeats an event after the EQ was armed more than once."""

    def change(outputs, at):
        what, address, data = outputs[at]
        outputs.insert(at + 1, (what, address + len(data), data))

    notified.once(EVENT, change, behind=2)


def lose_event(notified):
    """Drops both event and message."""

    def change(outputs, at):
        del outputs[notified.find(outputs, MESSAGE)]
        del outputs[at]

    notified.once(EVENT, change)


def lose_message(notified):
    notified.once(EVENT, lambda outputs, _: outputs.pop(notified.find(outputs, MESSAGE)))


def repeat_message(notified):
    notified.once(MESSAGE, lambda outputs, at: outputs.insert(at + 1, outputs[at]))


def foreign_message(notified):
    """Adds a message of an EQ that has no new EQE."""

    def change(outputs, at):
        other = msix_address(3)
        outputs.insert(at, ("interrupt", 3, other))

    notified.once(MESSAGE, change)


def message_elsewhere(notified):
    """Sends the right data to an address that no vector has."""

    def change(outputs, at):
        what, vector, address = outputs[at]
        outputs[at] = what, vector, address + 0x1000

    notified.once(MESSAGE, change)


def swap(first, second):
    """Moves the second kind of output before the first."""

    def plant(notified):
        def change(outputs, at):
            outputs.insert(notified.find(outputs, first), outputs.pop(at))

        notified.once(second, change, beside=first)

    return plant


def event_of_another_cq(notified):
    """Makes the event name the CQ of the sender, which was not armed."""

    def change(outputs, at):
        what, address, data = outputs[at]
        entry = defs.AdminEqe.unpack(data)
        entry.u.comp_event.cqn = notified.a.cq.number
        outputs[at] = what, address, entry.pack()

    notified.once(EVENT, change)


def stray_bit_in_an_event(notified):
    def change(outputs, at):
        what, address, data = outputs[at]
        outputs[at] = what, address, data[:4] + b"\1" + data[5:]

    notified.once(EVENT, change)


def payload(change):
    """Replaces the first payload write by the writes of `change(address, data)`."""

    def plant(notified):
        def changed(outputs, at):
            what, address, data = outputs[at]
            outputs[at : at + 1] = [(what, *one) for one in change(address, data)]

        notified.once(PAYLOAD, changed)

    return plant


NONE = "\n  expected none.*\n  got"
BEFORE = "before its payload\n  expected \\d+ more bytes first"
NOWHERE = "expected nothing there"
PLANTED = {
    "an event twice": (repeat_event, "event of CQ 1" + NONE),
    "an event twice, later": (repeat_an_earlier_event, "event of CQ 1" + NONE),
    "an event lost": (lose_event, "missing\n  expected .*event of CQ 1 on EQ 0: armed in cycle"),
    "an event of another CQ": (event_of_another_cq, "event of CQ 0" + NONE),
    "a stray bit in an event": (stray_bit_in_an_event, "expected 0{16}01.*\n  got      0{8}01"),
    "a message twice": (repeat_message, "message of vector 1" + NONE),
    "a message lost": (lose_message, "missing\n  expected .*message of vector 1 of EQ 0"),
    "a message of another vector": (foreign_message, "message of vector 3" + NONE),
    "a message elsewhere": (message_elsewhere, "message of 0x1 to 0x.*\n  expected address"),
    "a message before its event": (swap(EVENT, MESSAGE), "message of vector 1" + NONE),
    "an event before its completion": (swap(COMPLETION, EVENT), "event of CQ 1" + NONE),
    "a completion before its payload": (swap(PAYLOAD, COMPLETION), BEFORE),
    "a part of a payload lost": (payload(lambda at, data: [(at, data[:100])]), BEFORE),
    "payload that is overwritten later": (
        payload(lambda at, data: [(at, data[:-1] + bytes([data[-1] ^ 0x80]))]),
        "payload at 0x.*\n  expected .*\n  got",
    ),
    "payload elsewhere": (payload(lambda at, data: [(at + 4096 * 999, data)]), NOWHERE),
    "payload twice": (payload(lambda at, data: [(at, data), (at, data)]), NOWHERE),
    "a byte behind a payload": (
        payload(lambda at, data: [(at, data), (at + len(data), b"!")]), f"payload at|{NOWHERE}"
    ),
}  # fmt: skip


def msix_address(vector):
    """Returns the message address of a vector."""
    (_, _, low), *_ = msix_table_stores()[4 * vector :]
    return int.from_bytes(low, "little")


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_difference_is_named(name):
    """bench.scoreboard.exact"""
    plant, text = PLANTED[name]
    notified = Notified()
    plant(notified)
    with pytest.raises(Difference, match=text):
        notified.turns(4)


def test_without_a_planted_difference_all_agrees():
    """bench.scoreboard.exact"""
    notified = Notified()
    notified.turns(4)
    counts = notified.dut.board.check()
    assert counts["events"] == 4 and counts["payload writes"] >= 4


def test_a_cut_message_may_come_in_any_order():
    """bench.scoreboard.cut"""
    notified = Notified()
    payload(lambda at, data: [
        (at + 300, data[300:]), (at + 64, data[64:300]), (at, data[:64]),
    ])(notified)  # fmt: skip
    notified.turn()
    notified.dut.board.check()


def test_an_admin_message_before_its_response_fails():
    """bench.scoreboard.admin"""
    notified = Notified()
    swap(ADMIN_RESPONSE, ADMIN_MESSAGE)(notified)
    with pytest.raises(Difference, match="message of vector 0\n  expected none"):
        notified.node.driver.alloc_pd()


def test_a_lost_admin_message_is_missing_at_rest():
    """bench.scoreboard.admin"""
    notified = Notified()
    notified.once(ADMIN_MESSAGE, lambda outputs, at: outputs.pop(at))
    notified.node.driver.alloc_pd()
    with pytest.raises(Difference, match="missing\n  expected .*vector 0 of the admin queues"):
        notified.dut.settle()


def test_a_masked_vector_sends_nothing():
    """bench.scoreboard.masked"""
    notified = Notified()
    place = defs.LIMITS.msix_table_offset + MSIX_ENTRY_BYTES + 12
    notified.dut.store(defs.EFA_REG_BAR, place, (1).to_bytes(4, "little"))
    notified.dut.settle()
    notified.once(
        EVENT, lambda outputs, at: outputs.insert(at + 1, ("interrupt", 1, msix_address(1)))
    )
    notified.post()
    with pytest.raises(
        Difference, match="message of vector 1\n  expected none.*\n? *new, or its mask"
    ):
        notified.dut.settle()


def test_what_intr_mask_holds_sends_nothing():
    """bench.scoreboard.masked"""
    notified = Notified()
    notified.node.driver.mask_admin_interrupt(1)
    notified.dut.settle()
    notified.once(
        ADMIN_RESPONSE,
        lambda outputs, at: outputs.insert(at + 1, ("interrupt", 0, msix_address(0))),
    )
    with pytest.raises(Difference, match="message of vector 0\n  expected none"):
        notified.node.driver.alloc_pd()


@pytest.mark.parametrize("kind", [UD, SRD])
@pytest.mark.parametrize("what", ["repeated", "of another status", "of another queue pair"])
def test_a_foreign_completion_while_a_queue_pair_dies_fails(what, kind):
    """bench.scoreboard.death"""
    notified = Notified(kind)
    dying = Endpoint(notified.node, kind)
    for number in range(3):
        dying.receive(64, wr_id=number)
        notified.b.receive(64, wr_id=number)

    def change(outputs, at):
        _, _, flushed = outputs[at]
        image = bytearray(flushed)
        image[4:6] = notified.b.qp.number.to_bytes(2, "little")
        if what == "of another queue pair":
            # The CQE is in the ring of the dying queue pair and names a queue pair that uses
            # another CQ.
            outputs[at] = "write", outputs[at][1], bytes(image)
            return
        if what == "of another status":
            image[2] = defs.IoCompStatus.OK
        outputs.insert(at, ("write", notified.b.cq.base, bytes(image)))

    notified.once(COMPLETION, change)
    with pytest.raises(Difference, match=f"queue pair {notified.b.qp.number:#x}\n  expected"):
        dying.qp.modify(defs.AdminQpState.ERR)


def test_a_flush_keeps_the_posting_order():
    """bench.scoreboard.flush"""
    notified = Notified(SRD)
    a = notified.a
    a.qp.modify(defs.AdminQpState.SQD)
    for number in range(3):
        a.send(notified.b, b"held", wr_id=number, inline=True)

    def change(outputs, at):
        (_, address, first), (_, behind, second) = outputs[at : at + 2]
        outputs[at : at + 2] = [("write", address, second), ("write", behind, first)]

    notified.once(COMPLETION, change)
    with pytest.raises(Difference, match=f"queue pair {a.qp.number:#x}\n  expected 0000"):
        a.qp.modify(defs.AdminQpState.ERR)


def in_a_reset(outputs_of, flr=False):
    """Resets a device with a pending last message and shows `outputs_of` its outputs."""
    notified = Notified()
    notified.turn()
    left = []

    def hold(outputs):
        left.extend(one for one in outputs if one[0] != "packet")
        return [one for one in outputs if one[0] == "packet"]

    notified.dut.tamper = hold
    notified.post()
    notified.dut.fabric.run()
    shown = []

    def drain(outputs):
        at = notified.find(outputs, STEP)
        if at is None or shown:
            return outputs
        shown.append(True)
        return outputs[: at + 1] + outputs_of(left) + outputs[at + 1 :]

    notified.dut.tamper = drain
    if flr:
        notified.dut.flr()
    else:
        notified.node.driver.reset()
    # The device works as new.
    again = Endpoint(Node(notified.dut), UD)
    again.receive(64)
    again.send(again, b"anew")
    again.cq.wait_for(2)
    return notified.dut.board


@pytest.mark.parametrize("flr", [False, True])
@pytest.mark.parametrize("pending", [0, 1, 2, 3, 99])
def test_a_reset_may_cut_off_what_is_due(pending, flr):
    """bench.scoreboard.reset"""
    assert in_a_reset(lambda left: left[:pending], flr).check()


def writes(outputs, completions):
    """Returns the completions among the writes, or the payload writes."""
    sizes = (CQE_BYTES,) if completions else (600, 640)
    return [one for one in outputs if one[0] == "write" and len(one[2]) in sizes]


IN_A_RESET = {
    "payload that is not due":
        (lambda _: [("write", 0x7654_3210_0000, b"stray")], "expected nothing there"),
    "wrong payload":
        (lambda left: [(what, at, b"\xff" * len(data)) for what, at, data in writes(left, False)],
         "payload at 0x.*\n  expected"),
    "a completion without its payload": (lambda left: writes(left, True), BEFORE),
    "a packet": (lambda _: [("packet", bytes(64))], "is not due"),
    "a message": (lambda _: [("interrupt", 1, msix_address(1))], "message of vector 1"),
}  # fmt: skip


@pytest.mark.parametrize("flr", [False, True])
@pytest.mark.parametrize("name", IN_A_RESET)
def test_what_is_not_due_fails_in_a_reset_too(name, flr):
    """bench.scoreboard.reset"""
    outputs, text = IN_A_RESET[name]
    with pytest.raises(Difference, match=text):
        in_a_reset(outputs, flr)


def test_a_reset_without_a_request_fails():
    """bench.scoreboard.reset"""
    notified = Notified()
    with pytest.raises(Difference, match="reset\n  expected none"):
        notified.dut._shown("reset", {"step": 0})


@pytest.mark.parametrize("bit", ["READY", "FATAL_ERROR", "RESET_IN_PROGRESS", "RESET_FINISHED"])
def test_a_wrong_bit_of_the_status_fails_in_a_reset_too(bit):
    """bench.scoreboard.status"""
    notified = Notified()
    response = defs.AdminMmioReqReadLessResp

    def change(outputs):
        for at, (what, *arguments) in enumerate(outputs):
            if what == "write" and len(arguments[1]) == response.SIZE:
                image = response.unpack(arguments[1])
                image.reg_val ^= defs.REG_BITS.DEV_STS.pack(**{bit: 1})
                outputs[at] = what, arguments[0], image.pack()
        return outputs

    notified.dut.tamper = change
    with pytest.raises(Difference, match="register response"):
        notified.node.driver.reset()


def test_a_device_may_take_longer_for_a_reset_than_the_model():
    """bench.scoreboard.status"""
    status = defs.REG_BITS.DEV_STS.pack

    def compared(got, wanted, register=defs.Reg.DEV_STS):
        images = [
            defs.AdminMmioReqReadLessResp(req_id=7, reg_off=int(register), reg_val=value).pack()
            for value in (got, wanted)
        ]
        return Scoreboard._not_finished(*images)

    finished, begun = status(READY=1, RESET_FINISHED=1), status(READY=1, RESET_IN_PROGRESS=1)
    assert compared(begun, finished)
    assert not compared(status(READY=1), finished)
    assert not compared(begun | finished, finished)
    assert not compared(finished, begun)
    assert not compared(begun, finished, defs.Reg.CAPS)


# Bounds where the order of a store and an output is open.


def bounds():
    eq = EventQueue(0, 1)
    return eq, CompletionQueue(5, eq, None)


def test_two_arms_lead_to_one_event_or_two():
    """bench.scoreboard.arms"""
    for events in (1, 2):
        eq, cq = bounds()
        eq.arm(1)
        cq.arm(10, 0)
        cq.arm(11, 0)
        cq.completion(20)
        assert cq.refusal(21) is None
        eq.arm(30)
        assert events == 1 or cq.refusal(31) is None
        assert cq.missing() is None
        cq.rest()
        if events == 2:
            assert "no arm is open" in cq.refusal(40)


def test_an_arm_leads_to_one_event():
    """bench.scoreboard.arms"""
    eq, cq = bounds()
    cq.arm(10, 0)
    assert "no arm is open" in cq.refusal(12)
    cq.arm(13, 0)
    assert "no arm is open" in cq.refusal(13)
    cq.completion(14)
    assert "behind 0 CQEs, 1 are written" in cq.missing()
    assert cq.refusal(15) is None and cq.missing() is None
    eq.arm(16)
    cq.completion(17)
    assert "no arm is open" in cq.refusal(18)


def test_what_the_host_has_read_is_no_news():
    """bench.scoreboard.arms"""
    eq, cq = bounds()
    cq.completion(10)
    cq.completion(11)
    cq.arm(20, 2)
    assert cq.missing() is None and "no arm is open" in cq.refusal(21)
    cq.arm(22, 1)
    assert cq.missing() and cq.refusal(23) is None
    # An arm that was posted after a CQE which the bench saw later.
    eq.arm(24)
    cq.arm(30, 3)
    cq.completion(29)
    assert "no arm is open" in cq.refusal(31)


def test_a_second_event_waits_for_an_arm_of_the_eq():
    """bench.scoreboard.held"""
    eq, cq = bounds()
    cq.arm(10, 0)
    cq.completion(11)
    assert cq.refusal(12) is None
    cq.arm(13, 1)
    cq.completion(14)
    assert "none before EQ 0 is armed again" in cq.refusal(15)
    assert cq.missing() is None
    cq.rest()
    eq.arm(20)
    assert "armed in cycle 13" in cq.missing()
    assert "none before" in cq.refusal(20)
    assert cq.refusal(21) is None and cq.missing() is None


def test_each_message_needs_an_arm_and_an_entry():
    """bench.scoreboard.messages"""
    eq, _ = bounds()
    eq.arm(5)
    assert not eq.message(6)
    eq.entry(7)
    assert not eq.message(7) and eq.missing() and eq.message(8)
    eq.last_message = 8
    eq.entry(9)
    assert not eq.message(10) and eq.missing() is None
    eq.arm(11)
    assert eq.missing() and eq.message(12)
    eq.last_message = 12
    # Both EQEs are older than the arm: one message reports them.
    eq.entry(13)
    eq.entry(14)
    eq.arm(15)
    assert eq.message(16)
    eq.last_message = 16
    eq.arm(17)
    assert not eq.message(18) and eq.missing() is None


def test_at_rest_an_eq_is_armed_or_has_news():
    """bench.scoreboard.messages"""
    eq, _ = bounds()
    eq.entry(1)
    eq.entry(2)
    eq.arm(3)
    eq.arm(4)
    eq.entry(5)
    assert eq.message(6)
    eq.last_message = 6
    eq.rest(blocked=False)
    eq.entry(7)
    eq.rest(blocked=False)
    assert not eq.message(8) and eq.missing() is None


def test_each_admin_message_reports_an_entry():
    """bench.scoreboard.messages"""
    admin = AdminMessages(0)
    admin.entry(5)
    assert not admin.message(5) and admin.message(6) and not admin.message(7)
    admin.last_message = 6
    admin.entry(8)
    assert "entry of cycle 8" in admin.missing()
    admin.entry(9)
    admin.rest(blocked=True)
    assert admin.message(10) and not admin.message(11)


def test_pieces_of_messages_at_one_address():
    """bench.scoreboard.payload"""
    due, one, other = DuePayload(), Message(), Message()
    due.add(0x1000, b"one and more", one)
    due.add(0x1000, b"other", other)
    with pytest.raises(ValueError, match="payload at 0x1001\n  expected 6e"):
        due.write(0x1000, b"owe")
    # A message of another queue may come first.
    due.write(0x1000, b"other")
    due.write(0x1004, b"and")
    assert (one.left, other.left) == (9, 0)
    due.write(0x1000, b"one ")
    due.write(0x1007, b" more")
    assert one.left == 0 and not list(due)


def test_a_difference_names_its_field():
    """bench.scoreboard.exact"""
    notified = Notified()

    def change(outputs, at):
        what, address, entry = outputs[at]
        image = bytearray(entry)
        image[defs.IoCdescCommon.status.offset] = defs.IoCompStatus.FLUSHED
        outputs[at] = what, address, bytes(image)

    notified.once(COMPLETION, change)
    with pytest.raises(Difference) as caught:
        notified.turn()
    field, expected, found = str(caught.value).splitlines()[-3:]
    assert "common.status of efa_io_" in field and "device 0, cycle" in field
    assert (expected, found) == ("expected: OK (0)", "found:    FLUSHED (1)")


def test_asynchronous_events_that_stall_at_the_pins_fail():
    """bench.scoreboard.stalled"""
    notified = Notified()
    notified.dut.board.accepts_events(0, 0)
    with pytest.raises(Difference, match="expected: 0, at rest\nfound: +2"):
        notified.dut.board.accepts_events(0, 2)
    depth = notified.node.driver.backend.device.admin.events.ring.depth
    for number in range(depth + 1):
        notified.dut.raise_event(defs.AdminAenqGroup.WARNING, number)
    notified.dut.board.accepts_events(0, 2)
