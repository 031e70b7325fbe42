"""`make layers`: the floors of the source tree, the sizes of functions, who calls them, and the layout of files."""
import re
import subprocess

import pytest

from conftest import ROOT


def check(folder, *command):
    files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*.[ch]"))
    done = subprocess.run([*command, *files], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()


def layers(folder, includes):
    for path, header in includes:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f'#include "spolia.h"\n#include "{header}"\n')
    code, lines = check(folder, "awk", "-f", ROOT / "scripts/layers.awk")
    return code, [line.split(":")[0] for line in lines if ".c:" in line]


def test_floors_that_are_kept(tmp_path):
    code, found = layers(tmp_path, [
        ("src/kv/pool.c", "compute/ops.h"), ("src/lab/profile.c", "cache/cost.h"), ("src/lab/eval/eval.c", "cli/cli.h"),
        ("src/cmd/main.c", "lab/lab.h"), ("src/cmd/ask/ask.c", "cli/cli.h"), ("src/lab/bench/reuse.c", "lab/numbers.h")])
    assert (code, found) == (0, [])


def test_floors_that_are_not_kept(tmp_path):
    wrong = [("src/kv/up.c", "engine/engine.h"), ("src/kv/side.c", "model/model.h"), ("src/cmd/ask/ask.c", "lab/metrics.h"),
             ("src/cmd/run.c", "engine/engine.h"), ("src/cli/cli.c", "base/mem.h"), ("src/lab/eval.c", "cmd/commands.h"),
             ("src/serve/request/request.c", "lab/lab.h"), ("src/kv/odd.c", "nowhere/x.h")]
    code, found = layers(tmp_path, wrong)
    assert (code, sorted(found)) == (1, sorted(path for path, _ in wrong))


def test_rooms(tmp_path):
    kept = [("src/server/api/a.c", "server/body/fields.h"), ("src/server/routes.c", "server/dialects/llama.h"),
            ("src/store/disk/a.c", "store/table.h"), ("src/serve/context.c", "serve/queue/order.h"),
            ("src/cli/options/a.c", "cli/fail.h"), ("src/cmd/ask/a.c", "cmd/graph/graph.h")]
    wrong = [("src/server/body/b.c", "server/api/answer.h"), ("src/server/api/b.c", "server/routes.h"),
             ("src/server/documents/b.c", "server/api/answer.h"),
             ("src/store/disk/b.c", "store/host/tier.h"), ("src/serve/queue/b.c", "serve/context.h"),
             ("src/serve/guard/b.c", "serve/request/request.h"), ("src/retrieve/text/b.c", "retrieve/documents/documents.h"),
             ("src/cli/options/b.c", "cli/cli.h"), ("src/cmd/graph/b.c", "cmd/ask/ask.h")]
    code, found = layers(tmp_path, kept + wrong)
    assert (code, sorted(found)) == (1, sorted(path for path, _ in wrong))


def test_a_folder_that_is_no_room(tmp_path):
    code, found = layers(tmp_path, [("src/retrieve/new/a.c", "base/mem.h")])
    assert (code, found) == (1, ["src/retrieve/new/a.c"])


FUNCTIONS = """#include <x.h>
static int six(int a, int b,
               int c, void (*d)(int, int), int e, const char *const *f)
{
    return 0;
}

int none(void)
{
    return 0;
}

static int seven(int a, int b, int c,
                 int d, int e, int f, int g)
{
    return 0;
}

void long_one(void)
{
%s}
"""


def test_sizes_of_functions(tmp_path):
    (tmp_path / "src/cli").mkdir(parents=True)
    (tmp_path / "src/compute").mkdir()
    for n, wrong in ((57, ["seven"]), (58, ["seven", "long_one"])):  # 60 lines, and 61
        (tmp_path / "src/cli/x.c").write_text(FUNCTIONS % ("    x();\n" * n))
        code, lines = check(tmp_path, ROOT / "scripts/check-functions")
        assert code == 0 and [line.split(": ")[1] for line in lines[:-1]] == wrong
        assert lines[-1] == f"functions: 4, over a limit: {len(wrong)}"
        assert check(tmp_path, ROOT / "scripts/check-functions", "--strict")[0] == 1
    (tmp_path / "src/cli/x.c").rename(tmp_path / "src/compute/x.c")  # kernels may have 120 lines
    assert [line.split(": ")[1] for line in check(tmp_path, ROOT / "scripts/check-functions")[1][:-1]] == ["seven"]


