import { defineConfig } from "@playwright/test";

// One worker: the interactions' times are measured.
export default defineConfig({
  testDir: "tests",
  workers: 1,
  retries: 0,
  forbidOnly: true,
  reporter: [["list"]],
  use: {
    browserName: "chromium",
    viewport: { width: 1400, height: 1000 },
    launchOptions: {
      executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
      // As root, as CI is, Chromium has no sandbox of its own.
      args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
    },
  },
});
