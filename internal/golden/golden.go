// Package golden holds what tests print against what stands in a file: the whole
// of it, or the generated part of a document.
//
// It owns the flag -update, with which a test writes the file anew. Tests call it;
// it knows nothing of what the texts say.
package golden

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files and generated parts of docs anew")

// File fails the test where got is not what the file holds, and shows the first
// paragraph that differs. again is the command that writes the file.
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
			t.Errorf("%s is not what is printed; look at it and run %s -update\n%s", path, again, block)
			return
		}
	}
	t.Errorf("%s holds more than is printed", path)
}

// Part fails the test where want does not stand between the markers of a part of a
// document.
func Part(t testing.TB, path, part, want, again string) {
	t.Helper()
	begin, end := fmt.Sprintf("<!-- generated: %s -->\n", part), fmt.Sprintf("<!-- end: %s -->\n", part)
	head, rest, ok := strings.Cut(read(t, path), begin)
	got, tail, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Errorf("%s has no part %q between its markers", path, part)
	case got == want:
	case *update:
		write(t, path, head+begin+want+end+tail)
	default:
		t.Errorf("%s: part %q is not what the code says; run %s -update", path, part, again)
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
