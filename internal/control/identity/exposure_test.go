package identity_test

import (
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/identity"
)

func TestCheckExposure(t *testing.T) {
	for _, tt := range []struct {
		addr            string
		signIn, private bool
		want            string
	}{
		{"127.0.0.1:0", false, false, ""}, {"localhost:80", false, false, ""}, {"[::1]:80", false, false, ""},
		{"0.0.0.0:80", false, false, "without sign-in"}, {":80", false, true, "without sign-in"},
		{"10.0.0.1:80", false, false, "without sign-in"},
		{"0.0.0.0:80", true, false, "without TLS"}, {"0.0.0.0:80", true, true, ""}, {"[::]:443", true, true, ""},
		{"80", true, true, "listen address"}, {"a:99999", true, true, "port"},
	} {
		err := identity.CheckExposure(tt.addr, tt.signIn, tt.private)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("tt = %+v, err = %v, want (err == nil) == (tt.want == \"\") && (err == nil || "+
				"strings.Contains(err.Error(), tt.want))", tt, err)
		}
	}
}
