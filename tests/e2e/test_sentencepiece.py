"""SentencePiece vocabularies against the libraries that made them, on random Unicode: unigram in GGUF files and
tokenizer.json (`sentencepiece` and `tokenizers`), BPE with byte fallback as Gemma has it (`tokenizers`)."""
import base64
import io
import json
import re
import shutil

import numpy as np
import pytest
from conftest import refuse
from reference import gguf_writer
from test_pre_tokenizers import ids, random_texts

tokenizers = pytest.importorskip("tokenizers")
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
STRANGE = ["", " ", "   ", "\n", "a", "  a  b   c ", "\u2581a \u2581 b\u2581", "ﾊﾞｯﾃﾘｰ ｶﾞ", "e\u0301 ﬁ ½ ① ㌔ ｆｕｌｌ\u3000width", "\t a\r\nb\x0bc\u00a0d\u2028e",
           "\u200b\u00ad\ufeffx\ufffd", "한국어 \u1112\u1161\u11ab", "👩‍👩‍👧🚀", "<0x41> <unk> </s>"]


def texts():
    return STRANGE + ["".join(random_texts(12, seed)) for seed in range(40, 56)]


def learnt(n, seed):
    """Texts to learn from: a quarter of the strange characters, so that the others are unknown later."""
    return ["".join(c for c in text if ord(c) < 128 or ord(c) % 4 == 0) for text in random_texts(n, seed)]


def compare(model, wanted, tmp_path, texts_=None):
    chosen = texts_ or texts()
    for text, got in zip(chosen, ids(model, chosen, tmp_path)):
        want = wanted(text)
        at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
        assert got == want, f"{text!r}: token {at}: {got[at - 1:at + 3]}, not {want[at - 1:at + 3]}"


# -- sentencepiece ---------------------------------------------------------------------------------

@pytest.fixture(scope="module", params=["nmt_nfkc", "identity", "nfkc_cf", "bytes", "all spaces"])
def trained(request):
    """A model file of SentencePiece, as the authors of T5 made theirs."""
    sentencepiece = pytest.importorskip("sentencepiece")
    out, options = io.BytesIO(), {"normalization_rule_name": "nmt_nfkc"}
    if request.param in ("identity", "nfkc_cf"):
        options["normalization_rule_name"] = request.param
    if request.param == "bytes":
        options["byte_fallback"] = True
    if request.param == "all spaces":
        options.update(remove_extra_whitespaces=False, add_dummy_prefix=False)
    lines = [line for text in learnt(900, 2) for line in text.splitlines() if line.strip()]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 2), model_writer=out, model_type="unigram", vocab_size=2000, character_coverage=0.99,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, hard_vocab_limit=False, minloglevel=2, num_threads=2, **options)
    return sentencepiece.SentencePieceProcessor(model_proto=out.getvalue()), out.getvalue(), request.param


def charsmap_of(model):
    """precompiled_charsmap of a model file: field 2 of its normalizer_spec, field 3 of the model (protobuf)."""
    def fields(data):
        at = 0
        def number():
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value
        while at < len(data):
            key = number()
            n = {0: 0, 1: 8, 5: 4}.get(key & 7)
            n = number() if n is None else n
            if key & 7 == 0:
                number()
                yield key >> 3, b""
                continue
            yield key >> 3, data[at:at + n]
            at += n
    return next((x for n, spec in fields(model) if n == 3 for m, x in fields(spec) if m == 2), b"")


def pieces_of(sp):
    n = sp.get_piece_size()
    kinds = [UNKNOWN if sp.is_unknown(i) else CONTROL if sp.is_control(i) else BYTE if sp.is_byte(i) else NORMAL for i in range(n)]
    return [sp.id_to_piece(i) for i in range(n)], [sp.get_score(i) for i in range(n)], kinds


def write_t5(path, sp, model, **changes):
    """As llama.cpp's converter writes T5."""
    pieces, scores, kinds = pieces_of(sp)
    metadata = {"general.architecture": "t5", "tokenizer.ggml.model": "t5", "tokenizer.ggml.tokens": pieces,
                "tokenizer.ggml.scores": np.array(scores, np.float32), "tokenizer.ggml.token_type": np.array(kinds, np.int32),
                "tokenizer.ggml.eos_token_id": 1, "tokenizer.ggml.unknown_token_id": 2,
                "tokenizer.ggml.add_space_prefix": True, "tokenizer.ggml.remove_extra_whitespaces": True}
    charsmap = charsmap_of(model)
    if charsmap:
        metadata["tokenizer.ggml.precompiled_charsmap"] = np.frombuffer(charsmap, np.uint8)
    gguf_writer.write(path, {**metadata, **changes}, [])


def test_unigram_of_a_gguf_file_equals_sentencepiece(trained, tmp_path):
    sp, model, kind = trained
    plain = {"tokenizer.ggml.add_space_prefix": False, "tokenizer.ggml.remove_extra_whitespaces": False}
    write_t5(tmp_path / "v.gguf", sp, model, **(plain if kind == "all spaces" else {}))
    compare(tmp_path / "v.gguf", sp.encode, tmp_path)


