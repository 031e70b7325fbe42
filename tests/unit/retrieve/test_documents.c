/* The readers: what each makes of a file, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "retrieve/documents/readers_int.h"

/* Everything a reader gave, as "title|text" lines with the line number of JSONL in front. */
static sp_err take(const sp_document *d, void *user)
{
    return sp_bytes_addf(user, "%s%lld:%.*s|%.*s", ((sp_bytes *)user)->n ? "\n" : "",
                         (long long)d->line, (int)d->n_title, d->title, (int)d->n, d->text);
}

static sp_err read_as(const char *path, const char *data, size_t n, sp_bytes *out)
{
    sp_reading r = {.path = path, .fn = take, .user = out, .strict = true};
    return sp_documents_read(&r, sp_document_format(path), data, n);
}

static void assert_read(const char *path, const char *data, const char *expected)
{
    sp_bytes got = {0};
    sp_err err = read_as(path, data, strlen(data), &got);
    if (err != SP_OK) fail_msg("%s", sp_error_detail());
    assert_int_equal(sp_bytes_add(&got, "", 1), SP_OK);
    assert_string_equal(got.v, expected);
    sp_vec_fini(&got);
}

static void assert_refused(const char *path, const char *data, size_t n, sp_err code,
                           const char *detail)
{
    sp_bytes got = {0};
    assert_int_equal(read_as(path, data, n, &got), code);
    assert_non_null(strstr(sp_error_detail(), path));
    if (!strstr(sp_error_detail(), detail))
        fail_msg("\"%s\" lacks \"%s\"", sp_error_detail(), detail);
    sp_vec_fini(&got);
}

static void assert_markdown(const char *html, const char *expected)
{
    sp_bytes text = {0}, title = {0};
    assert_int_equal(sp_html_to_markdown(html, strlen(html), &text, &title, NULL), SP_OK);
    assert_int_equal(sp_bytes_add(&text, "", 1), SP_OK);
    assert_string_equal(text.v, expected);
    sp_vec_fini(&text);
    sp_vec_fini(&title);
}

static void the_suffix_is_the_format(void **state)
{
    assert_int_equal(sp_document_format("a.txt"), SP_DOC_TEXT);
    assert_int_equal(sp_document_format("b/c.d/A.TXT"), SP_DOC_TEXT);
    assert_int_equal(sp_document_format("a.md"), SP_DOC_MARKDOWN);
    assert_int_equal(sp_document_format("a.markdown"), SP_DOC_MARKDOWN);
    assert_int_equal(sp_document_format("a.jsonl"), SP_DOC_JSONL);
    assert_int_equal(sp_document_format("a.htm"), SP_DOC_HTML);
    assert_int_equal(sp_document_format("a.html"), SP_DOC_HTML);
    assert_int_equal(sp_document_format("a.json"), SP_DOC_JSON);
    assert_int_equal(sp_document_format("a.txt.gz"), SP_DOC_GZIP);
    assert_int_equal(sp_document_format("txt"), SP_DOC_NONE);
    assert_int_equal(sp_document_format("a."), SP_DOC_NONE);
    assert_int_equal(sp_document_format("a.PDF"), SP_DOC_PDF);
    assert_int_equal(sp_document_format("a.docx"), SP_DOC_DOCX);
    assert_int_equal(sp_document_format("a.odt"), SP_DOC_ODT);
    assert_int_equal(sp_document_format("a.epub"), SP_DOC_EPUB);
    assert_int_equal(sp_document_format("a.csv"), SP_DOC_CSV);
    assert_int_equal(sp_document_format("a.tsv"), SP_DOC_TSV);
    assert_int_equal(sp_document_format("a.rst"), SP_DOC_RST);
    assert_int_equal(sp_document_format("a.py"), SP_DOC_CODE);
    assert_int_equal(sp_document_format("d/Makefile"), SP_DOC_CODE);
    assert_int_equal(sp_document_format("README"), SP_DOC_TEXT);
    assert_int_equal(sp_document_format("Makefile.png"), SP_DOC_NONE);
}

static void text_has_the_name_of_its_file(void **state)
{
    assert_read("some/notes.txt", "# words\n", "0:notes.txt|# words\n");
    assert_read("empty.txt", "", "0:empty.txt|");
    assert_read("bom.txt", "\xEF\xBB\xBFwords", "0:bom.txt|words");
}

