package s3store

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // S3 verifies uploads with it
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/objecttest"
)

// actual is a server with an empty bucket that CHRONIK_S3 names, like http://127.0.0.1:9000/bucket.
// Its keys are CHRONIK_S3_ID and CHRONIK_S3_SECRET. scripts/object-stores.sh starts such servers.
type actual struct{ endpoint, bucket, id, secret string }

func realServer(t *testing.T) actual {
	t.Helper()
	at := os.Getenv("CHRONIK_S3")
	i := strings.LastIndex(at, "/")
	if i < 0 {
		t.Skip("CHRONIK_S3 names no server")
	}
	return actual{at[:i], at[i+1:], os.Getenv("CHRONIK_S3_ID"), os.Getenv("CHRONIK_S3_SECRET")}
}

// open returns a store below a prefix that no other one has.
func (r actual) open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(Options{Endpoint: r.endpoint, Bucket: r.bucket, Prefix: objects.NewNonce().String() + "/", Keys: func() (Keys, error) {
		return Keys{ID: r.id, Secret: secret.Of(r.secret)}, nil
	}})
	must.OK(t, err)
	t.Cleanup(s.Close)
	return s
}

func TestContractOfARealServer(t *testing.T) {
	r := realServer(t)
	objecttest.Run(t, func(t *testing.T) objects.Store {
		return objects.Repeat(r.open(t), attempts) // versitygw answers 409 if it removes a directory meanwhile
	})
}

// Requests that a real server cannot fulfil fail with the kind that tells an operator what to do.
func TestErrorsOfARealServer(t *testing.T) {
	r := realServer(t)
	open := os.Getenv("CHRONIK_S3_OPEN") != "" // the server accepts all keys
	for _, c := range []struct {
		what    string
		change  func(*actual)
		refused bool
	}{
		{"an unknown key", func(r *actual) { r.id += "x" }, true},
		{"another secret", func(r *actual) { r.secret += "x" }, true},
		{"an address without a server", func(r *actual) { r.endpoint = "http://127.0.0.1:1" }, false},
	} {
		if open && c.refused {
			continue
		}
		x := r
		c.change(&x)
		s, ctx := x.open(t), context.Background()
		for call, err := range map[string]error{
			"put":    s.Put(ctx, "x", bytes.NewReader([]byte("x"))),
			"get":    second(s.Get(ctx, "x", 0, make([]byte, 1))),
			"copy":   s.Copy(ctx, objects.Info{Name: "x"}, "y"),
			"delete": s.Delete(ctx, "x"),
			"list":   s.List(ctx, "", func(objects.Info) error { return nil }),
		} {
			if err == nil || errors.Is(err, objects.ErrRefused) != c.refused || errors.Is(err, objects.ErrNotFound) {
				t.Errorf("%s: %s: %v", c.what, call, err)
			}
		}
	}
}

func second(_ int, err error) error { return err }

// TestFeaturesOfARealServer prints the rows of the table in docs/snapshots.md. It fails without the
// features that chronik needs and the contract does not test.
func TestFeaturesOfARealServer(t *testing.T) {
	r := realServer(t)
	row := func(feature, answer string) { t.Logf("| %s | %s |", feature, answer) }
	content := objecttest.Bytes(5000, 1)
	base := objects.NewNonce().String() + "/"
	put := func(name string, p []byte, header ...string) string {
		return r.request(t, http.MethodPut, base+name, p, header...)
	}
	exists := func(name string) bool { return strings.HasPrefix(r.request(t, http.MethodHead, base+name, nil), "200") }

	if got := put("x", content); !strings.HasPrefix(got, "200") {
		t.Fatal("a Put: " + got)
	}
	row("conditional Put (`If-None-Match: *`) of an existing object", put("x", content, "If-None-Match", "*"))
	row("conditional Put of a missing object", put("condition", content, "If-None-Match", "*"))

	wrong := md5.Sum(content[1:]) //nolint:gosec // see above
	row("upload with another MD5 (`Content-MD5`)", put("md5", content, "Content-MD5", base64.StdEncoding.EncodeToString(wrong[:])))
	if exists("md5") && os.Getenv("CHRONIK_S3_OPEN") == "" {
		t.Error("an upload with another MD5 is an object")
	}
	sum := sha256.Sum256(content[1:])
	row("upload with another SHA-256 (`x-amz-content-sha256`)", put("sha", content, "X-Amz-Content-Sha256", hex.EncodeToString(sum[:])))
	row("upload with another CRC-32C (`x-amz-checksum-crc32c`)", put("crc", content, "X-Amz-Checksum-Crc32c", "AAAAAA=="))
	row("empty object", put("empty", []byte{}))
	row("object below another object (`a` and `a/b`)", put("a", content)+", "+put("a/b", content))
	large := r.large(t)
	row("copy of an object of 65 MiB, read in ranges without the original", large)
	if large != "works" {
		t.Error("old records cannot be restored within the store")
	}
	row("read from the end on", r.request(t, http.MethodGet, base+"x", nil, "Range", "bytes=5000-5010"))
	row("read of a missing object", r.request(t, http.MethodGet, base+"none", nil))
	row("delete of a missing object", r.request(t, http.MethodDelete, base+"none", nil))
	row("clock that is years late", r.late(t, base+"late", content))
	row("multipart upload", r.multipart(t, base+"parts"))
	row("read from a bucket that does not exist", r.other().request(t, http.MethodGet, base+"x", nil))
	row("Put into a bucket that does not exist", r.other().request(t, http.MethodPut, base+"x", content))
	row("list in pages of 2 of 3 objects, directly after their Puts", r.pages(t, base+"pages/"))
}

