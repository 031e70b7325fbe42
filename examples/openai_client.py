"""Asks `spolia serve` twice about the same documents, the second time in another order.

    spolia serve -m demo/model.gguf --reuse full &
    pip install openai
    python examples/openai_client.py http://127.0.0.1:8080/v1
"""
import sys

from openai import OpenAI

DOCUMENTS = [
    {"id": "larbar", "title": "Larbar", "text": "Larbar has a purple flag. In short, Larbar holds its market in March."},
    {"id": "soktirfer", "title": "Soktirfer", "text": "Soktirfer is based in Vulvum. Soktirfer was opened in 1987."},
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
    ask(client, "When is the market of Larbar?", DOCUMENTS)
    ask(client, "When was Soktirfer opened?", DOCUMENTS[::-1])
