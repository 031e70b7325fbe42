/* Archives and PDFs: what the readers make of them, and that hostile ones cost little. */
#include "folder.h"

#include <zip.h>

#include "base/file.h"
#include "retrieve/documents/readers_int.h"

/* Everything a reader gave: "title|text", and the marks as "{offset:number}". */
static sp_err take(const sp_document *d, void *user)
{
    SP_TRY(sp_bytes_addf(user, "%.*s|%.*s", (int)d->n_title, d->title, (int)d->n, d->text));
    for (size_t i = 0; i < d->n_marks; i++)
        SP_TRY(
            sp_bytes_addf(user, "{%zu:%lld}", d->marks[i].offset, (long long)d->marks[i].number));
    return SP_OK;
}

static void assert_read(const char *path, const sp_bytes *data, const char *expected)
{
    sp_bytes got = {0};
    sp_reading r = {.path = path, .fn = take, .user = &got};
    if (sp_documents_read(&r, sp_document_format(path), data->v, data->n) != SP_OK)
        fail_msg("%s", sp_error_detail());
    assert_int_equal(sp_bytes_add(&got, "", 1), SP_OK);
    assert_string_equal(got.v, expected);
    sp_vec_fini(&got);
}

static void assert_refused(const char *path, const sp_bytes *data, sp_err code, const char *detail)
{
    sp_bytes got = {0};
    sp_reading r = {.path = path, .fn = take, .user = &got};
    assert_int_equal(sp_documents_read(&r, sp_document_format(path), data->v, data->n), code);
    assert_int_equal(got.n, 0);
    assert_non_null(strstr(sp_error_detail(), path));
    if (!strstr(sp_error_detail(), detail))
        fail_msg("\"%s\" lacks \"%s\"", sp_error_detail(), detail);
}

/* -- archives --------------------------------------------------------------------------------- */

typedef struct entry {
    const char *name, *content;
} entry;

/* pack -- a zip archive of the entries, up to one without a name. */
static sp_bytes pack(folder *f, const entry *e)
{
    sp_bytes out = {0};
    zip_t *z = zip_open(folder_path(f, "archive.zip"), ZIP_CREATE | ZIP_TRUNCATE, NULL);
    assert_non_null(z);
    for (; e->name; e++) {
        zip_source_t *s = zip_source_buffer(z, e->content, strlen(e->content), 0);
        assert_true(zip_file_add(z, e->name, s, 0) >= 0);
    }
    assert_int_equal(zip_close(z), 0);
    assert_int_equal(sp_file_read(folder_path(f, "archive.zip"), 1 << 24, &out), SP_OK);
    return out;
}

#define W(xml) "<w:document xmlns:w='urn:w' xmlns:mc='urn:mc'><w:body>" xml "</w:body></w:document>"

static const char docx_body[] =
    W("<w:p><w:pPr><w:pStyle w:val='berschrift2'/></w:pPr><w:r><w:t>Quarry</w:t></w:r></w:p>"
      "<w:p><w:r><w:t xml:space='preserve'>It yields </w:t></w:r><w:r><w:t>granite</w:t><w:tab/>"
      "<w:t>&amp; slate.</w:t></w:r><w:del><w:r><w:t>gone</w:t></w:r></w:del></w:p>"
      "<w:p><w:pPr><w:pStyle w:val='drei'/></w:pPr><w:r><w:t>Size</w:t></w:r></w:p>"
      "<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>one</w:t></w:r></w:p>"
      "<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>two</w:t></w:r></w:p>"
      "<mc:AlternateContent><mc:Fallback><w:p><w:r><w:t>twice</w:t></w:r></w:p></mc:Fallback>"
      "</mc:AlternateContent><w:p/>"
      "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>A</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>B</w:t>"
      "</w:r></w:p></w:tc></w:tr><w:tr><w:tc><w:p/></w:tc><w:tc><w:p><w:r><w:t>1</w:t></w:r></w:p>"
      "<w:p><w:r><w:t>2</w:t></w:r></w:p></w:tc></w:tr></w:tbl>");

