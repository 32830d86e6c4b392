"""Layers of a model: their names, their numbers, and their residuals between steps."""

import fnmatch

import torch


class LayerRegistry:
    """Names, numbers and residuals of parameters, which may come in any order and in any bucket.

    Only the thread of the backward pass calls it.
    """

    def __init__(self):
        self._names = {}
        self._numbers = {}
        self._residuals = {}
        self._loaded = {}

    @property
    def named(self):
        """True if a model was given."""
        return bool(self._names)

    def add_model(self, model):
        """Take the names of a model, which for DistributedDataParallel are those of its module.

        Raises:
            ValueError: `model` is not a model.
        """
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

    def check_pattern(self, pattern):
        """Raise ValueError if no layer of the model has a matching name."""
        if self._names and not fnmatch.filter(self._names.values(), pattern):
            some = ", ".join([*self._names.values()][:4])
            raise ValueError(
                f"{pattern!r} is not a layer of the model, whose layers are {some}, ..."
            )

    def number_of(self, parameter):
        """Return a number, the same on all ranks: the position in the model, else by first use."""
        return self._numbers.setdefault(parameter, len(self._numbers))

    def residual_of(self, parameter, numel):
        """Return the last step's rounding errors, float32 [numel] on the CPU; zeros at first."""
        residual = self._residuals.get(parameter)
        if residual is None:
            residual = self._loaded.pop(self._names.get(parameter), None)
        if residual is None or residual.numel() != numel:  # another number of quantized values
            residual = torch.zeros(numel)
        self._residuals[parameter] = residual
        return residual

    def residuals(self):
        """Return the residuals by name of the layer.

        Raises:
            ValueError: there are residuals, but no model was given.
        """
        if self._residuals and not self._names:
            raise ValueError("residuals are saved by the layers' names: attach(model) first")
        named = {self._names[parameter]: one for parameter, one in self._residuals.items()}
        return {**self._loaded, **named}

    def load_residuals(self, residuals):
        """Take residuals by name, for layers that come later."""
        self._residuals = {}
        self._loaded = {name: one.detach().cpu().clone() for name, one in residuals.items()}
