// Starts the language server of serq for programs that are open.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function activate() {
  const command = workspace.getConfiguration("serq").get("command");
  client = new LanguageClient(
    "serq",
    "serq",
    { command, args: ["lsp"] },
    { documentSelector: [{ language: "serq" }] }
  );
  return client.start();
}

function deactivate() {
  return client && client.stop();
}

module.exports = { activate, deactivate };
