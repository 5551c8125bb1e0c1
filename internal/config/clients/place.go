package clients

import (
	"path/filepath"
)

// A Machine describes where the files of clients are.
type Machine struct {
	OS     string // as runtime.GOOS
	Home   string
	Folder string            // the working folder, absolute
	Env    map[string]string // environment variables that move the folders of clients
}

// A Place is a file in which a client keeps MCP servers.
type Place struct {
	Client string
	File   string
	folder string // the project's folder; empty for a file of the user
	format format
}

// A format says how a client writes its file.
type format int

const (
	literal    format = iota // Claude Desktop and others: mcpServers, without variables
	claudeCode               // mcpServers, also in projects; ${NAME} and ${NAME:-default}
	editor                   // Cursor, Windsurf, Roo Code: mcpServers; ${env:NAME}, ${userHome}, ${workspaceFolder}
	vscode                   // as editor, but servers, or mcp.servers in its settings; ${input:id}
	gemini                   // mcpServers; $NAME and ${NAME}; url is HTTP with SSE
	codex                    // TOML: mcp_servers
	zed                      // context_servers
	openCode                 // mcp, or mcp.servers; the command is a list; {env:NAME}
	copilot                  // as literal, and tools lists the tools that are used
	grok                     // as codex; ${NAME} and ${NAME:-default}
	crush                    // mcp; $NAME and ${NAME}
	goose                    // YAML: extensions, among Goose's own; cmd, envs, uri
)

// isTOML reports whether the file is TOML.
func (f format) isTOML() bool { return f == codex || f == grok }

// ListPlaces returns the files in which the known clients keep their servers, whether or not they
// exist. Files of the project come first.
func ListPlaces(m Machine) []Place { return dropDuplicates(listAllPlaces(m)) }

// listAllPlaces is ListPlaces without dropping duplicates.
func listAllPlaces(m Machine) []Place {
	data := m.dataFolder()
	home := func(path ...string) string { return filepath.Join(append([]string{m.Home}, path...)...) }
	claude, codexHome := m.Env["CLAUDE_CONFIG_DIR"], m.Env["CODEX_HOME"]
	if claude == "" {
		claude = m.Home
	}
	if codexHome == "" {
		codexHome = home(".codex")
	}
	var out []Place
	project := func(client string, f format, path ...string) {
		file := filepath.Join(append([]string{m.Folder}, path...)...)
		out = append(out, Place{Client: client, File: file, folder: m.Folder, format: f})
	}
	user := func(client string, f format, file string) {
		out = append(out, Place{Client: client, File: file, format: f})
	}
	project("Claude Code", claudeCode, ".mcp.json")
	project("Cursor", editor, ".cursor", "mcp.json")
	project("VS Code", vscode, ".vscode", "mcp.json")
	project("Codex", codex, ".codex", "config.toml")
	project("Gemini", gemini, ".gemini", "settings.json")
	project("Grok Build", grok, ".grok", "config.toml")
	project("Crush", crush, "crush.json")
	project("Crush", crush, ".crush.json")
	project("Continue", claudeCode, ".continue", "mcpServers", "mcp.json")
	user("Claude Desktop", literal, filepath.Join(data, "Claude", "claude_desktop_config.json"))
	user("Claude Code", claudeCode, filepath.Join(claude, ".claude.json"))
	user("Cursor", editor, home(".cursor", "mcp.json"))
	for _, name := range []string{"Code", "Code - Insiders"} {
		user("VS Code", vscode, filepath.Join(data, name, "User", "mcp.json"))
		user("VS Code", vscode, filepath.Join(data, name, "User", "settings.json"))
	}
	user("Windsurf", editor, home(".codeium", "windsurf", "mcp_config.json"))
	user("Codex", codex, filepath.Join(codexHome, "config.toml"))
	user("Goose", goose, m.gooseFile())
	user("Gemini", gemini, home(".gemini", "settings.json"))
	user("Zed", zed, m.zedFile())
	for _, name := range []string{"opencode.json", "opencode.jsonc"} {
		user("OpenCode", openCode, filepath.Join(m.configFolder(), "opencode", name))
	}
	extension := filepath.Join(data, "Code", "User", "globalStorage")
	user("Cline", literal, home(".cline", "data", "settings", "cline_mcp_settings.json"))
	user("Cline", literal, filepath.Join(extension, "saoudrizwan.claude-dev", "settings", "cline_mcp_settings.json"))
	user("Roo Code", editor, filepath.Join(extension, "rooveterinaryinc.roo-cline", "settings", "mcp_settings.json"))
	user("Kiro", claudeCode, home(".kiro", "settings", "mcp.json"))
	user("LM Studio", literal, home(".lmstudio", "mcp.json"))
	user("LM Studio", literal, home(".cache", "lm-studio", "mcp.json"))
	user("Amazon Q", literal, home(".aws", "amazonq", "mcp.json"))
	user("Copilot CLI", copilot, home(".copilot", "mcp-config.json"))
	// docs.x.ai/build/features/mcp-servers
	user("Grok Build", grok, home(".grok", "config.toml"))
	// Its docs/config/README.md: the JSON form is merged with crushrc, which is a script.
	user("Crush", crush, filepath.Join(m.configFolder(), "crush", "crush.json"))
	// Versions from 2.0 on, and its command line, read the first (antigravity.google/docs/mcp).
	user("Antigravity", literal, home(".gemini", "config", "mcp_config.json"))
	user("Antigravity", literal, home(".gemini", "antigravity", "mcp_config.json"))
	// docs.anythingllm.com/mcp-compatibility: the folder plugins of the desktop program's storage
	user("AnythingLLM", literal,
		filepath.Join(data, "anythingllm-desktop", "storage", "plugins", "anythingllm_mcp_servers.json"))
	// Its core/context/mcp/json/loadJsonMcpConfigs.ts reads all JSON files in this folder.
	user("Continue", claudeCode, home(".continue", "mcpServers", "mcp.json"))
	return out
}

