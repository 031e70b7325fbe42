/* Readers of JSON, notebooks, XML, spreadsheets, slides, mail, RTF and packed files. */
#include "folder.h"

#include <zip.h>
#include <zlib.h>

#include "base/file.h"
#include "retrieve/documents/readers_int.h"

/* Everything a reader gave: "title|text#" for each document, and the marks as "{offset:number}". */
static sp_err take(const sp_document *d, void *user)
{
    SP_TRY(sp_bytes_addf(user, "%.*s|%.*s#", (int)d->n_title, d->title, (int)d->n, d->text));
    for (size_t i = 0; d->place == SP_PLACE_MARKED_PAGES && i < d->n_marks; i++)
        SP_TRY(
            sp_bytes_addf(user, "{%zu:%lld}", d->marks[i].offset, (long long)d->marks[i].number));
    return SP_OK;
}

static sp_err read_bytes(const char *path, const void *data, size_t n, sp_bytes *got)
{
    sp_reading r = {.path = path, .fn = take, .user = got};
    char *copy = malloc(n + 1); /* its end is checked by the sanitizer */
    memcpy(copy, data, n);
    sp_err err = sp_documents_read(&r, sp_document_format(path), copy, n);
    free(copy);
    assert_int_equal(sp_bytes_add(got, "", 1), SP_OK);
    return err;
}

static void gives_bytes(const char *path, const void *data, size_t n, const char *want)
{
    sp_bytes got = {0};
    if (read_bytes(path, data, n, &got) != SP_OK) fail_msg("%s", sp_error_detail());
    assert_string_equal(got.v, want);
    sp_vec_fini(&got);
}

static void gives(const char *path, const char *text, const char *want)
{
    gives_bytes(path, text, strlen(text), want);
}

static void refuses(const char *path, const char *text, const char *words)
{
    sp_bytes got = {0};
    assert_int_equal(read_bytes(path, text, strlen(text), &got), SP_E_UNSUPPORTED);
    assert_string_equal(got.v, "");
    if (!strstr(sp_error_detail(), words) || !strstr(sp_error_detail(), path))
        fail_msg("\"%s\" lacks \"%s\"", sp_error_detail(), words);
    sp_vec_fini(&got);
}

/* -- letters ---------------------------------------------------------------------------------- */

#define SHY "\xC2\xAD"
#define FI  "\xEF\xAC\x81"
#define FFI "\xEF\xAC\x83"

/* Soft hyphens and ligatures are of the layout: no question has them. */
static void layout_is_not_read(void **state)
{
    gives("a.txt", "Leucht" SHY "turm, o" FFI "ce\nof" SHY "\n" FI "nal " SHY,
          "a.txt|Leuchtturm, office\nof\nfinal #");
    gives("a.html", "<title>Of" FI "ce</title><p>Hafen&shy;meis&shy;ter &#64256;", "Office|Hafenmeister ff#");
    gives("a.md", "# Kai" SHY "mauer\n\nund " FI "n", "Kaimauer|# Kaimauer\n\nund fin#");
    gives("a.csv", "a,b\n" FI "n,2\n", "a.csv|a: fin; b: 2\n#");
    gives("a.py", "x = '" SHY "'\n", "a.py|x = '" SHY "'\n#");
    gives("a.txt", "\xEF\xAC\x87 \xC2\xAE \xEF\xAB\xBF", "a.txt|\xEF\xAC\x87 \xC2\xAE \xEF\xAB\xBF#");
    gives("a.txt", SHY, "a.txt|#");
}

/* A file of Windows reads as one of Unix, code and tables as well; JSON lines keep what another program wrote. */
static void line_ends_are_line_feeds(void **state)
{
    gives("a.md", "# Pier\r\n\r\nIt burnt\r\ndown.\r\n", "Pier|# Pier\n\nIt burnt\ndown.\n#");
    gives("a.py", "x = 1\r\ny = '\r'\r\n", "a.py|x = 1\ny = '\r'\n#");
    gives("a.txt", "x\r\r\n\r\n\ry\r\r", "a.txt|x\n\n\ry\r\r#"); /* written twice as text */
    gives("a.csv", "a,b\r\n1,\"x\r\ny\rz\"\r\n", "a.csv|a: 1; b: x y z\n#");
    gives("a.jsonl", "{\"text\": \"x\\r\\ny\"}\r\n", "|x\r\ny#");
}

/* Pages begin where their text does, and a word that a PDF cuts at the end of a line is whole. */
static void marks_move_with_the_text(void **state)
{
    static const char pages[] = "o" FFI "ce\n\f" FI "nal Wort" SHY "\nteil\n\fthird";
    sp_bytes got = {0};
    sp_reading r = {.path = "a.pdf", .fn = take, .user = &got};
    assert_int_equal(sp_pdf_pages(&r, pages, strlen(pages)), SP_OK);
    assert_int_equal(sp_bytes_add(&got, "", 1), SP_OK);
    assert_string_equal(got.v, "a.pdf|office\n\nfinal Wortteil\n\nthird\n#{0:1}{8:2}{24:3}");
    sp_vec_fini(&got);
}

/* -- JSON ------------------------------------------------------------------------------------- */

static void json_values_become_lines_with_their_paths(void **state)
{
    gives("d/a.json",
          "{\"name\": \"Otter\", \"eats\": [\"fish\", \"crabs\"], \"size\": {\"cm\": 90, \"kg\": "
          "7.5},"
          " \"wild\": true, \"no\": null}",
          "a.json|name: Otter\neats: fish\neats: crabs\nsize.cm: 90\nsize.kg: 7.5\nwild: true\n#");
    gives("a.json", "[{\"a\": 1}, {\"a\": \"x\\u0000y\"}]", "a.json|a: 1\n\na: x y\n#");
    gives("a.json", "{\"id\": 123456789012345678901}", "a.json|id: 1.23456789012346e+20\n#");
    gives("a.json", "\"just text\"", "a.json|just text\n#");
    refuses("a.json", "{\"a\": 1,\n oops}", "line 2");
}

static void a_json_array_of_texts_is_documents(void **state)
{
    gives("a.json", "[{\"title\": \"One\", \"text\": \"First.\"}, {\"content\": \"Second.\"}]",
          "One|First.#a.json|Second.#");
}

static void notebooks_become_markdown(void **state)
{
    gives("n.ipynb",
          "{\"metadata\": {\"language_info\": {\"name\": \"python\"}}, \"cells\": ["
          "{\"cell_type\": \"markdown\", \"source\": [\"# Tides\\n\", \"They turn.\"]},"
          "{\"cell_type\": \"code\", \"source\": \"print(6 * 7)\", \"outputs\": [{\"text\": "
          "[\"42\\n\"]},"
          "{\"data\": {\"text/plain\": \"None\", \"image/png\": \"iVBOR\"}}]}]}",
          "Tides|# Tides\nThey turn.\n\n```python\nprint(6 * "
          "7)\n```\n\n```\n42\n\n```\n\n```\nNone\n```\n\n#");
    refuses("n.ipynb", "{\"a\": 1}", "it has no cells");
}

/* -- XML -------------------------------------------------------------------------------------- */

