"""The communication hook of DistributedDataParallel that averages gradients in fewer bits."""

import hashlib
import struct

import torch.distributed as dist
from torch_switchml import _C, _job, _plan, _settings
from torch_switchml._layers import Layers

_MOST_PLANS = 4096  # that are kept: bits may change from step to step


class QuantizedState:
    """State of `quantized_hook` for one model: settings, residuals and counters.

    All ranks give the same arguments, but for `model` and `process_group`, which are each rank's
    own.

    Args:
        bits: of a value, 1 to 8; 32 for layers as they are.
        bucket_size: values that share a scale.
        layer_min_size: layers with fewer values are summed as they are.
        stochastic: round up or down at random, such that the mean is right.
        error_feedback: what a rank rounds off is added to its next gradient.
        skip_incomplete: values beyond the last whole bucket of a layer are summed as they are.
        seed: of the random numbers; ranks, layers and steps have different ones.
        model: the model, with DistributedDataParallel or without; layers have names then.
        process_group: that of DistributedDataParallel; None is the default group.

    Raises:
        ValueError: an argument is none of these.
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
        """Gives the layers their names, those of `model.named_parameters()`.

        Raises:
            ValueError: it is no model, or a rule matches no layer of it.
        """
        self._layers.name(model)
        for pattern, _ in self._settings.rules:
            self._layers.check(pattern)

    def set_bits(self, name, bits):
        """Sends a layer in so many bits; the last rule that matches it counts.

        Args:
            name: of the layer, as "conv1.weight", or a pattern, as "*.bias".
            bits: 1 to 8; 32 sends it as it is.

        Raises:
            ValueError: the model has no such layer, or that is no number of bits.
        """
        _settings.bits_of(bits)
        if isinstance(name, str):
            self._layers.check(name)
        self._settings.add(name, bits)

    def exclude(self, name):
        """Sends a layer as it is: the same as `set_bits(name, 32)`."""
        self.set_bits(name, _settings.WHOLE)

    def report(self):
        """Counters of what this rank has given to collectives so far.

        Returns:
            steps; values that were averaged; bytes of these (4 for each) and of what was sent for
            them. A sum in a ring sends nearly twice as much as it is given, a switch once.
        """
        return {
            "steps": self._steps,
            "values": self._values,
            "float32_bytes": 4 * self._values,
            "bytes": self._payload,
        }

    def state_dict(self):
        """State for a checkpoint of this rank: residuals by the layers' names, and the step.

        Raises:
            ValueError: there are residuals, and the layers have no names.
        """
        return {"step": self._steps, "residuals": self._layers.residuals()}

    def load_state_dict(self, saved):
        """Goes on from a checkpoint of this rank.

        Raises:
            ValueError: it is none.
        """
        if not isinstance(saved, dict) or saved.keys() != {"step", "residuals"}:
            raise ValueError("load_state_dict: give what state_dict() has returned")
        self._steps = saved["step"]
        self._layers.load(saved["residuals"])

    def __getstate__(self):
        """Neither the process group nor the model can be pickled."""
        return {"settings": vars(self._settings), "saved": self.state_dict()}

    def __setstate__(self, pickled):
        self._settings = _settings.Settings.__new__(_settings.Settings)
        vars(self._settings).update(pickled["settings"])
        self._start(None)
        self.load_state_dict(pickled["saved"])

    def _average(self, bucket):
        """See `quantized_hook`."""
        group = dist.group.WORLD if self.process_group is None else self.process_group
        ranks = dist.get_world_size(group)
        if self._compared is not group:
            self._compare(group, ranks)
        if bucket.index() == 0:
            self._waiting = None  # a backward pass that failed may have left it
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
        """Key of the random numbers of a layer in this step on this rank."""
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
        """Compares the settings of all ranks.

        Raises:
            ValueError: they are not, or the group cannot sum, on all ranks.
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
    """Hook for `model.register_comm_hook(state, quantized_hook)` of DistributedDataParallel.

    Collectives are started here, in the thread of the backward pass, and nowhere else, so their
    order is that of the buckets on all ranks: the MAX of this bucket's scales, then the sums of the
    bucket before it, and after the last bucket its own.

    Raises:
        ValueError: the ranks' settings differ, on all ranks.
    """
    return state._average(bucket)
