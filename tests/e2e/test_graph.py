"""Knowledge graphs through the program: import, search, paths, a real SPARQL server."""
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

from conftest import PROGRAM, ROOT, refuse, run, succeed
from support.ports import free_port

MOVIES = """Heat\tdirected_by\tMichael Mann
Heat\tstarred_actors\tAl Pacino
The Insider\tdirected_by\tMichael Mann
The Insider\twritten_by\tEric Roth
"""


def write(path, text):
    path.write_text(text)
    return path


def import_graph(db, *files, **options):
    return json.loads(succeed("graph", "import", *files, "-o", db, "--json", **options))


def paths(where, question, *options):
    return json.loads(succeed("graph", "paths", "-g", where, "--json", *options, question))


@pytest.fixture
def movies(tmp_path):
    db = tmp_path / "movies.db"
    import_graph(db, write(tmp_path / "movies.tsv", MOVIES))
    return db


def test_paths_are_json(movies):
    found = paths(movies, "writers of films directed by Michael Mann?", "-k", "1", "--explain", "--tree", "--style", "arrows")
    assert [e["name"] for e in found["entities"]] == ["Michael Mann"]
    [path] = found["paths"]
    assert path["nodes"] == ["Michael Mann", "The Insider", "Eric Roth"]
    assert path["relations"] == ["directed_by", "written_by"]
    assert path["inverse"] == [True, False]
    assert path["text"] == "Michael Mann <-directed_by- The Insider -written_by-> Eric Roth"
    assert path["score"] > 0 and "directed~directed_by" in path["why"]
    assert "".join(n["text"] for n in found["tree"]) == path["text"]
    assert [n["parent"] for n in found["tree"]] == [-1, 0, 1, 2, 3]
    [misspelt] = paths(movies, os.fsdecode(b"who is Pacin\xff Al Pacin\xff"))["entities"]
    assert (misspelt["name"], misspelt["mention"]) == ("Al Pacino", "Al Pacin\ufffd")


def test_names_without_capitals_are_shown_with_some(tmp_path):
    """A file that gives a name of its own keeps it, and the question may be in small letters."""
    file = write(tmp_path / "kings.tsv", "charles_i_of_spain\tspouse\tisabella of portugal\nPhilip II\tparents\tcharles_i_of_spain\n")
    import_graph(tmp_path / "a.db", file)
    succeed("graph", "import", file, "-o", tmp_path / "b.db", "--capitals")
    question = "who was charles i of spain 's couple"
    assert paths(tmp_path / "a.db", question)["paths"][0]["nodes"] == ["charles_i_of_spain", "isabella of portugal"]
    texts = [p["text"] for p in paths(tmp_path / "b.db", question, "--style", "triplets")["paths"]]
    assert texts == ["(Charles I Of Spain, spouse, Isabella Of Portugal)", "(Philip II, parents, Charles I Of Spain)"]
    rdf = write(tmp_path / "kings.nt", '<http://x.org/charles_i> <http://x.org/spouse> <http://x.org/isabella> .\n'
                f'<http://x.org/isabella> {LABEL} "isabella of portugal" .\n')
    succeed("graph", "import", rdf, "-o", tmp_path / "c.db", "--capitals")
    assert paths(tmp_path / "c.db", "who was the spouse of charles i")["paths"][0]["nodes"] == ["Charles I", "isabella of portugal"]


def test_people_can_read_the_output(movies):
    assert "Heat -starred_actors-> Al Pacino" in succeed("graph", "paths", "-g", movies, "--style", "arrows", "who starred in Heat")
    assert "4 triples, 3 relations" in succeed("graph", "show", "-g", movies)
    assert "fuzzy  Al Pacino" in succeed("graph", "search", "-g", movies, "Pacinno")
    refuse("graph", "search", "-g", movies, "qqqqqqqq", code=3, naming=["no entity"])
    none = run("graph", "search", "-g", movies, "--json", "qqqqqqqq")
    assert none.returncode == 3 and json.loads(none.stdout) == []
    for options in ([], ["--tree"], ["--json"]):
        refuse("graph", "paths", "-g", movies, *options, "what?", code=3, naming=["names no entity"])
    none = run("graph", "paths", "-g", movies, "--json", "--tree", "what?")
    assert json.loads(none.stdout) == {"entities": [], "paths": [], "tree": []}
    sentences = succeed("graph", "paths", "-g", movies, "--style", "sentences", "Al Pacino")
    assert "Al Pacino is starred actors of Heat. Heat directed by Michael Mann." in sentences


