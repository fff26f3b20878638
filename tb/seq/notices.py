"""What the device writes besides its queues: asynchronous events, keep-alives, event counters; and
what it reads besides: page lists in chunks."""

from efa import defs
from efa.completion_counter import RECEIVES, SENDS
from efa.driver import Driver
from efa.endpoints import SRD, UD, Endpoint, Node, pattern
from efa.host_alloc import PAGE_BYTES
from tb.seq.admin import refused

GROUP = defs.AdminAenqGroup
STATUS = defs.AdminAqCompletionStatus


def counted(backends, rng):
    """Counters beside completions and their events: each value is there before its event; several
    queues on one counter, errors and flushes on another, detached and set in between."""
    node = Node(backends[0], cpus=4)
    ends = [Endpoint(node, kind, events=True) for kind in (SRD, SRD, UD, UD)]
    counters = [node.context.create_counter() for _ in range(3)]
    for end in ends:
        counters[0].attach(end.qp, SENDS)
        counters[1].attach(end.qp, RECEIVES)
    for turn in range(16):
        pair = rng.choice((ends[:2], ends[2:]))
        a, b = rng.sample(pair, 2)
        b.cq.req_notify()
        b.receive(100, wr_id=turn)
        a.send(b, pattern(60, turn))
        b.cq.get_event()
        assert counters[1].value == turn + 1, "the event came before the value"
        b.cq.wait_for(1)
        a.cq.wait_for(1)
    # A value comes after its completion.
    node.driver.wait(lambda: (counters[0].value, counters[0].errors) == (16, 0))
    refused(STATUS.RESOURCE_BUSY, counters[0].destroy)
    a, b = ends[0], ends[1]
    # Nothing is posted there: the peer says so.
    a.send(b, pattern(8, 1))
    a.cq.wait_for(1)
    node.driver.wait(lambda: (counters[0].value, counters[0].errors) == (16, 1))
    for _ in range(3):
        b.receive(64)
    b.qp.modify(defs.AdminQpState.ERR)
    b.cq.wait_for(3)
    node.driver.wait(lambda: counters[1].errors == 3)
    counters[0].set(1 << 40)
    counters[0].add((1 << 64) - 1, errors=True)
    assert (counters[0].value, counters[0].errors) == (1 << 40, 0)
    counters[0].detach(a.qp, SENDS)
    counters[2].attach(a.qp, SENDS)
    a.send(b, pattern(8, 2))
    a.cq.wait_for(1)
    node.driver.wait(lambda: (counters[0].value, counters[2].errors) == (1 << 40, 1))
    for end in ends:
        end.qp.destroy()
    for counter in counters:
        counter.destroy()
    backends[0].settle()


def asynchronous(backends, rng):
    """Events of every group among commands, more than the ring holds while nobody reads."""
    backend = backends[0]
    driver = Driver(backend).probe()
    raised = []

    def ask(group):
        syndrome, data = rng.getrandbits(16), rng.randbytes(48)
        backend.raise_event(group, syndrome, data)
        if 1 <= group < GROUP.KEEP_ALIVE:
            raised.append((group, syndrome, data))

    for group in (1, 2, 3, 0, 5, 0xFFFF, 2):
        ask(group)
        driver.alloc_pd()
    for _ in range(40):
        ask(rng.randrange(1, GROUP.KEEP_ALIVE))
    driver.wait(lambda: len(driver.async_events) == len(raised))
    got = [
        (int(event.aenq_common_desc.group), int(event.aenq_common_desc.syndrome),
         b"".join(int(word).to_bytes(4, "little") for word in event.inline_data_w4))
        for event in driver.async_events
    ]  # fmt: skip
    assert got == raised
    backend.settle()
    driver.remove()


def alive(backends, _rng):
    """Keep-alives at the strap's period while commands run; a driver that reads loses none."""
    driver = Driver(backends[0]).probe()
    for _ in range(20):
        driver.dealloc_pd(driver.alloc_pd())
    driver.wait(lambda: driver.aenq_events[GROUP.KEEP_ALIVE] >= 30)
    driver.set_aenq_groups(0)
    backends[0].settle()
    driver.remove()


def chained(backends, rng):
    """Page lists in chunks: data through the first, a middle and the last of very many pages."""
    node = Node(backends[0])
    node.driver.list_bytes = 0  # no list in one piece
    a, b = Endpoint(node), Endpoint(node)
    for pages in (5, 512, 513, 3000):
        region = node.pd.reg_mr(pages * PAGE_BYTES, scattered=True)
        b.buffer = region
        for offset in (0, rng.randrange(pages - 1) * PAGE_BYTES + 3, pages * PAGE_BYTES - 4000):
            data = pattern(3900, offset)
            b.receive(4000, offset=offset)
            a.send(b, data)
            b.cq.wait_for(1)
            a.cq.wait_for(1)
            assert region.read(offset, len(data)) == data
        region.dereg()
    backends[0].settle()
