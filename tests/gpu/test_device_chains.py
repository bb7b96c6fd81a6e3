"""Random chains of operations on the device against torch: those of tests/python/test_chains.py."""

import hypothesis
import pytest
import torch
from device import execute, put
from hypothesis import strategies as st
from test_chains import Chain

from nvfuser_go import Unsupported

PARTS = 16


@pytest.mark.cuda  # the simulator would take an hour
@pytest.mark.parametrize("part", range(PARTS))
def test_chains(part: int) -> None:
    ran = refused = 0

    @hypothesis.seed(part)
    @hypothesis.settings(
        max_examples=25, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(st.data())
    def check(data: st.DataObject) -> None:
        nonlocal ran, refused
        chain = Chain(data)
        chain.build()
        inputs = [put(x) for x in chain.inputs]
        for attempt in range(2):
            try:
                got = execute(chain.fd, inputs)
            except Unsupported:
                refused += 1
                return
            ran += 1
            for i, (g, p) in enumerate(zip(got, chain.outputs, strict=True)):
                where = f"\noutput {i}, run {attempt}\n" + "\n".join(chain.steps) + f"\n{chain.fd}"
                torch.testing.assert_close(
                    g.cpu(), p.value, rtol=1e-9, atol=1e-9, msg=lambda text, where=where: text + where
                )

    check()
    assert ran > 6, f"{ran} ran and {refused} were refused"
