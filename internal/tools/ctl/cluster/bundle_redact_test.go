package cluster

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Secrets are masked wherever they are; other texts are not.
func TestSecretsAreMasked(t *testing.T) {
	r := &redactor{known: []string{"hunter22"}}
	for in, want := range map[string]string{
		`{"key":"ssl.keystore.password","value":"S3cr"}`:                `{"key":"ssl.keystore.password","value":"***"}`,
		"{\n  \"key\": \"ssl.key.password\",\n  \"value\": \"a\\\"b\",": "{\n  \"key\": \"ssl.key.password\",\n  \"value\": \"***\",",
		`{"key":"ssl.keystore.password","value":null}`:                  `{"key":"ssl.keystore.password","value":null}`,
		`{"password": "S3cr", "user": "me"}`:                            `{"password": "***", "user": "me"}`,
		`{"msg":"sasl_password=S3cr user=me"}`:                          `{"msg":"sasl_password=*** user=me"}`,
		`{"msg":"{\"password\":\"S3cr\",\"user\":\"me\"}"}`:             `{"msg":"{\"password\":\"***\",\"user\":\"me\"}"}`,
		`//nas/x /mnt cifs rw,username=me,password=S3cr,uid=0 0 0`:      `//nas/x /mnt cifs rw,username=me,password=***,uid=0 0 0`,
		`dial http://me:S3cr@host:9644/v1: refused`:                     `dial http://me:***@host:9644/v1: refused`,
		`http://me:p@ss:w@host:9644/ and redis://:S3cr@host`:            `http://me:***@host:9644/ and redis://:***@host`,
		`Authorization: Bearer abc.def-ghi_jkl`:                         `Authorization: Bearer ***`,
		"-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE " +
			"KEY-----": "-----BEGIN EC PRIVATE KEY-----***-----END EC PRIVATE KEY-----",
		`sasl.jaas.config="org.X required username='a' password='b';"`: `sasl.jaas.config="***"`,
		`api_key: k1 api-key=k2`:                 `api_key: *** api-key=***`,
		`a client sent hunter22 twice: hunter22`: `a client sent *** twice: ***`,
		`--sasl-password-file=/etc/chronik/pw`:   `--sasl-password-file=***`,
		`{"sensitive":true,"tokens":null}`:       `{"sensitive":true,"tokens":null}`,
		`the password is wrong`:                  `the password is wrong`,
		`{"topic":"orders","records":3}`:         `{"topic":"orders","records":3}`,
	} {
		got, n := r.mask([]byte(in))
		if string(got) != want || (n > 0) != (in != want) {
			t.Errorf("%d secrets\n  in %s\n got %s\nwant %s", n, in, got, want)
		}
		if again, _ := r.mask(got); string(again) != want {
			t.Errorf("a second time: %s", again)
		}
	}
}

// Masking a text of many megabytes takes linear time.
func TestMaskingIsLinear(t *testing.T) {
	in := strings.Repeat(`{"key":"password`, 100_000)
	if got, _ := (&redactor{}).mask([]byte(in)); len(got) == 0 {
		t.Error("nothing is left")
	}
}

// The sources in the manifest and in README.txt contain no secrets.
func TestTheManifestHasNoSecrets(t *testing.T) {
	var file bytes.Buffer
	m := manifest{Brokers: "b:9092", Admin: "http://me:S3cr@host:9644"}
	members := []bundleMember{{name: "admin/health.json", source: "GET /v1/health?token=hunter22",
		err: errors.New("http://me:S3cr@host:9644: refused")}}
	must.OK(t, m.archive(&file, "d", members, &redactor{known: []string{"hunter22"}}))
	zip, err := gzip.NewReader(&file)
	must.OK(t, err)
	for r := tar.NewReader(zip); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.OK(t, err)
		text, err := io.ReadAll(r)
		if err != nil || bytes.Contains(text, []byte("S3cr")) || bytes.Contains(text, []byte("hunter22")) ||
			!bytes.Contains(text, []byte("host:9644")) {
			t.Errorf("%s, %v: %s", head.Name, err, text)
		}
	}
}
