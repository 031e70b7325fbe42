"""A retrieval chain of LangChain whose model runs in this process.

    pip install . langchain-core
    python examples/langchain_in_process.py demo/model.gguf demo/docs \
        "How much sugar is in the stock of Zolrar?" "How much paper is in the stock of Zolrar?"

The second question is answered sooner: the chunks that it shares with the first are not read again.
"""
import sys

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda

import spolia
from spolia.langchain import ChatSpolia

SYSTEM = "Answer the question from the documents."


def main(model: str, folder: str, *questions: str) -> None:
    index = spolia.Index.build(folder, "langchain.db")

    def retrieve(question: str) -> list:
        hits = sorted(index.search(question, k=8), key=lambda h: h.id)
        return [Document(page_content=h.text, metadata={"title": h.title}) for h in hits]

    with spolia.open(model, reuse="full") as engine:
        chat = ChatSpolia(engine=engine, options={"max_tokens": 48})

        def ask(question: str):
            message = chat.invoke([("system", SYSTEM), ("human", "Question: " + question)], documents=retrieve(question))
            account = message.response_metadata["spolia"]
            print(f"[{account['n_reused']} of {account['n_prompt']} tokens reused, "
                  f"first token after {account['ttft_ms']:.1f} ms]", file=sys.stderr)
            return message

        chain = RunnableLambda(ask) | StrOutputParser()
        for question in questions:
            print(chain.invoke(question))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