static void markdown_has_the_name_of_its_first_heading(void **state)
{
    assert_read("a.md", "intro\n\n## Two ##\n# One\n", "0:Two|intro\n\n## Two ##\n# One\n");
    assert_read("a.md", "Title\n=====\n", "0:Title|Title\n=====\n");
    assert_read("a.md", "#\n\n# Later\n", "0:Later|#\n\n# Later\n");
    assert_read("x/a.md", "```\n# code\n```\n", "0:a.md|```\n# code\n```\n");
}

static void what_is_no_text_is_refused(void **state)
{
    assert_refused("a.txt", "a\0b", 3, SP_E_UNSUPPORTED, "not a text file");
    assert_refused("a.html", "<p>a\0b", 6, SP_E_UNSUPPORTED, "not a text file");
    assert_refused("a.txt",
                   "\x7F"
                   "ELF\x02\x01\x01\xE9",
                   8, SP_E_UNSUPPORTED, "not a text file");
    assert_refused("a.jsonl", "{\"text\": \"\xE9\"}", 13, SP_E_FORMAT, "a.jsonl:1:");
}

static void assert_read_n(const char *path, const char *data, size_t n, const char *expected)
{
    sp_bytes got = {0};
    sp_err err = read_as(path, data, n, &got);
    if (err != SP_OK) fail_msg("%s", sp_error_detail());
    assert_int_equal(sp_bytes_add(&got, "", 1), SP_OK);
    assert_string_equal(got.v, expected);
    sp_vec_fini(&got);
}

static void other_encodings_are_converted(void **state)
{
    assert_read("a.txt", "caf\xE9", "0:a.txt|caf\xC3\xA9");
    assert_read("a.html", "<p>caf\xE9", "0:a.html|caf\xC3\xA9");
    assert_read("a.txt", "\x93quoted\x94 text", "0:a.txt|\xE2\x80\x9Cquoted\xE2\x80\x9D text");
    assert_read_n("a.txt",
                  "\xFF\xFE"
                  "a\0\xE9\0",
                  6, "0:a.txt|a\xC3\xA9");
    assert_read_n("a.txt", "\xFE\xFF\0a\0\xE9", 6, "0:a.txt|a\xC3\xA9");
    assert_read_n("a.md", "#\0 \0H\0i\0", 8, "0:Hi|# Hi");
    assert_read_n("a.md", "\0#\0 \0H\0i", 8, "0:Hi|# Hi");
    assert_read_n("a.txt", "\xFF\xFE\0\0a\0\0\0", 8, "0:a.txt|a"); /* UTF-32 */
    assert_read("a.txt", "caf\xE9 \x81", "0:a.txt|caf\xC3\xA9 \xC2\x81"); /* Windows-1252 has no 81 */
    assert_read("a.txt", "\x1B$BEl5~\x1B(B x", "0:a.txt|\xE6\x9D\xB1\xE4\xBA\xAC x"); /* ISO-2022-JP */
    assert_read("a.html", "<meta charset=iso-2022-jp><p>\x1B$BEl5~\x1B(B", "0:a.html|\xE6\x9D\xB1\xE4\xBA\xAC");
    assert_read("a.txt", "\x1B$)C\x0E" "5n4k\x0F", "0:a.txt|\xEB\x93\xB1\xEB\x8C\x80"); /* ISO-2022-KR */
    assert_read("a.txt", "\x1B$~ costs \x1B[1m5\x1B[0m", "0:a.txt|\x1B$~ costs \x1B[1m5\x1B[0m"); /* of a terminal */
    assert_read_n("a.txt", "\xFF\xFE", 2, "0:a.txt|");
    assert_read_n("a.csv",
                  "\xFF\xFE"
                  "a\0,\0b\0\n\0",
                  10, "0:a.csv|a; b\n");
    /* GB 18030: "artificial intelligence changes how we live and work" */
    assert_read("a.txt",
                "\xC8\xCB\xB9\xA4\xD6\xC7\xC4\xDC\xD5\xFD\xD4\xDA\xB8\xC4\xB1\xE4\xCE\xD2\xC3"
                "\xC7\xB5\xC4\xC9\xFA\xBB\xEE\xB7\xBD\xCA\xBD\xA1\xA3",
                "0:a.txt|人工智能正在改变我们的生活方式。");
    /* one bad byte in a text that is UTF-8 otherwise */
    assert_read("a.txt", "éèéèéèéèéèéè \xFF.", "0:a.txt|éèéèéèéèéèéè \xEF\xBF\xBD.");
    assert_read("a.txt", "éè \xFF", "0:a.txt|\u00C3\u00A9\u00C3\u00A8 \u00FF"); /* too few letters for one bad byte */
    /* cut within its last character */
    assert_read("a.txt", "le café, déj\xC3", "0:a.txt|le café, déj\xEF\xBF\xBD");
    assert_read("a.txt", "5 € or 6 \xE2\x82", "0:a.txt|5 € or 6 \xEF\xBF\xBD");
    assert_read("a.txt", "an \xF0\x9F\x90\xAC and an \xF0\x9F\x90",
                "0:a.txt|an \xF0\x9F\x90\xAC and an \xEF\xBF\xBD");
    assert_read("a.txt", "\xC0 la carte, caf\xC3\xA9", "0:a.txt|\u00C0 la carte, caf\u00C3\u00A9"); /* not cut */
}