static void xml_texts_have_the_names_of_their_elements(void **state)
{
    gives(
        "f.xml",
        "<?xml version='1.0' encoding='ISO-8859-1'?><films><!-- none --><film year='1995' "
        "name='Heat'>"
        "<director>M\xE4nn</director>\n <plot>A <b>thief</b>\n and <![CDATA[a "
        "<cop>]]>.</plot></film>"
        "<film><director/><plot>Rain.</plot></film></films>",
        "f.xml|name: Heat\ndirector: M\xC3\xA4nn\nplot: A thief and a <cop>.\n\nplot: Rain.\n\n#");
    refuses("f.xml", "<a><b></a>", "malformed XML");
    refuses("f.xml", "", "XML of 0 bytes");
}

static void xml_entities_are_not_expanded(void **state)
{
    gives("f.xml",
          "<!DOCTYPE a [<!ENTITY x 'boom'><!ENTITY y '&x;&x;'><!ENTITY f SYSTEM "
          "'file:///etc/passwd'>]>"
          "<a>so &y; &f; it</a>",
          "f.xml|a: so it\n#");
}

/* -- mail ------------------------------------------------------------------------------------- */

static void mail_is_its_subject_people_and_text(void **state)
{
    gives("m.eml",
          "Received: x\r\nSubject: =?UTF-8?Q?Caf=C3=A9?=\r\n =?utf-8?b?IG9wZW5z?= soon\r\nFrom: "
          "Anna <a@x.org>\r\n"
          "Date: Mon, 2 Mar 2026 10:00:00 +0100\r\n\r\nWe open\r\non Monday.\r\n",
          "Caf\xC3\xA9 opens soon|Subject: Caf\xC3\xA9 opens soon\nFrom: Anna <a@x.org>\n"
          "Date: Mon, 2 Mar 2026 10:00:00 +0100\n\nWe open\non Monday.\n\n#");
    refuses("m.eml", "no header at all", "not a mail message");
}

static void mail_parts_are_decoded_and_alternatives_read_once(void **state)
{
    gives("m.eml",
          "Subject: s\nContent-Type: multipart/mixed; boundary=\"b 1\"\n\nignored\n--b 1\n"
          "Content-Type: multipart/alternative; boundary=inner\n\n--inner\nContent-Type: "
          "text/html\n\n<p>As HTML</p>\n"
          "--inner\nContent-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: "
          "quoted-printable\n\n"
          "Gr=FC=\nn\n--inner--\n--b 1\nContent-Type: text/plain; "
          "charset=utf-8\nContent-Transfer-Encoding: base64\n\n"
          "SGVs\nbG8=\n--b 1\nContent-Type: application/pdf\nContent-Disposition: attachment; "
          "filename=\"lease.pdf\"\n\n"
          "JVBERi0=\n--b 1--\n",
          "s|Subject: s\n\nGr\xC3\xBCn\n\nHello\nAttachment: lease.pdf\n#");
    gives("m.eml", "Subject: s\nContent-Type: text/html; charset=koi8-r\n\n<p>\xC4\xC1",
          "s|Subject: s\n\nда\n#");
    gives("m.eml", "Subject: s\nContent-Type: text/html; charset=utf-8\n\n<h1>Hi</h1><p>there",
          "s|Subject: s\n\n# Hi\n\nthere\n#");
}

/* Old programs end lines with CR LF, name the language of a word, and fold a subject. */
static void mail_of_other_programs(void **state)
{
    gives("m.eml",
          "Subject: =?iso-8859-1*de?Q?Gr=FC=DFe_an?=\r\n =?us-ascii?q?_snake=5Fcase?=\r\n"
          "Content-Type: text/plain\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nGr=\r\nn_x\r\n",
          "Gr\xC3\xBC\xC3\x9F" "e an snake_case|Subject: Gr\xC3\xBC\xC3\x9F" "e an snake_case\n\nGrn_x\n\n#");
    gives("m.eml", "Subject: =?koi8-r*ru?Q?=C4=C1?=\n\nx", "да|Subject: да\n\nx\n#");
    gives("m.eml", "Subject: =?utf-8?Q?a=0Ab?=\n\nx", "a b|Subject: a b\n\nx\n#"); /* one line */
    gives("m.eml",
          "Subject: s\nContent-Type: multipart/alternative; boundary=b\n\n--b\nContent-Type: text/plain\n\nfirst\n"
          "--b\nContent-Type: text/plain\n\nsecond\n--b--\n",
          "s|Subject: s\n\nfirst\n\n#");
}

/* A boundary is a line of its own: another may begin with it, and a text may quote it. */
static void mail_parts_end_at_lines_of_their_boundary(void **state)
{
    gives("m.eml",
          "Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: multipart/alternative; "
          "boundary=b2\n\n--b2\n\nuse --b or\n --b\n--b and\n--b2\nContent-Type: text/html\n\n<p>no\n"
          "--b2--\n--b \t\n\nsecond\n--b--\nafter\n",
          "s|Subject: s\n\nuse --b or\n --b\n--b and\n\nsecond\n\n#");
    gives("m.eml", "Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\none\n--b",
          "s|Subject: s\n\none\n\n#");
}

/* A boundary is as long as its writer likes; two may differ at their ends alone. */
static void mail_has_boundaries_of_any_length(void **state)
{
    static const int lengths[] = {70, 126, 127, 128, 998, 100000};
    for (size_t i = 0; i < SP_COUNT(lengths); i++) {
        sp_bytes text = {0};
        char *b = malloc((size_t)lengths[i] + 1);
        memset(b, '=', (size_t)lengths[i]);
        b[lengths[i]] = '\0';
        assert_int_equal(sp_bytes_addf(&text,
                                       "Subject: s\nContent-Type: multipart/mixed;\n boundary=\"%s0\"\n\n--%s0\n"
                                       "Content-Type: multipart/mixed; boundary=\"%s1\"\n\n--%s1\n\none\n--%s1--\n"
                                       "--%s0\n\ntwo\n--%s0--\n--%s0\n\nno\n",
                                       b, b, b, b, b, b, b, b),
                         SP_OK);
        gives_bytes("m.eml", text.v, text.n, "s|Subject: s\n\none\n\ntwo\n\n#");
        sp_vec_fini(&text);
        free(b);
    }
}

#define MAIL(type) "Subject: s\nContent-Type: " type "\n\nno\n--b\n\nyes\n--b--\n"

/* What is quoted is no parameter; a boundary may be in pieces; only a multipart has parts. */
static void mail_parameters_are_read_as_written(void **state)
{
    static const char want[] = "s|Subject: s\n\nyes\n\n#";
    gives("m.eml", MAIL("multipart/mixed; x=\"a; boundary=c\"; boundary=b"), want);
    gives("m.eml", MAIL("multipart/mixed; x=\"\\\"; boundary=c\"; boundary=b"), want);
    gives("m.eml", MAIL("multipart/mixed;boundary = \"b\""), want);
    gives("m.eml", MAIL("multipart/mixed; boundaryx=c; BOUNDARY=b; boundary=d"), want);
    gives("m.eml", MAIL("multipart/mixed; boundary*=us-ascii''%62"), want);
    gives("m.eml",
          "Subject: s\nContent-Type: multipart/mixed; boundary*1=\"c\"; boundary*0=b\n\n--bc\n\nyes\n--bc--\n",
          want);
    gives("m.eml", MAIL("text/plain; boundary=b"), "s|Subject: s\n\nno\n--b\n\nyes\n--b--\n\n#");
    gives("m.eml", MAIL("multipart/mixed; boundary=\"\""), "s|Subject: s\n\n#");
}