def test_bad_lines_are_named_and_counted(tmp_path):
    bad = write(tmp_path / "bad.tsv", "A\tr\tB\nonly one\nA\tr\t\n")
    done = run("graph", "import", bad, "-o", tmp_path / "g.db", "--json")
    assert f"{bad}:2: skipped: 1 column" in done.stderr and f"{bad}:3: skipped: the object is empty" in done.stderr
    assert json.loads(done.stdout)["bad"] == 2
    refuse("graph", "import", bad, "-o", tmp_path / "h.db", "--strict", naming=[f"{bad}:2"])


def test_wrong_usage(tmp_path, movies):
    refuse("graph", "pathes", code=2, naming=["pathes"])
    refuse("graph", "import", "-o", tmp_path / "x.db", code=2, naming=["at least one file"])
    refuse("graph", "import", tmp_path / "x.pdf", "-o", tmp_path / "x.db", code=2, naming=["x.pdf"])
    refuse("graph", "paths", "-g", tmp_path / "no.db", "Heat", naming=["no.db"])
    refuse("graph", "paths", "-g", movies, "--style", "verse", "Heat", code=2, naming=["verse"])
    refuse("graph", "paths", "-g", movies, "--hops", "9", "Heat", code=2, naming=["--hops", "from 0 to 8"])
    refuse("graph", "show", "-g", "http://127.0.0.1:1/sparql", naming=["127.0.0.1"])
    assert "usage: spolia graph NAME" in succeed("graph", "--help")
    for part in ("import", "show", "search", "paths", "extract", "eval"):
        assert f"usage: spolia graph {part}" in succeed("graph", part, "--help")


def test_every_format_gives_the_same_graph(tmp_path):
    files = {
        "a.tsv": "A\tknows\tB\n",
        "b.csv": "subject,relation,object\n\"A\",knows,B\n",
        "c.jsonl": '{"subject": "A", "relation": "knows", "object": "B"}\n',
        "d.json": json.dumps({"entities": [{"entity_name": "A"}],
                              "relationships": [{"src_id": "A", "tgt_id": "B", "keywords": "knows"}]}),
        "e.graphml": '<graphml><key id="k" for="edge" attr.name="keywords"/><graph><node id="A"/><node id="B"/>'
                     '<edge source="A" target="B"><data key="k">knows</data></edge></graph></graphml>',
    }
    made = [import_graph(tmp_path / "g.db", write(tmp_path / name, text)) for name, text in files.items()]
    assert [m["triples"] for m in made] == [1, 0, 0, 0, 0]
    assert [m["duplicates"] for m in made] == [0, 1, 1, 1, 1]
    assert [m["entities"] for m in made] == [2, 0, 0, 0, 0]


def test_rdf_has_names_from_labels_or_iris(tmp_path):
    turtle = write(tmp_path / "a.ttl", "@prefix x: <http://x.org/> .\n@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
                   'x:m1 x:directed_by x:Mann ; rdfs:label "Heat" , "Hitze"@de .\n')
    lines = write(tmp_path / "b.nt", "<http://x.org/m1> <http://x.org/starred_actors> <http://x.org/Pacino> .\n")
    assert import_graph(tmp_path / "g.db", turtle)["triples"] == 1
    assert import_graph(tmp_path / "g.db", lines)["triples"] == 1  # the label stays
    assert "Heat starred actors Pacino." in succeed("graph", "paths", "-g", tmp_path / "g.db", "who starred in Heat")
    assert "alias  Heat" in succeed("graph", "search", "-g", tmp_path / "g.db", "Hitze")
    assert import_graph(tmp_path / "g.db", lines)["unchanged"] == 1
    broken = write(tmp_path / "c.ttl", "x:a x:b x:c .\n")
    refuse("graph", "import", broken, "-o", tmp_path / "g.db", naming=[f"{broken}:1:"])


