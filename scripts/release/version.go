package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// semantic matches the versions that a release may have. A build part (+…) is not among them: tags
// of images and names of charts cannot have it.
var semantic = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z][0-9A-Za-z.]*)?$`)

// identify sets the version, the commit and the time of the release. The number of the version is
// that of the newest section of CHANGELOG.md, its only source. Without an explicit version, a
// commit with the tag of that number is the release. Every other commit is a version that sorts
// before it, and two of them sort by their dates. An explicit version must be that number or sort
// before it.
func (r *release) identify(version string) error {
	log, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return fmt.Errorf("%w; run it in the root of the repository", err)
	}
	newest, _, err := newestSection(string(log))
	if err != nil {
		return err
	}
	module, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	found := regexp.MustCompile(`(?m)^go (\d+\.\d+\.\d+)$`).FindSubmatch(module)
	if found == nil {
		return errors.New("go.mod does not name one version of Go (go 1.2.3), so the compiler is not fixed")
	}
	r.goVersion = string(found[1])
	if r.commit, err = output("git", "rev-parse", "HEAD"); err != nil {
		return err
	}
	changed, err := output("git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if r.time, err = sourceDate(); err != nil {
		return err
	}
	tag, _ := output("git", "describe", "--tags", "--exact-match", "--match", "v[0-9]*") // an error: it has none
	switch {
	case version != "" && !semantic.MatchString(version):
		return fmt.Errorf("the version %q is not of the form 1.2.3 or 1.2.3-rc.1", version)
	case version != "" && version != newest.number && !strings.HasPrefix(version, newest.number+"-"):
		return fmt.Errorf("the version %s is not that of the newest section of CHANGELOG.md, %s; write its section first", version, newest.number)
	case version != "" && changed != "":
		return fmt.Errorf("a release is a commit, and these files differ from it; commit them, or leave the version out:\n%s", changed)
	case version == "" && changed == "" && tag == "v"+newest.number:
		version = newest.number
	case version == "":
		version = fmt.Sprintf("%s-git.%s.%.8s", newest.number, r.time.Format("20060102150405"), r.commit)
		if changed != "" {
			version += ".changed"
		}
	}
	if version == newest.number && newest.unreleased {
		return fmt.Errorf("CHANGELOG.md calls %s unreleased; remove that from the heading", version)
	}
	if at, err := output("git", "rev-parse", "--verify", "-q", "v"+version+"^{commit}"); err == nil && at != r.commit {
		return fmt.Errorf("the tag v%s names another commit, %.12s; a version is released once", version, at)
	}
	r.version, r.stamp = version, "v"+version
	return nil
}

// sourceDate returns the time of all files: SOURCE_DATE_EPOCH
// (https://reproducible-builds.org/specs/source-date-epoch/), or that of the commit.
func sourceDate() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		var err error
		if text, err = output("git", "log", "-1", "--format=%ct"); err != nil {
			return time.Time{}, err
		}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %q is no number of seconds", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// A section is the heading of a version in CHANGELOG.md.
type section struct {
	number     string
	unreleased bool
}

// newestSection returns the first section of a changelog, and its text.
func newestSection(log string) (section, string, error) {
	_, rest, ok := strings.Cut(log, "\n## ")
	if !ok {
		return section{}, "", errors.New("CHANGELOG.md has no section of a version (## 1.2.3)")
	}
	heading, text, _ := strings.Cut(rest, "\n")
	text, _, _ = strings.Cut(text, "\n## ")
	number, after, _ := strings.Cut(heading, " ")
	if !semantic.MatchString(number) || strings.Contains(number, "-") {
		return section{}, "", fmt.Errorf("CHANGELOG.md: the heading %q does not begin with a version (1.2.3)", heading)
	}
	return section{number, after == "(unreleased)"}, strings.TrimSpace(text), nil
}

// output runs a command and returns what it prints, without the last line end.
func output(name string, args ...string) (string, error) { return outputWith(nil, name, args...) }

// outputWith is output with more variables in the environment.
func outputWith(env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