static void mail_of_words_without_an_end_is_read_once(void **state)
{
    sp_bytes text = {0}, got = {0};
    assert_int_equal(sp_bytes_addf(&text, "Subject: "), SP_OK);
    for (int i = 0; i < 300000; i++) assert_int_equal(sp_bytes_add(&text, "=?x?b?y", 7), SP_OK);
    assert_int_equal(sp_bytes_addf(&text, "\nFrom: =?utf-8?q?a?= =?utf-8?q?b?=\n\nx"), SP_OK);
    const clock_t begin = clock();
    assert_int_equal(read_bytes("m.eml", text.v, text.n, &got), SP_OK);
    assert_true(clock() - begin < 5 * CLOCKS_PER_SEC);
    assert_non_null(strstr(got.v, "From: ab\n"));
    sp_vec_fini(&text);
    sp_vec_fini(&got);
}

static void mail_has_a_number_of_parts_at_most(void **state)
{
    sp_bytes text = {0}, got = {0};
    assert_int_equal(sp_bytes_addf(&text, "Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n"), SP_OK);
    for (int i = 0; i < 300; i++) assert_int_equal(sp_bytes_addf(&text, "--b\n\npart %d.\n", i), SP_OK);
    assert_int_equal(read_bytes("m.eml", text.v, text.n, &got), SP_OK);
    assert_non_null(strstr(got.v, "part 255."));
    assert_null(strstr(got.v, "part 299."));
    sp_vec_fini(&text);
    sp_vec_fini(&got);
}

static void mail_that_nests_without_end_is_bounded(void **state)
{
    sp_bytes text = {0}, got = {0};
    assert_int_equal(sp_bytes_addf(&text, "Subject: s\n"), SP_OK);
    for (int i = 0; i < 200; i++)
        assert_int_equal(sp_bytes_addf(&text, "Content-Type: message/rfc822\n\n"), SP_OK);
    assert_int_equal(sp_bytes_addf(&text, "too deep"), SP_OK);
    assert_int_equal(read_bytes("m.eml", text.v, text.n, &got), SP_OK);
    assert_null(strstr(got.v, "too deep"));
    sp_vec_fini(&text);
    sp_vec_fini(&got);
}

/* -- RTF -------------------------------------------------------------------------------------- */

#define WITH_FILE(head)                                                                                        \
    "Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n--b\n" head "\n\nJVBERi0=\n--b--\n"

/* Names beyond ASCII: as RFC 2231 has them, whole or in parts; in encoded words; in the type alone. */
static void attachments_have_their_names(void **state)
{
    static const char want[] = "s|Subject: s\n\nAttachment: Gr\xC3\xB6\xC3\x9F" "e 1.pdf\n#";
    gives("m.eml", WITH_FILE("Content-Disposition: attachment;\n filename*=utf-8''Gr%C3%B6%C3%9Fe%201.pdf"), want);
    gives("m.eml", WITH_FILE("Content-Disposition: attachment; filename*=iso-8859-1'de'Gr%F6%DFe%201.pdf"), want);
    gives("m.eml",
          WITH_FILE("Content-Disposition: attachment; filename*0*=utf-8''Gr%C3%B6;\n filename*1*=%C3%9Fe%20;"
                    "\n filename*2=\"1.pdf\""),
          want);
    gives("m.eml", WITH_FILE("Content-Disposition: attachment; filename*0=\"lea\"; filename*1=\"se%20.pdf\""),
          "s|Subject: s\n\nAttachment: lease%20.pdf\n#");
    gives("m.eml", WITH_FILE("Content-Disposition: attachment; filename=\"=?utf-8?B?R3LDtsOfZSAx?= .pdf\""),
          "s|Subject: s\n\nAttachment: Gr\xC3\xB6\xC3\x9F" "e 1 .pdf\n#");
    gives("m.eml", WITH_FILE("Content-Type: application/pdf; name=\"lease.pdf\"\nContent-Disposition: attachment"),
          "s|Subject: s\n\nAttachment: lease.pdf\n#");
    gives("m.eml", WITH_FILE("Content-Disposition: attachment; filename*=%"), "s|Subject: s\n\nAttachment: %\n#");
    gives("m.eml", WITH_FILE("Content-Disposition: attachment; filename=\"a\\\"b\\\\c; d.pdf\""),
          "s|Subject: s\n\nAttachment: a\"b\\c; d.pdf\n#");
    gives("m.eml", WITH_FILE("Content-Disposition: attachment; filename=\"C:\\a.pdf\""),
          "s|Subject: s\n\nAttachment: C:\\a.pdf\n#");
    gives("m.eml", WITH_FILE("Content-Disposition: attachment; filename*=utf-8''a%0AFrom:%20b%0D%0A%0D"),
          "s|Subject: s\n\nAttachment: a From: b   \n#");
    gives("m.eml", WITH_FILE("Content-Disposition: attachment"), "s|Subject: s\n\nAttachment: \n#");
}

static void rtf_is_its_text(void **state)
{
    gives("a.rtf",
          "{\\rtf1\\ansi\\ansicpg1252{\\fonttbl{\\f0 Arial;}}{\\*\\generator X;}\\f0 The {\\b "
          "quay} of "
          "M\\'fcnchen\\par\nPrice: 5\\u8364?\\tab\\{net\\}\\line \\u-10179?\\u-8704?\\emdash "
          "end{\\pict 0102}}junk",
          "a.rtf|The quay of M\xC3\xBCnchen\n\nPrice: 5\xE2\x82\xAC "
          "{net}\n\xF0\x9F\x98\x80\xE2\x80\x94"
          "end#");
    /* half a pair; a fallback ends with its group */
    gives("a.rtf", "{\\rtf1 \\u-10179?\\u-8704?x\\u-8704?y 5{\\u8364}ab}",
          "a.rtf|\xF0\x9F\x98\x80x\xEF\xBF\xBDy 5\xE2\x82\xAC" "ab#");
    /* the code pages of fonts, until the group ends or another is named; a font without one has the document's */
    gives("a.rtf",
          "{\\rtf1\\ansi\\ansicpg1250\\deff1{\\fonttbl{\\f0\\fcharset204{\\*\\panose 02}Arial;}{\\f1\\fcharset0 B;}"
          "{\\f2\\fcharset128 C;}{\\f3 D\\cpg1253;}}\\'b9 {\\f0\\'c4\\'e0}\\'b9\\f2\\'93\\'fa\\f3\\'e1\\plain\\'b9}",
          "a.rtf|\xC4\x85 Да\xC4\x85日α\xC4\x85#");
    gives("a.rtf",
          "{\\rtf1\\ansicpg65001 \xC3\xA9{\\fonttbl\\f-1\\fcharset204 A;\\f32768\\fcharset204 B;}"
          "\\f-1\\'c3\\'a9\\f32768 x}",
          "a.rtf|\xC3\xA9\xC3\xA9x#");
    /* a fallback that is a word or a symbol, and one that is missing; half a pair that is not completed */
    gives("a.rtf", "{\\rtf1 \\u8212\\emdash a\\u160\\~b\\u173\\-c\\u8364\\par d\\u-10179?e\\u-8704?f}",
          "a.rtf|\xE2\x80\x94" "a\xC2\xA0" "bc\xE2\x82\xAC\n\nde\xEF\xBF\xBD" "f#");
    refuses("a.rtf", "plain text", "not RTF");
    gives("a.rtf", "{\\rtf1 {\\bin99999999999 x", "a.rtf|#");
}