static void docx_becomes_markdown(void **state)
{
    sp_bytes z =
        pack(*state, (entry[]){{"word/document.xml", docx_body},
                               {"word/styles.xml",
                                "<w:styles xmlns:w='urn:w'><w:style w:styleId='berschrift2'>"
                                "<w:name w:val='heading 2'/></w:style><w:style w:styleId='drei'>"
                                "<w:name w:val='heading 3'/></w:style></w:styles>"},
                               {0}});
    assert_read("a.docx", &z,
                "Quarry|## Quarry\n\nIt yields granite & slate.\n\n### Size\n\n- one\n- two\n\n"
                "| A | B | \n| | 1 2 | \n\n");
    sp_vec_fini(&z);
}

static void a_document_has_the_title_it_declares(void **state)
{
    static const char core[] = "<c xmlns:dc='urn:dc'><dc:title>The report</dc:title>"
                               "<dc:creator>Ann</dc:creator><dc:title>Of 2024</dc:title></c>";
    static const char body[] = W("<w:p><w:r><w:t>text</w:t></w:r></w:p>");
    sp_bytes z =
        pack(*state, (entry[]){{"word/document.xml", body}, {"docProps/core.xml", core}, {0}});
    assert_read("a.docx", &z, "The report|text\n\n");
    sp_vec_fini(&z);
    z = pack(*state, (entry[]){{"word/document.xml", body}, {"docProps/core.xml", "<c"}, {0}});
    assert_read("d/a.docx", &z, "a.docx|text\n\n");
    sp_vec_fini(&z);
}

static void odt_becomes_markdown(void **state)
{
    sp_bytes z = pack(
        *state,
        (entry[]){{"content.xml",
                   "<o:c xmlns:o='urn:o' xmlns:text='urn:t' xmlns:table='urn:b'>"
                   "<text:tracked-changes><text:p>gone</text:p></text:tracked-changes>"
                   "<text:h text:outline-level='3'>Harbour</text:h>"
                   "<text:p>Ships<text:s text:c='3'/>come <text:span>in</text:span>.<o:annotation>"
                   "<text:p>no</text:p></o:annotation></text:p>"
                   "<text:list><text:list-item><text:p>ropes</text:p></text:list-item></text:list>"
                   "<table:table><table:table-row><table:table-cell><text:p>x</text:p>"
                   "</table:table-cell><table:table-cell/></table:table-row></table:table></o:c>"},
                  {0}});
    assert_read("a.odt", &z, "Harbour|### Harbour\n\nShips come in.\n\n- ropes\n\n| x | | \n\n");
    sp_vec_fini(&z);
}

/* Headings without a style, breaks, moved text, an empty item, a table in a cell. */
static void details_of_docx(void **state)
{
    static const char body[] =
        W("<w:p><w:pPr><w:outlineLvl w:val='0'/></w:pPr><w:r><w:t>Top</w:t></w:r></w:p>"
          "<w:p><w:pPr><w:outlineLvl w:val='8'/></w:pPr><w:r><w:t>Deep</w:t></w:r></w:p>"
          "<w:p><w:pPr><w:outlineLvl w:val='9'/></w:pPr><w:r><w:t>one</w:t><w:cr/><w:t>two</w:t><w:br/>"
          "<w:t>three</w:t></w:r><w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom></w:p>"
          "<w:p><w:pPr><w:numPr/></w:pPr></w:p><w:p><w:r><w:t>plain</w:t></w:r></w:p>"
          "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>A</w:t></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:r><w:t>x</w:t></w:r>"
          "</w:p></w:tc></w:tr></w:tbl></w:tc></w:tr></w:tbl>");
    sp_bytes z = pack(*state, (entry[]){{"word/document.xml", body}, {0}});
    assert_read("a.docx", &z, "Top|# Top\n\n###### Deep\n\none two three\n\nplain\n\n\n| A x | \n\n");
    sp_vec_fini(&z);
}