def test_files_without_triples_are_errors_and_columns_have_options(tmp_path):
    table = write(tmp_path / "t.csv", "person,friend\nA,B\nC,D\n")
    refuse("graph", "import", table, "-o", tmp_path / "g.db", naming=[f"{table}:1:", '"person", "friend"', "subject"])
    refuse("graph", "import", table, "-o", tmp_path / "g.db", "--subject", "Person", "--relation", "=knows", "--object", "frend",
           naming=["no column frend", '"friend"'])
    said = json.loads(succeed("graph", "import", table, "-o", tmp_path / "g.db", "--subject", "person", "--relation", "=knows",
                              "--object", "friend", "--json"))
    assert said["triples"] == 2 and said["bad"] == 0
    blanks = write(tmp_path / "t.tsv", "A knows B\nC knows D\n")
    done = run("graph", "import", blanks, "-o", tmp_path / "g.db")
    assert done.returncode == 1 and f"{blanks}: none of its 2 lines is a triple" in done.stderr
    plain = write(tmp_path / "p.csv", "person,verb,friend\nA,met,B\n")
    done = run("graph", "import", plain, "-o", tmp_path / "p.db", "--json")
    assert json.loads(done.stdout)["triples"] == 2 and f'{plain}:1: unknown header' in done.stderr


@pytest.mark.parametrize("command", [("ask", "question"), ("serve", "--port", "0")])
def test_ask_and_serve_choose_the_graph_and_label_of_an_endpoint(command):
    name, *rest = command
    common = (name, "-m", ROOT / "demo/model.gguf", "-g", "http://127.0.0.1:9/sparql", *rest)
    refuse(*common, "--rdf-label", "not an IRI", naming=["not an IRI", "label"])
    refuse(*common, "--rdf-graph", "not an IRI", naming=["not an IRI"])


def test_killed_imports_continue(tmp_path):
    """Kills an import until one ends by itself; nothing is lost and nothing is there twice."""
    n = 60000
    big = write(tmp_path / "big.tsv", "".join(f"s{i}\tr{i % 9}\to{i % 1000}\n" for i in range(n)))
    db, kills = tmp_path / "g.db", 0
    for delay in (0.05, 0.1, 0.2, 0.3, 600):
        job = subprocess.Popen([PROGRAM, "graph", "import", big, "-o", db, "--batch", "2000", "--json"],
                               stdout=subprocess.PIPE, text=True)
        try:
            out, _ = job.communicate(timeout=delay)
            break
        except subprocess.TimeoutExpired:
            job.send_signal(signal.SIGKILL)
            job.wait()
            kills += 1
    assert job.returncode == 0
    if kills == 0:
        pytest.skip("the import was faster than the first kill")
    shown = json.loads(succeed("graph", "show", "-g", db, "--json"))
    assert shown["triples"] == n and sum(r["triples"] for r in shown["relations"]) == n
    assert import_graph(db, big)["unchanged"] == 1


def test_memory_of_an_import_is_bounded(tmp_path):
    rng = random.Random(3)
    big = tmp_path / "big.tsv"
    with big.open("w") as f:
        for i in range(200_000):
            f.write(f"a person called {rng.randrange(10**9)}\tknows\ta thing of number {rng.randrange(10**9)}\n")
    limit = 400 << 20
    asan = "Sanitizer" in subprocess.run(["nm", "-D", PROGRAM], capture_output=True, text=True).stdout or \
        "asan" in str(PROGRAM) or "tsan" in str(PROGRAM)
    bound = None if asan else lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    made = import_graph(tmp_path / "g.db", big, preexec_fn=bound)
    assert made["triples"] == 200_000 and made["entities"] > 399_000


