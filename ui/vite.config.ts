import { fileURLToPath } from "node:url";

import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

// The host is chosen when the panel is built: a fake never ships.
export default defineConfig(({ mode }) => {
  const fake = mode === "fake" || mode === "test";
  return {
    plugins: [svelte()],
    base: "./",
    resolve: {
      alias: {
        "#host": at(fake ? "./src/host/fake/open.ts" : "./src/host/tauri.ts"),
        "#icons": at("../icons/source"),
      },
      ...(mode === "test" ? { conditions: ["browser"] } : {}),
    },
    server: { fs: { allow: [at("."), at("../icons")] } },
    build: {
      outDir: fake ? "dist-fake" : "dist",
      target: ["safari15", "chrome111"],
      // Nothing inline: the page's policy allows no inline script or style.
      assetsInlineLimit: 0,
      modulePreload: false,
      chunkSizeWarningLimit: 300,
    },
    test: {
      projects: [
        {
          extends: true,
          test: { name: "unit", include: ["tests/unit/**/*.test.ts"], environment: "node" },
        },
        {
          extends: true,
          test: {
            name: "browser",
            include: ["tests/browser/**/*.test.ts"],
            environment: "node",
            testTimeout: 60_000,
            hookTimeout: 60_000,
            fileParallelism: false,
          },
        },
      ],
    },
  };
});
