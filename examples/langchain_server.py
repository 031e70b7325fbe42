"""A retrieval chain of LangChain over `spolia serve`, with LangChain's own client for OpenAI.

    spolia serve -m demo/model.gguf --reuse full &
    pip install langchain-openai
    python examples/langchain_server.py http://127.0.0.1:8080/v1

The first two questions send documents as a field, the last one as text of the message. Each time the server reuses
what it has computed for them.
"""
import re
import sys

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_openai import ChatOpenAI

DOCUMENTS = [
    Document("Anna Berg is the keeper of the lighthouse. She came to the island in 1931 and has kept a diary since.",
             metadata={"title": "Harbour"}),
    Document("The town built the harbour in 1870 from the stones of the old fort. Forty boats lie there in winter.",
             metadata={"title": "Boats"}),
    Document("The mill on the hill has stood still since the storm of 1954, when it lost two of its four sails.",
             metadata={"title": "Mill"}),
]


class WordRetriever(BaseRetriever):
    """The documents that share most words with the question; any retriever does."""
    k: int = 2

    def _get_relevant_documents(self, query, *, run_manager):
        words = set(re.findall(r"\w+", query.lower()))
        return sorted(DOCUMENTS, key=lambda d: -len(words & set(re.findall(r"\w+", d.page_content.lower()))))[:self.k]


def tell(message):
    usage = message.usage_metadata
    print(f"[{usage['input_token_details'].get('cache_read', 0)} of {usage['input_tokens']} tokens reused]", file=sys.stderr)
    return message


def main(url: str) -> None:
    llm = ChatOpenAI(base_url=url, api_key="none", model="any", max_tokens=32, temperature=0, stream_usage=True)
    retriever = WordRetriever()

    def with_documents(question: str):
        found = [{"title": d.metadata["title"], "text": d.page_content} for d in retriever.invoke(question)]
        return llm.invoke(question, extra_body={"documents": found})

    chain = RunnableLambda(with_documents) | tell | StrOutputParser()
    for question in ("Who is the keeper of the lighthouse in the harbour?", "In which year did the town build the harbour?"):
        print(question, chain.invoke(question))

    prompt = ChatPromptTemplate.from_messages([("system", "Answer the question from the documents."),
                                               ("human", "{context}Question: {question}")])
    as_text = RunnableLambda(lambda found: "".join(f"[{d.metadata['title']}]\n{d.page_content}\n\n" for d in found))
    plain = {"context": retriever | as_text, "question": RunnablePassthrough()} | prompt | llm | tell | StrOutputParser()
    question = "How many boats lie in the harbour of the town in winter?"
    print(question, "".join(plain.stream(question)) if "--stream" in sys.argv else plain.invoke(question))


if __name__ == "__main__":
    main(next((a for a in sys.argv[1:] if not a.startswith("--")), "http://127.0.0.1:8080/v1"))
