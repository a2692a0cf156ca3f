package access

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/vfs"
)

func TestADirectoryIsAStore(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(vfs.OS(), &configdef.Archive{URL: "file://" + dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(context.Background(), "a/b", strings.NewReader("text")); err != nil {
		t.Fatal(err)
	}
	if err := s.List(context.Background(), "", func(in objects.Info) error {
		if in.Name != "a/b" || in.Size != 4 {
			t.Errorf("object %+v", in)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if _, err := Open(vfs.OS(), &configdef.Archive{URL: "file://" + dir + "/missing"}); err == nil || !strings.Contains(err.Error(), "mount") {
		t.Errorf("a missing directory: %v", err)
	}
}

// A bucket is opened once, so that its connections stay. A directory must be there each time.
func TestABucketIsOpenedOnce(t *testing.T) {
	o := NewOpener(vfs.OS(), &configdef.Archive{URL: "s3://b/x", Endpoint: "http://127.0.0.1:1"})
	first, err := o.Open()
	if err != nil {
		t.Fatal(err)
	}
	if second, err := o.Open(); err != nil || second != first {
		t.Errorf("another store for the same bucket, %v", err)
	}
	dir := filepath.Join(t.TempDir(), "mounted")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	o = NewOpener(vfs.OS(), &configdef.Archive{URL: "file://" + dir})
	if _, err := o.Open(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Open(); err == nil {
		t.Error("a directory that is gone was opened")
	}
	if _, err := NewOpener(vfs.OS(), &configdef.Archive{}).Open(); !errors.Is(err, errNoURL) {
		t.Errorf("without a store: %v", err)
	}
}

// Keys follow their file, and only the sections and files that are meant are used.
func TestKeysFollowTheirFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	k := &keys{file: file}
	read := func(text string, mode os.FileMode) (string, error) {
		t.Helper()
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		k.checked = time.Time{}
		got, err := k.read()
		return got.ID + "/" + string(got.Secret.Bytes()) + "/" + string(got.Session.Bytes()), err
	}
	for text, want := range map[string]string{
		"aws_access_key_id=a\naws_secret_access_key = b\n":                                                              "a/b/",
		"[other]\naws_access_key_id=x\n[default]\naws_access_key_id=a\naws_secret_access_key=b=\naws_session_token=c\n": "a/b=/c",
	} {
		if got, err := read(text, 0o600); err != nil || got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "aws_access_key_id=a\n", "[other]\naws_access_key_id=a\naws_secret_access_key=b\n"} {
		if _, err := read(text, 0o600); err == nil || !strings.Contains(err.Error(), "aws_access_key_id = ID") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := read("aws_access_key_id=a\naws_secret_access_key=b\n", 0o644); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: %v", err)
	}
	k = &keys{}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	if _, err := k.read(); err == nil || !strings.Contains(err.Error(), "archive.keys.file") {
		t.Errorf("no keys: %v", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "a")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "b")
	if got, err := k.read(); err != nil || got.ID != "a" {
		t.Errorf("%+v, %v", got, err)
	}
}
