package main

import (
	"runtime/debug"
	"testing"
)

func TestABillHasEveryLinkedModule(t *testing.T) {
	const sum = "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=" // base64 of the SHA-256 of nothing
	b, err := describe(&debug.BuildInfo{GoVersion: "go1.26.8", Path: "example.com/a/cmd/a",
		Main: debug.Module{Path: "example.com/a", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "example.com/b", Version: "v0.1.0", Sum: sum},
			{Path: "example.com/c", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.0.1", Sum: sum}},
		}}, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pkg:golang/std@1.26.8", "pkg:golang/example.com/b@v0.1.0", "pkg:golang/example.com/fork@v1.0.1"}
	if len(b.Components) != len(want) {
		t.Fatalf("%+v", b.Components)
	}
	for i, c := range b.Components {
		if c.PURL != want[i] || b.Dependencies[0].On[i] != want[i] {
			t.Errorf("component %d is %+v, dependency %s, want %s", i, c, b.Dependencies[0].On[i], want[i])
		}
		if i > 0 && (len(c.Hashes) != 1 || c.Hashes[0].Content != "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855") {
			t.Errorf("the hash of %s is %v", c.PURL, c.Hashes)
		}
	}
	if b.Metadata.Component.Name != "example.com/a/cmd/a" || b.Metadata.Component.Version != "v1.2.3" {
		t.Errorf("the program is %+v", b.Metadata.Component)
	}
}

func TestABillOfAnArchiveHasEachProgramAndEachModuleOnce(t *testing.T) {
	var bills []*bom
	for _, name := range []string{"a", "b"} {
		b, err := describe(&debug.BuildInfo{GoVersion: "go1.26.8", Path: "example.com/m/cmd/" + name,
			Main: debug.Module{Path: "example.com/m"},
			Deps: []*debug.Module{{Path: "example.com/c", Version: "v1.0.0"}, {Path: "example.com/" + name, Version: "v1.0.0"}},
		}, "1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		bills = append(bills, b)
	}
	all := join("m-1.0.0", "1.0.0", bills)
	times := make(map[string]int)
	for _, c := range all.Components {
		times[c.Ref]++
	}
	for _, ref := range []string{
		"pkg:golang/example.com/m@1.0.0#cmd/a", "pkg:golang/example.com/m@1.0.0#cmd/b", "pkg:golang/std@1.26.8",
		"pkg:golang/example.com/a@v1.0.0", "pkg:golang/example.com/b@v1.0.0", "pkg:golang/example.com/c@v1.0.0",
	} {
		if times[ref] != 1 {
			t.Errorf("%s is there %d times", ref, times[ref])
		}
	}
	if len(all.Components) != 6 || len(all.Dependencies) != 3 || len(all.Dependencies[0].On) != 2 {
		t.Errorf("%d components, dependencies %+v", len(all.Components), all.Dependencies)
	}
}

func TestAWrongHashIsAnError(t *testing.T) {
	if _, err := describe(&debug.BuildInfo{Deps: []*debug.Module{{Path: "example.com/b", Sum: "h1:?"}}}, "v1"); err == nil {
		t.Error("there is no error")
	}
}
