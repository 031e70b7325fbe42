"""What a new user does first: a folder of PDFs and of notes in two languages, three commands, answers with sources."""
import os
import shutil
import subprocess

import pytest
from conftest import PROGRAM, ROOT


def pdf(*lines: str) -> bytes:
    """A PDF of one page with these lines of text."""
    shown = "BT /F1 12 Tf 14 TL 72 720 Td " + " ".join(f"({line}) Tj T*" for line in lines) + " ET"
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
               "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
               "/Resources << /Font << /F1 5 0 R >> >> >>",
               f"<< /Length {len(shown)} >>\nstream\n{shown}\nendstream",
               "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    out, at = "%PDF-1.4\n", []
    for i, body in enumerate(objects, 1):
        at.append(len(out))
        out += f"{i} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{n:010} 00000 n \n" for n in at)
    end = f"xref\n0 6\n0000000000 65535 f \n{table}trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return (out + end).encode()


@pytest.fixture
def folder(tmp_path):
    """English facts in PDFs, Chinese and English notes beside them, and one file that nobody can read."""
    docs = tmp_path / "papers"
    (docs / "notes").mkdir(parents=True)
    (docs / "larbar.pdf").write_bytes(pdf("Larbar gives its flag colour as purple.",
                                          "In short, Larbar holds its market in March."))
    (docs / "rulpas.pdf").write_bytes(pdf("Rulpas is employed by Zurlar."))
    (docs / "notes" / "长江.md").write_text("# 长江\n\n长江是亚洲最长的河流，发源于青藏高原，在上海流入东海。\n", encoding="utf-8")
    (docs / "notes" / "咖啡.txt").write_bytes("咖啡的产地是埃塞俄比亚。\n".encode("utf-16"))
    (docs / "notes" / "market.md").write_text("# Market\n\nThe market of Ferrekzon is in June.\n")
    (docs / "photo.raw").write_bytes(bytes(range(256)))
    return docs


def test_three_commands_from_a_folder_to_answers_with_sources(folder, tmp_path):
    if shutil.which("pdftotext") is None:
        pytest.skip("poppler-utils is not installed")
    env = {**os.environ, "HOME": str(tmp_path), "M": str(ROOT / "demo/model.gguf"), "PATH": f"{PROGRAM.parent}:/usr/bin:/bin"}

    def shell(command):
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done

    indexed = shell("spolia index papers -o papers.db")
    assert "5 files" in indexed.stdout + indexed.stderr and ".raw" in indexed.stdout + indexed.stderr
    english = shell('spolia ask -m $M --index papers.db "Larbar has which flag colour?"')
    assert english.stdout.strip() == "purple"
    assert "larbar.pdf" in english.stderr.split("[2]")[0]
    assert "(larbar.pdf page 1, " in shell('spolia search -i papers.db "Larbar flag"').stdout
    assert "larbar.pdf:p1" in english.stderr
    chinese = shell('spolia ask -m $M --index papers.db "咖啡的产地是哪里？"')
    assert "咖啡.txt" in chinese.stderr.split("[2]")[0], chinese.stderr
