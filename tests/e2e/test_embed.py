"""`spolia embed`: vectors equal to BERT in float64 and to sentence-transformers, tokens to the tokenizers library."""
import json
import os
import sys

import numpy as np
import pytest
from conftest import ROOT, refuse, succeed
from tokenizers import Tokenizer

from reference import encoder

TEXTS = ["", "the river", "Building a WALL of stones, unbuildable!", "key value cache # 12 中文 äß [SEP] zzz", "a b c d e " * 20]


def embed(model, texts, tmp_path, *options, **more):
    (tmp_path / "texts").write_bytes("\n".join(texts).encode() + b"\n")
    return json.loads(succeed("embed", "-m", model, "-f", tmp_path / "texts", "--json", *options, **more))


def vectors(model, texts, tmp_path, *options, **more):
    return np.array([d["embedding"] for d in embed(model, texts, tmp_path, *options, **more)["data"]])


@pytest.mark.parametrize("pooling, normalize", [("mean_tokens", True), ("cls_token", True), ("mean_tokens", False)])
def test_a_folder_is_the_definition(pooling, normalize, variant, tmp_path):
    folder = encoder.write_folder(tmp_path / "m", pooling=pooling, normalize=normalize)
    reference = encoder.Encoder(folder)
    got = embed(folder, TEXTS, tmp_path, variant=variant)
    want = [reference.vector(t) for t in TEXTS]
    assert [d["tokens"] for d in got["data"]] == [len(reference.ids(t)) for t in TEXTS] and got["tokens"] > 60
    assert np.abs(np.array([d["embedding"] for d in got["data"]]) - want).max() < 1e-5
    assert np.abs(np.diff(want, axis=0)).max() > 0.1  # the texts differ


def test_a_head_may_have_256_elements(tmp_path):
    folder = encoder.write_folder(tmp_path / "m", {**encoder.TINY, "hidden_size": 256, "num_attention_heads": 1, "num_hidden_layers": 1})
    assert np.abs(vectors(folder, TEXTS[1:3], tmp_path) - [encoder.Encoder(folder).vector(t) for t in TEXTS[1:3]]).max() < 1e-5
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_size": 257}))
    refuse("embed", "-m", folder, "a", naming=["257 elements in 1 heads", "256"])


@pytest.mark.parametrize("pooling, number", [("mean_tokens", 1), ("cls_token", 2), ("mean_tokens", None)])
def test_a_gguf_file_is_the_folder(pooling, number, tmp_path):
    folder = encoder.write_folder(tmp_path / "m", pooling=pooling)
    file = encoder.write_gguf(tmp_path / "m.gguf", pooling=number)
    a, b = (vectors(m, TEXTS, tmp_path) for m in (folder, file))
    assert np.abs(a - b).max() < 1e-6
    half = vectors(encoder.write_gguf(tmp_path / "h.gguf", pooling=number, kind="f16"), TEXTS, tmp_path)
    assert 0 < np.abs(a - half).max() < 5e-3


def test_a_q8_0_file_is_near_the_folder(variant, tmp_path):
    """In steps of up to 1024 tokens, whose widest product has more columns than the others."""
    file = encoder.write_gguf(tmp_path / "m.gguf", kind="q8_0")
    texts = [TEXTS[4][2 * i:] for i in range(30)]  # each is cut to 40 tokens
    a, b = (vectors(m, texts, tmp_path, variant=variant) for m in (encoder.write_folder(tmp_path / "m"), file))
    assert 0 < np.abs(a - b).max() < 0.05


def test_a_vector_depends_on_its_text_alone(variant, tmp_path):
    """Bit for bit: alone, among others, in another order, in steps of another size."""
    folder = encoder.write_folder(tmp_path / "m")
    texts = [f"{t} {i}" for i in range(40) for t in TEXTS[1:]]
    all_of_them = vectors(folder, texts, tmp_path, variant=variant)
    assert (vectors(folder, texts[::-1], tmp_path, variant=variant)[::-1] == all_of_them).all()
    assert (vectors(folder, texts[7:8], tmp_path, variant=variant)[0] == all_of_them[7]).all()
    assert (vectors(folder, texts, tmp_path, "-b", "64", "-t", "1", variant=variant) == all_of_them).all()


def test_tokens_of_many_texts_are_counted_each(tmp_path):
    told = embed(encoder.write_folder(tmp_path / "m"), ["a"] * 512 + ["a b c", "a b"], tmp_path)
    assert [d["tokens"] for d in told["data"]] == [3] * 512 + [5, 4] and told["tokens"] == 3 * 512 + 9


