"""Communication hook of DistributedDataParallel that averages quantized gradients."""

import hashlib
import struct

import torch.distributed as dist

from torch_switchml import _C
from torch_switchml._bucket_layout import BucketLayout
from torch_switchml._layer_registry import LayerRegistry
from torch_switchml._quantization_settings import (
    MOST_RANKS,
    UNQUANTIZED_BITS,
    Settings,
    check_bits,
    difference,
)
from torch_switchml._quantized_sum import QuantizedSum, average_unquantized, can_quantize

_MOST_LAYOUTS = 4096  # in the cache; bits may change from step to step


class QuantizedState:
    """State of `quantized_hook` for one model: settings, residuals and counters.

    All ranks pass the same arguments, except `model` and `process_group`, which are each rank's
    own.

    Args:
        bits: bits of a value, 1 to 8; 32 for no quantization.
        bucket_size: number of values that share a scale.
        layer_min_size: layers with fewer values are not quantized.
        stochastic: whether to round up or down at random, so that the mean is right.
        error_feedback: whether to add the rounding error of a rank to its next gradient.
        skip_incomplete: whether values beyond the last whole bucket of a layer are not quantized.
        seed: seed of the random numbers, which differ between ranks, layers and steps.
        model: the model, with or without DistributedDataParallel, which gives layers their names.
        process_group: process group of DistributedDataParallel; None for the default group.

    Raises:
        ValueError: an argument is not allowed.
    """

    def __init__(
        self,
        bits=4,
        bucket_size=512,
        layer_min_size=1024,
        stochastic=False,
        error_feedback=False,
        *,
        skip_incomplete=False,
        seed=0,
        model=None,
        process_group=None,
    ):
        self._settings = Settings(
            bits,
            bucket_size,
            layer_min_size,
            stochastic,
            error_feedback,
            skip_incomplete,
            seed,
        )
        self._start(process_group)
        if model is not None:
            self.attach(model)

    def _start(self, process_group):
        self.process_group = process_group
        self._layers = LayerRegistry()
        self._compared_group = None
        self._unsent = None
        self._layouts = {}
        self._steps = self._values = self._payload = 0

    def attach(self, model):
        """Give the layers their names, those of `model.named_parameters()`.

        Raises:
            ValueError: `model` is not a model, or a rule matches none of its layers.
        """
        self._layers.add_model(model)
        for pattern, _ in self._settings.rules:
            self._layers.check_pattern(pattern)

    def set_bits(self, name, bits):
        """Set the bits of layers. The last rule that matches a layer counts.

        Args:
            name: name of a layer, as "conv1.weight", or a pattern, as "*.bias".
            bits: 1 to 8; 32 for no quantization.

        Raises:
            ValueError: the model has no such layer, or `bits` is not allowed.
        """
        check_bits(bits)
        if isinstance(name, str):
            self._layers.check_pattern(name)
        self._settings.add_rule(name, bits)

    def exclude(self, name):
        """Do not quantize a layer: the same as `set_bits(name, 32)`."""
        self.set_bits(name, UNQUANTIZED_BITS)

    def report(self):
        """Return counters of what this rank has passed to collectives.

        Returns:
            A dict: "steps"; "values" that were averaged; "float32_bytes", 4 for each value; "bytes"
                that were passed instead. A ring sends nearly twice the passed bytes, a switch sends
                them once.
        """
        return {
            "steps": self._steps,
            "values": self._values,
            "float32_bytes": 4 * self._values,
            "bytes": self._payload,
        }

    def state_dict(self):
        """Return the state for a checkpoint of this rank: residuals by layer, and the step.

        Raises:
            ValueError: there are residuals, and the layers have no names.
        """
        return {"step": self._steps, "residuals": self._layers.residuals()}

    def load_state_dict(self, saved):
        """Restore the state from a checkpoint of this rank.

        Raises:
            ValueError: `saved` is not such a state.
        """
        if not isinstance(saved, dict) or saved.keys() != {"step", "residuals"}:
            raise ValueError("load_state_dict: give what state_dict() has returned")
        self._steps = saved["step"]
        self._layers.load_residuals(saved["residuals"])

    def __getstate__(self):
        """Return the state without process group and model, which cannot be pickled."""
        return {"settings": vars(self._settings), "saved": self.state_dict()}

    def __setstate__(self, pickled):
        self._settings = Settings.__new__(Settings)
        vars(self._settings).update(pickled["settings"])
        self._start(None)
        self.load_state_dict(pickled["saved"])

    def _average(self, bucket):
        group = dist.group.WORLD if self.process_group is None else self.process_group
        ranks = dist.get_world_size(group)
        if self._compared_group is not group:
            self._compare_settings(group, ranks)
        if bucket.index() == 0:
            self._unsent = None  # of a backward pass that failed
        buffer = bucket.buffer()
        if can_quantize(buffer):
            layout = self._layout_of(bucket, buffer, ranks)
            current = QuantizedSum(ranks, layout, buffer)
            feedback = self._layers.residual_of if self._settings.error_feedback else None
            current.agree(group, self._settings.digest(), feedback)
            future = current.future
        else:
            current, future = None, average_unquantized(group, ranks, buffer)
            self._payload += buffer.numel() * buffer.element_size()
        self._values += buffer.numel()
        self._send(self._unsent)
        self._unsent = current
        if bucket.is_last():
            self._send(current)
            self._unsent = None
            self._steps += 1
        return future

    def _send(self, quantized_sum):
        if quantized_sum is not None:
            quantized_sum.send(self._compared_group, self._random_key)
            self._payload += quantized_sum.payload

    def _random_key(self, parameter):
        """Return the key of the random numbers of a layer in this step on this rank."""
        if not self._settings.stochastic:
            return 0
        rank, number = dist.get_rank(self._compared_group), self._layers.number_of(parameter)
        numbers = struct.pack("<4Q", self._settings.seed, self._steps, rank, number)
        return int.from_bytes(hashlib.blake2b(numbers, digest_size=8).digest(), "little")

    def _layout_of(self, bucket, buffer, ranks):
        """Return the layout of a bucket, from a cache."""
        parameters = bucket.parameters()
        key = (ranks, self._settings.digest(), buffer.numel(), *map(id, parameters))
        if key not in self._layouts:
            if len(self._layouts) > _MOST_LAYOUTS:
                self._layouts.clear()
            self._layouts[key] = self._make_layout(bucket, parameters, buffer, ranks)
        return self._layouts[key]

    def _make_layout(self, bucket, parameters, buffer, ranks):
        layers = []
        for parameter, gradient in zip(parameters, bucket.gradients()):
            begin = gradient.storage_offset() - buffer.storage_offset()
            span = slice(begin, begin + gradient.numel())
            layers.append((parameter, self._layers.name_of(parameter), span))
            self._layers.number_of(parameter)
        size, stochastic = self._settings.bucket_size, self._settings.stochastic

        def make_codec(numel, bits):
            return _C.QuantizedLayer(numel, bits, ranks, size, stochastic)

        return BucketLayout(self._settings, layers, make_codec)

    def _compare_settings(self, group, ranks):
        """Compare the settings of all ranks.

        Raises:
            ValueError: the settings differ, or the group cannot sum. Raised on all ranks.
        """
        if dist.get_backend(group) == "nccl":
            raise ValueError("quantized_hook sums in host memory: give a group of Gloo or switchml")
        if ranks > MOST_RANKS:
            raise ValueError(f"{ranks} ranks: sums in fewer bits take {MOST_RANKS}")
        if self._settings.rules and not self._layers.named:
            raise ValueError("set_bits and exclude name layers: QuantizedState(model=...)")
        texts = [None] * ranks
        dist.all_gather_object(texts, self._settings.text(), group=group)
        different = difference(texts)
        if different is not None:
            raise ValueError(f"QuantizedState: all ranks need the same settings, but {different}")
        self._compared_group = group


def quantized_hook(state, bucket):
    """Average a bucket, as `model.register_comm_hook(state, quantized_hook)` calls it.

    All collectives are started here, in the thread of the backward pass. So their order is that of
    the buckets on all ranks: the MAX of this bucket's scales, then the sums of the previous bucket,
    and after the last bucket its own sums.

    Raises:
        ValueError: the ranks' settings differ. Raised on all ranks.
    """
    return state._average(bucket)