/* -- packed files ----------------------------------------------------------------------------- */

static size_t pack(const char *text, unsigned char *out, size_t room)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)text;
    z.avail_in = (uInt)strlen(text);
    z.next_out = out;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return room - z.avail_out;
}

static void packed_texts_are_read_by_their_inner_name(void **state)
{
    unsigned char z[512];
    size_t n = pack("# Notes\n\nOne.\n", z, sizeof z);
    n += pack("Two.\n", z + n, sizeof z - n); /* a second member */
    gives_bytes("notes.md.gz", z, n, "Notes|# Notes\n\nOne.\nTwo.\n#");
    assert_int_equal(sp_document_format("a.bin.gz"), SP_DOC_NONE);
    assert_int_equal(sp_document_format("a.txt.gz.gz"), SP_DOC_NONE);
    sp_bytes got = {0};
    assert_int_equal(read_bytes("notes.md.gz", z, n - 9, &got), SP_E_UNSUPPORTED);
    assert_non_null(strstr(sp_error_detail(), "notes.md.gz: a gzip file that ends too early"));
    sp_vec_fini(&got);
    refuses("a.txt.gz", "not packed", "damaged gzip");
}

/* -- archives --------------------------------------------------------------------------------- */

typedef struct entry {
    const char *name, *content;
} entry;

/* packed -- an archive of these files. */
static sp_bytes packed(folder *f, const entry *e)
{
    sp_bytes data = {0};
    zip_t *z = zip_open(folder_path(f, "archive.zip"), ZIP_CREATE | ZIP_TRUNCATE, NULL);
    assert_non_null(z);
    for (; e->name; e++)
        assert_true(zip_file_add(z, e->name,
                                 zip_source_buffer(z, e->content, strlen(e->content), 0), 0) >= 0);
    assert_int_equal(zip_close(z), 0);
    assert_int_equal(sp_file_read(folder_path(f, "archive.zip"), 1 << 24, &data), SP_OK);
    return data;
}

static void gives_archive(folder *f, const char *path, const entry *e, const char *want)
{
    sp_bytes data = packed(f, e);
    gives_bytes(path, data.v, data.n, want);
    sp_vec_fini(&data);
}

static void spreadsheets_are_tables_with_the_names_of_their_columns(void **state)
{
    gives_archive(
        *state, "b.xlsx",
        (entry[]){
            {"xl/workbook.xml",
             "<w xmlns:r='urn:r'><sheets><sheet name='Boats' sheetId='1' r:id='r2'/>"
             "<sheet name='None' r:id='r9'/></sheets></w>"},
            {"xl/_rels/workbook.xml.rels",
             "<R><Relationship Id='r2' Target='worksheets/sheet1.xml'/></R>"},
            {"xl/sharedStrings.xml",
             "<s><si><t>name</t></si><si><r><t>Sea</t></r><r><t> Gull</t></r></si></s>"},
            {"xl/styles.xml",
             "<s><numFmts><numFmt numFmtId='164' formatCode='yyyy&quot; x&quot;'/></numFmts>"
             "<cellStyleXfs><xf numFmtId='14'/></cellStyleXfs>"
             "<cellXfs><xf numFmtId='0'/><xf numFmtId='14'/><xf numFmtId='164'/></cellXfs></s>"},
            {"xl/worksheets/sheet1.xml",
             "<w><sheetData><row r='1'><c r='A1' t='s'><v>0</v></c><c r='B1' "
             "t='inlineStr'><is><t>built</t></is></c>"
             "<c r='D1' t='str'><f>1+1</f><v>length</v></c></row>"
             "<row r='3'><c r='A3' t='s'><v>1</v></c><c r='B3' s='1'><v>25569</v></c><c "
             "r='D3'><v>7.5</v></c></row>"
             "<row r='4'><c r='A4' t='s'><v>2</v></c><c r='B4' s='2'><v>25569.5</v></c><c r='D4' "
             "t='b'><v>1</v></c></row>"
             "</sheetData></w>"},
            {0}},
        "b.xlsx > Boats|name: Sea Gull; built: 1970-01-01; length: 7.5\nname: ; built: 1970-01-01 12:00; "
        "length: true\n#");
}

/* Files keep 17 digits, of which spreadsheets have 15. */
static void numbers_of_spreadsheets_have_15_digits(void **state)
{
    gives_archive(
        *state, "n.xlsx",
        (entry[]){{"xl/workbook.xml", "<w xmlns:r='urn:r'><sheets><sheet name='N' r:id='r2'/></sheets></w>"},
                  {"xl/_rels/workbook.xml.rels", "<R><Relationship Id='r2' Target='worksheets/sheet1.xml'/></R>"},
                  {"xl/worksheets/sheet1.xml",
                   "<w><sheetData><row><c t='str'><v>a</v></c><c t='str'><v>b</v></c></row><row>"
                   "<c><v>1.1000000000000001</v></c><c t='n'><v>123456789012345</v></c></row><row>"
                   "<c t='str'><v>1.1000000000000001</v></c><c><v>-2.9999999999999999E-2</v></c></row>"
                   "<row><c><v>-1234567890123456789</v></c><c><v>9.9999999999999995E-8</v></c></row>"
                   "</sheetData></w>"},
                  {0}},
        "n.xlsx > N|a: 1.1; b: 123456789012345\na: 1.1000000000000001; b: -0.03\n"
        "a: -1234567890123456789; b: 1e-07\n#");
}

/* A cell that does not say where it is comes after the one before. */
static void cells_without_a_place_follow_each_other(void **state)
{
    gives_archive(
        *state, "c.xlsx",
        (entry[]){{"xl/workbook.xml",
                   "<w xmlns:r='urn:r'><sheets><sheet name='Boats' r:id='r2'/></sheets></w>"},
                  {"xl/_rels/workbook.xml.rels", "<R><Relationship Id='r2' Target='worksheets/sheet1.xml'/></R>"},
                  {"xl/worksheets/sheet1.xml",
                   "<w><sheetData><row><c r='A1' t='str'><v>name</v></c><c r='B1' t='str'><v>built</v></c>"
                   "<c r='C1' t='str'><v>length</v></c></row><row><c t='str'><v>Sea Gull</v></c>"
                   "<c><v>1970</v></c><c><v>7.5</v></c></row></sheetData></w>"},
                  {0}},
        "c.xlsx > Boats|name: Sea Gull; built: 1970; length: 7.5\n#");
}

/* A file is what it has, not what it is named. */
static void files_with_a_wrong_ending(void **state)
{
    static const char relation[] =
        "<R><Relationship Id='a' Type='http://o/officeDocument' Target='xl/workbook.xml'/></R>";
    sp_bytes got = {0};
    sp_bytes data = packed(*state, (entry[]){{"_rels/.rels", relation}, {"xl/workbook.xml", "<w><sheets/></w>"}, {0}});
    assert_int_equal(read_bytes("x.docx", data.v, data.n, &got), SP_E_UNSUPPORTED);
    assert_non_null(strstr(sp_error_detail(), "x.docx: not a text of Word"));
    refuses("a.txt", "%PDF-1.7\n%%EOF", "a damaged or too large PDF");
    gives("a.txt", "{\\rtf1 Sea\\par Gull}", "a.txt|Sea\n\nGull#");
    gives("a.py", "%PDF-1.7", "a.py|%PDF-1.7#");
    sp_vec_fini(&data);
    sp_vec_fini(&got);
}

