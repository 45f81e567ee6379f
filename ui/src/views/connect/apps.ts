/**
 * Client apps and how each is pointed at OneSlot. Names and texts to paste are the apps' own and
 * the same in every language; where they go and what to mind is in the words.
 *
 * An app prefix in the address names the caller; `calls` are the names it may go by without one.
 */
import type { Key } from "../../i18n/translate";

export interface App {
  id: string;
  name: string;
  /** Names in records, lower case, by which it is known to have called. */
  calls: string[];
  /** Where the text goes. */
  where: Key;
  /** What goes wrong most often. */
  mind: Key | null;
  /** The text to paste, for a base address and a model. */
  text: (base: string, model: string) => string;
}

/** Whether one of the names that called is this app's. */
export function hasCalled(app: App, seen: ReadonlySet<string>): boolean {
  for (const name of seen) if (isCall(app, name)) return true;
  return false;
}

/** Whether the name is this app's. */
export function isCall(app: App, name: string): boolean {
  const lower = name.toLowerCase();
  return lower === app.id || app.calls.includes(lower);
}

const under = (base: string, id: string): string => `${base}/app/${id}`;
const hostAndPort = (base: string): string => base.replace(/^https?:\/\//, "");

export const apps: App[] = [
  {
    id: "open-webui",
    name: "Open WebUI",
    calls: ["openwebui", "open webui"],
    where: "app.open-webui.where",
    mind: "app.open-webui.mind",
    text: (base) => `OPENAI_API_BASE_URL=${under(base, "open-webui")}/v1\nOPENAI_API_KEY=oneslot`,
  },
  {
    id: "zed",
    name: "Zed",
    calls: [],
    where: "app.zed.where",
    mind: "app.zed.mind",
    text: (base) => json({ language_models: { ollama: { api_url: under(base, "zed") } } }),
  },
  {
    id: "continue",
    name: "Continue",
    calls: ["continue-dev"],
    where: "app.continue.where",
    mind: "app.continue.mind",
    text: (base, model) =>
      [
        "models:",
        "  - name: OneSlot",
        "    provider: openai",
        `    model: ${model}`,
        `    apiBase: ${under(base, "continue")}/v1`,
        "    apiKey: oneslot",
      ].join("\n"),
  },
  {
    id: "cline",
    name: "Cline",
    calls: [],
    where: "app.cline.where",
    mind: "app.cline.mind",
    text: (base) => under(base, "cline"),
  },
  {
    id: "claude-code",
    name: "Claude Code",
    calls: ["claude-cli", "claude-code"],
    where: "app.claude-code.where",
    mind: "app.claude-code.mind",
    text: (base, model) =>
      json({
        env: {
          ANTHROPIC_BASE_URL: under(base, "claude-code"),
          ANTHROPIC_AUTH_TOKEN: "oneslot",
          ANTHROPIC_MODEL: model,
        },
      }),
  },
  {
    id: "codex",
    name: "Codex CLI",
    calls: ["codex_cli_rs", "codex-cli"],
    where: "app.codex.where",
    mind: "app.codex.mind",
    text: (base, model) =>
      [
        `model = "${model}"`,
        'model_provider = "oneslot"',
        "",
        "[model_providers.oneslot]",
        'name = "OneSlot"',
        `base_url = "${under(base, "codex")}/v1"`,
        'wire_api = "responses"',
      ].join("\n"),
  },
  {
    id: "opencode",
    name: "opencode",
    calls: [],
    where: "app.opencode.where",
    mind: "app.opencode.mind",
    text: (base, model) =>
      json({
        provider: {
          oneslot: {
            npm: "@ai-sdk/openai-compatible",
            options: { baseURL: `${under(base, "opencode")}/v1` },
            models: { [model]: {} },
          },
        },
      }),
  },
  {
    id: "aider",
    name: "aider",
    calls: ["litellm"],
    where: "app.aider.where",
    mind: "app.aider.mind",
    text: (base) => `OLLAMA_API_BASE=${under(base, "aider")}`,
  },
  {
    id: "ollama",
    name: "Ollama CLI",
    calls: ["ollama-python", "ollama-js"],
    where: "app.ollama.where",
    mind: "app.ollama.mind",
    text: (base) => `OLLAMA_HOST=${under(base, "ollama")}`,
  },
  {
    id: "openai",
    name: "OpenAI SDK",
    calls: ["openai-python", "openai-node"],
    where: "app.openai.where",
    mind: "app.openai.mind",
    text: (base) => `OPENAI_BASE_URL=${base}/v1\nOPENAI_API_KEY=oneslot`,
  },
  {
    id: "langchain",
    name: "LangChain",
    calls: [],
    where: "app.langchain.where",
    mind: "app.langchain.mind",
    text: (base) => `OPENAI_API_BASE=${under(base, "langchain")}/v1\nOPENAI_API_KEY=oneslot`,
  },
  {
    id: "obsidian-copilot",
    name: "Obsidian Copilot",
    calls: ["obsidian"],
    where: "app.obsidian-copilot.where",
    mind: "app.obsidian-copilot.mind",
    text: (base) => under(base, "obsidian-copilot"),
  },
  {
    id: "jan",
    name: "Jan",
    calls: [],
    where: "app.jan.where",
    mind: "app.jan.mind",
    text: (base) => `${under(base, "jan")}/v1`,
  },
  {
    id: "chatbox",
    name: "Chatbox",
    calls: ["chatboxapp"],
    where: "app.chatbox.where",
    mind: null,
    text: (base) => under(base, "chatbox"),
  },
  {
    id: "cherry-studio",
    name: "Cherry Studio",
    calls: ["cherrystudio"],
    where: "app.cherry-studio.where",
    mind: "app.cherry-studio.mind",
    text: (base) => under(base, "cherry-studio"),
  },
  {
    id: "librechat",
    name: "LibreChat",
    calls: [],
    where: "app.librechat.where",
    mind: "app.librechat.mind",
    text: (base, model) =>
      [
        "endpoints:",
        "  custom:",
        '    - name: "Ollama (OneSlot)"',
        '      apiKey: "oneslot"',
        `      baseURL: "${under(base, "librechat")}/v1/"`,
        "      models:",
        `        default: ["${model}"]`,
        "        fetch: true",
      ].join("\n"),
  },
  {
    id: "anythingllm",
    name: "AnythingLLM",
    calls: [],
    where: "app.anythingllm.where",
    mind: null,
    text: (base) => under(base, "anythingllm"),
  },
  {
    id: "raycast",
    name: "Raycast",
    calls: [],
    where: "app.raycast.where",
    mind: "app.raycast.mind",
    text: hostAndPort,
  },
];

function json(value: unknown): string {
  return JSON.stringify(value, null, 2);
}
