"""Search in the languages that people write: Chinese, Japanese, Korean, Thai, accents, code."""
import json

import pytest

from conftest import ROOT, run, succeed

CHINESE = [json.loads(line) for line in open(ROOT / "tests/support/search_zh.jsonl", encoding="utf-8")]

TEXTS = {
    "tower.md": "# 東京タワー\n\n東京タワーは1958年に完成した電波塔です。高さは333メートルです。",
    "cat.md": "# 猫\n\n吾輩は猫である。名前はまだ無い。",
    "seoul.md": "# 서울\n\n서울은 대한민국의 수도이며 한강이 도시를 가로지른다.",
    "busan.md": "# 부산\n\n부산은 항구 도시이다.",
    "rain.md": "# ฤดูฝน\n\nฤดูฝนในประเทศไทยเริ่มประมาณเดือนพฤษภาคมและสิ้นสุดในเดือนตุลาคม",
    "elephant.md": "# ช้าง\n\nช้างเป็นสัตว์ประจำชาติของไทย",
    "school.md": "# École\n\nL'école élémentaire enseigne aux élèves de six à onze ans. Größe: 300 Kinder.",
    "moscow.md": "# Москва\n\nМосква является столицей России.",
    "hindi.md": "# हिन्दी\n\nहिन्दी भारत की राजभाषा है।",
    "arabic.md": "# القاهرة\n\nالقاهرة هي عاصمة مصر.",
    "http.py": "def parse_http_header(line):\n    return line\n\nclass RequestParser:\n    def readChunkedBody(self):\n        pass\n",
    "store.cc": "int Store::openFile(const char *path)\n{\n    return 0;\n}\n",
    "wide.txt": "型番はＡＢＣ１２３です。",
    "english.txt": "An English text about parsing, reading and opening that everything else is next to.",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("languages")
    (folder / "docs").mkdir()
    for name, text in TEXTS.items():
        (folder / "docs" / name).write_text(text, encoding="utf-8")
    with open(folder / "docs/zh.jsonl", "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"title": d["title"], "text": d["text"]}) + "\n" for d in CHINESE)
    succeed("index", folder / "docs", "-o", folder / "x.db", "-q")
    return folder / "x.db"


def search(index, question, k=8):
    done = run("search", "-i", index, "-k", k, "--json", "--", question)
    return json.loads(done.stdout)


@pytest.mark.parametrize("question, file", [
    ("東京タワーの高さは？", "tower.md"), ("猫", "cat.md"), ("吾輩の名前", "cat.md"),
    ("대한민국의 수도는 어디인가?", "seoul.md"), ("항구", "busan.md"),
    ("ฤดูฝนเริ่มเมื่อไร", "rain.md"), ("ช้าง", "elephant.md"),
    ("ecole elementaire", "school.md"), ("ÉLÈVES", "school.md"), ("GRÖßE", "school.md"),
    ("столица москва", "moscow.md"), ("हिन्दी", "hindi.md"), ("القاهرة", "arabic.md"),
    ("parse_http_header", "http.py"), ("chunked body", "http.py"), ("RequestParser", "http.py"),
    ("Store::openFile", "store.cc"), ("open file", "store.cc"), ("ABC123", "wide.txt"),
])
def test_the_first_hit_is_the_one(index, question, file):
    assert [h["file"] for h in search(index, question)][:1] == [file]


def test_chinese_words_of_two_characters_match(index):
    for word, title in (("泥沙", "黄河"), ("硫磺", "火药"), ("嫦娥", "中秋节"), ("穴位", "针灸")):
        assert [h["title"] for h in search(index, word)] == [title]


def test_chinese_questions_find_their_paragraphs(index):
    ranks = [[h["title"] for h in search(index, d["question"])] for d in CHINESE]
    found = sum(d["title"] in titles for d, titles in zip(CHINESE, ranks))
    first = sum(titles[:1] == [d["title"]] for d, titles in zip(CHINESE, ranks))
    assert found >= 0.95 * len(CHINESE) and first >= 0.85 * len(CHINESE)


def test_what_is_not_there_is_not_found(index):
    assert search(index, "曖昧") == [] and search(index, "xylophone") == []