#define SHEET(text) "<w><sheetData><row><c t='str'><v>" text "</v></c></row></sheetData></w>"
#define BOOK(sheets) "<w xmlns:r='urn:r'><sheets>" sheets "</sheets></w>"

/* Sheets and texts are where the relations say, relative to the workbook or to the archive. */
static void parts_of_a_workbook_are_where_its_relations_say(void **state)
{
    static const char sheets[] = BOOK("<sheet name='Late' r:id='b'/><sheet name='Early' r:id='a'/>"
                                      "<sheet name='Third' r:id='c'/>");
    gives_archive(*state, "d.xlsx",
                  (entry[]){{"xl/workbook.xml", sheets},
                            {"xl/_rels/workbook.xml.rels",
                             "<R><Relationship Id='a' Target='/xl/pages/one.xml'/><Relationship Id='b' "
                             "Target='../sheets/t%20wo.xml'/><Relationship Id='c' Target='./three.xml'/></R>"},
                            {"xl/pages/one.xml", SHEET("first")},
                            {"sheets/t wo.xml", SHEET("second")},
                            {"xl/three.xml", SHEET("third")},
                            {0}},
                  "d.xlsx > Late|second\n#d.xlsx > Early|first\n#d.xlsx > Third|third\n#");
    gives_archive(
        *state, "e.xlsx",
        (entry[]){{"_rels/.rels", "<R><Relationship Id='x' Type='http://o/relationships/officeDocument' "
                                  "Target='book/main.xml'/></R>"},
                  {"book/main.xml", BOOK("<sheet name='Boats' r:id='r2'/>")},
                  {"book/_rels/main.xml.rels",
                   "<R><Relationship Id='r2' Type='http://o/worksheet' Target='s.xml'/><Relationship Id='r3' "
                   "Type='http://o/sharedStrings' Target='texts.xml'/></R>"},
                  {"book/texts.xml", "<s><si><t>Sea Gull</t></si></s>"},
                  {"book/s.xml", "<w><sheetData><row><c t='s'><v>0</v></c></row></sheetData></w>"},
                  {0}},
        "e.xlsx > Boats|Sea Gull\n#");
}

#define CELL(style, value) "<c s='" style "'><v>" value "</v></c>"

/* A format shows a time of day, hours beyond a day, a month, or a number with an h in its text. */
static void times_are_no_fractions_of_a_day(void **state)
{
    gives_archive(*state, "t.xlsx",
                  (entry[]){{"xl/workbook.xml", "<w xmlns:r='urn:r'><sheet name='S' r:id='a'/></w>"},
                            {"xl/_rels/workbook.xml.rels", "<R><Relationship Id='a' Target='s.xml'/></R>"},
                            {"xl/styles.xml",
                             "<s><numFmts><numFmt numFmtId='164' formatCode='[$-409]h:mm AM/PM'/>"
                             "<numFmt numFmtId='165' formatCode='[hh]:mm'/>"
                             "<numFmt numFmtId='166' formatCode='0.0&quot; hours&quot;'/>"
                             "<numFmt numFmtId='167' formatCode='mmm'/><numFmt numFmtId='168' formatCode='[Red]0'/>"
                             "</numFmts><cellXfs><xf numFmtId='20'/><xf numFmtId='164'/><xf numFmtId='165'/>"
                             "<xf numFmtId='166'/><xf numFmtId='167'/><xf numFmtId='46'/><xf numFmtId='168'/>"
                             "</cellXfs></s>"},
                            {"xl/s.xml", "<w><row>" CELL("0", "0.5") CELL("1", "0.2951388888888889") "</row><row>"
                                         CELL("0", "1.25") CELL("1", "0.99999999") CELL("2", "1.5") CELL("3", "1.5")
                                         CELL("4", "25569") CELL("5", "2.00005787037037") CELL("6", "0.5")
                                         CELL("0", "-0.5") CELL("0", "1e300") "</row></w>"},
                            {0}},
                  "t.xlsx > S|12:00: 06:00; 07:05: 00:00; 36:00; 1.5; 1970-01-01; 48:00:05; 0.5; -0.5; 1e+300\n#");
}

/* ONE_ROW -- a workbook whose first formats are a date, a date with its time, and six of its own. */
#define ONE_ROW(properties, formats, texts, row)                                                                  \
    (entry[])                                                                                                     \
    {                                                                                                             \
        {"xl/workbook.xml", "<w xmlns:r='urn:r'>" properties "<sheet name='S' r:id='a'/></w>"},                   \
            {"xl/_rels/workbook.xml.rels", "<R><Relationship Id='a' Target='s.xml'/></R>"},                       \
            {"xl/sharedStrings.xml", "<s>" texts "</s>"},                                                         \
            {"xl/styles.xml", "<s>" formats "<cellXfs><xf numFmtId='14'/><xf numFmtId='22'/><xf numFmtId='164'/>" \
                              "<xf numFmtId='165'/><xf numFmtId='166'/></cellXfs></s>"},                          \
            {"xl/s.xml", "<w><row>" row "</row></w>"}, {0}                                                        \
    }

/* Spreadsheets have a 29th of February in 1900, so the days before it are one more. */
static void days_before_march_1900_are_as_spreadsheets_show_them(void **state)
{
    gives_archive(*state, "a.xlsx",
                  ONE_ROW("", "", "",
                          CELL("0", "0") CELL("0", "0.5") CELL("0", "1") CELL("1", "1.25") CELL("0", "31")
                              CELL("0", "32") CELL("0", "59") CELL("1", "59.75") CELL("1", "59.9999999")
                                  CELL("0", "60") CELL("1", "60.75") CELL("0", "61") CELL("0", "2958465")
                                      CELL("0", "2958466") CELL("0", "-1") CELL("0", "nan") CELL("0", "1e300")),
                  "a.xlsx > S|0; 12:00; 1900-01-01; 1900-01-01 06:00; 1900-01-31; 1900-02-01; 1900-02-28; "
                  "1900-02-28 18:00; 1900-02-29; 1900-02-29; 1900-02-29 18:00; 1900-03-01; 9999-12-31; 2958466; -1; "
                  "nan; 1e+300\n#");
    gives_archive(*state, "a.xlsx",
                  ONE_ROW("<workbookPr date1904='1'/>", "", "",
                          CELL("0", "0") CELL("1", "0.5") CELL("0", "1") CELL("0", "60") CELL("0", "2957003")
                              CELL("0", "2957004") CELL("0", "-1")),
                  "a.xlsx > S|1904-01-01; 1904-01-01 12:00; 1904-01-02; 1904-03-01; 9999-12-31; 2957004; -1\n#");
}

/* Letters whose width is left, or that fill a cell, are of no date; nor are formats that another has the number of. */
static void formats_are_read_as_spreadsheets_do(void **state)
{
    gives_archive(*state, "a.xlsx",
                  ONE_ROW("",
                          "<numFmt numFmtId='164' formatCode='_-* #,##0.00\\ _D_M_-;*d0'/>"
                          "<numFmt numFmtId='164' formatCode='yyyy'/>"
                          "<numFmt numFmtId='165' formatCode='&quot;\\&quot;yy'/>"
                          "<numFmt numFmtId='166' formatCode='[$_-*]yy'/>",
                          "", CELL("2", "1234.5") CELL("3", "25569") CELL("4", "25569") CELL("5", "7")),
                  "a.xlsx > S|1234.5; 1970-01-01; 1970-01-01; 7\n#");
}