def test_hostile_graphs(tmp_path):
    """A hub of 100,000 edges, loops, cycles, empty and endless names: paths stay bounded, and bad lines are named."""
    lines = [f"Hub\thas\tleaf {i}" for i in range(100_000)] + [f"ring {i}\tnext\tring {(i + 1) % 5}" for i in range(5)]
    lines += ["Self\tis\tSelf", "\tis\tx", "x\t\ty", "y\tis\t", f"{'n' * 10_240}\tis\ta", "leaf 7\tis\tdeep"]
    db = tmp_path / "g.db"
    made = import_graph(db, write(tmp_path / "t.tsv", "".join(x + "\n" for x in lines)))
    assert made["triples"] == 100_000 + 5 + 1 + 1 and made["bad"] == 4
    hub = json.loads(succeed("graph", "paths", "-g", db, "what does the Hub have?", "--json", "--tree", "-k", "50"))
    assert 0 < len(hub["paths"]) <= 50 and len(hub["tree"]) <= 2 + 2 * 50
    deep = json.loads(succeed("graph", "paths", "-g", db, "where is deep?", "--json", "--hops", "3"))
    assert 0 < len(deep["paths"]) <= 30 and all("leaf 7" in p["text"] for p in deep["paths"])
    ring = json.loads(succeed("graph", "paths", "-g", db, "what is ring 3?", "--json", "--hops", "8"))
    assert ring["paths"] and all(len(set(p["nodes"])) == len(p["nodes"]) for p in ring["paths"])
    refuse("graph", "paths", "-g", db, "what is Self?", code=3, naming=["no path from what the question names"])
    refuse("ask", "-m", ROOT / "demo/model.gguf", "--graph", db, "what is Self?", code=3, naming=["no path from what the question names"])


def test_recall_on_metaqa(data, tmp_path):
    """The answer is on a path for nearly every question; figures in docs/graphs.md."""
    import_graph(tmp_path / "m.db", data / "metaqa/triples.tsv")
    measured = json.loads(succeed("graph", "eval", "-g", tmp_path / "m.db", "--hops", "3", "-n", "500", "--json",
                                  data / "metaqa/questions.dev.jsonl"))
    recall = {g["hops"]: g["recall"] for g in measured["groups"]}
    assert recall[1] >= 0.99 and recall[2] >= 0.93 and recall[3] >= 0.9
    assert measured["median_cpu_ms"] < 10


def test_eval_counts_answers(movies, tmp_path):
    lines = [{"question": "who directed Heat", "answers": ["michael mann", "Nobody"], "hops": 1},
             {"question": "who wrote the films of Michael Mann", "answers": ["Al Pacino"], "hops": 2},
             {"question": "what?", "answers": ["x"], "hops": 2}]
    questions = write(tmp_path / "q.jsonl", "".join(json.dumps(x) + "\n" for x in lines))
    got = json.loads(succeed("graph", "eval", "-g", movies, questions, "--json"))
    assert got["groups"][0] == {"hops": 1, "questions": 1, "named": 1.0, "recall": 1.0, "answers": 0.5}
    assert got["groups"][1] == {"hops": 2, "questions": 2, "named": 0.5, "recall": 0.5, "answers": 0.5}
    refuse("graph", "eval", "-g", movies, write(tmp_path / "bad.jsonl", '{"question": "x"}\n'),
           naming=["bad.jsonl:1"])
    refuse("graph", "eval", "-g", movies, write(tmp_path / "no.jsonl", ""), naming=["contains no question"])
    refuse("graph", "eval", "-g", movies, questions, "--limit", "-1", code=2, naming=["--limit"])


def test_extraction_adds_to_its_file(tmp_path):
    """The bundled model was not trained for it, so this is about the file, not the triples."""
    succeed("index", ROOT / "demo/docs", "-o", tmp_path / "i.db", "-q")
    out = write(tmp_path / "t.tsv", "a\tr\tb\tx.md#59\ncut of")
    options = ("-m", ROOT / "demo/model.gguf", "--index", tmp_path / "i.db", "-o", out, "-n", "12")
    said = succeed("graph", "extract", *options)
    assert " of 2 chunks;" in said  # of 60: the last one in the file again, and the one after it
    lines = out.read_text().splitlines()
    assert lines[0] == "a\tr\tb\tx.md#59" and all(len(x.split("\t")) == 4 for x in lines)
    assert " of 1 chunks;" in succeed("graph", "extract", *options, "--limit", "1")
    refuse("graph", "extract", *options[:4], "-o", tmp_path / "no" / "t.tsv", naming=["t.tsv"])
    refuse("graph", "extract", *options[:4], "-o", "/proc/self/mem", naming=["/proc/self/mem: cannot be read"])


