/// The headers of torch that the plugin and the simulated device include, to be precompiled.
#pragma once

#include <ATen/ATen.h>
#include <torch/library.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
