// server.js -- what the page asks the server: relative paths, so that it works below a prefix, and the API key.
import {text} from "./texts.js";

const base = new URL("../", import.meta.url);
const key_name = "spolia.key";
let ask_for_key = async () => null;

// The view asks the user once; until then all calls wait for the same answer.
let asking = null;
export function on_key_needed(ask) {
  ask_for_key = ask;
}

function headers(body) {
  const key = sessionStorage.getItem(key_name);
  return {
    ...(key ? {Authorization: "Bearer " + key} : {}),
    ...(typeof body === "string" ? {"Content-Type": "application/json"} : {}),
  };
}

export class ServerError extends Error {
  constructor(message, status, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function refusal(reply) {
  let e = {};
  try {
    e = (await reply.json()).error || {};
  } catch {
    // no JSON: a proxy's own page
  }
  return new ServerError(e.message || `${reply.status} ${reply.statusText}`, reply.status, e.code);
}

// send -- the reply of a request that succeeded; asks for a key when the server wants one.
export async function send(method, path, body, signal) {
  const sent = body === undefined || body instanceof FormData ? body : JSON.stringify(body);
  for (let wrong = false; ; wrong = true) {
    let reply;
    const used = sessionStorage.getItem(key_name);
    try {
      reply = await fetch(new URL(path, base), {method, body: sent, headers: headers(sent), signal});
    } catch (e) {
      throw e.name === "AbortError" ? e : new ServerError(text("offline"), 0, "offline");
    }
    if (reply.ok) return reply;
    if (reply.status !== 401) throw await refusal(reply);
    if (sessionStorage.getItem(key_name) !== used) continue; // another call has asked meanwhile
    asking ||= ask_for_key(wrong || used !== null).finally(() => (asking = null));
    const key = await asking;
    if (!key) throw await refusal(reply);
    sessionStorage.setItem(key_name, key);
  }
}

export const get = async (path, signal) => (await send("GET", path, undefined, signal)).json();
export const post = async (path, body, signal) => (await send("POST", path, body, signal)).json();
export const document_path = (id) => "v1/documents/" + encodeURIComponent(id);

// events -- of a reply that is a stream of server-sent events, each parsed.
async function* events(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    rest += value;
    const lines = rest.split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data:")) continue;
      const data = line.slice(5).trim();
      if (data === "[DONE]") return;
      yield JSON.parse(data);
    }
  }
}

// chat -- streams an answer: on_text gets each piece, on_thought those of what the model thinks first. Returns {id, finish,
// timings, spolia}.
export async function chat(body, {on_text, on_thought = () => {}, signal}) {
  const reply = await send("POST", "v1/chat/completions", {...body, stream: true}, signal);
  const result = {finish: null, timings: null, spolia: null};
  for await (const event of events(reply)) {
    if (event.error) throw new ServerError(event.error.message, 200, event.error.code);
    const choice = event.choices && event.choices[0];
    if (event.id) result.id = event.id;
    if (choice && choice.delta && choice.delta.reasoning_content) on_thought(choice.delta.reasoning_content);
    if (choice && choice.delta && choice.delta.content) on_text(choice.delta.content);
    if (choice && choice.finish_reason) result.finish = choice.finish_reason;
    if (choice && choice.citations) result.citations = choice.citations;
    if (event.timings) result.timings = event.timings;
    if (event.spolia) result.spolia = event.spolia;
  }
  if (!result.finish) throw new ServerError(text("offline"), 0, "broken_off");
  return result;
}

// metrics -- {"name": value} and {'name{a="b"}': value} of the server's Prometheus text.
export async function metrics(signal) {
  const all = {};
  for (const line of (await (await send("GET", "metrics", undefined, signal)).text()).split("\n")) {
    const at = line.lastIndexOf(" ");
    if (line && line[0] !== "#" && at > 0) all[line.slice(0, at).replace(/^spolia:/, "")] = Number(line.slice(at + 1));
  }
  return all;
}
