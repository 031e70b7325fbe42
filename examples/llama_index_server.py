"""LlamaIndex over `spolia serve`, with its client for servers like OpenAI's: a chat, a stream, a query over nodes.

    spolia serve -m demo/model.gguf --reuse full &
    pip install llama-index-core llama-index-llms-openai-like
    python examples/llama_index_server.py http://127.0.0.1:8080/v1
"""
import sys

from llama_index.core import get_response_synthesizer
from llama_index.core.llms import ChatMessage
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.llms.openai_like import OpenAILike

NODES = [TextNode(text="Anna Berg is the keeper of the lighthouse. She came to the island in 1931.", id_="harbour"),
         TextNode(text="The town built the harbour in 1870. It has forty boats.", id_="boats")]


class AllNodes(BaseRetriever):
    """Every node; any retriever does."""

    def _retrieve(self, query_bundle):
        return [NodeWithScore(node=n, score=1.0) for n in NODES]


def main(url: str) -> None:
    llm = OpenAILike(model="any", api_base=url, api_key="none", is_chat_model=True, context_window=2048, max_tokens=24,
                     temperature=0)
    documents = [{"id": n.id_, "text": n.text} for n in NODES]
    question = [ChatMessage(role="user", content="Who is the keeper?")]
    for _ in range(2):
        answer = llm.chat(question, extra_body={"documents": documents})
        usage = answer.raw.usage
        print(f"{answer.message.content} [{usage.prompt_tokens_details.cached_tokens} of {usage.prompt_tokens} tokens reused]")
    print("streamed:", "".join(part.delta or "" for part in llm.stream_chat(question, extra_body={"documents": documents})))
    engine = RetrieverQueryEngine(AllNodes(), get_response_synthesizer(llm=llm, response_mode="compact"))
    print("query engine:", engine.query("How many boats are there?"))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080/v1")
