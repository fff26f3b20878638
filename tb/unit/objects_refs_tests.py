"""efa_objects with a count of references that is soon full."""

import cocotb

from tb.unit.objects_tests import AH, BUSY, CHECK, FREE, NONE, OK, REF, TAKE, UNREF, Bench


@cocotb.test()
async def references_never_wrap(dut):
    """admin.objects.most: named as often as can be counted, it is named no more, and stays."""
    bench = Bench(dut)
    await bench.start()
    most = (1 << int(dut.REF_W.value)) - 1
    assert await bench.ask(TAKE, AH, 3) == OK
    for _ in range(most):
        assert await bench.ask(REF, AH, 3) == OK
    for _ in range(2):
        assert await bench.ask(REF, AH, 3) == NONE
    assert await bench.ask(FREE, AH, 3) == BUSY
    for _ in range(most):
        assert await bench.ask(CHECK, AH, 3) == OK and dut.obj_referenced.value == 1
        assert await bench.ask(UNREF, AH, 3) == OK
    assert await bench.ask(FREE, AH, 3) == OK
