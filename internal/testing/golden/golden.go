// Package golden compares the output of tests with a file: with the whole file, or with the
// generated part of a document.
//
// The package owns the flag -update, with which a test rewrites the file. It does not interpret the
// texts.
package golden

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files and generated parts of docs")

// Update reports whether tests rewrite files, for those whose files have another form.
func Update() bool { return *update }

// File fails the test if got differs from the file, and shows the first paragraph that differs.
// again is the command that updates the file.
func File(t testing.TB, path, got, again string) {
	t.Helper()
	if *update {
		write(t, path, got)
		return
	}
	want := read(t, path)
	if got == want {
		return
	}
	old := strings.Split(want, "\n\n")
	for i, block := range strings.Split(got, "\n\n") {
		if i >= len(old) || block != old[i] {
			t.Errorf("%s differs from the output; review it and run %s -update\n%s", path, again, block)
			return
		}
	}
	t.Errorf("%s holds more than the output", path)
}

// Part fails the test if want differs from the text between the markers of a part of a document.
func Part(t testing.TB, path, part, want, again string) {
	t.Helper()
	begin, end := fmt.Sprintf("<!-- generated: %s -->\n", part), fmt.Sprintf("<!-- end: %s -->\n", part)
	head, rest, ok := strings.Cut(read(t, path), begin)
	got, tail, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Errorf("%s has no part %q between markers", path, part)
	case got == want:
	case *update:
		write(t, path, head+begin+want+end+tail)
	default:
		t.Errorf("%s: part %q differs from the code; run %s -update", path, part, again)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
