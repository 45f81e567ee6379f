/**
 * Client apps, and how each one is pointed at OneSlot. Only apps that work with the routes the
 * gateway serves are listed: OpenAI's chat completions and model list.
 *
 * Names and texts to paste are the app's own and the same in every language; where the text goes
 * and what often goes wrong is in `i18n/connect.json`. `first_requests.json` holds the first
 * requests of each app: a test of the gateway sends them.
 */
import type { Key } from "../../i18n/translate";

export interface App {
  id: string;
  name: string;
  /** Names in records, lower case, that belong to this app when it uses no app prefix. */
  aliases: string[];
  /** Path of the base URL that the text contains. */
  path: string;
  /** Where the text goes. */
  where: Key;
  /** What goes wrong most often. */
  hint: Key | null;
  /** The text to paste, for a base URL (origin and `path`) and a model. */
  text: (url: string, model: string) => string;
  /** What the app sends first, in order. */
  first: FirstRequest[];
}

/** One request; its path is relative to the app's base URL. */
export interface FirstRequest {
  method: "GET" | "POST";
  path: string;
  body?: unknown;
}

/** Whether any of these names belongs to the app. */
export function hasCalled(app: App, seen: ReadonlySet<string>): boolean {
  for (const name of seen) if (isNameOf(app, name)) return true;
  return false;
}

/** Whether the name belongs to the app. */
export function isNameOf(app: App, name: string): boolean {
  const lower = name.toLowerCase();
  return lower === app.id || app.aliases.includes(lower);
}

/** The text to paste, for a gateway at `origin`. */
export function snippet(app: App, origin: string, model: string): string {
  return app.text(origin + app.path, model);
}

const messages = [{ role: "user", content: "Say hello." }];

function chat(stream: boolean, path = "/chat/completions"): FirstRequest {
  return { method: "POST", path, body: { model: "m", messages, stream } };
}

const models: FirstRequest = { method: "GET", path: "/models" };