static void tables_name_their_columns(void **state)
{
    assert_read("a.csv", "name,height\nZugspitze,2962\r\n\"Watz\nmann\",\"27\"\"13\"\n",
                "0:a.csv|name: Zugspitze; height: 2962\nname: Watz mann; height: 27\"13\n");
    assert_read("a.csv", "a;b;c\n1;;3;4\n", "0:a.csv|a: 1; b: ; c: 3; 4\n");
    assert_read("a.csv", "a,b,c\n,2,\n1,,3\n,,\n1,2\n1,2,\n", /* more columns without a value than with one */
                "0:a.csv|b: 2\na: 1; b: ; c: 3\na: 1; b: 2; c:\na: 1; b: 2; c:\n");
    assert_read("a.csv", "a,,c\n1,,3\n", "0:a.csv|a: 1; c: 3\n"); /* a column without a name */
    assert_read("a.tsv", "a\tb\n\"1\t2\n", "0:a.tsv|a: \"1; b: 2\n");
    assert_read("a.csv", "sep=|\r\na;b|c\n1|2\n", "0:a.csv|a;b: 1; c: 2\n"); /* of a spreadsheet program */
    assert_read("a.csv", "sep=one\nsep=;", "0:a.csv|sep=one\nsep=;\n");
    assert_read("a.csv", "\"a, b, c\";d\n1;2\n", "0:a.csv|a, b, c: 1; d: 2\n");
    assert_read("a.csv", "a\tb\n1\t2\n", "0:a.csv|a: 1; b: 2\n");
    assert_read("a.csv", "a|b\n1|2\n", "0:a.csv|a: 1; b: 2\n");
    assert_read("a.csv", "only,names\n", "0:a.csv|only; names\n");
    assert_read("a.csv", "one\ntwo\n", "0:a.csv|one\ntwo\n");
    assert_read("a.csv", "a,b\n\"open, 1\n2", "0:a.csv|a: open, 1 2; b:\n");
    assert_read("a.csv", "", "0:a.csv|");
}

static sp_err take_lines(const sp_document *d, void *user)
{
    for (size_t i = 0; i < d->n_marks; i++) SP_TRY(sp_bytes_addf(user, "%lld ", (long long)d->marks[i].number));
    return SP_OK;
}

/* assert_lines -- the lines of the file that rows begin in. */
static void assert_lines(const char *path, const char *data, const char *expected)
{
    sp_bytes got = {0};
    sp_reading r = {.path = path, .fn = take_lines, .user = &got, .strict = true};
    assert_int_equal(sp_documents_read(&r, sp_document_format(path), data, strlen(data)), SP_OK);
    assert_int_equal(sp_bytes_add(&got, "", 1), SP_OK);
    assert_string_equal(got.v, expected);
    sp_vec_fini(&got);
}

static void rows_of_tables_have_lines(void **state)
{
    assert_lines("a.csv", "a,b\n1,2\n\n3,4\n", "2 4 ");
    assert_lines("a.csv", "a,b\n\"x\ny\",1\n2,3\n", "2 4 ");
    assert_lines("a.csv", "sep=;\na;b\n1;2\n", "3 ");
}

