package sink

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestSign signs the examples published by AWS: its test suite for Signature Version 4,
// and of "Authenticating Requests: Using the Authorization Header" in the S3 API reference.
func TestSign(t *testing.T) {
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	suite := credential{id: "AKIDEXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", region: "us-east-1",
		service: "service"}
	s3 := credential{id: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
		region: "us-east-1", service: "s3"}
	suiteTime := time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)
	s3Time := time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name, method, url, payload string
		header                     map[string]string
		by                         credential
		at                         time.Time
		signed, signature          string
	}{
		{"get-vanilla", "GET", "https://example.amazonaws.com/", empty, nil, suite, suiteTime,
			"host;x-amz-date", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		{"get-vanilla-query-order-key-case", "GET", "https://example.amazonaws.com/?Param2=value2&Param1=value1", empty,
			nil, suite, suiteTime,
			"host;x-amz-date", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
		{"post-vanilla", "POST", "https://example.amazonaws.com/", empty, nil, suite, suiteTime,
			"host;x-amz-date", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
		{"s3 get object", "GET", "https://examplebucket.s3.amazonaws.com/test.txt", empty,
			map[string]string{"Range": "bytes=0-9", "X-Amz-Content-Sha256": empty}, s3, s3Time,
			"host;range;x-amz-content-sha256;x-amz-date",
			"f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
		{"s3 put object", "PUT", "https://examplebucket.s3.amazonaws.com/test$file.text",
			"44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
			map[string]string{"Date": "Fri, 24 May 2013 00:00:00 GMT", "X-Amz-Storage-Class": "REDUCED_REDUNDANCY",
				"X-Amz-Content-Sha256": "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"}, s3, s3Time,
			"date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
			"98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
		{"s3 get bucket lifecycle", "GET", "https://examplebucket.s3.amazonaws.com/?lifecycle", empty,
			map[string]string{"X-Amz-Content-Sha256": empty}, s3, s3Time,
			"host;x-amz-content-sha256;x-amz-date", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
		{"s3 list objects", "GET", "https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J", empty,
			map[string]string{"X-Amz-Content-Sha256": empty}, s3, s3Time,
			"host;x-amz-content-sha256;x-amz-date", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := http.NewRequest(tt.method, tt.url, nil)
			if err != nil {
				t.Fatalf("http.NewRequest: %v", err)
			}
			for k, v := range tt.header {
				r.Header.Set(k, v)
			}
			tt.by.signRequest(r, tt.payload, tt.at)
			got := r.Header.Get("Authorization")
			if !strings.Contains(got, "SignedHeaders="+tt.signed+",") ||
				!strings.HasSuffix(got, "Signature="+tt.signature) {
				t.Errorf("signed %s", got)
			}
		})
	}
}