@pytest.mark.parametrize("trained", ["nmt_nfkc"], indirect=True)
def test_a_charsmap_may_be_of_signed_bytes(trained, tmp_path):
    sp, model, kind = trained
    signed = np.frombuffer(charsmap_of(model), np.int8)
    write_t5(tmp_path / "v.gguf", sp, model, **{"tokenizer.ggml.precompiled_charsmap": signed})
    compare(tmp_path / "v.gguf", sp.encode, tmp_path)


@pytest.mark.parametrize("trained", ["nmt_nfkc"], indirect=True)
def test_what_is_wrong_with_a_charsmap_is_named(trained, tmp_path):
    sp, model, kind = trained
    charsmap = np.frombuffer(charsmap_of(model), np.uint8)
    assert charsmap.size
    for bad in (charsmap[:3], charsmap[:400], np.append(charsmap, np.uint8(65)), np.array([255] * 9, np.uint8)):
        write_t5(tmp_path / "v.gguf", sp, model, **{"tokenizer.ggml.precompiled_charsmap": bad})
        refuse("tokenize", "-m", tmp_path / "v.gguf", "-p", "a", naming=["v.gguf", "precompiled_charsmap"])
    for seed in range(10):  # any bytes in its trie: some ids, no crash
        rng = np.random.default_rng(seed)
        spoiled = charsmap.copy()
        where = rng.integers(4, 4 + int(charsmap[:4].view("<u4")[0]), 2000)
        spoiled[where] = rng.integers(0, 256, where.size)
        write_t5(tmp_path / "v.gguf", sp, model, **{"tokenizer.ggml.precompiled_charsmap": spoiled})
        assert ids(tmp_path / "v.gguf", ["ﾊﾞ e\u0301 ① \r\n x" * 20], tmp_path)[0]
    write_t5(tmp_path / "v.gguf", sp, model, **{"tokenizer.ggml.treat_whitespace_as_suffix": True})
    refuse("tokenize", "-m", tmp_path / "v.gguf", "-p", "a", naming=["v.gguf", "treat_whitespace_as_suffix"])


# -- tokenizer.json --------------------------------------------------------------------------------

def save(made, make_model, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(make_model("tiny-llama", folder=True, n_vocab=made.get_vocab_size()), folder)
    (folder / "tokenizer_config.json").unlink(missing_ok=True)
    made.save(str(folder / "tokenizer.json"))
    return folder


PIPELINES = {  # normalizer after the table of characters, pre_tokenizer
    "t5": (None, pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])),
    "converted": ([normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "▁")], pre_tokenizers.Metaspace()),
    "words": ([normalizers.Replace(Regex(" {2,}"), " ")], pre_tokenizers.Metaspace()),
    "whole": ([], pre_tokenizers.Metaspace(prepend_scheme="first", split=False)),
    "bare": ([], pre_tokenizers.Metaspace(prepend_scheme="never", split=False)),
}


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("fallback", [False, True])
def test_unigram_of_a_folder_equals_tokenizers(name, fallback, make_model, tmp_path):
    """Without a table of characters, which the library applies differently (src/model/tokenizer/normalize.c)."""
    steps, pre = PIPELINES[name]
    if name == "converted":
        steps = steps[1:]  # strips tabs, too, where no table made spaces of them
    learning = Tokenizer(models.Unigram())
    learning.pre_tokenizer = pre
    learning.train_from_iterator(learnt(900, 3), trainers.UnigramTrainer(
        vocab_size=2000, unk_token="<unk>", special_tokens=["<pad>", "</s>", "<unk>"], show_progress=False))
    spec = json.loads(learning.to_str())["model"]
    listed = [tuple(item) for item in spec["vocab"] if len(item[0]) > 1 or ord(item[0]) % 5]  # some characters are unknown
    if fallback:
        listed += [(f"<0x{b:02X}>", -3.0) for b in range(256)]
    made = Tokenizer(models.Unigram(listed, unk_id=2, byte_fallback=fallback))
    if steps:
        made.normalizer = normalizers.Sequence(steps)
    made.pre_tokenizer = pre
    made.add_special_tokens(["<pad>", "</s>", "<unk>"])
    made.decoder = decoders.Metaspace()
    folder = save(made, make_model, tmp_path)
    chosen = [t.replace("<0x41>", "").replace("</s>", "").replace("<unk>", "") for t in texts()]
    compare(folder, lambda text: made.encode(text).ids, tmp_path, chosen)


@pytest.mark.parametrize("trained, name", [  # whose pipelines do what SentencePiece does
    ("nmt_nfkc", "t5"), ("nmt_nfkc", "converted"), ("bytes", "t5"), ("bytes", "converted"), ("nfkc_cf", "t5")], indirect=["trained"])