static void details_of_odt(void **state)
{
    static const char body[] =
        "<o:c xmlns:o='urn:o' xmlns:text='urn:t'><text:h>Plain</text:h><text:p>a<text:tab/>b<text:line-break/>c"
        "</text:p></o:c>";
    sp_bytes z = pack(*state, (entry[]){{"content.xml", body}, {0}});
    assert_read("a.odt", &z, "Plain|# Plain\n\na b c\n\n");
    sp_vec_fini(&z);
}

/* They follow the text, and what they are in goes on: a heading, an item, the row of a table. */
static void notes_of_odt_follow_the_text(void **state)
{
#define NOTE(text)                                                                                                    \
    "<text:note><text:note-citation>1</text:note-citation><text:note-body>" text "</text:note-body></text:note>"
    static const char body[] =
        "<o:c xmlns:o='urn:o' xmlns:text='urn:t' xmlns:table='urn:b'><text:h>The har" NOTE("<text:p>Or port.</text:p>")
        "bour</text:h><table:table><table:table-row><table:table-cell><text:p>x" NOTE("<text:h>Y</text:h>")
        " y</text:p></table:table-cell></table:table-row></table:table><text:list><text:list-item><text:p>ropes"
        NOTE("<text:p>Of hemp." NOTE("<text:p>A plant.</text:p>") "</text:p>") " and sails</text:p></text:list-item>"
        "</text:list></o:c>";
    sp_bytes z = pack(*state, (entry[]){{"content.xml", body}, {0}});
    assert_read("a.odt", &z, "The harbour|# The harbour\n\n\n| x y | \n\n- ropes and sails\n\n"
                             "Or port.\n\n# Y\n\nOf hemp.\n\nA plant.\n\n");
    sp_vec_fini(&z);
}

#define BOOK_ENTRIES(spine)                                                                        \
    {"META-INF/container.xml", "<c><rootfile full-path='O/p.opf'/></c>"},                          \
        {"O/p.opf", "<p xmlns:dc='urn:dc'><dc:title>Lamps</dc:title><item id='a' "                 \
                    "href='one%20a.xhtml'/><item id='b' href='../b.html'/>"                        \
                    "<item id='gone' href='gone.html'/>" spine "</p>"},                            \
        {"O/one a.xhtml", "<h1>One</h1><p>Oil burns."},                                            \
    {                                                                                              \
        "b.html", "<p>Wicks.</p>"                                                                  \
    }

static void epub_is_read_in_the_order_of_its_spine(void **state)
{
    sp_bytes z = pack(*state, (entry[]){BOOK_ENTRIES("<itemref idref='b'/><itemref idref='none'/>"
                                                     "<itemref idref='gone'/><itemref idref='a'/>"),
                                        {0}});
    assert_read("a.epub", &z, "Lamps|Wicks.\n\n# One\n\nOil burns.\n\n");
    sp_vec_fini(&z);
}

/* A book with one page: the paths of the package and of the page as files name them, and in the archive. */
static void assert_page_found(folder *f, const char *package, const char *href, const char *in_archive,
                              const char *page)
{
    char container[256], list[256], file[256];
    snprintf(container, sizeof container, "<c><rootfile full-path='%sp.opf'/></c>", package);
    snprintf(list, sizeof list, "<p><item id='a' href='%s'/><itemref idref='a'/></p>", href);
    snprintf(file, sizeof file, "%sp.opf", in_archive);
    sp_bytes z = pack(f, (entry[]){{"META-INF/container.xml", container}, {file, list}, {page, "<p>Wicks."}, {0}});
    assert_read("a.epub", &z, "a.epub|Wicks.\n\n");
    sp_vec_fini(&z);
}

static void pages_of_books_are_found_by_links_of_any_kind(void **state)
{
    folder *f = *state;
    assert_page_found(f, "O E/", "a b.html", "O E/", "O E/a b.html");
    assert_page_found(f, "\xC3\x9C/", "\xC3\xA4.html#x", "\xC3\x9C/", "\xC3\x9C/\xC3\xA4.html");
    assert_page_found(f, "O%20E/", "%C3%A4.html", "O E/", "O E/\xC3\xA4.html");
    assert_page_found(f, "O/", "a:b%25%2f%4g%4.html", "O/", "O/a:b%/%4g%4.html");
    assert_page_found(f, "O/P/", "./.././Q/../../a.html", "O/P/", "a.html");
    assert_page_found(f, "", "../../a.html", "", "a.html");
}