// request sends a signed request, and returns the status and the code of the answer.
func (r actual) request(t *testing.T, method, name string, content []byte, header ...string) string {
	t.Helper()
	return send(t, r.sign(t, method, name, content, header...))
}

// late is a Put whose signature has the time at which a bubble of synctest begins: the year 2000.
func (r actual) late(t *testing.T, name string, content []byte) string {
	t.Helper()
	var req *http.Request
	synctest.Test(t, func(t *testing.T) { req = r.sign(t, http.MethodPut, name, content) })
	return send(t, req.WithContext(t.Context()))
}

func (r actual) sign(t *testing.T, method, name string, content []byte, header ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.endpoint+"/"+r.bucket+"/"+name, bytes.NewReader(content))
	must.OK(t, err)
	sum := sha256.Sum256(content)
	req.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return signer.SignV4(*req, r.id, r.secret, "", "us-east-1")
}

func send(t *testing.T, req *http.Request) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "no answer: " + err.Error()
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	body, err := io.ReadAll(resp.Body)
	must.OK(t, err)
	code := ""
	if _, rest, ok := strings.Cut(string(body), "<Code>"); ok {
		code, _, _ = strings.Cut(rest, "</Code>")
	}
	return strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", code))
}

// other is a bucket that the server does not have.
func (r actual) other() actual {
	r.bucket += "-2"
	return r
}

// large copies an object that is as large as those of logs, deletes it, and reads ranges of the
// copy.
func (r actual) large(t *testing.T) string {
	t.Helper()
	s, ctx, want := r.open(t), t.Context(), objecttest.Bytes(65<<20, 3)
	objecttest.Put(t, s, "from", want)
	if err := s.Copy(ctx, objects.Info{Name: "from", Size: int64(len(want))}, "to"); err != nil {
		return err.Error()
	}
	must.OK(t, s.Delete(ctx, "from"))
	p := make([]byte, 1<<20)
	for off := len(want) - len(p); off >= 0; off -= 7<<20 - 1 {
		if n, err := s.Get(ctx, "to", int64(off), p); err != nil || !bytes.Equal(p[:n], want[off:off+len(p)]) {
			return fmt.Sprintf("%d bytes at %d, %v", n, off, err)
		}
	}
	must.OK(t, s.Delete(ctx, "to"))
	return "works"
}

// multipart uploads an object of two parts.
func (r actual) multipart(t *testing.T, name string) string {
	t.Helper()
	core, ctx := r.open(t).client, t.Context()
	id, err := core.NewMultipartUpload(ctx, r.bucket, name, minio.PutObjectOptions{})
	if err != nil {
		return err.Error()
	}
	var parts []minio.CompletePart
	content := [][]byte{objecttest.Bytes(5<<20, 1), objecttest.Bytes(100, 2)}
	for i, p := range content {
		part, err := core.PutObjectPart(ctx, r.bucket, name, id, i+1, bytes.NewReader(p), int64(len(p)), minio.PutObjectPartOptions{})
		if err != nil {
			return err.Error()
		}
		parts = append(parts, minio.CompletePart{PartNumber: i + 1, ETag: part.ETag})
	}
	if _, err := core.CompleteMultipartUpload(ctx, r.bucket, name, id, parts, minio.PutObjectOptions{}); err != nil {
		return err.Error()
	}
	info, err := core.StatObject(ctx, r.bucket, name, minio.StatObjectOptions{})
	if err != nil || info.Size != 5<<20+100 {
		return fmt.Sprintf("%d bytes, %v", info.Size, err)
	}
	return "done"
}

// pages lists three objects in pages of two.
func (r actual) pages(t *testing.T, prefix string) string {
	t.Helper()
	for _, name := range []string{"1", "2", "3"} {
		if got := r.request(t, http.MethodPut, prefix+name, []byte("x")); !strings.HasPrefix(got, "200") {
			return got
		}
	}
	core := r.open(t).client
	var found, token string
	for range 4 {
		page, err := core.ListObjectsV2(r.bucket, prefix, "", token, "", 2)
		if err != nil {
			return err.Error()
		}
		for _, x := range page.Contents {
			found += strings.TrimPrefix(x.Key, prefix)
		}
		if found += "."; !page.IsTruncated {
			break
		}
		token = page.NextContinuationToken
	}
	if found != "12.3." {
		return "wrong: " + found
	}
	return "complete"
}