def test_unigram_of_a_folder_with_a_table_of_characters(name, trained, make_model, tmp_path):
    """The folder of a converted model has the ids of SentencePiece, which made it."""
    sp, model, kind = trained
    pieces, scores, kinds = pieces_of(sp)
    steps, pre = PIPELINES[name]
    made = Tokenizer(models.Unigram(list(zip(pieces, scores)), unk_id=2, byte_fallback=kind == "bytes"))
    made.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap_of(model)), *(steps or [])])
    made.pre_tokenizer = pre
    made.add_special_tokens(["<pad>", "</s>", "<unk>"])
    folder = save(made, make_model, tmp_path)
    chosen = [re.sub(r"[\u2581<]|[\x00-\x1f]", "", t).strip() for t in texts()]
    if name == "t5":  # splits at the spaces of other scripts, of which some tables keep some
        chosen = [re.sub(r"\s+", " ", t) for t in chosen]
    for text, got in zip(chosen, ids(folder, chosen, tmp_path)):
        want = sp.encode(text)  # of equal sums it may choose another, because its sums have single precision
        assert got == want or sorted(got) == sorted(want), f"{text!r}: {got}, not {want}"
    spec = json.loads((folder / "tokenizer.json").read_text())
    first = spec["normalizer"]["normalizers"][0] if "normalizers" in spec["normalizer"] else spec["normalizer"]
    assert base64.b64decode(first["precompiled_charsmap"]) == charsmap_of(model)
    first["precompiled_charsmap"] = "A?=="
    (folder / "tokenizer.json").write_text(json.dumps(spec))
    refuse("tokenize", "-m", folder, "-p", "a", naming=["tokenizer.json", "precompiled_charsmap"])


# -- Gemma -----------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def gemma():
    """Gemma's pipeline; merges as converters list them: every pair of tokens that is a token, by the id of the result."""
    learning = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    learning.normalizer = normalizers.Replace(" ", "▁")
    special = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{b:02X}>" for b in range(256))]
    learning.train_from_iterator(random_texts(900, 4), trainers.BpeTrainer(
        vocab_size=2200, limit_alphabet=500, special_tokens=special, show_progress=False))
    vocab = json.loads(learning.to_str())["model"]["vocab"]
    merges = sorted((vocab[t], (t[:i], t[i:])) for t in vocab for i in range(1, len(t))
                    if t not in special and t[:i] in vocab and t[i:] in vocab)
    made = Tokenizer(models.BPE(vocab, [pair for _, pair in merges], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = normalizers.Replace(" ", "▁")
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    made.add_special_tokens(special[:4])
    return made


def plain_texts():
    return [re.sub("<[^ ]*>", "", t) for t in texts()]


def test_gemma_of_a_folder_equals_tokenizers(gemma, make_model, tmp_path):
    compare(save(gemma, make_model, tmp_path), lambda text: gemma.encode(text).ids, tmp_path, plain_texts())


def test_gemma_of_a_gguf_file_equals_tokenizers(gemma, tmp_path):
    tokens = sorted(gemma.get_vocab(), key=gemma.get_vocab().get)
    kinds = [UNKNOWN if t == "<unk>" else CONTROL if i < 4 else BYTE if i < 260 else NORMAL for i, t in enumerate(tokens)]
    gguf_writer.write(tmp_path / "v.gguf", {
        "general.architecture": "gemma3", "tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": -np.arange(len(tokens), dtype=np.float32),
        "tokenizer.ggml.token_type": np.array(kinds, np.int32), "tokenizer.ggml.bos_token_id": 2, "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.unknown_token_id": 3, "tokenizer.ggml.add_space_prefix": False}, [])
    compare(tmp_path / "v.gguf", lambda text: gemma.encode(text).ids, tmp_path, plain_texts())


def test_what_no_pipeline_has_is_refused(gemma, make_model, tmp_path):
    folder = save(gemma, make_model, tmp_path)
    spec = json.loads((folder / "tokenizer.json").read_text())
    unigram = {"type": "Unigram", "unk_id": 0, "vocab": [["a", -1.0]]}
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    for changes, words in [
            ({"normalizer": {"type": "NFKC"}}, ["normalizer", "NFKC"]),
            ({"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}}, ["normalizer", "Strip"]),
            ({"normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}}, ["pre_tokenizer", "WhitespaceSplit"]),
            ({"model": {"type": "WordLevel"}}, ["model.type", "WordLevel"]),
            ({"model": {**unigram, "vocab": {"a": 1}}, "normalizer": None, "pre_tokenizer": metaspace}, ["model.vocab"]),
            ({"model": {**unigram, "vocab": [["a"]]}, "normalizer": None, "pre_tokenizer": metaspace}, ["model.vocab"]),
            ({"model": {**unigram, "unk_id": 999999}, "added_tokens": [], "normalizer": None, "pre_tokenizer": metaspace}, ["model.unk_id"])]:
        (folder / "tokenizer.json").write_text(json.dumps({**spec, **changes}))
        refuse("tokenize", "-m", folder, "-p", "a", naming=["tokenizer.json", *words])
