"""What is taken as the tensors of all workers, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from patchgen.errors import OptionsError
from patchgen.extras.accuracy import tensors
from patchgen.extras.accuracy.methods import cut

VALUES = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7.5


def read(*files: Path) -> NDArray[np.float32]:
    """All values, read in blocks."""
    found = tensors.load([str(file) for file in files])
    parts = list(found.read(cut([range(found.numel)], 1, 5)))
    assert all(part.dtype == np.float32 for part in parts)
    assert all(part.shape[0] == found.workers for part in parts)
    return np.concatenate(parts, axis=1)


def saved(path: Path, values: NDArray[np.generic]) -> Path:
    np.save(path, values)
    return path


def refusal(*files: Path) -> str:
    with pytest.raises(OptionsError) as caught:
        tensors.load([str(file) for file in files])
    return str(caught.value)


@pytest.mark.parametrize(
    "values",
    [VALUES, *(VALUES.astype(dtype) for dtype in ("<f8", ">f4", "<f2")), np.asfortranarray(VALUES)],
    ids=["float32", "<f8", ">f4", "<f2", "columns first"],
)
def test_the_first_axis_counts_the_workers(tmp_path: Path, values: NDArray[np.generic]) -> None:
    """Other floats become float32."""
    file = saved(tmp_path / "a.npy", values)
    assert np.array_equal(read(file), VALUES.reshape(2, 12))


def test_float64_beyond_float32_is_inf(tmp_path: Path) -> None:
    values = np.array([[1e300, 1e-300], [1, 2]])
    assert read(saved(tmp_path / "a.npy", values)).tolist() == [[np.inf, 0], [1, 2]]


def test_a_file_for_each_worker(tmp_path: Path) -> None:
    files = [saved(tmp_path / f"{rank}.npy", VALUES[rank]) for rank in range(2)]
    assert np.array_equal(read(*files), VALUES.reshape(2, 12))
    longer = saved(tmp_path / "longer.npy", np.zeros(13, np.float32))
    assert f"{longer}: 13 elements, {files[0]} has 12" in refusal(files[0], longer)


def test_one_tensor_on_all_workers(tmp_path: Path) -> None:
    file = saved(tmp_path / "a.npy", VALUES[0])
    assert np.array_equal(read(file, file, file), np.stack([VALUES[0].reshape(12)] * 3))


def test_one_axis_needs_a_mark(tmp_path: Path) -> None:
    file = saved(tmp_path / "a.npy", VALUES.reshape(24))
    assert "an array of shape (24,); its first axis has to count the workers" in refusal(file)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.arange(6).reshape(2, 3), "holds int64; SwitchML sums float32, and int32 exactly"),
        (np.zeros((2, 3), complex), "holds complex128"),
        (np.zeros((2, 0), np.float32), "holds no elements"),
        (np.zeros((0, 2), np.float32), "holds no elements"),
        (np.array([[None]]), "no .npy file of an array of numbers"),
    ],
)
def test_what_is_no_tensor(tmp_path: Path, values: NDArray[np.generic], words: str) -> None:
    assert words in refusal(saved(tmp_path / "a.npy", values))


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x93NUMPY\x01\x00", b"PK\x03\x04"])
def test_what_is_no_array(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    assert f"{tmp_path / 'a'}: no .npy file" in refusal(tmp_path / "a")


def test_files_of_torch_are_refused_with_what_converts_them(tmp_path: Path) -> None:
    message = refusal(tmp_path / "my model.pt")
    assert "only torch reads; convert it:\npython3 -c " in message
    assert message.endswith(f"'{tmp_path}/my model.pt' '{tmp_path}/my model.npy'")


def test_many_files_are_not_all_named(tmp_path: Path) -> None:
    files = [str(saved(tmp_path / f"{rank}.npy", VALUES[0])) for rank in range(5)]
    assert tensors.load(files).origin == ", ".join(files[:3]) + " and 2 more"
    (values,) = tensors.load(files).read([range(12)])
    assert values.shape == (5, 12)