/* How a text is read aloud holds no text, cell or value, whatever is inside. */
static void readings_hold_nothing(void **state)
{
    gives_archive(*state, "a.xlsx",
                  ONE_ROW("", "", "<si><t>AAAA</t><rPh><rPh/><t>x</t><si/></rPh></si><si><t>b</t></si>",
                          "<c t='s'><v>0</v></c><c t='s'><v>1</v></c><c t='s'><v>2</v></c><c t='inlineStr'><is>"
                          "<t>long text</t><rPh><t>x</t><v/><t>yyyy</t><c r='A9'/></rPh></is></c>"),
                  "a.xlsx > S|AAAA; b; long text\n#");
}

/* A short cell far to the right makes a long row; the limit is that of all sheets. */
static void a_small_workbook_is_no_large_table(void **state)
{
    sp_bytes sheet = {0}, got = {0};
    assert_int_equal(sp_bytes_addf(&sheet, "<w>"), SP_OK);
    for (int i = 0; i < 9000; i++) assert_int_equal(sp_bytes_addf(&sheet, "<row><c r='XFD1'/></row>"), SP_OK);
    assert_int_equal(sp_bytes_add(&sheet, "</w>", 5), SP_OK);
    const entry entries[] = {{"xl/workbook.xml", BOOK("<sheet name='A' r:id='a'/><sheet name='B' r:id='a'/>")},
                             {"xl/_rels/workbook.xml.rels", "<R><Relationship Id='a' Target='s.xml'/></R>"},
                             {"xl/s.xml", sheet.v},
                             {0}};
    sp_bytes data = packed(*state, entries);
    assert_int_equal(read_bytes("a.xlsx", data.v, data.n, &got), SP_E_LIMIT);
    assert_non_null(strstr(sp_error_detail(), "a workbook with too much text"));
    sp_vec_fini(&data);
    sp_vec_fini(&sheet);
    sp_vec_fini(&got);
}

/* What only programs of East Asia, or of a Mac, write. */
static void dates_and_texts_of_other_programs_are_read(void **state)
{
    gives_archive(*state, "f.xlsx",
                  (entry[]){{"xl/workbook.xml",
                             "<w xmlns:r='urn:r'><workbookPr date1904='1'/><sheet name='Boats' r:id='a'/></w>"},
                            {"xl/_rels/workbook.xml.rels", "<R><Relationship Id='a' Target='s.xml'/></R>"},
                            {"xl/sharedStrings.xml", "<s><si><t>東京</t><rPh sb='0' eb='2'><t>トウキョウ</t></rPh></si>"
                                                     "<si><t>built</t></si></s>"},
                            {"xl/styles.xml", "<s><cellXfs><xf numFmtId='0'/><xf numFmtId='31'/></cellXfs></s>"},
                            {"xl/s.xml", "<w><row><c t='s'><v>0</v></c><c t='s'><v>1</v></c></row>"
                                         "<row><c t='inlineStr'><is><r><t>Sea</t></r><r><t> Gull</t></r>"
                                         "<rPh sb='0' eb='1'><t>si</t></rPh></is></c>"
                                         "<c s='1'><f>1+1</f><v>24107</v></c><c><f>A1</f></c></row></w>"},
                            {0}},
                  "f.xlsx > Boats|東京: Sea Gull; built: 1970-01-01\n#");
    /* a letter after a backslash is only shown; of two cells at one place the first counts */
    gives_archive(*state, "g.xlsx",
                  (entry[]){{"xl/workbook.xml",
                             "<w xmlns:r='urn:r'><workbookPr date1904='true'/><sheet name='S' r:id='a'/></w>"},
                            {"xl/_rels/workbook.xml.rels", "<R><Relationship Id='a' Target='s.xml'/></R>"},
                            {"xl/styles.xml", "<s><numFmts><numFmt numFmtId='164' formatCode='0\\d'/></numFmts>"
                                              "<cellXfs><xf numFmtId='0'/><xf numFmtId='22'/><xf numFmtId='47'/>"
                                              "<xf numFmtId='164'/></cellXfs></s>"},
                            {"xl/s.xml", "<w><row><c t='str'><v>a</v></c><c t='str'><v>b</v></c>"
                                         "<c t='str'><v>c</v></c></row><row>"
                                         "<c r='A2' s='1'><v>24107.5</v></c><c r='A2'><v>9</v></c>"
                                         "<c s='2'><v>0.5</v></c><c s='3'><v>7</v></c></row></w>"},
                            {0}},
                  "g.xlsx > S|a: 1970-01-01 12:00; b: 12:00; c: 7\n#");
    gives_archive(*state, "c.docx",
                  (entry[]){{"word/document.xml", "<d><p><r><t>e</t><noBreakHyphen/><t>mail</t></r></p></d>"}, {0}},
                  "c.docx|e-mail\n\n#");
}

static void a_document_is_where_the_relations_say(void **state)
{
    gives_archive(*state, "b.docx",
                  (entry[]){{"_rels/.rels", "<R><Relationship Id='x' Type='http://o/officeDocument' "
                                            "Target='/word/document2.xml'/></R>"},
                            {"word/document2.xml", "<d><p><pPr><pStyle val='T'/></pPr><r><t>Leases</t></r></p></d>"},
                            {"word/_rels/document2.xml.rels",
                             "<R><Relationship Id='a' Type='http://o/styles' Target='styles2.xml'/></R>"},
                            {"word/styles2.xml", "<s><style styleId='T'><name val='Title'/></style></s>"},
                            {0}},
                  "Leases|# Leases\n\n#");
    gives_archive(*state, "c.docx", /* folders in folders; a link is no part, whatever it is called */
                  (entry[]){{"_rels/.rels", "<R><Relationship Id='y' Type='http://o/officeDocument' "
                                            "TargetMode='External' "
                                            "Target='http://example.com/a.xml'/><Relationship Id='x' "
                                            "Type='http://o/officeDocument' Target='a/b/doc.xml'/></R>"},
                            {"a/b/doc.xml", "<d><p><pPr><pStyle val='T'/></pPr><r><t>Leases</t></r></p></d>"},
                            {"a/b/_rels/doc.xml.rels",
                             "<R><Relationship Id='a' Type='http://o/styles' Target='s.xml'/></R>"},
                            {"a/b/s.xml", "<s><style styleId='T'><name val='Title'/></style></s>"},
                            {0}},
                  "Leases|# Leases\n\n#");
    gives_archive(*state, "d.docx", /* damaged relations: parts have their usual names */
                  (entry[]){{"_rels/.rels", "<R><Relationship Id='x' Type="},
                            {"word/document.xml", "<d><p><r><t>Leases</t></r></p></d>"},
                            {0}},
                  "d.docx|Leases\n\n#");
}

