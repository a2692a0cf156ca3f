package ctl_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// untar FILE DIR unpacks a bundle into DIR, without its top directory.
func untar(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: untar FILE DIR")
	}
	f, err := os.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	zip, err := gzip.NewReader(f)
	ts.Check(err)
	for r := tar.NewReader(zip); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		ts.Check(err)
		top, name, _ := strings.Cut(head.Name, "/")
		if !strings.HasPrefix(top, "chronik-debug-2") || !filepath.IsLocal(name) {
			ts.Fatalf("the member %q", head.Name)
		}
		to := filepath.Join(ts.MkAbs(args[1]), filepath.FromSlash(name))
		ts.Check(os.MkdirAll(filepath.Dir(to), 0o700))
		text, err := io.ReadAll(r)
		ts.Check(err)
		ts.Check(os.WriteFile(to, text, 0o600))
	}
}

// hung VARIABLE sets a variable to an address that accepts connections and never answers, like a
// broker that hangs.
func hung(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: hung VARIABLE")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { ts.Check(l.Close()) })
	ts.Setenv(args[0], l.Addr().String()) // the kernel takes the connections
}