/* Others are the same book in other forms. */
static void the_first_package_is_the_book(void **state)
{
    sp_bytes z = pack(*state, (entry[]){{"META-INF/container.xml",
                                         "<c><rootfile full-path='a.opf'/><rootfile full-path='b.opf'/></c>"},
                                        {"a.opf", "<p><item id='a' href='a.html'/><itemref idref='a'/></p>"},
                                        {"a.html", "<p>Wicks."},
                                        {0}});
    assert_read("a.epub", &z, "a.epub|Wicks.\n\n");
    sp_vec_fini(&z);
}

static void damaged_archives_are_refused(void **state)
{
    sp_bytes z = {0};
    assert_int_equal(sp_bytes_add(&z, "PK\3\4nonsense", 12), SP_OK);
    assert_refused("a.docx", &z, SP_E_UNSUPPORTED, "zip");
    sp_vec_fini(&z);
    z = pack(*state, (entry[]){{"other.xml", "<a/>"}, {0}});
    assert_refused("a.docx", &z, SP_E_UNSUPPORTED, "word/document.xml");
    assert_refused("a.odt", &z, SP_E_UNSUPPORTED, "content.xml");
    assert_refused("a.epub", &z, SP_E_UNSUPPORTED, "container.xml");
    sp_vec_fini(&z);
    z = pack(*state, (entry[]){{"word/document.xml", "<a><b></a>"}, {0}});
    assert_refused("a.docx", &z, SP_E_UNSUPPORTED, "malformed XML");
    sp_vec_fini(&z);
    z = pack(*state, (entry[]){{"word/document.xml", ""}, {0}});
    assert_refused("a.docx", &z, SP_E_UNSUPPORTED, "empty");
    sp_vec_fini(&z);
}

/* pack_formats -- an archive that all formats read. */
static sp_bytes pack_formats(folder *f)
{
    return pack(f, (entry[]){BOOK_ENTRIES("<itemref idref='a'/>"),
                             {"word/document.xml", docx_body},
                             {"content.xml", "<o xmlns:t='urn:t'><t:h>Piers</t:h><t:p>Two.</t:p></o>"},
                             {"xl/workbook.xml", "<w xmlns:r='urn:r'><sheet name='Boats' r:id='a'/></w>"},
                             {"xl/_rels/workbook.xml.rels", "<R><Relationship Id='a' Target='b.xml'/></R>"},
                             {"xl/b.xml", "<w><row><c t='str'><v>Sea Gull</v></c></row></w>"},
                             {"ppt/presentation.xml", "<p xmlns:r='urn:r'><sldId id='9' r:id='a'/></p>"},
                             {"ppt/_rels/presentation.xml.rels", "<R><Relationship Id='a' Target='s.xml'/></R>"},
                             {"ppt/s.xml", "<s><p><t>Harbour</t></p></s>"},
                             {0}});
}

/* Every prefix of an archive, and bytes of it changed, are read or refused. */
static void damage_anywhere_does_no_harm(void **state)
{
    sp_bytes z = pack_formats(*state), got = {0};
    static const char *const paths[] = {"a.docx", "a.odt", "a.epub", "a.xlsx", "a.pptx"};
    for (size_t i = 0; i < z.n; i++) {
        sp_reading r = {.path = paths[i % SP_COUNT(paths)], .fn = take, .user = &got};
        sp_doc_format format = sp_document_format(r.path);
        char was = z.v[i];
        sp_err cut = sp_documents_read(&r, format, z.v, i);
        z.v[i] = (char)(was ^ 0x55);
        sp_err changed = sp_documents_read(&r, format, z.v, z.n);
        z.v[i] = was;
        assert_true(cut == SP_OK || cut == SP_E_UNSUPPORTED || cut == SP_E_LIMIT);
        assert_true(changed == SP_OK || changed == SP_E_UNSUPPORTED || changed == SP_E_LIMIT);
        got.n = 0;
    }
    sp_vec_fini(&z);
    sp_vec_fini(&got);
}

