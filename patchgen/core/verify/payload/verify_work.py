"""Work of a verifying rank besides sums. Named so, beside verify_rank.py.

Runs under Python 3.6 and newer with any torch since 1.7, and imports nothing of this package.
"""

import gc
import time
from typing import Any

SIDE, ROWS = 512, 8  # of a matrix that is multiplied; rows of the product that are compared
# Of a training. After fewer than some 128 steps PyTorch 1.7.1 under Python 3.9 ends well.
FEATURES, STEPS = 300, 256
NEAR = 1e-4  # for values around 1 that were computed in float32 in two ways
NO_LAPACK = (
    "this torch was built without LAPACK, and so perhaps without BLAS: svd, inverse, solve and the "
    "like raise; build it where both are installed (Debian: libopenblas-dev)"
)


def matmul(torch: Any) -> "dict[str, Any]":
    """A product of matrices, which is what BLAS is for."""
    generator = torch.Generator().manual_seed(0)
    left, right = torch.randn(2, SIDE, SIDE, generator=generator)
    begun = time.monotonic()
    product = left.mm(right)
    seconds = time.monotonic() - begun
    exact = (left[:ROWS, :, None].double() * right[None].double()).sum(1)
    wrong, bound = float((product[:ROWS].double() - exact).abs().max()), NEAR * SIDE
    problems = [] if wrong <= bound else [f"wrong by {wrong:.3g}, allowed is {bound:.3g}"]
    rate = 2 * SIDE**3 / seconds / 1e9
    return {"problems": problems, "found": f"{SIDE} x {SIDE}, {rate:.1f} GFlop/s of one thread"}


def svd(torch: Any) -> "dict[str, Any]":
    """A singular value decomposition, which needs LAPACK."""
    side = SIDE // 8
    matrix = torch.randn(side, side, generator=torch.Generator().manual_seed(0))
    try:
        left, values, right = torch.svd(matrix)
    except RuntimeError as error:
        if "lapack" not in str(error).lower():
            raise
        return {"problems": [NO_LAPACK], "optional": True}
    wrong, bound = float(((left * values).mm(right.t()) - matrix).abs().max()), NEAR * side
    problems = [] if wrong <= bound else [f"wrong by {wrong:.3g}, allowed is {bound:.3g}"]
    return {"problems": problems, "found": f"{side} x {side}"}


def differs(together: Any, alone: Any) -> "list[str]":
    """Problems of what was learnt on all ranks."""
    wrong = float((together - alone).abs().max())
    return [] if wrong <= NEAR else [f"a weight is wrong by {wrong:.3g} after {STEPS} steps"]


def learnt(torch: Any, inputs: "list[Any]", parallel: Any = None) -> Any:  # a tensor
    """The weights after a training.

    Args:
        torch: the module.
        inputs: STEPS * FEATURES numbers for each rank whose work is done here.
        parallel: what makes a model one of several ranks; without, all is done here.
    """
    torch.manual_seed(0)
    model = torch.nn.Linear(FEATURES, 1)
    if parallel is not None:
        model = parallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = torch.stack([one.view(STEPS, FEATURES) for one in inputs], dim=1)
    for batch in batches:
        optimizer.zero_grad()
        (model(batch) - 1).square().mean().backward()
        optimizer.step()
    weights = torch.cat([values.detach().flatten() for values in model.parameters()])
    del model, optimizer
    gc.collect()  # or the group that is destroyed next is held
    return weights
