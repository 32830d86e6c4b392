#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <string>

#include "ProcessGroupSwitchML.hpp"
#include "QuantizeTensors.hpp"

extern "C" std::size_t switchml_delegate_report(char* buffer, std::size_t capacity);

c10::intrusive_ptr<switchml_delegate::Group> switchml_delegate::makeGloo(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
    std::chrono::milliseconds timeout) {
  const pybind11::gil_scoped_acquire locked;
  const auto type =
      pybind11::module_::import("torch._C._distributed_c10d").attr("ProcessGroupGloo");
  return type(store, rank, size, timeout).cast<c10::intrusive_ptr<Group>>();
}

namespace {

using switchml_delegate::Group;
using switchml_delegate::ProcessGroupSwitchML;
using switchml_delegate::QuantizedLayer;

/// A group that is to be reconfigured has no ranks yet that could agree.
c10::intrusive_ptr<Group> group(const c10::intrusive_ptr<c10d::Store>& store,
                                const c10::intrusive_ptr<Group>& gloo, std::int64_t timeout,
                                bool has_ranks, std::string name) {
  const std::chrono::milliseconds limit(timeout);
  auto made = c10::make_intrusive<ProcessGroupSwitchML>(store, gloo, limit, std::move(name));
  if (has_ranks) {
    made->agree("", limit);
  }
  return made;
}

/// Report as bytes, since texts of the environment and the configuration need not be UTF-8.
pybind11::bytes report() {
  std::string text(4096, '\0');
  {
    const pybind11::gil_scoped_release unlocked;
    for (std::size_t needed = switchml_delegate_report(&text[0], text.size());
         needed > text.size();) {
      text.resize(needed);
      needed = switchml_delegate_report(&text[0], text.size());
    }
  }
  return text.c_str();
}

using Unlocked = pybind11::call_guard<pybind11::gil_scoped_release>;

/// Defines the setter of the timeout where the groups of this torch have it, as Gloo's own.
template <typename Class>
auto defineTimeout(Class& wrapper, int /*preferred*/)
    -> decltype(static_cast<void>(&Class::type::setTimeout)) {
  wrapper.def("_set_default_timeout", &Class::type::setTimeout, Unlocked());
}

template <typename Class>
void defineTimeout(Class& /*wrapper*/, long /*otherwise*/) {}

}  // namespace

// Needs Python's lock: a module that does not say mod_gil_not_used() turns it on in a free-threaded
// Python.
PYBIND11_MODULE(_C, module) {
  module.def("group", group, Unlocked());
  module.def("report", report);
  module.def("finish", ProcessGroupSwitchML::finishAll, Unlocked());
  // Its holder need not let go of Python's lock, as those of torch's groups do: its destructor
  // does.
  pybind11::class_<ProcessGroupSwitchML, c10::intrusive_ptr<ProcessGroupSwitchML>> wrapper(
      module, "ProcessGroupSwitchML",
      pybind11::module_::import("torch._C._distributed_c10d").attr(switchml_delegate::kGroup));
  defineTimeout(wrapper, 0);
  // torch tells Gloo there which ranks a group has.
  wrapper.def_property_readonly("options",
                                [](const ProcessGroupSwitchML& before) -> pybind11::object {
                                  return pybind11::cast(before.wrapped()).attr("options");
                                });
  // Where a group is split, torch calls it in ranks that get no part. Gloo needs nothing there.
  wrapper.def("perform_nocolor_split", [](const Group& /*group*/, const at::Device& /*device*/) {});
  pybind11::class_<QuantizedLayer>(module, "QuantizedLayer")
      .def(pybind11::init<std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>())
      .def_property_readonly("scales", &QuantizedLayer::scales)
      .def_property_readonly("words", &QuantizedLayer::words)
      .def("largest", &QuantizedLayer::largest, Unlocked())
      .def("encode", &QuantizedLayer::encode, Unlocked())
      .def("decode", &QuantizedLayer::decode, Unlocked());
}
