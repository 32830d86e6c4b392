"""Protocol buffers of torch and of another package, in a process whose group delegates."""

import importlib
import io
import os

import torch
from cases import allreduce_and_check, finish, start


def exports(switchml):
    """Export a layer to ONNX, and train a model of SentencePiece."""
    start()
    allreduce_and_check(1000, torch.float32, exact=False)
    content, model = io.BytesIO(), io.BytesIO()
    options = {"dynamo": False} if torch.__version__ >= "2" else {}
    torch.onnx.export(torch.nn.Linear(3, 2), (torch.zeros(1, 3),), content, **options)
    # Packages that are beside few torches.
    onnx, pieces = map(importlib.import_module, ("onnx", "sentencepiece"))
    sentences = ["one two three", "two three four"] * 10
    pieces.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=model, vocab_size=14, minloglevel=2
    )
    processor = pieces.SentencePieceProcessor(model_proto=model.getvalue())
    return finish(
        switchml,
        operators=[node.op_type for node in onnx.load_from_string(content.getvalue()).graph.node],
        decoded=processor.decode(processor.encode("two one")),
        torch=os.path.dirname(torch.__file__),
    )