// dropDuplicates drops files that are in the list twice, as when the working folder is the home
// folder.
func dropDuplicates(list []Place) (out []Place) {
	seen := map[string]bool{}
	for _, p := range list {
		if !seen[p.File] {
			seen[p.File] = true
			out = append(out, p)
		}
	}
	return out
}

// configFolder returns the folder for configuration that command-line programs use on all systems.
func (m Machine) configFolder() string {
	if d := m.Env["XDG_CONFIG_HOME"]; filepath.IsAbs(d) {
		return d
	}
	return filepath.Join(m.Home, ".config")
}

// zedFile returns the settings of Zed.
func (m Machine) zedFile() string {
	switch m.OS {
	case "windows":
		return filepath.Join(m.dataFolder(), "Zed", "settings.json")
	case "darwin":
		return filepath.Join(m.Home, ".config", "zed", "settings.json")
	}
	return filepath.Join(m.configFolder(), "zed", "settings.json")
}

// gooseFile returns the settings of Goose (its documentation/docs/guides/config-files.md).
func (m Machine) gooseFile() string {
	if m.OS == "windows" {
		return filepath.Join(m.dataFolder(), "Block", "goose", "config", "config.yaml")
	}
	return filepath.Join(m.configFolder(), "goose", "config.yaml")
}

// dataFolder returns the folder in which desktop programs keep their files.
func (m Machine) dataFolder() string {
	switch m.OS {
	case "darwin":
		return filepath.Join(m.Home, "Library", "Application Support")
	case "windows":
		if d := m.Env["APPDATA"]; d != "" {
			return d
		}
		return filepath.Join(m.Home, "AppData", "Roaming")
	}
	if d := m.Env["XDG_CONFIG_HOME"]; filepath.IsAbs(d) {
		return d
	}
	return filepath.Join(m.Home, ".config")
}
