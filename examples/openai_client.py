"""Asks `spolia serve` twice about the same documents, the second time in another order.

    spolia serve -m demo/model.gguf --reuse full &
    python examples/openai_client.py http://127.0.0.1:8080/v1
"""
import sys

from openai import OpenAI

DOCUMENTS = [
    {"id": "harbour", "title": "Harbour", "text": "Anna Berg is the keeper of the lighthouse. She came in 1931."},
    {"id": "boats", "title": "Boats", "text": "The town built the harbour in 1870. It has forty boats."},
]


def ask(client: OpenAI, question: str, documents: list) -> None:
    answer = client.chat.completions.create(
        model="any", max_tokens=32, messages=[{"role": "user", "content": question}],
        extra_body={"documents": documents, "reuse": {"mode": "full"}})
    print(f"{question} {answer.choices[0].message.content} ({answer.timings['ttft_ms']:.1f} ms)")
    for d in answer.spolia["documents"]:
        print(f"  {d['id']}: {d['reused']} of {d['tokens']} tokens reused {d['from'] or d['missed']}")


if __name__ == "__main__":
    client = OpenAI(base_url=sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080/v1", api_key="none")
    ask(client, "Who is the keeper?", DOCUMENTS)
    ask(client, "How many boats are there?", DOCUMENTS[::-1])
