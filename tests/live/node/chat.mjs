// One chat, or several at once, through the official OpenAI client for Node.
//
// The counterpart of ../chat.py: the same options, the same lines of JSON. `--sdk` chooses the
// client's major version. The packages lie in the folder that ONESLOT_TEST_CLIENTS names.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const { values: wish } = parseArgs({
  options: {
    sdk: { type: "string" },
    base: { type: "string" },
    stream: { type: "boolean", default: false },
    retries: { type: "string", default: "0" },
    "max-tokens": { type: "string", default: "16" },
    messages: { type: "string" },
    extra: { type: "string", default: "{}" },
    model: { type: "string", default: "smollm2" },
    key: { type: "string", default: "none" },
    timeout: { type: "string", default: "120" },
    clients: { type: "string", default: "1" },
    "gap-ms": { type: "string", default: "0" },
  },
});

const clients = process.env.ONESLOT_TEST_CLIENTS;
if (!clients || !wish.base || !["openai6", "openai7"].includes(wish.sdk)) {
  console.error("wants --sdk openai6|openai7, --base URL, and ONESLOT_TEST_CLIENTS");
  process.exit(2);
}
const packages = createRequire(join(clients, "resolve-from-here.js"));
const { default: OpenAI } = await import(pathToFileURL(packages.resolve(wish.sdk)));

const messages = wish.messages
  ? JSON.parse(readFileSync(wish.messages, "utf8"))
  : [{ role: "user", content: "Say hello." }];

async function chat(client) {
  const began = performance.now();
  const since = () => Math.round((performance.now() - began) * 10) / 10_000;
  const seen = {
    client,
    ok: false,
    text: "",
    finish: null,
    chunks: 0,
    usage: null,
    headers: {},
    attempts: [],
    error: null,
  };
  try {
    await ask(seen, since);
    seen.ok = true;
  } catch (error) {
    seen.error = seenIn(error);
  }
  seen.elapsed = since();
  console.log(JSON.stringify(seen));
}

async function ask(seen, since) {
  const openai = new OpenAI({
    baseURL: wish.base,
    apiKey: wish.key,
    maxRetries: Number(wish.retries),
    timeout: Number(wish.timeout) * 1000,
    fetch: async (...call) => {
      const attempt = { sent: since(), answered: null, status: null };
      seen.attempts.push(attempt);
      const response = await fetch(...call);
      attempt.answered = since();
      attempt.status = response.status;
      return response;
    },
  });
  const body = {
    model: wish.model,
    messages,
    max_tokens: Number(wish["max-tokens"]),
    stream: wish.stream,
    ...JSON.parse(wish.extra),
  };
  const { data, response } = await openai.chat.completions.create(body).withResponse();
  seen.headers = Object.fromEntries(response.headers);
  if (!wish.stream) {
    seen.usage = data.usage ?? null;
    for (const choice of data.choices) {
      seen.text += choice.message.content ?? "";
      seen.finish = choice.finish_reason;
    }
    return;
  }
  for await (const chunk of data) {
    seen.chunks += 1;
    seen.usage = chunk.usage ?? seen.usage;
    for (const choice of chunk.choices) {
      seen.text += choice.delta?.content ?? "";
      seen.finish = choice.finish_reason ?? seen.finish;
    }
  }
}

function seenIn(error) {
  return {
    class: error.constructor?.name ?? typeof error,
    status: error.status ?? null,
    code: error.code ?? null,
    type: error.type ?? null,
    message: String(error.message ?? error),
    headers: error.headers ? Object.fromEntries(error.headers) : {},
  };
}

const running = [];
for (let client = 0; client < Number(wish.clients); client += 1) {
  running.push(chat(client));
  await sleep(Number(wish["gap-ms"]));
}
await Promise.all(running);
