from __future__ import annotations

import pytest

from patchgen.core import meanings
from patchgen.core.wheel.check import advice


@pytest.mark.parametrize(
    ("output", "conda", "expected"),
    [
        (
            "ld: cannot find -lmnl: No such file or directory\nld: cannot find -lnuma\n",
            False,
            [
                "no library mnl; install libmnl-dev (Debian) or libmnl-devel (RHEL)",
                "no library numa; install libnuma-dev (Debian) or numactl-devel (RHEL)",
            ],
        ),
        (
            "ld.lld: error: unable to find library -libverbs\n",
            True,
            [f"no library ibverbs; {advice.relock('put rdma-core')}"],
        ),
        (
            "ld: cannot find -lmnl",
            True,
            [
                (
                    "no library mnl; put libmnl.so into SWITCHML_HOME/lib: no conda package of it "
                    "is known"
                )
            ],
        ),
        ("ld: cannot find -lgrpc++", False, ["no library grpc++; install grpc++"]),
        (
            (
                "a.cc: undefined reference to `google::kLogSiteUninitialized'\n"
                "b.cc: more undefined references to `google::kLogSiteUninitialized' follow\n"
            ),
            False,
            [
                "undefined: google::kLogSiteUninitialized",
                meanings.find("link", "undefined: google::"),
            ],
        ),
        (
            "undefined reference to `rte_eal_init'\nundefined reference to `mlx5dv_init_obj'\n",
            False,
            [
                "undefined: rte_eal_init, mlx5dv_init_obj",
                meanings.find("link", "undefined: rte_"),
                str(advice.CARDS[0]),
            ],
        ),
        (
            "".join(f"undefined reference to `grpc::f{i}()'\n" for i in range(5)),
            False,
            [
                "undefined: grpc::f0(), grpc::f1(), grpc::f2() and 2 more",
                meanings.find("link", "undefined: grpc"),
            ],
        ),
        (
            "ld.lld: error: undefined symbol: other\n",
            False,
            [
                "undefined: other",
                "build the client library and what it needs with the same flags",
            ],
        ),
        (
            "ld: relocation R_X86_64_32 against `x' can not be used; recompile with -fPIC\n",
            False,
            [meanings.find("link", "recompile with -fPIC")],
        ),
        (
            "ld -shared: return code 1\nx.a: file format not recognized\n",
            False,
            [
                "x.a: file format not recognized",
                "the client library does not link: build it again here",
            ],
        ),
    ],
)
def test_what_a_linker_says(output: str, expected: list[str], *, conda: bool) -> None:
    assert advice.explain_linker(output, conda=conda) == expected
