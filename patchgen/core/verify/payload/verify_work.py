"""Computations of a verifying rank other than sums.

Runs under Python 3.6 and newer with any torch since 1.7, and imports nothing of this package.
"""

import gc
import time
from typing import Any

SIDE, ROWS = 512, 8  # size of the factors; compared rows of the product
# Size of a training. PyTorch 1.7.1 under Python 3.9 crashes at its exit only after some 128 steps.
FEATURES, STEPS = 300, 256
NEAR = 1e-4  # allowed error of float32 for values around 1
NO_LAPACK = (
    "this torch was built without LAPACK, and so perhaps without BLAS: svd, inverse, solve and the "
    "like raise; build it where both are installed (Debian: libopenblas-dev)"
)


def matmul(torch: Any) -> "dict[str, Any]":
    """Check a product of matrices, which BLAS computes."""
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
    """Check a singular value decomposition, which needs LAPACK."""
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
    """Compare weights that were trained on all ranks and on one."""
    wrong = float((together - alone).abs().max())
    return [] if wrong <= NEAR else [f"a weight is wrong by {wrong:.3g} after {STEPS} steps"]


def learnt(torch: Any, inputs: "list[Any]", parallel: Any = None) -> Any:  # a tensor
    """Train, and return the weights.

    Args:
        torch: the module.
        inputs: STEPS * FEATURES numbers for each rank that this process trains for.
        parallel: wraps a model for training with other ranks; None: train here alone.
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
    gc.collect()  # their references would keep the group alive
    return weights
