"""The layers of a model: their names, and what a step leaves behind for the next one."""

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
        """True where the model is known."""
        return bool(self._names)

    def name(self, model):
        """Takes the names of a model; those of DistributedDataParallel are those of its module."""
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            model = model.module
        if not isinstance(model, torch.nn.Module):
            raise ValueError(f"model: give the model, not a {type(model).__name__}")
        self._names = {parameter: name for name, parameter in model.named_parameters()}
        self._numbers = {parameter: number for number, parameter in enumerate(self._names)}

    def name_of(self, parameter):
        """Name of a parameter's layer; None where the model is not known.

        Raises:
            ValueError: the parameter is not one of the model.
        """
        if self._names and parameter not in self._names:
            raise ValueError("a gradient is of no layer of the model that the state was given")
        return self._names.get(parameter)

    def check(self, pattern):
        """Raises ValueError where the model is known and no layer has such a name."""
        if self._names and not fnmatch.filter(self._names.values(), pattern):
            some = ", ".join([*self._names.values()][:4])
            raise ValueError(f"{pattern!r} is no layer of the model, whose layers are {some}, ...")

    def number(self, parameter):
        """Number of a layer, the same on all ranks: its place in the model, else by first use."""
        return self._numbers.setdefault(parameter, len(self._numbers))

    def residual(self, parameter, numel):
        """Residual of the last step's rounding, float32 [numel] in host memory; zeros at first."""
        known = self._residuals.get(parameter)
        if known is None:
            known = self._loaded.pop(self._names.get(parameter), None)
        if known is None or known.numel() != numel:  # other values of it are quantized now
            known = torch.zeros(numel)
        self._residuals[parameter] = known
        return known

    def residuals(self):
        """Name to residual of all layers that have one.

        Raises:
            ValueError: there are some, and the model is not known.
        """
        if self._residuals and not self._names:
            raise ValueError("residuals are saved by the layers' names: attach(model) first")
        known = {self._names[parameter]: one for parameter, one in self._residuals.items()}
        return {**self._loaded, **known}

    def load(self, residuals):
        """Takes residuals by name, for when their layers come."""
        self._residuals = {}
        self._loaded = {name: one.detach().cpu().clone() for name, one in residuals.items()}