static void slides_are_pages_with_their_titles(void **state)
{
#define SLIDE(type, title, text)                                                                   \
    "<p:sld xmlns:p='urn:p' xmlns:a='urn:a'><p:sp><p:nvPr><p:ph " type                             \
    "/></p:nvPr><a:p><a:r><a:t>" title                                                             \
    "</a:t></a:r></a:p></p:sp><p:sp><p:nvPr><p:ph type='body'/></p:nvPr><a:p><a:r><a:t>" text      \
    "</a:t></a:r></a:p>"                                                                           \
    "</p:sp></p:sld>"
    gives_archive(*state, "s.pptx",
                  (entry[]){{"ppt/slides/slide10.xml", SLIDE("type='title'", "Last", "ten")},
                            {"ppt/slides/slide2.xml", SLIDE("type='ctrTitle'", "Harbour", "two")},
                            {"ppt/slides/_rels/slide2.xml.rels", "<x/>"},
                            {0}},
                  "Harbour|# Harbour\n\ntwo\n\n# Last\n\nten\n\n#{0:1}{16:2}");
}

/* What the speaker says, after the slide: without its number, its picture and its date. Damaged notes are left out. */
static void notes_of_slides_follow_them(void **state)
{
#define NOTES(file) "<R><Relationship Id='a' Type='http://o/slideLayout' Target='../l.xml'/>" \
                    "<Relationship Id='b' Type='http://o/notesSlide' Target='../n/" file "'/></R>"
#define SHAPE(type, text) "<p:sp><p:nvPr><p:ph type='" type "'/></p:nvPr>" \
                          "<a:p><a:r><a:t>" text "</a:t></a:r></a:p></p:sp>"
    char damaged[8000]; /* long enough that its beginning is read */
    snprintf(damaged, sizeof damaged, "<p:notes xmlns:p='urn:p' xmlns:a='urn:a'>%s%6000s<p:sp",
             SHAPE("body", "lost") "<a:p><a:t>half</a:t>", "");
    gives_archive(*state, "n.pptx",
                  (entry[]){{"ppt/slides/slide1.xml", SLIDE("type='title'", "Harbour", "one")},
                            {"ppt/slides/_rels/slide1.xml.rels", NOTES("1.xml")},
                            {"ppt/n/1.xml", "<p:notes xmlns:p='urn:p' xmlns:a='urn:a'>" SHAPE("sldNum", "7")
                                            SHAPE("body", "Greet the mayor.") SHAPE("dt", "May 5") "</p:notes>"},
                            {"ppt/slides/slide2.xml", SLIDE("type='title'", "Boats", "two")},
                            {"ppt/slides/_rels/slide2.xml.rels", NOTES("2.xml")},
                            {"ppt/n/2.xml", damaged},
                            {"ppt/slides/slide3.xml", SLIDE("type='title'", "Ropes", "three")},
                            {"ppt/slides/_rels/slide3.xml.rels", NOTES("none.xml")},
                            {0}},
                  "Harbour|# Harbour\n\none\n\nGreet the mayor.\n\n# Boats\n\ntwo\n\n# Ropes\n\nthree\n\n"
                  "#{0:1}{34:2}{48:3}");
    gives_archive(*state, "t.pptx",
                  (entry[]){{"ppt/slides/slide1.xml", SLIDE("type='title'", "Harbour", "one")},
                            {"ppt/slides/_rels/slide1.xml.rels", NOTES("1.xml")},
                            {"ppt/n/1.xml", "<p:notes xmlns:p='urn:p' xmlns:a='urn:a'>" SHAPE("dt", "May 5") "</p:notes>"},
                            {"ppt/slides/slide2.xml", "<p:sld xmlns:p='urn:p' xmlns:a='urn:a'><a:tbl><a:tr><a:tc><a:p>"
                                                      "<a:t>cell</a:t></a:p></a:tc></a:tr></a:tbl></p:sld>"},
                            {0}},
                  "Harbour|# Harbour\n\none\n\n\n| cell | \n\n#{0:1}{16:2}");
}

static void slides_of_odp_are_pages_with_their_notes(void **state)
{
#define FRAME(class, text) \
    "<draw:frame presentation:class='" class "'><draw:text-box>" text "</draw:text-box></draw:frame>"
#define P(text) "<text:p>" text "</text:p>"
#define NAMES "xmlns:o='urn:o' xmlns:draw='urn:d' xmlns:text='urn:t' xmlns:table='urn:b' xmlns:presentation='urn:p'"
    gives_archive(*state, "s.odp",
                  (entry[]){{"content.xml",
                             "<o:c " NAMES "><presentation:footer-decl>Velm</presentation:footer-decl>"
                             "<draw:page>" FRAME("title", P("Harbour<text:s/>of Velm")) FRAME("outline",
                             "<text:list><text:list-item>" P("ropes") "</text:list-item><text:list-item>" P("tar")
                             "</text:list-item></text:list>") "<presentation:notes><draw:page-thumbnail/>"
                             FRAME("notes", P("Greet the mayor.")) "</presentation:notes></draw:page>"
                             "<draw:page>" FRAME("subtitle", P("Boats") "<o:annotation>" P("no") "</o:annotation>")
                             "<draw:frame><table:table><table:table-row><table:table-cell>" P("a")
                             "</table:table-cell><table:table-cell/></table:table-row></table:table></draw:frame>"
                             "</draw:page></o:c>"},
                            {"meta.xml", "<m xmlns:dc='urn:dc'><dc:title>Talk</dc:title></m>"},
                            {0}},
                  "Harbour of Velm|# Harbour of Velm\n\n- ropes\n- tar\nGreet the mayor.\n\nBoats\n\n\n"
                  "| a | | \n\n#{0:1}{51:2}");
}

#define CELLS(attributes, text) "<table:table-cell " attributes ">" text "</table:table-cell>"
#define ROW(attributes, cells) "<table:table-row " attributes ">" cells "</table:table-row>"
#define NAMED_TABLE(name, rows) "<table:table table:name='" name "'>" rows "</table:table>"

static void sheets_of_ods_are_tables(void **state)
{
    gives_archive(
        *state, "d/s.ods",
        (entry[]){{"content.xml",
                   "<o:c " NAMES "><table:tracked-changes>" CELLS("", P("gone")) "</table:tracked-changes>"
                   NAMED_TABLE("Boats", "<table:table-column/>"
                         ROW("", CELLS("", P("name")) CELLS("", P("built")) CELLS("", P("a")) CELLS("", P("b")))
                         ROW("", CELLS("", P("Sea<text:tab/>Gull") P("II")) CELLS("o:value-type='date' "
                             "o:date-value='1931-05-01T00:00:00'", P("1. May 31"))
                             CELLS("table:number-columns-repeated='2'", P("x"))
                             CELLS("table:number-columns-repeated='16380'", ""))
                         ROW("table:number-rows-repeated='2'", CELLS("table:number-columns-repeated='4'", ""))
                         ROW("table:number-rows-repeated='2'", CELLS("", P("Tern") "<o:annotation>" P("no")
                             "</o:annotation>") "<table:covered-table-cell/>" CELLS("o:value-type='date' "
                             "o:date-value='2024-05-01T07:05:00'", P("")) CELLS("", P("1 &amp; 2")))
                         ROW("table:number-rows-repeated='1048570'",
                             CELLS("table:number-columns-repeated='16384'", "")))
                   NAMED_TABLE("Empty", ROW("", CELLS("", "")))
                   NAMED_TABLE("List", ROW("", CELLS("", P("only")))) "</o:c>"},
                  {0}},
        "s.ods > Boats|name: Sea Gull II; built: 1931-05-01; a: x; b: x\n"
        "name: Tern; built: ; a: 2024-05-01 07:05; b: 1 & 2\nname: Tern; built: ; a: 2024-05-01 07:05; b: 1 & 2\n"
        "#s.ods > List|only\n#");
}

