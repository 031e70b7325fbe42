/* site.c -- requests to the hub, and what their errors mean. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/fail.h"
#include "cli/hub/hub_int.h"

#define HUB "https://huggingface.co"

bool hub_site_open(hub_site *s)
{
    const char *endpoint = getenv("HF_ENDPOINT");
    *s = (hub_site){.curl = NULL};
    if (!endpoint || !*endpoint) endpoint = HUB;
    size_t n = strlen(endpoint);
    while (n && endpoint[n - 1] == '/') n--;
    if (n >= sizeof s->endpoint ||
        (strncmp(endpoint, "http://", 7) != 0 && strncmp(endpoint, "https://", 8) != 0))
        return cli_fail_with("HF_ENDPOINT: \"%s\" is not the URL of a hub", endpoint), false;
    memcpy(s->endpoint, endpoint, n);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    s->curl = curl_easy_init();
    return s->curl || (cli_fail_with("a connection cannot be made: out of memory"), false);
}

void hub_site_close(hub_site *s)
{
    curl_easy_cleanup(s->curl);
    s->curl = NULL;
}

void hub_site_request(hub_site *s, const char *url)
{
    CURL *c = s->curl;
    const char *token = getenv("HF_TOKEN");
    bool secure = strncmp(s->endpoint, "https://", 8) == 0;
    curl_easy_reset(c); /* keeps the connection */
    s->why[0] = '\0';
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, 10L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 20L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, 30L);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, s->why);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "spolia/" SPOLIA_VERSION);
    if (!token || !*token) return;
    curl_easy_setopt(c, CURLOPT_HTTPAUTH, CURLAUTH_BEARER); /* not sent to another host */
    curl_easy_setopt(c, CURLOPT_XOAUTH2_BEARER, token);
}

void hub_explain(const hub_site *s, const char *repo, long status, const char *said)
{
    const char *token = getenv("HF_TOKEN");
    bool has_token = token && *token;
    if (status == 401 || status == 403)
        cli_fail_with("%s/%s: status %ld: the model does not exist, or it is private or gated: %s",
                      s->endpoint, repo, status,
                      has_token
                          ? "accept its terms on its page, as the user of HF_TOKEN"
                          : "accept its terms on its page and set HF_TOKEN to a token of yours");
    else if (status == 404)
        cli_fail_with("%s/%s: there is no such model or revision (status 404)", s->endpoint, repo);
    else
        cli_fail_with("%s/%s: status %ld: %.200s", s->endpoint, repo, status, said);
}

void hub_escape(char *url, size_t size, const char *text)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
    size_t n = strlen(url);
    for (; *text && n + 4 < size; text++)
        if (strchr(plain, *text))
            url[n++] = *text;
        else
            n += (size_t)snprintf(url + n, size - n, "%%%02X", (unsigned char)*text);
    url[n] = '\0';
}