/* Long names of columns are cut: they are repeated in every row. A quote inside of a cell is one. */
static void names_of_columns_are_short(void **state)
{
    char name[80], text[160], want[160];
    memset(name, 'x', sizeof name);
    memcpy(name + 63, "\xC3\xA9y", 4);
    snprintf(text, sizeof text, "%s,b\n1,2\n", name);
    snprintf(want, sizeof want, "0:a.csv|%.63s: 1; b: 2\n", name);
    assert_read("a.csv", text, want);
    memcpy(name + 62, "\xC3\xA9y", 4);
    snprintf(text, sizeof text, "%s,b\n1,2\n", name);
    snprintf(want, sizeof want, "0:a.csv|%.64s: 1; b: 2\n", name);
    assert_read("a.csv", text, want);
    assert_read("a.csv", "a,b\n5\" wide,x\n", "0:a.csv|a: 5\" wide; b: x\n");
}

static void rst_has_the_name_of_its_first_heading(void **state)
{
    assert_read("a.rst", "Guide\n=====\n\ntext\n", "0:Guide|Guide\n=====\n\ntext\n");
    assert_read("a.rst", "~~~~~~\n Over\n~~~~~~\n", "0:Over|~~~~~~\n Over\n~~~~~~\n");
    assert_read("a.rst", "Go\n==\n\ntext\n", "0:Go|Go\n==\n\ntext\n");
    assert_read("a.rst", "C\n=\n\ntext\n", "0:a.rst|C\n=\n\ntext\n"); /* one mark is no line */
    assert_read("a.rst", "text\n\n----\n\ntext\n", "0:a.rst|text\n\n----\n\ntext\n");
    assert_read("a.rst", "too long\n---\n", "0:a.rst|too long\n---\n");
}

static void jsonl_is_a_document_a_line(void **state)
{
    assert_read("a.jsonl", "\xEF\xBB\xBF{\"text\": \"a\"}\n", "1:|a"); /* a mark that it is UTF-8 */
    assert_read("a.jsonl",
                "{\"title\": \"T\", \"text\": \"one\"}\n"
                "\r\n"
                "{\"content\": \"two\", \"id\": 123456789012345678901234567890}\r\n"
                "  {\"contents\": \"caf\\u00e9\", \"title\": null}",
                "1:T|one\n3:|two\n4:|caf\xC3\xA9");
    assert_read("a.jsonl", "", "");
    assert_read("a.jsonl", "\n\n", "");
    assert_read("a.jsonl", "{\"text\": \"a\\u0000b\", \"title\": \"\\u0000\"}", "1: |a b");
    assert_read("a.jsonl", "{\"text\": \"\"}", "1:|");
}

