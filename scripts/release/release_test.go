package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// repository makes a repository with a changelog and a commit, and changes into it.
func repository(t *testing.T, changelog string) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("SOURCE_DATE_EPOCH", "")
	for path, text := range map[string]string{"CHANGELOG.md": changelog, "go.mod": "module example.com/m\n\ngo 1.26.8\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git(t, "init", "-q")
	git(t, "add", ".")
	git(t, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "first", "--date=2026-11-25T00:00:00Z")
}

func git(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-11-25T00:00:00Z")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

func TestTheVersionIsThatOfTheChangelog(t *testing.T) {
	repository(t, "# Changelog\n\n## 0.2.0\n\n- new\n\n## 0.1.0\n\n- old\n")
	for version, want := range map[string]string{
		"0.2.0": "", "0.2.0-rc.1": "", "0.1.0": "is not that of the newest section", "0.3.0": "is not that of the newest section",
		"v0.2.0": "is not of the form", "0.2.0+build": "is not of the form",
		"0.2.0-": "is not of the form", "0.2.0/../x": "is not of the form",
	} {
		r := new(release)
		err := r.identify(version)
		if want == "" && (err != nil || r.version != version || r.stamp != "v"+version || r.goVersion != "1.26.8") {
			t.Errorf("%s: %+v, %v", version, r, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: the error is %v, want %q", version, err, want)
		}
	}
	r := new(release)
	if err := r.identify(""); err != nil || !strings.HasPrefix(r.version, "0.2.0-git.20261125000000.") {
		t.Errorf("without a version it is %s, %v", r.version, err)
	}
	if v := r.packageVersion(); !strings.HasPrefix(v, "0.2.0~git.2026") {
		t.Errorf("the version of the packages is %s", v)
	}
	git(t, "tag", "v0.2.0")
	if err := r.identify(""); err != nil || r.version != "0.2.0" {
		t.Errorf("with its tag it is %s, %v", r.version, err)
	}
	if err := os.WriteFile("CHANGELOG.md", []byte("# Changelog\n\n## 0.2.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.identify("0.2.0"); err == nil || !strings.Contains(err.Error(), "CHANGELOG.md") {
		t.Errorf("a changed file is released: %v", err)
	}
	git(t, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-a", "-m", "second")
	if err := r.identify("0.2.0"); err == nil || !strings.Contains(err.Error(), "names another commit") {
		t.Errorf("a version is released twice: %v", err)
	}
}

func TestAnUnreleasedSectionIsNotReleased(t *testing.T) {
	repository(t, "# Changelog\n\n## 0.2.0 (unreleased)\n\n- new\n")
	if err := new(release).identify("0.2.0"); err == nil || !strings.Contains(err.Error(), "unreleased") {
		t.Errorf("the error is %v", err)
	}
	if err := new(release).identify("0.2.0-rc.1"); err != nil {
		t.Error(err)
	}
}

func TestTheSectionsOfTheTree(t *testing.T) {
	log, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	newest, text, err := newestSection(string(log))
	if err != nil || len(text) < 100 {
		t.Fatalf("%+v, %d bytes, %v", newest, len(text), err)
	}
	chart, err := os.ReadFile("../../" + chartDir + "/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"version: " + newest.number, "appVersion: " + newest.number} {
		if !strings.Contains(string(chart), "\n"+line+"\n") {
			t.Errorf("Chart.yaml has no line %q: its version is that of the newest section of CHANGELOG.md", line)
		}
	}
	for _, bad := range []string{"", "# Changelog\n", "# Changelog\n\n## Unreleased\n", "# Changelog\n\n## 1.0.0-rc.1\n"} {
		if _, _, err := newestSection(bad); err == nil {
			t.Errorf("%q has a section", bad)
		}
	}
}

// The image runs as deploy/docker/Dockerfile says.
func TestTheDockerfileIsRead(t *testing.T) {
	text, err := os.ReadFile("../../deploy/docker/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	c, err := parseDockerfile(string(text), map[string]string{"VERSION": "0.1.0"})
	if err != nil {
		t.Fatal(err)
	}
	if c.User != "65532:65532" || c.WorkingDir != "/var/lib/chronik" || c.StopSignal != "SIGTERM" ||
		!slices.Equal(c.Entrypoint, []string{"/usr/bin/chronikd"}) {
		t.Errorf("%+v", c)
	}
	if !slices.Contains(c.Env, "CHRONIK_LISTEN=:9092") || len(c.Env) != 4 || len(c.ExposedPorts) != 2 || len(c.Volumes) != 1 {
		t.Errorf("%v, %v, %v", c.Env, c.ExposedPorts, c.Volumes)
	}
	if c.Labels["org.opencontainers.image.version"] != "0.1.0" ||
		!strings.Contains(c.Labels["org.opencontainers.image.description"], " on disk") {
		t.Errorf("%v", c.Labels)
	}
	if h := c.Healthcheck; h == nil || h.StartPeriod != 10*time.Minute ||
		!slices.Equal(h.Test, []string{"CMD", "/usr/bin/chronikd", "health"}) {
		t.Errorf("%+v", c.Healthcheck)
	}
	for _, bad := range []string{
		"", "FROM debian\nUSER 1\n", "FROM scratch\nRUN x\n", "FROM scratch\nENV A\n", "FROM scratch\nENTRYPOINT x\n",
		"FROM scratch\nHEALTHCHECK NONE\n", "FROM scratch\nHEALTHCHECK --retries=3 CMD [\"x\"]\n", "FROM scratch\nLABEL a=\"b\n",
	} {
		if _, err := parseDockerfile(bad, nil); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// The archive depends neither on the order of the files nor on the modes of the disk.
func TestAnArchiveIsAlwaysTheSame(t *testing.T) {
	files := []file{{name: "b/c/d", data: []byte("d")}, {name: "a", data: []byte("a"), exec: true}, {name: "b/e/", user: 7}}
	at := time.Unix(1000, 0)
	one, err := tarOf(files, at)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(files)
	two, err := tarOf(files, at)
	if err != nil || !bytes.Equal(one, two) {
		t.Errorf("the order matters, %v", err)
	}
	var got []string
	for r := tar.NewReader(bytes.NewReader(one)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.Name+" "+h.FileInfo().Mode().String()+" "+h.Uname)
		if !h.ModTime.Equal(at) || h.Name == "b/e/" && (h.Uid != 7 || h.Gid != 7) {
			t.Errorf("%+v", h)
		}
	}
	want := []string{"a -rwxr-xr-x ", "b/ drwxr-xr-x ", "b/c/ drwxr-xr-x ", "b/c/d -rw-r--r-- ", "b/e/ drwxr-xr-x "}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if !bytes.Equal(compressed(one), compressed(two)) {
		t.Error("the compression differs")
	}
}

// A blob has the name and the size that its descriptor says.
func TestBlobsAreNamedByTheirContent(t *testing.T) {
	var l layout
	d, err := l.addJSON(typeConfig, map[string]int{"a": 1})
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]int
	if len(l.files) != 1 || l.files[0].name != "blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:") || d.Size != len(l.files[0].data) ||
		json.Unmarshal(l.files[0].data, &back) != nil ||
		d.Digest != "sha256:015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862" {
		t.Errorf("%+v, %+v", d, l.files)
	}
}

func TestOtherDirectoriesAreNotEmptied(t *testing.T) {
	dir := t.TempDir()
	for name, ours := range map[string]bool{"chronik-0.1.0.tgz": true, "SHA256SUMS.asc": true, notesName: true, "thesis.txt": false} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := emptyOrOurs(dir); (err == nil) != ours {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := emptyOrOurs(filepath.Join(dir, "absent")); err != nil {
		t.Error(err)
	}
}

func TestTheLinksOfNotesLeadToTheTag(t *testing.T) {
	got := relativeLink.ReplaceAllString("[a](docs/a.md#b-c) [b](https://example.com/) [c](#d)", "](X/$1)")
	if want := "[a](X/docs/a.md#b-c) [b](https://example.com/) [c](#d)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestWrongFlags(t *testing.T) {
	for _, list := range []string{"linux", "linux/", "/amd64", "linux/amd64,"} {
		if _, err := parsePlatforms(list); err == nil {
			t.Errorf("-platforms %s is accepted", list)
		}
	}
	if _, err := choose("packages,cake"); err == nil || !strings.Contains(err.Error(), "cake") {
		t.Errorf("-only: %v", err)
	}
}