def test_any_model_keeps_to_the_form_of_triples(tmp_path):
    """The grammar holds a model to lines of three fields that knows nothing of them; what it names is not in the chunk."""
    docs = tmp_path / "docs"
    docs.mkdir()
    write(docs / "a\tb\n.md", (ROOT / "demo/docs/firms/dutbet.md").read_text())  # a name must not end a column or a line
    succeed("index", docs, "-o", tmp_path / "i.db", "-q")
    options = ("-m", ROOT / "demo/model.gguf", "--index", tmp_path / "i.db", "-n", "300", "--limit", "1")
    succeed("graph", "extract", *options, "-o", tmp_path / "all.tsv", "--keep-all")
    rows = [x.split("\t") for x in (tmp_path / "all.tsv").read_text().splitlines()]
    assert rows and all(len(r) == 4 and all(r) for r in rows)


# -- GraphRAG's tables --------------------------------------------------------------------------------


def test_tables_of_graphrag(tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet as parquet

    parquet.write_table(arrow.table({"title": ["SCROOGE", "MARLEY", "TINY TIM"]}), tmp_path / "entities.parquet")
    parquet.write_table(arrow.table({"source": ["SCROOGE", "MARLEY"], "target": ["MARLEY", "SCROOGE"],
                                     "description": ["was the partner of", None],
                                     "text_unit_ids": [["u7", "u8"], []]}), tmp_path / "relationships.parquet")
    lines = subprocess.run([sys.executable, ROOT / "scripts/graph-from-parquet", tmp_path], check=True,
                           capture_output=True, text=True).stdout
    made = import_graph(tmp_path / "g.db", write(tmp_path / "g.jsonl", lines))
    assert (made["triples"], made["entities"], made["bad"]) == (2, 3, 0)
    [path] = paths(tmp_path / "g.db", "partner of Scrooge", "-k", "1", "--hops", "1")["paths"]
    assert path["text"] == "SCROOGE was the partner of MARLEY." and path["sources"] == ["u7"]
    empty = tmp_path / "empty"
    empty.mkdir()
    done = subprocess.run([sys.executable, ROOT / "scripts/graph-from-parquet", empty], capture_output=True, text=True)
    assert done.returncode == 1 and "no relationships.parquet" in done.stderr


# -- a SPARQL server ----------------------------------------------------------------------------------

CONFIG = """[Database]
DatabaseFile = v.db
ErrorLogFile = v.log
LockFile = v.lck
TransactionFile = v.trx
xa_persistent_file = v.pxa
[TempDatabase]
DatabaseFile = v-temp.db
TransactionFile = v-temp.trx
[Parameters]
ServerPort = 127.0.0.1:{sql}
NumberOfBuffers = 2000
MaxDirtyBuffers = 1200
DirsAllowed = .
[HTTPServer]
ServerPort = 127.0.0.1:{http}
ServerThreads = 4
"""
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"


def answers(url):
    try:
        urllib.request.urlopen(url, timeout=2).read(1)
        return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


class Virtuoso:
    def __init__(self, home):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/sparql"
        write(home / "v.ini", CONFIG.format(sql=free_port(), http=self.port))
        self.job = subprocess.Popen(["virtuoso-t", "-f", "-c", "v.ini"], cwd=home,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait(self):
        for _ in range(1200):
            if self.job.poll() is not None:
                return False
            if answers(self.url):
                return True
            time.sleep(0.25)
        return False

    def update(self, text):
        login = urllib.request.HTTPPasswordMgrWithDefaultRealm()
        login.add_password(None, self.url, "dba", "dba")
        login.add_password(None, self.url + "-auth", "dba", "dba")
        client = urllib.request.build_opener(urllib.request.HTTPDigestAuthHandler(login))
        client.open(urllib.request.Request(self.url + "-auth", text.encode(), {
            "Content-Type": "application/sparql-update"}), timeout=300).read()

    def stop(self):
        self.job.kill()
        self.job.wait()


@pytest.fixture(scope="module")
def virtuoso(tmp_path_factory):
    if not shutil.which("virtuoso-t"):
        pytest.skip("virtuoso-t is not installed (Debian: virtuoso-opensource-7-bin)")
    server = Virtuoso(tmp_path_factory.mktemp("virtuoso"))
    if not server.wait():
        server.stop()
        pytest.skip("virtuoso-t does not start here")
    films = "".join(f"<http://x/f{i}> <http://x/hasGenre> <http://x/drama> . <http://x/f{i}> {LABEL} \"Film {i}\" . "
                    for i in range(300))
    server.update(f"""INSERT DATA {{ GRAPH <http://g/> {{
        <http://x/1> {LABEL} "Heat"@en ; <http://x/directedBy> <http://x/2> ; <http://x/hasGenre> <http://x/drama> ;
                     <http://x/releaseYear> 1995 ; <http://x/tagline> "say \\"hi\\"" .
        <http://x/2> {LABEL} "Michael Mann" .
        <http://x/3> {LABEL} "The Insider"@en ; <http://x/directedBy> <http://x/2> .
        <http://x/a> <http://x/zone> <http://x/drama> ; {LABEL} "Zed" . <http://x/drama> {LABEL} "Drama" . {films} }} }}""")
    yield server
    server.stop()


def test_sparql_paths_are_those_of_the_same_triples_in_sqlite(virtuoso, tmp_path):
    triples = ("Zed\tzone\tDrama\nHeat\tdirectedBy\tMichael Mann\nHeat\treleaseYear\t1995\nHeat\ttagline\tsay \"hi\"\n"
               "Heat\thasGenre\tDrama\nThe Insider\tdirectedBy\tMichael Mann\n")
    import_graph(tmp_path / "g.db", write(tmp_path / "g.tsv", triples +
                 "".join(f"Film {i}\thasGenre\tDrama\n" for i in range(300))))
    for question in ("who directed Heat", "films by michael mann", "release year of the insider's director"):
        here = paths(tmp_path / "g.db", question)
        there = paths(virtuoso.url, question, "--rdf-graph", "http://g/")
        assert {e["name"] for e in here["entities"]} == {e["name"] for e in there["entities"]}
        assert {p["text"] for p in here["paths"]} == {p["text"] for p in there["paths"]}
        assert here["paths"][0]["text"] == there["paths"][0]["text"]


def test_sparql_hubs_and_search(virtuoso):
    graph = ("--rdf-graph", "http://g/")
    found = paths(virtuoso.url, "Drama", "-k", "20", "--degree", "50", "--explain", *graph)
    assert len(found["paths"]) == 20 and found["explain"]["hubs"] == 1
    assert "Drama is zone of Zed." in [p["text"] for p in found["paths"]]  # each relation has its share
    zed = paths(virtuoso.url, "Zed", "--hops", "3", *graph)["paths"]
    assert [p["text"] for p in zed] == ["Zed zone Drama."]  # a hub ends paths
    assert "fuzzy  Michael Mann  (http://x/2)" in succeed("graph", "search", "-g", virtuoso.url, *graph, "mann")
    shown = json.loads(succeed("graph", "show", "-g", virtuoso.url, *graph, "--json"))
    assert {"name": "http://x/hasGenre", "triples": 301} in shown["relations"]


def test_sparql_takes_nothing_in_a_question_as_syntax(virtuoso):
    for question in ('"} } ; DROP GRAPH <http://g/> #', "Heat\\", 'Heat" @en . ?s ?p "', "Heat\n\r\t\"\"\""):
        assert run("graph", "paths", "-g", virtuoso.url, "--rdf-graph", "http://g/", question).returncode in (0, 3)
    assert paths(virtuoso.url, "Heat", "--rdf-graph", "http://g/")["paths"]


def test_sparql_errors_of_the_server_are_told(virtuoso):
    refuse("graph", "show", "-g", virtuoso.url + "-nowhere", naming=["HTTP status 404"])
    refuse("graph", "paths", "-g", virtuoso.url, "--rdf-graph", "no iri", "Heat", naming=["no iri"])


def test_a_server_that_dies_is_an_error(virtuoso, tmp_path):
    """Last, since it ends the server."""
    virtuoso.stop()
    refuse("graph", "paths", "-g", virtuoso.url, "Heat", naming=["127.0.0.1"])