def test_prompts_are_the_models(tmp_path):
    folder = encoder.write_folder(tmp_path / "m", prompts={"query": "key: ", "passage": "value: "})
    for kind, prompt in (("text", ""), ("query", "key: "), ("document", "value: ")):
        assert (vectors(folder, ["the river"], tmp_path, "--as", kind) == vectors(folder, [prompt + "the river"], tmp_path)).all()
    folder = encoder.write_folder(tmp_path / "m", prompts={"passage": "key: ", "document": "value: "})
    assert (vectors(folder, ["the river"], tmp_path, "--as", "document") == vectors(folder, ["value: the river"], tmp_path)).all()


def test_dimensions_are_scaled_to_length_one(tmp_path):
    folder = encoder.write_folder(tmp_path / "m")
    whole, cut = vectors(folder, TEXTS, tmp_path), vectors(folder, TEXTS, tmp_path, "--dimensions", "16")
    want = whole[:, :16] / np.linalg.norm(whole[:, :16], axis=1, keepdims=True)
    assert cut.shape == (len(TEXTS), 16) and np.abs(cut - want).max() < 1e-6
    refuse("embed", "-m", folder, "a", "--dimensions", "65", naming=["dimensions", "64"])
    refuse("embed", "-m", folder, "a", "--dimensions", "-5", code=2, naming=['--dimensions: "-5" is not a whole number from 0 to'])
    folder = encoder.write_folder(tmp_path / "long", normalize=False)  # its vectors have any length, and so have parts of them
    whole, cut = vectors(folder, TEXTS, tmp_path), vectors(folder, TEXTS, tmp_path, "--dimensions", "16")
    assert np.abs(cut - whole[:, :16]).max() < 1e-6


def test_long_texts_are_cut_before_the_last_token(tmp_path):
    folder = encoder.write_folder(tmp_path / "m", longest=12)
    assert np.abs(vectors(folder, ["a b c " * 30], tmp_path)[0] - encoder.Encoder(folder).vector("a b c " * 30)).max() < 1e-5
    assert embed(folder, ["a b c " * 30], tmp_path)["tokens"] == 12
    small = vectors(folder, ["a b c " * 30], tmp_path, "-b", "4")  # a step has room for the longest text
    assert (small == vectors(folder, ["a b c " * 30], tmp_path)).all()
    refuse("embed", "-m", folder, "a b c " * 30, "--strict", naming=["input 0", "92", "12"])
    for longest, tokens in ((20, 12), (10, 10)):  # the least of the two files holds
        (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": longest}))
        assert embed(folder, ["a b c " * 30], tmp_path)["tokens"] == tokens


def test_what_is_not_supported_is_named(tmp_path):
    def altered(name, **changes):
        folder = encoder.write_folder(tmp_path / "m")
        content = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(content | changes))
        return folder
    refuse("embed", "-m", altered("config.json", hidden_act="relu"), "a", naming=["config.json", "hidden_act", "relu"])
    refuse("embed", "-m", altered("config.json", model_type="roberta"), "a", naming=["config.json", "model_type", "roberta"])
    refuse("embed", "-m", altered("config.json", num_attention_heads=7), "a", naming=["config.json", "heads"])
    refuse("embed", "-m", altered("config.json", layer_norm_eps=1), "a", naming=["config.json", "epsilon", "1"])
    refuse("embed", "-m", altered("config.json", hidden_size=96), "a", naming=["embeddings.word_embeddings.weight"])
    refuse("embed", "-m", altered("1_Pooling/config.json", pooling_mode_max_tokens=True), "a",
           naming=["1_Pooling", "pooling_mode_max_tokens"])
    refuse("embed", "-m", altered("1_Pooling/config.json", pooling_mode_cls_token=True), "a", naming=["1_Pooling", "two at the same time"])
    refuse("embed", "-m", altered("1_Pooling/config.json", pooling_mode_mean_tokens=False), "a", naming=["1_Pooling", "none is set"])
    folder = encoder.write_folder(tmp_path / "m")
    rules = json.loads((folder / "tokenizer.json").read_text())
    rules["model"]["vocab"]["quay"] = len(rules["model"]["vocab"])  # a token without a row of the embedding
    (folder / "tokenizer.json").write_text(json.dumps(rules))
    refuse("embed", "-m", folder, "quay", naming=["tokens, the embedding has"])
    folder = encoder.write_folder(tmp_path / "m")
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps(modules + [{"idx": 3, "path": "3_Dense", "type": "x.Dense"}]))
    refuse("embed", "-m", folder, "a", naming=["modules.json", "Dense"])
    modules[1]["path"] = "../1_Pooling"
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").rename(tmp_path / "1_Pooling")
    refuse("embed", "-m", folder, "a", naming=["modules.json", "Pooling"])
    refuse("embed", "-m", ROOT / "demo/model.gguf", "a", naming=["model.gguf", "general.architecture"])


