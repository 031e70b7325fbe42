/* Readers of office files, which are archives: spreadsheets, slides, texts. */
#include "folder.h"

#include <zip.h>

#include "base/file.h"
#include "readings.h"

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

/* A cell is one field: line ends and blank elements are blanks, a table inside it is left out; a merged cell takes the
 * place that it covers, however often the one before it is repeated. */
static void cells_of_ods_are_fields(void **state)
{
    gives_archive(
        *state, "d/s.ods",
        (entry[]){{"content.xml",
                   "<o:c " NAMES ">"
                   NAMED_TABLE("Boats",
                         ROW("", CELLS("", P("name")) CELLS("", P("a")) CELLS("", P("b")) CELLS("", P("c")))
                         ROW("", CELLS("", P("Sea<text:s/>Gull\nII") "<table:table><table:table-row>"
                             CELLS("", P("inner")) "</table:table-row></table:table>")
                             CELLS("", P("one")) CELLS("", P("two")) CELLS("", P("three")))
                         ROW("", CELLS("", P("Tern")) CELLS("table:number-columns-repeated='2'", P("x"))
                             "<table:covered-table-cell/>")
                         ROW("", CELLS("table:number-columns-repeated='2'", P("Skua")) "<table:covered-table-cell/>"
                             CELLS("", P("end")))) "</o:c>"},
                  {0}},
        "s.ods > Boats|name: Sea Gull II; a: one; b: two; c: three\nname: Tern; a: x; b: x; c:\n"
        "name: Skua; a: Skua; b: ; c: end\n#");
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

/* What was read of a workbook before its damaged sheet is not found as a part of the next file. */
static void a_damaged_sheet_leaves_nothing_in_the_index(void **state)
{
    folder *f = *state;
    sp_bytes data = packed(
        f, (entry[]){{"xl/workbook.xml", "<w xmlns:r='urn:r'><sheets><sheet name='A' r:id='r1'/>"
                                         "<sheet name='B' r:id='r2'/></sheets></w>"},
                     {"xl/_rels/workbook.xml.rels", "<R><Relationship Id='r1' Target='worksheets/sheet1.xml'/>"
                                                    "<Relationship Id='r2' Target='worksheets/sheet2.xml'/></R>"},
                     {"xl/worksheets/sheet1.xml", "<w><sheetData><row><c t='str'><v>salaries</v></c></row>"
                                                  "</sheetData></w>"},
                     {"xl/worksheets/sheet2.xml", "<w><sheetData><row>"},
                     {0}});
    folder_write_n(f, "a.xlsx", data.v, data.n);
    folder_write(f, "b.txt", "The harbour opens at nine.");
    sp_index_stats s = folder_index(f);
    assert_true(s.n_files == 1 && s.n_chunks == 1 && s.n_all_chunks == 1 && s.n_skipped == 1);
    assert_string_equal(folder_ask(f, "salaries", 9), "");
    assert_string_equal(folder_ask(f, "harbour", 9), "b.txt:b.txt:The harbour opens at nine.\n");
    sp_vec_fini(&data);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
        FOLDER_TEST(cells_of_ods_are_fields),
        FOLDER_TEST(damaged_files_of_opendocument_are_refused),
        FOLDER_TEST(a_damaged_sheet_leaves_nothing_in_the_index),
        FOLDER_TEST(slides_are_in_the_order_of_the_presentation),
        FOLDER_TEST(headers_footers_and_notes_are_read_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
