"""The files of the plugin: the patch's own C++, and what follows from the torch."""

from __future__ import annotations

import ast
import dataclasses

import pytest

from patchgen.core.patch import pins, render
from patchgen.core.torch import Torch
from patchgen.extras.install.plugin import project
from patchgen.extras.install.plugin.target import PluginTarget
from patchgen.extras.install.plugin.virtuals import Method
from patchgen.options import resolve

TORCH = Torch(
    python="/usr/bin/python3", version="2.13.0+cpu", commit="cf30153c", cuda=None, cxx11_abi=True,
    gloo=True, root="/opt/torch's", python_include="/usr/include/python3.11",
    purelib="/usr/lib", tag="cp311",
)  # fmt: skip
TARGET = PluginTarget(
    torch=TORCH,
    base="Backend",
    methods=(
        Method("void", "shutdown", (), const=False),
        Method("void", "setGroupUid", ("const std::string&",), const=False),
        Method("void", "hook", ("std::function<void()>&&", "int"), const=True),
    ),
    standard=20,
    definitions=('PYBIND11_STDLIB="_libstdcpp"',),
    suffix=".cpython-311.so",
    tag="cp311-cp311-linux_x86_64",
)
HOMES = {"switchml_home": "/opt/switch ml", "grpc_home": "/opt/grpc"}
OPTIONS = resolve({"dpdk": True, **HOMES}, {}, "/")


def test_delegate_is_the_one_of_the_patch() -> None:
    sources = project.sources(OPTIONS, TARGET)
    for pin in pins.shipped():
        for path, content in render.compiled_files(pin.source_dir).items():
            assert sources[path.removeprefix(f"{pin.source_dir}/")] == content


def test_flags_are_those_of_the_options() -> None:
    text = project.sources(OPTIONS, TARGET)["switchml.cmake"].decode()
    assert "set(SWITCHML_FLAGS DPDK)" in text
    text = project.sources(OPTIONS, TARGET)["torch.cmake"].decode()
    assert 'set(SWITCHML_HOME "/opt/switch ml" CACHE PATH "")' in text
    assert 'set(GRPC_HOME "/opt/grpc" CACHE PATH "")' in text


def compose_methods(*methods: Method) -> str:
    target = dataclasses.replace(TARGET, methods=methods)
    return " ".join(project.sources(OPTIONS, target)["Methods.inc"].decode().split())


def test_what_torch_lets_decide_is_handed_on() -> None:
    text = compose_methods(*TARGET.methods)
    assert "void shutdown() override { endDelegation(); return wrapped_->shutdown(); }" in text
    assert "Group::setGroupUid(a1); return wrapped_->setGroupUid(a1);" in text
    handed = "void hook(std::function<void()>&& a1, int a2) const override"
    assert f"{handed} {{ return wrapped_->hook(std::move(a1), a2); }}" in text


def test_what_the_plugin_has_itself() -> None:
    work = "c10::intrusive_ptr<Work>"
    text = compose_methods(
        Method(work, "allreduce", ("int&", "const AllreduceOptions&"), const=False),
        Method(work, "barrier", ("const BarrierOptions&",), const=False),
    )
    first = "if (auto work = tryAllreduce(OpType::ALLREDUCE, a1, a2)) return work;"
    assert f"{first} return forward([&] {{ return wrapped_->allreduce(a1, a2); }});" in text
    assert "barrier" not in text


def test_groups_that_are_made_of_the_wrapped_one() -> None:
    store, options = "const c10::intrusive_ptr<Store>&", "const c10::intrusive_ptr<Options>&"
    made = "c10::intrusive_ptr<Backend>"
    text = compose_methods(
        Method(made, "split", (store, "const std::vector<int>&", options), const=False),
        Method(made, "merge", (store, options, "const int&", "const int&"), const=False),
        Method("c10::intrusive_ptr<Work>", "broadcast", ("int&",), const=False),
        Method("c10::intrusive_ptr<Work>", "reconfigure", ("const Options&",), const=False),
    )
    assert "return wrapChild(a1, wrapped_->split(a1, a2, a3), a3->timeout);" in text
    assert "return wrapChild(a1, wrapped_->merge(a1, a2, a3, a4), a2->timeout);" in text
    assert "return forward([&] { return wrapped_->broadcast(a1); });" in text
    assert "endDelegation(); auto work = wrapped_->reconfigure(a1); work->wait();" in text
    older = compose_methods(Method(made, "split", (), const=False))
    assert "return wrapped_->split();" in older, "older releases give it no Store"


@pytest.mark.parametrize("reachable", [True, False])
def test_flight_recorder(*, reachable: bool) -> None:
    target = dataclasses.replace(TARGET, flight_recorder=reachable)
    text = project.sources(OPTIONS, target)["src/FlightRecords.cpp"].decode()
    assert ("getFlightRecorder" in text) == reachable


def test_paths_and_definitions_are_quoted_for_cmake() -> None:
    text = project.sources(OPTIONS, TARGET)["torch.cmake"].decode()
    assert '"PYBIND11_STDLIB=\\"_libstdcpp\\""' in text
    assert 'set(TORCH_LIBRARIES "/opt/torch\'s/lib")' in text


@pytest.mark.parametrize("cuda", [None, "13.0"])
def test_module_is_python_and_knows_its_torch(cuda: str | None) -> None:
    target = dataclasses.replace(TARGET, torch=dataclasses.replace(TORCH, cuda=cuda))
    modules = project.modules(target)
    assert modules["switchml_doctor/__main__.py"]
    package = "torch_switchml/"
    names = {name[len(package) :] for name in modules if name.startswith(package)}
    assert names == {
        "__init__.py", "_bucket_layout.py", "_built.py", "_gloo_compatibility.py",
        "_hierarchical.py", "_layer_registry.py", "_patch.py", "_quantization_settings.py",
        "_quantized.py", "_quantized_sum.py", "cgx.py",
    }  # fmt: skip
    for text in modules.values():
        ast.parse(text)
    built_for = ("2.13.0+cpu", "cf30153c", cuda)
    module = ast.parse(modules["torch_switchml/_built.py"])
    values = {
        node.targets[0].id: node.value
        for node in module.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert ast.literal_eval(values["TORCH"]) == built_for


def test_release_has_no_local_part() -> None:
    assert TARGET.release == "2.13.0"