static void refuses_archive(folder *f, const char *path, const entry *e, const char *why)
{
    sp_bytes got = {0}, data = packed(f, e);
    assert_int_equal(read_bytes(path, data.v, data.n, &got), SP_E_UNSUPPORTED);
    if (!strstr(sp_error_detail(), why)) fail_msg("\"%s\" lacks \"%s\"", sp_error_detail(), why);
    sp_vec_fini(&data);
    sp_vec_fini(&got);
}

static void damaged_files_of_opendocument_are_refused(void **state)
{
    static const char *const paths[] = {"a.ods", "a.odp"};
    for (int i = 0; i < 2; i++) {
        refuses_archive(*state, paths[i], (entry[]){{"content.xml", "<o:c"}, {0}}, "malformed XML");
        refuses_archive(*state, paths[i], (entry[]){{"content.xml", "<o:c xmlns:o='urn:o'/>"}, {0}}, "it has no ");
        refuses_archive(*state, paths[i], (entry[]){{"x", "y"}, {0}}, "not a document of this format");
    }
}

/* Files are numbered as slides were made; a slide that was taken out may still be in the archive. */
static void slides_are_in_the_order_of_the_presentation(void **state)
{
#define LIST(ids) "<p xmlns:r='urn:r'><sldMasterIdLst><sldMasterId id='1' r:id='m'/></sldMasterIdLst><sldIdLst>" ids \
                  "</sldIdLst></p>"
#define LINK(id, file) "<Relationship Id='" id "' Target='slides/" file "'/>"
    static const char links[] = "<R>" LINK("m", "slide3.xml") LINK("a", "slide1.xml") LINK("b", "slide2.xml")
        LINK("x", "intro.xml") LINK("y", "lost.xml") "</R>";
    entry e[] = {{"ppt/presentation.xml", LIST("<sldId id='256' r:id='b'/><sldId id='9' r:id='y'/>"
                                               "<sldId id='257' r:id='x'/><sldId id='300' r:id='a'/>")},
                 {"ppt/_rels/presentation.xml.rels", links},
                 {"ppt/slides/slide1.xml", SLIDE("", "Last", "one")},
                 {"ppt/slides/slide2.xml", SLIDE("", "First", "two")},
                 {"ppt/slides/slide3.xml", SLIDE("", "Taken", "out")},
                 {"ppt/slides/intro.xml", SLIDE("", "Middle", "intro")},
                 {0}};
    gives_archive(*state, "o.pptx", e,
                  "o.pptx|First\n\ntwo\n\nMiddle\n\nintro\n\nLast\n\none\n\n#{0:1}{12:2}{27:3}");
    e[0].content = LIST(""); /* all, by number */
    gives_archive(*state, "o.pptx", e,
                  "o.pptx|Last\n\none\n\nFirst\n\ntwo\n\nTaken\n\nout\n\n#{0:1}{11:2}{23:3}");
}

static void headers_footers_and_notes_are_read_once(void **state)
{
#define W(xml) "<w:d xmlns:w='urn:w'><w:p><w:r><w:t>" xml "</w:t></w:r></w:p></w:d>"
    gives_archive(*state, "a.docx",
                  (entry[]){{"word/document.xml", W("Body.")},
                            {"word/header1.xml", W("Lease no. 17")},
                            {"word/header2.xml", W("Lease no. 17")},
                            {"word/footer1.xml", W("Anna Berg, notary")},
                            {"word/footer2.xml", "<broken"},
                            {"word/footnotes.xml", W("1 Unless sold.")},
                            {"word/endnotes.xml", W("2 See the map.")},
                            {"word/comments.xml", W("Really?")},
                            {0}},
                  "a.docx|Body.\n\nLease no. 17\n\nAnna Berg, notary\n\n1 Unless sold.\n\n2 See the map.\n\n#");
}

/* -- what is left out ------------------------------------------------------------------------- */

static void navigation_of_a_page_is_left_out(void **state)
{
    gives("a.html",
          "<body><nav><a>Home</a> <a>Shop</a></nav><div role='navigation'>Up</div><ul "
          "role=menu><li>File</ul>"
          "<header>Velm</header><main><p>Text.</p></main><div role='main'>More.</div></body>",
          "a.html|Velm\n\nText.\n\nMore.#");
}

static void an_encrypted_pdf_is_named_so(void **state)
{
    refuses("a.pdf", "%PDF-1.7\ntrailer << /Encrypt 5 0 R >>\n%%EOF", "an encrypted PDF");
    refuses("a.pdf", "%PDF-1.7\n%%EOF", "a damaged or too large PDF");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_is_not_read),
        cmocka_unit_test(line_ends_are_line_feeds),
        cmocka_unit_test(marks_move_with_the_text),
        cmocka_unit_test(json_values_become_lines_with_their_paths),
        cmocka_unit_test(a_json_array_of_texts_is_documents),
        cmocka_unit_test(notebooks_become_markdown),
        cmocka_unit_test(xml_texts_have_the_names_of_their_elements),
        cmocka_unit_test(xml_entities_are_not_expanded),
        cmocka_unit_test(mail_is_its_subject_people_and_text),
        cmocka_unit_test(mail_parts_are_decoded_and_alternatives_read_once),
        cmocka_unit_test(mail_of_other_programs),
        cmocka_unit_test(mail_parts_end_at_lines_of_their_boundary),
        cmocka_unit_test(mail_has_boundaries_of_any_length),
        cmocka_unit_test(mail_parameters_are_read_as_written),
        cmocka_unit_test(mail_of_words_without_an_end_is_read_once),
        cmocka_unit_test(mail_has_a_number_of_parts_at_most),
        cmocka_unit_test(mail_that_nests_without_end_is_bounded),
        cmocka_unit_test(attachments_have_their_names),
        cmocka_unit_test(rtf_is_its_text),
        cmocka_unit_test(packed_texts_are_read_by_their_inner_name),
        FOLDER_TEST(spreadsheets_are_tables_with_the_names_of_their_columns),
        FOLDER_TEST(numbers_of_spreadsheets_have_15_digits),
        FOLDER_TEST(cells_without_a_place_follow_each_other),
        FOLDER_TEST(days_before_march_1900_are_as_spreadsheets_show_them),
        FOLDER_TEST(formats_are_read_as_spreadsheets_do),
        FOLDER_TEST(readings_hold_nothing),
        FOLDER_TEST(a_small_workbook_is_no_large_table),
        FOLDER_TEST(parts_of_a_workbook_are_where_its_relations_say),
        FOLDER_TEST(files_with_a_wrong_ending),
        FOLDER_TEST(times_are_no_fractions_of_a_day),
        FOLDER_TEST(dates_and_texts_of_other_programs_are_read),
        FOLDER_TEST(a_document_is_where_the_relations_say),
        FOLDER_TEST(slides_are_pages_with_their_titles),
        FOLDER_TEST(notes_of_slides_follow_them),
        FOLDER_TEST(slides_of_odp_are_pages_with_their_notes),
        FOLDER_TEST(sheets_of_ods_are_tables),
        FOLDER_TEST(damaged_files_of_opendocument_are_refused),
        FOLDER_TEST(slides_are_in_the_order_of_the_presentation),
        FOLDER_TEST(headers_footers_and_notes_are_read_once),
        cmocka_unit_test(navigation_of_a_page_is_left_out),
        cmocka_unit_test(an_encrypted_pdf_is_named_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
