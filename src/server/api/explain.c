#include "server/api/explain.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct account {
    struct account *older, *newer;
    char *salt, *id, *other_id; /* salt "": no tenant */
    json_t *o;
} account;

struct srv_explain {
    pthread_mutex_t lock; /* guards the following */
    account *newest, *oldest;
    int n;
};

srv_explain *srv_explain_open(void)
{
    srv_explain *x = calloc(1, sizeof *x);
    if (x) pthread_mutex_init(&x->lock, NULL);
    return x;
}

static void free_account(account *a)
{
    free(a->salt);
    free(a->id);
    free(a->other_id);
    json_decref(a->o);
    free(a);
}

static void drop(srv_explain *x, account *a)
{
    *(a->newer ? &a->newer->older : &x->newest) = a->older;
    *(a->older ? &a->older->newer : &x->oldest) = a->newer;
    x->n--;
    free_account(a);
}

void srv_explain_close(srv_explain *x)
{
    if (!x) return;
    while (x->oldest) drop(x, x->oldest);
    pthread_mutex_destroy(&x->lock);
    free(x);
}

/* limit -- the oldest of a tenant that has too many, and then of all, goes. */
static void limit(srv_explain *x, const char *salt)
{
    int n = 0;
    for (account *a = x->newest; a; a = a->older) {
        if (strcmp(a->salt, salt) != 0 || ++n <= SRV_EXPLAINED) continue;
        drop(x, a);
        break;
    }
    while (x->n > SRV_EXPLAINED_ALL) drop(x, x->oldest);
}

void srv_explain_add(srv_explain *x, const char *salt, const char *id, const char *other_id,
                     json_t *o)
{
    account *a = calloc(1, sizeof *a);
    if (!a) {
        json_decref(o);
        return;
    }
    *a = (account){
        .salt = strdup(salt ? salt : ""), .id = strdup(id), .other_id = strdup(other_id), .o = o};
    if (!a->salt || !a->id || !a->other_id || !o) {
        free_account(a);
        return;
    }
    pthread_mutex_lock(&x->lock);
    a->older = x->newest;
    *(a->older ? &a->older->newer : &x->oldest) = a;
    x->newest = a;
    x->n++;
    limit(x, a->salt);
    pthread_mutex_unlock(&x->lock);
}

json_t *srv_explain_get(srv_explain *x, const char *salt, const char *id)
{
    json_t *o = NULL;
    if (!salt) salt = "";
    pthread_mutex_lock(&x->lock);
    for (const account *a = x->newest; a && !o; a = a->older)
        if (strcmp(a->salt, salt) == 0 &&
            (strcmp(a->id, id) == 0 || (*id && strcmp(a->other_id, id) == 0)))
            o = json_deep_copy(a->o);
    pthread_mutex_unlock(&x->lock);
    return o;
}
