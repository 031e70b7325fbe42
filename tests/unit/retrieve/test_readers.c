/* Readers of letters, JSON, notebooks, XML, mail, RTF, packed files and pages. */
#include <time.h>
#include <zlib.h>

#include "readings.h"

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
    /* words of two elements are two; what follows an element has not its name, nor has a blank name a line */
    gives("f.xml", "<a><p>one<b>two</b></p><e></e><q x='1' name=' '>three</q>four<e/>five</a>",
          "f.xml|p: one two\n\nq: three\nfour five\n#");
    gives("f.xml", "<a><b></b><c>x</c></a>", "f.xml|c: x\n\n#");
    gives("f.xml", "<a><e/>five</a>", "f.xml|five\n#");
    refuses("f.xml", "<a><b></a>", "malformed XML");
    refuses("f.xml", "", "XML of 0 bytes");
}

static sp_err take_lines(const sp_document *d, void *user)
{
    assert_int_equal(d->place, SP_PLACE_MARKED_LINES);
    for (size_t i = 0; i < d->n_marks; i++)
        SP_TRY(sp_bytes_addf(user, "{%zu:%lld}", d->marks[i].offset, (long long)d->marks[i].number));
    return SP_OK;
}

/* A passage is cited by the lines of the file that it is in. */
static void xml_texts_know_their_lines(void **state)
{
    static const char text[] = "<a>\n<b>x</b>\n\n<c>y</c>\n</a>";
    sp_bytes got = {0};
    sp_reading r = {.path = "f.xml", .fn = take_lines, .user = &got};
    assert_ok(sp_documents_read(&r, SP_DOC_XML, text, sizeof text - 1));
    assert_ok(sp_bytes_add(&got, "", 1));
    assert_string_equal(got.v, "{0:2}{5:4}");
    sp_vec_fini(&got);
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
        cmocka_unit_test(xml_texts_know_their_lines),
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
        cmocka_unit_test(navigation_of_a_page_is_left_out),
        cmocka_unit_test(an_encrypted_pdf_is_named_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