static void entities_are_not_expanded(void **state)
{
    static const char xml[] = "<!DOCTYPE d [<!ENTITY a 'lol'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'>"
                              "<!ENTITY x SYSTEM 'file:///etc/passwd'>]>" W(
                                  "<w:p><w:r><w:t>safe&b;&x;</w:t></w:r></w:p>");
    sp_bytes z = pack(*state, (entry[]){{"word/document.xml", xml}, {0}});
    assert_read("a.docx", &z, "a.docx|safe\n\n");
    sp_vec_fini(&z);
}

static void an_archive_that_unpacks_to_too_much_is_refused(void **state)
{
    size_t n = SP_DOC_MAX_BYTES + (1 << 20);
    char *huge = malloc(n + 1);
    assert_non_null(huge);
    memset(huge, ' ', n);
    huge[0] = '<';
    huge[n] = '\0';
    sp_bytes z = pack(*state, (entry[]){{"word/document.xml", huge}, {0}});
    free(huge);
    assert_true(z.n < n / 100);
    assert_refused("a.docx", &z, SP_E_LIMIT, "unpacks to more than 256 MiB");
    sp_vec_fini(&z);
}

/* A list can name one slide again and again. */
static void an_archive_that_is_read_without_end_is_refused(void **state)
{
    enum { N = 70000 };
    static const char slide[] = "<sldId r:id='a'/>";
    sp_bytes list = {0};
    assert_int_equal(sp_bytes_addf(&list, "<p xmlns:r='urn:r'>"), SP_OK);
    for (int i = 0; i < N; i++) assert_int_equal(sp_bytes_add(&list, slide, sizeof slide - 1), SP_OK);
    assert_int_equal(sp_bytes_add(&list, "</p>", 5), SP_OK);
    sp_bytes z = pack(*state, (entry[]){{"ppt/presentation.xml", list.v},
                                        {"ppt/_rels/presentation.xml.rels",
                                         "<R><Relationship Id='a' Target='slides/slide1.xml'/></R>"},
                                        {"ppt/slides/slide1.xml", "<s/>"},
                                        {0}});
    assert_refused("a.pptx", &z, SP_E_LIMIT, "too many files");
    sp_vec_fini(&z);
    sp_vec_fini(&list);
}

static void running_out_of_memory_is_an_error(void **state)
{
    sp_bytes z = pack_formats(*state), got = {0};
    sp_err err = SP_E_NOMEM;
    int allocation = 1;
    for (; err != SP_OK; allocation++) {
        assert_in_range(allocation, 1, 1000);
        sp_reading r = {.path = "a.epub", .fn = take, .user = &got};
        sp_fault_after(allocation);
        err = sp_documents_read(&r, SP_DOC_EPUB, z.v, z.n);
        for (sp_doc_format f = SP_DOC_PDF; f <= SP_DOC_PPTX && err == SP_OK; f++)
            if (f == SP_DOC_DOCX || f == SP_DOC_ODT || f == SP_DOC_XLSX || f == SP_DOC_PPTX)
                err = sp_documents_read(&r, f, z.v, z.n);
        sp_fault_after(-1);
        sp_vec_fini(&got);
        assert_true(err == SP_OK || err == SP_E_NOMEM);
    }
    assert_true(allocation > 10);
    sp_vec_fini(&z);
}

/* -- PDF -------------------------------------------------------------------------------------- */

/* make_pdf -- two pages with a line of text each. Without a table of offsets, which readers mend. */
static sp_bytes make_pdf(const char *first, const char *second)
{
    sp_bytes out = {0};
    const char *const texts[] = {first, second};
    assert_int_equal(sp_bytes_addf(&out, "%%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
                                         "2 0 obj<</Type/Pages/Kids[4 0 R 6 0 R]/Count 2>>endobj\n"
                                         "3 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
                                         "endobj\n"),
                     SP_OK);
    for (int i = 0; i < 2; i++) {
        char text[200];
        int n = snprintf(text, sizeof text, "BT /F1 12 Tf 20 200 Td (%s) Tj ET", texts[i]);
        assert_int_equal(
            sp_bytes_addf(&out,
                          "%d 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Contents %d 0 R"
                          "/Resources<</Font<</F1 3 0 R>>>>>>endobj\n"
                          "%d 0 obj<</Length %d>>stream\n%s\nendstream endobj\n",
                          4 + 2 * i, 5 + 2 * i, 5 + 2 * i, n, text),
            SP_OK);
    }
    assert_int_equal(sp_bytes_addf(&out, "trailer<</Size 8/Root 1 0 R>>\n%%%%EOF\n"), SP_OK);
    return out;
}