export const apps: App[] = [
  {
    id: "open-webui",
    name: "Open WebUI",
    aliases: ["openwebui", "open webui"],
    path: "/app/open-webui/v1",
    where: "app.open-webui.where",
    hint: "app.open-webui.hint",
    text: (url) => `OPENAI_API_BASE_URL=${url}\nOPENAI_API_KEY=oneslot`,
    first: [models, chat(true)],
  },
  {
    id: "zed",
    name: "Zed",
    aliases: [],
    path: "/app/zed/v1",
    where: "app.zed.where",
    hint: "app.zed.hint",
    text: (url, model) =>
      json({
        language_models: {
          openai_compatible: {
            OneSlot: {
              api_url: url,
              available_models: [{ name: model, display_name: model, max_tokens: 8192 }],
            },
          },
        },
      }),
    first: [chat(true)],
  },
  {
    id: "continue",
    name: "Continue",
    aliases: ["continue-dev"],
    path: "/app/continue/v1",
    where: "app.continue.where",
    hint: null,
    text: (url, model) =>
      [
        "models:",
        "  - name: OneSlot",
        "    provider: openai",
        `    model: ${model}`,
        `    apiBase: ${url}`,
        "    apiKey: oneslot",
        "    roles: [chat, edit, apply]",
      ].join("\n"),
    first: [chat(true)],
  },
  {
    id: "cline",
    name: "Cline",
    aliases: [],
    path: "/app/cline/v1",
    where: "app.cline.where",
    hint: "app.cline.hint",
    text: (url) => url,
    first: [chat(true)],
  },
  {
    id: "opencode",
    name: "opencode",
    aliases: [],
    path: "/app/opencode/v1",
    where: "app.opencode.where",
    hint: "app.opencode.hint",
    text: (url, model) =>
      json({
        provider: {
          oneslot: {
            npm: "@ai-sdk/openai-compatible",
            options: { baseURL: url },
            models: { [model]: {} },
          },
        },
      }),
    first: [chat(true)],
  },
  {
    id: "aider",
    name: "aider",
    aliases: ["litellm"],
    path: "/app/aider/v1",
    where: "app.aider.where",
    hint: "app.aider.hint",
    text: (url) => `OPENAI_API_BASE=${url}\nOPENAI_API_KEY=oneslot`,
    first: [chat(true)],
  },
  {
    id: "openai",
    name: "OpenAI SDK",
    aliases: ["openai-python", "openai-node"],
    path: "/v1",
    where: "app.openai.where",
    hint: "app.openai.hint",
    text: (url) => `OPENAI_BASE_URL=${url}\nOPENAI_API_KEY=oneslot`,
    first: [models, chat(false), chat(true)],
  },
  {
    id: "langchain",
    name: "LangChain",
    aliases: [],
    path: "/app/langchain/v1",
    where: "app.langchain.where",
    hint: "app.langchain.hint",
    text: (url) => `OPENAI_API_BASE=${url}\nOPENAI_API_KEY=oneslot`,
    first: [chat(false)],
  },
  {
    id: "obsidian-copilot",
    name: "Obsidian Copilot",
    aliases: ["obsidian"],
    path: "/app/obsidian-copilot/v1",
    where: "app.obsidian-copilot.where",
    hint: "app.obsidian-copilot.hint",
    text: (url) => url,
    first: [chat(true)],
  },
  {
    id: "jan",
    name: "Jan",
    aliases: [],
    path: "/app/jan/v1",
    where: "app.jan.where",
    hint: "app.jan.hint",
    text: (url) => url,
    first: [models, chat(true)],
  },
  {
    id: "chatbox",
    name: "Chatbox",
    aliases: ["chatboxapp"],
    path: "/app/chatbox/v1",
    where: "app.chatbox.where",
    hint: null,
    text: (url) => url,
    first: [models, chat(true)],
  },
  {
    id: "cherry-studio",
    name: "Cherry Studio",
    aliases: ["cherrystudio"],
    path: "/app/cherry-studio",
    where: "app.cherry-studio.where",
    hint: "app.cherry-studio.hint",
    text: (url) => url,
    first: [{ method: "GET", path: "/v1/models" }, chat(true, "/v1/chat/completions")],
  },
  {
    id: "librechat",
    name: "LibreChat",
    aliases: [],
    path: "/app/librechat/v1",
    where: "app.librechat.where",
    hint: "app.librechat.hint",
    text: (url, model) =>
      [
        "endpoints:",
        "  custom:",
        '    - name: "OneSlot"',
        '      apiKey: "oneslot"',
        `      baseURL: "${url}"`,
        "      models:",
        `        default: ["${model}"]`,
        "        fetch: true",
      ].join("\n"),
    first: [models, chat(true)],
  },
  {
    id: "anythingllm",
    name: "AnythingLLM",
    aliases: [],
    path: "/app/anythingllm/v1",
    where: "app.anythingllm.where",
    hint: null,
    text: (url) => url,
    first: [chat(true)],
  },
  {
    id: "raycast",
    name: "Raycast",
    aliases: [],
    path: "/app/raycast/v1",
    where: "app.raycast.where",
    hint: null,
    text: (url, model) =>
      [
        "providers:",
        "  - id: oneslot",
        "    name: OneSlot",
        `    base_url: ${url}`,
        "    models:",
        `      - id: ${model}`,
        `        name: ${model}`,
        "        context: 8192",
      ].join("\n"),
    first: [chat(true)],
  },
];

/** The contents of `first_requests.json`: what every app sends first, by path under the origin. */
export function firstRequests(): { app: string; requests: FirstRequest[] }[] {
  return apps.map(({ id, path, first }) => ({
    app: id,
    requests: first.map((request) => ({ ...request, path: path + request.path })),
  }));
}

function json(value: unknown): string {
  return JSON.stringify(value, null, 2);
}