# -- tokens ---------------------------------------------------------------------------------------------

def check_tokens(folder, texts, tmp_path):
    library = Tokenizer.from_file(str(folder / "tokenizer.json"))
    library.no_truncation(), library.no_padding()
    (tmp_path / "texts").write_bytes("\n".join(texts).encode())
    ours = json.loads(succeed("tokenize", "-m", folder, "-f", tmp_path / "texts", "--json"))["tokens"]
    assert ours == library.encode("\n".join(texts)).ids[:-1]
    return len(ours)


def random_texts(n):
    rng = np.random.default_rng(n)
    return [encoder.random_text(rng, 40) for _ in range(n)]


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("accents", [None, True])
def test_random_unicode_has_the_librarys_tokens(lower, accents, tmp_path):
    """accents: kept, also where letters become lower case."""
    folder = encoder.write_folder(tmp_path / "m", lower=lower)
    if accents:
        rules = json.loads((folder / "tokenizer.json").read_text())
        rules["normalizer"]["strip_accents"] = False
        rules["model"]["vocab"]["i\u0307"] = rules["model"]["vocab"].pop("wall")  # U+0130 in lower case
        (folder / "tokenizer.json").write_text(json.dumps(rules))
    words = np.random.default_rng(1).choice(
        encoder.PIECES + ["Stone", "BUILDING", "Ä", "e\u0301", "\u0130", "a" * 100, "a" * 101], 3000)
    assert check_tokens(folder, random_texts(300) + [" ".join(words), "".join(words)], tmp_path) > 3000


def test_every_character_has_the_librarys_tokens(real_model, tmp_path):
    """Between letters of a word: whether it goes, ends a word, or is one."""
    every = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000 and c != 10]
    texts = [f"a{chr(c)}b c{chr(c)}" for c in every]
    folder = real_model("minilm")
    for at in range(0, len(texts), 1 << 17):
        check_tokens(folder, texts[at:at + (1 << 17)], tmp_path)
    check_tokens(folder, random_texts(2000), tmp_path)


# -- the published model ----------------------------------------------------------------------------------

def test_minilm_equals_sentence_transformers(real_model, variant, tmp_path):
    golden = json.loads((ROOT / "tests/golden/embeddings.json").read_text())
    folder, reference = real_model("minilm"), None
    for row in golden:
        text = row["text"]
        (tmp_path / "one").write_bytes(text.replace("\n", " ").encode() + b"\n")
        got = json.loads(succeed("embed", "-m", folder, "-f", tmp_path / "one", "--json", variant=variant))["data"][0]
        assert np.abs(np.array(got["embedding"][:len(row["vector"])]) - row["vector"]).max() < 1e-5, text
    reference = encoder.Encoder(folder)
    row = golden[3]
    assert np.abs(reference.vector(row["text"])[:len(row["vector"])] - row["vector"]).max() < 1e-6


# -- the Python package -----------------------------------------------------------------------------------

def test_the_package_embeds_as_the_program_does(tmp_path):
    sys.path.insert(0, str(ROOT / os.environ.get("SPOLIA_BUILD", "build") / "python"))
    spolia = pytest.importorskip("spolia", reason="make python builds the package")
    folder = encoder.write_folder(tmp_path / "m", prompts={"query": "key: "}, longest=12)
    with spolia.Embedder(folder, threads=1) as e:
        assert (e.dimensions, e.max_tokens, e.query_prompt) == (64, 12, "key: ")
        assert np.abs(np.array(e.embed(TEXTS[:3])) - vectors(folder, TEXTS[:3], tmp_path)).max() < 1e-7
        assert np.abs(np.array(e.embed("the wall", kind="query")) - vectors(folder, ["key: the wall"], tmp_path)).max() < 1e-7
        assert np.array(e.embed([[2, 5, 3]], dimensions=8)).shape == (1, 8) and e.embed([]) == []
        for options, error in (({"kind": "other"}, ValueError), ({"dimensions": 65}, ValueError), ({"strict": True}, spolia.ContextTooLong)):
            with pytest.raises(error):
                e.embed(["a b c " * 9], **options)
        with pytest.raises(spolia.InvalidArgument, match="token 9999"):
            e.embed([[9999]])
    with pytest.raises(ValueError, match="closed"):
        e.embed("a")
