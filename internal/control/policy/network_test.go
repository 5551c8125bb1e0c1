package policy

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
)

// TestTargetAddresses checks that an address has one spelling in policies and in the URL that is
// fetched, so that no other spelling evades a rule.
func TestTargetAddresses(t *testing.T) {
	for _, c := range []struct{ host, want, url string }{
		{"Example.COM", "example.com", "http://example.com/x"},
		{"example.com:80", "example.com", "http://example.com/x"},
		{"10.0.0.1:8080", "10.0.0.1", "http://10.0.0.1:8080/x"},
		{"[::1]", "::1", "http://[::1]/x"},
		{"[0:0::1]:8080", "::1", "http://[::1]:8080/x"},
		{"[0000:0000:0000:0000:0000:0000:0000:0001]", "::1", "http://[::1]/x"},
		{"[2001:DB8:0:0:0:0:0:1]", "2001:db8::1", "http://[2001:db8::1]/x"},
		{"[::ffff:10.0.0.1]", "10.0.0.1", "http://10.0.0.1/x"},
		{"[::FFFF:0a00:0001]:80", "10.0.0.1", "http://10.0.0.1/x"},
		{"1.example.com", "1.example.com", "http://1.example.com/x"},
		{"0xabc.example", "0xabc.example", "http://0xabc.example/x"},
	} {
		got, err := TargetOf(json.RawMessage(fmt.Sprintf(`{"url":"http://%s/x"}`, c.host)))
		if err != nil || got.Host != c.want || got.URL.String() != c.url {
			t.Errorf("%s: %+v, %v; want the host %s and the URL %s", c.host, got, err, c.want, c.url)
		}
	}
	for _, host := range []string{"127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "10.0.0.01",
		"10.0.0.1.2", "10.0.0.256", "1.2.3.99999999999999999999", "[fe80::1%25eth0]", "[::1", "[1.2.3.4]", "a.0x1"} {
		got, err := TargetOf(json.RawMessage(fmt.Sprintf(`{"url":"http://%s/x"}`, host)))
		if err == nil || tool.AsError(err).Kind != tool.Invalid {
			t.Errorf("%s: %+v, %v; want an error of kind invalid", host, got, err)
		}
	}
}