static void pdf_has_pages(void **state)
{
    if (system("command -v pdftotext >/dev/null") != 0) skip();
    sp_bytes pdf = make_pdf("Keepers guide ships.", "Zinc is a metal.");
    assert_read("d/a.pdf", &pdf,
                "a.pdf|Keepers guide ships.\n\n\nZinc is a metal.\n\n\n{0:1}{23:2}");
    sp_vec_fini(&pdf);
}

static void pdf_without_text_is_refused(void **state)
{
    if (system("command -v pdftotext >/dev/null") != 0) skip();
    sp_bytes pdf = make_pdf("", "");
    assert_refused("a.pdf", &pdf, SP_E_UNSUPPORTED, "without text");
    sp_vec_fini(&pdf);
    assert_int_equal(sp_bytes_add(&pdf, "%PDF-1.4 nonsense", 17), SP_OK);
    assert_refused("a.pdf", &pdf, SP_E_UNSUPPORTED, "damaged");
    sp_vec_fini(&pdf);
}

/* A program that is not there, and one that dies. */
static void pdftotext_cannot_do_harm(void **state)
{
    folder *f = *state;
    sp_bytes pdf = make_pdf("x", "y");
    const char *path = getenv("PATH");
    char *before = strdup(path ? path : "");
    setenv("PATH", f->docs, 1);
    assert_refused("a.pdf", &pdf, SP_E_UNSUPPORTED, "poppler-utils");
    folder_write(f, "pdftotext", "#!/bin/sh\nkill -SEGV $$\n");
    assert_int_equal(chmod(folder_path(f, "pdftotext"), 0755), 0);
    assert_refused("a.pdf", &pdf, SP_E_UNSUPPORTED, "damaged");
    folder_write(f, "pdftotext", "#!/bin/sh\nexec /usr/bin/yes\n"); /* without end: it is ended */
    assert_refused("a.pdf", &pdf, SP_E_LIMIT, "too much text");
    /* memory in KiB, seconds, core dumps, files */
    folder_write(f, "pdftotext", "#!/bin/sh\necho $(ulimit -v) $(ulimit -t) $(ulimit -c) $(ulimit -f)\n");
    assert_read("a.pdf", &pdf, "a.pdf|1048576 60 0 0\n\n{0:1}");
    setenv("PATH", before, 1);
    free(before);
    sp_vec_fini(&pdf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(docx_becomes_markdown),
        FOLDER_TEST(a_document_has_the_title_it_declares),
        FOLDER_TEST(odt_becomes_markdown),
        FOLDER_TEST(details_of_docx),
        FOLDER_TEST(details_of_odt),
        FOLDER_TEST(notes_of_odt_follow_the_text),
        FOLDER_TEST(epub_is_read_in_the_order_of_its_spine),
        FOLDER_TEST(pages_of_books_are_found_by_links_of_any_kind),
        FOLDER_TEST(the_first_package_is_the_book),
        FOLDER_TEST(damaged_archives_are_refused),
        FOLDER_TEST(damage_anywhere_does_no_harm),
        FOLDER_TEST(entities_are_not_expanded),
        FOLDER_TEST(an_archive_that_unpacks_to_too_much_is_refused),
        FOLDER_TEST(an_archive_that_is_read_without_end_is_refused),
        FOLDER_TEST(running_out_of_memory_is_an_error),
        FOLDER_TEST(pdf_has_pages),
        FOLDER_TEST(pdf_without_text_is_refused),
        FOLDER_TEST(pdftotext_cannot_do_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
