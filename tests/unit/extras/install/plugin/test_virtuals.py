"""The virtual methods of a class, read from headers as torch writes them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from patchgen.errors import FileError, ToolError
from patchgen.extras.install.plugin import virtuals
from patchgen.extras.install.plugin.virtuals import Method, read

CASES = Path(__file__).parents[4] / "payload" / "plugin_cases.py"

HEADER = """
class TORCH_API Work : public Holder {
  virtual bool other();
};

// class TORCH_API Backend : in words
class TORCH_API Backend : public torch::CustomClassHolder {
 public:
  struct TORCH_API Options : Holder {
    ~Options() override = default;
    virtual c10::intrusive_ptr<Options> clone() const {
      return c10::make_intrusive<Options>(*this);
    }
  };
  explicit Backend(int rank, int size);
  virtual ~Backend();

  virtual bool supportsSplitting() const {
    return false;
  }

  virtual c10::intrusive_ptr<Work> allgather(
      std::vector<std::vector<at::Tensor>>& /* outputs, of all */,
      std::vector<at::Tensor>& inputs, // from here
      const AllgatherOptions& opts = AllgatherOptions()) {
    TORCH_CHECK(false, "virtual void text(int)");
  }

  virtual void monitoredBarrier(
      const BarrierOptions& /* unused */,
      bool /* unused */ = false) {}

  virtual void registerOnCompletionHook(
      std::function<void(std::shared_ptr<WorkInfo>)>&& hook) = 0;
  virtual std::unordered_map<std::string, uint64_t> getMemoryStats();
  virtual at::Tensor allocateTensor(long size, at::TensorOptions options = {}) { return {}; }
  virtual const std::string getName() const { return "a"; };
  void plain(int);
};
"""
METHODS = [
    Method("bool", "supportsSplitting", (), const=True),
    Method(
        "c10::intrusive_ptr<Work>",
        "allgather",
        (
            "std::vector<std::vector<at::Tensor>>&",
            "std::vector<at::Tensor>&",
            "const AllgatherOptions&",
        ),
        const=False,
    ),
    Method("void", "monitoredBarrier", ("const BarrierOptions&", "bool"), const=False),
    Method(
        "void",
        "registerOnCompletionHook",
        ("std::function<void(std::shared_ptr<WorkInfo>)>&&",),
        const=False,
    ),
    Method("std::unordered_map<std::string, uint64_t>", "getMemoryStats", (), const=False),
    Method("at::Tensor", "allocateTensor", ("long", "at::TensorOptions"), const=False),
    Method("const std::string", "getName", (), const=True),
]


@pytest.fixture
def header(tmp_path: Path) -> Path:
    path = tmp_path / "Backend.hpp"
    path.write_text(HEADER)
    return path


def test_methods_in_their_order(header: Path) -> None:
    assert read(str(header), "Backend") == METHODS


def test_methods_of_the_class_that_was_asked_for(header: Path) -> None:
    assert [method.name for method in read(str(header), "Work")] == ["other"]


def test_what_has_no_such_methods_is_named(header: Path) -> None:
    with pytest.raises(ToolError, match="defines no class ProcessGroup"):
        read(str(header), "ProcessGroup")
    header.write_text("class Backend { void plain(); };\n")
    with pytest.raises(ToolError, match="no virtual method"):
        read(str(header), "Backend")
    header.unlink()
    with pytest.raises(FileError, match=r"Backend\.hpp"):
        read(str(header), "Backend")


def test_every_collective_that_is_delegated_has_a_case() -> None:
    """As `tryReduceScatter` has `collective_reduce_scatter`. Other cases are for allreduce."""
    statements = "\n".join(virtuals._BEFORE.values())
    tried = {*re.findall(r"\btry([A-Z]\w+)\(", statements)} - {"Allreduce"}
    names = {re.sub("(?<!^)([A-Z])", r"_\1", name).lower() for name in tried}
    assert names
    assert names == {*re.findall(r"^def collective_(\w+)\(", CASES.read_text(), re.MULTILINE)}