# -- scripts/check-calls ---------------------------------------------------------------------------

def test_functions_that_only_tests_call(tmp_path):
    files = {"src/a/a.h": "int sp_used(int x);\nvoid sp_tested(void);\nvoid sp_idle(void); /* sp_idle */\nint sp_public(void);\n",
             "src/a/a.c": "int sp_used(int x)\n{\n    return x;\n}\nvoid sp_tested(void)\n{\n}\nvoid sp_idle(void)\n{\n}\n",
             "src/b/b.c": "static int f(void)\n{\n    return sp_used(1);\n}\n",
             "include/x.h": "int sp_public(void);\n", "tests/unit/t.c": "void t(void)\n{\n    sp_tested();\n}\n"}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    done = subprocess.run([ROOT / "scripts/check-calls", "--strict", "--root", tmp_path], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and lines[:2] == ["src/a/a.h:2: sp_tested: only tests call it", "src/a/a.h:3: sp_idle: nobody calls it"]
    assert "in headers: 4" in lines[2]


LAYOUT = '''#include "x.h"

/* one -- a comment. */
static int one(const char *s, int n)
{
    static const struct row rows[] = {
        {"a", 1},
        {"b, c;d // e", 2},
    };
    switch (n) {
    case 1:
        return rows[0].n;
    default:
        break;
    }
again:
    for (int i = 0; i < n; i++)
        if (s[i] == ',') {
            n--;
        } else {
            call(s, (struct pair){1, 2},
                 n);
        }
    each(s, x)
    {
        n++;
    }
    if (n) goto again;
    return n;
}
'''


def layout(folder, text, *options):
    path = folder / "x.c"
    path.write_text(text)
    done = subprocess.run([ROOT / "scripts/check-format", *options, path], capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()[:-1], path.read_text()


def test_layout_that_is_kept(tmp_path):
    assert layout(tmp_path, LAYOUT) == (0, [], LAYOUT)


@pytest.mark.parametrize("before, after, what", [
    ("    if (n) goto", "    if(n) goto", "before the parenthesis"), ("switch (n) {", "switch (n){", "before the brace"),
    ("    if (n) goto", "     if (n) goto", "column 5, 4 expected"), ("            n--;", "        n--;", "column 8, 12 expected"),
    ("    return n;\n}", "    return n;\n    }", "column 4, 0 expected"), ("(s, x)", "(s,x)", "after a comma"),
    ("0; i < n", "0;i < n", "after a semicolon"), ("const char *s", "const char* s", "type *name"),
    ("    n++;", "    n++; // more", "/* */"), ("        } else {", "        }\n        else {", "} else {"),
    ("int n)\n{", "int n) {", "a function is on a line of its own"), ("== ',') {", "== ',')\n        {", "line of its statement"),
    ("again:\n", "again:\n\n\n", "second empty line"), ("switch (n) {\n", "switch (n) {\n\n", "after {"),
    ("    return n;\n}\n", "    return n;\n\n}\n", "before }"), ("n++;", "n++; ", "end of the line"), ("    n++;", "\tn++;", "a tab"),
    ("    return n;\n}\n", "    return n;\n}\n\n", "one newline"), ("/* one --", "/* " + "w" * 119 + " --", "columns"),
    ('"x.h"\n', '"x.h"\n#include "x.h"\n', "included on line 1")])
def test_layout_that_is_not_kept(tmp_path, before, after, what):
    assert LAYOUT.count(before) >= 1
    code, found, _ = layout(tmp_path, LAYOUT.replace(before, after))
    assert code == 1 and any(what in line for line in found), found


def test_blanks_are_corrected(tmp_path):
    spoilt = LAYOUT.replace("again:\n", "again:  \n\n\n\n").replace("    n++;", "\tn++;").replace("return n;\n}\n", "return n;\n\n}\n\n\n")
    assert layout(tmp_path, spoilt, "--fix") == (0, [f"{tmp_path / 'x.c'}: corrected"], LAYOUT.replace("again:\n", "again:\n\n"))


def test_the_tree_keeps_the_layout():
    assert subprocess.run([ROOT / "scripts/check-format"], capture_output=True).returncode == 0


def test_unit_tests_are_named_by_what_holds():
    names = [(p.name, n) for p in sorted((ROOT / "tests").rglob("*.c"))
             for n in re.findall(r"cmocka_unit_test\w*\((\w+)", p.read_text(encoding="utf-8"))]
    assert len(names) > 1000
    assert [(p, n) for p, n in names if n.startswith("test_")] == []
