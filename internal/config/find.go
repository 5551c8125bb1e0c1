package config

import (
	"os"
	"path/filepath"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Find returns the path of the configuration file: the first of named, $BIPLANE_CONFIG,
// ./biplane.yaml, ./.mcp.json, and biplane/biplane.yaml in the user's configuration folder. It is
// empty if there is none.
func Find(named string) (string, error) {
	if named == "" {
		named = os.Getenv("BIPLANE_CONFIG")
	}
	if named != "" {
		return filepath.Abs(named)
	}
	places := []string{"biplane.yaml", ".mcp.json"}
	if dir := userConfigFolder(); dir != "" {
		places = append(places, filepath.Join(dir, "biplane", "biplane.yaml"))
	}
	for _, p := range places {
		if fi, err := os.Stat(p); err == nil && !fi.IsDir() {
			return filepath.Abs(p)
		}
	}
	return "", nil
}

// UserFolder returns the folder of Biplane's configuration in the user's configuration folder.
func UserFolder() (string, error) {
	dir := userConfigFolder()
	if dir == "" {
		return "", tool.Errorf(tool.Invalid, "no home folder for the configuration: name a file with --config")
	}
	return filepath.Join(dir, "biplane"), nil
}

func userConfigFolder() string {
	if d := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(d) {
		return d
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".config")
}

// DataFolder returns the data folder: the first of named, $XDG_DATA_HOME/biplane and
// ~/.local/share/biplane.
func DataFolder(named string) (string, error) {
	if named != "" {
		return filepath.Abs(named)
	}
	if d := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "biplane"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", tool.Errorf(tool.Invalid, "no home folder for the data: give one with --data-dir: %w", err)
	}
	return filepath.Join(home, ".local", "share", "biplane"), nil
}
