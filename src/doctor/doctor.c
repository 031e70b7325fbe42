#include "doctor/doctor_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/options/config.h"
#include "cli/hub/hub.h"
#include "cli/json.h"
#include "cli/show.h"
#include "doctor/doctor.h"

enum { THREADS = 1024 /* at most */ };

static const char *const states[] = {"ok", "warning", "problem"};

json_t *doctor_say(doctor *d, doctor_state state, const char *name, const char *advice,
                   const char *fmt, ...)
{
    char value[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(value, sizeof value, fmt, ap);
    va_end(ap);
    char *shown = show_copy(value, 0);
    json_t *f = json_pack("{s:s, s:s, s:s, s:s}", "group", d->group, "name", name, "state",
                          states[state], "value", shown ? shown : "");
    free(shown);
    if (advice) json_object_set_new(f, "advice", json_string(advice));
    json_array_append_new(d->findings, f);
    d->has_problem |= state == DOCTOR_PROBLEM;
    return f;
}

void doctor_number(json_t *finding, const char *name, double value)
{
    json_object_set_new(finding, name, json_real(value));
}

/* -- printing -------------------------------------------------------------------------------- */

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static void print_text(const doctor *d)
{
    const char *group = "";
    size_t i;
    const json_t *f;
    json_array_foreach(d->findings, i, f)
    {
        if (strcmp(text_of(f, "group"), group) != 0)
            printf("%s%s\n", i ? "\n" : "", group = text_of(f, "group"));
        const char *state = text_of(f, "state");
        printf("  %-8s %-14s %s\n", state, text_of(f, "name"), text_of(f, "value"));
        if (*text_of(f, "advice")) printf("  %-8s %-14s -> %s\n", "", "", text_of(f, "advice"));
    }
}

static void print_json(const doctor *d)
{
    json_t *o = json_pack("{s:b, s:O}", "works", (int)!d->has_problem, "findings", d->findings);
    cli_print_json(o, JSON_INDENT(1) | JSON_REAL_PRECISION(7));
}

/* -- the command ----------------------------------------------------------------------------- */

static void say_config(doctor *d)
{
    const config_file *c = config_get();
    d->group = "settings";
    if (c->is_there)
        doctor_say(d, DOCTOR_OK, "config file", NULL, "%s, %zu settings", c->path, c->n);
    else
        doctor_say(d, DOCTOR_OK, "config file", NULL, "none%s%s%s", c->path ? " (" : "",
                   c->path ? c->path : "", c->path ? ")" : "");
}

/* check_options -- leaves in `why` what a context refuses; its kernels have a finding of their own. */
static void check_options(const doctor *d, char *why, size_t size)
{
    model_options m = *d->o;
    m.ctx.machine.cpu = NULL;
    if (!m.ctx.model) m.ctx.model = "any";
    cli_fail_to(why, size);
    if (model_options_check(&m) == 0) *why = '\0';
    cli_fail_to(NULL, 0);
}

static void say_options(doctor *d)
{
    const sp_context_opts *o = &d->o->ctx;
    const char *wrong = o->n_ctx < 0                                                 ? "--ctx-size"
                        : o->n_batch < 0                                             ? "--batch-size"
                        : o->machine.n_threads < 0 || o->machine.n_threads > THREADS ? "--threads"
                                                                                     : NULL;
    char why[1024] = "";
    if (wrong)
        doctor_say(d, DOCTOR_PROBLEM, "options", "give a positive number, or leave it out",
                   "%s is out of range", wrong);
    else
        check_options(d, why, sizeof why);
    if (*why) doctor_say(d, DOCTOR_PROBLEM, "options", "give another value, or leave it out", "%s", why);
}

int doctor_main(int argc, char **argv)
{
    bool as_json = false;
    model_options m;
    model_options_init(&m);
    for (opt *o = m.table; o->kind != OPT_END; o++) {
        o->required = o->is_model = false;
        o->limits = (opt_limits){0}; /* what is out of range is a finding */
    }
    const opt table[] = {{OPT_FLAG, "json", 0, NULL, &as_json, "print JSON", .common = true}, {0}};
    const opt *const tables[] = {table, m.table, NULL};
    int at = opt_parse(
        argc, argv,
        &(opt_usage){
            "doctor [-m MODEL] [options]",
            "Checks this machine, and with -m what the model needs and how fast it will be, measured\n"
            "on some of its layers. Give it the options that ask or serve will have.\n"
            "The exit code is 1 when something will not work."},
        tables);
    if (at < 0) return -1 - at;
    if (at != argc) return cli_fail_with("doctor: unexpected \"%s\"", argv[at]), 2;
    bool of_hub = m.ctx.model && strncmp(m.ctx.model, HUB_PREFIX, strlen(HUB_PREFIX)) == 0;
    if (of_hub && !hub_find_model(&m.ctx.model)) return 1;
    doctor d = {.o = &m, .findings = json_array()};
    doctor_machine(&d);
    doctor_store(&d);
    say_config(&d);
    say_options(&d);
    if (m.ctx.model) doctor_model(&d);
    (as_json ? print_json : print_text)(&d);
    json_decref(d.findings);
    return d.has_problem ? 1 : 0;
}
