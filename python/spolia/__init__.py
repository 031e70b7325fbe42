"""Spolia: answers over documents whose key/value caches are kept and reused at any position.

    import spolia

    index = spolia.Index.build("~/notes", "notes.db")
    with spolia.open("model.gguf", reuse="fusion", recompute=0.15) as engine:
        for piece in engine.stream("Who signed the lease?", index=index):
            print(piece, end="", flush=True)
        answer = engine.ask("When does the lease end?", index=index)
        print(answer.text, answer.account.n_reused, "of", answer.account.n_prompt, "tokens reused")
"""
from ._library import set_log, version as __version__
from .account import Account, Answer, Hit, Segment
from .embed import Embedder
from .engine import Engine, Info, Policy, Stream, open, policies
from .errors import (AfterFork, Canceled, ContextTooLong, Error, FormatError, InputOutputError, InvalidArgument, NotFound, OutOfKV,
                     OutOfMemory, OverLimit, Unsupported)
from .index import Index
from .prompt import Prompt

__all__ = [
    "Account", "AfterFork", "Answer", "Canceled", "ContextTooLong", "Embedder", "Engine", "Error", "FormatError", "Hit", "Index", "Info",
    "InputOutputError", "InvalidArgument", "NotFound", "OutOfKV", "OutOfMemory", "OverLimit", "Policy", "Prompt", "Segment",
    "Stream", "Unsupported", "open", "policies", "set_log", "__version__",
]
