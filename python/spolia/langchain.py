"""A chat model for LangChain that runs in this process: needs the package langchain-core.

    from spolia.langchain import ChatSpolia
    model = ChatSpolia(engine=spolia.open("model.gguf"))
    model.invoke("Who signed the lease?", documents=retriever.invoke(...))

Documents are LangChain's, or texts; each becomes a chunk whose KV is reused in any order. response_metadata["spolia"] is the
account. Documents that a chain writes into a message are found there once they have been read as documents.
"""
from dataclasses import asdict
from typing import Any, Iterator, List, Optional

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import ConfigDict, Field

from .account import Answer
from .engine import Engine, Stream

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}


class ChatSpolia(BaseChatModel):
    """options: of every request, such as max_tokens, temperature, reuse, recompute."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    engine: Engine
    options: "dict[str, Any]" = Field(default_factory=dict)

    @property
    def _llm_type(self) -> str:
        return "spolia"

    def _start(self, messages: List[BaseMessage], stop: Optional[List[str]], kwargs: "dict[str, Any]") -> Stream:
        turns = [{"role": _ROLES.get(m.type, m.type), "content": m.text if isinstance(m.text, str) else m.text()}
                 for m in messages]
        more = dict(kwargs)
        documents = [_document(d) for d in more.pop("documents", ())]
        return self.engine.stream_chat(turns, documents=documents, **{**self.options, **more, "stop": stop})

    def _generate(self, messages: List[BaseMessage], stop: Optional[List[str]] = None,
                  run_manager: Optional[CallbackManagerForLLMRun] = None, **kwargs: Any) -> ChatResult:
        with self._start(messages, stop, kwargs) as running:  # Ctrl-C ends it
            answer = running.answer
        message = AIMessage(content=answer.text, response_metadata=_metadata(answer), usage_metadata=_usage(answer))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(self, messages: List[BaseMessage], stop: Optional[List[str]] = None,
                run_manager: Optional[CallbackManagerForLLMRun] = None, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        running = self._start(messages, stop, kwargs)
        try:
            for piece in running:
                chunk = ChatGenerationChunk(message=AIMessageChunk(content=piece))
                if run_manager:
                    run_manager.on_llm_new_token(piece, chunk=chunk)
                yield chunk
            yield ChatGenerationChunk(message=AIMessageChunk(
                content="", response_metadata=_metadata(running.answer), usage_metadata=_usage(running.answer)))
        finally:
            running.close()  # a caller that stops early cancels


def _document(d: Any) -> Any:
    content = getattr(d, "page_content", None)
    return d if content is None else {"text": content, "title": (d.metadata or {}).get("title")}


def _metadata(answer: Answer) -> "dict[str, Any]":
    return {"finish_reason": answer.finish, "spolia": asdict(answer.account)}


def _usage(answer: Answer) -> Any:
    a = answer.account
    return {"input_tokens": a.n_prompt, "output_tokens": a.n_generated, "total_tokens": a.n_prompt + a.n_generated,
            "input_token_details": {"cache_read": a.n_reused}}
