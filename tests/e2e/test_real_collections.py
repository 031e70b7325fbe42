"""A published chat model and a published encoder over pages of this project's documentation, with OpenAI's client."""
import shutil

from conftest import ROOT

PAGES = ("store.md", "reliability.md", "replicas.md")


def test_the_documentation_answers_with_citations(real_model, start, tmp_path):
    """serve -m smollm2.gguf --embedding minilm --collection docs=./docs: the second question reuses what the first one
    computed, and says what of its search the answer did not wait for."""
    (tmp_path / "docs").mkdir()
    for page in PAGES:
        shutil.copy(ROOT / "docs" / page, tmp_path / "docs")
    s = start("--reuse", "full", "--embedding", real_model("minilm"), "--collection", f"docs={tmp_path / 'docs'}",
              "--idle-copies", 0, model=real_model("smollm2"))
    ask = lambda question: s.client().chat.completions.create(  # noqa: E731
        model="docs@smollm2", messages=[{"role": "user", "content": question}], max_tokens=40, temperature=0,
        extra_body={"citations": True, "collection": {"name": "docs", "top_k": 3, "ahead": True}})
    first = ask("When is a copy on disk dropped?")
    assert first.choices[0].message.content.strip()
    account = first.spolia
    assert {d["id"] for d in account["documents"]} <= set(PAGES) and len(account["documents"]) == 3
    cited = [source for sentence in first.choices[0].citations for source in sentence["sources"]]
    assert cited and {source["id"] for source in cited} <= {d["id"] for d in account["documents"]}
    second = ask("Why is a copy on disk dropped?").spolia
    reused = [d for d in second["documents"] if d["from"] == "memory"]
    assert reused and sum(d["reused"] for d in reused) > 100
    told = second["retrieval"]
    assert told["begun_ahead"] >= 1 and told["exposed_ms"] <= told["search_ms"]
    assert s.metric("retrieval_begun_ahead_total") >= 1
