"""Communication hook of DistributedDataParallel that averages quantized gradients."""

import hashlib
import struct

import torch.distributed as dist
from torch_switchml import _C, _job, _plan, _settings
from torch_switchml._layers import Layers

_MOST_PLANS = 4096  # in the cache; bits may change from step to step


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
        self._settings = _settings.Settings(
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
        self._layers = Layers()
        self._compared = None
        self._waiting = None
        self._plans = {}
        self._steps = self._values = self._payload = 0

    def attach(self, model):
        """Give the layers their names, those of `model.named_parameters()`.

        Raises:
            ValueError: `model` is not a model, or a rule matches none of its layers.
        """
        self._layers.name(model)
        for pattern, _ in self._settings.rules:
            self._layers.check(pattern)

    def set_bits(self, name, bits):
        """Set the bits of layers. The last rule that matches a layer counts.

        Args:
            name: name of a layer, as "conv1.weight", or a pattern, as "*.bias".
            bits: 1 to 8; 32 for no quantization.

        Raises:
            ValueError: the model has no such layer, or `bits` is not allowed.
        """
        _settings.bits_of(bits)
        if isinstance(name, str):
            self._layers.check(name)
        self._settings.add(name, bits)

    def exclude(self, name):
        """Do not quantize a layer: the same as `set_bits(name, 32)`."""
        self.set_bits(name, _settings.WHOLE)

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
        self._layers.load(saved["residuals"])

    def __getstate__(self):
        """Return the state without process group and model, which cannot be pickled."""
        return {"settings": vars(self._settings), "saved": self.state_dict()}

    def __setstate__(self, pickled):
        self._settings = _settings.Settings.__new__(_settings.Settings)
        vars(self._settings).update(pickled["settings"])
        self._start(None)
        self.load_state_dict(pickled["saved"])

    def _average(self, bucket):
        group = dist.group.WORLD if self.process_group is None else self.process_group
        ranks = dist.get_world_size(group)
        if self._compared is not group:
            self._compare(group, ranks)
        if bucket.index() == 0:
            self._waiting = None  # left by a backward pass that failed
        buffer = bucket.buffer()
        if _job.is_quantized(buffer):
            job = _job.Job(ranks, self._plan_of(bucket, buffer, ranks), buffer)
            feedback = self._layers.residual if self._settings.error_feedback else None
            job.agree(group, self._settings.digest(), feedback)
            future = job.future
        else:
            job, future = None, _job.whole(group, ranks, buffer)
            self._payload += buffer.numel() * buffer.element_size()
        self._values += buffer.numel()
        self._send(self._waiting)
        self._waiting = job
        if bucket.is_last():
            self._send(job)
            self._waiting = None
            self._steps += 1
        return future

    def _send(self, job):
        if job is not None:
            job.send(self._compared, self._key)
            self._payload += job.payload

    def _key(self, parameter):
        """Return the key of the random numbers of a layer in this step on this rank."""
        if not self._settings.stochastic:
            return 0
        rank, number = dist.get_rank(self._compared), self._layers.number(parameter)
        numbers = struct.pack("<4Q", self._settings.seed, self._steps, rank, number)
        return int.from_bytes(hashlib.blake2b(numbers, digest_size=8).digest(), "little")

    def _plan_of(self, bucket, buffer, ranks):
        parameters = bucket.parameters()
        about = (ranks, self._settings.digest(), buffer.numel(), *map(id, parameters))
        if about not in self._plans:
            if len(self._plans) > _MOST_PLANS:
                self._plans.clear()
            self._plans[about] = self._planned(bucket, parameters, buffer, ranks)
        return self._plans[about]

    def _planned(self, bucket, parameters, buffer, ranks):
        layers = []
        for parameter, gradient in zip(parameters, bucket.gradients()):
            begin = gradient.storage_offset() - buffer.storage_offset()
            place = slice(begin, begin + gradient.numel())
            layers.append((parameter, self._layers.name_of(parameter), place))
            self._layers.number(parameter)
        size, stochastic = self._settings.bucket_size, self._settings.stochastic

        def codec(numel, bits):
            return _C.QuantizedLayer(numel, bits, ranks, size, stochastic)

        return _plan.Plan(self._settings, layers, codec)

    def _compare(self, group, ranks):
        """Compare the settings of all ranks.

        Raises:
            ValueError: the settings differ, or the group cannot sum. Raised on all ranks.
        """
        if dist.get_backend(group) == "nccl":
            raise ValueError("quantized_hook sums in host memory: give a group of Gloo or switchml")
        if ranks > _settings.MOST_RANKS:
            raise ValueError(f"{ranks} ranks: sums in fewer bits take {_settings.MOST_RANKS}")
        if self._settings.rules and not self._layers.named:
            raise ValueError("set_bits and exclude name layers: QuantizedState(model=...)")
        texts = [None] * ranks
        dist.all_gather_object(texts, self._settings.text(), group=group)
        different = _settings.difference(texts)
        if different is not None:
            raise ValueError(f"QuantizedState: all ranks need the same settings, but {different}")
        self._compared = group


def quantized_hook(state, bucket):
    """Average a bucket, as `model.register_comm_hook(state, quantized_hook)` calls it.

    All collectives are started here, in the thread of the backward pass. So their order is that of
    the buckets on all ranks: the MAX of this bucket's scales, then the sums of the bucket before
    it, and after the last bucket its own.

    Raises:
        ValueError: the ranks' settings differ. Raised on all ranks.
    """
    return state._average(bucket)