static void bad_lines_of_jsonl_are_named(void **state)
{
    static const struct {
        const char *data, *detail;
    } cases[] = {
        {"{\"text\": \"a\"}\n{\"text\": ", "a.jsonl:2:"},
        {"{\"text\": \"a\"}\n\n[1]\n", ":3: not a JSON object"},
        {"\"text\"", ":1:"},
        {"{\"title\": \"t\"}", ":1: no field text"},
        {"{\"text\": 5}", ":1: field text is not a string"},
        {"{\"content\": null}", "field content is not a string"},
        {"{\"text\": \"a\"} extra", ":1:"},
        {"{\"text\": \"\\ud800\"}", ":1:"},
        {"{'text': 'a'}", ":1:"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++)
        assert_refused("d/a.jsonl", cases[i].data, strlen(cases[i].data), SP_E_FORMAT,
                       cases[i].detail);
}

static void jsonl_nested_without_end_is_an_error(void **state)
{
    static char deep[100000];
    memset(deep, '[', sizeof deep);
    assert_refused("a.jsonl", deep, sizeof deep, SP_E_FORMAT, ":1:");
}

static void html_becomes_markdown(void **state)
{
    assert_markdown("<h1>A <em>b</em></h1><p>One&nbsp;two<br>three &amp; four.</p>tail",
                    "# A b\n\nOne two\nthree & four.\n\ntail");
    assert_markdown("<p><ruby>東京<rp>(</rp><rt>とうきょう</rt><rp>)</rp></ruby>に", "東京に");
    assert_markdown("<ul><li>one<li><p>two</p><ul><li>in</ul></ul><ol><li>a<li>b</ol>",
                    "- one\n- two\n  - in\n\n1. a\n2. b");
    assert_markdown("<ol start='3'><li>a<li value=7>b<li>c</ol><ol start='-1'><li value='x'>d<li>e</ol>"
                    "<ol start=''><li>f</ol>",
                    "3. a\n7. b\n8. c\n\n-1. d\n0. e\n\n1. f");
    assert_markdown("<ol reversed><li>a<li hidden>-<li>b<li>c</ol>"
                    "<ol reversed start=' +9.'><li>d<li value=4>e<li>f</ol>",
                    "3. a\n2. b\n1. c\n\n9. d\n4. e\n3. f");
    assert_markdown(
        "<p>x</p><table><caption>C</caption><tr><th>A<th>B<tr><td><p>1</p><td>2<br>3</table>y",
        "x\n\nC\n| A | B |\n| 1 | 2 3 |\n\ny");
    assert_markdown("<table><tr><td><h2>L</h2>text<td><ul><li>x</ul></table>",
                    "## L\n\ntext\n\n- x");
    assert_markdown("<pre>a  b\n  c</pre>d", "```\na  b\n  c\n```\n\nd");
    assert_markdown("<dl><dt>T<dd>D</dl>", "T\nD");
    assert_markdown("<h2><div></div></h2><ul><li></ul><p>x", "x");
    assert_markdown("<h2></h2><p>x", "x");
    assert_markdown("<table><tr><td><ul><li>x</ul></table>", "- x");
    assert_markdown("<ul><li><pre>a</pre></ul>", "```\na\n```");
    assert_markdown("in<b>li</b>ne", "inline");
}

static void html_leaves_out_what_is_not_seen(void **state)
{
    assert_markdown(
        "<head><title>T</title><style>s{}</style></head><script>var x = '<p>no</p>'</script>"
        "<!-- no --><p hidden>no</p><div role=search>no</div><template>no</template><noscript>no</noscript><p>yes",
        "yes");
    assert_markdown("<p style='color: red; Display : NONE'>no<p style='visibility:hidden!important'>no"
                    "<p style='display:none'>no<p style='display:nonesuch'>a<p style='--display:none'>b<p style=''>c"
                    "<p style='background:url(display:none)'>d",
                    "a\n\nb\n\nc\n\nd");
    assert_markdown("<p style='-x-display:none;display:none'>no<p style='display:none;display:block'>a"
                    "<p style='visibility:hidden;visibility:visible'>b<p style='display:block;;display:none;'>no",
                    "a\n\nb");
    assert_markdown("<p style='/* x */ display:none'>no<p style='display/**/:/* ; */none/* */'>no"
                    "<p style=' dis\\70lay\n:\tn\\00006f\n\\nE! IMPORTANT ;color:red'>no"
                    "<p style='visibility : /**/Collapse;'>no"
                    "<p style='color:red;/* */;/* */display:none'>no<p style='display:none /* x'>no"
                    "<p style='/* display:none */'>a<p style='/* display:none'>b<p style='dis/**/play:none'>c"
                    "<p style='display:none !ie'>d<p style='display:none block'>e<p style='display:none}'>f"
                    "<p style='display none'>g<p style='display:n\\'>h",
                    "a\n\nb\n\nc\n\nd\n\ne\n\nf\n\ng\n\nh");
    assert_markdown("<p style='display:none!important;display:block'>no"
                    "<p style='display:block!important;display:none'>a"
                    "<p style='visibility:hidden!important;visibility:visible!important'>b"
                    "<p style='display:none!important;display:block! /**/ important'>c",
                    "a\n\nb\n\nc");
    assert_markdown("<p style='content:\"; display:none;\"'>a<p style='background:url(a;display:none;b)'>b"
                    "<p style='content:\"\\\";display:none;\"'>c<p style='--x:{a:b;display:none;}'>d"
                    "<p style='--x:[(;];display:none);'>e<p style='x:\\;display:none'>f"
                    "<p style='x:\"!important\";display:none'>no"
                    "<p style='background:url(a);display:none'>no<p style='x:);display:none'>no"
                    "<p style='x:URL(//a/*\"(.png);display:none'>no<p style='x:url( \")\";display:none)'>g",
                    "a\n\nb\n\nc\n\nd\n\ne\n\nf\n\ng");
    assert_markdown("<html hidden><body style='display:none'><p>until a script shows it", "until a script shows it");
    assert_markdown("<table><tr><td>a<td>b<div hidden><ul><li>c</ul></div></table>", "| a | b |");
    assert_markdown("", "");
    assert_markdown("<script>only</script>", "");
    assert_markdown("<!DOCTYPE html SYSTEM \"http://localhost:1/x.dtd\"><p>a&unknown;b</p>",
                    "a&unknown;b");
}

static void html_has_a_title_of_some_kind(void **state)
{
    assert_read("a.html", "<title>T</title><h2>H</h2>x", "0:H|## H\n\nx");
    assert_read("a.html", "<title> T\n t </title>x", "0:T t|x");
    assert_read("a.html", "<title>T</title><title>U</title>x", "0:T|x");
    assert_read("d/a.html", "x", "0:a.html|x");
    assert_read("d/a.html", "", "0:a.html|");
}

static void html_is_read_in_the_encoding_it_declares(void **state)
{
    assert_read("a.html", "<p>caf\xC3\xA9", "0:a.html|caf\xC3\xA9");
    assert_read("a.html", "<meta charset=\"iso-8859-1\"><p>caf\xE9", "0:a.html|caf\xC3\xA9");
    assert_read("a.html", "<META content='text/html; Charset = windows-1251' http-equiv=content-type><p>\xE4\xE0",
                "0:a.html|да");
    assert_read("a.html", "<?xml version='1.0' encoding='koi8-r'?><html><p>\xC4\xC1</html>", "0:a.html|да");
    assert_read("a.html", "<!-- <meta charset=koi8-r> --><meta charset=windows-1251 ><p>\xE4\xE0", "0:a.html|да");
    /* "Latin-1" and "GB 2312" are what browsers take them for */
    assert_read("a.html", "<meta charset=latin1><p>\x93quoted\x94", "0:a.html|\u201Cquoted\u201D");
    assert_read("a.html", "<meta charset=gb2312><p>\x81\x30\x84\x36 \xE6\x98", "0:a.html|\u00A5 鏄");
    /* few bad bytes in it cost no more than themselves */
    assert_read("a.html", "<meta charset=shift_jis><p>\x93\x8C\x8B\x9E \xFF \x93\x8C\x8B\x9E\x93\x8C\x8B\x9E",
                "0:a.html|東京 \xEF\xBF\xBD 東京東京");
    /* a page that says UTF-8: few letters are enough to believe it, and it may not be true */
    assert_read("a.html", "<meta charset=utf-8><p>d\u00E9j\u00E0 vu \xFF \u00E9t\u00E9",
                "0:a.html|d\u00E9j\u00E0 vu \xEF\xBF\xBD \u00E9t\u00E9");
    assert_read("a.html", "<meta charset=utf-8><p>caf\xE9", "0:a.html|caf\xC3\xA9");
}

/* A page in another encoding than it declares: some of it may be read, but nothing is printed. */
static void html_of_a_wrong_encoding_prints_nothing(void **state)
{
    static const char page[] = "<meta charset=\"shift_jis\"><p>\xDB\xD3 \xFF\xFF xx";
    char name[] = "/tmp/spolia-XXXXXX";
    int saved = dup(STDERR_FILENO), file = mkstemp(name);
    assert_true(saved >= 0 && file >= 0);
    fflush(stderr);
    dup2(file, STDERR_FILENO);
    sp_bytes text = {0};
    sp_err err = read_as("a.html", page, sizeof page - 1, &text);
    fflush(stderr);
    off_t printed = lseek(file, 0, SEEK_END);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(file);
    unlink(name);
    sp_vec_fini(&text);
    assert_true(err == SP_OK || err == SP_E_UNSUPPORTED);
    assert_int_equal(printed, 0);
}

static void deep_html_costs_no_stack(void **state)
{
    static char deep[400002];
    for (size_t i = 0; i < 400000; i += 5) memcpy(deep + i, "<div>", 5);
    memcpy(deep + 400000, "x", 2);
    sp_bytes text = {0}, title = {0};
    assert_int_equal(sp_html_to_markdown(deep, strlen(deep), &text, &title, NULL), SP_OK);
    assert_true(text.n == 1 && text.v[0] == 'x'); /* all of it is read */
    sp_vec_fini(&text);
    sp_vec_fini(&title);
}

static sp_err read_tags(int n, const char *tag, int n_more, const char *more)
{
    sp_bytes html = {0}, text = {0}, title = {0};
    for (int i = 0; i < n; i++) assert_int_equal(sp_bytes_addf(&html, "%s", tag), SP_OK);
    for (int i = 0; i < n_more; i++) assert_int_equal(sp_bytes_addf(&html, "%s", more), SP_OK);
    sp_err err = sp_html_to_markdown(html.v, html.n, &text, &title, NULL);
    sp_vec_fini(&html);
    sp_vec_fini(&text);
    sp_vec_fini(&title);
    return err;
}

/* Each end tag that closes nothing is looked for in all open elements. */
static void errors_in_deep_html_have_a_limit(void **state)
{
    assert_int_equal(read_tags(3000, "<b>", 100000, "</i>x"), SP_OK);
    assert_int_equal(read_tags(200000, "<b>x", 1000, "<p>y</p>"), SP_OK);
    assert_int_equal(read_tags(200000, "<b>", 6000, "</i>"), SP_E_LIMIT);
    assert_non_null(strstr(sp_error_detail(), "too many errors"));
    assert_markdown("<b>x</i>y", "xy");
}

static sp_err read_all(sp_bytes *out)
{
    static const char html[] = "<title>T</title><h1>A</h1><ul><li>b</ul><table><tr><td>c</table>";
    static const char jsonl[] = "{\"text\": \"a\"}\n{\"text\": \"b\"}";
    SP_TRY(read_as("a.html", html, sizeof html - 1, out));
    SP_TRY(read_as("a.jsonl", jsonl, sizeof jsonl - 1, out));
    return read_as("a.md", "# H\n", 4, out);
}

static void running_out_of_memory_is_an_error(void **state)
{
    sp_err err = SP_E_NOMEM;
    int allocation = 1;
    for (; err != SP_OK; allocation++) {
        assert_in_range(allocation, 1, 1000);
        sp_bytes out = {0};
        sp_fault_after(allocation);
        err = read_all(&out);
        sp_fault_after(-1);
        sp_vec_fini(&out);
        assert_true(err == SP_OK || err == SP_E_NOMEM);
    }
    assert_true(allocation > 5);
}

static void an_empty_file_without_an_address_is_an_empty_text(void **state)
{
    sp_bytes own = {0};
    const char *text = NULL;
    size_t n = 1;
    assert_int_equal(sp_text_decode(NULL, 0, &own, &text, &n), SP_OK);
    assert_non_null(text);
    assert_int_equal(n, 0);
    sp_vec_fini(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_suffix_is_the_format),
        cmocka_unit_test(text_has_the_name_of_its_file),
        cmocka_unit_test(markdown_has_the_name_of_its_first_heading),
        cmocka_unit_test(what_is_no_text_is_refused),
        cmocka_unit_test(other_encodings_are_converted),
        cmocka_unit_test(an_empty_file_without_an_address_is_an_empty_text),
        cmocka_unit_test(tables_name_their_columns),
        cmocka_unit_test(rows_of_tables_have_lines),
        cmocka_unit_test(names_of_columns_are_short),
        cmocka_unit_test(rst_has_the_name_of_its_first_heading),
        cmocka_unit_test(jsonl_is_a_document_a_line),
        cmocka_unit_test(bad_lines_of_jsonl_are_named),
        cmocka_unit_test(jsonl_nested_without_end_is_an_error),
        cmocka_unit_test(html_becomes_markdown),
        cmocka_unit_test(html_leaves_out_what_is_not_seen),
        cmocka_unit_test(html_has_a_title_of_some_kind),
        cmocka_unit_test(html_is_read_in_the_encoding_it_declares),
        cmocka_unit_test(html_of_a_wrong_encoding_prints_nothing),
        cmocka_unit_test(deep_html_costs_no_stack),
        cmocka_unit_test(errors_in_deep_html_have_a_limit),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
