"""Layers of a model: their names, and the residuals that a step leaves for the next."""

import fnmatch

import torch


class Layers:
    """Names and residuals of parameters, which may come in any order and in any bucket."""

    def __init__(self):
        self._names = {}
        self._numbers = {}
        self._residuals = {}
        self._loaded = {}

    @property
    def named(self):
        """True if a model was given."""
        return bool(self._names)

    def name(self, model):
        """Take the names of a model, which for DistributedDataParallel are those of its module."""
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            model = model.module
        if not isinstance(model, torch.nn.Module):
            raise ValueError(f"model: give the model, not a {type(model).__name__}")
        self._names = {parameter: name for name, parameter in model.named_parameters()}
        self._numbers = {parameter: number for number, parameter in enumerate(self._names)}

    def name_of(self, parameter):
        """Return the name of a parameter's layer; None if no model was given.

        Raises:
            ValueError: the model does not have the parameter.
        """
        if self._names and parameter not in self._names:
            raise ValueError("a gradient belongs to no layer of the state's model")
        return self._names.get(parameter)

    def check(self, pattern):
        """Raise ValueError if no layer of the model has a matching name."""
        if self._names and not fnmatch.filter(self._names.values(), pattern):
            some = ", ".join([*self._names.values()][:4])
            raise ValueError(f"{pattern!r} is no layer of the model, whose layers are {some}, ...")

    def number(self, parameter):
        """Return a number, the same on all ranks: the place in the model, else by first use."""
        return self._numbers.setdefault(parameter, len(self._numbers))

    def residual(self, parameter, numel):
        """Return the last step's rounding errors, float32 [numel] on the CPU; zeros at first."""
        known = self._residuals.get(parameter)
        if known is None:
            known = self._loaded.pop(self._names.get(parameter), None)
        if known is None or known.numel() != numel:  # the number of quantized values changed
            known = torch.zeros(numel)
        self._residuals[parameter] = known
        return known

    def residuals(self):
        """Return the residuals by name of the layer.

        Raises:
            ValueError: there are residuals, but no model was given.
        """
        if self._residuals and not self._names:
            raise ValueError("residuals are saved by the layers' names: attach(model) first")
        known = {self._names[parameter]: one for parameter, one in self._residuals.items()}
        return {**self._loaded, **known}

    def load(self, residuals):
        """Take residuals by name, for layers that come later."""
        self._residuals = {}
        self._loaded = {name: one.detach().cpu().clone() for name, one in residuals.items()}
