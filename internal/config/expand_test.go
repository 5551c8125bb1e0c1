package config

import (
	"testing"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
)

func TestSecretVariable(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		want        bool
	}{
		{"GITHUB_TOKEN", "production", true},
		{"STRIPE", "rk-9f27Aq01", true},
		{"DB_PASSWORD", "correcthorse", true},
		{"HOOK", "https://hooks.example.com/services/T0/B1/xY9z", true},
		{"TOKEN", "short", false},
		{"HOME", "/home/ann/data", false},
		{"STAGE", "production", false},
		{"REGION", "eu-central-1", false},
		{"HOST", "db.internal.example.com:5432", false},
		{"API", "https://api.example.com/v1/", false},
	} {
		if got := mask.IsSecretVariable(tt.name, tt.value); got != tt.want {
			t.Errorf("%s, tt.value = %s, got = %t, want tt.want", tt.name, tt.value, got)
		}
	}
}
