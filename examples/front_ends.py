"""Documents as front ends send them: as text of ordinary messages, without a field of their own.

    spolia serve -m demo/model.gguf --reuse full &
    python examples/front_ends.py http://127.0.0.1:8080/v1

Open WebUI writes them into the last message of the user, LightRAG into the system text. The server needs no setting for
either; what repeats is reused.
"""
import json
import sys

from openai import OpenAI

DOCUMENTS = {"harbour.md": "Anna Berg is the keeper of the lighthouse. She came to the island in 1931 and has kept a diary since.",
             "boats.md": "The town built the harbour in 1870 from the stones of the old fort. Forty boats lie there in winter."}


def open_webui(question: str) -> list:
    """The last message, as Open WebUI's default template for retrieved documents writes it."""
    sources = "\n".join(f'<source id="{i}" name="{name}">{text}</source>' for i, (name, text) in enumerate(DOCUMENTS.items(), 1))
    return [{"role": "user", "content":
             "### Task:\nRespond to the user query using the provided context, incorporating inline citations in the format "
             f"[id] **only when the <source> tag includes an explicit id attribute**.\n\n<context>\n{sources}\n</context>\n\n"
             f"<user_query>\n{question}\n</user_query>\n"}]


def lightrag(question: str) -> list:
    """The system text, as LightRAG's prompt for naive and mixed queries writes it."""
    chunks = "\n".join(json.dumps({"reference_id": str(i), "content": text}) for i, text in enumerate(DOCUMENTS.values(), 1))
    return [{"role": "system", "content":
             "---Role---\n\nYou are an expert AI assistant specializing in synthesizing information from a provided knowledge "
             f"base.\n\n---Context---\n\nDocument Chunks:\n\n```json\n{chunks}\n```\n"},
            {"role": "user", "content": question}]


def ask(client: OpenAI, name: str, messages: list) -> str:
    answer = client.chat.completions.create(model="any", messages=messages, max_tokens=24, temperature=0)
    usage = answer.usage
    print(f"{name}: {usage.prompt_tokens_details.cached_tokens} of {usage.prompt_tokens} tokens reused")
    return answer.choices[0].message.content


if __name__ == "__main__":
    client = OpenAI(base_url=sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080/v1", api_key="none")
    for write in (open_webui, lightrag):
        for question in ("Who is the keeper?", "How many boats are there?"):
            ask(client, write.__name__, write(question))
    talk = open_webui("Who is the keeper?")
    talk.append({"role": "assistant", "content": ask(client, "first turn", talk)})
    ask(client, "second turn", talk + [{"role": "user", "content": "And when did she come?"}])
