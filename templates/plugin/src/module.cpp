// The extension module torch_switchml._C: what Python calls of the plugin.
#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <string>

#include "ProcessGroupSwitchML.hpp"
#include "QuantizedLayer.hpp"

extern "C" std::size_t switchml_delegate_report(char* buffer, std::size_t capacity);

c10::intrusive_ptr<switchml_delegate::Group> switchml_delegate::makeGloo(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
    std::chrono::milliseconds timeout) {
  const pybind11::gil_scoped_acquire acquired;
  const auto type =
      pybind11::module_::import("torch._C._distributed_c10d").attr("ProcessGroupGloo");
  return type(store, rank, size, timeout).cast<c10::intrusive_ptr<Group>>();
}

namespace {

using switchml_delegate::Group;
using switchml_delegate::ProcessGroupSwitchML;
using switchml_delegate::QuantizedLayer;

/// Wraps a group of Gloo. A group that is to be reconfigured has no ranks yet that could agree.
c10::intrusive_ptr<Group> makeGroup(const c10::intrusive_ptr<c10d::Store>& store,
                                    const c10::intrusive_ptr<Group>& gloo,
                                    std::int64_t milliseconds, bool has_ranks, std::string name) {
  const std::chrono::milliseconds timeout(milliseconds);
  auto group = c10::make_intrusive<ProcessGroupSwitchML>(store, gloo, timeout, std::move(name));
  if (has_ranks) {
    group->agree("", timeout);
  }
  return group;
}

/// Returns the report as bytes, because values of the environment and of the configuration need not
/// be UTF-8.
pybind11::bytes report() {
  std::string text(4096, '\0');
  {
    const pybind11::gil_scoped_release released;
    for (std::size_t needed = switchml_delegate_report(&text[0], text.size());
         needed > text.size();) {
      text.resize(needed);
      needed = switchml_delegate_report(&text[0], text.size());
    }
  }
  return text.c_str();
}

using WithoutGil = pybind11::call_guard<pybind11::gil_scoped_release>;

/// Defines the setter of the timeout if the groups of this torch have it, as Gloo's own.
template <typename Class>
auto defineTimeout(Class& wrapper, int /*preferred*/)
    -> decltype(static_cast<void>(&Class::type::setTimeout)) {
  wrapper.def("_set_default_timeout", &Class::type::setTimeout, WithoutGil());
}

template <typename Class>
void defineTimeout(Class& /*wrapper*/, long /*otherwise*/) {}

}  // namespace

// A free-threaded Python turns its lock on for a module without mod_gil_not_used(), as this one.
PYBIND11_MODULE(_C, module) {
  module.def("group", makeGroup, WithoutGil());
  module.def("report", report);
  module.def("finish", ProcessGroupSwitchML::finishAll, WithoutGil());
  // The destructor releases Python's lock itself, so the holder need not, as torch's own holders
  // do.
  pybind11::class_<ProcessGroupSwitchML, c10::intrusive_ptr<ProcessGroupSwitchML>> wrapper(
      module, "ProcessGroupSwitchML",
      pybind11::module_::import("torch._C._distributed_c10d").attr(switchml_delegate::kGroup));
  defineTimeout(wrapper, 0);
  // Torch writes the ranks of a group into the options of Gloo's group.
  wrapper.def_property_readonly("options",
                                [](const ProcessGroupSwitchML& group) -> pybind11::object {
                                  return pybind11::cast(group.wrapped()).attr("options");
                                });
  // Torch calls this when a group is split, in ranks that are in no new group. Gloo has no such
  // call, and needs none.
  wrapper.def("perform_nocolor_split", [](const Group& /*group*/, const at::Device& /*device*/) {});
  pybind11::class_<QuantizedLayer>(module, "QuantizedLayer")
      .def(pybind11::init<std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>())
      .def_property_readonly("scales", &QuantizedLayer::scales)
      .def_property_readonly("words", &QuantizedLayer::words)
      .def("largest", &QuantizedLayer::largest, WithoutGil())
      .def("encode", &QuantizedLayer::encode, WithoutGil())
      .def("decode", &QuantizedLayer::decode, WithoutGil());
}
